use std::fmt;
use std::future::Future;
use std::time::Duration;

use super::limits::{Attempt, Limits, limits};
use super::work::{Verdict, Work};
use super::{Answered, CallError, Protocol};
use crate::call::attempts::Judged;
use crate::choice::Anchor;
use crate::{Choice, LoadBalancer, Outcome, Request};

/// Calls every instance of the list, one after the other: to clear their caches, to change their level of logging.
///
/// Also those that are skipped or ejected. If one failed, the call fails with the last error, but the others are called all
/// the same, unless a given part of them failed ([`with_fail_percent`](Self::with_fail_percent)). When the time of the call is
/// up, no more of them are called, and the error [says so](CallError::is_timeout). It is no [`Strategy`](super::Strategy), since
/// it has many answers.
///
/// ```
/// use evenkeel::call::Broadcast;
/// use evenkeel::{Choice, LoadBalancer, Outcome, Request, ServiceInstance};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let orders = LoadBalancer::fixed("orders", [ServiceInstance::new("a.test", 80)?, ServiceInstance::new("b.test", 80)?])?;
/// let send = |choice: &Choice, _| {
///     let host = choice.instance().host().to_owned();
///     Some(async move { Ok::<_, std::io::Error>(host) })
/// };
/// let answers = Broadcast::default().run(&orders, &Request::EMPTY, |_| Outcome::Success, send).await?;
/// let hosts: Vec<_> = answers.iter().map(|answer| answer.response.as_str()).collect();
/// assert_eq!(hosts, ["a.test", "b.test"]);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Broadcast {
    fail_percent: u32,
    limits: Limits,
}

impl Default for Broadcast {
    fn default() -> Self {
        Self { fail_percent: 100, limits: Limits::default() }
    }
}

impl Broadcast {
    /// All instances, however many fail, without limits of time.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets after how many failures no more instances are called, in percent of all, rounded down, and at least one; more
    /// than 100 counts as 100. Default: 100.
    #[must_use]
    pub fn with_fail_percent(mut self, percent: u32) -> Self {
        self.fail_percent = percent.min(100);
        self
    }

    limits!();

    /// Calls them; the answers are in the order of the list. A response that says of a failure, as a 503, counts as a failure
    /// for [`with_fail_percent`](Self::with_fail_percent), and stands among the answers.
    ///
    /// # Errors
    /// [`CallError`]: the last error or time-out, with every instance that was called and how that ended.
    pub async fn run<R, E, J, S, F>(
        &self,
        balancer: &LoadBalancer,
        request: &Request<'_>,
        classify: J,
        send: S,
    ) -> Result<Vec<Answered<R>>, CallError<E>>
    where
        E: fmt::Display,
        J: Fn(Result<&R, &E>) -> Outcome,
        S: FnMut(&Choice, Attempt) -> Option<F>,
        F: Future<Output = Result<R, E>>,
    {
        self.run_with(balancer, request, &Judged(classify), send).await
    }

    /// [`run`](Self::run) for a [`Protocol`].
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_with<R, E, P, S, F>(
        &self,
        balancer: &LoadBalancer,
        request: &Request<'_>,
        protocol: &P,
        mut send: S,
    ) -> Result<Vec<Answered<R>>, CallError<E>>
    where
        E: fmt::Display,
        P: Protocol<R, E>,
        S: FnMut(&Choice, Attempt) -> Option<F>,
        F: Future<Output = Result<R, E>>,
    {
        let mut work = Work::start(balancer, request, protocol, &self.limits);
        let listed = match work.listed().await {
            Some(Ok(())) => balancer.candidates(request),
            Some(Err(error)) => Err(error),
            None => return work.nothing(None).map(|one| vec![one]),
        };
        let all = match listed {
            Ok(all) => all,
            Err(error) => return work.nothing(Some(error)).map(|one| vec![one]),
        };
        // In whole numbers; as Dubbo rounds, but that 0 would never be reached.
        let most = (all.len() * self.fail_percent as usize / 100).max(1);
        let (mut answered, mut failed, mut failures) = (Vec::new(), None, 0);
        for state in all {
            if work.is_late(Duration::ZERO) {
                // Whoever is not called has failed nobody.
                drop((answered, failed));
                return work.nothing(None).map(|one| vec![one]);
            }
            let mut choice = Anchor::new(state, request.cost()).lease();
            choice.hush();
            let Some(attempt) = work.begin(choice, &mut send) else { break };
            let landed = attempt.await;
            work.landed(&landed);
            failures += usize::from(landed.verdict() != Verdict::Good);
            if landed.is_response() {
                answered.push(landed);
            } else {
                failed = Some(landed);
            }
            if failures >= most {
                break;
            }
        }
        if let Some(failed) = failed {
            drop(answered);
            return work.give(failed).map(|one| vec![one]);
        }
        let Some(last) = answered.pop() else { return work.unsendable().map(|one| vec![one]) };
        let mut answers: Vec<_> =
            answered.into_iter().filter_map(|landed| work.keep(landed, false)).collect();
        answers.extend(work.keep(last, true));
        Ok(answers)
    }
}
