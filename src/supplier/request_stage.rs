use std::fmt;

use super::{GroupId, GroupIndex, Groups, InstanceId, Reads, Reason};
use crate::{Request, ServiceInstance};

/// A rule by which a request narrows the list: it names one of the groups that the current list has.
///
/// Groups are formed from the instances when the list changes, so a value that no instance has costs one look-up, and a
/// hostile one fills nothing. With several stages, each sees the groups that are left inside the choice of those before.
///
/// ```
/// use evenkeel::supplier::{Groups, Reads, RequestStage, Selection};
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
///     fn reads(&self) -> Reads {
///         Reads::nothing().with_header("x-tenant")
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

    /// What of a request [`select`](Self::select) looks at; [`Reads::anything`] by default. A stage that says it is not asked
    /// about a request that has nothing of it: what it says of the empty request, asked once when the list changes, counts.
    fn reads(&self) -> Reads {
        Reads::anything()
    }

    /// What [`select`](Self::select) would say after so many more picks of this request, for a report; by default what it
    /// says now. A stage whose `select` changes something (it draws by chance) says it here without that.
    fn rehearse(&self, request: &Request<'_>, groups: &Groups, picks: u32) -> Selection {
        let _ = picks;
        self.select(request, groups)
    }

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
