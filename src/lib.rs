//! Client-side, reactive load balancing for async Rust.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod alarm;
mod balancer;
pub mod call;
mod choice;
pub mod client;
pub mod config;
pub mod discovery;
#[cfg(feature = "file")]
mod files;
mod future;
mod instance;
#[cfg(all(test, evenkeel_loom))]
mod loom;
pub mod policy;
mod random;
mod request;
mod state;
pub mod supplier;
mod sync;

/// Re-exported, since [`DiscoveryClient`](discovery::DiscoveryClient) is implemented with it.
pub use async_trait::async_trait;
pub use balancer::{
    ChooseError, ChooseErrorKind, ChooseExt, Choosing, LoadBalancer, LoadBalancerBuilder, LoadBalancers,
    LoadBalancersBuilder, NotReady, ReactiveLoadBalancer, ServiceBuilder, Snapshot,
};
pub use choice::{Choice, Failure, Outcome, Track, TrackedBody};
pub use future::BoxFuture;
pub use instance::{
    InvalidInstance, InvalidServiceId, InvalidStatus, InvalidWeight, Metadata, ServiceId, ServiceInstance,
    ServiceInstanceBuilder, Status, Target, TargetError, Weight,
};
pub use request::{HttpView, Request, RequestView, Tried};
pub use state::InstanceState;
pub use supplier::{BuildError, Origin, Reason, ServiceInstanceListSupplier, Supplier, SupplierBuilder};
