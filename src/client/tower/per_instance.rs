use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_service::Service;

use super::BoxError;
use super::error::{Attempt, Error};
use super::exchange::{AnyExchange, Exchange, HttpExchange, JudgedExchange};
use super::picking::{Picking, Wait, handed_on, pick};
use crate::client::pool::Pool;
use crate::request::Propagated;
use crate::{Choice, ChooseError, LoadBalancer, Outcome, Request, ServiceInstance, Tried};

type Make<S> = dyn Fn(&ServiceInstance) -> Result<S, BoxError> + Send + Sync;

/// A service over one service per instance, made when an instance is first called: for clients of any protocol. Made by
/// [`LoadBalancer::make`]; cheap to clone.
///
/// The services are kept in step with the list: one whose instance left is let go with the next call. Calls in flight have
/// clones of it and go on; new ones do not reach it.
pub struct PerInstance<S, X = AnyExchange> {
    inner: Arc<Inner<S, X>>,
}

struct Inner<S, X> {
    balancer: LoadBalancer,
    pool: Pool<S>,
    make: Arc<Make<S>>,
    exchange: X,
}

impl LoadBalancer {
    /// A service over one of yours per instance, which `make` makes at the instance's first call.
    ///
    /// If it cannot be made, or fails to become ready, the call was never sent: the instance is skipped with growing back-off,
    /// the call goes once to another one, and the instance's next call makes another service. One that is not ready *yet* is
    /// waited for: put a [`tower::timeout`](::tower::timeout) or `load_shed` around it, if that may take long.
    ///
    /// ```
    /// use evenkeel::{LoadBalancer, ServiceInstance};
    /// use tower::{ServiceExt, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mirrors = LoadBalancer::fixed("mirrors", [ServiceInstance::new("10.0.0.1", 7000)?])?;
    /// let service = mirrors.make(|instance| {
    ///     let address = instance.authority(); // where a real one would connect
    ///     Ok::<_, std::io::Error>(service_fn(move |question: u32| {
    ///         let address = address.clone();
    ///         async move { Ok::<_, std::io::Error>(format!("{question} asked of {address}")) }
    ///     }))
    /// });
    /// assert_eq!(service.oneshot(42).await?, "42 asked of 10.0.0.1:7000");
    /// # Ok(()) }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "tower")))]
    pub fn make<S, E>(
        &self,
        make: impl Fn(&ServiceInstance) -> Result<S, E> + Send + Sync + 'static,
    ) -> PerInstance<S>
    where
        S: Clone,
        E: Into<BoxError>,
    {
        let inner = Inner {
            balancer: self.clone(),
            pool: Pool::new(self),
            make: Arc::new(move |instance: &ServiceInstance| make(instance).map_err(Into::into)),
            exchange: AnyExchange,
        };
        PerInstance { inner: Arc::new(inner) }
    }
}

