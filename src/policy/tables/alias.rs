//! A weighted draw in constant time (the alias method, Vose's way of building it).
//!
//! The weight is laid out over as many columns of equal size as there are instances, such that
//! each column holds at most two of them: its own instance at the bottom, one other on top. A
//! uniform point then needs one multiplication, one load and one comparison.

use std::hint::select_unpredictable;

/// One column: 16 bytes, so that a draw touches a single cache line.
#[derive(Clone, Copy, Debug)]
struct Column {
    /// The own instance owns the heights below this, in units of 2^-64 of the column.
    keep: u64,
    /// Who owns the heights from `keep` on.
    other: u32,
}

/// Weighted choice by a uniform 64-bit point.
#[derive(Debug)]
pub(crate) struct Alias {
    columns: Box<[Column]>,
}

impl Alias {
    /// Lays out these weights; `None` if none of them is above zero.
    ///
    /// Whole numbers throughout, so nothing is left over at the end that would have to be given to
    /// anyone: the usual floating-point version hands such a rest to whoever is last, even to an
    /// instance of weight zero. The only rounding is that of `keep`, less than 2^-64 of a column.
    ///
    /// Weights above `u64::MAX / n` count as that much, which no weight in range (below 2^42)
    /// reaches for lists of less than four million.
    pub(crate) fn new(weights: &[u64]) -> Option<Self> {
        let len = u32::try_from(weights.len()).ok()?;
        let most = u64::MAX.checked_div(u64::from(len))?;
        // In units in which a column is `total` high. Neither this nor the total overflows.
        let mut rest: Vec<u64> = weights.iter().map(|&w| w.min(most) * u64::from(len)).collect();
        let total: u64 = weights.iter().map(|&w| w.min(most)).sum();
        if total == 0 {
            return None;
        }
        let full = |index| Column { keep: u64::MAX, other: index };
        let mut columns: Box<[Column]> = (0..len).map(full).collect();
        let (mut low, mut high): (Vec<u32>, Vec<u32>) =
            (0..len).rev().partition(|&index| rest[index as usize] < total);
        // As the rests always add up to `total` per column still open, a column that is too low
        // implies one that is higher than `total`: the loop ends with no low column left over,
        // and all the high ones are exactly full.
        while let (Some(&small), Some(&large)) = (low.last(), high.last()) {
            low.pop();
            let height = rest[small as usize];
            columns[small as usize] = Column { keep: fraction(height, total), other: large };
            rest[large as usize] -= total - height;
            if rest[large as usize] < total {
                high.pop();
                low.push(large);
            }
        }
        debug_assert!(low.is_empty(), "whole numbers leave no rest");
        Some(Self { columns })
    }

    /// The index that owns this point. Uniform points give indices in proportion to the weights.
    ///
    /// The product's high half is the column, its low half the height in it. A drained instance
    /// keeps nothing of its own column (no height is below zero) and is on top of no other.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a product")]
    pub(crate) fn at(&self, point: u64) -> usize {
        let wide = u128::from(point) * self.columns.len() as u128;
        let own = (wide >> 64) as usize;
        let column = self.columns[own];
        // Chance decides, so a branch would be foretold wrongly every other time.
        select_unpredictable((wide as u64) < column.keep, own, column.other as usize)
    }

    /// What each index owns, in units of 2^-64 of a column.
    #[cfg(test)]
    pub(super) fn owned(&self) -> Vec<u128> {
        let mut owned = vec![0; self.columns.len()];
        for (own, column) in self.columns.iter().enumerate() {
            owned[own] += u128::from(column.keep);
            owned[column.other as usize] += (1 << 64) - u128::from(column.keep);
        }
        owned
    }
}

/// `part / whole` as a 64-bit fraction, rounded down, for a part less than the whole.
#[expect(clippy::cast_possible_truncation, reason = "less than 1 before the shift")]
pub(super) fn fraction(part: u64, whole: u64) -> u64 {
    ((u128::from(part) << 64) / u128::from(whole)) as u64
}
