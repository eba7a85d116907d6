//! What to do with one call: where it goes, how often, what an error becomes.

mod available;
mod broadcast;
mod failback;
mod failfast;
mod failover;
mod failsafe;
mod fallback;
mod forking;
mod hedging;
mod latencies;
mod limits;
mod merge;
mod sticky;
mod story;
mod throttled;
mod work;
mod zone_aware;

use std::fmt;
use std::future::Future;
use std::time::Duration;

pub use available::Available;
pub use broadcast::Broadcast;
pub use failback::Failback;
pub use failfast::Failfast;
pub use failover::Failover;
pub use failsafe::Failsafe;
pub use fallback::{Fallback, Reply};
pub use forking::Forking;
pub use hedging::Hedging;
pub use limits::Attempt;
pub use merge::Merge;
pub use sticky::Sticky;
pub use throttled::Throttled;
pub use zone_aware::{Member, ZoneAware};

use super::attempts::Judged;
use super::{Answered, CallError, Protocol};
use crate::{Choice, LoadBalancer, Outcome, Request};

/// How a call is sent to the instances of a service, over any protocol: `send` makes an attempt on an instance, `classify`
/// says how it ended.
///
/// An attempt **failed** if its outcome speaks against the instance: a [failure](Outcome::is_failure), or a 429. An error
/// with another outcome is the call's own (a *business error*): another instance would say the same, so it ends every
/// strategy at once. A response with such an outcome is the answer.
///
/// Each attempt holds a lease, which ends once: also when the future of the call is dropped, runs out of time or panics.
/// Each runs in a span, and the [`Lifecycle`](crate::observe::Lifecycle) processors hear of it. Nothing is spawned: all
/// attempts of a call are polled by its own future, so that dropping it cancels them.
pub trait Strategy {
    /// Makes the call.
    ///
    /// `send` is told which [`Attempt`] it is and until when it has time; `None` means that the call cannot be sent (again),
    /// and the caller gets what there is.
    ///
    /// # Errors
    /// [`CallError`], which names the instances that were tried and how each attempt ended.
    fn run<R, E, J, S, F>(
        &self,
        balancer: &LoadBalancer,
        request: &Request<'_>,
        classify: J,
        send: S,
    ) -> impl Future<Output = Result<Answered<R>, CallError<E>>>
    where
        E: fmt::Display,
        J: Fn(Result<&R, &E>) -> Outcome,
        S: FnMut(&Choice, Attempt) -> Option<F>,
        F: Future<Output = Result<R, E>>,
    {
        async move { self.run_with(balancer, request, &Judged(classify), send).await }
    }

    /// [`run`](Self::run) for a [`Protocol`], which also tells the deadline of the caller, headers and push-back.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    fn run_with<R, E, P, S, F>(
        &self,
        balancer: &LoadBalancer,
        request: &Request<'_>,
        protocol: &P,
        send: S,
    ) -> impl Future<Output = Result<Answered<R>, CallError<E>>>
    where
        E: fmt::Display,
        P: Protocol<R, E>,
        S: FnMut(&Choice, Attempt) -> Option<F>,
        F: Future<Output = Result<R, E>>;

    /// How long a call may take in all, if the strategy bounds that itself (default: it does not). Whoever makes one call of
    /// several, as [`ZoneAware`] does, bounds them all by it.
    fn time_limit(&self) -> Option<Duration> {
        None
    }
}