impl<S: Clone, X> PerInstance<S, X> {
    /// Sets what a response or an error says of its instance (default: a response is a success, and of an error its causes
    /// tell, see [`failure_of`](super::failure_of)).
    ///
    /// ```
    /// # use evenkeel::{Failure, LoadBalancer, Outcome};
    /// # use tower::util::BoxCloneSyncService;
    /// # fn example(mirrors: LoadBalancer, service: BoxCloneSyncService<u32, String, std::io::Error>) {
    /// let service = mirrors.make(move |_| Ok::<_, std::io::Error>(service.clone())).judge(
    ///     |result: Result<&String, &(dyn std::error::Error + 'static)>| match result {
    ///         Ok(text) if text == "busy" => Outcome::Status(503),
    ///         Ok(_) => Outcome::Success,
    ///         Err(_) => Outcome::Failure(Failure::Reset),
    ///     },
    /// );
    /// # }
    /// ```
    #[must_use]
    pub fn judge<R, J>(self, judge: J) -> PerInstance<S, JudgedExchange<J>>
    where
        J: Fn(Result<&R, &(dyn StdError + 'static)>) -> Outcome + Send + Sync + 'static,
    {
        self.exchanging(JudgedExchange(judge))
    }

    /// The services speak HTTP: the balancer sees URI and headers of requests, a status tells of its instance, and the lease
    /// is held until the end of the response's body, which becomes a [`TrackedBody`](crate::TrackedBody). URIs stay as they
    /// are: the service knows its instance. What is [handed on](crate::guide::propagation) becomes headers of the request.
    #[must_use]
    pub fn http(self) -> PerInstance<S, HttpExchange> {
        self.exchanging(HttpExchange)
    }

    fn exchanging<Y>(self, exchange: Y) -> PerInstance<S, Y> {
        let Inner { balancer, make, .. } = &*self.inner;
        let pool = Pool::new(balancer);
        let (balancer, make) = (balancer.clone(), Arc::clone(make));
        PerInstance { inner: Arc::new(Inner { balancer, pool, make, exchange }) }
    }

    /// The balancer that chooses.
    pub fn balancer(&self) -> &LoadBalancer {
        &self.inner.balancer
    }
}

impl<S, Q, X> Service<Q> for PerInstance<S, X>
where
    S: Service<Q, Error: Into<BoxError>> + Clone,
    X: Exchange<Q, S::Response>,
{
    type Response = X::Output;
    type Error = Error;
    type Future = PerInstanceFuture<S, Q, X>;

    /// Always ready, and nothing is reserved: an instance is chosen, and its service made ready, when there is a request.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Q) -> Self::Future {
        let inner = Arc::clone(&self.inner);
        let propagated = Propagated::current();
        X::hand_on(&inner.exchange, &mut request, &propagated);
        let mut attempts = Attempts { tried: Tried::new(), names: Vec::new(), propagated };
        let asked = X::ask(&inner.exchange, &request, |asks| pick(&inner.balancer, asks));
        let stage = inner.next::<Q, S::Response, _>(asked, &mut attempts, &request);
        PerInstanceFuture { stage, inner, attempts, request: Some(request) }
    }
}

/// The instances that had no service for the call.
struct Attempts {
    tried: Tried,
    names: Vec<ServiceInstance>,
    /// Of the scope in which the call was made: it may be awaited in another one.
    propagated: Propagated,
}

impl Attempts {
    /// What the closure gives, where the call was made.
    fn within<T>(&self, ask: impl FnOnce() -> T) -> T {
        self.propagated.clone().sync_scope(ask)
    }
}

impl<S: Clone, X> Inner<S, X> {
    /// Gets the service of the instance that was picked; of another one, once, if there is none.
    fn next<Q, R, F>(&self, picking: Picking, attempts: &mut Attempts, request: &Q) -> Stage<S, F>
    where
        X: Exchange<Q, R>,
    {
        let choice = match picking {
            Picking::Picked(choice) => choice,
            Picking::Wait(wait) => return Stage::Waiting { wait },
            Picking::Failed(error) => return failed(Error::choose(error)),
        };
        let instance = || choice.instance();
        match self.pool.client(&self.balancer, choice.state(), || (self.make)(&instance())) {
            Ok(service) => Stage::Readying { choice: Some(choice), service },
            Err(error) => self.unsent::<Q, R, F>(choice, error, attempts, request),
        }
    }

