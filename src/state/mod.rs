//! What lives as long as an instance does, not as long as a list: [`InstanceState`].

mod admission;
mod behind;
mod budget;
mod changes;
mod fitness;
mod instance;
mod load;
// Without the feature nobody implements the trait.
#[cfg_attr(not(feature = "metrics"), allow(dead_code))]
mod meter;
mod outlier;
mod pace;
mod registry;
mod service;
mod standing;
mod stats;
mod tally;
mod throttle;
mod warmth;

pub use admission::AdaptiveThrottle;
pub use changes::ChangeKind;
pub(crate) use changes::Noted;
#[cfg(all(test, evenkeel_loom))]
pub(crate) use fitness::Fitness;
pub(crate) use fitness::{Claim, Use};
pub use instance::InstanceState;
pub(crate) use instance::{COUNTED, Heard, Told};
#[cfg(feature = "metrics")]
pub(crate) use meter::{Meter, Reported, Standing};
pub use outlier::EjectionCause;
pub(crate) use outlier::{Crowd, Detection, EjectionTime, FailurePercentage, Growth, Limits, SuccessRate};
#[cfg(all(test, evenkeel_loom))]
pub(crate) use pace::Pace;
pub(crate) use pace::{Decay, PaceSettings};
pub(crate) use registry::Registry;
pub(crate) use service::{BackOff, ServiceState, Sink};
pub(crate) use standing::Condition;
pub use stats::Statistics;
pub use throttle::RetryThrottle;
pub(crate) use warmth::{Shape, Warmth};
