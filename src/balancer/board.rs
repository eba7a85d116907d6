//! Where the lists of a driver become snapshots.

use std::borrow::Cow;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

use super::calls::CallSettings;
use super::fitness;
use super::list::{List, Member};
use super::measured;
use super::pre_connection::Keeper;
use super::published::Published;
use super::recount::Recount;
use super::snapshot::{Confirmed, Idle, Snapshot};
use super::spread::{self, Spread};
use super::tree::Build;
use super::why::{self, Overrides};
use crate::ServiceInstance;
use crate::observe::{ChangeKind, Meters};
use crate::policy::{Cursor, Policy, Publishing};
use crate::random::Random;
use crate::state::{Crowd, InstanceState, Registry, ServiceState};
use crate::supplier::driver::{LookUp, Publish};
use crate::supplier::{Chain, Origin, Standing, Usable};

/// The published snapshot, and what outlives it.
pub(crate) struct Board {
    pub(super) snapshot: Published,
    pub(super) service: Arc<ServiceState>,
    pub(super) random: Random,
    changes: watch::Sender<u64>,
    /// A stage asked to run the chain again while the control state was held.
    dirty: AtomicBool,
    pub(super) recount: Recount,
    /// Beside the control plane, whose lock a long list holds for milliseconds: the end of every call may need it.
    policy: ArcSwap<Arc<dyn Policy>>,
    calls: ArcSwap<CallSettings>,
    /// Whether those change requests, which few do: the settings need not be looked at where they do not.
    shapes: AtomicBool,
    /// Made when the service is first measured, so that what was counted goes on when that is switched off and on.
    meters: OnceLock<Option<Meters>>,
    /// What an operator overrides.
    pub(super) overrides: Overrides,
    /// Who is being connected before it gets calls.
    pub(super) connecting: Keeper,
    control: Mutex<Control>,
}

pub(super) struct Control {
    chain: Chain,
    /// The newest list as the source gave it; stages run on it again when they change.
    pub(super) list: Option<List>,
    pub(super) registry: Registry,
    /// A stage would have left none of the newest list, and left all.
    pub(super) open: bool,
    /// By the names of the groups, as long as they are listed.
    cursors: HashMap<String, Arc<Cursor>>,
    version: u64,
    /// A stage or the policy panicked at the newest list: what is known of it is in no snapshot yet.
    broken: bool,
    /// The last list was looked over for instances that have to warm up: who is new in the next one does.
    warm: bool,
    /// Kept until the next change, so that the request that drops the last guard does not free a list.
    before: Option<Arc<Snapshot>>,
}

/// What reports look at.
pub(super) struct Look {
    pub(super) chain: Chain,
    pub(super) named: Vec<ServiceInstance>,
    pub(super) states: Vec<Arc<InstanceState>>,
    pub(super) open: bool,
}

impl Board {
    /// Handles of what a report looks at; the lock is held for their copies only.
    pub(super) fn look(&self) -> Look {
        self.with(|control| Look {
            chain: control.chain.clone(),
            named: control.list.as_ref().map(|list| list.named.clone()).unwrap_or_default(),
            states: control.registry.all().map(Arc::clone).collect(),
            open: control.open,
        })
    }

    pub(crate) fn new(
        service: Arc<ServiceState>,
        chain: Chain,
        policy: Arc<dyn Policy>,
        calls: CallSettings,
        seed: Option<u64>,
    ) -> Self {
        let board = Self {
            snapshot: Published::new(),
            service,
            random: Random::new(seed),
            changes: watch::Sender::new(0),
            dirty: AtomicBool::new(false),
            recount: Recount::new(chain.distribution.is_some()),
            policy: ArcSwap::from_pointee(policy),
            calls: ArcSwap::default(),
            shapes: AtomicBool::new(false),
            meters: OnceLock::new(),
            overrides: Overrides::default(),
            connecting: Keeper::default(),
            control: Mutex::new(Control {
                chain,
                list: None,
                registry: Registry::default(),
                open: false,
                cursors: HashMap::new(),
                version: 0,
                broken: false,
                warm: false,
                before: None,
            }),
        };
        board.set_calls(calls);
        board
    }

