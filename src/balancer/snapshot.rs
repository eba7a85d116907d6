use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::spread::Spread;
use super::view::View;
use crate::request::Seen;
use crate::state::InstanceState;
use crate::supplier::{DistributionReport, Groups, Origin, Reads, Reason, RequestStage, Selection};
use crate::{Request, Weight};

/// The instances of a service at one moment: immutable, replaced in one swap when the list changes.
///
/// ```
/// use evenkeel::{LoadBalancer, Request, ServiceInstance};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let orders = LoadBalancer::fixed("orders", [ServiceInstance::new("10.0.0.1", 8080)?])?;
/// orders.ready().await?;
/// let snapshot = orders.snapshot().ok_or("no list")?;
/// assert_eq!((snapshot.version(), snapshot.len()), (1, 1));
/// # Ok(()) }
/// ```
pub struct Snapshot {
    pub(super) version: u64,
    pub(super) known: u32,
    pub(super) reason: Reason,
    /// What a stage says of it.
    pub(super) why: Option<String>,
    pub(super) root: Option<Node>,
    /// Everything usable, without the stages inside groups.
    pub(super) base: Option<Arc<View>>,
    /// How its traffic is divided.
    pub(super) spread: Spread,
    pub(super) stages: Arc<[Arc<dyn RequestStage>]>,
    pub(super) idle: Idle,
    pub(super) told: bool,
    /// Where every request is picked from, if there are no stages.
    pub(super) plain: Option<Arc<View>>,
    pub(super) confirmed: Confirmed,
}

/// When the list was last confirmed, and how; these change without a new list.
pub(super) struct Confirmed {
    base: Instant,
    nanos: AtomicU64,
    origin: AtomicU8,
}

impl Confirmed {
    pub(super) fn new(at: Instant, origin: Origin) -> Self {
        Self { base: at, nanos: AtomicU64::new(0), origin: AtomicU8::new(code(origin)) }
    }

    pub(super) fn confirm(&self, at: Instant, origin: Origin) {
        let passed = at.saturating_duration_since(self.base).as_nanos();
        self.nanos.store(u64::try_from(passed).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.mark(origin);
    }

    pub(super) fn mark(&self, origin: Origin) {
        self.origin.store(code(origin), Ordering::Relaxed);
    }

    fn at(&self) -> Instant {
        self.base + Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }

    fn origin(&self) -> Origin {
        ORIGINS[usize::from(self.origin.load(Ordering::Relaxed))]
    }
}

const ORIGINS: [Origin; 5] = [Origin::Pull, Origin::Push, Origin::Guarded, Origin::Stale, Origin::Disk];

fn code(origin: Origin) -> u8 {
    match origin {
        Origin::Pull => 0,
        Origin::Push => 1,
        Origin::Guarded => 2,
        Origin::Stale => 3,
        Origin::Disk => 4,
    }
}

/// The instances that the request stages so far leave, and what the next stage can name among them.
pub(super) struct Node {
    pub(super) view: Arc<View>,
    pub(super) next: Option<Box<Branch>>,
}

impl Node {
    /// What each stage can name, wherever requests come to it.
    fn each_branch(&self, look: &mut dyn FnMut(&Branch)) {
        if let Some(branch) = self.next.as_deref() {
            look(branch);
            branch.nodes.iter().chain(&branch.all).for_each(|node| node.each_branch(look));
        }
    }

