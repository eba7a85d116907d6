//! What the benches share: lists, the floor, ways to time, and the table of bars.
//!
//! **Floor** = a shared counter (`fetch_add`), an index and the clone and drop of an `Arc`, over a list of the same size:
//! the least that a rotation over shared instances can cost. Everything is told as a multiple of it, measured next to it
//! in the same minute, since plain times say more of the machine and its neighbours than of the code.
#![allow(dead_code)] // each bench takes its part

pub mod bars;
pub mod counting;
pub mod floor;
pub mod lists;
pub mod publisher;
pub mod recorder;
pub mod subjects;
pub mod timing;
pub mod zero;

use evenkeel::policy::Policy;
use evenkeel::supplier::FixedSupplier;
use evenkeel::{LoadBalancer, ServiceInstance, SupplierBuilder};
use tokio::runtime::Runtime;

/// The service of every bench.
pub const SERVICE: &str = "orders";

/// The sizes of lists at which picks are timed.
pub const SIZES: [usize; 3] = [10, 1_000, 10_000];

/// A runtime with a worker of its own: on one with a single thread a balancer also watches the clock itself.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// A chain over a list that stays, before its stages.
pub fn chain(list: Vec<ServiceInstance>) -> SupplierBuilder {
    let service = SERVICE.parse().expect("a service id");
    SupplierBuilder::new(SERVICE).with_base(FixedSupplier::new(service, list))
}

/// A balancer that has its list.
pub fn warm(runtime: &Runtime, chain: SupplierBuilder, policy: impl Policy) -> LoadBalancer {
    let supplier = chain.build().expect("a chain that works");
    let balancer = LoadBalancer::builder(supplier).policy(policy).build();
    runtime.block_on(balancer.ready()).expect("a fixed list is at hand");
    balancer
}