    fn set_calls(&self, mut calls: CallSettings) {
        calls.meters = if calls.stats.enabled {
            self.meters.get_or_init(|| Meters::new(self.service.id())).clone()
        } else {
            None
        };
        self.service.outliers().configure(fitness::detection(&calls.outlier_detection));
        self.service.set_warmth(fitness::warmth(&calls.slow_start));
        self.connecting.configure(&calls.pre_connection);
        // Before the settings: whoever sees them has to see this.
        self.shapes.store(calls.shape_requests(), Ordering::Release);
        self.calls.store(Arc::new(calls));
    }

    pub(crate) fn policy(&self) -> Arc<dyn Policy> {
        Arc::clone(&self.policy.load())
    }

    /// What holds for whole calls.
    pub(crate) fn calls(&self) -> Arc<CallSettings> {
        self.calls.load_full()
    }

    /// The same for who has to change a request: if these say so, or `anyway`.
    #[cfg(feature = "tower")]
    pub(crate) fn calls_that_shape(&self, anyway: bool) -> Option<Arc<CallSettings>> {
        (anyway || self.shapes.load(Ordering::Acquire)).then(|| self.calls.load_full())
    }

    /// Other stages and another policy over the same instances and states.
    pub(crate) fn reconfigure(&self, chain: Chain, policy: Arc<dyn Policy>, calls: CallSettings) {
        self.with(|control| {
            let before = self.calls().meters.clone();
            self.set_calls(calls);
            match (before, self.calls().meters.as_ref()) {
                (Some(before), None) => measured::publish(self, control, &before),
                (None, Some(_)) => measured::resume(control),
                _ => {}
            }
            if !self.service.outliers().is_on() {
                control.registry.all().for_each(|state| state.pardon());
            }
            self.recount.divides(chain.distribution.is_some());
            chain.succeed(&control.chain);
            control.chain = chain;
            self.policy.store(Arc::new(policy));
            self.again(control, true);
        });
    }

    /// Works on the control state, and afterwards does what a stage asked for while it was held.
    fn with<T>(&self, work: impl FnOnce(&mut Control) -> T) -> T {
        let done = work(&mut self.control.lock());
        self.if_dirty();
        done
    }

    /// Makes the snapshot again from the newest list. A stage that panics at it, on whose thread ever this is, leaves the
    /// last snapshot.
    fn again(&self, control: &mut Control, force: bool) {
        if let Some(list) = control.list.clone() {
            let current = self.snapshot.load_full();
            let (origin, at) =
                current.map_or((Origin::Stale, Instant::now()), |c| (c.origin(), c.confirmed_at()));
            let rebuild = || self.rebuild(control, list, origin, at, force);
            if catch_unwind(AssertUnwindSafe(rebuild)).is_err()
                && let Some(passed) = self.service.logs().stage.pass()
            {
                let (service, suppressed) = (self.service.id(), passed.suppressed());
                tracing::error!(%service, suppressed, "a stage of the chain or the policy panicked: the last list stands");
            }
        }
    }

