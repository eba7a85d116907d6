//! What the attempts of one call share, however a strategy sends them.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::Instrument;

use super::limits::{Attempt, Limits};
use super::story::{Open, Story};
use crate::balancer::CallSettings;
use crate::call::attempts::{choose, retry_throttle, span, withdraw};
use crate::call::{Answered, CallError, Protocol, PushBack, RetryThrottle};
use crate::future::within;
use crate::{Choice, ChooseError, Failure, LoadBalancer, Outcome, Request, ServiceInstance, Tried};

/// A call on its way.
pub(super) struct Work<'a, P> {
    pub(super) balancer: &'a LoadBalancer,
    request: &'a Request<'a>,
    protocol: &'a P,
    limits: &'a Limits,
    throttle: Option<RetryThrottle>,
    pub(super) calls: Arc<CallSettings>,
    story: Story,
    tried: Tried,
    ended: Vec<(ServiceInstance, Outcome)>,
    begun: u32,
    end: Option<Instant>,
}

/// What an attempt left.
pub(super) enum Left<R, E> {
    Response(R),
    Error(E),
    /// Nothing, in its time.
    Late,
}

/// An attempt that is over; the lease of a response is still open.
pub(super) struct Landed<R, E> {
    pub(super) number: u32,
    pub(super) outcome: Outcome,
    pub(super) took: Duration,
    pub(super) push_back: PushBack,
    uid: u64,
    instance: ServiceInstance,
    open: Open,
    left: Left<R, E>,
}

/// What it means for the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is the answer.
    Good,
    /// It failed, and another one may do better.
    Bad,
    /// It failed for a reason that lies in the call: the same would happen everywhere, or it must not happen twice.
    Fatal,
}

impl<R, E> Landed<R, E> {
    pub(super) fn verdict(&self) -> Verdict {
        match self.left {
            _ if self.outcome.is_bad() && self.push_back == PushBack::Never => Verdict::Fatal,
            _ if self.outcome.is_bad() => Verdict::Bad,
            Left::Response(_) => Verdict::Good,
            Left::Error(_) | Left::Late => Verdict::Fatal,
        }
    }

    /// Of its instance.
    pub(super) const fn uid(&self) -> u64 {
        self.uid
    }

    pub(super) const fn is_response(&self) -> bool {
        matches!(self.left, Left::Response(_))
    }

    pub(super) fn never_sent(&self) -> bool {
        self.outcome == Outcome::Failure(Failure::Connect)
    }

    /// Until when no other attempt may begin, wherever it goes.
    pub(super) const fn pause(&self) -> Option<Duration> {
        self.push_back.pause()
    }
}

/// An attempt that the budget paid for: dropped before it began, it is given back.
pub(super) struct Paid<'a>(Option<&'a LoadBalancer>);

impl<'a> Paid<'a> {
    /// Takes one more attempt, after one that ended so, from what throttle and budget allow. `free`: that one was never sent,
    /// so that neither its failure nor its repetition is load.
    fn take(
        balancer: &'a LoadBalancer,
        calls: &CallSettings,
        throttle: Option<&RetryThrottle>,
        outcome: Outcome,
        free: bool,
    ) -> Option<Self> {
        let paid = free || withdraw(balancer, calls, outcome, throttle);
        paid.then(|| Self((!free).then_some(balancer)))
    }

    /// The same for a call that was over, and is made again.
    pub(super) fn again(balancer: &'a LoadBalancer, outcome: Outcome, free: bool) -> Option<Self> {
        let calls = balancer.calls();
        Self::take(balancer, &calls, retry_throttle(balancer, &calls).as_ref(), outcome, free)
    }

    /// It began.
    pub(super) fn spent(mut self) {
        self.0 = None;
    }
}

impl Drop for Paid<'_> {
    fn drop(&mut self) {
        if let Some(balancer) = self.0 {
            balancer.service_state().give_back();
        }
    }
}

impl<'a, P> Work<'a, P> {
    pub(super) fn start(
        balancer: &'a LoadBalancer,
        request: &'a Request<'a>,
        protocol: &'a P,
        limits: &'a Limits,
    ) -> Self {
        balancer.service_state().deposit();
        Self::again(balancer, request, protocol, limits)
    }

