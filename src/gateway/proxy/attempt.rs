//! The attempts of one call to the service of a route.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::HOST;
use http::request::Parts;
use http::uri::{Authority, Scheme};
use http::{HeaderMap, Response, Uri};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use tokio::time::timeout;

use super::body::RequestBody;
use super::view::View;
use super::{Wire, headers};
use crate::balancer::CallSettings;
use crate::call::{Answered, CallError, Protocol, call_with};
use crate::choice::outcome_of;
use crate::client::Outgoing;
use crate::client::pool::Pools;
use crate::client::returning::{Home, Returning};
use crate::client::tower::{Attempt, aim};
use crate::client::transform::Transformers;
use crate::gateway::filter::Retry;
use crate::gateway::proxy::dial::Dial;
use crate::{Choice, LoadBalancer, LoadBalancers, Outcome, Request, Tried};

pub(super) type Answer = Result<Answered<Response<Incoming>>, CallError<Attempt>>;

/// Where a call goes, and how.
pub(super) struct Call<'a> {
    pub(super) balancers: &'a LoadBalancers,
    pub(super) balancer: &'a LoadBalancer,
    /// What stands in the URL at the service.
    pub(super) name: &'a str,
    pub(super) pools: &'a Pools<Arc<Wire>>,
    pub(super) http: &'a legacy::Builder,
    pub(super) http2_only: bool,
    pub(super) dial: &'a Dial,
    /// The method and the headers as they are to be sent.
    pub(super) parts: &'a Parts,
    /// The path and query to send.
    pub(super) target: &'a Uri,
    /// What the route asks for: `lb`, or a scheme.
    pub(super) scheme: &'static str,
    pub(super) route: &'a str,
    pub(super) retry: Option<&'a Retry>,
    pub(super) response_timeout: Option<Duration>,
    /// In place of the service's own.
    pub(super) connect_timeout: Option<Duration>,
}

impl Call<'_> {
    /// Sends it, as often as the properties of the service and the route's filter `Retry` allow.
    pub(super) async fn send(&self, body: RequestBody) -> Answer {
        let home = Home::new(body, 0);
        let mut tried = Tried::new();
        let mut repetition = 0;
        loop {
            let answer = self.attempts(&home, &mut tried).await;
            let Some(retry) =
                self.retry.filter(|retry| repetition < retry.retries && retry.is_for(&self.parts.method))
            else {
                return answer;
            };
            let again = match &answer {
                Ok(answered) => retry.repeats(answered.response.status()),
                // Nothing was sent that could come to something; or it was, and broke off or took too long.
                Err(error) => {
                    error.is_timeout()
                        || error.call_error().is_some_and(|attempt| attempt.outcome() != Outcome::Cancelled)
                }
            };
            // A body that was read of is gone.
            if !again || home.take().is_none() || !self.is_paid_for() {
                return answer;
            }
            if let Ok(answered) = answer {
                give_up(answered);
            }
            repetition += 1;
            let pause = retry.pause(repetition);
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
    }

    /// Takes a repetition from the budget of the service.
    fn is_paid_for(&self) -> bool {
        let budget = &self.balancer.calls().retry.budget;
        self.balancer.service_state().withdraw(budget.percent, budget.min_per_second)
    }

    async fn attempts(&self, home: &Home<RequestBody>, tried: &mut Tried) -> Answer {
        let calls = self.balancer.calls();
        let view = View::new(self.parts, self.target, self.scheme, self.name, self.route);
        let before = tried.clone();
        let request = Request::of(&view).with_tried(&before);
        let send = |choice: &Choice, _attempt: u32| {
            let body = home.take()?;
            tried.add(choice);
            let prepared = self.prepare(&view, choice, &calls, body);
            Some(async move {
                let (client, request) = prepared?;
                let sent = client.request(request);
                let answer = match self.response_timeout {
                    Some(limit) => timeout(limit, sent).await.map_err(|_| Attempt::Late)?,
                    None => sent.await,
                };
                answer.map_err(|error| Attempt::Inner(error.into()))
            })
        };
        call_with(self.balancer, &request, &Http, send).await
    }

    /// The request of one attempt, and the client that sends it.
    fn prepare(
        &self,
        view: &View<'_>,
        choice: &Choice,
        calls: &CallSettings,
        body: Returning<RequestBody>,
    ) -> Result<(Arc<Wire>, http::Request<Returning<RequestBody>>), Attempt> {
        let mut uri = dialled(aim(self.logical(), choice.state())?)?;
        let mut headers = self.parts.headers.clone();
        let transformers = Transformers::default();
        if transformers.have_work(calls) {
            let logical = view.logical();
            let outgoing = Outgoing::new(&self.parts.method, &logical, uri.to_string(), &mut headers);
            let url = transformers.apply(calls, outgoing, &choice.instance());
            uri = Uri::try_from(&url).map_err(|error| Attempt::Uri(format!("{url:?} is no URI: {error}")))?;
        }
        // By TLS either version may be negotiated.
        if self.http2_only || uri.scheme() == Some(&Scheme::HTTPS) {
            uri = with_host(uri, &headers)?;
        }
        if self.http2_only {
            headers.remove(HOST);
        }
        headers::frame(&mut headers, &body);
        let mut request = http::Request::new(body);
        *request.method_mut() = self.parts.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Ok((self.client(choice), request))
    }

    /// The target with the scheme that the route asks for; none means that the instance decides.
    fn logical(&self) -> Uri {
        let scheme = match self.scheme.strip_prefix("lb:").unwrap_or(self.scheme) {
            "lb" => return self.target.clone(),
            "https" | "wss" => Scheme::HTTPS,
            _ => Scheme::HTTP,
        };
        let mut parts = self.target.clone().into_parts();
        // The instance's takes its place.
        (parts.scheme, parts.authority) = (Some(scheme), Some(Authority::from_static("service")));
        Uri::from_parts(parts).unwrap_or_else(|_| self.target.clone())
    }

    /// The client of an instance; made at its first call.
    fn client(&self, choice: &Choice) -> Arc<Wire> {
        let made = self.pools.client(self.balancers, self.balancer, choice.state(), |limit| {
            let limit = self.connect_timeout.unwrap_or(limit);
            let dial = self.dial.within(limit).to(choice.state().authority());
            Ok::<_, Infallible>(Arc::new(self.http.build(dial)))
        });
        match made {
            Ok(client) => client,
            Err(never) => match never {},
        }
    }
}

