//! What can be seen from outside: the events of the life of calls ([`Lifecycle`]), meters (feature `metrics`), and reports:
//! how a service is doing ([`ServiceStatus`]), why a request goes where it goes ([`Explanation`]), what changed ([`Change`]).
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
mod report;

#[cfg(feature = "metrics")]
pub use collector::Collector;
#[cfg(feature = "metrics")]
pub(crate) use collector::Measured;
pub use events::{AttemptEnd, AttemptStart, CallInfo, CallStart, Completion, CompletionStatus, ResponseData};
pub use lifecycle::Lifecycle;
pub(crate) use lifecycle::Lifecycles;
pub(crate) use meters::Meters;
pub(crate) use reading::Reading;
pub use report::{
    Answer, Candidate, Change, Counts, DryRun, ExplainOptions, Explanation, GroupSize, GuardStatus,
    InstanceCondition, InstanceStatus, ListStatus, LookUpStatus, Narrowing, OverrideStatus, Page,
    PriorityStatus, RequestSummary, ServiceStatus, Share, SourceStatus, StageStatus, Standing,
    ZoneShareStatus, ZoneStatus,
};
pub(crate) use report::{millis, safe};

pub use crate::state::ChangeKind;
