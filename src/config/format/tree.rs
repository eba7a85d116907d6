//! What every format is read into.

use crate::config::address::Prefix;
use crate::config::error::{Issues, Place};
use crate::config::key::{self, Token};
use crate::config::layer::Leaf;
use std::sync::Arc;

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
    /// The number of nodes in the tree, for budgets.
    pub(crate) fn size(&self) -> usize {
        1 + match &self.value {
            Value::Null | Value::Text(_) => 0,
            Value::List(items) => items.iter().map(Self::size).sum(),
            Value::Map(entries) => entries.iter().map(|(_, node)| node.size()).sum(),
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

/// Lists the keys and values of a document that are ours.
pub(crate) fn flatten(root: &Node, name: &Arc<str>, issues: &mut Issues) -> Vec<Leaf> {
    let mut walk = Walk { name, leaves: Vec::new(), issues, path: Vec::new() };
    walk.node(root, 0);
    walk.leaves
}

struct Walk<'a> {
    name: &'a Arc<str>,
    leaves: Vec<Leaf>,
    issues: &'a mut Issues,
    path: Vec<Token>,
}

impl Walk<'_> {
    fn node(&mut self, node: &Node, depth: usize) {
        // The rest of an application's file is none of our business, whatever its shape.
        if !begins_like_ours(&self.path) {
            return;
        }
        if self.path.len() > DEEPEST {
            let place = self.place(node.line);
            let key = key::render(&self.path[..DEEPEST]);
            self.issues.refuse(&key, "", &place, format!("keys of at most {DEEPEST} names"));
            return;
        }
        match &node.value {
            Value::Null => self.leaf(None, node.line),
            Value::Text(text) => self.leaf(Some(text.clone()), node.line),
            Value::Map(entries) if entries.is_empty() => self.leaf(None, node.line),
            Value::List(items) if items.is_empty() => self.leaf(Some(String::new()), node.line),
            Value::Map(entries) => {
                for (key, below) in entries {
                    let length = self.path.len();
                    key::split(key, depth, &mut self.path);
                    self.node(below, depth + 1);
                    self.path.truncate(length);
                }
            }
            Value::List(items) if items.len() > key::LONGEST_LIST => {
                let place = self.place(node.line);
                let key = key::render(&self.path);
                let allowed = format!("lists of at most {} entries", key::LONGEST_LIST);
                self.issues.refuse(&key, "", &place, allowed);
            }
            Value::List(items) => {
                for (at, below) in items.iter().enumerate() {
                    self.path.push(Token::Index { at, node: depth });
                    self.node(below, depth + 1);
                    self.path.pop();
                }
            }
        }
    }

    fn leaf(&mut self, text: Option<String>, line: usize) {
        self.leaves.push(Leaf { path: self.path.clone(), text, place: self.place(line) });
    }

    fn place(&self, line: usize) -> Place {
        Place::File { name: self.name.clone(), line: Some(line) }
    }
}

/// Whether a path is below one of our prefixes or the profile of a document, or on the way to one.
fn begins_like_ours(path: &[Token]) -> bool {
    let prefixes = Prefix::ALL.into_iter().map(Prefix::as_str);
    prefixes
        .chain([Leaf::PROFILE])
        .any(|prefix| prefix.split('.').zip(path).all(|(name, token)| token.is(&key::uniform(name))))
}
