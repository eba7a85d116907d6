//! The contract of the log and of spans: `src/guide/observing.md`.

mod support;

#[path = "observing/contract.rs"]
mod contract;
#[path = "observing/events.rs"]
mod events;
#[path = "observing/spans.rs"]
mod spans;
#[path = "observing/subscriber.rs"]
mod subscriber;
