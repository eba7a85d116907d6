use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use http::HeaderMap;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use super::busy::{Busy, MAX_WAIT, wait};
use super::error::CallError;
use super::plan::{Plan, Step};
use super::running::Running;
use super::visited::Visited;
use crate::balancer::CallSettings;
use crate::choice::Anchor;
use crate::future::within;
use crate::request::Propagated;
use crate::state::RetryThrottle;
use crate::{Choice, ChooseError, Failure, Lease, LoadBalancer, Outcome, Request, ServiceInstance, Tried};

/// A response, with the lease under which it came.
#[derive(Debug)]
pub struct Answered<R> {
    /// The response.
    pub response: R,
    /// The lease: [`track`](Lease::track) or [`complete`](Lease::complete) it.
    pub lease: Lease,
    /// The instance that answered.
    pub instance: ServiceInstance,
    /// How many attempts were made, this one included.
    pub attempts: u32,
}

/// What the attempts of a call need to know of its protocol.
pub trait Protocol<R, E> {
    /// What an attempt's end says of its instance. An error that says nothing of it, since nothing was even tried, is
    /// [`Outcome::Cancelled`].
    fn outcome(&self, result: Result<&R, &E>) -> Outcome;

    /// The headers of a response, for lifecycle processors and policies that go by reports of load; asked only if there are
    /// some (default: none).
    fn headers(&self, response: &R) -> HeaderMap {
        let _ = response;
        HeaderMap::new()
    }

    /// What the server says of further attempts beside the outcome, as gRPC's `grpc-retry-pushback-ms` does (default:
    /// nothing); asked after each attempt that has left a response or an error.
    fn push_back(&self, result: Result<&R, &E>) -> PushBack {
        let _ = result;
        PushBack::None
    }

    /// Whether a call that ended so may be repeated, whatever the properties say of methods, statuses and errors (default:
    /// they decide). How often, and out of which budget, is theirs in any case. `outcome` is what [`outcome`](Self::outcome)
    /// made of `result`, which is `None` for an attempt that was dropped when `retry.per-try-timeout` was up.
    /// [Strategies](crate::call::Strategy) do not ask.
    fn is_retryable(&self, result: Option<Result<&R, &E>>, outcome: Outcome) -> Option<bool> {
        let _ = (result, outcome);
        None
    }

    /// To how many other instances a call goes that was never sent, whatever the properties say (default: 1). It ends in any
    /// case when all have been tried. [Strategies](crate::call::Strategy) do not ask.
    fn unsent_goes_to(&self) -> u32 {
        1
    }

    /// When the time of the call is up, if it has a limit (default: none); asked after each attempt. No other attempt
    /// begins then, and no pause and no look-up before one is waited for beyond it: the caller gets what there is.
    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// What a server says of further attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushBack {
    /// Nothing.
    #[default]
    None,
    /// The next one may come after so long, wherever it goes.
    After(Duration),
    /// There must be none.
    Never,
}

impl PushBack {
    /// How long the next attempt has to wait.
    pub(super) const fn pause(self) -> Option<Duration> {
        match self {
            Self::After(pause) => Some(pause),
            Self::None | Self::Never => None,
        }
    }

    /// Whether there is none: it is not allowed, or later than anybody waits.
    fn forbids(self) -> bool {
        self == Self::Never || self.pause().is_some_and(|pause| pause > MAX_WAIT)
    }
}

/// A protocol that is a closure.
pub(super) struct Judged<J>(pub(super) J);

impl<R, E, J: Fn(Result<&R, &E>) -> Outcome> Protocol<R, E> for Judged<J> {
    fn outcome(&self, result: Result<&R, &E>) -> Outcome {
        (self.0)(result)
    }
}

