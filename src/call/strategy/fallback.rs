use std::fmt;
use std::future::Future;

use super::limits::Attempt;
use super::{Answered, CallError, Protocol, Strategy};
use crate::call::attempts::Judged;
use crate::{Choice, LoadBalancer, Outcome, Request};

/// A value in place of an error: the last known price, an empty list of recommendations.
///
/// Over any [`Strategy`]. A business error ([`CallError::is_business`]) stays one: the service did answer.
///
/// ```
/// use evenkeel::call::{Failover, Fallback, Reply};
/// use evenkeel::{Choice, Failure, LoadBalancer, Outcome, Request, ServiceInstance};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let prices = LoadBalancer::fixed("prices", [ServiceInstance::new("a.test", 80)?])?;
/// let classify = |result: Result<&u32, &std::io::Error>| match result {
///     Ok(_) => Outcome::Success,
///     Err(_) => Outcome::Failure(Failure::Reset),
/// };
/// let send = |_: &Choice, _| Some(async { Err(std::io::Error::other("broken")) });
/// let strategy = Fallback::new(Failover::default());
/// let reply = strategy.run(&prices, &Request::EMPTY, classify, send, |_| 42).await?;
/// assert!(reply.is_fallback() && reply.into_response() == 42);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Fallback<T> {
    strategy: T,
    forced: bool,
}

/// What a call with a [`Fallback`] gives.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reply<R> {
    /// The answer of an instance, with its lease, and what it says of the instance ([`Protocol::outcome`]).
    Answered(Answered<R>, Outcome),
    /// The value in its place.
    Fallback(R),
}

impl<R> Reply<R> {
    /// Whether it is the value in place of an answer.
    pub const fn is_fallback(&self) -> bool {
        matches!(self, Self::Fallback(_))
    }

    /// The response, whose lease ends here, with what the answer says of its instance: a 503 is no success.
    pub fn into_response(self) -> R {
        match self {
            Self::Answered(Answered { response, lease, .. }, outcome) => {
                lease.complete(outcome);
                response
            }
            Self::Fallback(response) => response,
        }
    }
}

impl<T: Strategy> Fallback<T> {
    /// Over `strategy`.
    pub const fn new(strategy: T) -> Self {
        Self { strategy, forced: false }
    }

    /// Sets whether the value is given without a call: to take a service out of use, or for a test. Default: `false`.
    #[must_use]
    pub const fn with_forced(mut self, forced: bool) -> Self {
        self.forced = forced;
        self
    }

    /// Makes the call; `fallback` makes the value from the error, or from nothing if it is [forced](Self::with_forced).
    ///
    /// # Errors
    /// A business error.
    pub async fn run<R, E, J, S, F>(
        &self,
        balancer: &LoadBalancer,
        request: &Request<'_>,
        classify: J,
        send: S,
        fallback: impl FnOnce(Option<&CallError<E>>) -> R,
    ) -> Result<Reply<R>, CallError<E>>
    where
        E: fmt::Display,
        J: Fn(Result<&R, &E>) -> Outcome,
        S: FnMut(&Choice, Attempt) -> Option<F>,
        F: Future<Output = Result<R, E>>,
    {
        self.run_with(balancer, request, &Judged(classify), send, fallback).await
    }

    /// [`run`](Self::run) for a [`Protocol`].
    ///
    /// # Errors
    /// A business error.
    pub async fn run_with<R, E, P, S, F>(
        &self,
        balancer: &LoadBalancer,
        request: &Request<'_>,
        protocol: &P,
        send: S,
        fallback: impl FnOnce(Option<&CallError<E>>) -> R,
    ) -> Result<Reply<R>, CallError<E>>
    where
        E: fmt::Display,
        P: Protocol<R, E>,
        S: FnMut(&Choice, Attempt) -> Option<F>,
        F: Future<Output = Result<R, E>>,
    {
        if self.forced {
            return Ok(Reply::Fallback(fallback(None)));
        }
        match self.strategy.run_with(balancer, request, protocol, send).await {
            Ok(answered) => {
                let outcome = protocol.outcome(Ok(&answered.response));
                Ok(Reply::Answered(answered, outcome))
            }
            Err(error) if error.is_business() => Err(error),
            Err(error) => Ok(Reply::Fallback(fallback(Some(&error)))),
        }
    }
}
