use std::fmt;
use std::future::Future;
use std::time::Duration;

use super::limits::{Attempt, Limits, limits};
use super::work::Work;
use super::{Answered, CallError, Protocol, Strategy};
use crate::{Choice, LoadBalancer, Request};

/// One attempt, on the first instance of the list that is in use: a leader with stand-bys, without a policy.
///
/// The list is in the order of first sight. An instance is out of use while it is skipped or ejected; when all are, the call
/// is an error, where a pick would take one of them in spite of it.
///
/// ```
/// use evenkeel::call::{Available, Strategy};
/// use evenkeel::{Choice, LoadBalancer, Outcome, Request, ServiceInstance};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let orders = LoadBalancer::fixed("orders", [ServiceInstance::new("a.test", 80)?, ServiceInstance::new("b.test", 80)?])?;
/// let send = |_: &Choice, _| Some(async { Ok::<_, std::io::Error>(()) });
/// for _ in 0..3 {
///     let answer = Available::default().run(&orders, &Request::EMPTY, |_| Outcome::Success, send).await?;
///     assert_eq!(answer.instance.host(), "a.test");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Available {
    limits: Limits,
}

impl Available {
    /// Without limits of time.
    pub fn new() -> Self {
        Self::default()
    }

    limits!();
}

impl Strategy for Available {
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
        let choice = match work.listed().await {
            Some(Ok(())) => balancer.first_usable(request),
            Some(Err(error)) => Err(error),
            None => return work.nothing(None),
        };
        let mut choice = match choice {
            Ok(choice) => choice,
            Err(error) => return work.nothing(Some(error)),
        };
        choice.hush();
        let Some(attempt) = work.begin(choice, &mut send) else { return work.unsendable() };
        let landed = attempt.await;
        work.landed(&landed);
        work.give(landed)
    }

    fn time_limit(&self) -> Option<Duration> {
        self.limits.timeout
    }
}
