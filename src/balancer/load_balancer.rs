use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;

use super::board::{Board, age};
use super::calls::CallSettings;
use super::recount;
use super::snapshot::{Refused, Wanted};
use super::view::{Picked, Won};
use super::why::Ring;
use super::{ChooseError, ChooseErrorKind, Choosing, LoadBalancerBuilder, ReactiveLoadBalancer, Snapshot};
use crate::choice::{Failure, Outcome};
use crate::discovery::{SourceHealth, SupplyError};
use crate::observe::{AttemptEnd, Meters};
use crate::policy::Policy;
use crate::report::LoadReport;
use crate::state::{InstanceState, ServiceState, Sink};
use crate::supplier::driver::{Driver, Unready, Word};
use crate::supplier::{Chained, FixedSupplier, Hub, Reason, Supplier};
use crate::{BoxFuture, Choice, InvalidServiceId, Request, ServiceId, ServiceInstance};

/// The balancer of one service: a cheap handle, whose clones share everything.
///
/// It does nothing until it is asked. When the last clone is dropped, or [`close`](Self::close) is called, its look-ups,
/// watches and timers stop; leases live on.
///
/// ```
/// use evenkeel::{LoadBalancer, Request, ServiceInstance, policy::RoundRobin};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let orders = LoadBalancer::fixed("orders", [
///     ServiceInstance::new("10.0.0.1", 8080)?,
///     ServiceInstance::new("10.0.0.2", 8080)?,
/// ])?;
/// let first = orders.choose(&Request::EMPTY).await?.instance();
/// let second = orders.choose(&Request::EMPTY).await?.instance();
/// assert_ne!(first, second);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct LoadBalancer {
    pub(super) core: Arc<Handle>,
}

/// What tells for a pool of clients whether its balancer is still there.
#[cfg(any(feature = "reqwest", feature = "tower"))]
pub(crate) type Owner = std::sync::Weak<dyn std::any::Any + Send + Sync>;

/// A balancer that may be gone; it keeps none alive.
#[cfg(feature = "tonic014")]
#[derive(Clone)]
pub(crate) struct WeakBalancer(Weak<Handle>);

#[cfg(feature = "tonic014")]
impl WeakBalancer {
    /// The balancer, if it is still there.
    pub(crate) fn upgrade(&self) -> Option<LoadBalancer> {
        self.0.upgrade().map(|core| LoadBalancer { core })
    }
}

/// Counts the clones: when it goes, the balancer closes.
pub(super) struct Handle {
    pub(super) driver: Arc<Driver<Board>>,
    /// Hears when an override ends.
    pub(super) ring: Arc<Ring>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        drop(self.driver.shut());
    }
}

impl LoadBalancer {
    /// Starts a balancer over the lists of `supplier`.
    pub fn builder(supplier: Supplier) -> LoadBalancerBuilder {
        LoadBalancerBuilder::new(supplier)
    }

    /// A round robin over a list that never changes: for a test, or a service without a registry.
    ///
    /// # Errors
    /// [`InvalidServiceId`].
    pub fn fixed<S>(
        service: S,
        instances: impl IntoIterator<Item = ServiceInstance>,
    ) -> Result<Self, InvalidServiceId>
    where
        S: TryInto<ServiceId>,
        InvalidServiceId: From<S::Error>,
    {
        let service = service.try_into()?;
        Ok(Self::builder(Supplier::plain(FixedSupplier::new(service, instances))).build())
    }

