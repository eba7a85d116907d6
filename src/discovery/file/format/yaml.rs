//! YAML, from the events of its parser.

use std::collections::{HashMap, HashSet};

use serde_saphyr::granit_parser::{Event, Marker, Options, Parser, ScalarStyle};

use super::tree::{Broken, DEPTH, Node, Place, Value, insert};

/// How many nodes the aliases of a document may add up to; a few lines of them can stand for billions.
const NODES: usize = 1_000_000;

pub(super) fn parse(text: &str) -> Result<Option<Node>, Broken> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    let mut tree = Tree::default();
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| Broken::new(place(error.marker()), error.info()))?;
        let at = place(&span.start);
        match event {
            Event::DocumentStart(..) if tree.root.is_some() => {
                return Err(Broken::new(at, "a second document starts here"));
            }
            Event::Scalar(text, style, anchor, _) => {
                let plain = matches!(style, ScalarStyle::Plain);
                let value = match &*text {
                    "" | "~" | "null" | "Null" | "NULL" if plain => Value::Null,
                    _ => Value::Scalar(text.into_owned()),
                };
                tree.add(Node { value, at }, 1, anchor, plain)?;
            }
            Event::SequenceStart(_, anchor, _) => tree.open(Value::List(Vec::new()), at, anchor)?,
            Event::MappingStart(_, anchor, _) => tree.open(Value::Map(Vec::new()), at, anchor)?,
            Event::SequenceEnd | Event::MappingEnd => tree.close()?,
            Event::Alias(anchor) => {
                let Some((node, size)) = tree.anchors.get(&anchor).cloned() else {
                    return Err(Broken::new(at, "this alias stands inside of what it names"));
                };
                tree.aliased += size;
                if tree.aliased > NODES {
                    return Err(Broken::new(at, format!("the aliases stand for more than {NODES} values")));
                }
                tree.add(Node { at, ..node }, size, 0, false)?;
            }
            _ => {}
        }
    }
    Ok(tree.root)
}

fn place(marker: &Marker) -> Place {
    Place { line: marker.line().max(1), column: marker.col() + 1 }
}

#[derive(Default)]
struct Tree {
    root: Option<Node>,
    open: Vec<Open>,
    /// Finished nodes that an alias may name, with the number of nodes in them.
    anchors: HashMap<usize, (Node, usize)>,
    aliased: usize,
}

/// A list or map whose end is still to come.
struct Open {
    node: Node,
    anchor: usize,
    size: usize,
    /// Of a map: the key that waits for its value, and whether it is the one that merges.
    key: Option<(String, Place, bool)>,
    keys: HashSet<String>,
    merged: Vec<(String, Node)>,
}

impl Tree {
    fn open(&mut self, value: Value, at: Place, anchor: usize) -> Result<(), Broken> {
        if self.open.len() >= DEPTH {
            return Err(Broken::new(at, format!("it is nested deeper than {DEPTH} levels")));
        }
        let node = Node { value, at };
        self.open.push(Open { node, anchor, size: 1, key: None, keys: HashSet::new(), merged: Vec::new() });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Broken> {
        let Some(mut open) = self.open.pop() else {
            return Ok(());
        };
        if let Value::Map(entries) = &mut open.node.value {
            for (key, node) in open.merged {
                // What the map says itself wins, and of two merged maps the first.
                if open.keys.insert(key.clone()) {
                    entries.push((key, node));
                }
            }
        }
        self.add(open.node, open.size, open.anchor, false)
    }

    /// Puts a finished node where it belongs.
    fn add(&mut self, node: Node, size: usize, anchor: usize, plain: bool) -> Result<(), Broken> {
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), size));
        }
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        parent.size += size;
        match (&mut parent.node.value, parent.key.take()) {
            (Value::List(items), _) => items.push(node),
            (Value::Map(_), None) => match node.value {
                Value::Scalar(text) => parent.key = Some((text.clone(), node.at, plain && text == "<<")),
                Value::Null => return Err(Broken::new(node.at, "a key is expected here")),
                _ => return Err(Broken::new(node.at, "a key must be a text")),
            },
            (Value::Map(_), Some((_, _, true))) => merge(&mut parent.merged, node)?,
            (Value::Map(entries), Some((key, at, false))) => {
                insert(entries, &mut parent.keys, at, key, node)?;
            }
            _ => {}
        }
        Ok(())
    }
}

fn merge(merged: &mut Vec<(String, Node)>, node: Node) -> Result<(), Broken> {
    match node.value {
        Value::Map(entries) => merged.extend(entries),
        Value::List(items) => {
            for item in items {
                match item.value {
                    Value::Map(entries) => merged.extend(entries),
                    _ => return Err(Broken::new(item.at, "only maps can be merged")),
                }
            }
        }
        _ => return Err(Broken::new(node.at, "only maps can be merged")),
    }
    Ok(())
}
