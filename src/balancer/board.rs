//! Where the lists of a driver become snapshots.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

use super::calls::CallSettings;
use super::list::{List, Member};
use super::published::Published;
use super::snapshot::{Confirmed, Snapshot};
use super::tree::Build;
use crate::ServiceInstance;
use crate::policy::{Cursor, Policy, Publishing};
use crate::random::Random;
use crate::state::{Registry, ServiceState};
use crate::supplier::driver::Publish;
use crate::supplier::{Chain, Origin};

/// The published snapshot, and what outlives it.
pub(crate) struct Board {
    pub(super) snapshot: Published,
    pub(super) service: Arc<ServiceState>,
    pub(super) random: Random,
    changes: watch::Sender<u64>,
    /// A stage asked to run the chain again while the control state was held.
    dirty: AtomicBool,
    /// Beside the control plane, whose lock a long list holds for milliseconds: the end of every call may need it.
    policy: ArcSwap<Arc<dyn Policy>>,
    calls: ArcSwap<CallSettings>,
    control: Mutex<Control>,
}

struct Control {
    chain: Chain,
    /// The newest list as the source gave it; stages run on it again when they change.
    list: Option<List>,
    registry: Registry,
    /// By the names of the groups, as long as they are listed.
    cursors: HashMap<String, Arc<Cursor>>,
    version: u64,
    /// A stage or the policy panicked at the newest list: what is known of it is in no snapshot yet.
    broken: bool,
    /// Kept until the next change, so that the request that drops the last guard does not free a list.
    before: Option<Arc<Snapshot>>,
}

impl Board {
    pub(crate) fn new(
        service: Arc<ServiceState>,
        chain: Chain,
        policy: Arc<dyn Policy>,
        calls: CallSettings,
        seed: Option<u64>,
    ) -> Self {
        Self {
            snapshot: Published::new(),
            service,
            random: Random::new(seed),
            changes: watch::Sender::new(0),
            dirty: AtomicBool::new(false),
            policy: ArcSwap::from_pointee(policy),
            calls: ArcSwap::from_pointee(calls),
            control: Mutex::new(Control {
                chain,
                list: None,
                registry: Registry::default(),
                cursors: HashMap::new(),
                version: 0,
                broken: false,
                before: None,
            }),
        }
    }

    pub(crate) fn policy(&self) -> Arc<dyn Policy> {
        Arc::clone(&self.policy.load())
    }

    /// What holds for whole calls.
    pub(crate) fn calls(&self) -> Arc<CallSettings> {
        self.calls.load_full()
    }

    /// Other stages and another policy over the same instances and states.
    pub(crate) fn reconfigure(&self, chain: Chain, policy: Arc<dyn Policy>, calls: CallSettings) {
        self.with(|control| {
            self.calls.store(Arc::new(calls));
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
            if catch_unwind(AssertUnwindSafe(rebuild)).is_err() {
                tracing::error!(
                    service = %self.service.id(), "a stage of the chain or the policy panicked; the last list stands"
                );
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
        let (usable, reason, why) = control.chain.usable(list.named.clone(), service);
        let policy = self.policy();
        let needs = policy.needs();
        // Whoever hears of attempts hears how long they took.
        let heard = !self.calls.load().lifecycles.is_empty();
        let mut members: Vec<Member> = Vec::with_capacity(usable.len());
        for instance in usable {
            let (weight, wrong) = control.chain.weights.weigh(&instance);
            let (state, differs) = control.registry.state_of(&instance, &self.service);
            changed |= differs;
            state.observe(needs.outcomes() || heard, needs.clock() || heard);
            if let Some(wrong) = wrong.filter(|_| state.warn_once()) {
                tracing::warn!(service = %self.service.id(), %instance, "{wrong}; it counts as 1");
            }
            members.push(Member { uid: state.uid(), state, instance, weight });
        }
        // The order of first sight: a reordered list is no change.
        if !members.is_sorted_by_key(|member| member.uid) {
            members.sort_unstable_by_key(|member| member.uid);
        }
        let uids: Vec<u64> = members.iter().map(|member| member.uid).collect();
        control.registry.sweep(&uids, now);
        if let Some(current) = current.as_ref().filter(|_| !changed) {
            let same = current.known == known
                && current.reason == reason
                && current.why == why
                && match &current.base {
                    Some(base) => base.states().iter().map(|state| state.uid()).eq(uids.iter().copied()),
                    None => uids.is_empty(),
                };
            if same {
                current.confirmed.confirm(now, origin);
                (control.list, control.broken) = (Some(list), false);
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
        };
        let (root, base) = build.tree(&members);
        control.cursors = build.new;
        (control.list, control.broken) = (Some(list), false);
        let snapshot = Arc::new(Snapshot {
            version: control.version,
            known,
            reason,
            why,
            root,
            base,
            stages: Arc::clone(&control.chain.requests),
            told: control.chain.requests.iter().any(|stage| stage.wants_picks()),
            confirmed: Confirmed::new(now, origin),
        });
        tracing::debug!(
            service = %self.service.id(), version = snapshot.version, known, usable = uids.len(), ?origin, "new list"
        );
        control.before = self.snapshot.swap(Some(snapshot));
        self.changes.send_replace(control.version);
        true
    }
}

impl Publish for Board {
    fn publish(&self, list: Vec<ServiceInstance>, origin: Origin, now: Instant) -> bool {
        self.with(|control| {
            // Cleared together with the snapshot: a list that is the one before has one, unless a stage panicked at it.
            let before = control.list.as_ref().filter(|_| !control.broken);
            let Some(list) = List::after(before, list, self.service.id()) else {
                if let Some(current) = self.snapshot.load_full() {
                    current.confirmed.confirm(now, origin);
                }
                return false;
            };
            self.rebuild(control, list, origin, now, false)
        })
    }

    fn wake(&self) {
        let chain = self.with(|control| control.chain.clone());
        chain.wake();
    }

    fn close(&self) {
        let chain = self.with(|control| control.chain.clone());
        chain.close();
    }

    fn recompute(&self) {
        self.dirty.store(true, Ordering::Release);
        self.if_dirty();
    }

    fn mark(&self, origin: Origin) {
        if let Some(current) = self.snapshot.load_full() {
            if current.origin() == Origin::Push {
                // A watch confirms its list as long as it is open: age starts now.
                current.confirmed.confirm(Instant::now(), origin);
            } else {
                current.confirmed.mark(origin);
            }
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
