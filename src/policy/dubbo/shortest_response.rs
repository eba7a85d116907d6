use std::borrow::Cow;
use std::time::Duration;

use crate::policy::scan::{Ties, Weights, least};
use crate::policy::{Candidates, Needs, PickCx, Picker, Policy, Scores};

/// The instance whose next answer is expected first, of all: the mean of what answers took in the last 30 s, times the calls
/// in flight and the one to come, per weight; of equals one by weight.
///
/// A failure counts as an answer of one second at least, and as load for a while, so a server that fails fast attracts
/// nothing. One of which nothing is known in the window gets one call, and the next when that is answered; so one that was
/// slow has a new chance every 30 s.
///
/// It costs two readings of the clock per call, and a look at every instance per pick. Many clients at once all run to the
/// same one; [`PeakEwma`](crate::policy::PeakEwma) does not.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::policy::ShortestResponse;
///
/// let policy = ShortestResponse::default().with_window(Duration::from_secs(10));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ShortestResponse {
    window: Duration,
    failure: Duration,
    exact: bool,
}

impl Default for ShortestResponse {
    fn default() -> Self {
        Self { window: Duration::from_secs(30), failure: Duration::from_secs(1), exact: false }
    }
}

impl ShortestResponse {
    /// As Dubbo has it: the mean is that of good answers alone, 0 where there are none, and weights decide among equals only.
    pub fn exact() -> Self {
        Self { exact: true, ..Self::default() }
    }

    /// After what time the mean begins anew (default 30 s; Dubbo: `shortestResponseSlidePeriod`).
    #[must_use]
    pub fn with_window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// What a failure counts as, if it did not take longer (default 1 s).
    #[must_use]
    pub fn with_failure_latency(mut self, failure: Duration) -> Self {
        self.failure = failure;
        self
    }
}

impl Policy for ShortestResponse {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("shortest-response")
    }

    fn needs(&self) -> Needs {
        Needs::STATISTICS
    }

    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        Box::new(Scan {
            window: nanos(self.window),
            failure: nanos(self.failure),
            exact: self.exact,
            weights: Weights::of(set),
        })
    }
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What an instance counts as that has a call in flight and no answer yet: more than any that is known.
const UNKNOWN: f64 = 1e30;

struct Scan {
    window: u64,
    failure: u64,
    exact: bool,
    weights: Weights,
}

impl Scan {
    /// In nanoseconds.
    fn estimate(&self, cx: &mut PickCx<'_>, at: usize) -> f64 {
        let (now, dry) = (cx.now(), cx.rehearses());
        let state = cx.state(at);
        let answers = state.statistics().map(|stats| stats.window(now, self.window, dry)).unwrap_or_default();
        if self.exact {
            return answers.good.mean().unwrap_or_default() * (f64::from(state.in_flight()) + 1.0);
        }
        let load = f64::from(state.load());
        match answers.mean(self.failure) {
            Some(mean) => mean * (load + 1.0) / self.weights.real(at),
            None if load == 0.0 => 0.0,
            None => UNKNOWN + load,
        }
    }
}

impl Picker for Scan {
    fn rehearses(&self) -> bool {
        true
    }

    fn scores(&self, cx: &mut PickCx<'_>) -> Option<Scores> {
        let mut of = Vec::with_capacity(cx.len());
        for at in 0..cx.len() {
            let estimate = self.estimate(cx, at);
            of.push(Some(estimate / 1e6).filter(|_| estimate < UNKNOWN));
        }
        Some(Scores::new("ms until the next answer is expected, per weight; the least of all is taken", of))
    }

    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        least(cx, &self.weights, Ties::ByWeight, |cx, at| self.estimate(cx, at))
    }
}
