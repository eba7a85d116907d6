use std::any::Any;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Chain;
use super::distribution::Standing;
use super::identity::ByIdentity;
use crate::state::ChangeKind;
use crate::{ServiceId, ServiceInstance};

/// Where a list stage stands in the chain. The order of builder calls does not count.
///
/// Everything up to [`Filter`](Self::Filter) runs once on the whole list; then the groups that request stages name are
/// formed; [`Zone`](Self::Zone) and what follows runs inside each group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Rank {
    /// One entry per identity.
    Duplicates,
    /// What the registry says of an instance.
    Status,
    /// What probes say of it.
    Health,
    /// A stage of one's own before the groups; lower numbers first.
    Filter(u16),
    /// The own zone first.
    Zone,
    /// A part of the list for this client.
    Subset,
    /// A stage of one's own after the others; lower numbers first.
    Custom(u16),
}

impl Rank {
    pub(crate) fn is_inside_groups(self) -> bool {
        self > Self::Filter(u16::MAX)
    }
}

/// A rule that turns a list into another: **pure** (the same list gives the same list) and **total** (any list, also an
/// empty one). It runs once per change, never per request, and never sees a request.
///
/// ```
/// use evenkeel::ServiceInstance;
/// use evenkeel::supplier::{ListStage, Rank, StageCx};
///
/// /// Only what runs our current protocol.
/// #[derive(Debug)]
/// struct Protocol(&'static str);
///
/// impl ListStage for Protocol {
///     fn name(&self) -> &str {
///         "protocol"
///     }
///     fn rank(&self) -> Rank {
///         Rank::Filter(0)
///     }
///     fn apply(&self, list: &mut Vec<ServiceInstance>, _: &StageCx<'_>) {
///         list.retain(|instance| instance.metadata().get("protocol") == Some(self.0));
///     }
/// }
/// ```
pub trait ListStage: Send + Sync + fmt::Debug + 'static {
    /// What errors and reports call it.
    fn name(&self) -> &str;
    /// Where it stands.
    fn rank(&self) -> Rank;
    /// Changes the list.
    fn apply(&self, list: &mut Vec<ServiceInstance>, cx: &StageCx<'_>);

    /// Called once, before the first list: a stage with events of its own (a probe's verdict, a changed setting) keeps the
    /// hub and asks it to run the chain again on the newest list.
    fn attach(&self, hub: &Hub) {
        let _ = hub;
    }

    /// Why it leaves out `instance`, for a report; nothing by default, and then the name of the stage has to do. It is asked
    /// for instances that [`apply`](Self::apply) left out of this list.
    fn why_left_out(&self, instance: &ServiceInstance, cx: &StageCx<'_>) -> Option<String> {
        let _ = (instance, cx);
        None
    }

    /// What the stage knows that its list does not say, for the one that takes its place when properties change.
    fn memory(&self) -> Option<Memory> {
        None
    }

    /// Takes over what the stage of the same name and rank knew before properties changed.
    fn inherit(&self, memory: Memory) {
        let _ = memory;
    }

    /// Called when somebody chooses again after the stage had gone to rest ([`Hub::wake_me`]).
    fn wake(&self) {}

    /// Called when the balancer is closed: what the stage started ends now, and is not started again.
    fn close(&self) {}
}

/// What one stage hands to the next ([`ListStage::memory`]); both know the type.
pub type Memory = Arc<dyn Any + Send + Sync>;

/// The way from a stage back to its chain.
#[derive(Clone)]
pub struct Hub(Weak<dyn Chained>);

pub(crate) trait Chained: Send + Sync {
    fn recompute(&self);
    fn idle_for(&self) -> Duration;
    fn wake_me(&self);
    fn note(&self, kind: ChangeKind, instance: Option<&ServiceInstance>, detail: Cow<'static, str>);
}

impl Hub {
    pub(crate) fn new(chained: Weak<dyn Chained>) -> Self {
        Self(chained)
    }

    /// Runs the stages again on the newest list; may be called from anywhere, also from a stage.
    pub fn recompute(&self) {
        if let Some(chained) = self.0.upgrade() {
            chained.recompute();
        }
    }

    /// Has the stages of the chain woken ([`ListStage::wake`]) by the next caller.
    pub fn wake_me(&self) {
        if let Some(chained) = self.0.upgrade() {
            chained.wake_me();
        }
    }

