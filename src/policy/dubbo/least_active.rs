use std::borrow::Cow;

use crate::policy::scan::{Ties, Weights, least};
use crate::policy::{Candidates, PickCx, Picker, Policy, Scores};

/// The instance with the fewest calls in flight per weight, of all; of equals one by weight.
///
/// Calls in flight are always counted, which Dubbo's does only behind a limiter. A failure counts as load for a while
/// ([`InstanceState::load`](crate::InstanceState::load)), so a server that fails fast attracts nothing. Unlike
/// [`LeastRequest`](crate::policy::LeastRequest), which looks at two, it looks at every instance: the best choice for one
/// client with up to some hundred instances; many clients at once all run to the same one.
///
/// ```
/// use evenkeel::policy::LeastActive;
///
/// let policy = LeastActive::default();
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LeastActive {
    exact: bool,
}

impl LeastActive {
    /// As Dubbo has it: calls in flight alone are compared, whatever the weights and failures; weights decide among
    /// equals.
    pub const fn exact() -> Self {
        Self { exact: true }
    }
}

impl Policy for LeastActive {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("least-active")
    }

    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        Box::new(Scan { exact: self.exact, weights: Weights::of(set) })
    }
}

struct Scan {
    exact: bool,
    weights: Weights,
}

impl Scan {
    #[inline]
    fn load(&self, cx: &PickCx<'_>, at: usize) -> f64 {
        if self.exact {
            f64::from(cx.state(at).in_flight())
        } else {
            // The quotient of equal ratios is the same number, so equals are found.
            f64::from(cx.state(at).load()) / self.weights.real(at)
        }
    }
}

impl Picker for Scan {
    fn rehearses(&self) -> bool {
        true
    }

    fn scores(&self, cx: &mut PickCx<'_>) -> Option<Scores> {
        let of = (0..cx.len()).map(|at| Some(self.load(cx, at))).collect();
        Some(Scores::new("calls in flight, per weight unless exact; the fewest of all are taken", of))
    }

    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        least(cx, &self.weights, Ties::ByWeight, |cx, at| self.load(cx, at))
    }
}
