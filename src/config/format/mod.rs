//! Files: YAML, TOML, JSON.
//!
//! Each format becomes the same small tree of texts with lines, values in the spelling they were written in
//! (`1.10` stays `1.10`), and from there the list of keys and values a layer reads.

mod json;
mod load;
mod toml;
mod tree;
mod yaml;

pub use load::Format;