/// Sends a call to an instance, and again as the [`RetryProperties`](crate::config::RetryProperties) of the service allow.
///
/// `classify` says what a response or an error means ([`Protocol::outcome`]). `send` makes an attempt, the first, second and
/// so on; it gives `None` when the call cannot be repeated: a body that is gone, no time left. Then, and when retries are
/// used up, the caller gets the last response or error, untouched. So it is when the time of the call is up
/// ([`Protocol::deadline`]). An attempt that takes longer than `retry.per-try-timeout` is dropped, and counts as
/// [`Failure::Timeout`] of its instance; if no other follows, the error [says so](CallError::is_timeout).
///
/// - **Never sent** ([`Failure::Connect`]): it goes once to another instance, whatever its method. The instance is skipped
///   with growing back-off, and a look-up starts behind the call.
/// - **A retryable failure or status** of a safe method (GET, HEAD, OPTIONS; all of them with `retry-on-all-operations`):
///   again on the same instance if `max-retries-on-same-service-instance` says so, then on another one while one is left.
/// - Anything else is the caller's.
///
/// An instance that asks to come again later ([`Outcome::RetryAfter`]) is not asked before that; another one is, at once. Only
/// where there is none it is waited for, up to 10 s. What a [`PushBack`] says holds for all of them, and in place of the pause of the properties.
///
/// Each attempt runs in a `tracing` span with OpenTelemetry's names (see the [guide](crate::guide::observing)), and the
/// [`Lifecycle`](crate::observe::Lifecycle) processors of the service hear of everything.
///
/// ```
/// use evenkeel::call::call;
/// use evenkeel::{Choice, Failure, LoadBalancer, Outcome, Request, ServiceInstance};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let orders = LoadBalancer::fixed("orders", [ServiceInstance::new("a.test", 80)?, ServiceInstance::new("b.test", 80)?])?;
/// let send = |choice: &Choice, _attempt: u32| {
///     let host = choice.instance().host().to_owned();
///     Some(async move {
///         // Where a real one would connect.
///         if host == "a.test" { Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)) } else { Ok("hello") }
///     })
/// };
/// let classify = |result: Result<&&str, &std::io::Error>| match result {
///     Ok(_) => Outcome::Success,
///     Err(_) => Outcome::Failure(Failure::Connect),
/// };
/// for _ in 0..10 {
///     let answer = call(&orders, &Request::EMPTY, classify, send).await?;
///     assert_eq!(answer.response, "hello");
///     answer.lease.complete(Outcome::Success);
/// }
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`CallError`], which names the instances that were tried.
pub async fn call<R, E, F, S>(
    balancer: &LoadBalancer,
    request: &Request<'_>,
    classify: impl Fn(Result<&R, &E>) -> Outcome,
    send: S,
) -> Result<Answered<R>, CallError<E>>
where
    E: fmt::Display,
    S: FnMut(&Choice, u32) -> Option<F>,
    F: Future<Output = Result<R, E>>,
{
    call_with(balancer, request, &Judged(classify), send).await
}

/// What an attempt left: the caller gets it, if no other follows.
enum Last<R, E> {
    Response(R),
    Error(E),
    /// Nothing, in its time.
    Late,
}

impl<R, E> Last<R, E> {
    /// What came of an attempt in its time.
    fn of(result: Option<Result<R, E>>) -> Self {
        match result {
            Some(Ok(response)) => Self::Response(response),
            Some(Err(error)) => Self::Error(error),
            None => Self::Late,
        }
    }

    fn result(&self) -> Option<Result<&R, &E>> {
        match self {
            Self::Response(response) => Some(Ok(response)),
            Self::Error(error) => Some(Err(error)),
            Self::Late => None,
        }
    }
}

/// [`call`] for a [`Protocol`].
///
/// # Errors
/// [`CallError`], which names the instances that were tried.
pub fn call_with<R, E, F, S>(
    balancer: &LoadBalancer,
    request: &Request<'_>,
    protocol: &impl Protocol<R, E>,
    send: S,
) -> impl Future<Output = Result<Answered<R>, CallError<E>>>
where
    E: fmt::Display,
    S: FnMut(&Choice, u32) -> Option<F>,
    F: Future<Output = Result<R, E>>,
{
    call_first(balancer, request, protocol, None, send)
}