    /// Does what a stage asked for while somebody held the control state. Never waits for it: whoever holds it comes here
    /// afterwards.
    fn if_dirty(&self) {
        loop {
            // Between "asked" and "is it held", and between "let go" and "was anything asked": one of the two sees the other.
            fence(Ordering::SeqCst);
            if !self.dirty.load(Ordering::Acquire) {
                return;
            }
            let Some(mut control) = self.control.try_lock() else { return };
            self.dirty.store(false, Ordering::Release);
            // What a stage inside groups would do now is not known before it has done it.
            let force = !control.chain.inner.is_empty();
            self.again(&mut control, force);
        }
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// How many instance states are kept, those of instances that left lately included.
    pub(crate) fn tracked(&self) -> usize {
        self.with(|control| control.registry.len())
    }

    /// Calls in flight to all of those.
    pub(crate) fn in_flight(&self) -> u32 {
        self.with(|control| control.registry.all().map(|state| state.in_flight()).sum())
    }

    /// Makes a snapshot of `list`; whether it differs from the one before.
    fn rebuild(&self, control: &mut Control, list: List, origin: Origin, now: Instant, force: bool) -> bool {
        let mut changed = std::mem::replace(&mut control.broken, true) || force;
        let current = self.snapshot.load_full();
        let known = u32::try_from(list.raw.len()).unwrap_or(u32::MAX);
        let service = self.service.id();
        let mut named = self.overrides.marked(list.named.clone());
        if control.chain.has_subset() {
            // In the order in which the members will stand, so that a stage before the groups is told the subsets that they
            // will have: those not seen yet get the next places, as the list tells them.
            named.sort_by_cached_key(|one| control.registry.uid_of(one).unwrap_or(u64::MAX));
        }
        let Usable { list: usable, standings, reason, why, open } = control.chain.usable(named, service);
        let was_open = std::mem::replace(&mut control.open, open);
        let policy = self.policy();
        let (members, differ) = self.members(control, usable, standings, &*policy);
        changed |= differ;
        let uids: Vec<u64> = members.iter().map(|member| member.uid).collect();
        control.registry.sweep(&uids, now);
        self.connecting.keep(&members);
        let mut crowd = Crowd::default();
        for member in members.iter().filter(|member| member.listed.is_available()) {
            crowd.add(&member.state);
        }
        self.service.outliers().count(crowd);
        if self.service.warms_up() {
            fitness::warm_up(&list, &members, current.as_deref(), !control.warm);
        }
        control.warm = self.service.warms_up() && (control.warm || !members.is_empty());
        let spread = Spread::of(&control.chain, &members);
        if let Some(current) = current.as_ref().filter(|_| !changed) {
            let same = current.known == known && current.reason == reason && current.why == why;
            if same && current.has_members(&uids, &spread) {
                (control.list, control.broken) = (Some(list), false);
                self.confirmed(control, current, now, origin);
                return false;
            }
        }
        control.version += 1;
        let mut build = Build {
            board: self,
            chain: &control.chain,
            policy: &*policy,
            publishing: Publishing::new(),
            old: &control.cursors,
            new: HashMap::new(),
            before: current.as_deref(),
            spread,
        };
        let (root, base) = build.tree(&members);
        let spread = build.spread;
        control.cursors = build.new;
        spread.ended(&control.chain, &self.service, |key| control.cursors.contains_key(key));
        (control.list, control.broken) = (Some(list), false);
        let snapshot = Arc::new(Snapshot {
            version: control.version,
            known,
            reason,
            why,
            plain: root
                .as_ref()
                .filter(|_| control.chain.requests.is_empty())
                .map(|root| Arc::clone(&root.view)),
            idle: Idle::of(root.as_ref(), &control.chain.requests),
            root,
            base,
            stages: Arc::clone(&control.chain.requests),
            spread,
            told: control.chain.requests.iter().any(|stage| stage.wants_picks()),
            confirmed: Confirmed::new(now, origin),
        });
        self.tell(&snapshot, origin);
        let settings = self.calls();
        let begun =
            self.connecting.begin(&settings.pre_connection, &members, snapshot.root.as_ref(), &self.service);
        let panic = snapshot.distribution().is_some_and(crate::supplier::DistributionReport::is_panic);
        why::note_snapshot(&self.service, current.as_deref(), &snapshot, (was_open, open));
        control.before = self.snapshot.swap(Some(snapshot));
        self.changes.send_replace(control.version);
        if let Some(begun) = begun {
            self.connecting.start(begun, &self.service);
        }
        // In panic everybody is used, and who judges by calls is more likely wrong.
        self.service.set_panic(panic);
        if let Some(meters) = &self.calls().meters {
            measured::publish(self, control, meters);
        }
        true
    }

    /// The instances that the stages left, in the order of first sight, each told what to keep; whether one says anything new.
    fn members(
        &self,
        control: &mut Control,
        usable: Vec<ServiceInstance>,
        standings: Vec<Standing>,
        policy: &dyn Policy,
    ) -> (Vec<Member>, bool) {
        let (service, mut changed) = (self.service.id(), false);
        let needs = policy.needs();
        // Whoever hears of attempts hears how long they took.
        let (meters, heard) = {
            let calls = self.calls.load();
            (calls.meters.clone(), !calls.lifecycles.is_empty())
        };
        let measured = meters.is_some();
        let all = needs
            .heard()
            .outcomes(heard)
            .times(heard || measured)
            .meters(measured)
            .failures(self.service.outliers().is_on());
        if let Some(pace) = needs.pace() {
            self.service.set_pace(pace);
        }
        let mut members: Vec<Member> = Vec::with_capacity(usable.len());
        let mut standings = standings.into_iter();
        for instance in usable {
            let (weight, wrong) = control.chain.weights.weigh(&instance);
            let (state, differs) = control.registry.state_of(&instance, &self.service);
            changed |= differs;
            state.observe(match &meters {
                Some(meters) => {
                    meters.instrument(&state);
                    all.elsewhere(control.chain.is_elsewhere(&instance))
                }
                None => all,
            });
            if let Some(wrong) = wrong.filter(|_| state.warn_once())
                && let Some(passed) = self.service.logs().weight.pass()
            {
                let suppressed = passed.suppressed();
                tracing::warn!(%service, %instance, %wrong, suppressed, "a weight cannot be read: it counts as 1");
            }
            let known = standings.next();
            let standing = known.map_or_else(Standing::default, |known| spread::standing(&state, known));
            let listed = known.unwrap_or_default();
            let (uid, connecting) = (state.uid(), state.is_connecting());
            members.push(Member { uid, state, instance, weight, standing, listed, connecting });
        }
        // The order of first sight: a reordered list is no change.
        if !members.is_sorted_by_key(|member| member.uid) {
            members.sort_unstable_by_key(|member| member.uid);
        }
        (members, changed)
    }

    fn tell(&self, snapshot: &Snapshot, origin: Origin) {
        if let Some(passed) = self.service.logs().list.pass() {
            let (service, known) = (self.service.id(), snapshot.known);
            let usable = snapshot.base.as_ref().map_or(0, |base| base.states().len());
            tracing::info!(
                %service, version = snapshot.version, known, usable, ?origin,
                suppressed = passed.suppressed(), "the list of instances changed"
            );
        }
    }

    /// The list of `current` stands.
    fn confirmed(&self, control: &Control, current: &Snapshot, now: Instant, origin: Origin) {
        let before = current.origin();
        current.confirmed.confirm(now, origin);
        if let Some(meters) = self.calls().meters.as_ref().filter(|_| before != origin) {
            measured::publish(self, control, meters);
        }
    }

    /// Hands the meters to the recorder, if the service is measured.
    #[cfg(feature = "metrics")]
    pub(super) fn publish_meters(&self) {
        if let Some(meters) = self.calls().meters.as_ref() {
            self.with(|control| measured::publish(self, control, meters));
        }
    }
}

impl Publish for Board {
    fn publish(&self, list: Vec<ServiceInstance>, origin: Origin, now: Instant) -> bool {
        self.with(|control| {
            // Cleared together with the snapshot: a list that is the one before has one, unless a stage panicked at it.
            let before = control.list.as_ref().filter(|_| !control.broken);
            let Some(list) = List::after(before, list, self.service.id()) else {
                if let Some(current) = self.snapshot.load_full() {
                    self.confirmed(control, &current, now, origin);
                }
                return false;
            };
            let before = control.list.as_ref().map(|list| list.named.clone());
            let changed = self.rebuild(control, list, origin, now, false);
            if let Some(list) = &control.list {
                why::note_list(&self.service, before.as_deref(), &list.named);
            }
            changed
        })
    }

