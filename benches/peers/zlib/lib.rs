//! The names of zlib-ng's bindings are those of zlib's.

pub use libz_sys::*;