/// The same, whose first attempt goes to an instance that somebody named, if somebody did.
#[expect(
    clippy::manual_async_fn,
    reason = "the future of an `async fn` has room for each argument twice, and is moved"
)]
pub(crate) fn call_first<R, E, F, S>(
    balancer: &LoadBalancer,
    request: &Request<'_>,
    protocol: &impl Protocol<R, E>,
    first: Option<Anchor>,
    mut send: S,
) -> impl Future<Output = Result<Answered<R>, CallError<E>>>
where
    E: fmt::Display,
    S: FnMut(&Choice, u32) -> Option<F>,
    F: Future<Output = Result<R, E>>,
{
    async move {
        // What is handed on counts before an instance is chosen.
        let propagated = Propagated::current();
        let over = propagated.over(*request);
        let with_propagated = request.with_view(&over);
        let request = if propagated.is_empty() { request } else { &with_propagated };
        let service = balancer.service_id();
        let calls = balancer.calls();
        let running = Running::start(service, &calls, request);
        let adaptive = &calls.retry.adaptive_throttle;
        let throttle = adaptive
            .enabled
            .then(|| balancer.service_state().adaptive_throttle(adaptive.k, adaptive.window, adaptive.floor));
        if throttle.as_ref().is_some_and(|throttle| !throttle.admits(balancer.chance())) {
            let error = CallError::throttled(service);
            running.fail(&error);
            return Err(error);
        }
        let (result, outcome) =
            attempts(balancer, request, protocol, first, &mut send, &calls, running).await;
        // A call that reached nobody says nothing of the service.
        if let (Some(throttle), Some(outcome)) = (throttle, outcome)
            && outcome != Outcome::Cancelled
        {
            throttle.ended(!outcome.is_bad());
        }
        result
    }
}