    fn wake(&self) {
        let chain = self.with(|control| control.chain.clone());
        chain.wake();
    }

    fn close(&self) {
        self.overrides.cancel();
        self.connecting.close();
        let chain = self.with(|control| control.chain.clone());
        chain.close();
    }

    fn recompute(&self) {
        self.dirty.store(true, Ordering::Release);
        self.if_dirty();
    }

    fn mark(&self, origin: Origin) {
        let Some(current) = self.snapshot.load_full() else { return };
        let before = current.origin();
        if before == Origin::Push {
            // A watch confirms its list as long as it is open: age starts now.
            current.confirmed.confirm(Instant::now(), origin);
        } else {
            current.confirmed.mark(origin);
        }
        if let Some(meters) = self.calls().meters.as_ref().filter(|_| before != origin) {
            self.with(|control| measured::publish(self, control, meters));
        }
    }

    fn clear(&self) {
        self.with(|control| {
            control.list = None;
            control.before = self.snapshot.swap(None);
        });
    }

    fn has_instances(&self) -> Option<bool> {
        self.snapshot.load_full().map(|snapshot| snapshot.known > 0)
    }

    fn raw(&self) -> Vec<ServiceInstance> {
        self.with(|control| control.list.as_ref().map(|list| list.raw.clone()).unwrap_or_default())
    }

