use std::borrow::Cow;

use crate::InstanceState;
use crate::policy::round_robin::Weighted;
use crate::policy::scan::preferring;
use crate::policy::{Candidates, PickCx, Picker, Policy, Rotation};

/// A round robin past instances that are out of use or busy: Ribbon's `AvailabilityFilteringRule`.
///
/// Passed by are those that are skipped, those with as many calls in flight as
/// [`with_active_limit`](Self::with_active_limit) says (default: no limit), and those that failed just now, as long as their
/// failures count as load. If that is everybody, it is a plain round robin over those in use. The rotation is that of
/// [`RoundRobin`](crate::policy::RoundRobin), weights included.
///
/// It costs what a round robin costs; when most are busy, a look at all of them.
///
/// ```
/// use evenkeel::policy::AvailabilityFiltering;
///
/// let policy = AvailabilityFiltering::default().with_active_limit(100);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct AvailabilityFiltering {
    limit: Option<u32>,
    exact: bool,
}

impl AvailabilityFiltering {
    /// As Ribbon has it: failures count only when they put an instance out of use, and the first pick is the first instance.
    pub fn exact() -> Self {
        Self { exact: true, ..Self::default() }
    }

    /// How many calls in flight make an instance busy (default: no limit; Ribbon: `ActiveConnectionsLimit`).
    #[must_use]
    pub fn with_active_limit(mut self, limit: impl Into<Option<u32>>) -> Self {
        self.limit = limit.into();
        self
    }
}

impl Policy for AvailabilityFiltering {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("availability-filtering")
    }

    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        let available = Available { limit: self.limit.unwrap_or(u32::MAX), exact: self.exact };
        Box::new(Filtered { available, wheel: Weighted::of(set) })
    }

    fn start(&self, random: u64) -> u64 {
        if self.exact { 0 } else { random }
    }
}

/// Whether an instance that is in use may have one more call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Available {
    pub(super) limit: u32,
    pub(super) exact: bool,
}

impl Available {
    #[inline]
    pub(super) fn accepts(self, state: &InstanceState) -> bool {
        (self.limit == u32::MAX || state.in_flight() < self.limit) && (self.exact || !state.is_failing())
    }
}

struct Filtered {
    available: Available,
    wheel: Weighted,
}

impl Picker for Filtered {
    fn rehearses(&self) -> bool {
        true
    }

    #[inline]
    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        let turn = |cx: &mut PickCx<'_>| self.wheel.at(cx.turn());
        // To ask everybody is worth it for a limit, behind which one may be idle; not while everybody fails.
        let all = self.available.limit != u32::MAX;
        preferring(cx, all, turn, |cx, at| self.available.accepts(cx.state(at)))
    }

    fn rotation(&self) -> Option<&dyn Rotation> {
        Some(&self.wheel)
    }
}