    /// The view of every request, but for those that picks widen to.
    pub(super) fn each_view(&self, look: &mut dyn FnMut(&View)) {
        look(&self.view);
        if let Some(branch) = self.next.as_deref() {
            branch.nodes.iter().chain(&branch.all).for_each(|node| node.each_view(look));
        }
    }
}

/// Requests that have nothing of what the stages look at.
#[derive(Default)]
pub(super) struct Idle {
    /// Whether a stage says what it reads, so that it is worth knowing what a request has.
    some: bool,
    /// What the stages read together, and where a request that has nothing of it is picked from; `None` if that is not
    /// known before it is asked.
    whole: Option<(Reads, Arc<View>)>,
}

impl Idle {
    /// Of the tree of views of a list.
    pub(super) fn of(root: Option<&Node>, stages: &[Arc<dyn RequestStage>]) -> Self {
        let Some(root) = root.filter(|_| !stages.is_empty()) else { return Self::default() };
        let (mut some, mut all) = (false, Reads::nothing());
        root.each_branch(&mut |branch| {
            some |= branch.reads != Reads::anything();
            all = all.and(branch.reads);
        });
        let known = all != Reads::anything();
        let whole = || match narrowed(root, stages, &Request::EMPTY, Request::EMPTY.seen()) {
            Ok(Wanted { view, first: None }) => Some((all, Arc::clone(view))),
            _ => None,
        };
        Self { some, whole: if known { whole() } else { None } }
    }
}

pub(super) struct Branch {
    /// What its stage looks at, and what it says of a request that has nothing of it.
    pub(super) reads: Reads,
    pub(super) idle: Selection,
    pub(super) groups: Groups,
    /// One for each group.
    pub(super) nodes: Box<[Node]>,
    /// When this stage leaves all: the stages after it, on the same instances.
    pub(super) all: Option<Node>,
    /// The instances that the stage can name one by one; empty when it names none.
    pub(super) states: Box<[Arc<InstanceState>]>,
}

/// Where a request is to be picked from, and whom it wants first.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) view: &'a Arc<View>,
    pub(super) first: Option<&'a Arc<InstanceState>>,
}

/// The stage that forbids a request everything, and the groups that it had to name one of.
#[derive(Clone, Copy)]
pub(super) struct Refused<'a> {
    pub(super) stage: &'a dyn RequestStage,
    pub(super) groups: &'a Groups,
}

impl Snapshot {
    /// Whether these are its instances, divided by the same.
    pub(super) fn has_members(&self, uids: &[u64], spread: &Spread) -> bool {
        self.spread.is_same(spread)
            && match &self.base {
                // What is divided keeps who all of them are; the base has those that may be called.
                Some(_) if spread.is_on() => true,
                Some(base) => base.states().iter().map(|state| state.uid()).eq(uids.iter().copied()),
                None => uids.is_empty(),
            }
    }

    /// How the traffic to the whole list is divided among priorities and zones; `None` when weights are all there is to it,
    /// or nobody is usable.
    ///
    /// ```
    /// use evenkeel::{LoadBalancer, ServiceInstance, SupplierBuilder};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let list = [ServiceInstance::new("10.0.0.1", 8080)?, ServiceInstance::new("10.0.0.2", 8080)?];
    /// let chain = SupplierBuilder::new("orders").with_instances(list).with_panic_threshold(50);
    /// let orders = LoadBalancer::builder(chain.build()?).build();
    /// orders.ready().await?;
    /// let snapshot = orders.snapshot().ok_or("no list")?;
    /// let report = snapshot.distribution().ok_or("not divided")?;
    /// assert!(!report.is_panic() && report.priorities()[0].healthy == 2);
    /// # Ok(()) }
    /// ```
    pub fn distribution(&self) -> Option<&DistributionReport> {
        self.spread.report()
    }

    /// The view for a request; `None` = nothing to choose from at all.
    #[inline]
    pub(super) fn view(&self, request: &Request<'_>) -> Option<Result<Wanted<'_>, Refused<'_>>> {
        let root = self.root.as_ref()?;
        if self.stages.is_empty() {
            Some(Ok(Wanted { view: &root.view, first: None }))
        } else {
            Some(self.narrowed(root, request))
        }
    }

