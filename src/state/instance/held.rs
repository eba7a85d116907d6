//! New, and held out of use until a connection to it is open.

use std::time::Duration;

use tokio::time::Instant;

use super::InstanceState;
use crate::sync::Ordering;

impl InstanceState {
    /// Whether a connection to it is being opened, and calls go to others until then; see
    /// [`PreConnectionProperties`](crate::config::PreConnectionProperties).
    pub fn is_connecting(&self) -> bool {
        self.fitness.is_held()
    }

    /// Holds it out of use until [`end_hold`](Self::end_hold), which `limit` is told of for reports; or until a call that
    /// went to it anyway is answered. Only one that is in use is held; whether it was.
    pub(crate) fn hold(&self, limit: Duration) -> bool {
        {
            let mut skip = self.skip.lock();
            if !self.fitness.hold() {
                return false;
            }
            // The time until it is in use is none of its slow start.
            skip.warmed = self.fitness.is_warming().then(|| {
                self.fitness.set_warming(false);
                self.service.now().saturating_sub(self.warm_from.load(Ordering::Relaxed))
            });
            let now = Instant::now();
            (skip.since, skip.until) = (Some(now), now.checked_add(limit));
        }
        self.service.outliers().left();
        true
    }

    /// It is in use from now on; whether it was held.
    pub(crate) fn end_hold(&self) -> bool {
        {
            let mut skip = self.skip.lock();
            if !self.fitness.is_held() {
                return false;
            }
            // Before it fits, so that no pick sees it unwarmed.
            self.go_on_warming(skip.warmed.take());
            self.fitness.end_hold();
            (skip.since, skip.until) = (None, None);
        }
        self.service.outliers().returned(false);
        true
    }

    /// A slow start goes on that had lasted for `warmed` nanoseconds.
    pub(super) fn go_on_warming(&self, warmed: Option<u64>) {
        if let Some(warmed) = warmed.filter(|_| self.service.warmth().is_on()) {
            self.warm_from.store(self.service.now().saturating_sub(warmed), Ordering::Relaxed);
            self.fitness.set_warming(true);
        }
    }
}
