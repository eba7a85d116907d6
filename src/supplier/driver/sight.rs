//! What reports say of the look-ups of a service.

use std::time::Duration;

use tokio::time::Instant;

use super::{Driver, Publish};
use crate::discovery::{SourceHealth, SupplyError};

/// The state of the look-ups at one moment.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own
pub(crate) struct Sight {
    pub(crate) health: SourceHealth,
    /// When the source failed last, also if it answered since, and when it is asked again after that.
    pub(crate) failed: Option<(Instant, Option<Instant>)>,
    /// The error of now; `None` once it answered.
    pub(crate) error: Option<SupplyError>,
    pub(crate) busy: bool,
    pub(crate) watching: bool,
    pub(crate) due: bool,
    pub(crate) callers_wait: bool,
    /// Since when the source gives an empty list that is not believed.
    pub(crate) guarded_since: Option<Instant>,
    pub(crate) empty_guard: Duration,
}

impl<P: Publish> Driver<P> {
    pub(crate) fn sight(&self) -> Sight {
        let (health, word) = (self.source_health(), self.word.load());
        let control = self.control.lock();
        Sight {
            health,
            failed: control.failed,
            error: control.last_error.clone(),
            busy: word.is_busy(),
            watching: word.is_watching(),
            due: word.is_due(),
            callers_wait: word.must_wait(),
            guarded_since: control.empty_since,
            empty_guard: control.settings.empty_guard,
        }
    }
}
