//! How one of the usable instances is picked: [`Policy`] and its [`Picker`]s.
//!
//! A policy builds a picker whenever the list changes, so that everything that depends on the list alone is precomputed;
//! the pick itself is a plain call without a lock, an allocation or a clock.

mod client_side_weighted;
mod cx;
mod dubbo;
mod hash;
mod least_request;
mod peak_ewma;
mod pinned;
mod publishing;
mod random;
mod ribbon;
mod round_robin;
mod scan;
mod scores;
pub(crate) mod tables;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use client_side_weighted::ClientSideWeightedRoundRobin;
pub use cx::PickCx;
pub(crate) use cx::{Cursor, Level, POSITION_MASK, Rule, Set};
pub use dubbo::{Adaptive, LeastActive, ShortestResponse, SmoothRoundRobin};
pub use hash::{DubboConsistentHash, HashKey, Maglev, Rendezvous, RingHash};
pub use least_request::LeastRequest;
pub use peak_ewma::PeakEwma;
pub use pinned::Pinned;
pub(crate) use publishing::Publishing;
pub use random::RandomPick;
pub use ribbon::{AvailabilityFiltering, BestAvailable, WeightedResponseTime, ZoneAvoidance};
pub use round_robin::RoundRobin;
pub use scores::Scores;

use crate::choice::Outcome;
use crate::random::Random;
use crate::report::LoadReport;
pub use crate::state::Statistics;
use crate::state::{Heard, InstanceState, PaceSettings};
use crate::{ServiceInstance, Weight};

/// What decides among usable instances.
///
/// The built-in ones are [`RoundRobin`] (the default), [`RandomPick`], [`LeastRequest`], [`PeakEwma`], those that send a key
/// to one instance ([`RingHash`], [`Maglev`], [`Rendezvous`], [`DubboConsistentHash`]), those of Dubbo ([`SmoothRoundRobin`],
/// [`LeastActive`], [`ShortestResponse`], [`Adaptive`]) and of Ribbon ([`WeightedResponseTime`], [`BestAvailable`],
/// [`AvailabilityFiltering`], [`ZoneAvoidance`]), that by reports of load ([`ClientSideWeightedRoundRobin`]), and [`Pinned`];
/// each honours weights when the chain turns them on. `examples/custom_policy.rs` has one of a third party.
pub trait Policy: Send + Sync + fmt::Debug + 'static {
    /// What logs and reports call it.
    fn name(&self) -> Cow<'static, str>;

    /// What it needs from a lease beyond the count of calls in flight; nothing by default.
    fn needs(&self) -> Needs {
        Needs::NOTHING
    }

    /// A picker for this set; called once per change of the list and group.
    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker>;

    /// The position at which a new rotation starts; `random` is one draw of the balancer's generator. A policy without a
    /// rotation need not care.
    fn start(&self, random: u64) -> u64 {
        random
    }

    /// Hears how a call ended, if [`needs`](Self::needs) asked for it: `took` only with [`Needs::CLOCK`].
    fn on_outcome(&self, instance: &InstanceState, outcome: Outcome, took: Option<Duration>) {
        let _ = (instance, outcome, took);
    }

    /// Hears what an instance says of its load, if [`needs`](Self::needs) asked for [`Needs::REPORTS`].
    fn on_report(&self, instance: &InstanceState, report: &LoadReport) {
        let _ = (instance, report);
    }
}

/// Picks from the one set that it was built for.
pub trait Picker: Send + Sync {
    /// The index of an instance for which [`PickCx::fits`] holds; `None` when there is none.
    ///
    /// An instance that does not fit makes the wheel turn again: taking its neighbour would give that one two shares.
    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize>;

    /// The order of its turns, if it has one, so that the rotation goes on after the same instance in the next list.
    fn rotation(&self) -> Option<&dyn Rotation> {
        None
    }

    /// Whether [`pick`](Self::pick) may be asked without a pick that follows: true for a picker that changes nothing but what
    /// it is given, which is its [`PickCx`] (turns and random numbers of a dry run are copies). By default it may not, since a
    /// picker may keep a counter of its own; a report then has no dry run of it.
    fn rehearses(&self) -> bool {
        false
    }

    /// What it goes by, for a report; nothing by default. It changes nothing, and may be slow.
    fn scores(&self, cx: &mut PickCx<'_>) -> Option<Scores> {
        let _ = cx;
        None
    }

    /// What the picker of the next list goes on from, if anything: it finds it by [`Candidates::legacy`].
    fn legacy(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }
}

/// A picker's order of turns.
pub trait Rotation {
    /// The index that has this turn.
    fn at(&self, turn: u64) -> usize;
    /// A turn that this index has; `None` if it never has one.
    fn turn_of(&self, index: usize) -> Option<u64>;

    /// The same from `turn` on, which is a random one, for an order in which an index has several turns: a list that
    /// changes often would always go back to the same of them, and leave out what comes later. `None` keeps the position
    /// as it is, for an order that is even from any position on.
    fn turn_from(&self, index: usize, turn: u64) -> Option<u64> {
        let _ = turn;
        self.turn_of(index)
    }
}

