use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::InstanceState;
use super::admission::AdaptiveThrottle;
use super::behind::{Behind, Work};
use super::budget::Budget;
use super::changes::Changes;
use super::outlier::Outliers;
use super::pace::{Decay, PaceSettings};
use super::throttle::RetryThrottle;
use super::warmth::{Warmth, WarmthCell};
use crate::ServiceId;
use crate::choice::Outcome;
use crate::limit::Limit;
use crate::report::LoadReport;
use crate::wall::WallClock;

/// Who hears of the end of a lease: the balancer. It is reached through the instance's state, so that a lease is one
/// pointer and nothing below points upwards by type.
pub(crate) trait Sink: Send + Sync {
    /// A lease ended: always called for a call that was never sent, else only if the policy or somebody outside asked to be
    /// told. `quiet`: the end of the attempt is told outside by a call that knows more of it.
    fn completed(
        self: Arc<Self>,
        state: &Arc<InstanceState>,
        outcome: Outcome,
        took: Option<Duration>,
        quiet: bool,
    );

    /// Hands `look` every instance of the newest list, those that are out of use included; and whether the list has it for
    /// usable, whatever its calls showed.
    fn each(&self, look: &mut dyn FnMut(&Arc<InstanceState>, bool));

    /// An instance is out of use, or back.
    fn fitness_changed(self: Arc<Self>);

    /// An instance tells its load.
    fn reported(self: Arc<Self>, state: &InstanceState, report: &LoadReport);
}

/// What was made, and from what.
type Made<K, T> = Mutex<Option<(K, T)>>;

/// What all instances of one service share.
pub(crate) struct ServiceState {
    id: ServiceId,
    base: Instant,
    allow_downgrade: AtomicBool,
    limits: Mutex<(Option<Handle>, BackOff)>,
    sink: OnceLock<Weak<dyn Sink>>,
    budget: Budget,
    /// By the properties that they were made from; only if those are on.
    retry_throttle: Made<(u32, u64), RetryThrottle>,
    adaptive_throttle: Made<(u64, Duration, u64), AdaptiveThrottle>,
    logs: Logs,
    /// The decay of latencies, as bits.
    decay: AtomicU32,
    /// What a failure counts as, in nanoseconds.
    failure: AtomicU64,
    behind: Arc<Behind>,
    outliers: Outliers,
    warmth: WarmthCell,
    /// The last changes, for who asks what happened.
    pub(super) changes: Changes,
    wall: OnceLock<WallClock>,
}

/// How often what may be logged of a service.
#[derive(Debug)]
pub(crate) struct Logs {
    /// Instances are skipped.
    pub(crate) skipped: Limit,
    /// Instances are ejected.
    pub(crate) ejected: Limit,
    /// Instances are not ejected, though they should be.
    pub(crate) outlier: Limit,
    /// Instances are back in use.
    pub(crate) back: Limit,
    /// New instances were connected.
    pub(crate) connected: Limit,
    /// The list changed.
    pub(crate) list: Limit,
    pub(crate) weight: Limit,
    pub(crate) stage: Limit,
    pub(crate) policy: Limit,
    pub(crate) budget: Limit,
    /// Errors of calls that nobody sees.
    pub(crate) failsafe: Limit,
    /// Calls that are given up behind their callers.
    pub(crate) failback: Limit,
    /// What an instance says of its load cannot be read.
    pub(crate) report: Limit,
}

impl Default for Logs {
    fn default() -> Self {
        Self {
            skipped: Limit::changes(),
            ejected: Limit::changes(),
            outlier: Limit::faults(),
            back: Limit::changes(),
            connected: Limit::changes(),
            list: Limit::changes(),
            weight: Limit::changes(),
            stage: Limit::faults(),
            policy: Limit::faults(),
            budget: Limit::faults(),
            failsafe: Limit::faults(),
            failback: Limit::faults(),
            report: Limit::faults(),
        }
    }
}

