//! Files: YAML, TOML, JSON.
//!
//! Each format becomes the same small tree of texts with lines, values in the spelling they were written in
//! (`1.10` stays `1.10`), and from there documents: the list of keys and values a layer reads, and all values by key.
//! [`Files`] holds the documents of a file and of its profiles, and says which of them count.

mod document;
mod expression;
mod files;
mod json;
mod load;
mod profiles;
mod toml;
mod tree;
mod yaml;

pub(crate) use files::Files;
pub use load::Format;
