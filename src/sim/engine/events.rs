use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::calls::Handle;
use crate::Outcome;
use crate::sim::Nanos;

/// What happens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A request reaches its server.
    Reach(Handle),
    /// A server is done with the request that it ends next, unless its plan has changed.
    Depart { server: u32, version: u32 },
    /// A server that fails fast answers.
    Fail(Handle),
    /// An answer reaches its client.
    Return(Handle, Outcome),
    /// The neighbour of a server moves on.
    Neighbour(u32),
    /// An entry of the script is due.
    Script(u32),
    /// The registry lists what there is.
    List,
    /// The servers are looked at.
    Sample,
    /// The measurement begins.
    Begin,
    /// It ends.
    End,
}

struct Planned {
    at: Nanos,
    /// Of one moment, the one that was planned first is first.
    order: u64,
    event: Event,
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}
impl Eq for Planned {}
impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Planned {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// What is planned, the earliest first.
#[derive(Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<Planned>>,
    planned: u64,
}

impl Events {
    #[inline]
    pub(super) fn plan(&mut self, at: Nanos, event: Event) {
        self.planned += 1;
        self.heap.push(Reverse(Planned { at, order: self.planned, event }));
    }

    #[inline]
    pub(super) fn next_at(&self) -> Nanos {
        self.heap.peek().map_or(Nanos::MAX, |next| next.0.at)
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Event> {
        self.heap.pop().map(|next| next.0.event)
    }
}
