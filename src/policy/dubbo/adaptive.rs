use std::borrow::Cow;
use std::time::Duration;

use super::shortest_response::nanos;
use crate::InstanceState;
use crate::policy::least_request::{better, distinct, two_by_weight};
use crate::policy::scan::Weights;
use crate::policy::tables::Alias;
use crate::policy::{Candidates, Needs, PickCx, Picker, Policy, Scores};
use crate::report::LoadReport;

/// Of two different instances drawn at random, the one with the smaller load as Dubbo's adaptive balancing reckons it: its
/// processors, times the root of its latency, times its calls in flight, over its part of good answers.
///
/// ```text
/// load = cpu * (sqrt(latency in ms) + 1) * (in flight + 1) / (good / (all + 1) * 100 + 1)
/// ```
///
/// Processors and latency are what the instance says of itself: hand it over with [`Choice::report`](crate::Choice::report),
/// from Dubbo's attachments by [`LoadReport::from_dubbo`]. One that says nothing of its processors counts as busy, and
/// latencies are then those that this client sees. A failure counts as an answer of one second at least, and as load for a
/// while, so a server that fails fast attracts nothing. One that was not picked for twice the time-out gets a call, so that
/// old news does not keep it away. Weighted, both draws go by weight.
///
/// It costs two readings of the clock per call, and two looks at an instance per pick.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::policy::Adaptive;
///
/// let policy = Adaptive::default().with_timeout(Duration::from_millis(500));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Adaptive {
    timeout: Duration,
    failure: Duration,
    exact: bool,
}

impl Default for Adaptive {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(1), failure: Duration::from_secs(1), exact: false }
    }
}

impl Adaptive {
    /// As Dubbo reckons it: both draws uniform, the weight (100 without one) in place of the 100 of the formula, and nothing
    /// but what instances say of themselves. One that says nothing has no load.
    pub fn exact() -> Self {
        Self { exact: true, ..Self::default() }
    }

    /// The time-out of calls (default 1 s, as in Dubbo): an instance that was not picked for twice as long gets a call.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// What a failure counts as, if it did not take longer (default 1 s; 71 minutes at most).
    #[must_use]
    pub fn with_failure_latency(mut self, failure: Duration) -> Self {
        self.failure = failure;
        self
    }
}

impl Policy for Adaptive {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("adaptive")
    }

    fn needs(&self) -> Needs {
        Needs::STATISTICS.and(Needs::REPORTS)
    }

    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        Box::new(Two {
            idle: nanos(self.timeout).saturating_mul(2),
            failure: nanos(self.failure),
            exact: self.exact,
            zeros: set.thousandths().is_some_and(|weights| weights.contains(&0)),
            weights: Weights::of(set),
            // With weights, and unless Dubbo's way is asked for; there is no uniform draw with somebody of weight 0.
            alias: set
                .thousandths()
                .filter(|weights| !self.exact || weights.contains(&0))
                .as_deref()
                .and_then(Alias::new),
        })
    }

    fn on_report(&self, instance: &InstanceState, report: &LoadReport) {
        if let Some(stats) = instance.statistics() {
            stats.told(report);
        }
    }
}

/// The parts of a load. What is counted comes with one more, which costs a whole number less time than a real one.
#[derive(Clone, Copy, Debug)]
struct Parts {
    cpu: f64,
    in_flight_and_one: f64,
    good: f64,
    all_and_one: f64,
    weight: f64,
}

impl Parts {
    /// `root` is that of the latency in milliseconds.
    #[inline]
    fn load(self, root: f64) -> Load {
        // x / (good / all * weight + 1) as one fraction, and its products in pairs: a pick waits for the longest row of them.
        let busy = self.cpu * self.in_flight_and_one;
        Load {
            above: busy * ((root + 1.0) * self.all_and_one),
            below: self.good * self.weight + self.all_and_one,
        }
    }
}

/// A load as a fraction: to compare two takes no division, which a pick would wait for.
#[derive(Clone, Copy, Debug)]
struct Load {
    above: f64,
    /// Above zero.
    below: f64,
}

impl Load {
    const NONE: Self = Self { above: 0.0, below: 1.0 };
    /// More than any other; finite, since it is multiplied with zero too.
    const MOST: Self = Self { above: 1e150, below: 1.0 };

    const fn of(whole: f64) -> Self {
        Self { above: whole, below: 1.0 }
    }

    fn value(self) -> f64 {
        if self.above >= Self::MOST.above { f64::INFINITY } else { self.above / self.below }
    }
}

/// So many calls. With a sign, since of that a processor makes a real number in one step.
#[inline]
#[allow(clippy::cast_precision_loss, clippy::cast_possible_wrap)] // counts of calls
fn count(calls: u64) -> f64 {
    calls as i64 as f64
}

