//! Values by key, as placeholders and the names of the application look them up.

use super::error::Place;
use super::key::{self, Token};
use std::collections::HashMap;
use std::fmt;

/// Keys longer than this are left out: nobody writes one in a placeholder, and a long key above many values would be
/// repeated for each of them.
pub(crate) const LONGEST_KEY: usize = 512;

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) text: String,
    pub(crate) place: Place,
}

/// Values by key; a later one with the same key replaces an earlier one.
#[derive(Clone, Default)]
pub(crate) struct Values {
    /// By the key as written.
    exact: HashMap<String, Value>,
    /// From the key without case, dashes and underscores to the one written last.
    relaxed: HashMap<String, String>,
}

/// Without the values: among them are secrets of the application that are none of our business.
impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} values", self.exact.len())
    }
}

impl Values {
    pub(crate) fn put(&mut self, path: &[Token], value: Value) {
        let key = key::render(path);
        if key.len() <= LONGEST_KEY {
            self.relaxed.insert(relaxed(path), key.clone());
            self.exact.insert(key, value);
        }
    }

    /// The value of a key. A key in Spring's canonical form (`app.own-zone`) finds every spelling (`app.ownZone`), any
    /// other (`OWN_ZONE`) itself alone.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        let mut path = Vec::new();
        key::split(name, 0, &mut path);
        self.exact.get(&key::render(&path)).or_else(|| {
            let canonical = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.[]".contains(c);
            let key = name.chars().all(canonical).then(|| self.relaxed.get(&relaxed(&path)))??;
            self.exact.get(key)
        })
    }

    /// All values by their keys, which are cut up again.
    #[cfg(feature = "gateway")]
    pub(crate) fn all(&self) -> impl Iterator<Item = (Vec<Token>, &Value)> {
        self.exact.iter().map(|(key, value)| {
            let mut path = Vec::new();
            key::split(key, 0, &mut path);
            (path, value)
        })
    }

    /// The items of a list, in whatever form it was written: `key`, as a comma list, or `key[0]` and so on.
    #[cfg(any(test, feature = "config"))]
    pub(crate) fn list(&self, name: &str) -> Option<Vec<&Value>> {
        let mut items: Vec<&Value> = self.get(name).into_iter().collect();
        if items.is_empty() {
            items.extend((0..key::LONGEST_LIST).map_while(|at| self.get(&format!("{name}[{at}]"))));
        }
        (!items.is_empty()).then_some(items)
    }
}

/// The key without case, dashes and underscores.
fn relaxed(path: &[Token]) -> String {
    let uniform: Vec<Token> = path
        .iter()
        .map(|token| match token {
            Token::Name { text, node } => Token::Name { text: key::uniform(text), node: *node },
            Token::Index { at, node } => Token::Index { at: *at, node: *node },
        })
        .collect();
    key::render(&uniform)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(keys: &[&str]) -> Values {
        let mut values = Values::default();
        for key in keys {
            let mut path = Vec::new();
            key::split(key, 0, &mut path);
            values.put(&path, Value { text: format!("at {key}"), place: Place::Code });
        }
        values
    }

    #[test]
    fn a_canonical_name_finds_every_spelling_and_another_one_itself_alone() {
        let values = values(&["app.ownZone", "zone", "list[1]"]);
        let text = |name: &str| values.get(name).map(|value| value.text.as_str());
        for name in ["app.ownZone", "app.own-zone", "app.ownzone"] {
            assert_eq!(text(name), Some("at app.ownZone"), "{name}");
        }
        // A variable that is not set must not find the key that asks for it: `zone: ${ZONE:eu}`.
        assert_eq!((text("ZONE"), text("zone")), (None, Some("at zone")));
        assert_eq!((text("app.OWNZONE"), text("list[1]"), text("")), (None, Some("at list[1]"), None));
    }

    #[test]
    fn lists_are_found_in_both_forms_and_long_keys_are_left_out() {
        let long = "k".repeat(LONGEST_KEY + 1);
        let values = values(&["a", "b[0]", "b[1]", "c[1]", &long]);
        let count = |name: &str| values.list(name).map(|items| items.len());
        assert_eq!((count("a"), count("b"), count("c"), count(&long)), (Some(1), Some(2), None, None));
    }
}
