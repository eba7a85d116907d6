//! A document of any of the three formats as one tree, every scalar in the spelling of its author.
//!
//! The typed readers of these formats turn `1.10` into the number 1.1 before anybody could object, which is wrong for a
//! version, a zone or an id. So the tree is built from the events below them, and knows the place of each node.

use std::collections::HashSet;

use super::{FileFormat, json, toml, yaml};

/// A value with the place where it starts.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) at: Place,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    /// A text, number or truth value as it is written, without quotes and escapes.
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// A line and a column, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// A document that cannot be read, and where it is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) at: Place,
    pub(crate) reason: String,
}

impl Broken {
    pub(super) fn new(at: Place, reason: impl Into<String>) -> Self {
        Self { at, reason: reason.into() }
    }
}

/// How deep a document may nest; no list of instances comes near, and a hostile one must not exhaust the stack.
pub(super) const DEPTH: usize = 64;

/// Reads a document; `None` for one that holds nothing, not even an empty map.
pub(super) fn parse(text: &str, format: FileFormat) -> Result<Option<Node>, Broken> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let node = match format {
        FileFormat::Yaml => yaml::parse(text)?,
        FileFormat::Toml => toml::parse(text)?,
        FileFormat::Json => json::parse(text)?,
    };
    Ok(node.filter(|node| !matches!(node.value, Value::Null)))
}

impl Place {
    /// The place of a byte; one behind the end is the end.
    pub(crate) fn of_byte(text: &[u8], offset: usize) -> Self {
        let before = &text[..offset.min(text.len())];
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        Self {
            line: before.split(|byte| *byte == b'\n').count(),
            // Continuation bytes of a character do not count.
            column: before[start..].iter().filter(|byte| **byte & 0xc0 != 0x80).count() + 1,
        }
    }
}

/// Finds the places of many bytes of one text.
pub(super) struct Places<'a> {
    text: &'a str,
    lines: Vec<usize>,
}

impl<'a> Places<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, lines }
    }

    pub(super) fn of(&self, offset: usize) -> Place {
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        let in_line = &self.text.as_bytes()[self.lines[line - 1]..offset.min(self.text.len())];
        Place { line, ..Place::of_byte(in_line, in_line.len()) }
    }
}

/// Adds an entry to a map, whose keys must differ.
pub(super) fn insert(
    map: &mut Vec<(String, Node)>,
    keys: &mut HashSet<String>,
    at: Place,
    key: String,
    node: Node,
) -> Result<(), Broken> {
    if !keys.insert(key.clone()) {
        return Err(Broken::new(at, format!("the key {key:?} stands here for the second time")));
    }
    map.push((key, node));
    Ok(())
}
