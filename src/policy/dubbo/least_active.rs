use std::borrow::Cow;

use crate::policy::scan::{FewestCalls, Ties};
use crate::policy::{Candidates, Picker, Policy};

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
        Box::new(FewestCalls::of(set, self.exact, Ties::ByWeight))
    }
}