    fn run_on(&self, runtime: &Handle) {
        self.service.run_on(runtime);
        self.overrides.arm(Some(runtime));
    }

    fn note(&self, kind: ChangeKind, instance: Option<&ServiceInstance>, detail: Cow<'static, str>) {
        self.service.note(kind, instance, detail);
    }

    fn looked_up(&self, end: LookUp) {
        if let Some(meters) = &self.calls.load().meters {
            meters.looked_up(end.as_str());
        }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        if let Some(Some(meters)) = self.meters.get() {
            let all: Vec<_> = self.control.get_mut().registry.all().map(Arc::clone).collect();
            meters.end(&all);
        }
    }
}

/// How old the list of `snapshot` is, for an error.
pub(super) fn age(snapshot: &Snapshot) -> Duration {
    snapshot.age()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::policy::RoundRobin;
    use crate::supplier::{ListStage, Rank, StageCx, WeightsStage};

    /// Counts how often it runs; panics once it ran three times.
    #[derive(Debug, Default)]
    struct Counting(Arc<AtomicU32>);

    impl ListStage for Counting {
        fn name(&self) -> &'static str {
            "counting"
        }
        fn rank(&self) -> Rank {
            Rank::Filter(0)
        }
        fn apply(&self, _: &mut Vec<ServiceInstance>, _: &StageCx<'_>) {
            assert!(self.0.fetch_add(1, Ordering::SeqCst) < 3, "broken on purpose");
        }
    }

    #[tokio::test]
    async fn what_a_stage_asks_for_while_the_state_is_held_is_done_afterwards_by_whoever_held_it() {
        let runs = Arc::new(AtomicU32::new(0));
        let chain = || {
            let stage = Arc::new(Counting(Arc::clone(&runs)));
            Chain::new(vec![stage], Vec::new(), WeightsStage::off())
        };
        let service = Arc::new(ServiceState::new(crate::ServiceId::new("s").unwrap()));
        let board =
            Board::new(service, chain(), Arc::new(RoundRobin::default()), CallSettings::default(), Some(1));
        let list = || vec![ServiceInstance::new("10.0.0.1", 80).unwrap()];
        let ran = || runs.load(Ordering::SeqCst);
        board.publish(list(), Origin::Pull, Instant::now());
        board.publish(list(), Origin::Pull, Instant::now());
        assert_eq!(ran(), 1, "an equal list runs nothing");
        // Each of these is a moment in which a verdict of a health check may arrive.
        board.with(|_| board.recompute());
        assert_eq!(ran(), 2);
        board.dirty.store(true, Ordering::Release);
        board.publish(list(), Origin::Pull, Instant::now());
        assert_eq!(ran(), 3);
        // A stage that panics, on whose thread ever, leaves the snapshot; the next list tries it again.
        board.dirty.store(true, Ordering::Release);
        assert_eq!(board.in_flight(), 0);
        board.reconfigure(chain(), Arc::new(RoundRobin::default()), CallSettings::default());
        assert_eq!((ran(), board.snapshot.load_full().unwrap().len()), (5, 1));
        runs.store(0, Ordering::SeqCst);
        board.publish(list(), Origin::Pull, Instant::now());
        assert_eq!(ran(), 1);
    }
}
