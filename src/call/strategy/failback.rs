use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::limits::{Attempt, Limits};
use super::{Answered, Failfast, Strategy};
use crate::{Choice, LoadBalancer, Outcome, Request};

/// A call that failed is made again behind its caller, who goes on without an answer: for messages that should arrive, and
/// may arrive twice.
///
/// The call is made once; if it fails, and not by a business error, it is made again up to 3 times, 5 s apart, more or less by
/// a fifth so that what failed together does not come back together. At most 100 calls wait so; what is beyond, and what fails
/// to the end, is given up, which the [log](crate::guide::observing#events) tells.
///
/// Later attempts know the hint and the cost of the request and no more of it, since the caller's own is gone by then. Clones
/// share what waits. It ends with the last clone, or by [`shutdown`](Self::shutdown), which makes the calls that wait at
/// once and tells how many were given up.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::call::Failback;
/// use evenkeel::{Choice, Failure, LoadBalancer, Outcome, Request, ServiceInstance};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let audit = LoadBalancer::fixed("audit", [ServiceInstance::new("a.test", 80)?])?;
/// let failback = Failback::default();
/// let classify = |result: Result<&(), &&str>| match result {
///     Ok(()) => Outcome::Success,
///     Err(_) => Outcome::Failure(Failure::Reset),
/// };
/// let mut attempts = 0;
/// let send = move |_: &Choice, _| {
///     attempts += 1;
///     let result = if attempts == 1 { Err("broken") } else { Ok(()) };
///     Some(async move { result })
/// };
/// assert!(failback.run(&audit, &Request::EMPTY, classify, send).await.is_none());
/// assert_eq!((failback.pending(), failback.shutdown(Duration::from_secs(1)).await), (1, 0));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Failback {
    retries: u32,
    tasks: usize,
    delay: Duration,
    once: Failfast,
    waiting: Arc<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    tasks: Mutex<JoinSet<bool>>,
    /// Whether there is no more time to wait.
    hurry: watch::Sender<bool>,
}

impl Default for Failback {
    fn default() -> Self {
        let waiting = Waiting { tasks: Mutex::default(), hurry: watch::Sender::new(false) };
        // Dubbo's numbers.
        let (retries, tasks, delay) = (3, 100, Duration::from_secs(5));
        Self { retries, tasks, delay, once: Failfast::default(), waiting: Arc::new(waiting) }
    }
}

impl Failback {
    /// Three more attempts, 5 s apart, for a hundred calls at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many attempts may follow the first. Default: 3.
    #[must_use]
    pub fn with_retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Sets how many calls may wait; 0 is the default, 100.
    #[must_use]
    pub fn with_tasks(mut self, tasks: usize) -> Self {
        self.tasks = if tasks == 0 { 100 } else { tasks };
        self
    }

    /// Sets the time between attempts, which varies by a fifth. Default: 5 s.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sets how long one attempt may take. Default: no bound.
    #[must_use]
    pub fn with_per_try_timeout(mut self, timeout: Duration) -> Self {
        self.once = Failfast::of(Limits { per_try_timeout: Some(timeout), ..Limits::default() });
        self
    }

    /// How many calls wait to be made again.
    pub fn pending(&self) -> usize {
        let mut tasks = self.waiting.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.len()
    }

    /// Makes the calls that wait without waiting longer, for `limit` at most, and gives up the rest; how many were given up,
    /// those that failed to the end included. Later calls are made once.
    pub async fn shutdown(&self, limit: Duration) -> usize {
        let end = Instant::now().checked_add(limit);
        self.waiting.hurry.send_replace(true);
        let mut tasks = std::mem::take(&mut *self.waiting.tasks.lock());
        let mut lost = 0;
        loop {
            let next = match end {
                Some(end) => timeout_at(end, tasks.join_next()).await,
                None => Ok(tasks.join_next().await),
            };
            match next {
                Ok(Some(arrived)) => lost += usize::from(!arrived.unwrap_or(false)),
                Ok(None) => return lost,
                Err(_) => return lost + tasks.len(),
            }
        }
    }

    /// Makes the call; `None` if it failed, and is made again, or given up.
    pub async fn run<R, E, J, S, F>(
        &self,
        balancer: &LoadBalancer,
        request: &Request<'_>,
        classify: J,
        mut send: S,
    ) -> Option<Answered<R>>
    where
        R: Send + 'static,
        E: fmt::Display + Send + 'static,
        J: Fn(Result<&R, &E>) -> Outcome + Send + Sync + 'static,
        S: FnMut(&Choice, Attempt) -> Option<F> + Send + 'static,
        F: Future<Output = Result<R, E>> + Send + 'static,
    {
        let (why, business) = match self.once.run(balancer, request, &classify, &mut send).await {
            Ok(answered) => {
                let outcome = classify(Ok(&answered.response));
                if !outcome.is_bad() {
                    return Some(answered);
                }
                answered.lease.complete(outcome);
                (outcome.to_string(), false)
            }
            Err(error) => (error.to_string(), error.is_business()),
        };
        if business || self.retries == 0 {
            given_up(balancer, 1, &why);
            return None;
        }
        let (hint, cost) = (request.hint().map(str::to_owned), request.cost());
        let (once, lb) = (self.once.clone(), balancer.clone());
        let (retries, delay, mut hurry) = (self.retries, self.delay, self.waiting.hurry.subscribe());
        let again = async move {
            let mut last = String::new();
            for _ in 0..retries {
                let pause = varied(delay, lb.chance());
                tokio::select! {
                    () = sleep(pause) => {}
                    _ = hurry.wait_for(|hurry| *hurry) => {}
                }
                let request = Request::EMPTY.with_cost(cost);
                let request = hint.as_deref().map_or(request, |hint| request.with_hint(hint));
                match once.run(&lb, &request, &classify, &mut send).await {
                    Ok(answered) => {
                        let outcome = classify(Ok(&answered.response));
                        answered.lease.complete(outcome);
                        if !outcome.is_bad() {
                            return true;
                        }
                        last = outcome.to_string();
                    }
                    Err(error) => {
                        last = error.to_string();
                        if error.is_business() {
                            break;
                        }
                    }
                }
            }
            given_up(&lb, retries.saturating_add(1), &last);
            false
        };
        if !self.add(again) {
            given_up(balancer, 1, &why);
        }
        None
    }

    /// Has `again` run behind the caller, unless too many wait.
    fn add(&self, again: impl Future<Output = bool> + Send + 'static) -> bool {
        let Ok(runtime) = Handle::try_current() else { return false };
        let mut tasks = self.waiting.tasks.lock();
        while tasks.try_join_next().is_some() {}
        let room = tasks.len() < self.tasks && !*self.waiting.hurry.borrow();
        if room {
            tasks.spawn_on(again, &runtime);
        }
        room
    }
}

/// A pause that is longer or shorter by up to a fifth.
fn varied(delay: Duration, random: u64) -> Duration {
    let part = u32::try_from(random % 401).unwrap_or_default();
    delay.checked_mul(800 + part).map_or(delay, |delay| delay / 1_000)
}

/// Tells the log of a call that is lost.
fn given_up(balancer: &LoadBalancer, attempts: u32, why: &str) {
    if let Some(passed) = balancer.service_state().logs().failback.pass() {
        let (service, suppressed) = (balancer.service_id(), passed.suppressed());
        tracing::warn!(%service, attempts, why, suppressed, "a call that failed is given up, and nobody waits for it");
    }
}
