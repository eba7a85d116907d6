//! Client-side, reactive load balancing for async Rust.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod discovery;
mod instance;

/// Re-exported, since [`DiscoveryClient`](discovery::DiscoveryClient) is implemented with it.
pub use async_trait::async_trait;
pub use instance::{
    InvalidInstance, InvalidServiceId, InvalidStatus, InvalidWeight, Metadata, ServiceId, ServiceInstance,
    ServiceInstanceBuilder, Status, Target, TargetError, Weight,
};