    /// The same for a call that is made again: it adds nothing to the budget, from which somebody took it.
    pub(super) fn again(
        balancer: &'a LoadBalancer,
        request: &'a Request<'a>,
        protocol: &'a P,
        limits: &'a Limits,
    ) -> Self {
        let calls = balancer.calls();
        Self {
            throttle: limits.throttle.clone().or_else(|| retry_throttle(balancer, &calls)),
            story: Story::start(balancer.service_id(), &calls, request),
            tried: request.tried().cloned().unwrap_or_default(),
            end: limits.timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            ended: Vec::new(),
            begun: 0,
            balancer,
            request,
            protocol,
            limits,
            calls,
        }
    }

    /// An instance that was not tried, as long as one is left; `None` if its time is up first.
    pub(super) async fn choose<R, E>(&self) -> Option<Result<Choice, ChooseError>>
    where
        P: Protocol<R, E>,
    {
        if self.is_late(Duration::ZERO) {
            // An attempt that begins now would blame its instance for the time that others took.
            return None;
        }
        if let Some(mut choice) = self.kept() {
            choice.hush();
            return Some(Ok(choice));
        }
        self.choose_but(&self.tried).await
    }

    /// The instance that answered the call before, for the first attempt.
    fn kept(&self) -> Option<Choice> {
        let sticky = self.limits.sticky.as_ref().filter(|_| self.begun == 0)?;
        sticky.kept(self.balancer, self.request).filter(|choice| !self.tried.has(choice))
    }

    /// An instance that is not among these, as long as one is left.
    pub(super) async fn choose_but<R, E>(&self, tried: &Tried) -> Option<Result<Choice, ChooseError>>
    where
        P: Protocol<R, E>,
    {
        let avoiding = self.request.with_tried(tried);
        // A first attempt turns the wheel of first attempts.
        let wanted = if tried.is_empty() { self.request } else { &avoiding };
        choose(self.balancer, wanted, self.deadline()).await
    }

    /// An instance that was not tried, from the list at hand.
    pub(super) fn another(&self) -> Option<Choice> {
        let mut choice = self.balancer.try_choose(&self.request.with_tried(&self.tried)).ok()?;
        choice.hush();
        (!self.tried.has(&choice)).then_some(choice)
    }

    pub(super) fn deadline<R, E>(&self) -> Option<Instant>
    where
        P: Protocol<R, E>,
    {
        self.protocol.deadline().into_iter().chain(self.end).min()
    }

    /// Whether the call has no time left after so long.
    pub(super) fn is_late<R, E>(&self, pause: Duration) -> bool
    where
        P: Protocol<R, E>,
    {
        self.deadline().is_some_and(|end| end.saturating_duration_since(Instant::now()) <= pause)
    }

    /// Begins an attempt; `None` if `send` cannot make one. The future owns the lease: dropped, it ends it.
    pub(super) fn begin<R, E, S, F>(
        &mut self,
        choice: Choice,
        send: &mut S,
    ) -> Option<impl Future<Output = Landed<R, E>> + use<'a, P, R, E, S, F>>
    where
        P: Protocol<R, E>,
        S: FnMut(&Choice, Attempt) -> Option<F>,
        F: Future<Output = Result<R, E>>,
    {
        let now = Instant::now();
        let own = self.limits.per_try_timeout.and_then(|limit| now.checked_add(limit));
        let deadline = self.deadline().into_iter().chain(own).min();
        let number = self.begun.saturating_add(1);
        let future = send(&choice, Attempt { number, deadline })?;
        self.begun = number;
        self.tried.add(&choice);
        if let Some(meters) = self.calls.meters.as_ref().filter(|_| number > 1) {
            meters.retried(false);
        }
        let (uid, instance) = (choice.state().uid(), choice.instance());
        let future = future.instrument(span(self.balancer, self.request, &instance, number));
        let mut open = self.story.begin(choice, &instance, number, self.request);
        let protocol = self.protocol;
        Some(async move {
            let result = within(deadline, future).await;
            let took = now.elapsed();
            let outcome = match &result {
                Some(result) => protocol.outcome(result.as_ref()),
                None => Outcome::Failure(Failure::Timeout),
            };
            let push_back =
                result.as_ref().map_or(PushBack::None, |result| protocol.push_back(result.as_ref()));
            let left = match result {
                Some(Ok(response)) => {
                    open.answered(outcome, || protocol.headers(&response));
                    Left::Response(response)
                }
                Some(Err(error)) => {
                    open.end(outcome);
                    Left::Error(error)
                }
                None => {
                    open.end(outcome);
                    Left::Late
                }
            };
            Landed { number, outcome, took, push_back, uid, instance, open, left }
        })
    }

