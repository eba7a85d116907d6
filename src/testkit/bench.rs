use std::time::Duration;

use crate::balancer::LoadBalancer;
use crate::discovery::SimpleDiscovery;
use crate::policy::Policy;
use crate::supplier::SupplierBuilder;
use crate::{Choice, Outcome, Request, RequestView, ServiceId, ServiceInstance};

/// A balancer with the policy, on a list that a check changes.
pub(super) struct Bench {
    balancer: LoadBalancer,
    discovery: SimpleDiscovery,
    service: ServiceId,
}

/// A key of a request.
pub(super) struct Key(pub(super) String);

impl RequestView for Key {
    fn attribute(&self, name: &str) -> Option<&str> {
        (name == super::Kit::KEY).then_some(&self.0)
    }
}

/// Why a check could not be made.
pub(super) type Trouble = Box<dyn std::error::Error + Send + Sync>;

pub(super) fn instance(id: usize, weight: Option<u32>) -> Result<ServiceInstance, Trouble> {
    let mut instance = ServiceInstance::builder(format!("instance-{id}.test")).port(80).id(id.to_string());
    if let Some(weight) = weight {
        instance = instance.with_metadata("weight", weight.to_string());
    }
    Ok(instance.build()?)
}

pub(super) fn equals(ids: impl IntoIterator<Item = usize>) -> Result<Vec<ServiceInstance>, Trouble> {
    ids.into_iter().map(|id| instance(id, None)).collect()
}

impl Bench {
    pub(super) async fn new(
        policy: impl Policy,
        list: Vec<ServiceInstance>,
        seed: u64,
    ) -> Result<Self, Trouble> {
        let service = ServiceId::new("testkit")?;
        let discovery = SimpleDiscovery::new();
        discovery.set(&service, list);
        let chain = SupplierBuilder::new("testkit").with_discovery_client(discovery.clone()).with_weights();
        let balancer = LoadBalancer::builder(chain.with_seed(seed).build()?).policy(policy).build();
        balancer.ready().await?;
        Ok(Self { balancer, discovery, service })
    }

    /// Publishes another list, and lets everybody hear of it.
    pub(super) async fn list(&self, list: Vec<ServiceInstance>) {
        self.discovery.set(&self.service, list);
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
    }

    pub(super) fn choose(&self, request: &Request<'_>) -> Result<(usize, Choice), Trouble> {
        let choice = self.balancer.try_choose(request)?;
        let id = choice.instance().id().parse()?;
        Ok((id, choice))
    }

    /// A call that works and takes a millisecond, after which the next one begins; who had it.
    pub(super) async fn call(&self) -> Result<usize, Trouble> {
        let (id, choice) = self.choose(&Request::EMPTY)?;
        tokio::time::advance(Duration::from_millis(1)).await;
        choice.complete(Outcome::Success);
        Ok(id)
    }

    /// So many calls, one after the other.
    pub(super) async fn calls(&self, n: usize) -> Result<Vec<usize>, Trouble> {
        let mut all = Vec::with_capacity(n);
        for _ in 0..n {
            all.push(self.call().await?);
        }
        Ok(all)
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.balancer.in_flight()
    }
}

/// How often each of `n` was called.
pub(super) fn counts(calls: &[usize], n: usize) -> Vec<u64> {
    let mut counts = vec![0; n];
    for id in calls {
        if let Some(count) = counts.get_mut(*id) {
            *count += 1;
        }
    }
    counts
}
