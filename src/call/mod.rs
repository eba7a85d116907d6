//! Calls over a balancer: what happens when an attempt could not be sent.

mod never_sent;

pub use never_sent::{Answered, CallError, call};
