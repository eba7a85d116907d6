use std::fmt;
use std::future::Future;

use super::limits::Attempt;
use super::{Answered, CallError, Failfast, Protocol, Strategy};
use crate::call::attempts::Judged;
use crate::{Choice, LoadBalancer, Outcome, Request};

/// An error becomes no answer, and a line in the log: for calls whose failure must not disturb, as an entry of an audit.
///
/// Over one attempt ([`Failfast`]), or any other [`Strategy`]. The event is in the
/// [guide](crate::guide::observing#events): `warn`, once a minute for a service.
///
/// ```
/// use evenkeel::call::Failsafe;
/// use evenkeel::{Choice, Failure, LoadBalancer, Outcome, Request, ServiceInstance};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let audit = LoadBalancer::fixed("audit", [ServiceInstance::new("a.test", 80)?])?;
/// let classify = |result: Result<&(), &&str>| match result {
///     Ok(()) => Outcome::Success,
///     Err(_) => Outcome::Failure(Failure::Reset),
/// };
/// let send = |_: &Choice, _| Some(async { Err::<(), _>("broken") });
/// assert!(Failsafe::default().run(&audit, &Request::EMPTY, classify, send).await.is_none());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Failsafe<T = Failfast>(T);

impl Default for Failsafe<Failfast> {
    fn default() -> Self {
        Self::new(Failfast::default())
    }
}

impl<T: Strategy> Failsafe<T> {
    /// Over another strategy.
    pub const fn new(strategy: T) -> Self {
        Self(strategy)
    }

    /// Makes the call; `None` if it failed.
    pub async fn run<R, E, J, S, F>(
        &self,
        balancer: &LoadBalancer,
        request: &Request<'_>,
        classify: J,
        send: S,
    ) -> Option<Answered<R>>
    where
        E: fmt::Display,
        J: Fn(Result<&R, &E>) -> Outcome,
        S: FnMut(&Choice, Attempt) -> Option<F>,
        F: Future<Output = Result<R, E>>,
    {
        self.run_with(balancer, request, &Judged(classify), send).await
    }

    /// [`run`](Self::run) for a [`Protocol`].
    pub async fn run_with<R, E, P, S, F>(
        &self,
        balancer: &LoadBalancer,
        request: &Request<'_>,
        protocol: &P,
        send: S,
    ) -> Option<Answered<R>>
    where
        E: fmt::Display,
        P: Protocol<R, E>,
        S: FnMut(&Choice, Attempt) -> Option<F>,
        F: Future<Output = Result<R, E>>,
    {
        match self.0.run_with(balancer, request, protocol, send).await {
            Ok(answered) => Some(answered),
            Err(error) => {
                pass_over(balancer, &error);
                None
            }
        }
    }
}

/// Tells the log of an error that its caller does not see.
pub(super) fn pass_over<E: fmt::Display>(balancer: &LoadBalancer, error: &CallError<E>) {
    if let Some(passed) = balancer.service_state().logs().failsafe.pass() {
        let (service, suppressed) = (balancer.service_id(), passed.suppressed());
        tracing::warn!(%service, %error, suppressed, "a call failed, and its caller goes on without an answer");
    }
}