/// The least that processors are busy.
const IDLE: f64 = 0.01;

/// For how long what answers took is remembered; as with the shortest response.
const WINDOW: u64 = 30_000_000_000;

struct Two {
    idle: u64,
    failure: u64,
    exact: bool,
    /// Whether somebody has weight 0, so that weights have to be looked at.
    zeros: bool,
    weights: Weights,
    alias: Option<Alias>,
}

impl Two {
    #[inline]
    fn load(&self, cx: &PickCx<'_>, now: u64, at: usize) -> Load {
        let dry = cx.rehearses();
        let state = cx.state(at);
        if self.zeros && self.weights.at(at) == 0 {
            return Load::MOST;
        }
        let Some(stats) = state.statistics() else { return Load::of(f64::from(state.load())) };
        let picked = stats.last_picked();
        let waited = if picked == 0 { !self.exact } else { now.saturating_sub(picked) > self.idle };
        if waited && (self.exact || !state.is_failing()) {
            return Load::NONE;
        }
        let (good, bad, calls) = (stats.successes(), stats.failures(), state.in_flight());
        let all_and_one = count(good.wrapping_add(bad).wrapping_add(u64::from(calls) + 1));
        let good = count(good);
        if self.exact {
            let weight = if self.weights.is_even() { 100.0 } else { self.weights.real(at) };
            let (cpu, latency) = (stats.reported_cpu(), stats.reported_latency());
            let [cpu, latency] = [cpu, latency].map(Option::unwrap_or_default);
            let in_flight_and_one = count(u64::from(calls) + 1);
            return Parts { cpu, in_flight_and_one, good, all_and_one, weight }.load(latency.sqrt());
        }
        // A report that does not say says 0; as a factor that would make nothing of all the rest.
        let cpu = stats.reported_cpu().map_or(1.0, |cpu| cpu.max(IDLE));
        let told = stats.reported_latency().filter(|_| !state.is_failing());
        let root = match told {
            Some(told) => told.sqrt(),
            None => stats.root(now, WINDOW, self.failure, dry).unwrap_or_default(),
        };
        let in_flight_and_one = count(u64::from(calls) + u64::from(state.phantom()) + 1);
        Parts { cpu, in_flight_and_one, good, all_and_one, weight: 100.0 }.load(root)
    }
}

impl Picker for Two {
    fn rehearses(&self) -> bool {
        true
    }

    fn scores(&self, cx: &mut PickCx<'_>) -> Option<Scores> {
        let now = cx.now();
        let of = (0..cx.len()).map(|at| Some(self.load(cx, now, at).value())).collect();
        Some(Scores::new(
            "load by processors, latency and calls in flight; of two drawn by chance the smaller",
            of,
        ))
    }

    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        let draw = |cx: &mut PickCx<'_>| match &self.alias {
            Some(alias) => two_by_weight(alias, cx),
            None => distinct(cx),
        };
        let at = better(cx, draw, |cx, b, a| {
            let now = cx.now();
            let (of_a, of_b) = (self.load(cx, now, a), self.load(cx, now, b));
            let (of_a, of_b) = (of_a.above * of_b.below, of_b.above * of_a.below);
            #[allow(clippy::float_cmp)] // both come from the same steps; any difference decides
            if of_a == of_b {
                if self.alias.is_some() {
                    // The draws went by weight already.
                    return false;
                }
                let (a, b) = (self.weights.at(a), self.weights.at(b));
                let draw = (u128::from(cx.random()) * u128::from(a + b)) >> 64;
                return draw >= u128::from(a);
            }
            of_b < of_a
        })?;
        let now = cx.now();
        if let Some(stats) = cx.state(at).statistics().filter(|_| !cx.rehearses()) {
            stats.picked(now);
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn load(cpu: f64, latency: f64, in_flight: f64, good: f64, all: f64, expected: f64) {
        let (in_flight_and_one, all_and_one) = (in_flight + 1.0, all + 1.0);
        let parts = Parts { cpu, in_flight_and_one, good, all_and_one, weight: 100.0 };
        let load = parts.load(latency.sqrt()).value();
        assert!((load - expected).abs() < 5e-7, "{load} instead of {expected}");
    }

    #[test]
    fn dubbo_040_a_load() {
        load(0.5, 16.0, 2.0, 90.0, 99.0, 0.082_418);
    }

    #[test]
    fn dubbo_041_loads() {
        load(0.9, 4.0, 0.0, 10.0, 10.0, 0.029_377);
        load(0.2, 100.0, 0.0, 50.0, 100.0, 0.043_560);
        load(1.0, 0.0, 0.0, 0.0, 0.0, 1.0);
    }
}
