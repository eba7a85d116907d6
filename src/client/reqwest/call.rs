//! One call: its attempts on the instances of a service, or the one request to a host.

use std::fmt;
use std::sync::Arc;

use ::reqwest::header::{COOKIE, HeaderMap};
use ::reqwest::{Request, Response, Url};
use tokio::time::Instant;

use super::client::Client;
use super::error::{Error, failure_of};
use super::hook::Incoming;
use super::instance::named;
use super::lease;
use super::options::{CallOptions, View};
use super::replay::{Ends, Replay};
use crate::call::{Answered, Protocol, call_first};
use crate::choice::{Anchor, outcome_of};
use crate::client::tls_name::NameError;
use crate::client::{Outgoing, Via};
use crate::{Choice, Failure, HttpView, InstanceState, LoadBalancer, Outcome, ServiceInstance};

/// Where a request goes.
pub(super) enum To {
    /// To its own host.
    Plain,
    /// To an instance of the service.
    Service(LoadBalancer),
    /// First to this one, by this scheme.
    Instance { balancer: LoadBalancer, state: Arc<InstanceState>, scheme: String },
}

impl To {
    pub(super) fn balancer(&self) -> Option<&LoadBalancer> {
        match self {
            Self::Plain => None,
            Self::Service(balancer) | Self::Instance { balancer, .. } => Some(balancer),
        }
    }
}

/// What came of a call, its lease still in hand.
pub(super) enum Answer {
    Plain(Response),
    Balanced(Answered<Response>),
}

impl Answer {
    pub(super) fn response(&self) -> &Response {
        match self {
            Self::Plain(response) => response,
            Self::Balanced(answered) => &answered.response,
        }
    }

    /// The instance that answered.
    pub(super) fn state(&self) -> Option<&Arc<InstanceState>> {
        match self {
            Self::Plain(_) => None,
            Self::Balanced(answered) => answered.lease.state(),
        }
    }

    /// The response for the caller, whose body holds the lease.
    pub(super) fn finish(self) -> Response {
        match self {
            Self::Plain(response) => response,
            Self::Balanced(answered) => {
                let via = Via::new(answered.instance, answered.attempts);
                lease::hold(answered.response, answered.lease, Some(via))
            }
        }
    }

    /// Nobody reads its body.
    pub(super) fn give_up(self) {
        if let Self::Balanced(answered) = self {
            let outcome = outcome_of(answered.response.status(), answered.response.headers());
            answered.lease.complete(outcome);
        }
    }
}

impl Client {
    /// Calls the service or the host, with the cookies of this client.
    pub(super) async fn call(
        &self,
        to: &To,
        replay: &mut Replay,
        ends: &Ends,
        options: &CallOptions,
    ) -> Result<Answer, Error> {
        let cookies = self.hooks().cookies_for(&replay.request);
        let lent = cookies.is_some();
        if let Some(cookies) = cookies {
            replay.request.headers_mut().insert(COOKIE, cookies);
        }
        let answered = self.send(to, replay, ends, options).await;
        if lent {
            // The next place may have others.
            replay.request.headers_mut().remove(COOKIE);
        }
        let mut answer = answered?;
        let url = replay.request.url();
        if let Answer::Balanced(Answered { response, instance, attempts, .. }) = &mut answer {
            let status = response.status();
            for hook in &*self.hooks().responses {
                let (attempts, headers) = (*attempts, response.headers_mut());
                hook.on_response(&mut Incoming { status, logical: url, instance, attempts, headers });
            }
        }
        self.hooks().keep(url, answer.response().headers());
        Ok(answer)
    }

    async fn send(
        &self,
        to: &To,
        replay: &Replay,
        ends: &Ends,
        options: &CallOptions,
    ) -> Result<Answer, Error> {
        match to {
            To::Plain => {
                // A first request always has its body, and a later one is made so that it has.
                let request =
                    replay.next().and_then(|request| ends.within(request)).ok_or_else(Error::late)?;
                let sent = self.plain().execute(request).await;
                sent.map(Answer::Plain).map_err(Error::plain)
            }
            To::Service(balancer) => self.balanced(balancer, None, replay, ends, options).await,
            To::Instance { balancer, state, scheme } => {
                let first = Anchor::new(Arc::clone(state), options.cost());
                self.balanced(balancer, Some((first, scheme)), replay, ends, options).await
            }
        }
    }

