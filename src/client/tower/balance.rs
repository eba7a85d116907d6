use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::aim::aim;
use super::error::{Attempt, Error, outcome_of_error};
use super::layer::Settings;
use super::options::View;
use super::picking::{Picking, Wait, pick};
use super::{BoxError, Picked};
use crate::choice::outcome_of;
use crate::client::{Outgoing, Via};
use crate::request::Propagated;
use crate::{Choice, Failure, InstanceState, Lease, LoadBalancer, Outcome, TrackedBody};

/// A service of HTTP whose requests are balanced; made by a [`BalanceLayer`](super::BalanceLayer).
#[derive(Clone)]
pub struct Balance<S> {
    inner: S,
    settings: Arc<Settings>,
}

impl<S> Balance<S> {
    pub(super) fn new(inner: S, settings: Arc<Settings>) -> Self {
        Self { inner, settings }
    }
}

/// Whose instance a request goes to.
enum Seat {
    /// One that was chosen here.
    Own(Choice),
    /// One that a layer above chose, which holds the lease.
    Given,
    /// Its own host.
    Plain,
}

impl<S, B, R> Service<http::Request<B>> for Balance<S>
where
    S: Service<http::Request<B>, Response = http::Response<R>, Error: Into<BoxError>> + Clone,
    R: Body,
{
    type Response = http::Response<TrackedBody<R>>;
    type Error = Error;
    type Future = BalanceFuture<S, http::Request<B>>;

    /// Always ready, and nothing is reserved: an instance is chosen when there is a request, and the service below is made
    /// ready within the call. A service that reserves something when it is asked whether it is ready, and is then not
    /// called, would keep that from others (tower#547), and a choice that was made before its request was known would not
    /// know the request.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let inner = self.inner.clone();
        let settings = Arc::clone(&self.settings);
        let (seat, stage) = match seat(&settings, &mut parts) {
            Ok((seat, None)) => (seat, Stage::Readying),
            Ok((seat, Some((balancer, wait)))) => (seat, Stage::Waiting { balancer: Some(balancer), wait }),
            Err(error) => (Seat::Plain, Stage::Failed { error: Some(error) }),
        };
        let request = Some(http::Request::from_parts(parts, body));
        BalanceFuture { stage, seat, request, inner, settings }
    }
}