/// The growing back-off of an instance that calls cannot be sent to: `min` doubling to `max`.
///
/// 1 s to 30 s by default: a restart takes seconds, and one probing call in 30 s disturbs nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BackOff {
    pub(crate) min: Duration,
    pub(crate) max: Duration,
}

impl Default for BackOff {
    fn default() -> Self {
        Self { min: Duration::from_secs(1), max: Duration::from_secs(30) }
    }
}

impl BackOff {
    /// The wait after `failures` in a row before this one.
    pub(crate) fn after(self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures.min(31)).unwrap_or(u32::MAX);
        self.min.checked_mul(factor).unwrap_or(self.max).min(self.max)
    }
}

impl ServiceState {
    #[cfg(test)]
    pub(crate) fn new(id: ServiceId) -> Self {
        Self::seeded(id, None)
    }

    /// With chance that repeats.
    pub(crate) fn seeded(id: ServiceId, seed: Option<u64>) -> Self {
        Self {
            id,
            base: Instant::now(),
            allow_downgrade: AtomicBool::new(false),
            limits: Mutex::default(),
            sink: OnceLock::new(),
            budget: Budget::default(),
            retry_throttle: Mutex::default(),
            adaptive_throttle: Mutex::default(),
            decay: AtomicU32::new(0),
            failure: AtomicU64::new(0),
            logs: Logs::default(),
            behind: Arc::default(),
            outliers: Outliers::new(seed),
            warmth: WarmthCell::default(),
            changes: Changes::default(),
            wall: OnceLock::new(),
        }
    }

    /// The clock for dates; the system's unless one was set.
    pub(crate) fn wall(&self) -> WallClock {
        self.wall.get().cloned().unwrap_or_default()
    }

    /// Sets it, once, before anybody asks.
    pub(crate) fn set_wall(&self, clock: WallClock) {
        let _ = self.wall.set(clock);
    }

    /// An operator's override says that nobody is to be ejected now, or no longer says so; who is, is let back.
    pub(crate) fn set_ejection_off(&self, off: bool) {
        self.outliers.suspend(off);
        if let Some(sink) = self.sink().filter(|_| off) {
            sink.each(&mut |state, _| state.pardon());
        }
    }

    /// So few instances are usable that all are used, or no longer: while that is so, nobody is ejected.
    pub(crate) fn set_panic(&self, panic: bool) {
        if !self.outliers.panic(panic) {
            return;
        }
        if let Some(sink) = self.sink() {
            sink.each(&mut |state, _| if panic { state.use_for_now() } else { state.end_use_for_now() });
        }
    }

    pub(crate) fn logs(&self) -> &Logs {
        &self.logs
    }

    pub(crate) fn id(&self) -> &ServiceId {
        &self.id
    }

    /// Nanoseconds since this service was made, and 1, so that 0 means "not read"; a clock that goes back gives 1.
    pub(crate) fn now(&self) -> u64 {
        let passed = Instant::now().saturating_duration_since(self.base);
        // In one word: 584 years are enough, and two words cost as much as the reading.
        passed.as_secs().wrapping_mul(1_000_000_000).wrapping_add(u64::from(passed.subsec_nanos()) + 1)
    }

    pub(crate) fn configure(&self, allow_downgrade: bool, limits: BackOff) {
        self.allow_downgrade.store(allow_downgrade, Ordering::Relaxed);
        self.limits.lock().1 = limits;
    }

    /// Where timers run: the runtime of the newest look-up.
    pub(crate) fn run_on(&self, runtime: &Handle) {
        self.limits.lock().0 = Some(runtime.clone());
    }

    pub(crate) fn allow_downgrade(&self) -> bool {
        self.allow_downgrade.load(Ordering::Relaxed)
    }

    pub(crate) fn back_off(&self) -> (Option<Handle>, BackOff) {
        self.limits.lock().clone()
    }

    /// Has `work` done on a thread of `runtime` that may block, after what was given before.
    pub(crate) fn behind(&self, runtime: &Handle, work: Work) {
        self.behind.add(runtime, work);
    }

