mod held;
mod out;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::task::Wake;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::time::Instant;

use self::out::Skip;
use super::ChangeKind;
use super::fitness::{Claim, Fitness};
use super::load::Phantom;
use super::meter::{Meter, Reported, Standing};
use super::pace::{Decay, Pace};
use super::service::ServiceState;
use super::stats::Statistics;
use super::tally::{Kind, Tally};
use crate::alarm::Alarm;
use crate::choice::{Failure, Outcome};
use crate::instance::InstanceData;
use crate::sync::{AtomicU8, AtomicU64, Mutex, Ordering};
use crate::{ServiceId, ServiceInstance};

const OBSERVED: u8 = 1;
const TIMED: u8 = 2;
const MEASURED: u8 = 4;
const ELSEWHERE: u8 = 8;
const PACED: u8 = 16;
/// Not what anybody wants to hear, but a state: a failure counts as load, and the next good answer ends that.
const FAILING: u8 = 32;
/// Failures are counted, and so calls that their callers gave up. The same bit of a lease says that it has not ended well, so
/// that one test finds both.
pub(crate) const COUNTED: u8 = 64;
/// The ends of its leases go into its statistics.
const KEPT: u8 = 128;
/// How many bits the cost of the leases that live has: sixty thousand of the dearest, and thousands of millions of the others.
const LIVING: u32 = 32;

/// Who wants to hear what of an instance's leases, and what its picks are told by; a byte that a lease reads beside the
/// counter it writes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heard {
    flags: u8,
    /// Statistics are made, whether or not the ends of leases go into them.
    stats: bool,
}

impl Heard {
    /// The ends of leases are heard.
    pub(crate) fn outcomes(self, yes: bool) -> Self {
        self.with(OBSERVED, yes)
    }

    /// How long they took is.
    pub(crate) fn times(self, yes: bool) -> Self {
        self.with(TIMED, yes)
    }

    /// They are measured.
    pub(crate) fn meters(self, yes: bool) -> Self {
        self.with(MEASURED, yes)
    }

    /// The instance stands in another zone than this client.
    pub(crate) fn elsewhere(self, yes: bool) -> Self {
        self.with(ELSEWHERE, yes)
    }

    /// Its latencies are kept.
    pub(crate) fn pace(self, yes: bool) -> Self {
        self.with(PACED, yes).with(TIMED, yes)
    }

    /// Its failures are counted.
    pub(crate) fn failures(self, yes: bool) -> Self {
        self.with(COUNTED, yes)
    }

    /// Its statistics are kept.
    pub(crate) fn statistics(self, yes: bool) -> Self {
        self.with(KEPT | TIMED, yes).reports(yes)
    }

    /// What it says of its load is.
    pub(crate) fn reports(self, yes: bool) -> Self {
        Self { stats: self.stats || yes, ..self }
    }

    fn with(self, flag: u8, yes: bool) -> Self {
        if yes { Self { flags: self.flags | flag, ..self } } else { self }
    }
}

/// What is known of one instance beyond its list entry: calls in flight, and whether it is skipped.
///
/// Keyed by identity, it outlives every list. The fields that a pick touches come first and share a cache line with the
/// reference count that the lease writes anyway; over-aligning them would add a line.
#[repr(C)]
pub struct InstanceState {
    /// What the leases that live cost in the lower bits, how many were ever taken in the upper ones, which wrap: one addition
    /// does for both.
    leases: AtomicU64,
    fitness: Fitness,
    flags: AtomicU8,
    phantom: Phantom,
    /// Made when a policy first asks for it; it stays as long as the state does. A pick that goes by it looks here, of two
    /// instances.
    stats: OnceLock<Box<Statistics>>,
    /// A pick that goes by latencies reads it beside the counter, of two instances; what it seldom reads of it is last.
    pace: Pace,
    service: Arc<ServiceState>,
    uid: u64,
    /// Made when the instance is first measured; it stays as long as the state does.
    meter: OnceLock<Box<dyn Meter>>,
    tally: Tally,
    /// When it began to warm up, in nanoseconds on the service's clock.
    warm_from: AtomicU64,
    data: ArcSwap<InstanceData>,
    skip: Mutex<Skip>,
    alarm: Alarm,
    /// Ends the load that failures count as.
    relief: Alarm,
    /// Host and port as they stand in a URL, which are a part of the identity; made when a client first asks, `None` if the
    /// types of HTTP have no room for them.
    #[cfg(feature = "tower")]
    authority: OnceLock<Option<Box<http::uri::Authority>>>,
}

