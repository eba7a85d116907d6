use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::limits::{Attempt, Limits, limits};
use super::work::{Verdict, Work};
use super::{Answered, CallError, Protocol, Strategy};
use crate::call::busy::{Busy, wait};
use crate::call::plan;
use crate::{Choice, LoadBalancer, Request, Tried};

/// An attempt that failed is followed by one on another instance: Dubbo's default.
///
/// - **Two more attempts** by default ([`with_retries`](Self::with_retries)), whatever the method: choose it for calls that
///   may happen twice.
/// - **Each asks the list anew**, so it knows who joined and left meanwhile, and **never goes to one instance twice** while
///   another is left. After one that was never sent, it does not return to that instance at all.
/// - **Each takes from the retry budget of the service** (`retry.budget`), but for those after an attempt that was never
///   sent. Pauses are those of `retry.backoff`.
/// - An instance that asks to come again later ([`Outcome::RetryAfter`](crate::Outcome::RetryAfter)) is left alone for that
///   time; another instance is tried at once. [`PushBack`](crate::call::PushBack) is obeyed everywhere.
/// - The caller gets the last response or the last error, untouched.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::call::{Failover, Strategy};
/// use evenkeel::{Choice, Failure, LoadBalancer, Outcome, Request, ServiceInstance};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let orders = LoadBalancer::fixed("orders", [ServiceInstance::new("a.test", 80)?, ServiceInstance::new("b.test", 80)?])?;
/// let strategy = Failover::default().with_retries(1).with_per_try_timeout(Duration::from_millis(200));
/// let classify = |result: Result<&&str, &std::io::Error>| match result {
///     Ok(_) => Outcome::Success,
///     Err(_) => Outcome::Failure(Failure::Reset),
/// };
/// let send = |choice: &Choice, _| {
///     let broken = choice.instance().host() == "a.test";
///     Some(async move { if broken { Err(std::io::Error::other("broken")) } else { Ok("hello") } })
/// };
/// for _ in 0..4 {
///     let answer = strategy.run(&orders, &Request::EMPTY, classify, send).await?;
///     assert_eq!((answer.response, answer.instance.host()), ("hello", "b.test"));
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Failover {
    retries: u32,
    limits: Limits,
}

impl Default for Failover {
    fn default() -> Self {
        // Dubbo's `retries`.
        Self { retries: 2, limits: Limits::default() }
    }
}

impl Failover {
    /// Two more attempts, without limits of time.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many attempts may follow the first. Default: 2.
    #[must_use]
    pub fn with_retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    limits!(retries);
}

impl Strategy for Failover {
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
        let mut landed = attempt.await;
        // The instances that want to be left alone, and those that nothing could be sent to.
        let mut busy = Busy::default();
        let (mut dead, mut avoid) = (Tried::new(), Tried::new());
        for retry in 1_u32.. {
            work.landed(&landed);
            if landed.verdict() != Verdict::Bad || retry > self.retries {
                break;
            }
            let uid = landed.uid();
            busy.hear(uid, landed.outcome);
            let mut pause = match &work.calls.retry.backoff {
                backoff if backoff.enabled => plan::pause(backoff, retry, balancer.chance()),
                _ => Duration::ZERO,
            };
            match landed.pause() {
                Some(asked) if asked > work.max_push_back() => break,
                Some(asked) => pause = asked,
                None => {}
            }
            if landed.outcome.wait().is_some() {
                // It alone: whether that is too long shows when nobody else is left.
                avoid.add_uid(uid);
            }
            let free = landed.never_sent();
            if free {
                dead.add_uid(uid);
                avoid.add_uid(uid);
            }
            // Before the budget is asked: what is not repeated costs nothing.
            if work.is_late(pause) {
                break;
            }
            let Some(paid) = work.pay(landed.outcome, free) else { break };
            work.repeats(&landed);
            if !pause.is_zero() {
                sleep(pause).await;
            }
            let Some(Ok(mut choice)) = work.choose().await else { break };
            if avoid.has(&choice) {
                // All were tried: then again one that may be asked now, if there is one.
                drop(choice);
                let Some(Ok(other)) = work.choose_but(&avoid).await else { break };
                choice = other;
            }
            if dead.has(&choice) {
                break;
            }
            if let Some(until) = busy.until(&choice) {
                // Nobody else is left.
                let left = until.saturating_duration_since(Instant::now());
                if left > work.max_push_back() || work.is_late(left) {
                    break;
                }
                choice = wait(choice, until).await;
            }
            if work.is_late(Duration::ZERO) {
                break;
            }
            let Some(attempt) = work.begin(choice, &mut send) else { break };
            paid.spent();
            // The response of the attempt before, if that is what is repeated, is given up now.
            drop(landed);
            landed = attempt.await;
        }
        work.give(landed)
    }

    fn time_limit(&self) -> Option<Duration> {
        self.limits.timeout
    }
}
