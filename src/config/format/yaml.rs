//! YAML, from the parser's events.
//!
//! Events and not a data type, because a type would decide what `1.10`, `on` and `0123` are, and because events know
//! their lines.

use super::tree::{DEEPEST, Node, Unreadable, Value};
use serde_saphyr::granit_parser::{Event, Options, Parser, ScalarStyle};
use std::collections::{BTreeMap, HashSet};

/// Values in one text, those that aliases repeat included: an alias of an alias of an alias multiplies.
const MOST_NODES: usize = 200_000;

/// Documents in one text. Each is asked for its profiles, and for every placeholder that is not in a later one.
const MOST_DOCUMENTS: usize = 1_000;

/// Bytes of text that aliases repeat in one text: an alias of a long text is short.
const MOST_REPEATED: usize = 4 << 20;

/// Reads all documents of a text.
pub(crate) fn read(text: &str) -> Result<Vec<Node>, Unreadable> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    let mut builder = Builder::default();
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| Unreadable::at(error.marker().line(), error.info()))?;
        builder.event(event, span.start.line())?;
    }
    Ok(builder.documents)
}

/// A map or list that is not closed yet.
struct Open {
    line: usize,
    anchor: usize,
    kind: Kind,
}

enum Kind {
    List(Vec<Node>),
    Map { entries: Vec<(String, Node)>, keys: HashSet<String>, key: Option<Key>, merged: Vec<Node> },
}

enum Key {
    Named(String, usize),
    Merge,
}

#[derive(Default)]
struct Builder {
    documents: Vec<Node>,
    open: Vec<Open>,
    anchors: BTreeMap<usize, Node>,
    nodes: usize,
    repeated: usize,
}

impl Builder {
    fn event(&mut self, event: Event<'_>, line: usize) -> Result<(), Unreadable> {
        match event {
            Event::DocumentStart(..) => self.anchors.clear(),
            Event::Scalar(text, style, anchor, _) => {
                if let Some(Open { kind: Kind::Map { key: key @ None, keys, .. }, .. }) = self.open.last_mut()
                {
                    *key = Some(named(text.into_owned(), style, line, keys)?);
                    return Ok(());
                }
                let null = style == ScalarStyle::Plain
                    && matches!(text.as_ref(), "" | "~" | "null" | "Null" | "NULL");
                let value = if null { Value::Null } else { Value::Text(text.into_owned()) };
                self.place(Node { line, value }, anchor)?;
            }
            Event::SequenceStart(_, anchor, _) => self.open(line, anchor, Kind::List(Vec::new()))?,
            Event::MappingStart(_, anchor, _) => {
                let kind =
                    Kind::Map { entries: Vec::new(), keys: HashSet::new(), key: None, merged: Vec::new() };
                self.open(line, anchor, kind)?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(Open { line, anchor, kind }) = self.open.pop() {
                    let value = close(kind)?;
                    self.place(Node { line, value }, anchor)?;
                }
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor).cloned() else {
                    return Err(Unreadable::at(line, "an alias to a value that is not complete"));
                };
                self.repeat(&node, line)?;
                self.place(node, 0)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, line: usize, anchor: usize, kind: Kind) -> Result<(), Unreadable> {
        if let Some(Open { kind: Kind::Map { key: None, .. }, .. }) = self.open.last() {
            return Err(Unreadable::at(line, "a key that is a list or a map"));
        }
        if self.open.len() >= DEEPEST {
            return Err(Unreadable::at(line, format!("nested deeper than {DEEPEST} levels")));
        }
        self.open.push(Open { line, anchor, kind });
        Ok(())
    }

    /// Puts a finished value where it belongs.
    fn place(&mut self, node: Node, anchor: usize) -> Result<(), Unreadable> {
        self.count(1, node.line)?;
        if anchor > 0 {
            self.repeat(&node, node.line)?;
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|open| &mut open.kind) {
            None if self.documents.len() >= MOST_DOCUMENTS => {
                return Err(Unreadable::at(node.line, format!("more than {MOST_DOCUMENTS} documents")));
            }
            None => self.documents.push(node),
            Some(Kind::List(items)) => items.push(node),
            Some(Kind::Map { entries, key, merged, .. }) => match key.take() {
                Some(Key::Named(name, line)) => {
                    // A null has no place of its own.
                    let line = if node.value == Value::Null { line } else { node.line };
                    entries.push((name, Node { line, ..node }));
                }
                Some(Key::Merge) => merged.push(node),
                None => return Err(Unreadable::at(node.line, "a key that is an alias")),
            },
        }
        Ok(())
    }

    /// Counts a copy.
    fn repeat(&mut self, node: &Node, line: usize) -> Result<(), Unreadable> {
        let (nodes, bytes) = node.size();
        self.repeated = self.repeated.saturating_add(bytes);
        if self.repeated > MOST_REPEATED {
            return Err(Unreadable::at(line, format!("aliases that repeat more than {MOST_REPEATED} bytes")));
        }
        self.count(nodes, line)
    }

    fn count(&mut self, nodes: usize, line: usize) -> Result<(), Unreadable> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MOST_NODES {
            return Err(Unreadable::at(line, format!("more than {MOST_NODES} values, aliases included")));
        }
        Ok(())
    }
}

fn named(
    text: String,
    style: ScalarStyle,
    line: usize,
    keys: &mut HashSet<String>,
) -> Result<Key, Unreadable> {
    if !keys.insert(text.clone()) {
        return Err(Unreadable::at(line, format!("the key \"{text}\" is given twice in one map")));
    }
    Ok(if style == ScalarStyle::Plain && text == "<<" { Key::Merge } else { Key::Named(text, line) })
}

/// Finishes a map or list. Merged maps (`<<: *defaults`) fill in what the map does not say itself, earlier ones first.
fn close(kind: Kind) -> Result<Value, Unreadable> {
    let (mut entries, mut keys, merged) = match kind {
        Kind::List(items) => return Ok(Value::List(items)),
        Kind::Map { entries, keys, merged, .. } => (entries, keys, merged),
    };
    let mut sources = Vec::new();
    for node in merged {
        match node.value {
            Value::List(items) => sources.extend(items),
            _ => sources.push(node),
        }
    }
    for source in sources {
        let Value::Map(values) = source.value else {
            return Err(Unreadable::at(source.line, "a merge key takes a map or a list of maps"));
        };
        entries.extend(values.into_iter().filter(|(name, _)| keys.insert(name.clone())));
    }
    Ok(Value::Map(entries))
}
