//! JSON.

use super::tree::{Node, Unreadable};
use super::yaml;
use serde::de::IgnoredAny;

/// Reads a JSON text.
///
/// Whether it is JSON, `serde_json` says. A text that is, is YAML as well but for tabs between the values, and the
/// reader for YAML keeps lines and spellings, so the tree comes from there.
pub(crate) fn read(text: &str) -> Result<Vec<Node>, Unreadable> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str::<IgnoredAny>(text)
        .map_err(|error| Unreadable::at(error.line(), error.to_string()))?;
    // Inside a JSON string a tab is always escaped, so every one of these is between values.
    yaml::read(&text.replace('\t', " "))
}
