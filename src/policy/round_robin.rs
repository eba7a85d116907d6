use std::borrow::Cow;

use super::tables::Sequence;
use super::{Candidates, PickCx, Picker, Policy, Rotation};

/// Each instance in its turn; with weights, in a smooth order in which each has its share of the turns.
///
/// A strict rotation in the order of first sight, starting at a random position, so that a fleet of clients that
/// starts together does not start at one server. The rotation goes on over every change of the list. Each group of a
/// service has a rotation of its own, and so have attempts after the first.
///
/// Weighted, the order is a table made once per change: the instance with the earliest deadline among those whose turn
/// has come (EEVDF; Stoica and others, 1996), repaired so that none with at most half of the weight comes twice in a row.
/// Above 65 536 slots a golden-ratio stride takes the table's place, and the shares hold.
///
/// The rotation is one counter, which threads that share a balancer contend for; the two-thread rows of
/// `cargo bench --bench ratios` show by how much. For many cores
/// [`LeastRequest`](super::LeastRequest) is the answer.
///
/// ```
/// use evenkeel::policy::RoundRobin;
///
/// let random_start = RoundRobin::default();
/// let fixed = RoundRobin::starting_at(0); // for a test; the first pick is the second instance, as in Spring
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin {
    start: Option<i32>,
}

impl RoundRobin {
    /// A rotation whose position is `start` before the first turn, as Spring's seed: the first index is `start + 1`.
    pub const fn starting_at(start: i32) -> Self {
        Self { start: Some(start) }
    }
}

impl Policy for RoundRobin {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("round-robin")
    }

    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        match set.thousandths().as_deref().and_then(Sequence::new) {
            Some(sequence) => Box::new(Weighted(sequence)),
            None if set.len() == 1 => Box::new(Single),
            None => Box::new(Plain { n: set.len() as u64 }),
        }
    }

    fn start(&self, random: u64) -> u64 {
        match self.start {
            #[allow(clippy::cast_sign_loss)] // the position is masked to 31 bits
            Some(start) => u64::from(start.wrapping_add(1) as u32),
            None => random,
        }
    }
}

/// A list of one moves no counter.
struct Single;

impl Picker for Single {
    fn rehearses(&self) -> bool {
        true
    }

    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        cx.fits(0).then_some(0)
    }

    fn rotation(&self) -> Option<&dyn Rotation> {
        Some(&Plain { n: 1 })
    }
}

struct Plain {
    n: u64,
}

impl Picker for Plain {
    fn rehearses(&self) -> bool {
        true
    }

    #[inline]
    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        cx.first_fit(|cx| {
            let turn = cx.turn();
            self.at(turn)
        })
    }

    fn rotation(&self) -> Option<&dyn Rotation> {
        Some(self)
    }
}

impl Rotation for Plain {
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // below n, which came from a usize
    fn at(&self, turn: u64) -> usize {
        (turn % self.n) as usize
    }

    fn turn_of(&self, index: usize) -> Option<u64> {
        Some(index as u64)
    }
}

/// Turns in proportion to weights.
pub(super) struct Weighted(pub(super) Sequence);

impl Weighted {
    /// The turns of a set, whether or not its weights differ.
    pub(super) fn of(set: &Candidates<'_>) -> Self {
        let weighted = set.thousandths().as_deref().and_then(Sequence::new);
        Self(weighted.unwrap_or(Sequence::Even(set.len() as u64)))
    }
}

impl Picker for Weighted {
    fn rehearses(&self) -> bool {
        true
    }

    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        cx.first_fit(|cx| {
            let turn = cx.turn();
            self.0.at(turn)
        })
    }

    fn rotation(&self) -> Option<&dyn Rotation> {
        Some(self)
    }
}

impl Rotation for Weighted {
    fn at(&self, turn: u64) -> usize {
        self.0.at(turn)
    }

    fn turn_of(&self, index: usize) -> Option<u64> {
        self.0.slot_of(index)
    }

    fn turn_from(&self, index: usize, turn: u64) -> Option<u64> {
        self.0.slot_from(index, turn)
    }
}