    /// The view that the request stages name.
    #[allow(clippy::inline_always)] // into a function that is one already, behind stages
    #[inline(always)]
    fn narrowed<'a>(&'a self, root: &'a Node, request: &Request<'_>) -> Result<Wanted<'a>, Refused<'a>> {
        let seen = if self.idle.some { request.seen() } else { Seen::ALL };
        match &self.idle.whole {
            Some((reads, view)) if !reads.concern(seen) => Ok(Wanted { view, first: None }),
            _ => narrowed(root, &self.stages, request, seen),
        }
    }

    /// Counts the lists that differed, from 1.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How long ago the source last confirmed it; zero while a watch is open.
    pub fn age(&self) -> Duration {
        if self.origin() == Origin::Push { Duration::ZERO } else { self.confirmed.at().elapsed() }
    }

    /// When the source last confirmed it.
    pub fn confirmed_at(&self) -> Instant {
        self.confirmed.at()
    }

    /// Where it came from.
    pub fn origin(&self) -> Origin {
        self.confirmed.origin()
    }

    /// How many instances the source lists, those that are not used included.
    pub fn known(&self) -> usize {
        self.known as usize
    }

    /// Why there is nothing to choose, if there is nothing.
    pub fn reason(&self) -> Option<Reason> {
        self.root.is_none().then_some(self.reason)
    }

    /// How many instances a request without any group is spread over.
    pub fn len(&self) -> usize {
        self.root.as_ref().map_or(0, |root| root.view.states().len())
    }

    /// Whether there is nothing to choose.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The instances that a request without any group is spread over, in the order of first sight.
    pub fn instances(&self) -> impl ExactSizeIterator<Item = &Arc<InstanceState>> {
        self.root.as_ref().map_or(&[][..], |root| root.view.states()).iter()
    }

    /// Every instance that some request may get: groups and other zones included.
    pub fn all_instances(&self) -> impl ExactSizeIterator<Item = &Arc<InstanceState>> {
        self.base.as_ref().map_or(&[][..], |base| base.states()).iter()
    }

    /// Every instance of the list that the stages left, those too that get no traffic now, because they are out of use; and
    /// whether the list has it for usable, whatever its calls showed.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&Arc<InstanceState>, bool)> {
        let divided = self.spread.members();
        let whole =
            if divided.is_some() { None } else { Some(self.all_instances().map(|state| (state, true))) };
        divided.into_iter().flatten().chain(whole.into_iter().flatten())
    }

    /// The weights of [`instances`](Self::instances); `None` when weights are off or all alike.
    pub fn weights(&self) -> Option<&[Weight]> {
        self.root.as_ref()?.view.weights.as_deref()
    }
}

/// The view that `stages` name for a request, which has no more than `seen`.
#[allow(clippy::inline_always)] // as `Snapshot::narrowed`
#[inline(always)]
fn narrowed<'a>(
    root: &'a Node,
    stages: &'a [Arc<dyn RequestStage>],
    request: &Request<'_>,
    seen: Seen,
) -> Result<Wanted<'a>, Refused<'a>> {
    let mut node = root;
    let mut first = None;
    for stage in stages {
        let Some(branch) = node.next.as_deref() else { break };
        let asked = branch.reads.concern(seen);
        if let (false, Selection::All, Some(all)) = (asked, branch.idle, &branch.all) {
            node = all;
            continue;
        }
        let selection = if asked { stage.select(request, &branch.groups) } else { branch.idle };
        node = match selection {
            Selection::Group(group) => match branch.nodes.get(group.0 as usize).or(branch.all.as_ref()) {
                Some(node) => {
                    // Whom a stage before this one wanted may not be in the group.
                    first = None;
                    node
                }
                // A group of another list.
                None => break,
            },
            Selection::All | Selection::Instance(_) => {
                if let Selection::Instance(instance) = selection {
                    first = first.or(branch.states.get(instance.0 as usize));
                }
                match &branch.all {
                    Some(node) => node,
                    None => break,
                }
            }
            Selection::Nothing => return Err(Refused { stage: &**stage, groups: &branch.groups }),
        };
    }
    Ok(Wanted { view: &node.view, first })
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("version", &self.version)
            .field("origin", &self.origin())
            .field("known", &self.known)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
