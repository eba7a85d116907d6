use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::{InstanceState, LoadBalancer, ServiceId, ServiceInstance};

type Make = dyn Fn(&ServiceInstance) -> ::reqwest::ClientBuilder + Send + Sync;

/// A client per instance, in step with the list.
pub(super) struct Pools {
    make: Arc<Make>,
    services: ArcSwap<HashMap<ServiceId, Arc<Pool>>>,
}

#[derive(Default)]
struct Pool {
    /// The version of the list that the clients were last held against.
    version: AtomicU64,
    clients: ArcSwap<HashMap<u64, ::reqwest::Client>>,
}

impl Pools {
    pub(super) fn new(make: Arc<Make>) -> Self {
        Self { make, services: ArcSwap::default() }
    }

    /// The client of an instance; made at its first call.
    pub(super) fn client(
        &self,
        balancer: &LoadBalancer,
        state: &InstanceState,
        instance: &ServiceInstance,
        connect_timeout: Duration,
    ) -> Result<::reqwest::Client, ::reqwest::Error> {
        let service = balancer.service_id();
        let pool = match self.services.load().get(service) {
            Some(pool) => Arc::clone(pool),
            None => self.add(service),
        };
        pool.keep_in_step(balancer);
        if let Some(client) = pool.clients.load().get(&state.uid()) {
            return Ok(client.clone());
        }
        let client = (self.make)(instance).connect_timeout(connect_timeout).build()?;
        let mut kept = client.clone();
        pool.clients.rcu(|clients| {
            let mut next = (**clients).clone();
            // Another call may have been faster: its pool has the connections.
            kept = next.entry(state.uid()).or_insert_with(|| client.clone()).clone();
            next
        });
        Ok(kept)
    }

    #[cold]
    fn add(&self, service: &ServiceId) -> Arc<Pool> {
        let mut pool = Arc::default();
        self.services.rcu(|services| {
            let mut next = (**services).clone();
            pool = Arc::clone(next.entry(service.clone()).or_default());
            next
        });
        pool
    }
}

impl Pool {
    /// Lets go of the clients of instances that left: their idle connections close, calls in flight go on.
    fn keep_in_step(&self, balancer: &LoadBalancer) {
        let version = *balancer.changes().borrow();
        if self.version.swap(version, Ordering::Relaxed) == version {
            return;
        }
        let Some(list) = balancer.snapshot() else { return };
        let listed: std::collections::HashSet<u64> = list.all_instances().map(|state| state.uid()).collect();
        self.clients.rcu(|clients| {
            let kept = clients.iter().filter(|(uid, _)| listed.contains(uid));
            kept.map(|(uid, client)| (*uid, client.clone())).collect::<HashMap<_, _>>()
        });
    }
}
