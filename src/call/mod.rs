//! Calls over a balancer: attempts, retries, and who hears of them.
//!
//! [`call`] drives any closure that sends something to an instance, so that it serves every protocol; the clients are built
//! on it. What is repeated is told by [`RetryProperties`](crate::config::RetryProperties).

mod attempts;
mod error;
mod plan;
mod running;

pub use attempts::{Answered, Protocol, call, call_with};
pub use error::CallError;
