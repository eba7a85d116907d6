use std::borrow::Cow;
use std::time::Duration;

use crate::policy::round_robin::Weighted;
use crate::policy::scan::{Weights, preferring};
use crate::policy::{Candidates, Needs, PickCx, Picker, Policy, Rotation, Statistics};
use crate::sync::{AtomicU64, Ordering};

/// Any instance by chance, the more likely the faster its answers: Ribbon's `WeightedResponseTimeRule`.
///
/// The weight of an instance is the sum of the mean response times of all less its own. So it never falls to nothing: with n
/// instances, one that is far slower than the others has about 1/n of their share at most, and two have shares in the inverse
/// proportion of their means. Weights are made anew every 30 s; until there is any answer it is a round robin.
///
/// A mean is that of the time since the weights were made last, if there were answers, so that a slow start is forgotten. A
/// failure counts as an answer of one second at least, and an instance that failed just now is passed by while its failures
/// count as load. One without any answer counts as the mean of the others. Weights of the chain multiply.
///
/// It costs two readings of the clock per call and a search of log n steps per pick; one pick in 30 s makes the weights.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::policy::WeightedResponseTime;
///
/// let policy = WeightedResponseTime::default().with_interval(Duration::from_secs(10));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct WeightedResponseTime {
    interval: Duration,
    failure: Duration,
    exact: bool,
}

impl Default for WeightedResponseTime {
    fn default() -> Self {
        Self { interval: Duration::from_secs(30), failure: Duration::from_secs(1), exact: false }
    }
}

impl WeightedResponseTime {
    /// As Ribbon has it: means over the whole life of an instance, failures as fast as they were, 0 without any answer.
    pub fn exact() -> Self {
        Self { exact: true, failure: Duration::ZERO, ..Self::default() }
    }

    /// How often weights are made (default 30 s; Ribbon: `ServerWeightTaskTimerInterval`).
    #[must_use]
    pub fn with_interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// What a failure counts as, if it did not take longer (default 1 s).
    #[must_use]
    pub fn with_failure_latency(mut self, failure: Duration) -> Self {
        self.failure = failure;
        self
    }
}

impl Policy for WeightedResponseTime {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("weighted-response-time")
    }

    fn needs(&self) -> Needs {
        Needs::STATISTICS
    }

    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let cells = || (0..set.len()).map(|_| AtomicU64::new(0)).collect();
        let picker = Shares {
            exact: self.exact,
            failure: nanos(self.failure),
            interval: nanos(self.interval).max(1),
            due: AtomicU64::new(0),
            means: (0..set.len()).map(|_| AtomicU64::new(f64::NAN.to_bits())).collect(),
            seen: [cells(), cells()],
            sums: cells(),
            weights: Weights::of(set),
            wheel: Weighted::of(set),
        };
        picker.due.store(set.now().saturating_add(picker.interval), Ordering::Relaxed);
        picker.weigh(|at| set.state(at).statistics());
        Box::new(picker)
    }
}

/// Shares by response time. The sums are written in place by one pick while others search them: such a search may end at
/// another instance than it would a moment later, and never outside of the list.
struct Shares {
    exact: bool,
    failure: u64,
    interval: u64,
    /// When the weights are made next, on the service's clock.
    due: AtomicU64,
    /// In milliseconds; NaN where nothing is known.
    means: Box<[AtomicU64]>,
    /// The answers and their time of which the means were made last.
    seen: [Box<[AtomicU64]>; 2],
    /// Of the weights up to each instance, its own included.
    sums: Box<[AtomicU64]>,
    weights: Weights,
    wheel: Weighted,
}

/// Below this sum, in milliseconds, nothing tells the instances apart.
const NOTHING: f64 = 0.001;

impl Shares {
    /// The mean of the answers since the last look, in milliseconds; what was known before, if there was none.
    #[allow(clippy::cast_precision_loss)] // a mean needs no more than 53 bits
    fn mean(&self, at: usize, stats: &Statistics) -> f64 {
        let answers = stats.lifetime();
        let count = answers.good.count + answers.bad.count;
        let bad = answers.bad.nanos.max(answers.bad.count.saturating_mul(self.failure));
        let nanos = answers.good.nanos.saturating_add(bad);
        let [counts, times] = &self.seen;
        let before = if self.exact {
            (0, 0)
        } else {
            (counts[at].swap(count, Ordering::Relaxed), times[at].swap(nanos, Ordering::Relaxed))
        };
        let (count, nanos) = (count.saturating_sub(before.0), nanos.saturating_sub(before.1));
        if count == 0 { number(&self.means[at]) } else { nanos as f64 / count as f64 / 1e6 }
    }

