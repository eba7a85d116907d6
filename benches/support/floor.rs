//! The floor.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel::InstanceState;

use super::lists;

/// As large as what a lease points to.
pub struct Payload(#[allow(dead_code)] [u8; size_of::<InstanceState>()]);

/// A counter and a list of `Arc`s.
pub struct Floor {
    counter: AtomicU64,
    list: Box<[Arc<Payload>]>,
}

impl Floor {
    /// Over `n` allocations that lie scattered, as those of instances do.
    pub fn new(n: usize) -> Self {
        let pins = lists::scatter(n);
        let list = (0..n).map(|_| Arc::new(Payload([0; size_of::<InstanceState>()]))).collect();
        drop(pins);
        Self { counter: AtomicU64::new(0), list }
    }

    /// One pick.
    #[inline]
    pub fn pick(&self) -> Arc<Payload> {
        let turn = self.counter.fetch_add(1, Ordering::Relaxed);
        Arc::clone(&self.list[usize::try_from(turn).unwrap_or_default() % self.list.len()])
    }

    /// `count` picks, each dropped.
    pub fn run(&self, count: usize) {
        for _ in 0..count {
            let lease = self.pick();
            black_box(&lease);
        }
    }
}
