//! What a balancer gives: a [`Choice`], which is the lease of an instance, and its [`Outcome`].

mod body;
mod lease;
mod outcome;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

#[cfg(any(feature = "reqwest", feature = "tower"))]
pub(crate) use body::outcome_of;
pub use body::{Track, TrackedBody};
use http::HeaderMap;
pub(crate) use lease::Ending;
pub use lease::Lease;
pub use outcome::{Failure, Outcome, RetryAfter};

use crate::report::LoadReport;
use crate::state::{COUNTED, InstanceState, Told};
use crate::{ServiceInstance, Target, TargetError};

/// It is the one call that probes a skipped instance.
const PROBE: u8 = Told::PROBE;
/// It was, and its instance answered.
const ANSWERED: u8 = 2;
/// Its age counts in the state of the instance.
const PACED: u8 = Told::PACED;
/// It ended as a failure.
const FAILED: u8 = 8;
/// Somebody else tells of its end: a call that knows more of it.
const QUIET: u8 = Told::QUIET;
/// The headers of its reply were looked through for a report of load.
const HEARD: u8 = 32;
/// Nobody has said how it ended.
const OPEN: u8 = COUNTED;
/// Its end is told even if nobody asked.
const TOLD: u8 = PROBE | ANSWERED | PACED | FAILED;

/// An instance to call, and the **lease** on it: while it lives, the instance counts one more call in flight.
///
/// It ends exactly once: by [`complete`](Self::complete), at the end of a [`track`](Self::track)ed body, or when it is
/// dropped, which means [`Outcome::Cancelled`] - also when the caller is cancelled, times out or panics. It is one
/// pointer to the instance's state, so it outlives lists, and even its balancer.
///
/// ```
/// use evenkeel::{LoadBalancer, Outcome, ServiceInstance};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let orders = LoadBalancer::fixed("orders", [ServiceInstance::new("10.0.0.1", 8080)?])?;
/// let choice = orders.choose(&evenkeel::Request::EMPTY).await?;
/// assert_eq!(choice.url("/api/42")?, "http://10.0.0.1:8080/api/42");
/// choice.complete(Outcome::Status(200));
/// # Ok(()) }
/// ```
#[must_use = "a choice that is dropped at once counts as a cancelled call"]
pub struct Choice {
    state: Arc<InstanceState>,
    /// Nanoseconds on the service's clock, or 0 when nobody needs them.
    started: u64,
    /// What holds of this lease (see the constants), above those what it counts as in flight, and in the upper half its outcome.
    /// One word, since a lease is moved before it is used, and a field with values to spare is moved in pieces.
    word: u64,
}

/// The bits of a lease, below its cost.
const BITS: u32 = 8;
/// What is below its outcome.
const BELOW: u32 = 32;

