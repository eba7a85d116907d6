use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

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
use crate::balancer::CallSettings;
use crate::choice::outcome_of;
use crate::client::transform::Transformers;
use crate::client::{Outgoing, Via};
use crate::request::Propagated;
use crate::{Choice, ChooseError, Failure, InstanceState, Lease, LoadBalancer, Outcome, TrackedBody};

/// A service of HTTP whose requests are balanced; made by a [`BalanceLayer`](super::BalanceLayer).
///
/// Where the service below can be called by reference, as a client of hyper can, so can this: `(&balance).call(request)`
/// clones neither.
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
        BalanceFuture::begin(&mut self.inner, &self.settings, request)
    }
}

impl<'a, S, B, R> Service<http::Request<B>> for &'a Balance<S>
where
    &'a S: Service<http::Request<B>, Response = http::Response<R>, Error: Into<BoxError>>,
    R: Body,
{
    type Response = http::Response<TrackedBody<R>>;
    type Error = Error;
    type Future = BalanceFuture<&'a S, http::Request<B>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        BalanceFuture::begin(&mut &self.inner, &self.settings, request)
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
        stage: Stage<S, Q, S::Future>,
        seat: Seat,
        ending: Ending,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<S, Q, F> {
        /// For a list, or for the service below. Boxed, since nearly no call has to wait, and each would move the room for it.
        Waiting { waiting: Option<Box<Waiting<S, Q>>> },
        Called { #[pin] future: F },
        Failed { error: Option<Error> },
    }
}

struct Waiting<S, Q> {
    /// A list is awaited, for this balancer.
    list: Option<(LoadBalancer, Wait, Arc<Settings>)>,
    inner: S,
    request: Option<Q>,
}

/// What a call needs to know of the layer when it ends.
#[derive(Clone, Copy)]
struct Ending {
    via: bool,
    failures: Option<fn(&BoxError) -> Failure>,
}

impl<S, B> BalanceFuture<S, http::Request<B>>
where
    S: Service<http::Request<B>, Error: Into<BoxError>> + Clone,
{
    fn begin(inner: &mut S, settings: &Arc<Settings>, request: http::Request<B>) -> Self {
        let ending = Ending { via: settings.via, failures: settings.failures };
        let (mut parts, body) = request.into_parts();
        let seated = seat(settings, &mut parts);
        let request = http::Request::from_parts(parts, body);
        let (stage, seat) = match seated {
            Ok(Seated::There(seat)) => return Self::call(inner, request, seat, ending),
            Ok(Seated::Waits(list)) => {
                let (balancer, wait) = *list;
                let list = Some((balancer, wait, Arc::clone(settings)));
                // It has not been asked whether it is ready.
                let waiting = Waiting { list, inner: inner.clone(), request: Some(request) };
                (Stage::Waiting { waiting: Some(Box::new(waiting)) }, Seat::Plain)
            }
            Err(error) => (Stage::Failed { error: Some(error) }, Seat::Plain),
        };
        Self { stage, seat, ending }
    }

    /// Calls the service below, if it is ready, which is nearly always. One that is not may have begun to reserve something:
    /// it goes along with the call, and leaves a clone that has not.
    fn call(inner: &mut S, request: http::Request<B>, seat: Seat, ending: Ending) -> Self {
        match inner.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => {
                Self { stage: Stage::Called { future: inner.call(request) }, seat, ending }
            }
            Poll::Ready(Err(error)) => {
                *inner = inner.clone();
                let error = Some(failed(ending, seat, error.into()));
                Self { stage: Stage::Failed { error }, seat: Seat::Plain, ending }
            }
            Poll::Pending => {
                let fresh = inner.clone();
                let inner = std::mem::replace(inner, fresh);
                let waiting = Some(Box::new(Waiting { list: None, inner, request: Some(request) }));
                Self { stage: Stage::Waiting { waiting }, seat, ending }
            }
        }
    }
}

/// Whether a request has its seat.
enum Seated {
    There(Seat),
    Waits(Box<(LoadBalancer, Wait)>),
}

/// Takes a seat, and points the request there; what is to be waited for, if there is no list.
fn seat(settings: &Settings, parts: &mut Parts) -> Result<Seated, Error> {
    if let Some(Picked { state, balancer }) = parts.extensions.remove() {
        point(&settings.transformers, settings.transformers.work(&balancer), &state, parts)?;
        return Ok(Seated::There(Seat::Given));
    }
    let taken = settings
        .routes
        .using(parts, |balancer| taken(settings, balancer, pick(balancer, &View::of(parts).request())))?;
    match taken {
        None => Ok(Seated::There(Seat::Plain)),
        Some(Taken::Picked(choice, work)) => {
            point(&settings.transformers, work, choice.state(), parts)?;
            Ok(Seated::There(Seat::Own(choice)))
        }
        Some(Taken::Waits(list)) => {
            // Whoever awaits the call may be outside of the scope.
            Propagated::current().add_to(&mut parts.headers);
            Ok(Seated::Waits(list))
        }
        Some(Taken::Failed(error)) => Err(Error::choose(error)),
    }
}

