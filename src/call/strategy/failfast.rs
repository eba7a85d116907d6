use std::fmt;
use std::future::Future;

use super::limits::{Attempt, Limits, limits};
use super::work::Work;
use super::{Answered, CallError, Protocol, Strategy};
use crate::{Choice, LoadBalancer, Request};

/// One attempt, whatever comes of it: for calls that must not happen twice.
///
/// ```
/// use evenkeel::call::{Failfast, Strategy};
/// use evenkeel::{Choice, Failure, LoadBalancer, Outcome, Request, ServiceInstance};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let orders = LoadBalancer::fixed("orders", [ServiceInstance::new("a.test", 80)?, ServiceInstance::new("b.test", 80)?])?;
/// let classify = |result: Result<&(), &&str>| match result {
///     Ok(()) => Outcome::Success,
///     Err(_) => Outcome::Failure(Failure::Reset),
/// };
/// let send = |_: &Choice, _| Some(async { Err::<(), _>("broken") });
/// let error = Failfast::default().run(&orders, &Request::EMPTY, classify, send).await.unwrap_err();
/// assert_eq!((error.tried().len(), error.call_error()), (1, Some(&"broken")));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Failfast {
    limits: Limits,
}

impl Failfast {
    /// Without limits of time.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) const fn of(limits: Limits) -> Self {
        Self { limits }
    }

    limits!(sticky);
}

impl Strategy for Failfast {
    async fn run_with<R, E, P, S, F>(
        &self,
        balancer: &LoadBalancer,
        request: &Request<'_>,
        protocol: &P,
        mut send: S,
    ) -> Result<Answered<R>, CallError<E>>
    where
        E: fmt::Display,
        P: Protocol<R, E>,
        S: FnMut(&Choice, Attempt) -> Option<F>,
        F: Future<Output = Result<R, E>>,
    {
        let mut work = Work::start(balancer, request, protocol, &self.limits);
        let choice = match work.choose().await {
            Some(Ok(choice)) => choice,
            Some(Err(error)) => return work.nothing(Some(error)),
            None => return work.nothing(None),
        };
        let Some(attempt) = work.begin(choice, &mut send) else { return work.unsendable() };
        let landed = attempt.await;
        work.landed(&landed);
        work.give(landed)
    }
}
