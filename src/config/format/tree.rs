//! What every format is read into.

/// Maps and lists within each other. Our deepest key has five levels; the limit keeps recursion off the stack's end.
pub(crate) const DEEPEST: usize = 64;

/// A value with the line it stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) line: usize,
    pub(crate) value: Value,
}

/// What stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    /// Any scalar, as written.
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    /// The number of nodes in the tree and the bytes of their texts and keys, for budgets.
    pub(crate) fn size(&self) -> (usize, usize) {
        let sum = |(nodes, bytes): (usize, usize), (more, longer)| (nodes + more, bytes + longer);
        match &self.value {
            Value::Null => (1, 0),
            Value::Text(text) => (1, text.len()),
            Value::List(items) => items.iter().map(Self::size).fold((1, 0), sum),
            Value::Map(entries) => {
                entries.iter().map(|(key, node)| sum((0, key.len()), node.size())).fold((1, 0), sum)
            }
        }
    }
}

/// Why a text cannot be read, and on which line.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) line: Option<usize>,
    pub(crate) why: String,
}

impl Unreadable {
    pub(crate) fn at(line: usize, why: impl Into<String>) -> Self {
        Self { line: Some(line), why: why.into() }
    }
}

/// The line of each byte of a text.
pub(crate) struct Lines(Vec<usize>);

impl Lines {
    pub(crate) fn of(text: &str) -> Self {
        Self(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect())
    }

    pub(crate) fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|end| *end < offset) + 1
    }
}
