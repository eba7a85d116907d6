//! The balancers of routes that lead to an address.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::client::pool::is_news;
use crate::gateway::routes::Routes;
use crate::gateway::uri::{Address, Upstream};
use crate::{LoadBalancer, LoadBalancers, ServiceId};

/// The balancers of the addresses of a table.
#[derive(Default)]
pub(super) struct Addresses(HashMap<ServiceId, Arc<Known>>);

struct Known {
    balancer: LoadBalancer,
    /// The generation of the properties that it follows.
    generation: AtomicU64,
}

impl Addresses {
    /// Those of these routes. An address that was there before keeps its balancer, with all that is known of it and its
    /// connections.
    pub(super) fn new(routes: &Routes, balancers: &LoadBalancers, before: &Self) -> Self {
        let mut all = HashMap::new();
        for route in routes.all() {
            let Upstream::Address { address, .. } = &route.upstream else { continue };
            all.entry(address.id.clone()).or_insert_with(|| {
                before.0.get(&address.id).cloned().unwrap_or_else(|| {
                    // Before the properties are read: a change in between is followed then.
                    let generation = AtomicU64::new(balancers.generation());
                    let balancer = balancers.of_address(&address.id, address.instance.clone());
                    Arc::new(Known { balancer, generation })
                })
            });
        }
        Self(all)
    }

    /// The balancer of an address, as the properties in force say.
    pub(super) fn balancer(&self, address: &Address, balancers: &LoadBalancers) -> Option<LoadBalancer> {
        let known = self.0.get(&address.id)?;
        let generation = balancers.generation();
        if is_news(&known.generation, generation) {
            balancers.follow(&known.balancer, address.instance.clone());
        }
        Some(known.balancer.clone())
    }
}
