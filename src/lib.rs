//! Client-side, reactive load balancing for async Rust.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod alarm;
mod balancer;
mod choice;
pub mod config;
pub mod discovery;
#[cfg(feature = "file")]
mod files;
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
    BoxFuture, ChooseError, ChooseErrorKind, ChooseExt, Choosing, LoadBalancer, LoadBalancerBuilder,
    ReactiveLoadBalancer, Snapshot,
};
pub use choice::{Choice, Failure, Outcome, Track, TrackedBody};
pub use instance::{
    InvalidInstance, InvalidServiceId, InvalidStatus, InvalidWeight, Metadata, ServiceId, ServiceInstance,
    ServiceInstanceBuilder, Status, Target, TargetError, Weight,
};
pub use request::{HttpView, Request, RequestView, Tried};
pub use state::InstanceState;
pub use supplier::{BuildError, Origin, Reason, ServiceInstanceListSupplier, Supplier, SupplierBuilder};