    /// Makes the weights: of each, the sum of all means less its own.
    fn weigh<'a>(&self, stats: impl Fn(usize) -> Option<&'a Statistics>) {
        let (mut sum, mut known) = (0.0, 0_u32);
        for (at, mean) in self.means.iter().enumerate() {
            let now = stats(at).map_or(f64::NAN, |stats| self.mean(at, stats));
            mean.store(now.to_bits(), Ordering::Relaxed);
            if !now.is_nan() {
                (sum, known) = (sum + now, known + 1);
            }
        }
        let unknown = if self.exact || known == 0 { 0.0 } else { sum / f64::from(known) };
        let means = || {
            let known = self.means.iter().map(number);
            known.map(|mean| if mean.is_nan() { unknown } else { mean })
        };
        let all: f64 = means().sum();
        let mut sum = 0.0;
        for (at, (mean, cell)) in means().zip(&self.sums).enumerate() {
            sum += weight(all, mean) * self.weights.real(at);
            cell.store(sum.to_bits(), Ordering::Relaxed);
        }
    }

    /// Whose share the point is in: the first whose sum is not below it.
    fn at(&self, point: f64) -> usize {
        self.sums.partition_point(|sum| number(sum) < point).min(self.sums.len() - 1)
    }
}

fn number(cell: &AtomicU64) -> f64 {
    f64::from_bits(cell.load(Ordering::Relaxed))
}

/// The weight of an instance with this mean, of all.
fn weight(all: f64, mean: f64) -> f64 {
    (all - mean).max(0.0)
}

impl Picker for Shares {
    fn rehearses(&self) -> bool {
        true
    }

    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        let (now, due) = (cx.now(), self.due.load(Ordering::Relaxed));
        let next = now.saturating_add(self.interval);
        // A rehearsal goes by the weights at hand, and leaves it to a call to make others.
        if now >= due
            && !cx.rehearses()
            && self.due.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.weigh(|at| cx.state(at).statistics());
        }
        let total = self.sums.last().map_or(0.0, number);
        let draw = |cx: &mut PickCx<'_>| {
            if total < NOTHING {
                return self.wheel.at(cx.turn());
            }
            // Above 0 and at most 1, so that no share of nothing is met.
            #[allow(clippy::cast_precision_loss)] // 53 bits
            let unit = ((cx.random() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
            self.at(unit * total)
        };
        preferring(cx, false, draw, |cx, at| self.exact || !cx.state(at).is_failing())
    }

    fn rotation(&self) -> Option<&dyn Rotation> {
        Some(&self.wheel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(means: &[f64]) -> Shares {
        let cells = || means.iter().map(|_| AtomicU64::new(0)).collect();
        let shares = Shares {
            exact: true,
            failure: 0,
            interval: 1,
            due: AtomicU64::new(0),
            means: means.iter().map(|mean| AtomicU64::new(mean.to_bits())).collect(),
            seen: [cells(), cells()],
            sums: cells(),
            weights: Weights::even(),
            wheel: Weighted(crate::policy::tables::Sequence::Even(means.len() as u64)),
        };
        let none = Statistics::default();
        // No new answers: the means that are known stand.
        shares.weigh(|_| Some(&none));
        shares
    }

    fn sums(means: &[f64]) -> Vec<f64> {
        shares(means).sums.iter().map(number).collect()
    }

    #[track_caller]
    fn exact(found: &[f64], expected: &[f64]) {
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
        assert_eq!(found.len(), expected.len());
    }

    #[test]
    fn ribbon_025_weights_are_the_sum_less_the_own_mean() {
        let sums = sums(&[10.0, 40.0, 80.0, 100.0]);
        exact(&sums, &[220.0, 410.0, 560.0, 690.0]);
        let shares = [220.0, 190.0, 150.0, 130.0].map(|weight| weight / sums[3] * 100.0);
        assert!(shares.iter().zip([31.88, 27.54, 21.74, 18.84]).all(|(a, b)| (a - b).abs() < 0.005));
    }

    #[test]
    fn ribbon_026_a_point_is_in_the_first_share_that_reaches_it() {
        let shares = shares(&[10.0, 40.0, 80.0, 100.0]);
        assert_eq!([0.0, 220.0, 220.5, 560.1, 690.0, 1e9].map(|point| shares.at(point)), [0, 0, 1, 3, 3, 3]);
    }

    #[test]
    fn ribbon_027_two_have_shares_in_inverse_proportion() {
        exact(&sums(&[100.0, 200.0]), &[200.0, 300.0]);
    }

    #[test]
    fn ribbon_028_one_has_no_weight_and_so_every_turn() {
        let one = shares(&[70.0]);
        assert!(number(&one.sums[0]) < NOTHING);
        assert_eq!(one.at(0.0), 0);
    }

    #[test]
    fn ribbon_029_the_only_one_that_took_any_time_gets_nothing_by_weight() {
        let shares = shares(&[0.0, 50.0]);
        exact(&[number(&shares.sums[0]), number(&shares.sums[1])], &[50.0, 50.0]);
        assert!([1e-9, 25.0, 50.0].iter().all(|point| shares.at(*point) == 0));
    }
}
