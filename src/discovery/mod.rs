//! Where instances come from: [`DiscoveryClient`] and its sources.
//!
//! A source tells three things apart, and so must yours: a **list** (`Ok` with instances), a **true empty answer** (`Ok`
//! with none: the registry knows the service and nobody is there, or does not know it), and **no answer** (`Err`:
//! unreachable, refused, cut short, unreadable). No answer never changes the set of instances.

mod blocking;
mod composite;
mod dns;
mod entry;
mod error;
#[cfg(feature = "file")]
pub(crate) mod file;
mod health;
mod jitter;
mod simple;

use std::fmt;
use std::pin::Pin;

use async_trait::async_trait;
use futures_core::Stream;

use crate::{ServiceId, ServiceInstance};

pub use blocking::{Blocking, BlockingDiscoveryClient};
pub use composite::CompositeDiscovery;
pub use dns::{DnsDiscovery, InvalidTemplate, Resolve, SystemResolver};
pub use entry::SimpleEntry;
pub use error::{SupplyError, SupplyErrorKind};
#[cfg(feature = "file")]
pub use file::{FileDiscovery, FileFormat};
pub use health::{HealthRecord, SourceHealth, SourceState};
pub use simple::SimpleDiscovery;

/// A stream of **complete** lists; an `Err` is a failure of the source and changes nothing. The stream may go on after it:
/// those of this crate do, and a list that comes then says that the source is well again.
pub type Lists = Pin<Box<dyn Stream<Item = Result<Vec<ServiceInstance>, SupplyError>> + Send>>;

/// A registry that is asked for the instances of a service.
///
/// Async only: a client that blocks a thread must be wrapped, so that it cannot hold up the callers of other services.
/// Look-ups of one service do not overlap; those of different services do.
///
/// ```
/// use evenkeel::discovery::{DiscoveryClient, SupplyError};
/// use evenkeel::{ServiceId, ServiceInstance, async_trait};
///
/// #[derive(Debug)]
/// struct Localhost;
///
/// #[async_trait]
/// impl DiscoveryClient for Localhost {
///     fn name(&self) -> &str {
///         "localhost"
///     }
///     async fn instances(&self, _: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError> {
///         Ok(ServiceInstance::new("127.0.0.1", 8080).into_iter().collect())
///     }
///     async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
///         Ok(vec![])
///     }
/// }
/// ```
#[async_trait]
pub trait DiscoveryClient: Send + Sync + fmt::Debug + 'static {
    /// What errors and logs call this source ("consul", "file ./registry.yml").
    fn name(&self) -> &str;

    /// All instances of `service`, in any order; one bad entry is left out with a warning and spoils nothing.
    ///
    /// # Errors
    /// [`SupplyError`] for **no answer**. A service without instances, or one that the registry does not know, is an
    /// empty list.
    async fn instances(&self, service: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError>;

    /// A stream of complete lists, the first one soon, each change at once; `None` (the default) when this source can
    /// only be asked. It should be endless; one that ends or errs is subscribed again with back-off.
    fn watch(&self, service: &ServiceId) -> Option<Lists> {
        let _ = service;
        None
    }

    /// The names of all services that the registry lists.
    ///
    /// # Errors
    /// [`SupplyError`] for no answer.
    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError>;

    /// How the source is doing; [`SourceState::Unknown`] by default.
    fn health(&self) -> SourceHealth {
        SourceHealth::default()
    }
}
