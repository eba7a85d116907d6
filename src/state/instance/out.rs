//! Out of use and back: calls that could not be sent, ejections, and the slow start after them.

use std::sync::{Arc, Weak};
use std::task::Wake;
use std::time::Duration;

use tokio::time::Instant;

use super::{FAILING, InstanceState, PACED};
use crate::choice::Outcome;
use crate::state::outlier::EjectionCause;
use crate::state::tally::{Count, Window};
use crate::state::{ChangeKind, Condition, Use};
use crate::sync::Ordering;

/// What is changed under a lock, away from the picks.
#[derive(Debug, Default)]
pub(super) struct Skip {
    /// Back-offs in a row.
    pub(super) failures: u32,
    pub(super) until: Option<Instant>,
    /// When it left the list.
    gone: Option<Instant>,
    /// Whether its weight was warned about.
    warned: bool,
    /// Rows of failures that counted as load, without a good answer between them.
    pub(super) rows: u32,
    /// When it went out of use, or failures began to count as load.
    pub(super) since: Option<Instant>,
    /// When failures count as load no longer.
    pub(super) relieved: Option<Instant>,
    /// Why it is ejected, if it is.
    ejected: Option<EjectionCause>,
    /// Ejections in a row.
    ejections: u32,
    /// Where the counts stood when the last while began.
    count: Count,
    /// The last while.
    window: Option<Window>,
    /// It was in use before.
    seen: bool,
    /// A stage leaves it out of the newest list.
    left_out: bool,
    /// For how long it had warmed up when it was held, if it did, in nanoseconds.
    pub(super) warmed: Option<u64>,
}

impl InstanceState {
    /// Notes when it was seen to be gone first, or that it is back.
    pub(crate) fn mark_gone(&self, now: Option<Instant>) {
        let mut skip = self.skip.lock();
        skip.gone = match (skip.gone, now) {
            (Some(since), Some(_)) => Some(since),
            (_, now) => now,
        };
    }

    pub(crate) fn gone_since(&self) -> Option<Instant> {
        self.skip.lock().gone
    }

    /// True the first time only.
    pub(crate) fn warn_once(&self) -> bool {
        !std::mem::replace(&mut self.skip.lock().warned, true)
    }

    /// When a skipped instance gets its probing call, and one that is being connected gets calls at the latest.
    pub fn skipped_until(&self) -> Option<Instant> {
        if self.is_skipped() { self.skip.lock().until } else { None }
    }

    /// Why it is ejected, if it is; see [`OutlierDetectionProperties`](crate::config::OutlierDetectionProperties).
    pub fn ejected(&self) -> Option<EjectionCause> {
        self.skip.lock().ejected.filter(|_| self.is_skipped() || self.fitness.is_pardoned())
    }

    /// How often it was ejected in a row.
    pub fn ejections(&self) -> u32 {
        self.skip.lock().ejections
    }

    /// The part of its calls that succeeded, from 0 to 1, in the last interval of the outlier detection; `None` while nothing is
    /// counted, which is as long as nothing fails.
    pub fn success_rate(&self) -> Option<f64> {
        let window = self.skip.lock().window.filter(|window| window.calls > 0)?;
        Some(window.success_rate() / 100.0)
    }

    /// Failures since the last good answer.
    pub fn consecutive_failures(&self) -> u32 {
        self.tally.row().all()
    }

    /// What reports say of it.
    pub(crate) fn condition(&self) -> Condition {
        let skip = self.skip.lock();
        let in_use = self.fitness.in_use();
        Condition {
            in_use,
            failing: self.flags.load(Ordering::Relaxed) & FAILING != 0,
            counted: self.phantom.calls(),
            failures: skip.failures,
            ejected: skip.ejected.filter(|_| in_use != Use::Usable || self.fitness.is_pardoned()),
            ejections: skip.ejections,
            row: self.tally.row().all(),
            window: skip.window,
            warmth: self.fitness.is_warming().then(|| self.warmth(self.service().now())),
            warm_in: self.fitness.is_warming().then(|| self.warm_in(self.service().now())).flatten(),
            since: skip.since,
            until: skip.until,
            relieved: skip.relieved,
            gone: skip.gone,
            is_paced: self.flags.load(Ordering::Relaxed) & PACED != 0,
        }
    }

