//! The text of a list of instances: YAML, TOML or JSON.
//!
//! ```yaml
//! services:
//!   orders:
//!     - {id: a, host: 10.0.0.1, port: 8080, zone: eu-1a, metadata: {version: 1.10}}
//!     - https://10.0.0.2:8443
//! ```
//!
//! A document that cannot be read is [`Broken`] as a whole, since nobody can say what it would have held; an entry that
//! cannot be called is left out alone.

mod json;
mod registry;
mod toml;
mod tree;
mod write;
mod yaml;

#[cfg(test)]
mod tests;

use std::path::Path;

pub(crate) use registry::{Note, Registry, parse};
pub(crate) use tree::{Broken, Place};
#[allow(unused_imports)] // for the file that a warm start reads
pub(crate) use write::write_document;

/// The format of a file of instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileFormat {
    /// YAML 1.2, of which JSON is a part.
    Yaml,
    /// TOML 1.1.
    Toml,
    /// JSON.
    Json,
}

impl FileFormat {
    /// The format that the extension of `path` names: `toml`, `json`, and YAML for every other and for none.
    ///
    /// ```
    /// use std::path::Path;
    ///
    /// use evenkeel::discovery::FileFormat;
    ///
    /// assert_eq!(FileFormat::of(Path::new("registry.TOML")), FileFormat::Toml);
    /// assert_eq!(FileFormat::of(Path::new("registry")), FileFormat::Yaml);
    /// ```
    pub fn of(path: &Path) -> Self {
        match path.extension() {
            Some(extension) if extension.eq_ignore_ascii_case("toml") => Self::Toml,
            Some(extension) if extension.eq_ignore_ascii_case("json") => Self::Json,
            _ => Self::Yaml,
        }
    }
}
