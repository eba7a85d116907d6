//! What lives as long as an instance does, not as long as a list: [`InstanceState`].

mod behind;
mod budget;
mod fitness;
mod instance;
mod load;
// Without the feature nobody implements the trait.
#[cfg_attr(not(feature = "metrics"), allow(dead_code))]
mod meter;
mod pace;
mod registry;
mod service;
mod stats;

pub(crate) use fitness::Claim;
#[cfg(all(test, evenkeel_loom))]
pub(crate) use fitness::Fitness;
pub(crate) use instance::Heard;
pub use instance::InstanceState;
#[cfg(feature = "metrics")]
pub(crate) use meter::{Meter, Reported, Standing};
#[cfg(all(test, evenkeel_loom))]
pub(crate) use pace::Pace;
pub(crate) use pace::{Decay, PaceSettings};
pub(crate) use registry::Registry;
pub(crate) use service::{BackOff, ServiceState, Sink};
pub use stats::Statistics;