impl InstanceState {
    pub(crate) fn new(uid: u64, instance: &ServiceInstance, service: &Arc<ServiceState>) -> Arc<Self> {
        Arc::new(Self {
            leases: AtomicU64::new(0),
            fitness: Fitness::default(),
            flags: AtomicU8::new(0),
            phantom: Phantom::default(),
            uid,
            service: Arc::clone(service),
            pace: Pace::default(),
            tally: Tally::default(),
            warm_from: AtomicU64::new(0),
            stats: OnceLock::new(),
            data: ArcSwap::new(instance.data()),
            skip: Mutex::default(),
            alarm: Alarm::default(),
            relief: Alarm::default(),
            meter: OnceLock::new(),
            #[cfg(feature = "tower")]
            authority: OnceLock::new(),
        })
    }

    /// The instance as the newest list has it.
    pub fn instance(&self) -> ServiceInstance {
        ServiceInstance::from_data(self.data.load_full())
    }

    /// The scheme with which a request is sent here; see [`Target::of`](crate::Target::of). It leaves the instance where it is.
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    pub(crate) fn scheme_for(
        &self,
        requested: Option<&str>,
    ) -> Result<std::borrow::Cow<'static, str>, crate::TargetError> {
        self.data.load().scheme_for(requested, self.service.allow_downgrade())
    }

    /// Host and port as they stand in a URL; `None` if the types of HTTP have no room for them.
    #[cfg(feature = "tower")]
    pub(crate) fn authority(&self) -> Option<&http::uri::Authority> {
        self.authority.get_or_init(|| self.data.load().authority().try_into().ok().map(Box::new)).as_deref()
    }

    /// Calls in flight from this process, in units of their [cost](crate::Request::with_cost): as many as leases live, if no
    /// caller says what a call costs.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        living(self.leases.load(Ordering::Relaxed))
    }

    /// Its load in calls: those in flight from this process, and for some time after a failure (a 5xx, a time-out, a broken
    /// connection) calls that nobody sent: 16, twice as many for each further row of failures. They go after `backoff.min`,
    /// doubling to `backoff.max`, or with the first good answer. So an instance that fails fast does not look idle.
    #[inline]
    pub fn load(&self) -> u32 {
        self.in_flight().saturating_add(self.phantom())
    }

    /// The calls in flight, and what an answer takes, in nanoseconds: a mean that jumps to every peak and forgets it, but at
    /// least the mean age of those calls. `None` when nothing is known. Kept while the policy asks for it; `now` is of the
    /// service's clock.
    #[inline]
    pub(crate) fn pace(&self, now: u64, decay: Decay) -> (u32, Option<f32>) {
        let calls = self.in_flight();
        (calls, self.pace.latency(now, calls, decay))
    }

    /// The calls of [`load`](Self::load) that nobody sent.
    #[inline]
    pub(crate) fn phantom(&self) -> u32 {
        self.phantom.calls()
    }

    /// Whether failures count as load now.
    #[inline]
    pub(crate) fn is_failing(&self) -> bool {
        self.phantom.calls() != 0
    }

    /// What is known of its answers, if its policy asked for that.
    #[inline]
    pub fn statistics(&self) -> Option<&Statistics> {
        self.stats.get().map(|stats| &**stats)
    }

    /// Whether it is out of use, because calls could not be sent to it, or since it was ejected: a probing call brings it
    /// back; or since it is new and [being connected](Self::is_connecting).
    pub fn is_skipped(&self) -> bool {
        self.fitness.is_skipped()
    }

    /// Whether it warms up: a slow start gives it less than its share.
    pub fn is_warming(&self) -> bool {
        self.fitness.is_warming()
    }

    /// Whether a picker may take it without a look at the clock: in use, and warm.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.fitness.is_plain()
    }

    /// The service that it belongs to.
    pub fn service_id(&self) -> &ServiceId {
        self.service.id()
    }

    /// A number that no other instance of this service has, in the order of first sight.
    #[inline]
    pub fn uid(&self) -> u64 {
        self.uid
    }

    /// Whether a picker may take it.
    #[inline]
    pub(crate) fn fits(&self) -> bool {
        self.fitness.fits()
    }

    #[inline]
    pub(crate) fn claim(&self) -> Claim {
        self.fitness.claim()
    }

    pub(crate) fn claim_anyway(&self) -> bool {
        self.fitness.claim_anyway()
    }

    #[inline]
    pub(crate) fn enter(&self, cost: u16) {
        self.leases.fetch_add((1 << LIVING) | u64::from(cost), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn leave(&self, cost: u16) {
        self.leases.fetch_sub(u64::from(cost), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & OBSERVED != 0
    }

    /// Whether the end of a lease has to be reported to anybody; `open` is [`COUNTED`] if it was given up.
    #[inline]
    pub(crate) fn is_heard(&self, open: u8) -> bool {
        self.flags.load(Ordering::Relaxed) & (OBSERVED | MEASURED | PACED | FAILING | KEPT | open) != 0
    }

    /// Whether a good end is nobody's affair but the latencies', the statistics' and the meter's: no processor, and no failure
    /// that it ends.
    #[inline]
    pub(crate) fn keeps_numbers_only(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (OBSERVED | FAILING) == 0
    }

    /// The end of a lease on an instance that [keeps numbers only](Self::keeps_numbers_only): it was answered, and well, and it is
    /// known when it began.
    #[inline(never)]
    pub(crate) fn went_well(&self, outcome: Outcome, started: u64, told: Told, cost: u16) {
        let now = self.service.now();
        let took = now.saturating_sub(started);
        if told.paced() {
            self.pace.leave(started.wrapping_mul(u64::from(cost)));
            self.pace.observe(now, took, self.service.decay());
        }
        let flags = self.flags.load(Ordering::Relaxed);
        if flags & KEPT != 0
            && let Some(stats) = self.statistics()
        {
            stats.went_well(took);
        }
        if flags & MEASURED != 0 && !told.quiet() {
            self.measure(Reported::default(), outcome, Some(took));
        }
    }

    /// When a lease begins, if anybody needs to know, and whether its age counts from now on. `now` is 0 if the clock was
    /// not read for the pick.
    #[inline]
    pub(crate) fn begin(&self, now: u64, cost: u16) -> (u64, bool) {
        let flags = self.flags.load(Ordering::Relaxed);
        if flags & TIMED == 0 { (0, false) } else { self.begin_timed(now, cost, flags) }
    }

    /// Apart, so that a lease is small enough to be made where it is wanted.
    #[inline(never)]
    fn begin_timed(&self, now: u64, cost: u16, flags: u8) -> (u64, bool) {
        let started = if now == 0 { self.service.now() } else { now };
        let paced = flags & PACED != 0;
        if paced {
            // As many times as it costs, as it is counted in flight.
            self.pace.enter(started.wrapping_mul(u64::from(cost)));
        }
        (started, paced)
    }

    /// What its meter has to know of it.
    pub(crate) fn standing(&self) -> Standing {
        let leases = self.leases.load(Ordering::Relaxed);
        Standing {
            in_flight: living(leases),
            picks: lower(leases >> LIVING),
            elsewhere: self.flags.load(Ordering::Relaxed) & ELSEWHERE != 0,
        }
    }

    pub(crate) fn observe(&self, heard: Heard) {
        if heard.stats {
            self.stats.get_or_init(Box::default);
        }
        if heard.flags & PACED != 0 && self.flags.load(Ordering::Relaxed) & PACED == 0 {
            self.pace.begin(self.service.now());
        }
        let keep = |flags: u8| Some(heard.flags | flags & FAILING);
        let _ = self.flags.fetch_update(Ordering::Relaxed, Ordering::Relaxed, keep);
    }

    /// The meter, if one was made.
    pub(crate) fn meter(&self) -> Option<&dyn Meter> {
        self.meter.get().map(|meter| &**meter)
    }

    /// Makes the meter, the first time.
    #[cfg(feature = "metrics")]
    pub(crate) fn meter_with(&self, make: impl FnOnce() -> Box<dyn Meter>) {
        self.meter.get_or_init(make);
    }

    /// Measures an attempt, if attempts are measured.
    pub(crate) fn measure(&self, reported: Reported<'_>, outcome: Outcome, took: Option<u64>) {
        if self.flags.load(Ordering::Relaxed) & MEASURED != 0
            && let Some(meter) = self.meter()
        {
            meter.ended(reported, outcome, took, self);
        }
    }

    #[inline]
    pub(crate) fn service(&self) -> &ServiceState {
        &self.service
    }

    pub(crate) fn shared_service(&self) -> &Arc<ServiceState> {
        &self.service
    }

    pub(crate) fn is(&self, instance: &ServiceInstance) -> bool {
        ServiceInstance::data_is_same_identity(&self.data.load(), instance)
    }

    /// Takes over what a newer list says; whether anything differs.
    pub(crate) fn update(&self, instance: &ServiceInstance) -> bool {
        let old = self.data.load();
        if instance.is_data(&old) {
            return false;
        }
        let changed = ServiceInstance::from_data(Arc::clone(&old)) != *instance;
        drop(old);
        // Stored even if equal, so that the next comparison ends at the pointer.
        self.data.store(instance.data());
        changed
    }

    /// What a lease has to tell at its end. Off the hot path of a policy that asks for nothing: only for an observed instance, a
    /// probing call, a failure, or the first answer after one.
    ///
    /// Its arguments go in registers: gathered in a struct, they would be read back in pieces of another size than they were
    /// written, for which a processor waits.
    pub(crate) fn report(state: &Arc<Self>, outcome: Outcome, started: u64, told: Told, cost: u16) {
        let now = if started == 0 { 0 } else { state.service.now() };
        let flags = state.flags.load(Ordering::Relaxed);
        if told.paced() || told.probe() || flags & FAILING != 0 || outcome.is_bad() {
            Self::settle(state, outcome, started, now, told, cost);
        }
        if flags & COUNTED != 0 && outcome == Outcome::Cancelled {
            state.tally.cancelled();
        }
        let took = (started != 0).then(|| now.saturating_sub(started));
        if flags & KEPT != 0
            && let (Some(stats), Some(took)) = (state.statistics(), took)
        {
            stats.ended(outcome, took);
        }
        if flags & MEASURED != 0 && !told.quiet() {
            state.measure(Reported::default(), outcome, took);
        }
        if outcome != Outcome::Failure(Failure::Connect) && flags & OBSERVED == 0 {
            return;
        }
        if let Some(sink) = state.service.sink() {
            sink.completed(state, outcome, took.map(Duration::from_nanos), told.quiet());
        }
    }

    /// What the end of a lease means for the instance itself.
    #[inline(never)]
    fn settle(state: &Arc<Self>, outcome: Outcome, started: u64, now: u64, told: Told, cost: u16) {
        if told.paced() {
            state.keep_pace(outcome, started, now, cost);
        }
        match outcome {
            Outcome::Failure(Failure::Connect) => Self::skip(state, told.probe()),
            Outcome::Cancelled if told.probe() => state.fitness.release(),
            _ if told.probe() => Self::probed(state, outcome),
            _ => {}
        }
        let Some(kind) = Kind::of(outcome) else {
            if outcome != Outcome::Cancelled {
                state.relieve();
            }
            return;
        };
        let row = state.tally.failed(kind);
        // Skipped, it is out of use, which is more than any load.
        if kind != Kind::Connect {
            Self::weigh_down(state);
        }
        // Last: a good answer that finds it ends what was noted above, and one before it must not leave that behind for ever.
        state.flags.fetch_or(FAILING, Ordering::AcqRel);
        state.service.outliers().failed(state, outcome, row);
    }

    /// A failure counts as slow, however fast it was; who gave up tells at least that it took so long.
    fn keep_pace(&self, outcome: Outcome, started: u64, now: u64, cost: u16) {
        self.pace.leave(started.wrapping_mul(u64::from(cost)));
        let took = now.saturating_sub(started);
        let took = match outcome {
            Outcome::Cancelled => return,
            _ if outcome.is_bad() => took.max(self.service.failure_latency()),
            _ => took,
        };
        self.pace.observe(now, took, self.service.decay());
    }

    /// A failure counts as load for a while. One burst of failures is one.
    fn weigh_down(state: &Arc<Self>) {
        // Before the lock, which a storm of failures would else contend for.
        if state.phantom.calls() != 0 {
            return;
        }
        let (runtime, limits) = state.service.back_off();
        let mut skip = state.skip.lock();
        if state.phantom.calls() != 0 {
            return;
        }
        let Some(runtime) = runtime else { return };
        state.phantom.begin(skip.rows);
        let after = limits.after(skip.rows);
        skip.rows = skip.rows.saturating_add(1);
        let (now, calls) = (Instant::now(), state.phantom.calls());
        (skip.since, skip.relieved) = (skip.since.or(Some(now)), now.checked_add(after));
        // Under the lock, as in `relieve`: a good answer of this moment must not cancel an alarm that is armed after it.
        state.relief.arm(&runtime, after, Arc::new(Relief(Arc::downgrade(state))));
        drop(skip);
        let detail = format!("a failure counts as {calls} calls in flight for {} ms", after.as_millis());
        state.service.note(ChangeKind::Failing, Some(&state.instance()), detail);
    }

    /// A good answer: failures before it count as nothing any more.
    fn relieve(&self) {
        if self.flags.load(Ordering::Relaxed) & FAILING == 0 {
            return;
        }
        let mut skip = self.skip.lock();
        self.flags.fetch_and(!FAILING, Ordering::AcqRel);
        self.tally.succeeded();
        self.phantom.end();
        self.relief.cancel();
        // Told only if it was told that they began: of one that was skipped, it is told that it is back.
        let was_told = std::mem::take(&mut skip.rows) > 0;
        self.forgive(&mut skip);
        skip.relieved = None;
        if !self.fitness.is_skipped() {
            skip.since = None;
        }
        drop(skip);
        if !was_told {
            return;
        }
        self.service.note(ChangeKind::Well, Some(&self.instance()), "a good answer");
    }
}

/// What the leases that live cost.
#[inline]
fn living(leases: u64) -> u32 {
    lower(leases)
}

#[inline]
#[allow(clippy::cast_possible_truncation)] // what is above is another number, or wraps
fn lower(both: u64) -> u32 {
    both as u32
}

/// The time of a load that failures counted as is over. The row goes on: the next failure counts as more.
struct Relief(std::sync::Weak<InstanceState>);

impl Wake for Relief {
    fn wake(self: Arc<Self>) {
        if let Some(state) = self.0.upgrade() {
            state.phantom.end();
        }
    }
}

/// What a lease says of itself at its end, in one byte; the bits are those of [`Choice`](crate::Choice).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told(pub(crate) u8);

impl Told {
    /// It is the one call that probes a skipped instance.
    pub(crate) const PROBE: u8 = 1;
    /// Its age counts in the state of the instance.
    pub(crate) const PACED: u8 = 4;
    /// Somebody else tells of its end: a call that knows more of it.
    pub(crate) const QUIET: u8 = 16;

    fn probe(self) -> bool {
        self.0 & Self::PROBE != 0
    }

    fn paced(self) -> bool {
        self.0 & Self::PACED != 0
    }

    fn quiet(self) -> bool {
        self.0 & Self::QUIET != 0
    }
}

impl fmt::Debug for InstanceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstanceState")
            .field("instance", &self.instance().to_string())
            .field("in_flight", &self.in_flight())
            .field("skipped", &self.is_skipped())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_an_instance_is_small() {
        // With the count of references beside it, and the statistics that some policies ask for.
        let size = size_of::<InstanceState>() + 16 + size_of::<Statistics>();
        assert!(size <= 512, "{size} bytes");
    }

    #[test]
    fn an_instance_returns_in_one_step_so_that_a_failure_of_that_moment_keeps_its_alarm() {
        let service = Arc::new(ServiceState::new(ServiceId::new("s").unwrap()));
        let state = InstanceState::new(0, &ServiceInstance::new("10.0.0.1", 80).unwrap(), &service);
        assert!(state.fitness.fail(false));
        let step = state.skip.lock();
        std::thread::scope(|scope| {
            scope.spawn(|| state.restore());
            std::thread::sleep(Duration::from_millis(20));
            // In use before its alarm is cancelled, it could fail again and lose the new one.
            assert!(state.is_skipped());
            drop(step);
        });
        assert!(!state.is_skipped());
    }
}
