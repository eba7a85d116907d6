//! Looking again before it is time, because a call could not be sent or somebody asks.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Driver, Publish};

impl<P: Publish> Driver<P> {
    /// Asks the source again now, behind the callers; a source with an open watch is only told.
    pub(crate) fn look_up(self: &Arc<Self>) {
        self.word.due();
        // Without a runtime the next caller that has one does it.
        let _ = self.kick();
        self.poke();
    }

    /// A call could not be sent: perhaps the source knows more. At most once a second, since every call may fail; and not
    /// while the source itself gives no answer, which has a back-off of its own.
    pub(crate) fn doubt(self: &Arc<Self>) {
        if self.control.lock().failures > 0 {
            return;
        }
        if self.word.load().is_watching() {
            self.poke();
        } else if !self.lately() {
            self.word.due();
            let _ = self.kick();
        }
    }

    /// Whether the source was made to look within the last second; if not, it is now.
    fn lately(&self) -> bool {
        let now = Instant::now();
        let mut control = self.control.lock();
        let lately = |at| now.saturating_duration_since(at) < Duration::from_secs(1);
        if control.poked.is_some_and(lately) {
            return true;
        }
        control.poked = Some(now);
        false
    }

    /// Tells a source with an open watch to look, at most once a second and unless it is still at it. Bounded, and stopped
    /// with everything else.
    fn poke(&self) {
        let word = self.word.load();
        if !word.is_watching() || word.is_closed() {
            return;
        }
        let (runtime, limit) = {
            let control = self.control.lock();
            if control.poking.as_ref().is_some_and(|task| !task.is_finished()) {
                return;
            }
            (control.runtime.clone(), control.settings.look_up_limit)
        };
        if self.lately() {
            return;
        }
        let (Some(runtime), Some(poke)) = (runtime, self.base.poke()) else { return };
        let task = runtime.spawn(async move {
            // What comes of it arrives on the watch.
            let _ = tokio::time::timeout(limit, poke).await;
        });
        if let Some(other) = self.control.lock().poking.replace(task) {
            other.abort();
        }
        self.unless_closed();
    }

    /// What was started while the balancer was being closed may have been missed by that.
    pub(super) fn unless_closed(&self) {
        if self.word.load().is_closed() {
            drop(self.shut());
        }
    }
}
