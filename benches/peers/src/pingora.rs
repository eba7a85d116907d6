//! `pingora-load-balancing`: a static list, no health check.

use std::hint::black_box;

use pingora_load_balancing::LoadBalancer;
use pingora_load_balancing::selection::{BackendIter, BackendSelection, Consistent, Random, RoundRobin};

/// What its own examples pass for the bound of the search.
const MAX_ITERATIONS: usize = 256;

pub fn round_robin(n: usize) -> impl FnMut(usize) {
    let balancer = balancer::<RoundRobin>(n);
    move |count| select(&balancer, count, |_| b"")
}

pub fn random(n: usize) -> impl FnMut(usize) {
    let balancer = balancer::<Random>(n);
    move |count| select(&balancer, count, |_| b"")
}

/// With 256 keys in turn.
pub fn ketama(n: usize) -> impl FnMut(usize) {
    let balancer = balancer::<Consistent>(n);
    let keys: Vec<[u8; 1]> = (0..=u8::MAX).map(|key| [key]).collect();
    move |count| select(&balancer, count, |turn| &keys[turn % keys.len()])
}

fn balancer<S>(n: usize) -> LoadBalancer<S>
where
    S: BackendSelection + 'static,
    S::Iter: BackendIter,
{
    let addresses = (0..n).map(|at| format!("10.{}.{}.{}:8080", at / 62_500, at / 250 % 250, at % 250 + 1));
    LoadBalancer::try_from_iter(addresses).expect("valid addresses")
}

fn select<'a, S>(balancer: &LoadBalancer<S>, count: usize, key: impl Fn(usize) -> &'a [u8])
where
    S: BackendSelection + 'static,
    S::Iter: BackendIter,
{
    for turn in 0..count {
        let backend = balancer.select(black_box(key(turn)), MAX_ITERATIONS);
        black_box(&backend);
    }
}
