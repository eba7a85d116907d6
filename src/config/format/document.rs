//! One document of a file: what is ours in it, and everything else by key.

use super::tree::{DEEPEST, Node, Value as Shape};
use crate::config::address::Prefix;
use crate::config::error::{Issues, Place, Problem};
use crate::config::key::{self, Token};
use crate::config::layer::Leaf;
use crate::config::values::{LONGEST_KEY, Value, Values};
use std::fmt;
use std::sync::Arc;

/// A document, read and not yet understood.
#[derive(Clone)]
pub(crate) struct Document {
    /// The values below our prefixes.
    pub(crate) leaves: Vec<Leaf>,
    /// All values, for placeholders.
    pub(crate) values: Values,
    /// What is wrong with the shape of ours.
    pub(crate) problems: Vec<Problem>,
}

/// Without the values, among which are secrets.
impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a document with {:?}, {} of them ours", self.values, self.leaves.len())
    }
}

impl Document {
    /// Lists the keys and values of a document.
    pub(crate) fn of(root: &Node, name: &Arc<str>) -> Self {
        let mut walk = Walk {
            name,
            leaves: Vec::new(),
            values: Values::default(),
            issues: Issues::default(),
            path: Vec::new(),
        };
        walk.node(root, 0);
        Self { leaves: walk.leaves, values: walk.values, problems: walk.issues.problems }
    }
}

struct Walk<'a> {
    name: &'a Arc<str>,
    leaves: Vec<Leaf>,
    values: Values,
    issues: Issues,
    path: Vec<Token>,
}

impl Walk<'_> {
    fn node(&mut self, node: &Node, depth: usize) {
        let long = self.path.len() > DEEPEST || self.length() > LONGEST_KEY;
        if long {
            if is_ours(&self.path) {
                let key: String = key::render(&self.path[..self.path.len().min(DEEPEST)]);
                let key: String = key.chars().take(LONGEST_KEY).collect();
                let allowed = format!("keys of at most {DEEPEST} names and {LONGEST_KEY} bytes");
                self.issues.refuse(&key, "", &self.place(node.line), allowed);
            }
            return;
        }
        match &node.value {
            Shape::Null => self.leaf(None, node.line),
            Shape::Text(text) => self.leaf(Some(text), node.line),
            Shape::Map(entries) if entries.is_empty() => self.leaf(None, node.line),
            Shape::List(items) if items.is_empty() => self.leaf(Some(""), node.line),
            Shape::Map(entries) => {
                for (key, below) in entries {
                    let length = self.path.len();
                    key::split(key, depth, &mut self.path);
                    self.node(below, depth + 1);
                    self.path.truncate(length);
                }
            }
            Shape::List(items) if items.len() > key::LONGEST_LIST => {
                // The rest of an application's file is none of our business, whatever its shape.
                if is_ours(&self.path) {
                    let allowed = format!("lists of at most {} entries", key::LONGEST_LIST);
                    self.issues.refuse(&key::render(&self.path), "", &self.place(node.line), allowed);
                }
            }
            Shape::List(items) => {
                for (at, below) in items.iter().enumerate() {
                    self.path.push(Token::Index { at, node: depth });
                    self.node(below, depth + 1);
                    self.path.pop();
                }
            }
        }
    }

    fn leaf(&mut self, text: Option<&str>, line: usize) {
        let place = self.place(line);
        self.values
            .put(&self.path, Value { text: text.unwrap_or_default().to_owned(), place: place.clone() });
        if is_ours(&self.path) {
            self.leaves.push(Leaf { path: self.path.clone(), text: text.map(str::to_owned), place });
        }
    }

    fn length(&self) -> usize {
        self.path.iter().map(|token| token.name().map_or(1, str::len)).sum()
    }

    fn place(&self, line: usize) -> Place {
        Place::File { name: self.name.clone(), line: Some(line) }
    }
}

/// Whether a path is below one of our prefixes.
fn is_ours(path: &[Token]) -> bool {
    Prefix::strip(path).is_some()
}
