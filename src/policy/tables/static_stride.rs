//! gRPC's static stride scheduler: turns in proportion to weights that may change while others read them.
//!
//! Turn s looks at instance s mod n in round s div n. Of the rounds it takes as many as its weight is of the largest one,
//! spread evenly, each instance half a round apart from its neighbour; where it has none, the next turn is looked at. There is
//! no state but the turn, so the order goes on over any change of weights.

use crate::sync::{AtomicU32, Ordering};

/// The largest weight.
const MAX: u32 = 65_535;
/// How far two neighbours are apart.
const OFFSET: u64 = 32_767;
/// No weight counts as more than so many times the mean: else nearly every look would be in vain.
const MOST: f64 = 10.0;
/// None as less than this part of it.
const LEAST: f64 = 0.01;

/// Weights scaled so that the largest is 65 535. They are changed in place: a pick meanwhile goes by some that are new and some
/// that are not, and always ends.
#[derive(Debug)]
pub(crate) struct StaticStride {
    weights: Box<[AtomicU32]>,
}

impl StaticStride {
    /// Each in its turn.
    pub(crate) fn even(n: usize) -> Self {
        Self { weights: (0..n).map(|_| AtomicU32::new(MAX)).collect() }
    }

    /// Takes new weights. One that is unknown counts as the mean of those that are known; with fewer than two of those, all
    /// are alike. Each is multiplied by its `factor`, which is 0 for one that gets nothing; `weight` is asked three times for each.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 65 535")]
    pub(crate) fn set(&self, weight: impl Fn(usize) -> Option<f64>, factor: impl Fn(usize) -> f64) {
        let known = |at| weight(at).filter(|weight: &f64| weight.is_finite() && *weight > 0.0);
        let (mut count, mut sum) = (0_u32, 0.0);
        for weight in (0..self.weights.len()).filter_map(known) {
            (count, sum) = (count + 1, sum + weight);
        }
        let mean = if count < 2 { 1.0 } else { sum / f64::from(count) };
        let of = |at: usize| if count < 2 { factor(at) } else { known(at).unwrap_or(mean) * factor(at) };
        let (mut some, mut sum, mut largest) = (0_u32, 0.0, 0.0_f64);
        for weight in (0..self.weights.len()).map(of).filter(|weight| *weight > 0.0) {
            (some, sum, largest) = (some + 1, sum + weight, largest.max(weight));
        }
        let mean = sum / f64::from(some.max(1));
        let largest = largest.min(mean * MOST);
        let scale = f64::from(MAX) / largest;
        let least = (mean * scale * LEAST).round().max(1.0);
        for (at, cell) in self.weights.iter().enumerate() {
            let weight = of(at);
            let scaled = if some == 0 {
                f64::from(MAX)
            } else if weight > 0.0 {
                (weight.min(largest) * scale).round().clamp(least, f64::from(MAX))
            } else {
                0.0
            };
            cell.store(scaled as u32, Ordering::Relaxed);
        }
    }

