//! The atomics of the data plane, and the lock that is held around some of them, so that the models in `src/loom.rs` can
//! replace them.

#[cfg(not(evenkeel_loom))]
pub(crate) use parking_lot::Mutex;
#[cfg(not(evenkeel_loom))]
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

#[cfg(evenkeel_loom)]
pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
#[cfg(evenkeel_loom)]
pub(crate) use model::Mutex;

/// A lock of loom's with the face of the one that ships.
#[cfg(evenkeel_loom)]
mod model {
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Self {
            Self(loom::sync::Mutex::new(T::default()))
        }
    }

    impl<T> Mutex<T> {
        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            // A model that panics ends; nobody sees the poison.
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }
}
