use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::request::Parts;
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use super::error::{Attempt, Error};
use super::layer::Routes;
use super::options::View;
use super::protocol::Http;
use super::{BoxError, Picked, Returning};
use crate::call::call_with;
use crate::choice::outcome_of;
use crate::client::Via;
use crate::client::returning::Home;
use crate::request::Propagated;
use crate::{BoxFuture, Choice, Failure, LoadBalancer, LoadBalancers, ServiceId, TrackedBody};

/// Repeats calls by the retry properties of their service; made by [`LoadBalancers::retry_layer`].
///
/// One attempt is one choice: each goes, with the instance that was chosen for it ([`Picked`]) in the extensions of its
/// request, through the service below, where a [`BalanceLayer`](super::BalanceLayer) points it there. Layers between the two
/// see every attempt, those above see the call.
///
/// - **Never sent** ([`Failure::Connect`]): once to another instance, whatever the method.
/// - **A safe method**: as `retry.*` says. Bodies come back as long as nobody read of them, or within the
///   [`buffer`](Self::buffer).
#[derive(Clone)]
pub struct RetryLayer {
    settings: Arc<Settings>,
}

#[derive(Clone)]
struct Settings {
    routes: Routes,
    buffer: usize,
    timeout: Option<Duration>,
    via: bool,
    failures: Option<fn(&BoxError) -> Failure>,
}

impl LoadBalancers {
    /// A layer that repeats calls by the retry properties of their service; see [`RetryLayer`], and
    /// [`balance_layer`](Self::balance_layer) for an example.
    #[cfg_attr(docsrs, doc(cfg(feature = "tower")))]
    pub fn retry_layer(&self) -> RetryLayer {
        let routes = Routes::new(self.clone());
        let settings = Settings { routes, buffer: 0, timeout: None, via: false, failures: None };
        RetryLayer { settings: Arc::new(settings) }
    }
}

impl RetryLayer {
    fn change(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }

    /// Sets which service a request goes to; for those of which it says `None`, the URI tells it, as it does by default.
    #[must_use]
    pub fn service_by(self, names: impl Fn(&Parts) -> Option<ServiceId> + Send + Sync + 'static) -> Self {
        self.change(|settings| settings.routes.name_by(names))
    }

    /// Sets up to how many bytes of a request's body are kept while it is sent, so that it can be sent again (default: 0).
    /// A body that is longer is a stream, and its call is not repeated once some of it was read.
    #[must_use]
    pub fn buffer(self, bytes: usize) -> Self {
        self.change(|settings| settings.buffer = bytes)
    }

    /// Sets the limit of a call, from its first attempt to the head of the response, all attempts together (default: none);
    /// [`CallOptions::with_timeout`](super::CallOptions::with_timeout) sets that of one call.
    #[must_use]
    pub fn timeout(self, limit: Duration) -> Self {
        self.change(|settings| settings.timeout = Some(limit))
    }

    /// Sets whether a response's extensions hold a [`Via`] that names the instance and counts the attempts (default: no).
    #[must_use]
    pub fn via(self, yes: bool) -> Self {
        self.change(|settings| settings.via = yes)
    }

    /// Sets what an error of the service below says of the instance (default: [`failure_of`](super::failure_of)).
    #[must_use]
    pub fn failures(self, judge: fn(&BoxError) -> Failure) -> Self {
        self.change(|settings| settings.failures = Some(judge))
    }
}

impl<S> Layer<S> for RetryLayer {
    type Service = Retry<S>;

    fn layer(&self, inner: S) -> Retry<S> {
        Retry { inner, settings: Arc::clone(&self.settings) }
    }
}

/// A service of HTTP whose calls are repeated; made by a [`RetryLayer`].
#[derive(Clone)]
pub struct Retry<S> {
    inner: S,
    settings: Arc<Settings>,
}

impl<S, B, R> Service<http::Request<B>> for Retry<S>
where
    S: Service<
            http::Request<Returning<B>>,
            Response = http::Response<R>,
            Error: Into<BoxError>,
            Future: Send,
        > + Clone
        + Send
        + Sync
        + 'static,
    B: Body + Send + 'static,
    R: Body<Error: Into<BoxError>> + Send + 'static,
{
    type Response = http::Response<TrackedBody<R>>;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Self::Response, Error>>;

    /// Always ready; the service below is made ready for each attempt.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let (inner, settings) = (self.inner.clone(), Arc::clone(&self.settings));
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            if let Some(balancer) = settings.routes.balancer(&parts)? {
                // The service below need be no `Balance`, which does so itself.
                Propagated::current().add_to(&mut parts.headers);
                return repeated(&inner, &settings, &balancer, parts, body).await;
            }
            let request = http::Request::from_parts(parts, Returning::once(body));
            let response = send(inner, request).await.map_err(Error::plain)?;
            Ok(response.map(TrackedBody::untracked))
        })
    }
}

async fn repeated<S, B, R>(
    inner: &S,
    settings: &Settings,
    balancer: &LoadBalancer,
    parts: Parts,
    body: B,
) -> Result<http::Response<TrackedBody<R>>, Error>
where
    S: Service<http::Request<Returning<B>>, Response = http::Response<R>, Error: Into<BoxError>> + Clone,
    B: Body,
    R: Body,
{
    let home = Home::new(body, settings.buffer);
    let view = View::of(&parts);
    let limit = view.options().and_then(|options| options.timeout).or(settings.timeout);
    let protocol = Http::new(limit).judging(settings.failures);
    let attempt = |choice: &Choice, _number: u32| {
        let body = home.take()?;
        let end = protocol.begin();
        let mut request = http::Request::from_parts(parts.clone(), body);
        request.extensions_mut().insert(Picked::of(balancer, choice));
        let inner = inner.clone();
        Some(Http::within(end, async move { send(inner, request).await.map_err(attempt_of) }))
    };
    let answered = call_with(balancer, &view.request(), &protocol, attempt).await.map_err(Error::call)?;
    let mut response = answered.response;
    if settings.via {
        response.extensions_mut().insert(Via::new(answered.instance, answered.attempts));
    }
    let mut lease = answered.lease;
    lease.hear(response.headers());
    let outcome = outcome_of(response.status(), response.headers());
    Ok(response.map(|body| TrackedBody::new(body, lease, outcome, |_| Failure::Reset)))
}

/// One attempt by a service that is made ready for it.
async fn send<S, Q>(mut service: S, request: Q) -> Result<S::Response, BoxError>
where
    S: Service<Q, Error: Into<BoxError>>,
{
    poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
    service.call(request).await.map_err(Into::into)
}

/// The error of an attempt: what a layer below says of it in its own words counts as ours.
fn attempt_of(error: BoxError) -> Attempt {
    match error.downcast::<Error>() {
        Ok(error) => error.into_attempt(),
        Err(error) => Attempt::Inner(error),
    }
}

impl fmt::Debug for RetryLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryLayer")
            .field("balancers", &self.settings.routes.balancers)
            .field("buffer", &self.settings.buffer)
            .field("timeout", &self.settings.timeout)
            .finish_non_exhaustive()
    }
}

impl<S: fmt::Debug> fmt::Debug for Retry<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry").field("inner", &self.inner).finish_non_exhaustive()
    }
}
