//! Outlier detection: instances that real calls show to be bad are ejected for a while, and come back by one probing call.
//!
//! Nothing of it is on the path of a pick: an ejected instance is one that does not fit. It does nothing, and counts nothing
//! but failures, as long as all is well.

mod cause;
mod detect;
mod settings;
#[cfg(all(test, not(evenkeel_loom)))]
mod tests;

use std::sync::{Arc, Weak};
use std::task::Wake;
use std::time::Duration;

use arc_swap::ArcSwapOption;

pub use cause::EjectionCause;
pub(crate) use settings::{Detection, EjectionTime, FailurePercentage, Growth, Limits, SuccessRate};

use super::InstanceState;
use super::service::ServiceState;
use super::tally::{Row, Window};
use crate::alarm::Alarm;
use crate::choice::Outcome;
use crate::random::Random;
use crate::sync::{AtomicU8, Mutex, Ordering};

/// An operator's override says so.
const OVERRIDDEN: u8 = 1;
/// So few instances are usable that all are used.
const PANIC: u8 = 2;

/// The outlier detection of one service.
#[derive(Debug)]
pub(crate) struct Outliers {
    settings: ArcSwapOption<Detection>,
    /// Why nobody is to be ejected now: [`OVERRIDDEN`], [`PANIC`].
    suspended: AtomicU8,
    crowd: Mutex<Crowd>,
    /// 1 while a sweep is due, or runs.
    sweeping: AtomicU8,
    alarm: Alarm,
    random: Random,
}

/// How many instances there are, and how many of them are out: of those that are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Crowd {
    pub(crate) listed: usize,
    /// Out of use for any reason; below zero for a moment when one is back before it was counted.
    pub(crate) out: isize,
    pub(crate) ejected: usize,
}

impl Crowd {
    /// One more that is listed.
    pub(crate) fn add(&mut self, state: &InstanceState) {
        self.listed += 1;
        // The lock is for the few that are out.
        if state.is_skipped() {
            self.out += 1;
            self.ejected += usize::from(state.ejected().is_some());
        }
    }
}

/// An instance that is to go, and why.
struct Named {
    state: Arc<InstanceState>,
    cause: EjectionCause,
    /// Of the while that was looked at.
    window: Window,
}

