//! Weighted rotation for weights whose period is too long to write out.
//!
//! The instances lie on a line, each as long as its share. Turn after turn a point goes round that
//! line in steps of the golden ratio, and whoever it lands on has the turn. Such a point visits any
//! stretch of the line at three distances at most, all close to even, for as long as one likes;
//! what it needs is one multiplication and no state but the turn.
//!
//! The stretch of an instance has to be *one* piece. An alias table would find it with one load
//! less, but scatters it over many columns, and stepping through those is anything but even: with
//! a Fibonacci number of columns the height in the column hardly moves from turn to turn. Hence a
//! line with an index: the search starts at most a few entries from its end.
//!
//! An instance with more than 3/8 of the weight would sometimes be met twice in a row by golden
//! steps (they are 0.382 of the line). Its turns are spread by counting instead, as evenly as
//! whole turns can be, and the others share the turns between.
//!
//! What holds, over any window of m turns, for an instance with a share s of the weight:
//!
//! - one above 3/8 has m * s turns, give or take less than 1;
//! - any other has m * s turns, give or take 5 (tested for windows up to 16 384 turns);
//! - an instance with at most half of the weight never has two turns in a row if the heaviest has
//!   at most 3/8 or at least half of the weight. Between those, the heaviest never has, and nobody
//!   has whose share is at most 3/8 of what the heaviest leaves.

use super::alias::fraction;

/// 2^64 divided by the golden ratio, odd.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Positions on the line are 63 bits wide, so that its end is a number too.
const LINE_BITS: u32 = 63;

/// An endless weighted order computed from the turn.
#[derive(Debug)]
pub(crate) struct Stride {
    heavy: Option<Heavy>,
    line: Line,
}

/// The instance with more than 3/8 of the weight.
#[derive(Debug)]
struct Heavy {
    index: usize,
    /// Its share of the turns as a 64-bit fraction.
    share: u64,
}

impl Stride {
    /// The order for these weights; `None` if none of them is above zero.
    ///
    /// Weights above `u64::MAX / n` count as that much, which no weight in range reaches.
    pub(crate) fn new(weights: &[u64]) -> Option<Self> {
        let most = u64::MAX.checked_div(weights.len() as u64)?;
        let mut weights: Vec<u64> = weights.iter().map(|&weight| weight.min(most)).collect();
        let total: u64 = weights.iter().sum();
        let (index, &weight) = weights.iter().enumerate().max_by_key(|(_, weight)| **weight)?;
        let apart = weight < total && u128::from(weight) * 8 > u128::from(total) * 3;
        let heavy = apart.then(|| Heavy { index, share: fraction(weight, total) });
        if heavy.is_some() {
            weights[index] = 0;
        }
        Some(Self { heavy, line: Line::new(&weights)? })
    }

    /// The index whose turn it is.
    #[inline]
    pub(crate) fn at(&self, turn: u64) -> usize {
        let mut turn = turn;
        if let Some(heavy) = &self.heavy {
            // A turn is the heavy one's when its running due passes a whole number.
            let due = u128::from(turn) * u128::from(heavy.share);
            let had = (due >> 64) as u64;
            if ((due + u128::from(heavy.share)) >> 64) as u64 > had {
                return heavy.index;
            }
            turn -= had;
        }
        self.line.at(turn.wrapping_mul(GOLDEN) >> (64 - LINE_BITS))
    }
}

/// Instances side by side, found by position. 12 bytes per instance.
#[derive(Debug)]
struct Line {
    /// Where each stretch ends (and the next begins). A drained instance ends where it begins.
    ends: Box<[u64]>,
    /// The line in as many equal parts as there are instances: who is met first in each part,
    /// and, as a last entry, the end of the list.
    index: Box<[u32]>,
}

impl Line {
    #[expect(clippy::cast_possible_truncation, reason = "positions are within the line")]
    fn new(weights: &[u64]) -> Option<Self> {
        let total: u64 = weights.iter().sum();
        let last = u32::try_from(weights.len().checked_sub(1)?).ok()?;
        let mut sum = 0_u64;
        let mut ends = Vec::with_capacity(weights.len());
        for weight in weights {
            sum += weight;
            let end = (u128::from(sum) << LINE_BITS).checked_div(u128::from(total))?;
            ends.push(end as u64);
        }
        let mut met = 0;
        let mut index = Vec::with_capacity(weights.len() + 1);
        for part in 0..weights.len() {
            let begin = ((part as u128) << LINE_BITS).div_ceil(weights.len() as u128) as u64;
            while met < last && ends[met as usize] <= begin {
                met += 1;
            }
            index.push(met);
        }
        index.push(last);
        Some(Self { ends: ends.into_boxed_slice(), index: index.into_boxed_slice() })
    }

    /// Who lies at this position: the first whose stretch ends beyond it, which is never one
    /// without a length. On average one or two steps, and never more than a binary search.
    #[inline]
    fn at(&self, position: u64) -> usize {
        let part = ((u128::from(position) * self.ends.len() as u128) >> LINE_BITS) as usize;
        let (from, to) = (self.index[part] as usize, self.index[part + 1] as usize);
        from + self.ends[from..to].partition_point(|&end| end <= position)
    }
}