    /// Writes down how an attempt ended, and tells the throttle.
    pub(super) fn landed<R, E>(&mut self, landed: &Landed<R, E>) {
        self.ended.push((landed.instance.clone(), landed.outcome));
        if let Some(throttle) = &self.throttle {
            throttle.hear(landed.outcome);
        }
        if let Some(sticky) =
            self.limits.sticky.as_ref().filter(|_| landed.outcome.is_answer() && !landed.outcome.is_bad())
        {
            sticky.keep(self.balancer, landed.uid);
        }
    }

    /// Pays for one more attempt, after one that ended so, if throttle and budget allow it.
    pub(super) fn pay(&self, outcome: Outcome, free: bool) -> Option<Paid<'a>> {
        Paid::take(self.balancer, &self.calls, self.throttle.as_ref(), outcome, free)
    }

    /// Waits until there is a list that may be served; `None` if its time is up first.
    pub(super) async fn listed<R, E>(&self) -> Option<Result<(), ChooseError>>
    where
        P: Protocol<R, E>,
    {
        if self.is_late(Duration::ZERO) {
            return None;
        }
        within(self.deadline(), self.balancer.ready()).await
    }

    /// Tells the log that the call is sent again.
    pub(super) fn repeats<R, E>(&self, landed: &Landed<R, E>) {
        let (service, attempt, outcome) = (self.balancer.service_id(), landed.number, landed.outcome);
        tracing::debug!(%service, attempt, %outcome, same_instance = false, "a call is repeated");
    }

    /// Gives the caller what an attempt left: a response with its lease, or the error.
    pub(super) fn give<R, E: fmt::Display>(
        mut self,
        landed: Landed<R, E>,
    ) -> Result<Answered<R>, CallError<E>> {
        let service = self.balancer.service_id();
        let Landed { instance, open, left, .. } = landed;
        match left {
            Left::Response(response) => match self.story.lease(open, true) {
                Some(lease) => Ok(Answered { response, lease, instance, attempts: self.begun }),
                // A response always comes with its open attempt.
                None => Err(CallError::unsendable(service)),
            },
            Left::Error(error) => {
                self.story.fail(&error);
                Err(CallError::ended(service, self.ended, Some(error)))
            }
            Left::Late => {
                let error = CallError::ended(service, self.ended, None);
                self.story.fail(&error);
                Err(error)
            }
        }
    }

    /// The response of one of several attempts whose answers all count; `whole`: the call ends with it.
    pub(super) fn keep<R, E>(&mut self, landed: Landed<R, E>, whole: bool) -> Option<Answered<R>> {
        let Landed { instance, open, left, number, .. } = landed;
        let Left::Response(response) = left else { return None };
        let lease = self.story.lease(open, whole)?;
        Some(Answered { response, lease, instance, attempts: number })
    }

    /// The call ends without a further attempt: nothing to choose, or no time for it.
    pub(super) fn nothing<R, E: fmt::Display>(
        self,
        chosen: Option<ChooseError>,
    ) -> Result<Answered<R>, CallError<E>> {
        let error = match chosen {
            Some(error) => CallError::choose(error),
            None => CallError::ended(self.balancer.service_id(), self.ended, None),
        };
        self.story.fail(&error);
        Err(error)
    }

    /// The call ends since it could not be made into a request.
    pub(super) fn unsendable<R, E: fmt::Display>(self) -> Result<Answered<R>, CallError<E>> {
        let error = CallError::unsendable(self.balancer.service_id());
        self.story.fail(&error);
        Err(error)
    }

    pub(super) const fn max_push_back(&self) -> Duration {
        self.limits.max_push_back
    }
}