impl Outliers {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self {
            settings: ArcSwapOption::empty(),
            suspended: AtomicU8::new(0),
            crowd: Mutex::default(),
            sweeping: AtomicU8::new(0),
            alarm: Alarm::default(),
            random: Random::new(seed),
        }
    }

    /// Other settings; `None` switches it off. Who is out comes back by who calls this.
    pub(crate) fn configure(&self, settings: Option<Detection>) {
        if self.settings.load().as_deref() != settings.as_ref() {
            self.settings.store(settings.map(Arc::new));
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.settings.load().is_some()
    }

    /// An operator says that nobody is to be ejected, or no longer.
    pub(super) fn suspend(&self, yes: bool) {
        self.hold(OVERRIDDEN, yes);
    }

    /// All are used, or no longer; whether that is new.
    pub(super) fn panic(&self, yes: bool) -> bool {
        (self.hold(PANIC, yes) & PANIC == 0) == yes
    }

    fn hold(&self, why: u8, yes: bool) -> u8 {
        if yes {
            self.suspended.fetch_or(why, Ordering::Relaxed)
        } else {
            self.suspended.fetch_and(!why, Ordering::Relaxed)
        }
    }

    /// By what to eject now, if anybody is to be.
    fn in_force(&self) -> Option<Arc<Detection>> {
        if self.suspended.load(Ordering::Relaxed) == 0 { self.settings.load_full() } else { None }
    }

    /// Whether a good answer forgets that an instance was ejected.
    pub(super) fn forgives(&self) -> bool {
        self.settings.load().as_ref().is_some_and(|settings| settings.time.growth == Growth::Doubling)
    }

    #[cfg(all(test, evenkeel_loom))]
    pub(crate) fn crowd(&self) -> Crowd {
        *self.crowd.lock()
    }

    /// The newest list, and who of it is out.
    pub(crate) fn count(&self, crowd: Crowd) {
        *self.crowd.lock() = crowd;
    }

    /// One is out of use, for another reason than this.
    pub(super) fn left(&self) {
        self.crowd.lock().out += 1;
    }

    /// One is back.
    pub(super) fn returned(&self, was_ejected: bool) {
        let mut crowd = self.crowd.lock();
        crowd.out -= 1;
        crowd.ejected = crowd.ejected.saturating_sub(usize::from(was_ejected));
    }

    /// A call failed: the instance may be an outlier by its failures in a row, and the others are looked at from time to time.
    pub(super) fn failed(&self, state: &Arc<InstanceState>, outcome: Outcome, row: Row) {
        let Some(settings) = self.in_force() else { return };
        self.begin_sweeps(state, settings.interval);
        if let (Outcome::RetryAfter(later), true) = (outcome, settings.retry_after)
            && later.seconds() > 0
        {
            let after = Duration::from_secs(u64::from(later.seconds())).min(settings.time.max);
            self.eject(state, EjectionCause::RetryAfter, &settings, Some(after), row.into());
            return;
        }
        // At each multiple, so that one which the limit kept in use is tried again, and not at every failure.
        let reached = |row: u32, threshold: u32| {
            let threshold = threshold.min(Row::MOST);
            threshold > 0 && row >= threshold && row.is_multiple_of(threshold)
        };
        let causes = [
            (EjectionCause::ConsecutiveErrors, row.all(), settings.consecutive),
            (EjectionCause::ConsecutiveGatewayErrors, row.gateway(), settings.consecutive_gateway),
            (EjectionCause::ConsecutiveLocalErrors, row.local(), settings.consecutive_local),
        ];
        if let Some((cause, ..)) = causes.into_iter().find(|(_, row, most)| reached(*row, *most)) {
            self.eject(state, cause, &settings, None, row.into());
        }
    }

    /// The probing call of one that is ejected failed: out it stays, for longer.
    pub(super) fn failed_again(&self, state: &Arc<InstanceState>, cause: EjectionCause) {
        match self.in_force() {
            Some(settings) => {
                let length = |times| settings.time.drawn(times, self.random.next());
                InstanceState::eject(state, cause, length, true);
                state.service().fitness_changed();
            }
            // Switched off in the meantime.
            None => state.restore(),
        }
    }

    /// Takes an instance out, if the limits let it go.
    fn eject(
        &self,
        state: &Arc<InstanceState>,
        cause: EjectionCause,
        settings: &Detection,
        fixed: Option<Duration>,
        window: Window,
    ) {
        // Before the lock, which a storm of failures would else contend for.
        if state.is_skipped() {
            return;
        }
        let service = state.service();
        let mut crowd = self.crowd.lock();
        let share = |crowd: &Crowd| format!("{} of {}", crowd.ejected, crowd.listed);
        if !settings.limits.admit(crowd.listed, crowd.ejected, crowd.out.max(0).unsigned_abs()) {
            let seen = *crowd;
            drop(crowd);
            if let Some(passed) = service.logs().outlier.pass() {
                let (ejected, suppressed) = (share(&seen), passed.suppressed());
                tracing::warn!(
                    service = %service.id(), instance = %state.instance(), %cause, %ejected, suppressed,
                    "an outlier stays in use: no more may be ejected"
                );
            }
            return;
        }
        let length = |times| fixed.unwrap_or_else(|| settings.time.drawn(times, self.random.next()));
        let Some(after) = InstanceState::eject(state, cause, length, false) else { return };
        crowd.ejected += 1;
        crowd.out += 1;
        let seen = *crowd;
        drop(crowd);
        if let Some(passed) = service.logs().ejected.pass() {
            let ejected = share(&seen);
            tracing::warn!(
                service = %service.id(),
                instance = %state.instance(),
                %cause,
                calls = window.calls,
                failed = window.failed,
                for_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
                %ejected,
                suppressed = passed.suppressed(),
                "an instance is ejected"
            );
        }
        service.fitness_changed();
    }

    /// Looks at all instances after an interval, and again as long as anything fails or is out.
    fn begin_sweeps(&self, state: &Arc<InstanceState>, interval: Duration) {
        if self.sweeping.load(Ordering::Relaxed) != 0 || self.sweeping.swap(1, Ordering::AcqRel) != 0 {
            return;
        }
        let service = state.shared_service();
        // The while begins now: what was well before says nothing.
        each(service, &mut |state, _| {
            state.take_window(false);
        });
        self.arm(service, interval);
    }

    fn arm(&self, service: &Arc<ServiceState>, after: Duration) {
        let sweep = Arc::new(Sweep(Arc::downgrade(service)));
        let runtime = service.back_off().0;
        if !runtime.is_some_and(|runtime| self.alarm.set(&runtime, after, &sweep)) {
            // Rung at once, it would find one that is out, and come here again without end. The next failure begins anew.
            self.sweeping.store(0, Ordering::Release);
        }
    }

    /// The end of an interval.
    fn sweep(&self, service: &Arc<ServiceState>) {
        let Some(settings) = self.in_force() else {
            self.sweeping.store(0, Ordering::Release);
            return;
        };
        let (mut states, mut windows, mut busy) = (Vec::new(), Vec::new(), false);
        let mut crowd = Crowd::default();
        each(service, &mut |state, listed| {
            // Who fails its health check is no part of those of whom some must stay.
            if listed {
                crowd.add(state);
            }
            let (window, recovering) = state.take_window(settings.time.growth == Growth::Linear);
            busy |= recovering || window.failed > 0;
            // Ejected ones are left out of the mean.
            if !state.is_skipped() {
                states.push(Arc::clone(state));
                windows.push(window);
            }
        });
        self.count(crowd);
        let mut named: Vec<Named> = Vec::new();
        let mut name = |found: Vec<usize>, cause| {
            for at in found {
                let state = Arc::clone(&states[at]);
                if named.iter().all(|other| !Arc::ptr_eq(&other.state, &state)) {
                    named.push(Named { state, cause, window: windows[at] });
                }
            }
        };
        if let Some(rule) = settings.success_rate {
            name(detect::by_success_rate(&windows, rule), EjectionCause::SuccessRate);
        }
        if let Some(rule) = settings.failure_percentage {
            name(detect::by_failure_percentage(&windows, rule), EjectionCause::FailurePercentage);
        }
        // The limit may not let all of them go: the worst first.
        named.sort_by(|a, b| b.window.failure_rate().total_cmp(&a.window.failure_rate()));
        for Named { state, cause, window } in named {
            self.eject(&state, cause, &settings, None, window);
        }
        if busy {
            self.arm(service, settings.interval);
            return;
        }
        self.sweeping.store(0, Ordering::Release);
    }
}

/// Every instance of the newest list.
fn each(service: &ServiceState, look: &mut dyn FnMut(&Arc<InstanceState>, bool)) {
    if let Some(sink) = service.sink() {
        sink.each(look);
    }
}

struct Sweep(Weak<ServiceState>);

impl Wake for Sweep {
    fn wake(self: Arc<Self>) {
        if let Some(service) = self.0.upgrade() {
            service.outliers().sweep(&service);
        }
    }
}
