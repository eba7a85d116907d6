use std::borrow::Cow;

use crate::policy::scan::{Ties, Weights, least};
use crate::policy::{Candidates, PickCx, Picker, Policy, Scores};

/// The instance with the fewest calls in flight among those that are not out of use: Ribbon's `BestAvailableRule`.
///
/// Calls are compared per weight, and of equals one has it by chance and weight. A failure counts as load for a while
/// ([`InstanceState::load`](crate::InstanceState::load)), so a server that fails fast attracts nothing. That makes it
/// [`LeastActive`](crate::policy::LeastActive) by another name; [`exact`](Self::exact) is Ribbon's own.
///
/// ```
/// use evenkeel::policy::BestAvailable;
///
/// let policy = BestAvailable::default();
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct BestAvailable {
    exact: bool,
}

impl BestAvailable {
    /// As Ribbon has it: calls in flight alone count, and of equals the first in the list has it.
    pub const fn exact() -> Self {
        Self { exact: true }
    }
}

impl Policy for BestAvailable {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("best-available")
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
        let ties = if self.exact { Ties::First } else { Ties::ByWeight };
        least(cx, &self.weights, ties, |cx, at| self.load(cx, at))
    }
}
