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

use super::published::Published;
use super::snapshot::{Branch, Confirmed, Node, Snapshot};
use super::view::View;
use crate::policy::{Cursor, Policy};
use crate::random::Random;
use crate::state::{InstanceState, Registry, ServiceState};
use crate::supplier::driver::Publish;
use crate::supplier::{Chain, Groups, Origin, RequestStage};
use crate::{ServiceId, ServiceInstance, Weight};

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

/// A list as the source gave it, and with the service filled in, entry by entry.
#[derive(Clone)]
struct List {
    raw: Vec<ServiceInstance>,
    named: Vec<ServiceInstance>,
}

/// An instance on its way into a snapshot.
#[derive(Clone)]
struct Member {
    uid: u64,
    state: Arc<InstanceState>,
    instance: ServiceInstance,
    weight: Weight,
}

impl Board {
    pub(crate) fn new(
        service: Arc<ServiceState>,
        chain: Chain,
        policy: Arc<dyn Policy>,
        seed: Option<u64>,
    ) -> Self {
        Self {
            snapshot: Published::new(),
            service,
            random: Random::new(seed),
            changes: watch::Sender::new(0),
            dirty: AtomicBool::new(false),
            policy: ArcSwap::from_pointee(policy),
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

    /// Other stages and another policy over the same instances and states.
    pub(crate) fn reconfigure(&self, chain: Chain, policy: Arc<dyn Policy>) {
        self.with(|control| {
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
        let mut members: Vec<Member> = Vec::with_capacity(usable.len());
        for instance in usable {
            let (weight, wrong) = control.chain.weights.weigh(&instance);
            let (state, differs) = control.registry.state_of(&instance, &self.service);
            changed |= differs;
            state.observe(needs.outcomes(), needs.clock());
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

/// How many entries that left are passed over to find the next one that stayed, and how many may be missed in a row before
/// the list counts as another one altogether.
const AHEAD: usize = 4;
const MISSES: usize = 64;

impl List {
    /// An entry that says what it said in the list before stays that one, so that all that is compared behind ends at the
    /// pointer. `None` when the list is the one before.
    fn after(before: Option<&Self>, mut raw: Vec<ServiceInstance>, service: &ServiceId) -> Option<Self> {
        let (old, old_named) = before.map_or((&[][..], &[][..]), |list| (&list.raw, &list.named));
        let (mut at, mut missed, mut kept) = (0, 0, 0);
        let mut named = Vec::with_capacity(raw.len());
        for instance in &mut raw {
            let ahead = old.get(at..).filter(|_| missed < MISSES).unwrap_or_default();
            if let Some(step) = ahead.iter().take(AHEAD).position(|old| old == instance) {
                at += step;
                *instance = old[at].clone();
                named.push(old_named[at].clone());
                (at, missed, kept) = (at + 1, 0, kept + 1);
            } else {
                named.push(instance.within(service));
                missed += 1;
            }
        }
        let same = before.is_some() && kept == raw.len() && kept == old.len();
        (!same).then_some(Self { raw, named })
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

/// One build of the tree of views.
struct Build<'a> {
    board: &'a Board,
    chain: &'a Chain,
    policy: &'a dyn Policy,
    old: &'a HashMap<String, Arc<Cursor>>,
    new: HashMap<String, Arc<Cursor>>,
    before: Option<&'a Snapshot>,
}

/// Marks the rotation of the same group without the stages inside groups.
const WIDE: char = '\u{1}';

impl Build<'_> {
    fn tree(&mut self, members: &[Member]) -> (Option<Node>, Option<Arc<View>>) {
        if members.is_empty() {
            return (None, None);
        }
        let before = self.before;
        let old_base = before.and_then(|before| before.base.as_ref());
        let base = self.view(members, &String::from(WIDE), old_base, None);
        let old_root = before.and_then(|before| before.root.as_ref());
        let root =
            self.node(members, &mut String::new(), None, &base, old_root, &Arc::clone(&self.chain.requests));
        (Some(root), Some(base))
    }

    /// The node of a group (`name`; `None` = the whole list) and of everything that the stages left can name inside it.
    fn node(
        &mut self,
        members: &[Member],
        key: &mut String,
        name: Option<&str>,
        wider: &Arc<View>,
        old: Option<&Node>,
        stages: &[Arc<dyn RequestStage>],
    ) -> Node {
        let old_view = old.map(|old| &old.view);
        let narrowed = self.narrowed(members, name);
        let is_base = members.len() == wider.states().len();
        let view = match narrowed {
            // Nothing inside the group: the group is the view.
            None if is_base && key.is_empty() => self.view(members, key, old_view, None),
            None => self.view(members, key, old_view, Some(Arc::clone(wider))),
            Some(list) => {
                let whole = if is_base {
                    Arc::clone(wider)
                } else {
                    let old_whole = old_view.and_then(|view| view.wider.as_ref());
                    self.view(members, &format!("{key}{WIDE}"), old_whole, Some(Arc::clone(wider)))
                };
                self.view(&list, key, old_view, Some(whole))
            }
        };
        let next = self.branch(members, key, &view, wider, old, stages);
        Node { view, next }
    }

    fn branch(
        &mut self,
        members: &[Member],
        key: &mut String,
        own: &Arc<View>,
        wider: &Arc<View>,
        old: Option<&Node>,
        stages: &[Arc<dyn RequestStage>],
    ) -> Option<Box<Branch>> {
        let (stage, rest) = stages.split_first()?;
        let mut named: Vec<(Arc<str>, Vec<Member>)> = Vec::new();
        let mut index: HashMap<Arc<str>, usize> = HashMap::new();
        for member in members {
            stage.groups(&member.instance, &mut |name| {
                let at = index.get(name).copied().unwrap_or_else(|| {
                    let shared: Arc<str> = name.into();
                    index.insert(Arc::clone(&shared), named.len());
                    named.push((shared, Vec::new()));
                    named.len() - 1
                });
                let group = &mut named[at].1;
                // A stage may name a group twice for one instance.
                if group.last().is_none_or(|last| last.uid != member.uid) {
                    group.push(member.clone());
                }
            });
        }
        named.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let old_branch = old.and_then(|old| old.next.as_deref());
        let strict = stage.is_strict();
        let length = key.len();
        let mut nodes = Vec::with_capacity(named.len());
        for (name, group) in &named {
            key.push_str(stage.name());
            key.push('=');
            key.push_str(name);
            key.push('\u{0}');
            let old_node =
                old_branch.and_then(|branch| branch.nodes.get(branch.groups.find(name)?.0 as usize));
            // A strict group is never left: its own instances are the widest view.
            let node = if strict {
                let old_widest = old_node.map(|node| widest(&node.view));
                let whole = self.view(group, &format!("{key}{WIDE}"), old_widest, None);
                self.node(group, key, Some(name), &whole, old_node, rest)
            } else {
                self.node(group, key, Some(name), wider, old_node, rest)
            };
            nodes.push(node);
            key.truncate(length);
        }
        let all = if rest.is_empty() {
            None
        } else {
            let old_all = old_branch.and_then(|branch| branch.all.as_ref());
            let next = self.branch(members, key, own, wider, old_all, rest);
            Some(Node { view: Arc::clone(own), next })
        };
        let instances = instances(&**stage, members);
        let states = if instances.is_empty() {
            Box::default()
        } else {
            members.iter().map(|member| Arc::clone(&member.state)).collect()
        };
        let groups = Groups::new(named.into_iter().map(|(name, _)| name).collect(), instances);
        Some(Box::new(Branch { groups, nodes: nodes.into(), all, states }))
    }

    /// What the stages inside groups leave of a group; `None` when they leave all of it as it is.
    fn narrowed(&self, members: &[Member], name: Option<&str>) -> Option<Vec<Member>> {
        if self.chain.inner.is_empty() {
            return None;
        }
        let mut list: Vec<ServiceInstance> = members.iter().map(|member| member.instance.clone()).collect();
        self.chain.within(&mut list, self.board.service.id(), name);
        // Nearly always a part of the members in their order; a stage may also reorder or repeat.
        let mut left = Vec::with_capacity(list.len());
        let mut rest = members.iter();
        for instance in &list {
            let member = rest
                .by_ref()
                .find(|member| member.instance.same_identity(instance))
                .or_else(|| members.iter().find(|member| member.instance.same_identity(instance)));
            let Some(member) = member else { continue };
            let weight = if member.instance.is_same_entry(instance) {
                member.weight
            } else {
                self.chain.weights.weigh(instance).0
            };
            if !weight.is_zero() {
                left.push(Member { weight, ..member.clone() });
            }
        }
        if !left.is_sorted_by_key(|member| member.uid) {
            left.sort_by_key(|member| member.uid);
        }
        left.dedup_by_key(|member| member.uid);
        // A stage that leaves nothing of a group would make it unreachable; it is passed over there.
        let same = left.len() == members.len() && left.iter().zip(members).all(|(a, b)| a.weight == b.weight);
        (!left.is_empty() && !same).then_some(left)
    }

    fn view(
        &mut self,
        members: &[Member],
        key: &String,
        old: Option<&Arc<View>>,
        wider: Option<Arc<View>>,
    ) -> Arc<View> {
        let states: Box<[_]> = members.iter().map(|member| Arc::clone(&member.state)).collect();
        let weights: Option<Box<[Weight]>> = self
            .chain
            .weights
            .is_on()
            .then(|| members.iter().map(|member| member.weight).collect::<Box<[Weight]>>())
            .filter(|weights| weights.iter().any(|weight| *weight != weights[0]));
        let cursor = self.old.get(key).map_or_else(Arc::default, Arc::clone);
        let old = old.filter(|_| self.old.contains_key(key));
        self.new.insert(key.clone(), Arc::clone(&cursor));
        Arc::new(View::new(
            states,
            weights,
            self.policy,
            cursor,
            old.map(|old| &**old),
            &self.board.random,
            wider,
        ))
    }
}

/// The names by which a stage finds single instances, sorted; of one name, the lowest address.
fn instances(stage: &dyn RequestStage, members: &[Member]) -> Box<[(Box<str>, u32)]> {
    let mut found: Vec<(Box<str>, &Member, u32)> = members
        .iter()
        .zip(0..)
        .filter_map(|(member, at)| Some((stage.instance_name(&member.instance)?.into(), member, at)))
        .collect();
    let address = |member: &Member| (member.instance.host().to_owned(), member.instance.port());
    found.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| address(a.1).cmp(&address(b.1))));
    found.dedup_by(|later, first| later.0 == first.0);
    found.into_iter().map(|(name, _, at)| (name, at)).collect()
}

fn widest(view: &Arc<View>) -> &Arc<View> {
    let mut at = view;
    while let Some(wider) = &at.wider {
        at = wider;
    }
    at
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
        let service = Arc::new(ServiceState::new(ServiceId::new("s").unwrap()));
        let board = Board::new(service, chain(), Arc::new(RoundRobin::default()), Some(1));
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
        board.reconfigure(chain(), Arc::new(RoundRobin::default()));
        assert_eq!((ran(), board.snapshot.load_full().unwrap().len()), (5, 1));
        runs.store(0, Ordering::SeqCst);
        board.publish(list(), Origin::Pull, Instant::now());
        assert_eq!(ran(), 1);
    }
}
