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
use super::work::Paid;
use super::{Answered, CallError, Failfast, Strategy};
use crate::call::attempts::Judged;
use crate::{Choice, LoadBalancer, Outcome, Request};

/// A call that failed is made again behind its caller, who goes on without an answer: for messages that should arrive, and
/// may arrive twice.
///
/// The call is made once; if it fails, and not by a business error, it is made again up to 3 times, 5 s apart, more or less by
/// a fifth so that what failed together does not come back together. Each of these attempts takes from the retry budget of the
/// service (`retry.budget`), unless the one before was never sent; while there is nothing to take, it is put off, at most as
/// often as there are attempts. At most 100 calls wait so; what is beyond, and what fails to the end, is given up, which the
/// [log](crate::guide::observing#events) tells, whatever ended it.
///
/// Later attempts know the hint and the cost of the request and no more of it, since the caller's own is gone by then. Clones
/// share what waits. It ends with the last clone, which gives up what waits, or by [`shutdown`](Self::shutdown), which makes the
/// calls that wait at once and tells how many were given up.
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
    /// those that failed to the end, and those for which the retry budget had nothing left, included. Later calls are made once.
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
        let once = self.once.run(balancer, request, &classify, &mut send).await;
        let failed = match judge(once, &classify) {
            Ok(answered) => return Some(answered),
            Err(failed) => failed,
        };
        let hopeless = failed.hopeless;
        let lost = Lost { balancer: balancer.clone(), attempts: 1, failed, arrived: false };
        if hopeless || self.retries == 0 {
            return None;
        }
        let (hint, cost) = (request.hint().map(str::to_owned), request.cost());
        let (turns, once) = (self.turns(), self.once.clone());
        self.add(async move {
            let request = Request::EMPTY.with_cost(cost);
            let request = hint.as_deref().map_or(request, |hint| request.with_hint(hint));
            repeat(turns, &once, &request, &classify, send, lost).await
        });
        None
    }

    fn turns(&self) -> Turns {
        let hurry = self.waiting.hurry.subscribe();
        Turns { left: self.retries, put_off: self.retries, delay: self.delay, hurry }
    }

    /// Has `again` run behind the caller, unless too many wait.
    fn add(&self, again: impl Future<Output = bool> + Send + 'static) {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut tasks = self.waiting.tasks.lock();
        while tasks.try_join_next().is_some() {}
        if tasks.len() < self.tasks && !*self.waiting.hurry.borrow() {
            tasks.spawn_on(again, &runtime);
        }
    }
}

/// When a call is made again.
struct Turns {
    /// How many attempts it may still have.
    left: u32,
    /// How often an attempt may still be put off.
    put_off: u32,
    delay: Duration,
    hurry: watch::Receiver<bool>,
}

impl Turns {
    /// Waits for the next one, which is paid for; `None` if there is none.
    async fn next<'a>(&mut self, balancer: &'a LoadBalancer, after: &Failed) -> Option<Paid<'a>> {
        self.left = self.left.checked_sub(1)?;
        loop {
            tokio::select! {
                () = sleep(varied(self.delay, balancer.chance())) => {}
                _ = self.hurry.wait_for(|hurry| *hurry) => {}
            }
            if let Some(paid) = Paid::again(balancer, after.outcome, after.free) {
                return Some(paid);
            }
            // Nobody waits for a later turn of one that is in a hurry.
            self.put_off = self.put_off.checked_sub(1).filter(|_| !*self.hurry.borrow())?;
        }
    }
}

/// Makes the call until it arrives, which is what is said.
async fn repeat<R, E, J, S, F>(
    mut turns: Turns,
    once: &Failfast,
    request: &Request<'_>,
    classify: J,
    mut send: S,
    mut lost: Lost,
) -> bool
where
    E: fmt::Display,
    J: Fn(Result<&R, &E>) -> Outcome,
    S: FnMut(&Choice, Attempt) -> Option<F>,
    F: Future<Output = Result<R, E>>,
{
    let (balancer, protocol) = (lost.balancer.clone(), Judged(&classify));
    while let Some(paid) = turns.next(&balancer, &lost.failed).await {
        lost.begins();
        match judge(once.again(&balancer, request, &protocol, &mut send, paid).await, &classify) {
            Ok(answered) => {
                let outcome = classify(Ok(&answered.response));
                answered.lease.complete(outcome);
                lost.arrived = true;
                return true;
            }
            Err(failed) => lost.failed = failed,
        }
        if lost.failed.hopeless {
            break;
        }
    }
    false
}

/// How an attempt failed.
struct Failed {
    outcome: Outcome,
    /// Nobody has heard of it.
    free: bool,
    /// Another one would fail too.
    hopeless: bool,
    why: String,
}

/// A good answer, or what its absence means.
fn judge<R, E: fmt::Display>(
    result: Result<Answered<R>, CallError<E>>,
    classify: impl Fn(Result<&R, &E>) -> Outcome,
) -> Result<Answered<R>, Failed> {
    match result {
        Ok(answered) => {
            let outcome = classify(Ok(&answered.response));
            if !outcome.is_bad() {
                return Ok(answered);
            }
            answered.lease.complete(outcome);
            Err(Failed { outcome, free: false, hopeless: false, why: outcome.to_string() })
        }
        Err(error) => Err(Failed {
            outcome: error.outcomes().last().copied().unwrap_or(Outcome::Cancelled),
            free: error.is_unreached(),
            hopeless: error.is_business() || error.is_unsendable(),
            why: error.to_string(),
        }),
    }
}

/// A call that is lost, unless it arrives: too many may wait, its task may panic, or end with its runtime.
struct Lost {
    balancer: LoadBalancer,
    attempts: u32,
    /// The last of them.
    failed: Failed,
    arrived: bool,
}

impl Lost {
    /// Another attempt begins.
    fn begins(&mut self) {
        self.attempts = self.attempts.saturating_add(1);
        CUT_OFF.clone_into(&mut self.failed.why);
    }
}

/// Why a call is lost of which no attempt says why.
const CUT_OFF: &str = "an attempt was cut off";

impl Drop for Lost {
    fn drop(&mut self) {
        if self.arrived {
            return;
        }
        if let Some(passed) = self.balancer.service_state().logs().failback.pass() {
            let (service, attempts, why) =
                (self.balancer.service_id(), self.attempts, self.failed.why.as_str());
            let suppressed = passed.suppressed();
            tracing::warn!(%service, attempts, why, suppressed, "a call that failed is given up, and nobody waits for it");
        }
    }
}

/// A pause that is longer or shorter by up to a fifth.
fn varied(delay: Duration, random: u64) -> Duration {
    let part = u32::try_from(random % 401).unwrap_or_default();
    delay.checked_mul(800 + part).map_or(delay, |delay| delay / 1_000)
}