    /// The call could not be sent to the instance.
    fn unsent<Q, R, F>(
        &self,
        choice: Choice,
        error: BoxError,
        attempts: &mut Attempts,
        request: &Q,
    ) -> Stage<S, F>
    where
        X: Exchange<Q, R>,
    {
        attempts.tried.add(&choice);
        attempts.names.push(choice.instance());
        let error = Attempt::Make(error);
        choice.complete(error.outcome());
        let again = || {
            let tried = &attempts.tried;
            let choose = |asks: &Request<'_>| self.balancer.try_choose(&asks.with_tried(tried));
            X::ask(&self.exchange, request, |asks| attempts.within(|| handed_on(asks, choose)))
        };
        // Another one, whatever it says of itself; if all were tried, the error of the first says more.
        let another = if attempts.names.len() > 1 { None } else { again().ok() };
        if let Some(choice) = another.filter(|choice| !attempts.tried.has(choice)) {
            return self.next::<Q, R, F>(Picking::Picked(choice), attempts, request);
        }
        let names = std::mem::take(&mut attempts.names);
        failed(Error::attempts(self.balancer.service_id(), names, error))
    }
}

fn failed<S, F>(error: Error) -> Stage<S, F> {
    Stage::Failed { error: Some(error) }
}

pin_project! {
    /// A call through a [`PerInstance`]; it holds the lease. Dropped, it gives the lease back.
    #[must_use = "futures do nothing unless polled"]
    pub struct PerInstanceFuture<S, Q, X>
    where
        S: Service<Q>,
    {
        #[pin]
        stage: Stage<S, S::Future>,
        inner: Arc<Inner<S, X>>,
        attempts: Attempts,
        request: Option<Q>,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<S, F> {
        Waiting { wait: Wait },
        Readying { choice: Option<Choice>, service: S },
        Called { choice: Option<Choice>, #[pin] future: F },
        Failed { error: Option<Error> },
    }
}

impl<S, Q, X> Future for PerInstanceFuture<S, Q, X>
where
    S: Service<Q, Error: Into<BoxError>> + Clone,
    X: Exchange<Q, S::Response>,
{
    type Output = Result<X::Output, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let inner = &**this.inner;
        loop {
            let next = match this.stage.as_mut().project() {
                StageProjection::Failed { error } => match error.take() {
                    Some(error) => return Poll::Ready(Err(error)),
                    None => return Poll::Pending,
                },
                StageProjection::Waiting { wait } => {
                    let waited: Result<(), ChooseError> = ready!(wait.poll(cx));
                    let Some(request) = this.request.as_ref() else { return Poll::Pending };
                    let picking = match waited {
                        Ok(()) => this.attempts.within(|| {
                            X::ask(&inner.exchange, request, |asks| wait.resume(&inner.balancer, asks))
                        }),
                        Err(error) => Picking::Failed(error),
                    };
                    inner.next::<Q, S::Response, _>(picking, this.attempts, request)
                }
                StageProjection::Readying { choice, service } => {
                    let ready = ready!(service.poll_ready(cx));
                    let (Some(choice), Some(request)) = (choice.take(), this.request.take()) else {
                        return Poll::Pending;
                    };
                    match ready {
                        Ok(()) => Stage::Called { choice: Some(choice), future: service.call(request) },
                        Err(error) => {
                            // It says so for good: a clone of it would, too.
                            inner.pool.forget(choice.state());
                            let next = inner.unsent::<Q, S::Response, _>(
                                choice,
                                error.into(),
                                this.attempts,
                                &request,
                            );
                            *this.request = Some(request);
                            next
                        }
                    }
                }
                StageProjection::Called { choice, future } => {
                    let result = ready!(future.poll(cx));
                    let Some(choice) = choice.take() else { return Poll::Pending };
                    return Poll::Ready(inner.ended::<Q, S::Response>(
                        this.attempts,
                        choice,
                        result.map_err(Into::into),
                    ));
                }
            };
            this.stage.set(next);
        }
    }
}

impl<S, X> Inner<S, X> {
    /// What the caller gets.
    fn ended<Q, R>(
        &self,
        attempts: &mut Attempts,
        choice: Choice,
        result: Result<R, BoxError>,
    ) -> Result<X::Output, Error>
    where
        X: Exchange<Q, R>,
    {
        let error = match result {
            Ok(response) => return Ok(X::answered(&self.exchange, response, choice)),
            Err(error) => error,
        };
        let outcome = X::failed(&self.exchange, &*error);
        let mut names = std::mem::take(&mut attempts.names);
        names.push(choice.instance());
        choice.complete(outcome);
        Err(Error::attempts(self.balancer.service_id(), names, Attempt::Inner(error)))
    }
}

impl<S, X> Clone for PerInstance<S, X> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<S, X> fmt::Debug for PerInstance<S, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerInstance")
            .field("service", self.inner.balancer.service_id())
            .finish_non_exhaustive()
    }
}

impl<S: Service<Q>, Q, X> fmt::Debug for PerInstanceFuture<S, Q, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerInstanceFuture").field("tried", &self.attempts.names).finish_non_exhaustive()
    }
}
