//! JSON: `serde_json` says whether and where it is broken; a text that is not is cut into its parts here, since numbers
//! keep their spelling.

use std::collections::HashSet;

use serde::de::IgnoredAny;

use super::tree::{Broken, DEPTH, Node, Place, Places, Value, insert};

pub(super) fn parse(text: &str) -> Result<Option<Node>, Broken> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
        return Err(broken(&error, Place { line: error.line().max(1), column: error.column().max(1) }));
    }
    let mut reader = Reader { text, at: 0, places: Places::new(text) };
    reader.value(0).map(Some)
}

/// The error without the place, which would be told twice.
fn broken(error: &serde_json::Error, at: Place) -> Broken {
    let text = error.to_string();
    Broken::new(at, text.split(" at line ").next().unwrap_or_default())
}

/// Reads a text that is known to be JSON. Where that does not hold it ends early, but never panics.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    places: Places<'a>,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next character that is no blank, which is not taken.
    fn peek(&mut self) -> Option<char> {
        let rest = self.rest();
        let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        self.at += rest.len() - trimmed.len();
        trimmed.chars().next()
    }

    /// Takes `wanted` if it is next.
    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn value(&mut self, depth: usize) -> Result<Node, Broken> {
        let next = self.peek();
        let at = self.places.of(self.at);
        if depth > DEPTH {
            return Err(Broken::new(at, format!("it is nested deeper than {DEPTH} levels")));
        }
        let value = match next {
            Some('{') => self.map(depth)?,
            Some('[') => self.list(depth)?,
            Some('"') => Value::Scalar(self.string()?),
            _ => match self.bare() {
                "null" | "" => Value::Null,
                text => Value::Scalar(text.to_owned()),
            },
        };
        Ok(Node { value, at })
    }

    fn map(&mut self, depth: usize) -> Result<Value, Broken> {
        let (mut entries, mut keys) = (Vec::new(), HashSet::new());
        self.take('{');
        while self.peek() == Some('"') {
            let at = self.places.of(self.at);
            let key = self.string()?;
            self.take(':');
            let node = self.value(depth + 1)?;
            insert(&mut entries, &mut keys, at, key, node)?;
            self.take(',');
        }
        self.take('}');
        Ok(Value::Map(entries))
    }

    fn list(&mut self, depth: usize) -> Result<Value, Broken> {
        let mut items = Vec::new();
        self.take('[');
        while self.peek().is_some_and(|next| next != ']') {
            let start = self.at;
            items.push(self.value(depth + 1)?);
            self.take(',');
            if self.at == start {
                break;
            }
        }
        self.take(']');
        Ok(Value::List(items))
    }

    /// A number, a truth value or null, as it is written.
    fn bare(&mut self) -> &'a str {
        let rest = self.rest();
        let end = rest.find([',', ']', '}', ' ', '\t', '\n', '\r']).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn string(&mut self) -> Result<String, Broken> {
        let (rest, start) = (self.rest(), self.at);
        let mut escaped = true; // so that the opening quote does not end it
        let end = rest.bytes().position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let quoted = end.map_or(rest, |end| &rest[..=end]);
        self.at += quoted.len();
        serde_json::from_str(quoted).map_err(|error| broken(&error, self.places.of(start)))
    }
}
