use std::collections::VecDeque;

use crate::Choice;
use crate::sim::Nanos;

/// A call, as long as it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handle {
    slot: u32,
    /// Slots are used again.
    life: u32,
}

/// Where a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On its way, or on its way back.
    Underway,
    /// Waiting for a worker of its server.
    Queued,
    /// Worked on.
    Served,
    /// With a server that does nothing for it.
    Held,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) choice: Choice,
    pub(super) began: Nanos,
    pub(super) demand: f64,
    pub(super) client: u32,
    pub(super) server: u32,
    pub(super) place: Place,
}

#[derive(Debug, Default)]
struct Slot {
    life: u32,
    call: Option<Call>,
}

/// The calls that are under way, and when they are given up.
#[derive(Debug, Default)]
pub(super) struct Calls {
    slots: Vec<Slot>,
    free: Vec<u32>,
    live: usize,
    /// All deadlines are equally far, so that this is their order.
    deadlines: VecDeque<(Nanos, Handle)>,
}

impl Calls {
    #[inline]
    pub(super) fn add(&mut self, call: Call, due: Option<Nanos>) -> Handle {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            #[allow(clippy::cast_possible_truncation)] // they would not fit into memory
            let slot = (self.slots.len() - 1) as u32;
            slot
        });
        let entry = &mut self.slots[slot as usize];
        entry.call = Some(call);
        self.live += 1;
        let handle = Handle { slot, life: entry.life };
        if let Some(due) = due {
            self.deadlines.push_back((due, handle));
        }
        handle
    }

    #[inline]
    pub(super) fn is_live(&self, handle: Handle) -> bool {
        self.slots[handle.slot as usize].life == handle.life
    }

    #[inline]
    pub(super) fn get(&mut self, handle: Handle) -> Option<&mut Call> {
        let slot = &mut self.slots[handle.slot as usize];
        if slot.life == handle.life { slot.call.as_mut() } else { None }
    }

    #[inline]
    pub(super) fn take(&mut self, handle: Handle) -> Option<Call> {
        let slot = &mut self.slots[handle.slot as usize];
        if slot.life != handle.life {
            return None;
        }
        slot.life = slot.life.wrapping_add(1);
        self.free.push(handle.slot);
        self.live -= 1;
        slot.call.take()
    }

    /// How many there are.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// When the next call is given up.
    #[inline]
    pub(super) fn next_due(&mut self) -> Nanos {
        while let Some((due, handle)) = self.deadlines.front() {
            if self.is_live(*handle) {
                return *due;
            }
            self.deadlines.pop_front();
        }
        Nanos::MAX
    }

    /// The call that is given up next.
    pub(super) fn overdue(&mut self) -> Option<Handle> {
        self.deadlines.pop_front().map(|(_, handle)| handle)
    }

    /// Gives up all of them; how many there were.
    pub(super) fn drop_all(&mut self) -> usize {
        self.deadlines.clear();
        self.slots.drain(..).filter(|slot| slot.call.is_some()).count()
    }
}
