//! The bases of a chain: a discovery client, a fixed list, and none at all.

use std::fmt;
use std::sync::Arc;

use futures_util::stream;

use super::ServiceInstanceListSupplier;
use crate::discovery::{DiscoveryClient, Lists};
use crate::{BoxFuture, ServiceId, ServiceInstance};

/// The lists of one service from a [`DiscoveryClient`]: its watch if it can watch, else one look-up per call.
#[derive(Clone, Debug)]
pub struct DiscoverySupplier {
    client: Arc<dyn DiscoveryClient>,
    service: ServiceId,
}

impl DiscoverySupplier {
    /// The lists of `service` from `client`.
    pub fn new(service: ServiceId, client: Arc<dyn DiscoveryClient>) -> Self {
        Self { client, service }
    }
}

impl ServiceInstanceListSupplier for DiscoverySupplier {
    fn service_id(&self) -> &ServiceId {
        &self.service
    }

    fn get(&self) -> Lists {
        if let Some(lists) = self.client.watch(&self.service) {
            return lists;
        }
        let (client, service) = (Arc::clone(&self.client), self.service.clone());
        Box::pin(stream::once(async move { client.instances(&service).await }))
    }

    fn poke(&self) -> Option<BoxFuture<'static, ()>> {
        let (client, service) = (Arc::clone(&self.client), self.service.clone());
        Some(Box::pin(async move {
            // A source that watches hands the answer to its watchers; an error says nothing.
            let _ = client.instances(&service).await;
        }))
    }
}

/// One list that never changes: Spring's `ServiceInstanceListSuppliers.from`.
///
/// ```
/// use evenkeel::supplier::FixedSupplier;
/// use evenkeel::{ServiceId, ServiceInstance, SupplierBuilder};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let list = [ServiceInstance::new("10.0.0.1", 8080)?];
/// let base = FixedSupplier::new(ServiceId::new("orders")?, list.clone());
/// let supplier = SupplierBuilder::new("orders").with_base(base).build()?;
/// // The same in one word:
/// let supplier = SupplierBuilder::new("orders").with_instances(list).build()?;
/// # Ok(()) }
/// ```
#[doc(alias = "ServiceInstanceListSuppliers")]
#[doc(alias = "StaticSupplier")]
#[derive(Clone)]
pub struct FixedSupplier {
    service: ServiceId,
    list: Arc<[ServiceInstance]>,
}

impl FixedSupplier {
    /// `list` as the instances of `service`.
    pub fn new(service: ServiceId, list: impl IntoIterator<Item = ServiceInstance>) -> Self {
        Self { service, list: list.into_iter().collect() }
    }
}

impl ServiceInstanceListSupplier for FixedSupplier {
    fn service_id(&self) -> &ServiceId {
        &self.service
    }

    fn get(&self) -> Lists {
        Box::pin(stream::iter([Ok(self.list.to_vec())]))
    }
}

impl fmt::Debug for FixedSupplier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FixedSupplier")
            .field("service", &self.service)
            .field("len", &self.list.len())
            .finish()
    }
}

/// No instance, ever: what stands in for a service that is not there, as Spring's `NoopServiceInstanceListSupplier` does.
///
/// A choice is [`Reason::Empty`](crate::Reason::Empty).
///
/// ```
/// use evenkeel::supplier::NoopSupplier;
/// use evenkeel::{ServiceId, SupplierBuilder};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let supplier = SupplierBuilder::new("orders").with_base(NoopSupplier::new(ServiceId::new("orders")?)).build()?;
/// # Ok(()) }
/// ```
#[doc(alias = "NoopServiceInstanceListSupplier")]
#[derive(Clone, Debug)]
pub struct NoopSupplier(ServiceId);

impl NoopSupplier {
    /// The empty list of `service`.
    pub fn new(service: ServiceId) -> Self {
        Self(service)
    }
}

impl ServiceInstanceListSupplier for NoopSupplier {
    fn service_id(&self) -> &ServiceId {
        &self.0
    }

    fn get(&self) -> Lists {
        Box::pin(stream::iter([Ok(Vec::new())]))
    }
}
