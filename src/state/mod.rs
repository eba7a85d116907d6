//! What lives as long as an instance does, not as long as a list: [`InstanceState`].

mod behind;
mod budget;
mod fitness;
mod instance;
mod registry;
mod service;

pub(crate) use fitness::Claim;
#[cfg(all(test, evenkeel_loom))]
pub(crate) use fitness::Fitness;
pub use instance::InstanceState;
pub(crate) use registry::Registry;
pub(crate) use service::{BackOff, ServiceState, Sink};
