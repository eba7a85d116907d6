//! What can be seen of calls from outside: the events of their life ([`Lifecycle`]).

mod events;
mod lifecycle;

pub use events::{AttemptEnd, AttemptStart, CallInfo, CallStart, Completion, CompletionStatus, ResponseData};
pub use lifecycle::Lifecycle;
pub(crate) use lifecycle::Lifecycles;
