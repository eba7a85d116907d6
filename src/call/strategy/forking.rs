use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::limits::{Attempt, Limits, limits};
use super::work::{Verdict, Work};
use super::{Answered, CallError, Protocol, Strategy};
use crate::call::PushBack;
use crate::{Choice, LoadBalancer, Request};

/// Several attempts at once, on different instances; the first good answer is the call's, and the others are cancelled.
///
/// Two by default ([`with_forks`](Self::with_forks)); an error only when all failed, or one brought a business error, which ends
/// the call. The copies are wanted, not a reaction to
/// a failure: they cost the retry budget nothing, and the servers that many times the load. [`Hedging`](super::Hedging) is
/// nearly as fast for a few percent.
///
/// ```
/// use evenkeel::call::{Forking, Strategy};
/// use evenkeel::{Choice, LoadBalancer, Outcome, Request, ServiceInstance};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let orders = LoadBalancer::fixed("orders", [ServiceInstance::new("a.test", 80)?, ServiceInstance::new("b.test", 80)?])?;
/// let send = |choice: &Choice, _| {
///     let hangs = choice.instance().host() == "a.test";
///     Some(async move {
///         if hangs { std::future::pending::<()>().await }
///         Ok::<_, std::io::Error>("hello")
///     })
/// };
/// let answer = Forking::default().run(&orders, &Request::EMPTY, |_| Outcome::Success, send).await?;
/// assert_eq!((answer.instance.host(), orders.in_flight()), ("b.test", 1));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Forking {
    forks: usize,
    limits: Limits,
}

impl Default for Forking {
    fn default() -> Self {
        Self { forks: 2, limits: Limits::default() }
    }
}

impl Forking {
    /// Two attempts, without limits of time.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many instances are called at once; 0 or more than there are means all. Default: 2.
    #[must_use]
    pub fn with_forks(mut self, forks: usize) -> Self {
        self.forks = forks;
        self
    }

    limits!(sticky);
}

impl Strategy for Forking {
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
        let mut next = match work.choose().await {
            Some(Ok(choice)) => Some(choice),
            Some(Err(error)) => return work.nothing(Some(error)),
            None => return work.nothing(None),
        };
        let mut attempts = FuturesUnordered::new();
        while let Some(choice) = next {
            let Some(attempt) = work.begin(choice, &mut send) else { break };
            attempts.push(attempt);
            let more = self.forks == 0 || attempts.len() < self.forks;
            next = if more { work.another() } else { None };
        }
        let mut last = None;
        while let Some(landed) = attempts.next().await {
            work.landed(&landed);
            let ends = match landed.verdict() {
                Verdict::Good => true,
                // Every copy would bring the same, unless it is only further attempts that the server forbids.
                Verdict::Fatal => landed.push_back != PushBack::Never,
                Verdict::Bad => false,
            };
            last = Some(landed);
            if ends {
                break;
            }
        }
        // The losers end before the call does.
        drop(attempts);
        match last {
            Some(landed) => work.give(landed),
            None => work.unsendable(),
        }
    }

    fn time_limit(&self) -> Option<Duration> {
        self.limits.timeout
    }
}
