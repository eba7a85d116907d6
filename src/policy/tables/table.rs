//! A written-out period as a rotation.

/// A period written out, read by turn.
#[derive(Debug)]
pub(crate) struct Table {
    slots: Box<[u32]>,
}

impl Table {
    /// Wraps what [`smooth`](super::smooth::smooth) returned, which is never empty.
    pub(super) fn new(slots: Box<[u32]>) -> Self {
        Self { slots }
    }

    /// Slots in a period.
    pub(crate) fn len(&self) -> u64 {
        self.slots.len() as u64
    }

    /// The index whose turn it is.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "less than the length of a slice")]
    pub(crate) fn at(&self, turn: u64) -> usize {
        self.slots[(turn % self.len()) as usize] as usize
    }

    /// The first turn after `turn` at which `index` comes up: a rotation that is to stand at an
    /// instance again goes forward to it instead of back to the start of the table.
    ///
    /// Near the wrap of the counter the answer wraps too. `None` if the index never comes up.
    pub(crate) fn next_slot_after(&self, turn: u64, index: usize) -> Option<u64> {
        (1..=self.len()).map(|far| turn.wrapping_add(far)).find(|&turn| self.at(turn) == index)
    }
}
