//! nginx's smooth weighted round robin, written out from any state it may be in.
//!
//! The rule: everybody's current grows by its weight, the largest (of equals the first) has the turn, and pays the sum of the
//! weights. As it stands that is a step over all instances under a lock. But with constant weights it repeats after as many
//! turns as the weights add up to, so the turns can be written out once per change of the list, and a pick is one look; the
//! currents of any moment follow from how many turns were taken.

use super::MAX_SLOTS;

/// Steps times instances that one period may take to work out: about a millisecond.
const MOST_WORK: usize = 1 << 20;
/// How many periods the way into the repetition may take. A newcomer or a changed weight needs one or two.
const MOST_PERIODS: usize = 6;

/// Turns in nginx's order: some that come once, then those that repeat.
#[derive(Debug)]
pub(crate) struct Currents {
    /// In thousandths, as the currents.
    weights: Box<[u64]>,
    start: Box<[i64]>,
    slots: Box<[u32]>,
    /// How many of them come once.
    once: usize,
}

impl Currents {
    /// The turns of these weights from these currents on, one for each; `None` when they do not fit into a table, or none has a
    /// weight. Currents so far off that they would take long to even out count as 0.
    pub(crate) fn new(weights: &[u64], start: &[i64]) -> Option<Self> {
        let total =
            i64::try_from(weights.iter().try_fold(0_u64, |sum, weight| sum.checked_add(*weight))?).ok()?;
        // Twice as much is a number, too: a current and what it grows by.
        let total = Some(total).filter(|total| *total < i64::MAX / 2)?;
        let divisor = weights.iter().fold(0, |a, b| common_divisor(*b, a));
        let period = usize::try_from(u64::try_from(total).ok()?.checked_div(divisor)?).ok()?;
        let start: Box<[i64]> = start.iter().map(|current| (*current).clamp(-total, total)).collect();
        let even = |values: &[i64]| values.windows(2).all(|two| two[0] == two[1]);
        if period == weights.len() && weights.iter().all(|weight| *weight == divisor) && even(&start) {
            // Each in its turn, for a list of any length.
            let slots = (0..u32::try_from(period).ok()?).collect();
            return Some(Self { weights: weights.into(), start, slots, once: 0 });
        }
        if period > MAX_SLOTS || period.saturating_mul(weights.len()) > MOST_WORK {
            return None;
        }
        let zero = vec![0; start.len()].into_boxed_slice();
        [start, zero].into_iter().find_map(|start| {
            let mut currents = start.clone();
            let mut slots = Vec::with_capacity(period);
            for periods in 0..MOST_PERIODS {
                let before = currents.clone();
                (0..period).for_each(|_| slots.push(step(weights, &mut currents, total)));
                if before == currents {
                    let (weights, slots) = (weights.into(), slots.into_boxed_slice());
                    return Some(Self { weights, start, slots, once: periods * period });
                }
            }
            None
        })
    }

    /// How many turns repeat.
    pub(crate) fn period(&self) -> u64 {
        (self.slots.len() - self.once) as u64
    }

    /// The slot of a turn.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "less than the length of a slice")]
    fn slot(&self, turn: u64) -> usize {
        let once = self.once as u64;
        if turn < once { turn as usize } else { (once + (turn - once) % self.period()) as usize }
    }

    /// Whose turn it is, counted from the start.
    #[inline]
    pub(crate) fn at(&self, turn: u64) -> usize {
        self.slots[self.slot(turn)] as usize
    }

    /// Whether it is the order of these weights.
    pub(crate) fn is_of(&self, weights: &[u64]) -> bool {
        *self.weights == *weights
    }

    /// The currents after so many turns.
    #[expect(clippy::cast_possible_wrap, reason = "turns and weights are far below 2^63")]
    pub(crate) fn after(&self, turns: u64) -> Box<[i64]> {
        let taken = self.slot(turns);
        let total: u64 = self.weights.iter().sum();
        let mut currents = self.start.clone();
        for (current, weight) in currents.iter_mut().zip(&self.weights) {
            // What is within bounds at the end may be beyond them on the way.
            *current = current.wrapping_add((taken as i64).wrapping_mul(*weight as i64));
        }
        for slot in &self.slots[..taken] {
            let current = &mut currents[*slot as usize];
            *current = current.wrapping_sub(total as i64);
        }
        currents
    }
}