/// The URI with the host that the instance is to see, if that is not its own. Over HTTP/2 the URI says it; the connector knows
/// where the instance is.
fn with_host(uri: Uri, headers: &HeaderMap) -> Result<Uri, Attempt> {
    let Some(host) = headers.get(HOST).filter(|host| !host.is_empty()) else { return Ok(uri) };
    let authority = Authority::try_from(host.as_bytes()).ok().filter(|host| !host.as_str().contains('@'));
    let mut parts = uri.into_parts();
    parts.authority = Some(authority.ok_or_else(|| Attempt::Uri(format!("{host:?} is no host")))?);
    Uri::from_parts(parts).map_err(|error| Attempt::Uri(error.to_string()))
}

/// Ends the attempt of an answer that nobody gets. It was one all the same, for policies, outlier detection and meters.
fn give_up(answered: Answered<Response<Incoming>>) {
    let Answered { response, mut lease, .. } = answered;
    lease.hear(response.headers());
    lease.complete(outcome_of(response.status(), response.headers()));
}

/// A websocket begins as a request by `http`, which is what connectors know.
fn dialled(uri: Uri) -> Result<Uri, Attempt> {
    let scheme = match uri.scheme_str() {
        Some("ws") => Scheme::HTTP,
        Some("wss") => Scheme::HTTPS,
        _ => return Ok(uri),
    };
    let mut parts = uri.into_parts();
    parts.scheme = Some(scheme);
    Uri::from_parts(parts).map_err(|error| Attempt::Uri(error.to_string()))
}

/// What answers and errors mean.
struct Http;

impl Protocol<Response<Incoming>, Attempt> for Http {
    fn outcome(&self, result: Result<&Response<Incoming>, &Attempt>) -> Outcome {
        match result {
            Ok(response) => outcome_of(response.status(), response.headers()),
            Err(attempt) => attempt.outcome(),
        }
    }

    fn headers(&self, response: &Response<Incoming>) -> HeaderMap {
        response.headers().clone()
    }
}