/// The attempts of a call that may be made, and how the last of them ended.
#[expect(clippy::manual_async_fn, reason = "as above")]
fn attempts<R, E, F, S>(
    balancer: &LoadBalancer,
    request: &Request<'_>,
    protocol: &impl Protocol<R, E>,
    // Where the next attempt goes, if it is to go to a certain instance.
    mut again: Option<Anchor>,
    send: &mut S,
    calls: &CallSettings,
    mut running: Running,
) -> impl Future<Output = (Result<Answered<R>, CallError<E>>, Option<Outcome>)>
where
    E: fmt::Display,
    S: FnMut(&Choice, u32) -> Option<F>,
    F: Future<Output = Result<R, E>>,
{
    async move {
        let service = balancer.service_id();
        let retry = &calls.retry;
        let throttle = retry_throttle(balancer, calls);
        let mut ended: Option<Outcome> = None;
        let mut busy = Busy::default();
        let mut plan = Plan::new(retry, request.method()).with_unsent(protocol.unsent_goes_to());
        if retry.enabled {
            balancer.service_state().deposit();
        }
        let mut tried = request.tried().cloned().unwrap_or_default();
        // Of those: the instances to which nothing could be sent.
        let mut dead = Tried::new();
        let mut visited = Visited::default();
        // Of an attempt after which another one follows, which is seldom: then it has a place of its own.
        let mut last: Option<Box<Last<R, E>>> = None;
        let mut unreached = false;
        loop {
            let same = again.is_some();
            let mut choice = if let Some(same) = again.take() {
                same.lease()
            } else {
                let avoiding = request.with_tried(&tried);
                let wanted = if retry.avoid_previous_instance || unreached { &avoiding } else { request };
                let end = protocol.deadline().filter(|_| last.is_some());
                match choose_free(balancer, wanted, &busy, &dead, end).await {
                    // Nobody else is left: it was just not reached.
                    Some(Ok(choice)) if unreached && dead.has(&choice) => {
                        return (finish(running, balancer, visited, unboxed(last)), ended);
                    }
                    Some(Ok(choice)) => choice,
                    Some(Err(error)) if last.is_none() => {
                        running.fail(&error);
                        return (Err(CallError::choose(error)), ended);
                    }
                    // What happened to the call says more than that there is nobody else, or no time.
                    _ => return (finish(running, balancer, visited, unboxed(last)), ended),
                }
            };
            choice.hush();
            let Some(choice) = patient(choice, &busy, protocol.deadline()).await else {
                return (finish(running, balancer, visited, unboxed(last)), ended);
            };
            // A pause or a look-up may have taken what was left.
            let late = last.is_some() && protocol.deadline().is_some_and(|end| end <= Instant::now());
            let number = running.attempts.saturating_add(1);
            let Some(attempt) = (if late { None } else { send(&choice, number) }) else {
                drop(choice);
                return (finish(running, balancer, visited, unboxed(last)), ended);
            };
            tried.add(&choice);
            let instance = choice.instance();
            let span = span(balancer, request, &instance, number);
            running.begin(choice, request);
            visited.add(instance);
            if let Some(meters) = calls.meters.as_ref().filter(|_| number > 1) {
                meters.retried(same);
            }
            // The response of the attempt before, if that is what is repeated, is given up now.
            drop(last.take());
            let end = retry.per_try_timeout.and_then(|limit| Instant::now().checked_add(limit));
            let pause = {
                let left = Last::of(within(end, pin!(attempt.instrument(span))).await);
                let result = left.result();
                let outcome =
                    result.map_or(Outcome::Failure(Failure::Timeout), |result| protocol.outcome(result));
                let push_back = result.map_or(PushBack::None, |result| protocol.push_back(result));
                let may = protocol.is_retryable(result, outcome);
                if let Last::Response(response) = &left {
                    running.answered(outcome, || protocol.headers(response));
                }
                ended = Some(outcome);
                if let Some(throttle) = &throttle {
                    throttle.hear(outcome);
                }
                let pause = push_back.pause().or_else(|| plan.pause(|| balancer.chance()));
                // Before the budget is asked: what is not repeated costs nothing.
                let step = if push_back.forbids() || is_late(protocol.deadline(), pause) {
                    Step::Stop
                } else {
                    plan.after(outcome, may, || withdraw(balancer, calls, outcome, throttle.as_ref()))
                };
                unreached = outcome == Outcome::Failure(Failure::Connect);
                if let Some(choice) = running.open() {
                    if unreached {
                        dead.add(choice);
                    }
                    busy.hear(choice.state().uid(), outcome);
                    again = (step == Step::Same).then(|| choice.anchor());
                }
                if !matches!(left, Last::Response(_)) {
                    running.end(outcome);
                }
                if step == Step::Stop {
                    return (finish(running, balancer, visited, Some(left)), ended);
                }
                last = Some(Box::new(left));
                running.paid = step == Step::Same || !unreached;
                tracing::debug!(%service, attempt = number, %outcome, same_instance = step == Step::Same, "a call is repeated");
                pause
            };
            if let Some(pause) = pause {
                Box::pin(tokio::time::sleep(pause)).await;
            }
        }
    }
}

/// What is seldom there, out of its place.
fn unboxed<T>(value: Option<Box<T>>) -> Option<T> {
    value.map(|value| *value)
}

/// Whether nothing is left of the time of a call after this pause.
fn is_late(end: Option<Instant>, pause: Option<Duration>) -> bool {
    end.is_some_and(|end| end.saturating_duration_since(Instant::now()) <= pause.unwrap_or_default())
}

/// The throttle of retries that the properties ask for.
pub(super) fn retry_throttle(balancer: &LoadBalancer, calls: &CallSettings) -> Option<RetryThrottle> {
    let throttle = &calls.retry.throttle;
    throttle
        .enabled
        .then(|| balancer.service_state().retry_throttle(throttle.max_tokens, throttle.token_ratio))
}

/// Takes a retry from the budget of the service, if one is left and the throttle permits it.
pub(super) fn withdraw(
    balancer: &LoadBalancer,
    calls: &CallSettings,
    outcome: Outcome,
    throttle: Option<&RetryThrottle>,
) -> bool {
    if throttle.is_some_and(|throttle| !throttle.permits()) {
        if let Some(meters) = &calls.meters {
            meters.refused();
        }
        return false;
    }
    let (service, budget) = (balancer.service_state(), &calls.retry.budget);
    let left = service.withdraw(budget.percent, budget.min_per_second);
    if !left {
        if let Some(meters) = &calls.meters {
            meters.refused();
        }
        if let Some(passed) = service.logs().budget.pass() {
            let (service, suppressed) = (balancer.service_id(), passed.suppressed());
            tracing::warn!(%service, %outcome, suppressed, "a call is not repeated: the budget of retries is used up");
        }
    }
    left
}

