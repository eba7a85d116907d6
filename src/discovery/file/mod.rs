//! Instances from a file: YAML, TOML or JSON, read again whenever it changes.
//!
//! A file is a registry without a server: a deployment writes it, everybody reads it. It has no transactions, so the
//! reader must expect to meet it half written, empty or gone. None of these is an answer: only a document that can be
//! read as a whole replaces the lists.

mod client;
pub(crate) mod format;
mod load;
mod reader;
mod stream;

pub use client::FileDiscovery;
pub use format::FileFormat;
