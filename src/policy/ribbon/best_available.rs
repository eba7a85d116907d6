use std::borrow::Cow;

use crate::policy::scan::{FewestCalls, Ties};
use crate::policy::{Candidates, Picker, Policy};

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
        let ties = if self.exact { Ties::First } else { Ties::ByWeight };
        Box::new(FewestCalls::of(set, self.exact, ties))
    }
}
