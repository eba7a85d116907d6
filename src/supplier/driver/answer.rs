use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Driver, LookUp, Origin, Publish};
use crate::ServiceInstance;
use crate::discovery::{SupplyError, SupplyErrorKind};
use crate::state::ChangeKind;

const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// What the task does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Go on: read the watch, or end.
    Go,
    /// The empty answer of a watch is believed at this time, if nothing else comes.
    BelieveAt(Instant),
}

/// What gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// A look-up.
    LookUp,
    /// A watch that is open and has not given a list since it was opened, or since it failed last.
    Watch,
    /// A watch that had confirmed its list until now.
    LiveWatch,
}

impl Failed {
    /// `delivered`: it has given a list.
    pub(super) fn by(watch: bool, delivered: bool) -> Self {
        match (watch, delivered) {
            (false, _) => Self::LookUp,
            (true, false) => Self::Watch,
            (true, true) => Self::LiveWatch,
        }
    }
}

impl<P: Publish> Driver<P> {
    /// Takes a list from the source.
    pub(super) fn answered(self: &Arc<Self>, list: Vec<ServiceInstance>, watch: bool) -> Next {
        let now = Instant::now();
        let at_hand = self.publish.has_instances() == Some(true);
        let empty = list.is_empty();
        let (settings, until) = {
            let mut control = self.control.lock();
            let settings = Arc::clone(&control.settings);
            let guarded =
                empty && at_hand && !settings.empty_guard.is_zero() && (!watch || settings.guard_watch);
            let until = if guarded {
                let first = control.empty_since.is_none();
                let since = *control.empty_since.get_or_insert(now);
                // A guard longer than the clock can count is kept for a year at a time.
                let until = since.checked_add(settings.empty_guard).unwrap_or(now + YEAR);
                (now < until).then_some((until, first))
            } else {
                None
            };
            (settings, until)
        };
        // Before the answer is noted: a stage that panics at it leaves everything as it was.
        let origin = if watch { Origin::Push } else { Origin::Pull };
        let changed = until.is_none() && self.publish.publish(list, origin, now);
        if !watch {
            self.publish.looked_up(if empty { LookUp::Empty } else { LookUp::List });
        }
        {
            let mut control = self.control.lock();
            self.recovered(&control, until.is_some(), empty);
            control.failures = 0;
            control.last_error = None;
            control.backing_off = false;
            if let Some((until, _)) = until {
                control.limit = Some(until);
            } else {
                control.empty_since = None;
                control.confirmed = Some(now);
                control.limit = now.checked_add(settings.hard_age).filter(|_| !watch && !empty);
            }
        }
        if let Some((until, first)) = until {
            return self.guard(until, first, now, watch);
        }
        if watch {
            self.word.watching(false);
            self.stop_ringing();
        } else if empty {
            self.word.finish(false, false);
            self.ring(settings.empty_life, true);
        } else if settings.caching {
            self.word.finish(false, false);
            self.ring(settings.ttl, settings.refresh_waits);
        } else {
            self.word.finish(true, true);
        }
        self.ended();
        if let (Some(dir), true) = (&settings.disk, changed && !empty) {
            super::disk::save(dir, self.base.service_id(), self.publish.raw());
        }
        Next::Go
    }

    /// Takes a list that the source had before it failed: it is as old as what was confirmed last.
    pub(super) fn beheld(self: &Arc<Self>, list: Vec<ServiceInstance>) {
        if list.is_empty() {
            return;
        }
        let at = *self.control.lock().confirmed.get_or_insert_with(Instant::now);
        self.publish.publish(list, Origin::Stale, at);
    }

    /// Tells what ends with this answer: that there was none, or that an empty one was not believed.
    fn recovered(&self, before: &super::Control, guarded: bool, empty: bool) {
        let service = self.base.service_id();
        if before.failures > 0 {
            let detail = format!("after {} look-ups without an answer", before.failures);
            self.publish.note(ChangeKind::SourceRecovered, None, detail.into());
        }
        if before.empty_since.is_some() && !guarded {
            let detail =
                if empty { "the empty list is believed now" } else { "the source lists instances again" };
            self.publish.note(ChangeKind::GuardOff, None, detail.into());
        }
        if before.failures > 0
            && let Some(passed) = self.logs.answers.pass()
        {
            let (failures, suppressed) = (before.failures, passed.suppressed());
            tracing::info!(%service, failures, suppressed, "the source answers again");
        }
        if before.empty_since.is_some()
            && !guarded
            && let Some(passed) = self.logs.guard.pass()
        {
            let suppressed = passed.suppressed();
            tracing::info!(%service, empty, suppressed, "the empty guard is off");
        }
    }

    /// An empty answer against a list at hand: the list is kept for a bounded time.
    fn guard(self: &Arc<Self>, until: Instant, first: bool, now: Instant, watch: bool) -> Next {
        self.publish.mark(Origin::Guarded);
        if first {
            let left = until.saturating_duration_since(now).as_millis();
            let detail = format!("the source gives an empty list; the last one is kept for {left} ms");
            self.publish.note(ChangeKind::GuardOn, None, detail.into());
        }
        if first && let Some(passed) = self.logs.guard.pass() {
            tracing::warn!(
                service = %self.base.service_id(),
                seconds = until.saturating_duration_since(now).as_secs(),
                suppressed = passed.suppressed(),
                "the empty guard is on: the source gives an empty list, and the last one is kept for now"
            );
        }
        let next = if watch {
            self.word.watching(false);
            Next::BelieveAt(until)
        } else {
            self.word.finish(false, false);
            // Asked again every 1 to 5 s, so that a passing emptiness ends as soon as it passes.
            let again = Duration::from_secs(1) + Duration::from_secs(4).mul_f64(self.share());
            let left = until.saturating_duration_since(now);
            self.ring(again.min(left), left <= again);
            Next::Go
        };
        self.ended();
        next
    }