    /// Who has a turn; `None` if nobody has this one.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "below the length of a list")]
    pub(crate) fn at(&self, turn: u64) -> Option<usize> {
        let n = self.weights.len() as u64;
        let (at, round) = ((turn % n) as usize, turn / n);
        let weight = u64::from(self.weights[at].load(Ordering::Relaxed));
        let max = u64::from(MAX);
        let place = (weight.wrapping_mul(round)).wrapping_add(at as u64 * OFFSET) % max;
        (place >= max - weight).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stride(weights: &[Option<f64>]) -> StaticStride {
        let stride = StaticStride::even(weights.len());
        stride.set(|at| weights[at], |_| 1.0);
        stride
    }

    fn scaled(stride: &StaticStride) -> Vec<u32> {
        stride.weights.iter().map(|weight| weight.load(Ordering::Relaxed)).collect()
    }

    /// The picks from turn 0 on, and how many turns each took on average.
    fn picks(stride: &StaticStride, count: usize) -> (Vec<usize>, f64) {
        let mut turn = 0;
        let mut picks = Vec::new();
        while picks.len() < count {
            picks.extend(stride.at(turn));
            turn += 1;
        }
        #[allow(clippy::cast_precision_loss)]
        (picks, turn as f64 / count as f64)
    }

    fn names(picks: &[usize]) -> String {
        picks.iter().map(|at| char::from(b'A' + u8::try_from(*at).unwrap())).collect()
    }

    /// Weights, the same scaled, the first picks, some shares, and the turns that a pick takes.
    type Row = (Vec<Option<f64>>, &'static [u32], &'static str, &'static [f64], f64);

    #[test]
    fn lbs_a_static_stride_has_the_order_and_the_shares_of_its_weights() {
        let known = |weights: &[f64]| weights.iter().copied().map(Some).collect::<Vec<_>>();
        let heavy: Vec<f64> = [1_000.0].into_iter().chain([1.0; 11]).collect();
        let rows: [Row; 8] = [
            (known(&[1.0, 2.0, 3.0]), &[21_845, 43_690, 65_535], "BCCABC", &[0.1667, 0.3333, 0.5], 1.5),
            (known(&[1.0, 1.0, 2.0]), &[32_768, 32_768, 65_535], "BCAC", &[0.25, 0.25, 0.5], 1.5),
            (known(&[4.0, 2.0, 1.0]), &[65_535, 32_768, 16_384], "ABCAABA", &[0.5714, 0.2857, 0.1429], 1.714),
            (known(&[5.0, 1.0, 1.0]), &[65_535, 13_107, 13_107], "ACAABAA", &[0.7143, 0.1429, 0.1429], 2.143),
            (
                vec![Some(1.0), None, Some(3.0)],
                &[21_845, 43_690, 65_535],
                "BCCABC",
                &[0.1667, 0.3333, 0.5],
                1.5,
            ),
            (
                known(&[0.2, 0.4, 0.6, 0.8]),
                &[16_384, 32_768, 49_151, 65_535],
                "BCDCDBCDAD",
                &[0.1, 0.2, 0.3, 0.4],
                1.6,
            ),
            (known(&[100.0, 1.0, 1.0]), &[65_535, 655, 655], "ACAAAA", &[0.9804, 0.0098, 0.0098], 2.941),
            (
                known(&heavy),
                &[65_535, 78, 78, 78, 78, 78, 78, 78, 78, 78, 78, 78],
                "ACEGIKAAAA",
                &[0.9871, 0.0012, 0.0012],
                11.845,
            ),
        ];
        for (weights, expected, first, shares, visits) in rows {
            let stride = stride(&weights);
            assert_eq!(scaled(&stride), expected);
            let (found, looks) = picks(&stride, 60_000);
            // Where the scaled weights are rounded, the order drifts: 4, 2, 1 goes on with CABAABA.
            let drifts = first.starts_with("ABC") || expected[1] < 1_000;
            let repeats = if drifts { 1 } else { 20 };
            let all = first.repeat(repeats);
            assert_eq!(names(&found[..all.len()]), all, "{weights:?}");
            assert!((looks - visits).abs() < 0.002 * visits, "{looks} looks for each pick of {weights:?}");
            for (at, share) in shares.iter().enumerate() {
                #[allow(clippy::cast_precision_loss)]
                let found = found.iter().filter(|pick| **pick == at).count() as f64 / 60_000.0;
                assert!((found - share).abs() < 1e-4, "{at} of {weights:?}: {found}");
            }
        }
    }

    #[test]
    fn lbs_with_fewer_than_two_weights_it_is_a_round_robin() {
        for weights in
            [vec![None; 3], vec![None, Some(7.0), None], vec![Some(0.0), Some(f64::NAN), Some(3.0)]]
        {
            let (found, looks) = picks(&stride(&weights), 9);
            assert_eq!((names(&found).as_str(), looks), ("ABCABCABC", 1.0), "{weights:?}");
        }
    }

    #[test]
    fn factors_hold_with_and_without_weights() {
        let stride = StaticStride::even(3);
        stride.set(|_| None, |at| [0.0, 3.0, 1.0][at]);
        assert_eq!(scaled(&stride), [0, 65_535, 21_845]);
        stride.set(|at| [Some(1.0), Some(1.0), Some(3.0)][at], |at| [0.0, 3.0, 1.0][at]);
        assert_eq!(scaled(&stride), [0, 65_535, 65_535]);
        stride.set(|_| Some(2.0), |_| 0.0);
        assert_eq!(scaled(&stride), [65_535; 3], "nobody is all");
    }

    proptest::proptest! {
        #[test]
        fn it_never_looks_for_long(weights in proptest::collection::vec(0.0..1e12_f64, 1..40), from in 0_u64..1 << 40) {
            let weights: Vec<_> = weights.into_iter().map(Some).collect();
            let stride = stride(&weights);
            // The heaviest has every round.
            let n = weights.len() as u64;
            proptest::prop_assert!((from..from + n).any(|turn| stride.at(turn).is_some()));
        }
    }
}