    /// Has a change noted, for who asks the balancer what happened.
    pub(crate) fn note(
        &self,
        kind: ChangeKind,
        instance: Option<&ServiceInstance>,
        detail: impl Into<Cow<'static, str>>,
    ) {
        if let Some(chained) = self.0.upgrade() {
            chained.note(kind, instance, detail.into());
        }
    }

    /// How long nobody has asked for an instance, as far as that is known: somebody who asks later is seen at the next
    /// call. `None` when the chain is gone.
    pub fn idle_for(&self) -> Option<Duration> {
        self.0.upgrade().map(|chained| chained.idle_for())
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("alive", &(self.0.strong_count() > 0)).finish()
    }
}

/// What a list stage may know beside the list.
#[derive(Debug)]
pub struct StageCx<'a> {
    service: &'a ServiceId,
    group: Option<&'a str>,
    why: RefCell<Option<String>>,
    /// The chain, for the stages before the groups.
    chain: Option<&'a Chain>,
    rehearsal: bool,
    open: Cell<bool>,
    off: RefCell<Option<String>>,
    marks: Option<Marks>,
}

/// How the instances stand that would else be left out, where the traffic is divided by it.
#[derive(Debug)]
struct Marks {
    of: RefCell<HashMap<ByIdentity, Standing>>,
    panics: bool,
}

impl<'a> StageCx<'a> {
    pub(crate) fn new(service: &'a ServiceId, group: Option<&'a str>) -> Self {
        let (why, open, off) = (RefCell::new(None), Cell::new(false), RefCell::new(None));
        Self { service, group, why, chain: None, rehearsal: false, open, off, marks: None }
    }

    pub(crate) fn inside(self, chain: &'a Chain) -> Self {
        Self { chain: Some(chain), ..self }
    }

    /// Who is degraded or fails its health check stays in the list, and is [marked](Self::mark); with `panics` also when
    /// nobody passes.
    pub(crate) fn marking(self, panics: bool) -> Self {
        Self { marks: Some(Marks { of: RefCell::default(), panics }), ..self }
    }

    pub(crate) fn is_marking(&self) -> bool {
        self.marks.is_some()
    }

    pub(crate) fn panics(&self) -> bool {
        self.marks.as_ref().is_some_and(|marks| marks.panics)
    }

    /// A later mark counts for more: who is degraded and fails its check, fails.
    pub(crate) fn mark(&self, instance: &ServiceInstance, standing: Standing) {
        if let Some(marks) = &self.marks {
            marks.of.borrow_mut().insert(ByIdentity(instance.clone()), standing);
        }
    }

    pub(crate) fn standing(&self, instance: &ServiceInstance) -> Standing {
        let marks = self.marks.as_ref().map(|marks| marks.of.borrow());
        let marked = marks.filter(|marks| !marks.is_empty());
        marked.and_then(|marks| marks.get(&ByIdentity(instance.clone())).copied()).unwrap_or_default()
    }

    /// Nobody gets the list: it is only asked what a stage would leave.
    pub(crate) fn rehearsing(self) -> Self {
        Self { rehearsal: true, ..self }
    }

    /// Whether nobody gets the list: a report asks what the stage would leave. A stage with effects of its own (a log, a
    /// task, a memory) has none of them then.
    pub fn is_rehearsal(&self) -> bool {
        self.rehearsal
    }

    /// The part of `list` that requests of this client can get if the stages of the chain that follow see it: their
    /// subset of the whole list, and of each group. For a stage before the groups whose work is per instance, as probing
    /// is. `None` when there is no subset, and inside groups.
    pub fn part_of_client(&self, list: &[ServiceInstance]) -> Option<Vec<ServiceInstance>> {
        self.chain?.part(list, self.service)
    }

    /// Says why a stage leaves nothing of a list; it stands in the error of a caller.
    pub fn explain(&self, why: impl Into<String>) {
        *self.why.borrow_mut() = Some(why.into());
    }

    /// Says why the stage does nothing with this list although it is on: for a report.
    pub fn switched_off(&self, why: impl Into<String>) {
        *self.off.borrow_mut() = Some(why.into());
    }

    pub(crate) fn off(&self) -> Option<String> {
        self.off.borrow_mut().take()
    }

    /// A stage would leave none, and therefore leaves all.
    pub(crate) fn fail_open(&self) {
        self.open.set(true);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.get()
    }

    pub(crate) fn why(&self) -> Option<String> {
        self.why.borrow_mut().take()
    }

    /// The service.
    pub fn service(&self) -> &'a ServiceId {
        self.service
    }

    /// The group inside which the stage runs; `None` for the whole list.
    pub fn group(&self) -> Option<&'a str> {
        self.group
    }
}