    /// An instance for `request`; the future is ready at once when a list is at hand.
    ///
    /// # Errors
    /// See [`ChooseErrorKind`].
    #[inline]
    pub fn choose<'a>(&'a self, request: &'a Request<'a>) -> Choosing<'a, Self> {
        Choosing::new(self, request)
    }

    /// An instance from the list at hand, without waiting.
    ///
    /// # Errors
    /// [`ChooseErrorKind::NotReady`] when there is none; else see [`ChooseErrorKind`].
    // Always, and short: else the lease is made in a function of its own, and read back from where that left it.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    pub fn try_choose(&self, request: &Request<'_>) -> Result<Choice, ChooseError> {
        let word = self.core.driver.word.load();
        if word.wants_attention() {
            self.attend(word)?;
        }
        self.pick(request)
    }

    /// Does what is due, which is seldom anything.
    #[cold]
    #[inline(never)]
    fn attend(&self, word: Word) -> Result<(), ChooseError> {
        self.core.driver.attend(word).map_err(|unready| self.unready(unready))
    }

    /// Waits until there is a list that may be served, starting the look-up; a warm-up.
    ///
    /// # Errors
    /// Why there is none; see [`ChooseErrorKind`].
    pub async fn ready(&self) -> Result<(), ChooseError> {
        self.core.driver.ready().await.map_err(|unready| self.unready(unready))
    }

    /// [`ready`](Self::ready) for a caller that has to wait, which is measured.
    async fn waited(&self) -> Result<(), ChooseError> {
        let waiting = self.calls().meters.as_ref().map(Meters::waiting);
        let ready = self.ready().await;
        if let Some(waiting) = waiting {
            waiting.ended(ready.is_ok());
        }
        ready
    }

    /// What hands the meters of this service to the recorder; they are on by [`stats`](LoadBalancerBuilder::stats), or
    /// `stats.enabled`.
    #[cfg(feature = "metrics")]
    #[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
    pub fn collector(&self) -> crate::observe::Collector {
        crate::observe::Collector::new(Arc::downgrade(&self.core.driver) as Weak<dyn crate::observe::Measured>)
    }

    /// The instances as they are now; `None` before the first list.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.core.driver.publish.snapshot.load_full()
    }

    /// The versions of the snapshots, for a pool that follows the membership: wait for a change, then take the
    /// [`snapshot`](Self::snapshot). It does not ask the source by itself.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.core.driver.publish.changes()
    }

    /// Asks the source again now, behind the callers.
    pub fn refresh(&self) {
        self.core.driver.look_up();
    }

    /// The service.
    pub fn service_id(&self) -> &ServiceId {
        self.core.driver.base().service_id()
    }

    /// Why the last look-up gave no answer, if it did not.
    pub fn last_error(&self) -> Option<SupplyError> {
        self.core.driver.last_error()
    }

    /// How the source is doing, as far as the answers for this service tell: its state, when it last answered, why it
    /// last did not, and how often in a row.
    pub fn source_health(&self) -> SourceHealth {
        self.core.driver.source_health()
    }

    /// How many instances are kept in mind, those that left lately included.
    pub fn tracked(&self) -> usize {
        self.core.driver.publish.tracked()
    }

    /// Ends every look-up, watch and timer, also for all clones; calls in flight go on. Takes at most a second, and may
    /// be called again.
    pub async fn close(&self) {
        self.core.driver.close().await;
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.core.driver.word.load().is_closed()
    }

    /// Calls in flight, those to instances that left the list included.
    pub fn in_flight(&self) -> u32 {
        self.core.driver.publish.in_flight()
    }

    /// Something that lives as long as this balancer.
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    pub(crate) fn owner(&self) -> Owner {
        let core: Arc<dyn std::any::Any + Send + Sync> = Arc::clone(&self.core) as _;
        Arc::downgrade(&core)
    }

    /// A handle that does not keep it.
    #[cfg(feature = "tonic014")]
    pub(crate) fn downgrade(&self) -> WeakBalancer {
        WeakBalancer(Arc::downgrade(&self.core))
    }

    /// Tells it from all other balancers of this process, also from those that are gone.
    pub(crate) fn number(&self) -> u64 {
        self.core.driver.publish.snapshot.id()
    }

    /// Another one after each change of the snapshot.
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    pub(crate) fn list_version(&self) -> u64 {
        self.core.driver.publish.snapshot.version()
    }

    /// Counts as a caller, so that what is due is started, and ends when the list may differ from what it is now; with
    /// `false` once the balancer is closed.
    #[cfg(feature = "tower")]
    pub(crate) fn followed(&self) -> BoxFuture<'static, bool> {
        let driver = &self.core.driver;
        let (mut epochs, mut changes) = (driver.epochs(), self.changes());
        let word = driver.word.load();
        let closed = word.is_closed()
            || word.wants_attention() && { matches!(driver.attend(word), Err(Unready::Closed)) };
        Box::pin(async move {
            if closed {
                return false;
            }
            tokio::select! {
                changed = epochs.changed() => changed.is_ok(),
                changed = changes.changed() => changed.is_ok(),
            }
        })
    }

    /// Another chain and policy over the same instances, states and rotations.
    pub(crate) fn reconfigure(
        &self,
        supplier: Supplier,
        policy: Arc<dyn Policy>,
        allow_downgrade: bool,
        calls: CallSettings,
    ) {
        if self.is_closed() {
            return;
        }
        let driver = &self.core.driver;
        let Supplier { chain, settings, .. } = supplier;
        driver.publish.service.configure(allow_downgrade, settings.back_off);
        chain.attach(&Hub::new(Arc::downgrade(driver) as Weak<dyn Chained>));
        driver.publish.reconfigure(chain, policy, calls);
        driver.reconfigure(settings);
    }

    /// Why a request without any group would find nothing, if it would.
    pub(crate) fn nothing_to_choose(&self) -> Option<ChooseError> {
        match self.snapshot() {
            None => Some(self.error(ChooseErrorKind::NotReady)),
            Some(snapshot) => {
                let reason = snapshot.reason()?;
                Some(self.no_instances(&snapshot, reason))
            }
        }
    }

    /// What holds for whole calls.
    pub(crate) fn calls(&self) -> Arc<CallSettings> {
        self.core.driver.publish.calls()
    }

    /// The same, if it changes requests, or `anyway`.
    #[cfg(feature = "tower")]
    pub(crate) fn calls_that_shape(&self, anyway: bool) -> Option<Arc<CallSettings>> {
        self.core.driver.publish.calls_that_shape(anyway)
    }

    /// What all calls of the service share.
    pub(crate) fn service_state(&self) -> &ServiceState {
        &self.core.driver.publish.service
    }

    /// Any number, each alike: from the balancer's own chance.
    pub(crate) fn chance(&self) -> u64 {
        self.core.driver.publish.random.next()
    }

    /// Whether nobody else holds this balancer and no call is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        Arc::strong_count(&self.core) == 1 && self.in_flight() == 0
    }

    /// What is left of [`try_choose`](Self::try_choose) without the test of the list's age: for the benches, which tell
    /// what that test costs.
    #[doc(hidden)]
    #[allow(clippy::inline_always)] // as the one with the test
    #[inline(always)]
    pub fn pick_untested(&self, request: &Request<'_>) -> Result<Choice, ChooseError> {
        self.pick(request)
    }

    /// What is won comes in two registers, and is made a lease where it is wanted. A whole result would be written in pieces
    /// and read back in larger ones, for which a processor waits as long as for a locked operation.
    #[allow(clippy::inline_always)] // a call and a construction
    #[inline(always)]
    fn pick(&self, request: &Request<'_>) -> Result<Choice, ChooseError> {
        match self.won(request) {
            Some(won) => Ok(won.lease(request)),
            None => self.pick_with_care(request),
        }
    }

    /// One body for every caller: the tests before it are inlined, and it is long.
    #[inline(never)]
    fn won(&self, request: &Request<'_>) -> Option<Won> {
        self.core.driver.publish.snapshot.with(
            |snapshot| self.won_in(snapshot?, request),
            |snapshot| self.won_in_other(snapshot?, request),
        )
    }

    #[allow(clippy::inline_always)] // its other place is cold
    #[inline(always)]
    fn won_in(&self, snapshot: &Snapshot, request: &Request<'_>) -> Option<Won> {
        let picked = match &snapshot.plain {
            Some(view) => view.pick(request, &self.core.driver.publish.random),
            None => self.picked_silently(snapshot, request),
        };
        Some(picked?.won())
    }

    #[cold]
    fn won_in_other(&self, snapshot: &Snapshot, request: &Request<'_>) -> Option<Won> {
        self.won_in(snapshot, request)
    }

    /// Who is picked from a snapshot whose stages need not hear of it, if anybody.
    #[inline(never)]
    fn picked_silently<'a>(&self, snapshot: &'a Snapshot, request: &Request<'_>) -> Option<Picked<'a>> {
        if snapshot.told { None } else { self.picked(snapshot, request).ok()? }
    }

    /// A pick that stages hear of, or that came to nothing and has to say why: it is made once more.
    #[inline(never)]
    fn pick_with_care(&self, request: &Request<'_>) -> Result<Choice, ChooseError> {
        let pick = |snapshot: Option<&Snapshot>| {
            let Some(snapshot) = snapshot else { return Err(self.error(ChooseErrorKind::NotReady)) };
            match self.picked(snapshot, request) {
                Ok(Some(picked)) => Ok(tell(snapshot, request, picked.won().lease(request))),
                Ok(None) => {
                    let reason = if snapshot.is_empty() { snapshot.reason } else { Reason::NotPicked };
                    Err(self.nothing(snapshot, reason))
                }
                Err(refused) => Err(self.refused(snapshot, refused, request)),
            }
        };
        self.core.driver.publish.snapshot.with(pick, pick)
    }

    /// Who is picked from a snapshot; `None` if there is nothing to pick from.
    #[inline(always)]
    #[allow(clippy::inline_always)] // into two places, of which one is the path of every pick behind stages
    fn picked<'a>(
        &self,
        snapshot: &'a Snapshot,
        request: &Request<'_>,
    ) -> Result<Option<Picked<'a>>, Refused<'a>> {
        let random = &self.core.driver.publish.random;
        Ok(match snapshot.view(request) {
            Some(Ok(Wanted { view, first: None })) => view.pick(request, random),
            Some(Ok(Wanted { view, first: Some(state) })) => {
                prefer(state, request).or_else(|| view.pick(request, random))
            }
            Some(Err(refused)) => return Err(refused),
            None => None,
        })
    }

    #[cold]
    fn nothing(&self, snapshot: &Snapshot, reason: Reason) -> ChooseError {
        if snapshot.known == 0 && !self.core.driver.settings().wait_for_instances.is_zero() {
            return self.error(ChooseErrorKind::NotReady);
        }
        self.no_instances(snapshot, reason)
    }

    #[cold]
    pub(super) fn refused(
        &self,
        snapshot: &Snapshot,
        refused: Refused<'_>,
        request: &Request<'_>,
    ) -> ChooseError {
        let (reason, detail) = refused.stage.refusal(request, refused.groups);
        self.error(ChooseErrorKind::NoInstances { reason, known: snapshot.known, age: age(snapshot), detail })
    }

    pub(super) fn no_instances(&self, snapshot: &Snapshot, reason: Reason) -> ChooseError {
        let detail = snapshot.why.clone().filter(|_| reason == snapshot.reason);
        self.error(ChooseErrorKind::NoInstances { reason, known: snapshot.known, age: age(snapshot), detail })
    }

    #[cold]
    pub(super) fn error(&self, kind: ChooseErrorKind) -> ChooseError {
        ChooseError::new(self.service_id(), kind)
    }

    #[cold]
    fn unready(&self, unready: Unready) -> ChooseError {
        self.error(match unready {
            Unready::Wait => ChooseErrorKind::NotReady,
            Unready::Failed(error) => ChooseErrorKind::Supply(error),
            Unready::Closed => ChooseErrorKind::Closed,
            Unready::NoRuntime => ChooseErrorKind::NoRuntime,
            Unready::Timeout(waited) => ChooseErrorKind::Timeout { waited },
        })
    }
}

