//! Weighted picking as plain data.
//!
//! Everything here is a pure function of the weights: built once per list on the control plane,
//! then read by any number of threads without a lock, an allocation or a clock. Weights come in
//! thousandths (1.0 is 1000); 0 means drained, and a drained instance is never returned.
//!
//! - [`Sequence`]: turn number in, index out. The weighted rotation.
//! - [`Alias`]: uniform random point in, index out. The weighted draw.

mod alias;
mod currents;
mod ranks;
mod smooth;
mod static_stride;
mod stride;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use alias::Alias;
pub(crate) use currents::Currents;
pub(crate) use static_stride::StaticStride;
pub(crate) use stride::Stride;
pub(crate) use table::Table;

/// The most slots a weighted rotation is written out to: 256 KiB, built in about a millisecond.
///
/// Beyond it the order is computed per turn, so memory and build time do not grow with the weights.
pub(crate) const MAX_SLOTS: usize = 1 << 16;

/// An endless deterministic order of indices in which each comes up in proportion to its weight.
///
/// The sequence holds no position. Whoever picks counts the turns, so one counter can outlive any
/// number of lists, and threads share nothing but that counter.
#[derive(Debug)]
pub(crate) enum Sequence {
    /// That many instances of one weight, none drained: plain rotation, nothing stored.
    Even(u64),
    /// One whole period, written out in smooth order.
    Table(Table),
    /// Weights whose period is too long to write out.
    Stride(Stride),
}

impl Sequence {
    /// The order for these weights, or `None` if none of them is above zero.
    ///
    /// A list longer than [`MAX_SLOTS`] still gets an exact rotation as long as its weights are
    /// equal (or zero), since its period is then no longer than the list itself.
    pub(crate) fn new(weights: &[u64]) -> Option<Self> {
        let first = *weights.first()?;
        if first > 0 && weights.iter().all(|&weight| weight == first) {
            return Some(Self::Even(weights.len() as u64));
        }
        let active = weights.iter().filter(|&&weight| weight > 0).count();
        match smooth::smooth(weights, MAX_SLOTS.max(active)) {
            Some(slots) => Some(Self::Table(Table::new(slots))),
            None => Stride::new(weights).map(Self::Stride),
        }
    }

    /// The index whose turn it is. Total: any turn, also across the wrap of the counter.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "less than the length of a list")]
    pub(crate) fn at(&self, turn: u64) -> usize {
        match self {
            Self::Even(len) => (turn % len) as usize,
            Self::Table(table) => table.at(turn),
            Self::Stride(stride) => stride.at(turn),
        }
    }

    /// After how many turns the order repeats; `None` if it does not in any practical time.
    #[cfg(test)]
    pub(crate) fn period(&self) -> Option<u64> {
        match self {
            Self::Even(len) => Some(*len),
            Self::Table(table) => Some(table.len()),
            Self::Stride(_) => None,
        }
    }

    /// The first turn at which this index comes up; `None` if it is drained or not in the list.
    ///
    /// With it a rebuilt rotation goes on where the old one stood: the turn after the one of the
    /// instance picked last. For the control plane: it costs a scan of the table.
    pub(crate) fn slot_of(&self, index: usize) -> Option<u64> {
        match self {
            Self::Even(len) => Some(index as u64).filter(|index| index < len),
            Self::Table(table) => table.slot_of(index),
            Self::Stride(stride) => stride.slot_of(index),
        }
    }

    /// The first turn from `turn` on at which this index comes up. `None` also for an order that is even from any
    /// position on, whoever had the turn before: there is nothing to go forward to.
    pub(crate) fn slot_from(&self, index: usize, turn: u64) -> Option<u64> {
        match self {
            Self::Even(len) => {
                let index = Some(index as u64).filter(|index| index < len)?;
                Some(turn.wrapping_add((index + len - turn % len) % len))
            }
            Self::Table(table) => table.next_slot_after(turn.wrapping_sub(1), index),
            Self::Stride(_) => None,
        }
    }
}
