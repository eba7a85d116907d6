use std::borrow::Cow;
use std::time::Duration;

use super::least_request::{better, distinct, two_by_weight};
use super::tables::Alias;
use super::{Candidates, Needs, PickCx, Picker, Policy, Scores};
use crate::Weight;
use crate::state::Decay;

/// Of two different instances drawn at random, the one whose answers take less, times the calls that it has in flight.
///
/// What an answer takes is a mean that jumps to every peak at once and forgets it slowly (peak EWMA, from Finagle): a server
/// that turns slow is avoided after one slow answer, one that hangs even before it answers, since the ages of its calls in
/// flight count. A failure counts as an answer of one second at least, so that a server which fails fast attracts nothing.
/// One of which nothing is known gets one call, and no second before that is answered. Weighted, both draws go by weight
/// and the loads are compared per weight.
///
/// It costs two readings of the clock per call, and the latencies are those that this process sees.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::policy::PeakEwma;
///
/// let policy = PeakEwma::default().with_decay(Duration::from_secs(5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeakEwma {
    decay: Duration,
    failure: Duration,
}

impl Default for PeakEwma {
    fn default() -> Self {
        Self { decay: Duration::from_secs(10), failure: Duration::from_secs(1) }
    }
}

impl PeakEwma {
    /// How long a peak is remembered: after this it weighs 1/e (default 10 s, as in Finagle).
    #[must_use]
    pub fn with_decay(mut self, decay: Duration) -> Self {
        self.decay = decay;
        self
    }

    /// What a failure counts as, if it did not take longer (default 1 s).
    #[must_use]
    pub fn with_failure_latency(mut self, failure: Duration) -> Self {
        self.failure = failure;
        self
    }
}

impl Policy for PeakEwma {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("peak-ewma")
    }

    fn needs(&self) -> Needs {
        Needs::latency(self.decay, self.failure)
    }

    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        let decay = Decay::over(self.decay);
        let alias = set.thousandths().as_deref().and_then(Alias::new);
        match (alias, set.weights()) {
            (Some(alias), Some(weights)) => Box::new(Weighted { decay, alias, weights: relative(weights) }),
            _ => Box::new(Plain(decay)),
        }
    }
}

/// What an answer of an instance counts as that has calls in flight and gave none yet: more nanoseconds than any that is
/// known takes, and few enough that calls and weights may be multiplied with it.
const UNKNOWN: f32 = 1e25;

/// The latency in nanoseconds times the calls in flight, the one that is to come included.
#[inline]
fn load(cx: &mut PickCx<'_>, index: usize, decay: Decay) -> f32 {
    let (calls, latency) = cx.pace(index, decay);
    #[allow(clippy::cast_precision_loss)] // a load needs no more than 24 bits
    match latency {
        // The sum of whole numbers: that of real ones takes longer.
        Some(latency) => latency * calls.saturating_add(1) as f32,
        // It gets its first call from anybody who draws it, and no second one.
        None if calls == 0 => 0.0,
        None => UNKNOWN * calls as f32,
    }
}

struct Plain(Decay);

impl Picker for Plain {
    fn rehearses(&self) -> bool {
        true
    }

    fn scores(&self, cx: &mut PickCx<'_>) -> Option<Scores> {
        let of = (0..cx.len()).map(|at| Some(f64::from(load(cx, at, self.0)) / 1e6)).collect();
        Some(Scores::new(
            "ms an answer takes x calls in flight and one; of two drawn by chance the smaller",
            of,
        ))
    }

    #[inline]
    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        better(cx, distinct, |cx, b, a| load(cx, b, self.0) < load(cx, a, self.0))
    }
}

struct Weighted {
    decay: Decay,
    alias: Alias,
    /// Of the heaviest: two of the largest there may be are too much for a product of floats.
    weights: Box<[f32]>,
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // 24 bits are enough for a comparison
fn relative(weights: &[Weight]) -> Box<[f32]> {
    let of = |weight: &Weight| weight.thousandths() as f64;
    let most = weights.iter().map(of).fold(1.0, f64::max);
    weights.iter().map(|weight| (of(weight) / most) as f32).collect()
}

impl Picker for Weighted {
    fn rehearses(&self) -> bool {
        true
    }

    fn scores(&self, cx: &mut PickCx<'_>) -> Option<Scores> {
        let weight = |at: usize| f64::from(self.weights[at]);
        let of =
            (0..cx.len()).map(|at| Some(f64::from(load(cx, at, self.decay)) / 1e6 / weight(at))).collect();
        Some(Scores::new(
            "ms x calls in flight and one, per part of the largest weight; of two drawn by weight the smaller",
            of,
        ))
    }

    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        better(
            cx,
            |cx| two_by_weight(&self.alias, cx),
            |cx, b, a| load(cx, b, self.decay) * self.weights[a] < load(cx, a, self.decay) * self.weights[b],
        )
    }
}
