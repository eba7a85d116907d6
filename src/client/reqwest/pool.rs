use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::reqwest::{Proxy, Url};
use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::redirect;
use crate::balancer::Owner;
use crate::{InstanceState, LoadBalancer, LoadBalancers, ServiceId, ServiceInstance};

type Make = dyn Fn(&ServiceInstance) -> ::reqwest::ClientBuilder + Send + Sync;

/// A client per instance, in step with the list.
pub(super) struct Pools {
    make: Arc<Make>,
    services: ArcSwap<HashMap<ServiceId, Arc<Pool>>>,
}

/// The clients of one balancer, by the number of the instance, which means nothing to another balancer.
struct Pool {
    owner: Owner,
    /// The version of the list that the clients were last held against.
    version: AtomicU64,
    /// The generation of the properties that `connect_timeout` is of.
    generation: AtomicU64,
    connect_timeout: Mutex<Duration>,
    clients: ArcSwap<HashMap<u64, ::reqwest::Client>>,
}

impl Pools {
    pub(super) fn new(make: Arc<Make>) -> Self {
        Self { make, services: ArcSwap::default() }
    }

    /// The client of an instance; made at its first call.
    pub(super) fn client(
        &self,
        balancers: &LoadBalancers,
        balancer: &LoadBalancer,
        state: &InstanceState,
        instance: &ServiceInstance,
    ) -> Result<::reqwest::Client, ::reqwest::Error> {
        let pool = match self.services.load().get(balancer.service_id()) {
            Some(pool) if balancer.owns(&pool.owner) => Arc::clone(pool),
            _ => self.add(balancers, balancer),
        };
        pool.keep_in_step(balancers, balancer);
        if let Some(client) = pool.clients.load().get(&state.uid()) {
            return Ok(client.clone());
        }
        let limit = *pool.connect_timeout.lock();
        // A proxy after those of `make`: with it the ones of the environment are not asked, and it never wants a call.
        let direct = Proxy::custom(|_| None::<Url>);
        let client = redirect::noted((self.make)(instance)).connect_timeout(limit).proxy(direct).build()?;
        let mut kept = client.clone();
        pool.clients.rcu(|clients| {
            let mut next = (**clients).clone();
            // Another call may have been faster: its pool has the connections.
            kept = next.entry(state.uid()).or_insert_with(|| client.clone()).clone();
            next
        });
        Ok(kept)
    }

    /// A pool for a balancer that has none; pools whose balancers are gone go too.
    #[cold]
    fn add(&self, balancers: &LoadBalancers, balancer: &LoadBalancer) -> Arc<Pool> {
        let service = balancer.service_id();
        let made = Arc::new(Pool {
            owner: balancer.owner(),
            version: AtomicU64::new(0),
            generation: AtomicU64::new(balancers.generation()),
            connect_timeout: Mutex::new(balancers.properties(service).connect_timeout),
            clients: ArcSwap::default(),
        });
        let mut pool = Arc::clone(&made);
        self.services.rcu(|services| {
            let alive = services.iter().filter(|(_, pool)| pool.owner.strong_count() > 0);
            let mut next: HashMap<_, _> = alive.map(|(id, pool)| (id.clone(), Arc::clone(pool))).collect();
            pool = match next.get(service) {
                Some(there) if balancer.owns(&there.owner) => Arc::clone(there),
                _ => Arc::clone(&made),
            };
            next.insert(service.clone(), Arc::clone(&pool));
            next
        });
        pool
    }
}

impl Pool {
    /// Lets go of the clients of instances that left, and of all when the connect time-out changed: their idle
    /// connections close, calls in flight go on.
    fn keep_in_step(&self, balancers: &LoadBalancers, balancer: &LoadBalancer) {
        let generation = balancers.generation();
        if self.generation.swap(generation, Ordering::Relaxed) != generation {
            let limit = balancers.properties(balancer.service_id()).connect_timeout;
            if std::mem::replace(&mut *self.connect_timeout.lock(), limit) != limit {
                self.clients.store(Arc::default());
            }
        }
        let Some(list) = balancer.snapshot() else { return };
        if self.version.swap(list.version(), Ordering::Relaxed) == list.version() {
            return;
        }
        let listed: HashSet<u64> = list.members().map(|(state, _)| state.uid()).collect();
        self.clients.rcu(|clients| {
            let kept = clients.iter().filter(|(uid, _)| listed.contains(uid));
            kept.map(|(uid, client)| (*uid, client.clone())).collect::<HashMap<_, _>>()
        });
    }
}