/// Tells the stages that want to hear of it what was picked. Under its lease: if one of them panics, that ends it.
#[inline(never)]
fn tell(snapshot: &Snapshot, request: &Request<'_>, choice: Choice) -> Choice {
    for stage in snapshot.stages.iter().filter(|stage| stage.wants_picks()) {
        stage.on_pick(request, &choice.instance());
    }
    choice
}

/// The instance that a request wants, unless it is out of use or was tried.
#[inline]
fn prefer<'a>(state: &'a Arc<InstanceState>, request: &Request<'_>) -> Option<Picked<'a>> {
    if request.tried().is_some_and(|tried| tried.contains(state.uid())) {
        return None;
    }
    Picked::claim(state, 0)
}

impl ReactiveLoadBalancer for LoadBalancer {
    #[allow(clippy::inline_always)] // as the method of the same name
    #[inline(always)]
    fn try_choose(&self, request: &Request<'_>) -> Result<Choice, ChooseError> {
        Self::try_choose(self, request)
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), ChooseError>> {
        Box::pin(self.waited())
    }

    fn choose_at_hand(&self, request: &Request<'_>) -> Result<Choice, ChooseError> {
        if self.is_closed() {
            return Err(self.error(ChooseErrorKind::Closed));
        }
        match self.pick(request) {
            Ok(choice) => {
                if let Some(meters) = &self.calls().meters {
                    meters.missed();
                }
                Ok(choice)
            }
            // The wait for instances is over: an empty list is an answer now.
            Err(error) => Err(match self.snapshot() {
                Some(snapshot) if error.is_not_ready() => self.no_instances(&snapshot, snapshot.reason),
                _ => error,
            }),
        }
    }