    async fn balanced(
        &self,
        balancer: &LoadBalancer,
        first: Option<(Anchor, &str)>,
        replay: &Replay,
        ends: &Ends,
        options: &CallOptions,
    ) -> Result<Answer, Error> {
        let original = &replay.request;
        let (method, url) = (original.method(), original.url().as_str());
        let (first, scheme) = match first {
            Some((first, scheme)) => (Some(first), scheme),
            None => (None, original.url().scheme()),
        };
        let view = View { http: HttpView::with_text(method, url, original.headers()), options };
        let calls = balancer.calls();
        let aim = |choice: &Choice, instance: &ServiceInstance| {
            let at = choice.state().scheme_for(Some(scheme)).map_err(Attempt::Target)?;
            let client = self.client(balancer, choice, instance, &calls).map_err(Attempt::Reqwest)?;
            let untouched = !self.transformers().have_work(&calls);
            let aimed = if untouched { client.aim(&at, original.url()) } else { None };
            Ok((client, aimed))
        };
        let shape = |choice: &Choice, instance: &ServiceInstance, request: &mut Request| {
            let target = choice.target(Some(scheme)).map_err(Attempt::Target)?;
            let target = named(target, instance, &calls).map_err(Attempt::Name)?;
            let outgoing = Outgoing::new(method, url, target.rewrite(url), request.headers_mut());
            let at = self.transformers().apply(&calls, outgoing, instance);
            *request.url_mut() =
                Url::parse(&at).map_err(|error| Attempt::Url(at.clone(), error.to_string()))?;
            Ok(())
        };
        let send = |choice: &Choice, _: u32| {
            let instance = choice.instance();
            let prepared = match aim(choice, &instance) {
                Err(error) => {
                    // Of a call that could not be sent anyway, what came before says more.
                    ends.within(replay.next()?)?;
                    Err(error)
                }
                Ok((client, aimed)) => {
                    let is_aimed = aimed.is_some();
                    let mut request = ends.within(replay.next_to(aimed)?)?;
                    let shaped = if is_aimed { Ok(()) } else { shape(choice, &instance, &mut request) };
                    shaped.map(|()| (client, request))
                }
            };
            Some(async move {
                let (client, request) = prepared?;
                client.client.execute(request).await.map_err(Attempt::Reqwest)
            })
        };
        let answered = call_first(balancer, &view.request(), &Http(ends), first, send).await;
        answered.map(Answer::Balanced).map_err(Error::call)
    }
}

/// What reqwest's responses and errors mean, and when the time of the call is up.
struct Http<'a>(&'a Ends);

impl Protocol<Response, Attempt> for Http<'_> {
    fn outcome(&self, result: Result<&Response, &Attempt>) -> Outcome {
        match result {
            Ok(response) => outcome_of(response.status(), response.headers()),
            // Nothing was sent, and the instance has no part in it.
            Err(Attempt::Target(_) | Attempt::Url(..)) => Outcome::Cancelled,
            Err(Attempt::Reqwest(error)) if error.is_builder() => Outcome::Cancelled,
            // Its entry is wrong, and another one's may be right.
            Err(Attempt::Name(_)) => Outcome::Failure(Failure::Connect),
            Err(Attempt::Reqwest(error)) => Outcome::Failure(failure_of(error)),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.end()
    }

    fn headers(&self, response: &Response) -> HeaderMap {
        response.headers().clone()
    }
}

/// What can go wrong in one attempt.
#[derive(Debug)]
pub(super) enum Attempt {
    Reqwest(::reqwest::Error),
    Target(crate::TargetError),
    Url(String, String),
    Name(NameError),
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reqwest(error) => error.fmt(f),
            Self::Target(error) => error.fmt(f),
            Self::Url(url, why) => write!(f, "{url:?} is no URL: {why}"),
            Self::Name(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Attempt {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // The text is reqwest's own; its cause is the next one.
            Self::Reqwest(error) => error.source(),
            Self::Target(_) | Self::Url(..) | Self::Name(_) => None,
        }
    }
}