/// What a balancer gave, and what there is to do to the request.
enum Taken {
    Picked(Choice, Option<Arc<CallSettings>>),
    Waits(Box<(LoadBalancer, Wait)>),
    Failed(ChooseError),
}

fn taken(settings: &Settings, balancer: &LoadBalancer, picking: Picking) -> Taken {
    match picking {
        Picking::Picked(choice) => Taken::Picked(choice, settings.transformers.work(balancer)),
        Picking::Wait(wait) => Taken::Waits(Box::new((balancer.clone(), wait))),
        Picking::Failed(error) => Taken::Failed(error),
    }
}

/// Points the request at the instance.
fn point(
    transformers: &Transformers,
    work: Option<Arc<CallSettings>>,
    state: &InstanceState,
    parts: &mut Parts,
) -> Result<(), Error> {
    let failed = |error| Error::attempt(state, error);
    let Some(calls) = work else {
        parts.uri = aim(std::mem::take(&mut parts.uri), state).map_err(failed)?;
        return Ok(());
    };
    let logical = parts.uri.to_string();
    let url = aim(std::mem::take(&mut parts.uri), state).map_err(failed)?.to_string();
    let outgoing = Outgoing::new(&parts.method, &logical, url, &mut parts.headers);
    let url = transformers.apply(&calls, outgoing, &state.instance());
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
                StageProjection::Called { future } => ready!(future.poll(cx)),
                StageProjection::Waiting { waiting } => {
                    let Some(held) = waiting.as_mut() else { return Poll::Pending };
                    if held.list.is_some() {
                        *this.seat = ready!(held.poll_seat(cx))?;
                    }
                    match ready!(held.inner.poll_ready(cx)) {
                        Ok(()) => {
                            let Some(held) = waiting.take() else { return Poll::Pending };
                            let Waiting { mut inner, request: Some(request), .. } = *held else {
                                return Poll::Pending;
                            };
                            this.stage.set(Stage::Called { future: inner.call(request) });
                            continue;
                        }
                        Err(error) => Err(error),
                    }
                }
                StageProjection::Failed { error } => match error.take() {
                    Some(error) => return Poll::Ready(Err(error)),
                    None => return Poll::Pending,
                },
            };
            let seat = std::mem::replace(this.seat, Seat::Plain);
            return Poll::Ready(ended(*this.ending, seat, result.map_err(Into::into)));
        }
    }
}

impl<S, B> Waiting<S, http::Request<B>> {
    /// Takes a seat, once there is a list.
    fn poll_seat(&mut self, cx: &mut Context<'_>) -> Poll<Result<Seat, Error>> {
        loop {
            let Some((_, wait, _)) = &mut self.list else { return Poll::Ready(Ok(Seat::Plain)) };
            let ready = ready!(wait.poll(cx));
            let Some((balancer, wait, settings)) = self.list.take() else { continue };
            if let Err(error) = ready {
                return Poll::Ready(Err(Error::choose(error)));
            }
            let Some(request) = self.request.take() else { return Poll::Pending };
            let (mut parts, body) = request.into_parts();
            let picking = wait.resume(&balancer, &View::of(&parts).request());
            let seated = match taken(&settings, &balancer, picking) {
                Taken::Picked(choice, work) => {
                    let pointed = point(&settings.transformers, work, choice.state(), &mut parts);
                    Some(pointed.map(|()| Seat::Own(choice)))
                }
                Taken::Waits(list) => {
                    let (balancer, wait) = *list;
                    self.list = Some((balancer, wait, settings));
                    None
                }
                Taken::Failed(error) => Some(Err(Error::choose(error))),
            };
            self.request = Some(http::Request::from_parts(parts, body));
            if let Some(seated) = seated {
                return Poll::Ready(seated);
            }
        }
    }
}

/// What the caller gets.
fn ended<R: Body>(
    ending: Ending,
    seat: Seat,
    result: Result<http::Response<R>, BoxError>,
) -> Result<http::Response<TrackedBody<R>>, Error> {
    match (seat, result) {
        (Seat::Own(choice), Ok(response)) => Ok(tracked(ending.via, choice, response)),
        (Seat::Given | Seat::Plain, Ok(response)) => Ok(response.map(TrackedBody::untracked)),
        (seat, Err(error)) => Err(failed(ending, seat, error)),
    }
}

fn failed(ending: Ending, seat: Seat, error: BoxError) -> Error {
    let Seat::Own(choice) = seat else { return Error::plain(error) };
    let outcome = match ending.failures {
        Some(judge) => Outcome::Failure(judge(&error)),
        None => outcome_of_error(&*error),
    };
    let error = Error::attempt(choice.state(), Attempt::Inner(error));
    choice.complete(outcome);
    error
}

fn tracked<R: Body>(
    via: bool,
    choice: Choice,
    mut response: http::Response<R>,
) -> http::Response<TrackedBody<R>> {
    if via {
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
