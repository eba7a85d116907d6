//! The atomics of the data plane, so that the models in `src/loom.rs` can replace them.

#[cfg(not(evenkeel_loom))]
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

#[cfg(evenkeel_loom)]
pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