    /// The while that ends now, and whether ejections are still remembered, or in force; `decay` forgets one of them if it is in use.
    pub(crate) fn take_window(&self, decay: bool) -> (Window, bool) {
        let count = self.tally.count(self.standing().picks);
        let mut skip = self.skip.lock();
        let window = Window::between(skip.count, count);
        (skip.count, skip.window) = (count, Some(window));
        if decay && !self.fitness.is_skipped() {
            skip.ejections = skip.ejections.saturating_sub(1);
        }
        (window, skip.ejected.is_some() || (decay && skip.ejections > 0))
    }

    /// A probing call came to an end: with a good answer it is back in use, and so after a failure if no more was asked than that
    /// the connection is made.
    pub(super) fn probed(state: &Arc<Self>, outcome: Outcome) {
        let cause = state.skip.lock().ejected;
        match cause {
            Some(cause) if outcome.is_bad() => state.service().outliers().failed_again(state, cause),
            _ => state.restore(),
        }
    }

    /// The instance answers a probing call, which may go on for long; whether that is enough to bring it back.
    pub(crate) fn answers(&self, outcome: Outcome) -> bool {
        let enough = !outcome.is_bad() || self.skip.lock().ejected.is_none();
        if enough {
            self.restore();
        }
        enough
    }

    /// The instance answered: it is in use again.
    pub(crate) fn restore(&self) {
        let (was_ejected, was_held) = {
            // The whole step under one lock, as in `skip`: an alarm that a failure of this moment arms must not be
            // cancelled, or nothing would ever bring the instance back.
            let mut skip = self.skip.lock();
            let (was_ejected, was_held) = (skip.ejected.is_some(), self.fitness.is_held());
            // What comes back after an ejection is damped; before it fits, so that no pick sees it unwarmed.
            if was_ejected && self.fitness.is_skipped() {
                self.warm_up();
            }
            if was_held {
                self.go_on_warming(skip.warmed.take());
            }
            if !self.fitness.restore() {
                return;
            }
            self.alarm.cancel();
            (skip.failures, skip.until, skip.since, skip.ejected) = (0, None, None, None);
            (was_ejected, was_held)
        };
        let service = self.service();
        let kind = match (was_ejected, was_held) {
            (true, _) => ChangeKind::Returned,
            (_, true) => ChangeKind::Connected,
            _ => ChangeKind::Back,
        };
        service.note(kind, Some(&self.instance()), "it answered");
        service.outliers().returned(was_ejected);
        // One that is new was not out of use before.
        if !was_held && let Some(passed) = service.logs().back.pass() {
            let (service, suppressed) = (service.id(), passed.suppressed());
            tracing::info!(%service, instance = %self.instance(), suppressed, "an instance is back in use");
        }
        service.fitness_changed();
    }

    /// Whether its time out of use runs, though it may be used for want of others.
    pub(crate) fn is_waiting(&self) -> bool {
        self.fitness.in_use() == Use::Skipped || self.fitness.is_pardoned()
    }

    /// All are used: so is this one, if it is ejected, until its time is over or others are there.
    pub(crate) fn use_for_now(&self) {
        let skip = self.skip.lock();
        if skip.ejected.is_some() {
            self.fitness.pardon();
        }
    }

    /// Others are there: it is out again, for the rest of its time.
    pub(crate) fn end_use_for_now(&self) {
        let _skip = self.skip.lock();
        self.fitness.end_pardon(true);
    }

    /// Takes it back, if it is ejected: nobody ejects any more.
    pub(crate) fn pardon(&self) {
        let mut skip = self.skip.lock();
        (skip.ejections, skip.window) = (0, None);
        let ejected = skip.ejected.is_some();
        // Out, so that it comes back as the others do.
        self.fitness.end_pardon(true);
        drop(skip);
        if ejected {
            self.restore();
        }
    }

    pub(super) fn skip(state: &Arc<Self>, probe: bool) {
        let (_, limits) = state.service().back_off();
        let (after, failures, anew) = {
            let mut skip = state.skip.lock();
            let anew = !state.fitness.is_skipped();
            if !state.fitness.fail(probe) {
                return;
            }
            let after = limits.after(skip.failures);
            skip.failures = skip.failures.saturating_add(1);
            Self::wait(state, &mut skip, after);
            (after, skip.failures, anew)
        };
        let service = state.service();
        let detail =
            format!("a call could not be sent, back-off {} ms, {failures} in a row", after.as_millis());
        service.note(ChangeKind::Skipped, Some(&state.instance()), detail);
        if anew {
            service.outliers().left();
        }
        if let Some(passed) = service.logs().skipped.pass() {
            tracing::info!(
                service = %service.id(),
                instance = %state.instance(),
                failures,
                back_off_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
                suppressed = passed.suppressed(),
                "an instance is skipped: a call could not be sent to it"
            );
        }
        service.fitness_changed();
    }

