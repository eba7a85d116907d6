//! Waiting for a list.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Driver, Publish, Settings, Unready};
use crate::discovery::SupplyErrorKind;

impl<P: Publish> Driver<P> {
    /// Waits until a list may be served; returns at once if that is so.
    pub(crate) async fn ready(self: &Arc<Self>) -> Result<(), Unready> {
        let started = Instant::now();
        let settings = self.settings();
        // Subscribed before the test, so that no end of a look-up is missed.
        let mut epoch = self.epoch.subscribe();
        let mut aborted = 0;
        loop {
            let seen = *epoch.borrow_and_update();
            let word = self.word.load();
            if word.wants_attention() {
                match self.attend(word) {
                    Ok(()) => {}
                    Err(Unready::Wait) => {
                        let left = settings.choose_timeout.saturating_sub(started.elapsed());
                        match self.within(left, epoch.changed()).await {
                            // A timer rang, and no look-up ended.
                            Ok(_) if *epoch.borrow() == seen => continue,
                            // Not an end with an answer: somebody closed it meanwhile.
                            Ok(_) if self.word.load().is_closed() => return Err(Unready::Closed),
                            Ok(_) => match self.outcome() {
                                // However old the list may be by now: it is the answer that this caller waited for.
                                Ok(()) => {
                                    return self.or_first_instance(started, &settings, &mut epoch).await;
                                }
                                Err(error) if error.kind() == SupplyErrorKind::Aborted && aborted < 3 => {
                                    // The runtime that ran it went away: this caller's own one starts another.
                                    aborted += 1;
                                    continue;
                                }
                                Err(_) if self.publish.has_instances().is_some() => return Ok(()),
                                Err(error) => return Err(Unready::Failed(error)),
                            },
                            Err(_) if self.publish.has_instances() == Some(true) => {
                                // Served, and nobody waits again for that look-up.
                                self.control.lock().limit = None;
                                self.word.serve();
                                return Ok(());
                            }
                            Err(_) => return Err(Unready::Timeout(started.elapsed())),
                        }
                    }
                    Err(unready) => return Err(unready),
                }
            }
            return self.or_first_instance(started, &settings, &mut epoch).await;
        }
    }

    /// A list is at hand; if it is empty and the caller is to wait for the first instance, waits.
    async fn or_first_instance(
        self: &Arc<Self>,
        started: Instant,
        settings: &Settings,
        epoch: &mut watch::Receiver<u64>,
    ) -> Result<(), Unready> {
        while self.publish.has_instances() == Some(false) {
            let left = settings.wait_for_instances.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            // The list expires after its short life, and then this caller looks again.
            let _ = self.within(left.min(settings.empty_life), epoch.changed()).await;
            epoch.borrow_and_update();
            let word = self.word.load();
            if word.wants_attention() {
                match self.attend(word) {
                    Ok(()) | Err(Unready::Wait | Unready::Failed(_)) => {}
                    Err(unready) => return Err(unready),
                }
            }
        }
        Ok(())
    }

    /// `future` with a limit, on the clock of the runtime that looks up: the caller may have none.
    fn within<F: Future>(&self, limit: Duration, future: F) -> tokio::time::Timeout<F> {
        let looking_up = || self.control.lock().runtime.clone();
        let runtime = self.runtime.clone().or_else(|| Handle::try_current().ok()).or_else(looking_up);
        let _entered = runtime.as_ref().map(Handle::enter);
        tokio::time::timeout(limit, future)
    }
}
