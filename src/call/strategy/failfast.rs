use std::fmt;
use std::future::Future;
use std::time::Duration;

use super::limits::{Attempt, Limits, limits};
use super::work::{Paid, Work};
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

    /// The call once more, behind its caller; `paid` is what the budget gave for it.
    pub(super) async fn again<R, E, P, S, F>(
        &self,
        balancer: &LoadBalancer,
        request: &Request<'_>,
        protocol: &P,
        send: S,
        paid: Paid<'_>,
    ) -> Result<Answered<R>, CallError<E>>
    where
        E: fmt::Display,
        P: Protocol<R, E>,
        S: FnMut(&Choice, Attempt) -> Option<F>,
        F: Future<Output = Result<R, E>>,
    {
        once(Work::again(balancer, request, protocol, &self.limits), send, Some(paid)).await
    }
}

/// The one attempt.
async fn once<R, E, P, S, F>(
    mut work: Work<'_, P>,
    mut send: S,
    paid: Option<Paid<'_>>,
) -> Result<Answered<R>, CallError<E>>
where
    E: fmt::Display,
    P: Protocol<R, E>,
    S: FnMut(&Choice, Attempt) -> Option<F>,
    F: Future<Output = Result<R, E>>,
{
    let choice = match work.choose().await {
        Some(Ok(choice)) => choice,
        Some(Err(error)) => return work.nothing(Some(error)),
        None => return work.nothing(None),
    };
    let Some(attempt) = work.begin(choice, &mut send) else { return work.unsendable() };
    if let Some(paid) = paid {
        paid.spent();
    }
    let landed = attempt.await;
    work.landed(&landed);
    work.give(landed)
}

impl Strategy for Failfast {
    async fn run_with<R, E, P, S, F>(
        &self,
        balancer: &LoadBalancer,
        request: &Request<'_>,
        protocol: &P,
        send: S,
    ) -> Result<Answered<R>, CallError<E>>
    where
        E: fmt::Display,
        P: Protocol<R, E>,
        S: FnMut(&Choice, Attempt) -> Option<F>,
        F: Future<Output = Result<R, E>>,
    {
        once(Work::start(balancer, request, protocol, &self.limits), send, None).await
    }

    fn time_limit(&self) -> Option<Duration> {
        self.limits.timeout
    }
}