/// The instances that a picker is built for, in the order of first sight; never empty.
#[derive(Clone, Copy)]
pub struct Candidates<'a> {
    states: &'a [Arc<InstanceState>],
    weights: Option<&'a [Weight]>,
    before: Option<&'a dyn Picker>,
    publishing: Option<&'a Publishing>,
    random: Option<&'a Random>,
}

impl<'a> Candidates<'a> {
    pub(crate) fn new(states: &'a [Arc<InstanceState>], weights: Option<&'a [Weight]>) -> Self {
        Self { states, weights, before: None, publishing: None, random: None }
    }

    /// The picker of the same view in the list before.
    pub(crate) fn after(self, before: Option<&'a dyn Picker>) -> Self {
        Self { before, ..self }
    }

    pub(crate) fn within(self, publishing: &'a Publishing) -> Self {
        Self { publishing: Some(publishing), ..self }
    }

    /// Where chance comes from.
    pub(crate) fn by(self, random: &'a Random) -> Self {
        Self { random: Some(random), ..self }
    }

    /// A random number from the balancer's chance; 0 outside of a balancer.
    pub(crate) fn random(&self) -> u64 {
        self.random.map_or(0, Random::next)
    }

    /// Nanoseconds on the service's clock.
    pub(crate) fn now(&self) -> u64 {
        self.states.first().map_or(1, |state| state.service().now())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether there is none, which does not happen.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// The instance at `index`.
    pub fn instance(&self, index: usize) -> ServiceInstance {
        self.states[index].instance()
    }

    /// The state of the instance at `index`.
    pub fn state(&self, index: usize) -> &'a InstanceState {
        &self.states[index]
    }

    /// What the picker of the list before, for the same group, left ([`Picker::legacy`]), if it is a `T`: after a change of
    /// the policy it may be something else.
    pub fn legacy<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.before?.legacy()?.downcast().ok()
    }

    /// A way to have work done that would hold up who publishes; `None` where there is no runtime.
    pub(crate) fn behind(&self) -> Option<impl FnOnce(Box<dyn FnOnce() + Send>)> {
        let service = self.states.first()?.service();
        let (runtime, _) = service.back_off();
        runtime.map(|runtime| move |work| service.behind(&runtime, work))
    }

    /// What it shares with the other pickers of its list; `None` outside of a balancer.
    pub(crate) fn publishing(&self) -> Option<&'a Publishing> {
        self.publishing
    }

    /// Their weights, none of them 0; `None` when weights are off or all alike.
    pub fn weights(&self) -> Option<&'a [Weight]> {
        self.weights
    }

    fn thousandths(&self) -> Option<Vec<u64>> {
        self.weights.map(|weights| weights.iter().map(|weight| weight.thousandths()).collect())
    }
}

impl fmt::Debug for Candidates<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidates").field("states", &self.states).field("weights", &self.weights).finish()
    }
}

/// What a policy needs of a lease; most of it costs every call something, so nothing is the default.
///
/// ```
/// use evenkeel::policy::Needs;
///
/// let both = Needs::STATISTICS.and(Needs::REPORTS);
/// assert_ne!(both, Needs::STATISTICS);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    flags: u8,
    pace: Option<PaceSettings>,
}

const OUTCOMES: u8 = 1;
const CLOCK: u8 = 2;
const STATISTICS: u8 = 4;
const REPORTS: u8 = 8;

impl Needs {
    /// Nothing: the end of a lease costs one branch.
    pub const NOTHING: Self = Self::flags(0);
    /// [`Policy::on_outcome`] is called.
    pub const OUTCOMES: Self = Self::flags(OUTCOMES);
    /// It is called with the time that the call took: two readings of the clock per call.
    pub const CLOCK: Self = Self::flags(OUTCOMES | CLOCK);
    /// [`InstanceState::statistics`] are kept of every call: two readings of the clock per call.
    pub const STATISTICS: Self = Self::flags(STATISTICS);
    /// [`Policy::on_report`] is called with what instances say of their load; a client then looks for it in what they answer.
    pub const REPORTS: Self = Self::flags(REPORTS);

    const fn flags(flags: u8) -> Self {
        Self { flags, pace: None }
    }

    /// [`PickCx::latency`] tells what answers of an instance take: two readings of the clock per call, and one that a pick
    /// makes is the first of them. A peak is remembered for `decay`, after which it weighs 1/e; a failure counts as an
    /// answer that took `failure`, if it did not take longer.
    pub const fn latency(decay: Duration, failure: Duration) -> Self {
        Self { flags: 0, pace: Some(PaceSettings { decay, failure }) }
    }

    /// What either needs; of two latencies, the first.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        let pace = if self.pace.is_some() { self.pace } else { other.pace };
        Self { flags: self.flags | other.flags, pace }
    }

    pub(crate) fn pace(self) -> Option<PaceSettings> {
        self.pace
    }

    pub(crate) fn outcomes(self) -> bool {
        self.flags & OUTCOMES != 0
    }

    pub(crate) fn reports(self) -> bool {
        self.flags & REPORTS != 0
    }

    /// What instances keep and tell for it.
    pub(crate) fn heard(self) -> Heard {
        Heard::default()
            .outcomes(self.outcomes())
            .times(self.flags & CLOCK != 0)
            .pace(self.pace.is_some())
            .statistics(self.flags & STATISTICS != 0)
            .reports(self.reports())
    }
}