    /// A call began, which may pay for the retry of another one.
    pub(crate) fn deposit(&self) {
        self.budget.deposit(self.second());
    }

    /// Takes a retry from what `percent` of the calls and `min_per_second` allow.
    pub(crate) fn withdraw(&self, percent: u32, min_per_second: u32) -> bool {
        self.budget.withdraw(self.second(), percent, min_per_second)
    }

    /// Returns a retry that was taken and did not begin.
    pub(crate) fn give_back(&self) {
        self.budget.give_back(self.second());
    }

    /// The bucket of tokens that all calls of the service share; changed properties begin with a new one.
    pub(crate) fn retry_throttle(&self, max_tokens: u32, token_ratio: f64) -> RetryThrottle {
        let made_from = (max_tokens, token_ratio.to_bits());
        shared(&self.retry_throttle, made_from, || RetryThrottle::new(max_tokens, token_ratio))
    }

    /// The counts by which all calls of the service are admitted; changed properties begin with new ones.
    pub(crate) fn adaptive_throttle(&self, k: f64, window: Duration, floor: f64) -> AdaptiveThrottle {
        shared(&self.adaptive_throttle, (k.to_bits(), window, floor.to_bits()), || {
            AdaptiveThrottle::default().with_k(k).with_window(window).with_floor(floor)
        })
    }

    fn second(&self) -> u32 {
        u32::try_from(self.now() / 1_000_000_000).unwrap_or(u32::MAX)
    }

    /// How latencies are forgotten.
    #[inline]
    pub(crate) fn decay(&self) -> Decay {
        Decay::from_bits(self.decay.load(Ordering::Relaxed))
    }

    /// The latency that a failure counts as at least, in nanoseconds.
    pub(crate) fn failure_latency(&self) -> u64 {
        self.failure.load(Ordering::Relaxed)
    }

    pub(crate) fn set_pace(&self, settings: PaceSettings) {
        self.decay.store(Decay::over(settings.decay).to_bits(), Ordering::Relaxed);
        let failure = u64::try_from(settings.failure.as_nanos()).unwrap_or(u64::MAX);
        self.failure.store(failure, Ordering::Relaxed);
    }

    /// Who is ejected, and why.
    pub(crate) fn outliers(&self) -> &Outliers {
        &self.outliers
    }

    /// The slow start of instances.
    #[inline]
    pub(super) fn warmth(&self) -> &WarmthCell {
        &self.warmth
    }

    pub(crate) fn set_warmth(&self, warmth: Option<Warmth>) {
        self.warmth.set(warmth);
    }

    pub(crate) fn warms_up(&self) -> bool {
        self.warmth.is_on()
    }

    /// Tells the balancer that an instance is out of use, or back.
    pub(crate) fn fitness_changed(&self) {
        if let Some(sink) = self.sink() {
            sink.fitness_changed();
        }
    }

    pub(crate) fn set_sink(&self, sink: Weak<dyn Sink>) {
        // Set once, by the balancer that made this service.
        let _ = self.sink.set(sink);
    }

    pub(crate) fn sink(&self) -> Option<Arc<dyn Sink>> {
        self.sink.get().and_then(Weak::upgrade)
    }
}

/// What `slot` holds, made anew if it was made from something else.
fn shared<K: PartialEq, T: Clone>(slot: &Made<K, T>, key: K, make: impl FnOnce() -> T) -> T {
    let mut slot = slot.lock();
    match &*slot {
        Some((made_from, held)) if *made_from == key => held.clone(),
        _ => {
            let made = make();
            *slot = Some((key, made.clone()));
            made
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_off_doubles_to_its_maximum_and_never_overflows() {
        let limits = BackOff::default();
        let seconds: Vec<u64> = (0..7).map(|n| limits.after(n).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(limits.after(u32::MAX), limits.max);
        let huge = BackOff { min: Duration::MAX, max: Duration::MAX };
        assert_eq!(huge.after(5), Duration::MAX);
    }
}
