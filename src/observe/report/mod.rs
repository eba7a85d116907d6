//! Reports: plain data that says how a service is doing, why a request goes where it goes, and what changed.
//!
//! A balancer fills them ([`LoadBalancer::status`](crate::LoadBalancer::status) and others). `Display` writes what a person
//! reads; serde what a machine does: names in kebab case, and all times in milliseconds (`-ms`).

mod change;
mod explain;
mod overrides;
mod page;
mod status;
mod status_text;
mod table;
mod words;

pub use change::Change;
pub use explain::{
    Answer, Candidate, DryRun, Explanation, GroupSize, Narrowing, RequestSummary, Share, Standing,
};
pub use overrides::OverrideStatus;
pub use page::{ExplainOptions, Page};
pub use status::{
    Counts, GuardStatus, InstanceCondition, InstanceStatus, ListStatus, LookUpStatus, PriorityStatus,
    ServiceStatus, SourceStatus, StageStatus, ZoneShareStatus, ZoneStatus,
};
pub(crate) use words::{millis, safe};
