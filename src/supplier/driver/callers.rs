//! Whether anybody calls, and what stages ask of their chain.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::super::Chained;
use super::{Driver, Publish};
use crate::ServiceInstance;
use crate::state::ChangeKind;

impl<P: Publish> Driver<P> {
    /// A caller answered the question whether anybody is there.
    pub(super) fn seen(self: &Arc<Self>) {
        // The caller's runtime before that of the last look-up, which may be gone by now.
        let runtime = self.runtime.clone().or_else(|| Handle::try_current().ok());
        let sleeping = {
            let mut control = self.control.lock();
            control.used = Instant::now();
            let runtime = runtime.or_else(|| control.runtime.clone());
            runtime.filter(|_| std::mem::take(&mut control.wake))
        };
        if let Some(runtime) = sleeping {
            let driver = Arc::downgrade(self);
            // Not on the caller's path: it takes the lock of the control plane.
            runtime.spawn(async move {
                if let Some(driver) = driver.upgrade() {
                    driver.publish.wake();
                }
            });
        }
    }

    /// How long the question whether anybody calls has gone unanswered; asks it if nobody has.
    pub(super) fn idle_for(&self) -> Duration {
        let mut control = self.control.lock();
        if !self.word.ask_idle() {
            control.used = Instant::now();
        }
        // Nobody will ever call a closed one.
        let idle = if self.word.load().is_closed() { Duration::MAX } else { control.used.elapsed() };
        drop(control);
        // A stream of lists is a caller as long as it is waited on: let it answer.
        self.epoch.send_modify(|_| {});
        idle
    }
}

impl<P: Publish> Chained for Driver<P> {
    fn recompute(&self) {
        // It runs on the thread of whoever asked: a stage that panics must not take a prober with it.
        if catch_unwind(AssertUnwindSafe(|| self.publish.recompute())).is_err()
            && let Some(passed) = self.logs.stage.pass()
        {
            let (service, suppressed) = (self.base.service_id(), passed.suppressed());
            tracing::error!(%service, suppressed, "a stage of the chain or the policy panicked: the last list stands");
        }
    }

    fn idle_for(&self) -> Duration {
        Self::idle_for(self)
    }

    fn note(&self, kind: ChangeKind, instance: Option<&ServiceInstance>, detail: Cow<'static, str>) {
        self.publish.note(kind, instance, detail);
    }

    fn wake_me(&self) {
        self.control.lock().wake = true;
        self.word.ask_idle();
    }
}
