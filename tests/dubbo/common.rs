//! What the cases share: providers `a`, `b`, `c` with weights.

use evenkeel::policy::Policy;
use evenkeel::{Choice, LoadBalancer, Request, ServiceInstance, SupplierBuilder};

use crate::support::*;

/// Providers of these weights, called `a`, `b` and so on.
pub fn providers(weights: &[u32]) -> Vec<ServiceInstance> {
    let one = |(id, weight): (u8, &u32)| {
        let id = char::from(id).to_string();
        instance(&id).to_builder().with_metadata("weight", weight.to_string()).build().unwrap()
    };
    (b'a'..).zip(weights).map(one).collect()
}

/// A balancer that honours the weights.
pub fn weighted(weights: &[u32], policy: impl Policy) -> LoadBalancer {
    fixed(providers(weights), SupplierBuilder::with_weights, policy)
}

/// The names of the next picks, each ended at once.
pub async fn order(lb: &LoadBalancer, n: usize) -> String {
    picks(lb, n).await.concat()
}

/// A lease on the instance with this id, however the policy picks. The leases on the way are dropped.
pub async fn lease(lb: &LoadBalancer, id: &str) -> Choice {
    let mut tried = evenkeel::Tried::new();
    loop {
        let choice = lb.choose(&Request::EMPTY.with_tried(&tried)).await.unwrap();
        if choice.instance().id() == id {
            return choice;
        }
        tried.add(&choice);
    }
}

/// So many leases on it.
pub async fn hold(lb: &LoadBalancer, id: &str, n: usize) -> Vec<Choice> {
    let mut all = Vec::new();
    for _ in 0..n {
        all.push(lease(lb, id).await);
    }
    all
}

/// Of `all` picks, this many per thousand went to `id`.
pub fn per_mille(all: &[String], id: &str) -> usize {
    count(all, id) * 1_000 / all.len()
}