/// An instance that may be asked now, if there is one, rather than one of these that want to be left alone.
async fn choose_free(
    balancer: &LoadBalancer,
    wanted: &Request<'_>,
    busy: &Busy,
    dead: &Tried,
    end: Option<Instant>,
) -> Option<Result<Choice, ChooseError>> {
    let chosen = choose(balancer, wanted, end).await;
    let Some(Ok(choice)) = &chosen else { return chosen };
    if busy.until(choice).is_none() {
        return chosen;
    }
    // All were tried, or the policy returns to one that was: then better to one that does not have to be waited for.
    let mut avoid = dead.clone();
    busy.add_to(&mut avoid);
    match Box::pin(choose(balancer, &wanted.with_tried(&avoid), end)).await {
        Some(Ok(other)) if !avoid.has(&other) => Some(Ok(other)),
        _ => chosen,
    }
}

/// An instance; `None` if it takes until `end`. Whoever makes a call tells of its attempts itself, so its lease tells nobody.
pub(super) async fn choose(
    balancer: &LoadBalancer,
    request: &Request<'_>,
    end: Option<Instant>,
) -> Option<Result<Choice, ChooseError>> {
    let chosen = balancer.choose(request);
    let mut chosen = match end {
        None => Some(chosen.await),
        Some(end) => Box::pin(timeout_at(end, chosen)).await.ok(),
    };
    if let Some(Ok(choice)) = &mut chosen {
        choice.hush();
    }
    chosen
}

/// `choice`, once its instance may be asked; `None` if that takes too long.
async fn patient(choice: Choice, busy: &Busy, end: Option<Instant>) -> Option<Choice> {
    let Some(until) = busy.until(&choice) else { return Some(choice) };
    let too_long = until.saturating_duration_since(Instant::now()) > MAX_WAIT;
    if too_long || end.is_some_and(|end| end <= until) {
        return None;
    }
    Some(Box::pin(wait(choice, until)).await)
}

/// Gives the caller what there is.
fn finish<R, E: fmt::Display>(
    running: Running,
    balancer: &LoadBalancer,
    mut visited: Visited,
    last: Option<Last<R, E>>,
) -> Result<Answered<R>, CallError<E>> {
    let service = balancer.service_id();
    let attempts = running.attempts;
    if running.paid {
        balancer.service_state().give_back();
    }
    match last {
        Some(Last::Response(response)) => match (running.into_lease(), visited.take_last()) {
            (Some(lease), Some(instance)) => Ok(Answered { response, lease, instance, attempts }),
            // A response always comes with its open attempt.
            _ => Err(CallError::unsendable(service)),
        },
        Some(Last::Error(error)) => {
            running.fail(&error);
            Err(CallError::call(service, visited.into(), error))
        }
        Some(Last::Late) => {
            let error = CallError::late(service, visited.into());
            running.fail(&error);
            Err(error)
        }
        None => {
            let error = CallError::unsendable(service);
            running.fail(&error);
            Err(error)
        }
    }
}

/// The span of an attempt, in OpenTelemetry's names: the service as the server's address, the instance as the peer.
pub(super) fn span(
    balancer: &LoadBalancer,
    request: &Request<'_>,
    instance: &ServiceInstance,
    attempt: u32,
) -> tracing::Span {
    let span = tracing::info_span!(
        target: "evenkeel::call",
        "attempt",
        otel.kind = "client",
        server.address = %balancer.service_id(),
        network.peer.address = instance.host(),
        network.peer.port = tracing::field::Empty,
        http.request.method = tracing::field::Empty,
        http.request.resend_count = tracing::field::Empty,
    );
    if !span.is_disabled() {
        if let Some(port) = instance.port() {
            span.record("network.peer.port", port);
        }
        if let Some(method) = request.method() {
            span.record("http.request.method", method);
        }
        if attempt > 1 {
            span.record("http.request.resend_count", attempt - 1);
        }
    }
    span
}