    #[inline]
    fn wants_a_yield(&self) -> bool {
        self.core.driver.word.load().wants_a_yield()
    }
}

#[cfg(feature = "metrics")]
impl crate::observe::Measured for Driver<Board> {
    fn publish(&self) {
        self.publish.publish_meters();
    }
}

impl Sink for Driver<Board> {
    fn completed(
        self: Arc<Self>,
        state: &Arc<InstanceState>,
        outcome: Outcome,
        took: Option<Duration>,
        quiet: bool,
    ) {
        if outcome == Outcome::Failure(Failure::Connect) {
            self.doubt();
        }
        if !state.is_observed() {
            return;
        }
        let policy = self.publish.policy();
        if policy.needs().outcomes() {
            // A lease ends wherever it is dropped, also while its caller panics: a second panic would end the process.
            let heard = || policy.on_outcome(state, outcome, took);
            if catch_unwind(AssertUnwindSafe(heard)).is_err()
                && let Some(passed) = self.publish.service.logs().policy.pass()
            {
                let (service, suppressed) = (state.service_id(), passed.suppressed());
                tracing::error!(%service, %outcome, suppressed, "the policy panicked at the end of a call");
            }
        }
        if !quiet {
            let service = state.service_id();
            let (instance, elapsed) = (state.instance(), took.unwrap_or_default());
            let end = AttemptEnd { service, call: None, instance: &instance, attempt: 1, outcome, elapsed };
            let calls = self.publish.calls();
            calls.lifecycles.tell(service, "on_attempt", |one| one.on_attempt(&end));
        }
    }

    fn each(&self, look: &mut dyn FnMut(&Arc<InstanceState>, bool)) {
        if let Some(snapshot) = self.publish.snapshot.load_full() {
            snapshot.members().for_each(|(state, listed)| look(state, listed));
        }
    }

    fn fitness_changed(self: Arc<Self>) {
        let board = &self.publish;
        board.connecting.fitness_changed(board.snapshot.load_full().as_deref());
        recount::fitness_changed(&self);
    }

    fn reported(self: Arc<Self>, state: &InstanceState, report: &LoadReport) {
        let policy = self.publish.policy();
        if policy.needs().reports() {
            policy.on_report(state, report);
        }
    }
}

impl fmt::Debug for LoadBalancer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadBalancer")
            .field("service", self.service_id())
            .field("snapshot", &self.snapshot())
            .finish_non_exhaustive()
    }
}