impl Choice {
    /// Takes the lease; the caller has claimed the instance (see [`crate::state::Fitness::claim`]). `now` is 0 if the pick did
    /// not read the clock.
    #[inline]
    pub(crate) fn new(state: Arc<InstanceState>, probe: bool, now: u64, cost: u16) -> Self {
        state.enter(cost);
        let (started, paced) = state.begin(now, cost);
        let bits = OPEN | if paced { PACED } else { 0 } | if probe { PROBE } else { 0 };
        let word = Outcome::CANCELLED << BELOW | u64::from(cost) << BITS | u64::from(bits);
        Self { state, started, word }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the lowest byte
    fn bits(&self) -> u8 {
        self.word as u8
    }

    /// What it counts as in flight.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the 16 bits above
    fn cost(&self) -> u16 {
        (self.word >> BITS) as u16
    }

    /// The instance, for another lease on it later.
    pub(crate) fn anchor(&self) -> Anchor {
        Anchor { state: Arc::clone(&self.state), cost: self.cost() }
    }

    /// The end of this attempt is told by somebody who knows more of it.
    pub(crate) fn hush(&mut self) {
        self.word |= u64::from(QUIET);
    }

    /// How long ago the instance was chosen, if that is kept.
    pub(crate) fn elapsed(&self) -> Option<Duration> {
        let since = |started| Duration::from_nanos(self.state.service().now().saturating_sub(started));
        (self.started != 0).then(|| since(self.started))
    }

    /// The instance, with the metadata that the newest list gave it.
    pub fn instance(&self) -> ServiceInstance {
        self.state.instance()
    }

    /// The same, to be kept.
    pub(crate) fn shared_state(&self) -> &Arc<InstanceState> {
        &self.state
    }

    /// The state of the instance: its calls in flight and whether it is skipped.
    pub fn state(&self) -> &InstanceState {
        &self.state
    }

    /// Scheme and authority for a request whose own scheme is `scheme`; see [`Target::of`].
    ///
    /// # Errors
    /// [`TargetError`] when an `https` request would go in the clear.
    pub fn target(&self, scheme: Option<&str>) -> Result<Target, TargetError> {
        Target::of(&self.state.instance(), scheme, self.state.service().allow_downgrade())
    }

    /// The URL of `path_and_query` on this instance, whose bytes stay as they are.
    ///
    /// # Errors
    /// As [`target`](Self::target).
    pub fn url(&self, path_and_query: &str) -> Result<String, TargetError> {
        Ok(self.target(None)?.url(path_and_query))
    }

    /// The instance answered: if this call probes it, it is back in use now, however long the body takes and whether or
    /// not anybody reads it. One that was ejected has to answer well.
    pub(crate) fn answered(&mut self, outcome: Outcome) {
        if self.bits() & PROBE != 0 && self.state.answers(outcome) {
            self.word = self.word & !u64::from(PROBE) | u64::from(ANSWERED);
        }
    }

    /// Tells the policy what the instance says of its load, in a header, a trailer or a message of its reply. Nothing
    /// happens unless the policy asks for it ([`Needs::REPORTS`](crate::policy::Needs::REPORTS)).
    ///
    /// ```
    /// use evenkeel::{LoadBalancer, LoadReport, Outcome, ServiceInstance};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let orders = LoadBalancer::fixed("orders", [ServiceInstance::new("10.0.0.1", 8080)?])?;
    /// let choice = orders.choose(&evenkeel::Request::EMPTY).await?;
    /// choice.report(&LoadReport::default().with_cpu_utilization(0.7).with_qps(120.0));
    /// choice.complete(Outcome::Status(200));
    /// # Ok(()) }
    /// ```
    pub fn report(&self, report: &LoadReport) {
        if self.hears_reports()
            && let Some(sink) = self.state.service().sink()
        {
            sink.reported(&self.state, report);
        }
    }

    /// Whether somebody may want to hear of its load.
    #[inline]
    pub(crate) fn hears_reports(&self) -> bool {
        self.state.statistics().is_some()
    }

    /// Whether the headers of the reply are still to be looked through.
    pub(crate) fn wants_headers(&self) -> bool {
        self.bits() & HEARD == 0 && self.hears_reports()
    }

    /// Looks through the headers of the reply, once.
    pub(crate) fn hear(&mut self, headers: &HeaderMap) {
        // None at all is what a protocol without headers gives.
        if self.wants_headers() && !headers.is_empty() {
            self.word |= u64::from(HEARD);
            self.hear_more(headers);
        }
    }

    /// Looks through headers or trailers for a report of load. One that cannot be read says nothing: the reply is good
    /// without it, and a fault of the server's must not spoil the call.
    pub(crate) fn hear_more(&self, headers: &HeaderMap) {
        if !self.hears_reports() || !LoadReport::is_in(headers) {
            return;
        }
        match LoadReport::from_headers(headers) {
            Ok(Some(report)) => self.report(&report),
            Ok(None) => {}
            Err(error) => {
                let service = self.state.service();
                if let Some(passed) = service.logs().report.pass() {
                    let (service, instance) = (service.id(), self.state.instance());
                    let suppressed = passed.suppressed();
                    tracing::warn!(%service, %instance, %error, suppressed, "a report of load cannot be read: it says nothing");
                }
            }
        }
    }

    /// Ends the lease with what came of the call.
    pub fn complete(mut self, outcome: Outcome) {
        if outcome != Outcome::Cancelled {
            self.word &= !(u64::MAX << BELOW | u64::from(OPEN));
            self.word |= outcome.packed() << BELOW;
        }
        if outcome.is_bad() {
            self.word |= u64::from(FAILED);
        }
    }

    /// Keeps the lease until the body of `response` ends or is dropped, and reports the response's status then.
    ///
    /// A body that breaks off counts as [`Failure::Reset`]; one that the caller drops before its end as
    /// [`Outcome::Cancelled`], unless the status is a failure already.
    pub fn track<R: Track>(self, response: R) -> R::Tracked {
        response.track(self.into())
    }

    /// Awaits `call` under this lease and [`track`](Self::track)s its response; an error counts as what `classify` says.
    ///
    /// # Errors
    /// The error of the call, untouched.
    pub async fn run<R, E>(
        self,
        call: impl Future<Output = Result<R, E>>,
        classify: impl FnOnce(&E) -> Failure,
    ) -> Result<R::Tracked, E>
    where
        R: Track,
    {
        match call.await {
            Ok(response) => Ok(self.track(response)),
            Err(error) => {
                self.complete(Outcome::Failure(classify(&error)));
                Err(error)
            }
        }
    }
}

/// An instance to come back to, without a lease on it.
pub(crate) struct Anchor {
    state: Arc<InstanceState>,
    cost: u16,
}

impl Anchor {
    pub(crate) const fn new(state: Arc<InstanceState>, cost: u16) -> Self {
        Self { state, cost }
    }

    /// A new lease on the instance. If it is skipped, since the attempt before was never sent, an answer brings it back.
    pub(crate) fn lease(&self) -> Choice {
        let probe = self.state.claim_anyway();
        Choice::new(Arc::clone(&self.state), probe, 0, self.cost)
    }
}

impl Drop for Choice {
    #[inline]
    fn drop(&mut self) {
        self.state.leave(self.cost());
        let bits = self.bits();
        if bits & TOLD == 0 && !self.state.is_heard(bits & OPEN) {
            return;
        }
        if bits & (TOLD & !PACED | OPEN) == 0 && self.started != 0 && self.state.keeps_numbers_only() {
            self.state.went_well(
                Outcome::unpacked(self.word >> BELOW),
                self.started,
                Told(bits),
                self.cost(),
            );
        } else {
            let outcome = Outcome::unpacked(self.word >> BELOW);
            InstanceState::report(&self.state, outcome, self.started, Told(bits), self.cost());
        }
    }
}

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Choice")
            .field("instance", &self.state.instance().to_string())
            .field("probe", &(self.bits() & PROBE != 0))
            .finish_non_exhaustive()
    }
}