/// One turn: who has it, of equals the first. One without a weight has none.
#[expect(clippy::cast_possible_truncation, reason = "lists are shorter than 2^32")]
#[expect(clippy::cast_possible_wrap, reason = "their sum fits into 63 bits")]
fn step(weights: &[u64], currents: &mut [i64], total: i64) -> u32 {
    let (mut best, mut most) = (0, i64::MIN);
    for (at, (current, weight)) in currents.iter_mut().zip(weights).enumerate() {
        *current += *weight as i64;
        if *current > most && *weight > 0 {
            (best, most) = (at, *current);
        }
    }
    currents[best] -= total;
    best as u32
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(weights: &[u64], turns: u64) -> String {
        let currents = Currents::new(weights, &vec![0; weights.len()]).unwrap();
        (0..turns).map(|turn| char::from(b'a' + u8::try_from(currents.at(turn)).unwrap())).collect()
    }

    #[test]
    fn dubbo_009_to_014_sequences() {
        for (weights, expected) in [
            (&[5, 1, 1][..], "aabacaa"),
            (&[1, 9, 6], "bcbcbabcbcbbcbcb"),
            (&[1, 2, 3], "cbacbc"),
            (&[4, 2, 1], "abacaba"),
            (&[1, 1, 1], "abcabc"),
            (&[100, 50], "abaaba"),
        ] {
            let turns = expected.len() as u64;
            assert_eq!(order(weights, turns), expected);
            assert_eq!(order(weights, 3 * turns), expected.repeat(3), "again and again");
        }
    }

    #[test]
    fn dubbo_009_currents_after_each_pick() {
        let currents = Currents::new(&[5, 1, 1], &[0; 3]).unwrap();
        let expected =
            [[0, 0, 0], [-2, 1, 1], [-4, 2, 2], [1, -4, 3], [-1, -3, 4], [4, -2, -2], [2, -1, -1], [0, 0, 0]];
        for (turns, expected) in (0..).zip(expected) {
            assert_eq!(*currents.after(turns), expected, "{turns}");
            assert_eq!(*currents.after(turns + 7_000_000_000), expected);
        }
    }

    #[test]
    fn dubbo_015_a_weight_of_0_has_no_turn() {
        assert_eq!(order(&[1, 0, 2], 6), "caccac");
        assert!(Currents::new(&[0, 0], &[0, 0]).is_none() && Currents::new(&[], &[]).is_none());
    }

    #[test]
    fn what_does_not_fit_is_not_written_out_and_huge_weights_overflow_nothing() {
        let many: Vec<u64> = (1..=2_000).collect();
        assert!(Currents::new(&many, &vec![0; 2_000]).is_none());
        assert!(Currents::new(&[u64::MAX, 1], &[0, 0]).is_none());
        assert!(Currents::new(&[u64::MAX / 4, u64::MAX / 4], &[0, 0]).is_none());
        let huge = Currents::new(&[u64::MAX / 8, u64::MAX / 8], &[7, -7]).unwrap();
        assert_eq!((*huge.after(0) == *huge.after(1_000), huge.at(0), huge.at(1)), (true, 0, 1));
        let even = Currents::new(&vec![7; 100_000], &vec![0; 100_000]).unwrap();
        assert_eq!((even.period(), even.at(100_001)), (100_000, 1));
        assert_eq!(even.after(2)[..3], [2 * 7 - 700_000, 2 * 7 - 700_000, 14]);
    }

    proptest::proptest! {
        /// From any state of another list, what is written out is what the rule does turn by turn.
        #[test]
        fn the_table_is_the_rule(
            weights in proptest::collection::vec(1_u64..12, 1..7),
            start in proptest::collection::vec(-90_i64..90, 7),
        ) {
            let start = &start[..weights.len()];
            let total = i64::try_from(weights.iter().sum::<u64>()).unwrap();
            let table = Currents::new(&weights, start).unwrap();
            let mut currents: Vec<i64> = table.start.to_vec();
            for turn in 0..1_000 {
                proptest::prop_assert_eq!(&*table.after(turn), &currents[..], "{}", turn);
                let expected = step(&weights, &mut currents, total);
                proptest::prop_assert_eq!(table.at(turn), expected as usize, "{}", turn);
            }
        }
    }
}