    /// Takes it out of use for as long as `length` says of how often that happened in a row; `None` if it is out already.
    /// `probe`: the call that failed was to bring it back.
    pub(crate) fn eject(
        state: &Arc<Self>,
        cause: EjectionCause,
        length: impl FnOnce(u32) -> Duration,
        probe: bool,
    ) -> Option<Duration> {
        let mut skip = state.skip.lock();
        if !state.fitness.fail(probe) {
            return None;
        }
        skip.ejected = Some(cause);
        skip.ejections = skip.ejections.saturating_add(1);
        let after = length(skip.ejections);
        Self::wait(state, &mut skip, after);
        let times = skip.ejections;
        drop(skip);
        let again = if times > 1 { format!(", {times} in a row") } else { String::new() };
        let detail = format!("{cause}, for {} ms{again}", after.as_millis());
        state.service().note(ChangeKind::Ejected, Some(&state.instance()), detail);
        Some(after)
    }

    /// Until its probing call; under the lock that `skip` is.
    fn wait(state: &Arc<Self>, skip: &mut Skip, after: Duration) {
        let now = Instant::now();
        (skip.since, skip.until) =
            (skip.since.filter(|_| skip.failures + skip.ejections > 1).or(Some(now)), now.checked_add(after));
        let over = Arc::new(BackOffOver(Arc::downgrade(state)));
        let runtime = state.service().back_off().0;
        if !runtime.is_some_and(|runtime| state.alarm.set(&runtime, after, &over)) {
            // No timer would ever bring it back. Who is told of that may need the lock, and is told when it is let go.
            state.fitness.probe_due();
        }
    }

    /// Its time out of use is over: one call probes it. One that is used anyway is in use for good; if it is still bad, it is
    /// ejected for longer.
    fn time_is_over(&self) {
        let mut skip = self.skip.lock();
        if self.fitness.end_pardon(false) {
            (skip.until, skip.since, skip.ejected) = (None, None, None);
        }
        self.fitness.probe_due();
    }

    /// A good answer, where ejections are not forgotten by and by.
    pub(super) fn forgive(&self, skip: &mut Skip) {
        if self.service().outliers().forgives() {
            skip.ejections = 0;
        }
    }

    /// It is in use. Whether it was not before, because it is new, or because a stage left it out.
    pub(crate) fn let_in(&self) -> bool {
        let mut skip = self.skip.lock();
        let new = !std::mem::replace(&mut skip.seen, true);
        std::mem::take(&mut skip.left_out) || new
    }

    /// It is listed, but a stage leaves it out.
    pub(crate) fn leave_out(&self) {
        self.skip.lock().left_out = true;
    }

    /// A slow start begins, if there is one.
    pub(crate) fn warm_up(&self) {
        let service = self.service();
        if service.warmth().is_on() {
            self.warm_from.store(service.now(), Ordering::Relaxed);
            self.fitness.set_warming(true);
        }
    }

    /// When it will be warm, from now on.
    fn warm_in(&self, now: u64) -> Option<Duration> {
        let age = now.saturating_sub(self.warm_from.load(Ordering::Relaxed));
        self.service().warmth().left(age)
    }

    /// The part of its share that it gets, above 0 and up to 1; `now` is of the service's clock. A look at the clock is needed
    /// only while it [warms up](Self::is_warming).
    pub(crate) fn warmth(&self, now: u64) -> f32 {
        let age = now.saturating_sub(self.warm_from.load(Ordering::Relaxed));
        self.service().warmth().part(age).unwrap_or_else(|| {
            self.fitness.set_warming(false);
            1.0
        })
    }
}

struct BackOffOver(Weak<InstanceState>);

impl Wake for BackOffOver {
    fn wake(self: Arc<Self>) {
        if let Some(state) = self.0.upgrade() {
            state.time_is_over();
            state.service().fitness_changed();
        }
    }
}
