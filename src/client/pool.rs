//! What a client keeps per instance, in step with the list.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::balancer::Owner;
use crate::numbers::ByNumber;
use crate::{InstanceState, LoadBalancer, LoadBalancers};

/// A client per instance of many services.
pub(crate) struct Pools<C> {
    /// By the numbers of their balancers.
    services: ArcSwap<ByNumber<Arc<Service<C>>>>,
}

/// The clients of one service, and the connect time-out that they were made with.
struct Service<C> {
    pool: Pool<C>,
    /// The generation of the properties that `connect_timeout` is of.
    generation: AtomicU64,
    connect_timeout: Mutex<Duration>,
}

/// A client per instance of one balancer, by the number of the instance, which means nothing to another balancer.
pub(crate) struct Pool<C> {
    owner: Owner,
    /// The version of the list that the clients were last held against.
    version: AtomicU64,
    clients: ArcSwap<ByNumber<C>>,
}

impl<C> Default for Pools<C> {
    fn default() -> Self {
        Self { services: ArcSwap::default() }
    }
}

impl<C: Clone> Pools<C> {
    /// The client of an instance. It is made at the first call, and again when the connect time-out changed, which `make`
    /// gets.
    pub(crate) fn client<E>(
        &self,
        balancers: &LoadBalancers,
        balancer: &LoadBalancer,
        state: &InstanceState,
        make: impl FnOnce(Duration) -> Result<C, E>,
    ) -> Result<C, E> {
        if let Some(service) = self.services.load().get(&balancer.number()) {
            return service.client(balancers, balancer, state, make);
        }
        self.add(balancers, balancer).client(balancers, balancer, state, make)
    }

    /// Lets go of the clients of instances that left the list of this balancer.
    #[cfg(feature = "tonic014")]
    pub(crate) fn keep_in_step(&self, balancer: &LoadBalancer) {
        if let Some(service) = self.services.load().get(&balancer.number()) {
            service.pool.keep_in_step(balancer);
        }
    }

    /// A pool for a balancer that has none; pools whose balancers are gone go too.
    #[cold]
    fn add(&self, balancers: &LoadBalancers, balancer: &LoadBalancer) -> Arc<Service<C>> {
        let id = balancer.service_id();
        let made = Arc::new(Service {
            pool: Pool::new(balancer),
            generation: AtomicU64::new(balancers.generation()),
            connect_timeout: Mutex::new(balancers.properties(id).connect_timeout),
        });
        let mut service = Arc::clone(&made);
        self.services.rcu(|services| {
            let alive = services.iter().filter(|(_, service)| service.pool.owner.strong_count() > 0);
            let mut next: ByNumber<_> =
                alive.map(|(number, service)| (*number, Arc::clone(service))).collect();
            service = Arc::clone(next.entry(balancer.number()).or_insert_with(|| Arc::clone(&made)));
            next
        });
        service
    }
}

impl<C: Clone> Service<C> {
    fn client<E>(
        &self,
        balancers: &LoadBalancers,
        balancer: &LoadBalancer,
        state: &InstanceState,
        make: impl FnOnce(Duration) -> Result<C, E>,
    ) -> Result<C, E> {
        self.keep_in_step(balancers, balancer);
        self.pool.client(balancer, state, || make(*self.connect_timeout.lock()))
    }

    /// Lets go of all clients when the connect time-out changed.
    fn keep_in_step(&self, balancers: &LoadBalancers, balancer: &LoadBalancer) {
        let generation = balancers.generation();
        if is_news(&self.generation, generation) {
            let limit = balancers.properties(balancer.service_id()).connect_timeout;
            if std::mem::replace(&mut *self.connect_timeout.lock(), limit) != limit {
                self.pool.clients.store(Arc::default());
            }
        }
    }
}

impl<C: Clone> Pool<C> {
    pub(crate) fn new(balancer: &LoadBalancer) -> Self {
        Self { owner: balancer.owner(), version: AtomicU64::new(0), clients: ArcSwap::default() }
    }

    /// The client of an instance; made at its first call. Those of instances that left the list are let go: their idle
    /// connections close, calls in flight, which have clones, go on.
    pub(crate) fn client<E>(
        &self,
        balancer: &LoadBalancer,
        state: &InstanceState,
        make: impl FnOnce() -> Result<C, E>,
    ) -> Result<C, E> {
        self.keep_in_step(balancer);
        if let Some(client) = self.clients.load().get(&state.uid()) {
            return Ok(client.clone());
        }
        let client = make()?;
        let mut kept = client.clone();
        self.clients.rcu(|clients| {
            let mut next = (**clients).clone();
            // Another call may have been faster: its pool has the connections.
            kept = next.entry(state.uid()).or_insert_with(|| client.clone()).clone();
            next
        });
        Ok(kept)
    }

    /// Lets go of the client of an instance, which is of no more use; the next call makes another one.
    #[cfg(feature = "tower")]
    pub(crate) fn forget(&self, state: &InstanceState) {
        self.clients.rcu(|clients| {
            let mut next = (**clients).clone();
            next.remove(&state.uid());
            next
        });
    }

    pub(crate) fn keep_in_step(&self, balancer: &LoadBalancer) {
        // Before the list is looked at: it may be newer, and is looked at again then.
        if !is_news(&self.version, balancer.list_version()) {
            return;
        }
        let Some(list) = balancer.snapshot() else { return };
        let listed: HashSet<u64> = list.members().map(|(state, _)| state.uid()).collect();
        self.clients.rcu(|clients| {
            let kept = clients.iter().filter(|(uid, _)| listed.contains(uid));
            kept.map(|(uid, client)| (*uid, client.clone())).collect::<ByNumber<_>>()
        });
    }
}

/// Whether `kept` was another number; one thread only is told. Nothing is written where nothing is new, since all calls look
/// here.
pub(crate) fn is_news(kept: &AtomicU64, now: u64) -> bool {
    kept.load(Ordering::Relaxed) != now && kept.swap(now, Ordering::Relaxed) != now
}
