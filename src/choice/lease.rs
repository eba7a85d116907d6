use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;

use super::{Choice, Outcome, Track};
use crate::ServiceInstance;
use crate::report::LoadReport;
use crate::state::InstanceState;

/// Who hears of the end of a call beside the instance.
pub(crate) trait Ending: Send + Sync {
    /// The call ended so, `took` after its instance was chosen, if that was kept.
    fn ended(self: Box<Self>, outcome: Outcome, took: Option<Duration>);
}

/// The end of a call that was answered: the [`Choice`] of its instance, and whoever else hears of it.
///
/// As a choice it ends exactly once: by [`complete`](Self::complete), at the end of a [`track`](Self::track)ed body, or when
/// it is dropped.
#[must_use = "a lease that is dropped at once ends the call"]
pub struct Lease(Option<Held>);

struct Held {
    choice: Choice,
    then: Option<Box<dyn Ending>>,
}

impl Lease {
    pub(crate) fn new(choice: Choice, then: Option<Box<dyn Ending>>) -> Self {
        Self(Some(Held { choice, then }))
    }

    /// The instance; `None` never, as long as the call has not ended.
    pub fn instance(&self) -> Option<ServiceInstance> {
        self.0.as_ref().map(|held| held.choice.instance())
    }

    /// The state of the instance.
    #[cfg_attr(not(feature = "reqwest"), allow(dead_code))]
    pub(crate) fn state(&self) -> Option<&Arc<InstanceState>> {
        self.0.as_ref().map(|held| held.choice.shared_state())
    }

    /// The instance answered, though the call goes on.
    pub(crate) fn answered(&mut self, outcome: Outcome) {
        if let Some(held) = &mut self.0 {
            held.choice.answered(outcome);
        }
    }

    /// Tells the policy what the instance says of its load; see [`Choice::report`].
    pub fn report(&self, report: &LoadReport) {
        if let Some(held) = &self.0 {
            held.choice.report(report);
        }
    }

    /// Looks through the headers of the reply for a report of load, unless that was done.
    pub(crate) fn hear(&mut self, headers: &HeaderMap) {
        if let Some(held) = &mut self.0 {
            held.choice.hear(headers);
        }
    }

    /// The same for its trailers.
    pub(crate) fn hear_trailers(&self, trailers: &HeaderMap) {
        if let Some(held) = &self.0 {
            held.choice.hear_more(trailers);
        }
    }

    /// Ends the call with what came of it.
    pub fn complete(mut self, outcome: Outcome) {
        self.end(outcome);
    }

    /// Keeps the call until the body of `response` ends or is dropped; see [`Choice::track`].
    pub fn track<R: Track>(self, response: R) -> R::Tracked {
        response.track(self)
    }

    fn end(&mut self, outcome: Outcome) {
        if let Some(Held { choice, then }) = self.0.take() {
            let took = choice.elapsed();
            choice.complete(outcome);
            if let Some(then) = then {
                then.ended(outcome, took);
            }
        }
    }
}

impl From<Choice> for Lease {
    fn from(choice: Choice) -> Self {
        Self::new(choice, None)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.end(Outcome::Cancelled);
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lease").field(&self.0.as_ref().map(|held| &held.choice)).finish()
    }
}