pin_project! {
    /// A call through a [`Balance`]; it holds the lease until the response's body does. Dropped, it gives the lease back.
    #[must_use = "futures do nothing unless polled"]
    pub struct BalanceFuture<S, Q>
    where
        S: Service<Q>,
    {
        #[pin]
        stage: Stage<S::Future>,
        seat: Seat,
        request: Option<Q>,
        inner: S,
        settings: Arc<Settings>,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<F> {
        Waiting { balancer: Option<LoadBalancer>, wait: Wait },
        Readying,
        Called { #[pin] future: F },
        Failed { error: Option<Error> },
    }
}

/// Takes a seat, and points the request there; what is to be waited for, if there is no list.
fn seat(settings: &Settings, parts: &mut Parts) -> Result<(Seat, Option<(LoadBalancer, Wait)>), Error> {
    if let Some(Picked { state, balancer }) = parts.extensions.remove() {
        point(settings, &balancer, &state, parts)?;
        return Ok((Seat::Given, None));
    }
    let Some(balancer) = settings.routes.balancer(parts)? else { return Ok((Seat::Plain, None)) };
    Propagated::current().add_to(&mut parts.headers);
    let picking = pick(&balancer, &View::of(parts).request());
    taken(settings, balancer, picking, parts)
}

fn taken(
    settings: &Settings,
    balancer: LoadBalancer,
    picking: Picking,
    parts: &mut Parts,
) -> Result<(Seat, Option<(LoadBalancer, Wait)>), Error> {
    match picking {
        Picking::Picked(choice) => {
            point(settings, &balancer, choice.state(), parts)?;
            Ok((Seat::Own(choice), None))
        }
        Picking::Wait(wait) => Ok((Seat::Plain, Some((balancer, wait)))),
        Picking::Failed(error) => Err(Error::choose(error)),
    }
}

/// Points the request at the instance.
fn point(
    settings: &Settings,
    balancer: &LoadBalancer,
    state: &InstanceState,
    parts: &mut Parts,
) -> Result<(), Error> {
    let failed = |error| Error::attempt(state, error);
    let calls = balancer.calls();
    if !settings.transformers.have_work(&calls) {
        parts.uri = aim(std::mem::take(&mut parts.uri), state).map_err(failed)?;
        return Ok(());
    }
    let logical = parts.uri.to_string();
    let url = aim(std::mem::take(&mut parts.uri), state).map_err(failed)?.to_string();
    let outgoing = Outgoing::new(&parts.method, &logical, url, &mut parts.headers);
    let url = settings.transformers.apply(&calls, outgoing, &state.instance());
    let parsed = url.parse().map_err(|error| Attempt::Uri(format!("{url:?} is no URI: {error}")));
    parts.uri = parsed.map_err(failed)?;
    Ok(())
}

impl<S, B, R> Future for BalanceFuture<S, http::Request<B>>
where
    S: Service<http::Request<B>, Response = http::Response<R>, Error: Into<BoxError>>,
    R: Body,
{
    type Output = Result<http::Response<TrackedBody<R>>, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let result = match this.stage.as_mut().project() {
                StageProjection::Failed { error } => match error.take() {
                    Some(error) => return Poll::Ready(Err(error)),
                    None => return Poll::Pending,
                },
                StageProjection::Waiting { balancer, wait } => {
                    let ready = ready!(wait.poll(cx));
                    let (Some(request), Some(balancer)) = (this.request.take(), balancer.take()) else {
                        return Poll::Pending;
                    };
                    if let Err(error) = ready {
                        return Poll::Ready(Err(Error::choose(error)));
                    }
                    let (mut parts, body) = request.into_parts();
                    let picking = wait.resume(&balancer, &View::of(&parts).request());
                    let next = match taken(this.settings, balancer, picking, &mut parts) {
                        Ok((seat, None)) => {
                            *this.seat = seat;
                            Stage::Readying
                        }
                        Ok((_, Some((balancer, wait)))) => Stage::Waiting { balancer: Some(balancer), wait },
                        Err(error) => return Poll::Ready(Err(error)),
                    };
                    *this.request = Some(http::Request::from_parts(parts, body));
                    this.stage.set(next);
                    continue;
                }
                StageProjection::Readying => match ready!(this.inner.poll_ready(cx)) {
                    Ok(()) => {
                        let Some(request) = this.request.take() else { return Poll::Pending };
                        let future = this.inner.call(request);
                        this.stage.set(Stage::Called { future });
                        continue;
                    }
                    Err(error) => Err(error),
                },
                StageProjection::Called { future } => ready!(future.poll(cx)),
            };
            let seat = std::mem::replace(this.seat, Seat::Plain);
            return Poll::Ready(ended(this.settings, seat, result.map_err(Into::into)));
        }
    }
}

/// What the caller gets.
fn ended<R: Body>(
    settings: &Settings,
    seat: Seat,
    result: Result<http::Response<R>, BoxError>,
) -> Result<http::Response<TrackedBody<R>>, Error> {
    match (seat, result) {
        (Seat::Own(choice), Ok(response)) => Ok(tracked(settings, choice, response)),
        (Seat::Given | Seat::Plain, Ok(response)) => Ok(response.map(TrackedBody::untracked)),
        (Seat::Own(choice), Err(error)) => {
            let outcome = match settings.failures {
                Some(judge) => Outcome::Failure(judge(&error)),
                None => outcome_of_error(&*error),
            };
            let error = Error::attempt(choice.state(), Attempt::Inner(error));
            choice.complete(outcome);
            Err(error)
        }
        (Seat::Given | Seat::Plain, Err(error)) => Err(Error::plain(error)),
    }
}

fn tracked<R: Body>(
    settings: &Settings,
    choice: Choice,
    mut response: http::Response<R>,
) -> http::Response<TrackedBody<R>> {
    if settings.via {
        response.extensions_mut().insert(Via::new(choice.instance(), 1));
    }
    let mut lease = Lease::from(choice);
    lease.hear(response.headers());
    let outcome = outcome_of(response.status(), response.headers());
    response.map(|body| TrackedBody::new(body, lease, outcome, |_| Failure::Reset))
}

impl<S: fmt::Debug> fmt::Debug for Balance<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Balance").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S: Service<Q>, Q> fmt::Debug for BalanceFuture<S, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BalanceFuture").finish_non_exhaustive()
    }
}
