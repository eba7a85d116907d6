use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::Reason;
use crate::{Request, ServiceInstance};

/// A rule by which a request narrows the list: it names one of the groups that the current list has.
///
/// Groups are formed from the instances when the list changes, so a value that no instance has costs one look-up, and a
/// hostile one fills nothing. With several stages, each sees the groups that are left inside the choice of those before.
///
/// ```
/// use evenkeel::supplier::{Groups, RequestStage, Selection};
/// use evenkeel::{Request, ServiceInstance};
///
/// /// Sends a tenant to its own instances, if it has some.
/// #[derive(Debug)]
/// struct Tenant;
///
/// impl RequestStage for Tenant {
///     fn name(&self) -> &str {
///         "tenant"
///     }
///     fn groups(&self, instance: &ServiceInstance, emit: &mut dyn FnMut(&str)) {
///         instance.metadata().get("tenants").into_iter().flat_map(|all| all.split(',')).for_each(emit);
///     }
///     fn select(&self, request: &Request<'_>, groups: &Groups) -> Selection {
///         request.header("x-tenant").and_then(|tenant| groups.find(tenant)).into()
///     }
/// }
/// ```
pub trait RequestStage: Send + Sync + fmt::Debug + 'static {
    /// What errors and reports call it; it is part of the key of a group's rotation.
    fn name(&self) -> &str;

    /// Names every group that `instance` belongs to; runs when the list changes.
    fn groups(&self, instance: &ServiceInstance, emit: &mut dyn FnMut(&str));

    /// The same for a whole list, for a stage whose groups depend on who else is there: `emit` takes the place of an
    /// instance in the list and the name of a group. By default each instance is asked by [`groups`](Self::groups).
    fn groups_of(&self, list: &[&ServiceInstance], emit: &mut dyn FnMut(usize, &str)) {
        for (at, instance) in list.iter().enumerate() {
            self.groups(instance, &mut |name| emit(at, name));
        }
    }

    /// What [`select`](Self::select) wants to have at hand of the groups, made once when the list changes: it finds it in
    /// [`Groups::index`]. None by default.
    fn index(&self, groups: &Groups) -> Option<GroupIndex> {
        let _ = groups;
        None
    }

    /// The name by which [`Groups::instance`] finds `instance`, for a stage that asks for single instances; none by
    /// default. Runs when the list changes. Of instances of one name the one with the lowest address is found.
    fn instance_name(&self, instance: &ServiceInstance) -> Option<String> {
        let _ = instance;
        None
    }

    /// The group for this request. Runs at every pick: no lock, no allocation, no clock.
    fn select(&self, request: &Request<'_>, groups: &Groups) -> Selection;

    /// Why [`select`](Self::select) said [`Selection::Nothing`], for the error of the caller: by default
    /// [`Reason::NoGroup`] without a word of its own.
    fn refusal(&self, request: &Request<'_>, groups: &Groups) -> (Reason, Option<String>) {
        let _ = (request, groups);
        (Reason::NoGroup, None)
    }

    /// Whether a group is a must: then a pick never leaves it, not even when all of it was tried. `false` by default.
    fn is_strict(&self) -> bool {
        false
    }

    /// Whether [`on_pick`](Self::on_pick) is to be called; `false` by default, which keeps it off the path.
    fn wants_picks(&self) -> bool {
        false
    }

    /// Hears what was picked for a request.
    fn on_pick(&self, request: &Request<'_>, instance: &ServiceInstance) {
        let _ = (request, instance);
    }
}

/// What a request stage decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Selection {
    /// The request does not narrow the list, or falls back to all of it.
    All,
    /// One group.
    Group(GroupId),
    /// All instances, but this one first: another is picked only if it is out of use or was tried.
    Instance(InstanceId),
    /// The request must not be sent anywhere: an error with the stage's [`refusal`](RequestStage::refusal).
    Nothing,
}

impl From<Option<GroupId>> for Selection {
    /// A missing group falls back to all instances.
    fn from(group: Option<GroupId>) -> Self {
        group.map_or(Self::All, Self::Group)
    }
}

/// A group of the current list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupId(pub(crate) u32);

/// Up to so many groups are looked through one by one, which is then faster than halving.
const FEW: usize = 8;

/// An instance of the current list, found by [`Groups::instance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceId(pub(crate) u32);

/// What a stage keeps of the groups of one list ([`RequestStage::index`]); only the stage knows the type.
pub type GroupIndex = Box<dyn Any + Send + Sync>;

/// The groups of one stage in the current list, by name, its instances, if it names them, and its index, if it has one.
#[derive(Debug, Default)]
pub struct Groups(Box<[Arc<str>]>, Box<[(Box<str>, u32)]>, Option<GroupIndex>);

impl Groups {
    /// `names` are sorted and differ; so are the names of `instances`, each with a number of its own.
    pub(crate) fn new(names: Box<[Arc<str>]>, instances: Box<[(Box<str>, u32)]>) -> Self {
        Self(names, instances, None)
    }

    /// The same with the stage's index of them.
    pub(crate) fn indexed(mut self, stage: &dyn RequestStage) -> Self {
        self.2 = stage.index(&self);
        self
    }

    /// What the stage made of these groups ([`RequestStage::index`]), if it is of this type.
    #[inline]
    pub fn index<T: 'static>(&self) -> Option<&T> {
        self.2.as_deref()?.downcast_ref()
    }

    /// The instance that the stage calls so ([`RequestStage::instance_name`]); exact, by comparing names.
    #[inline]
    pub fn instance(&self, name: &str) -> Option<InstanceId> {
        let at = self.1.binary_search_by(|(instance, _)| (**instance).cmp(name)).ok()?;
        Some(InstanceId(self.1[at].1))
    }

    /// The group of this name; case counts. It compares names and hashes nothing, so no name is slow on purpose.
    #[inline]
    pub fn find(&self, name: &str) -> Option<GroupId> {
        // Among a few, names of another length are passed over without a look at their text.
        let at = if self.0.len() <= FEW {
            self.0.iter().position(|group| **group == *name)?
        } else {
            self.0.binary_search_by(|group| (**group).cmp(name)).ok()?
        };
        u32::try_from(at).ok().map(GroupId)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (GroupId, &str)> {
        (0_u32..).zip(self.0.iter()).map(|(at, name)| (GroupId(at), &**name))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
