//! Calls over a balancer: attempts, retries, and who hears of them.
//!
//! [`call`] drives any closure that sends something to an instance, so that it serves every protocol; the clients are built
//! on it. What is repeated is told by [`RetryProperties`](crate::config::RetryProperties).
//!
//! A [`Strategy`] is told in code what to do with one call, over the same closures: [`Failover`], [`Failfast`], [`Hedging`],
//! [`Forking`], [`Available`]; [`Broadcast`] calls every instance, [`Merge`] several groups of them, [`ZoneAware`] one of several balancers, [`Failback`], [`Failsafe`] and [`Fallback`] change what the caller gets.
//! The [guide](crate::guide::calls#strategies) compares them.

mod attempts;
mod busy;
mod error;
mod plan;
mod running;
mod strategy;
mod visited;

#[cfg(feature = "reqwest")]
pub(crate) use attempts::call_first;
pub use attempts::{Answered, Protocol, PushBack, call, call_with};
pub use error::CallError;
pub use strategy::{
    Attempt, Available, Broadcast, Failback, Failfast, Failover, Failsafe, Fallback, Forking, Hedging,
    Member, Merge, Reply, Sticky, Strategy, Throttled, ZoneAware,
};
#[cfg(feature = "tonic014")]
pub(crate) use visited::Visited;

pub use crate::state::{AdaptiveThrottle, RetryThrottle};
