use std::fmt;
use std::future::Future;
use std::time::Duration;

use super::limits::Attempt;
use super::story::Story;
use super::{Answered, CallError, Protocol, Strategy};
use crate::call::AdaptiveThrottle;
use crate::{Choice, LoadBalancer, Request};

/// A strategy behind an [`AdaptiveThrottle`].
///
/// A call counts as accepted when its answer, or its business error, is none that speaks against an instance. One that found
/// no instance, or was given up by its caller, counts as nothing.
///
/// ```
/// use evenkeel::call::{AdaptiveThrottle, Failfast, Strategy, Throttled};
/// use evenkeel::{Choice, Failure, LoadBalancer, Outcome, Request, ServiceInstance};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let orders = LoadBalancer::fixed("orders", [ServiceInstance::new("a.test", 80)?])?;
/// let strategy = Throttled::new(Failfast::default(), AdaptiveThrottle::default());
/// let classify = |_: Result<&(), &&str>| Outcome::Failure(Failure::Timeout);
/// let mut refused = 0;
/// for _ in 0..100 {
///     let send = |_: &Choice, _| Some(async { Err::<(), _>("timed out") });
///     let error = strategy.run(&orders, &Request::EMPTY, classify, send).await.unwrap_err();
///     refused += u32::from(error.is_throttled());
/// }
/// assert!(refused > 50);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Throttled<T> {
    strategy: T,
    throttle: AdaptiveThrottle,
}

impl<T: Strategy> Throttled<T> {
    /// `strategy` for what `throttle` admits.
    pub const fn new(strategy: T, throttle: AdaptiveThrottle) -> Self {
        Self { strategy, throttle }
    }
}

impl<T: Strategy> Strategy for Throttled<T> {
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
        if !self.throttle.admits(balancer.chance()) {
            let service = balancer.service_id();
            let error = CallError::throttled(service);
            Story::start(service, &balancer.calls(), request).fail(&error);
            return Err(error);
        }
        let result = self.strategy.run_with(balancer, request, protocol, send).await;
        match &result {
            Ok(answered) => self.throttle.ended(!protocol.outcome(Ok(&answered.response)).is_bad()),
            Err(error) if error.tried().is_empty() => {}
            Err(error) => self.throttle.ended(error.is_business()),
        }
        result
    }

    fn time_limit(&self) -> Option<Duration> {
        self.strategy.time_limit()
    }
}
