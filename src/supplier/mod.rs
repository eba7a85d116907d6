//! Lists of instances, and the chain that shapes them: [`ServiceInstanceListSupplier`] and [`SupplierBuilder`].
//!
//! Two planes meet here. **List stages** ([`ListStage`]) see lists only and run once per change, in the order of their
//! [`Rank`]; **request stages** ([`RequestStage`]) see a request and name a group of the current list. A list that was
//! narrowed by a request can therefore never get into anything that is shared, and the order of builder calls cannot make
//! a chain wrong.

mod builder;
mod chain;
mod chained;
mod distribution;
pub(crate) mod driver;
mod groups;
mod health;
mod identity;
mod part;
mod properties;
mod reads;
mod request_stage;
mod source;
mod stage;
mod stages;
mod stream;
mod trace;

use std::fmt;

pub use builder::SupplierBuilder;
pub use chain::Reason;
pub(crate) use chain::{Chain, Usable};
pub use chained::{BuildError, Supplier};
pub(crate) use distribution::{Allotted, Candidate, Standing};
pub use distribution::{DistributionReport, OwnFleet, PriorityReport, ZoneOff, ZoneShare, ZoneUse};
pub use driver::Origin;
pub use groups::{GroupId, GroupIndex, Groups, InstanceId};
pub use health::HealthStage;
pub use reads::Reads;
pub use request_stage::{RequestStage, Selection};
pub use source::{DiscoverySupplier, FixedSupplier, NoopSupplier};
pub(crate) use stage::Chained;
pub use stage::{Hub, ListStage, Memory, Rank, StageCx};
pub use stages::{
    ApiVersion, Duplicates, HintStage, MetadataRoute, SameInstance, Source, StatusStage, StickySession,
    Subset, WeightFn, WeightsStage, ZonePreference,
};

pub(crate) use trace::Step;

use crate::discovery::Lists;
use crate::{BoxFuture, ServiceId};

/// A source of complete lists for one service, as a stream.
///
/// How the stream ends says what it is:
///
/// - it **ends after its item** (or items): a source that is *asked*; it is asked again on demand, when the list is older
///   than its TTL and a caller is there. It must end at once after its last item.
/// - it **does not end**: a source that *pushes*; each item replaces the list at once, and the list counts as confirmed as
///   long as the stream is open. If it ends or errs later, the list ages and the stream is asked for again with back-off.
/// - it **ends without an item, or errs**: no answer. The list stays as it is.
///
/// ```
/// use evenkeel::discovery::Lists;
/// use evenkeel::supplier::ServiceInstanceListSupplier;
/// use evenkeel::{ServiceId, ServiceInstance};
/// use futures_util::stream;
///
/// #[derive(Debug)]
/// struct OnePort(ServiceId);
///
/// impl ServiceInstanceListSupplier for OnePort {
///     fn service_id(&self) -> &ServiceId {
///         &self.0
///     }
///     fn get(&self) -> Lists {
///         let list = ServiceInstance::new("127.0.0.1", 8080).into_iter().collect();
///         Box::pin(stream::iter([Ok(list)]))
///     }
/// }
/// ```
pub trait ServiceInstanceListSupplier: Send + Sync + fmt::Debug + 'static {
    /// The service whose instances these are.
    fn service_id(&self) -> &ServiceId;
    /// A new stream. Cheap; nothing happens before it is polled.
    fn get(&self) -> Lists;

    /// A call to an instance could not be sent: look again now, if an open stream would notice only later. Asked for at
    /// most once a second; what comes of it arrives on the stream.
    fn poke(&self) -> Option<BoxFuture<'static, ()>> {
        None
    }
}