    /// Notes that there was no answer; returns how long to leave the source alone.
    pub(super) fn failed(self: &Arc<Self>, error: SupplyError, what: Failed) -> Duration {
        let watch = what != Failed::LookUp;
        let now = Instant::now();
        self.publish.looked_up(match error.kind() {
            _ if watch => LookUp::WatchBroke,
            SupplyErrorKind::Timeout => LookUp::Timeout,
            _ => LookUp::Failed,
        });
        let error = error.of_service(self.base.service_id());
        let (delay, bound, failures) = {
            let mut control = self.control.lock();
            let step = control.settings.back_off.after(control.failures);
            if what == Failed::LiveWatch {
                control.confirmed = Some(now);
            }
            control.failures = control.failures.saturating_add(1);
            // Full jitter over a tenth, so that the clients of a registry that returns do not come all at once, and none
            // of them at once.
            let delay = step.mul_f64(0.1 + 0.9 * self.share());
            let bound = match (control.settings.stale_bound, control.confirmed) {
                (Some(bound), Some(confirmed)) => confirmed.checked_add(bound),
                _ => None,
            };
            control.limit = bound;
            control.last_error = Some(error.clone());
            control.failed = Some((now, now.checked_add(delay)));
            (delay, bound, control.failures)
        };
        if bound.is_some_and(|bound| now >= bound) && self.publish.has_instances().is_some() {
            tracing::warn!(service = %self.base.service_id(), "the last list is too old to be served");
            self.publish.note(ChangeKind::ListDropped, None, "the last list is too old to be served".into());
            self.publish.clear();
        }
        let at_hand = self.publish.has_instances().is_some();
        let service = self.base.service_id();
        if failures == 1 {
            self.publish.note(ChangeKind::SourceFailed, None, error.to_string().into());
        }
        if failures > 1 {
            tracing::debug!(%service, %error, failures, "the source still does not answer");
        } else if let Some(passed) = self.logs.answers.pass() {
            let suppressed = passed.suppressed();
            tracing::warn!(%service, %error, at_hand, suppressed, "the source does not answer");
        }
        self.control.lock().backing_off = !at_hand;
        if at_hand {
            self.publish.mark(if self.control.lock().confirmed.is_some() {
                Origin::Stale
            } else {
                Origin::Disk
            });
        }
        if watch {
            self.word.watching(!at_hand);
        } else {
            self.word.finish(!at_hand, false);
            let left = bound.map(|bound| bound.saturating_duration_since(now)).filter(|_| at_hand);
            match left {
                Some(left) if left <= delay => self.ring(left, true),
                _ => self.ring(delay, false),
            }
        }
        self.ended();
        delay
    }

    /// The look-up went away with its runtime. The next caller starts another; a watch's list starts to age.
    pub(super) fn aborted(self: &Arc<Self>) {
        if self.word.load().is_closed() {
            return;
        }
        self.publish.looked_up(LookUp::Aborted);
        let error = SupplyError::new(SupplyErrorKind::Aborted, "the runtime", "it was shut down")
            .of_service(self.base.service_id());
        {
            let mut control = self.control.lock();
            if self.word.load().is_watching() {
                control.confirmed_until_now();
            }
            control.last_error = Some(error);
            control.backing_off = false;
            control.failures = control.failures.saturating_add(1);
            control.failed = Some((Instant::now(), None));
            if let Some(passed) = self.logs.aborted.pass() {
                let (service, suppressed) = (self.base.service_id(), passed.suppressed());
                tracing::warn!(%service, suppressed, "the runtime of a look-up went away");
            }
        }
        self.publish.note(ChangeKind::SourceFailed, None, "the runtime of the look-up went away".into());
        let at_hand = self.publish.has_instances().is_some();
        if at_hand {
            self.publish.mark(Origin::Stale);
        }
        self.word.finish(!at_hand, true);
        self.ended();
    }

    /// The watch is closed, since nobody called for a while; the list ages from now on.
    pub(super) fn fell_idle(self: &Arc<Self>) {
        let settings = {
            let mut control = self.control.lock();
            control.confirmed_until_now();
            control.limit = Instant::now().checked_add(control.settings.hard_age);
            Arc::clone(&control.settings)
        };
        self.publish.mark(Origin::Pull);
        tracing::info!(service = %self.base.service_id(), "the watch is closed: nobody calls");
        if self.publish.has_instances().is_none() {
            self.word.finish(true, true);
            return;
        }
        self.word.finish(false, false);
        self.ring(settings.ttl, settings.refresh_waits);
    }

    /// A number from 0 to 1.
    #[allow(clippy::cast_precision_loss)] // 53 bits fit
    fn share(&self) -> f64 {
        (self.random.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
