use std::fmt;
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until};

use super::latencies::Latencies;
use super::limits::{Attempt, Limits, limits};
use super::work::{Verdict, Work};
use super::{Answered, CallError, Protocol, Strategy};
use crate::call::PushBack;
use crate::{Choice, Failure, LoadBalancer, Outcome, Request};

/// Until enough answers came to know a percentile: an answer that takes so long is late for most services.
const DELAY: Duration = Duration::from_millis(100);

/// An attempt that takes long gets company: attempt k is sent after (k - 1) times the delay, to another instance, and the first
/// good answer is the call's. The others are cancelled, and their leases end.
///
/// - **The delay** is the 95th percentile of the answers so far, as this strategy and its clones saw them, so that at most one
///   call in twenty is sent twice; 100 ms until 50 answers came. [`with_percentile`](Self::with_percentile) sets another one,
///   [`with_delay`](Self::with_delay) a fixed one.
/// - **An attempt that failed** is followed by the next one at once. A business error ends the call, as a good answer does.
/// - **Each attempt after the first takes from the retry budget of the service**, but for those after one that was never sent;
///   if it is used up, the call goes on with what is on its way. gRPC's [`RetryThrottle`](crate::call::RetryThrottle) can be added.
/// - It never sends to one instance twice: with one instance left it waits for that one.
///
/// For calls that may happen twice. gRPC's A6 has the rules, "The Tail at Scale" (Dean and Barroso, 2013) the idea.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::call::{Hedging, Strategy};
/// use evenkeel::{Choice, LoadBalancer, Outcome, Request, ServiceInstance};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let orders = LoadBalancer::fixed("orders", [ServiceInstance::new("a.test", 80)?, ServiceInstance::new("b.test", 80)?])?;
/// let hedging = Hedging::default().with_delay(Duration::from_millis(5));
/// let send = |choice: &Choice, _| {
///     let hangs = choice.instance().host() == "a.test";
///     Some(async move {
///         if hangs { std::future::pending::<()>().await }
///         Ok::<_, std::io::Error>("hello")
///     })
/// };
/// for _ in 0..4 {
///     let answer = hedging.run(&orders, &Request::EMPTY, |_| Outcome::Success, send).await?;
///     assert_eq!(answer.instance.host(), "b.test");
/// }
/// assert_eq!(orders.in_flight(), 0);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Hedging {
    attempts: u32,
    delay: Duration,
    latencies: Option<Arc<Latencies>>,
    limits: Limits,
}

impl Default for Hedging {
    fn default() -> Self {
        let latencies = Some(Arc::new(Latencies::new(95.0)));
        Self { attempts: 2, delay: DELAY, latencies, limits: Limits::default() }
    }
}

impl Hedging {
    /// Two attempts, the second one after the 95th percentile.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many attempts there are at most, the first included; 0 is 1. Default: 2.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets a fixed delay.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        (self.delay, self.latencies) = (delay, None);
        self
    }

    /// Sets the percentile of the answers after which the next attempt is sent, 0 to 100, and the delay as long as it is not
    /// known. Default: 95, 100 ms.
    #[must_use]
    pub fn with_percentile(mut self, percent: f64, until_known: Duration) -> Self {
        (self.delay, self.latencies) = (until_known, Some(Arc::new(Latencies::new(percent))));
        self
    }

    limits!(retries);

    /// The delay of the next call.
    pub fn delay(&self) -> Duration {
        self.latencies.as_ref().and_then(|latencies| latencies.value()).unwrap_or(self.delay)
    }
}

impl Strategy for Hedging {
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
        let start = Instant::now();
        let delay = self.delay();
        let Some(first) = work.begin(choice, &mut send) else { return work.unsendable() };
        let mut attempts = FuturesUnordered::new();
        attempts.push(first);
        let (mut begun, mut first_took) = (1, None);
        // When the next attempt is sent, if one may be.
        let mut next = start.checked_add(delay).filter(|_| begun < self.attempts);
        // What the next attempt follows on: an attempt that is late, unless one failed.
        let (mut outcome, mut free) = (Outcome::Failure(Failure::Timeout), false);
        let mut last = None;
        // Before this a server asked for no further attempt.
        let mut held = start;
        while !attempts.is_empty() || next.is_some() {
            let timer = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(landed) = attempts.next() => {
                    work.landed(&landed);
                    if landed.number == 1 {
                        first_took = Some(landed.took);
                    }
                    let (verdict, push_back) = (landed.verdict(), landed.push_back);
                    (outcome, free) = (landed.outcome, landed.never_sent());
                    let pause = landed.pause().unwrap_or_default();
                    last = Some(landed);
                    match verdict {
                        // It forbids further attempts; those on their way may still bring an answer.
                        Verdict::Fatal if push_back == PushBack::Never => next = None,
                        Verdict::Good | Verdict::Fatal => break,
                        Verdict::Bad if next.is_some() => {
                            let now = Instant::now();
                            held = now.checked_add(pause).unwrap_or(held).max(held);
                            let pause = held.saturating_duration_since(now);
                            let too_long = pause > work.max_push_back() || work.is_late(pause);
                            next = Some(now + pause).filter(|_| !too_long);
                        }
                        Verdict::Bad => {}
                    }
                }
                () = timer => {
                    next = None;
                    if !work.is_late(Duration::ZERO)
                        && let Some(choice) = work.another()
                        && let Some(paid) = work.pay(outcome, free)
                        && let Some(attempt) = work.begin(choice, &mut send)
                    {
                        paid.spent();
                        begun += 1;
                        attempts.push(attempt);
                        next = Instant::now().checked_add(delay).filter(|_| begun < self.attempts);
                    }
                    (outcome, free) = (Outcome::Failure(Failure::Timeout), false);
                }
            }
        }
        if let Some(latencies) = &self.latencies
            && last.as_ref().is_some_and(|landed| landed.verdict() == Verdict::Good)
        {
            // The first attempt took at least as long as it was waited for.
            latencies.record(first_took.unwrap_or_else(|| start.elapsed()));
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
