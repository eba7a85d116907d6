//! What can be seen of calls from outside: the events of their life ([`Lifecycle`]), and meters (feature `metrics`).
//!
//! The [guide](crate::guide::observing) has the meters, the events of the log and the fields of spans.

#[cfg(feature = "metrics")]
mod collector;
mod events;
mod lifecycle;
#[cfg(feature = "metrics")]
mod meters;
#[cfg(not(feature = "metrics"))]
#[path = "meters/none.rs"]
mod meters;
// Without the feature nobody reads it.
#[cfg_attr(not(feature = "metrics"), allow(dead_code))]
mod reading;

#[cfg(feature = "metrics")]
pub use collector::Collector;
#[cfg(feature = "metrics")]
pub(crate) use collector::Measured;
pub use events::{AttemptEnd, AttemptStart, CallInfo, CallStart, Completion, CompletionStatus, ResponseData};
pub use lifecycle::Lifecycle;
pub(crate) use lifecycle::Lifecycles;
pub(crate) use meters::Meters;
pub(crate) use reading::Reading;
