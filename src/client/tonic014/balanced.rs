use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::HeaderMap;
use http::request::Parts;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::transport::{self, Endpoint};
use tonic::{Code, Status};

use super::answer::{Head, Story, answer};
use super::connection::{Connection, Connections};
use super::deadline::{GRPC_TIMEOUT, header_for, timeout_of};
use super::error::Error;
use super::fault::{Fault, Kind};
use super::follow::{Following, Listener};
use super::protocol::Grpc;
use super::replay::Origin;
use super::settings::{Authority, Retry, Settings};
use crate::call::{Visited, call_with};
use crate::client::Via;
use crate::client::pool::{Pool, Pools};
use crate::client::tower::CallOptions;
use crate::future::within;
use crate::observe::CallInfo;
use crate::request::Propagated;
use crate::{Choice, HttpView, LoadBalancer, LoadBalancers, Request, RequestView, ServiceInstance};

/// Past the deadline, how long a call may take to say with whom it was; only the wait for a list lasts that long.
const GRACE: Duration = Duration::from_millis(50);

/// The connect time-out of a balancer that has no properties; their default.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A service for generated clients that sends each call to an instance of a service; see the [module](super). Cheap to clone.
#[derive(Clone)]
pub struct BalancedChannel {
    inner: Arc<Inner>,
}

struct Inner {
    source: Source,
    settings: Settings,
    following: Following,
}

/// Whom to ask for an instance, and the connections that were made so far.
enum Source {
    Named { balancers: LoadBalancers, service: String, pools: Pools<Connections> },
    One { balancer: LoadBalancer, pool: Pool<Connections> },
}

impl Source {
    fn named(balancers: LoadBalancers, service: String) -> Self {
        Self::Named { balancers, service, pools: Pools::default() }
    }

    fn one(balancer: LoadBalancer) -> Self {
        let pool = Pool::new(&balancer);
        Self::One { balancer, pool }
    }

    /// The same without any connections.
    fn fresh(&self) -> Self {
        match self {
            Self::Named { balancers, service, .. } => Self::named(balancers.clone(), service.clone()),
            Self::One { balancer, .. } => Self::one(balancer.clone()),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Named { service, .. } => service,
            Self::One { balancer, .. } => balancer.service_id().as_str(),
        }
    }

    fn balancer(&self) -> Result<Cow<'_, LoadBalancer>, Error> {
        match self {
            Self::Named { balancers, service, .. } => {
                balancers.get(service).map(Cow::Owned).map_err(Error::refused)
            }
            Self::One { balancer, .. } => Ok(Cow::Borrowed(balancer)),
        }
    }
}

impl BalancedChannel {
    pub(super) fn named(balancers: LoadBalancers, service: &str) -> Self {
        Self::new(Source::named(balancers, service.to_owned()), Settings::default())
    }

    pub(super) fn one(balancer: LoadBalancer) -> Self {
        Self::new(Source::one(balancer), Settings::default())
    }

    fn new(source: Source, settings: Settings) -> Self {
        Self { inner: Arc::new(Inner { source, settings, following: Following::default() }) }
    }

    /// With its own connections, so that clones made before are as they were.
    fn with(&self, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = self.inner.settings.clone();
        change(&mut settings);
        Self::new(self.inner.source.fresh(), settings)
    }

    /// Changes the [`Endpoint`] of an instance: its TLS, limits, windows, user agent, and whatever else tonic has. It is
    /// called when the first call goes to the instance. The connect time-out is not taken from it (see
    /// [`connect_timeout`](Self::connect_timeout)), nor are `local_address` and the buffer size, which cannot be read.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use evenkeel::{LoadBalancers, ServiceInstance};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let balancers = LoadBalancers::fixed([("orders", [ServiceInstance::new("10.0.0.1", 50051)?])])?;
    /// let channel = balancers.tonic("orders").endpoint(|instance, endpoint| {
    ///     let window = if instance.zone() == Some("eu-1a") { 65_535 } else { 1 << 20 };
    ///     endpoint.timeout(Duration::from_secs(2)).initial_stream_window_size(window).user_agent("shop/1.0")
    /// });
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn endpoint(
        &self,
        change: impl Fn(&ServiceInstance, Endpoint) -> Result<Endpoint, transport::Error> + Send + Sync + 'static,
    ) -> Self {
        self.with(|settings| settings.change = Some(Arc::new(change)))
    }

    /// What `:authority` says (default: [`Authority::Service`]).
    #[must_use]
    pub fn authority(&self, authority: Authority) -> Self {
        self.with(|settings| settings.authority = authority)
    }

    /// Asks a connection over which nothing came for `interval` whether it is there, also while no call is on it, and ends it
    /// if there is no answer within `timeout` (default: 310 s and 20 s; below five minutes, servers of gRPC's own libraries
    /// close the connection unless they are told to permit it. tonic's do not mind).
    #[must_use]
    pub fn keep_alive(&self, interval: Duration, timeout: Duration) -> Self {
        self.with(|settings| settings.keep_alive = Some((interval, timeout)))
    }

    /// Never asks (default: it does, see [`keep_alive`](Self::keep_alive)).
    #[must_use]
    pub fn without_keep_alive(&self) -> Self {
        self.with(|settings| settings.keep_alive = None)
    }

    /// How long making a connection may take, TLS included (default: the property `connect-timeout` of the service, 1 s).
    #[must_use]
    pub fn connect_timeout(&self, limit: Duration) -> Self {
        self.with(|settings| settings.connect_timeout = Some(limit))
    }

    /// So many connections to each instance, at least one (default: 1). A call goes over the one with the fewest calls. More
    /// than one help where the server permits few streams on a connection, or one connection is the limit of what is sent.
    #[must_use]
    pub fn channels_per_instance(&self, channels: usize) -> Self {
        self.with(|settings| settings.channels = channels.max(1))
    }

    /// How many bytes of a request are kept until its answer begins, so that it can be sent again (default: 256 KiB). Once
    /// more than that was sent, the call has no other attempt.
    #[must_use]
    pub fn replay_limit(&self, bytes: usize) -> Self {
        self.with(|settings| settings.replay_limit = bytes)
    }

    /// Repeats calls that ended with one of these codes, if `idempotent` says so of their path (`/package.Service/Method`);
    /// default: none, since the server may have worked on them. How often, with which pauses and out of which budget, the
    /// retry properties of the service say; with `retry.enabled: false` nothing is repeated.
    ///
    /// The code is the one that the caller would get, also of an attempt without a status: `UNAVAILABLE` of a connection that
    /// breaks off, the protocol's code for the reason of a stream that is reset, `DEADLINE_EXCEEDED` of an attempt that takes
    /// longer than `retry.per-try-timeout`. A call that was never sent goes on in any case, whatever the codes. A status that
    /// comes behind the begin of an answer is final.
    ///
    /// ```
    /// use evenkeel::{LoadBalancers, ServiceInstance};
    /// use tonic::Code;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let balancers = LoadBalancers::fixed([("orders", [ServiceInstance::new("10.0.0.1", 50051)?])])?;
    /// let channel = balancers.tonic("orders").retry([Code::Unavailable], |path| path.starts_with("/shop.Orders/Get"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn retry(
        &self,
        codes: impl IntoIterator<Item = Code>,
        idempotent: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        let retry = Retry { codes: codes.into_iter().collect(), idempotent: Arc::new(idempotent) };
        self.with(|settings| settings.retry = Some(retry))
    }
}

impl Inner {
    async fn balanced(
        self: &Arc<Self>,
        head: &mut Parts,
        body: Body,
        deadline: Option<Instant>,
    ) -> Result<http::Response<Body>, Error> {
        let balancer = &*self.source.balancer()?;
        Propagated::current().add_to(&mut head.headers);
        // Nothing of gRPC below looks at them, and a copy for each attempt costs as much as the headers. They live as long as they
        // would in the head: somebody above may wait for their end.
        let kept = std::mem::take(&mut head.extensions);
        let options: Option<&CallOptions> = kept.get();
        let body = Origin::new(body, self.settings.replay_limit);
        let template = options.and_then(CallOptions::template).unwrap_or(head.uri.path());
        let view = View(HttpView::new(&head.method, &head.uri, &head.headers), template);
        let wanted = options.map_or_else(|| Request::of(&view), |options| options.over(Request::of(&view)));
        let retry = self.settings.retry.as_ref().filter(|retry| (retry.idempotent)(head.uri.path()));
        let grpc = Grpc { deadline, retryable: retry.map_or(&[], |retry| &retry.codes) };
        let mut visited = Visited::default();
        let send = |choice: &Choice, _: u32| {
            let first = body.take()?;
            let instance = choice.instance();
            let connections = self.connections(balancer, choice, &instance);
            visited.add(instance);
            let (head, body) = (&*head, &body);
            // In three boxes, here, below and in `call`: each is one that an allocator has at hand; all in one is not.
            Some(Box::pin(async move {
                let connections = connections?;
                let done = within(deadline, pin!(attempt(&connections, head, first, body, deadline))).await;
                done.unwrap_or_else(|| Err(Fault::deadline()))
            }))
        };
        let answered = Box::pin(call_with(balancer, &wanted, &grpc, send)).await;
        let mut answered = answered.map_err(Error::call)?;
        let via = Via::new(answered.instance, answered.attempts);
        answered.response.response.extensions_mut().insert(via);
        let story = Story { service: balancer.service_id().clone(), visited };
        Ok(answer(answered.response, answered.lease, story, deadline))
    }

    /// The connections to an instance.
    fn connections(
        self: &Arc<Self>,
        balancer: &LoadBalancer,
        choice: &Choice,
        instance: &ServiceInstance,
    ) -> Result<Connections, Fault> {
        let settings = &self.settings;
        let make = |connect_timeout: Duration| {
            let endpoint = settings.endpoint(balancer.service_id(), instance)?;
            let connect_timeout = settings.connect_timeout.unwrap_or(connect_timeout);
            self.following.begin(balancer, self);
            Ok(Connections::new(&endpoint, connect_timeout, settings.channels))
        };
        match &self.source {
            Source::Named { balancers, pools, .. } => pools.client(balancers, balancer, choice.state(), make),
            Source::One { pool, .. } => pool.client(balancer, choice.state(), || make(CONNECT_TIMEOUT)),
        }
    }
}

impl Listener for Inner {
    fn changed(&self, balancer: &LoadBalancer) {
        match &self.source {
            Source::Named { pools, .. } => pools.keep_in_step(balancer),
            Source::One { pool, .. } => pool.keep_in_step(balancer),
        }
    }
}

/// Sends the request to an instance. If the server did not look at it, as when its connection has ended meanwhile or it
/// refuses one more stream, it is sent once more to the same one, over another connection if need be: nothing has happened,
/// and only that tells whether the server is gone or has only closed an old connection.
async fn attempt(
    connections: &Connections,
    head: &Parts,
    body: Body,
    origin: &Origin,
    deadline: Option<Instant>,
) -> Result<Head, Fault> {
    let fault = match send(connections, head, body, deadline).await {
        Err(fault) if fault.is_unprocessed() => fault,
        result => return result,
    };
    match origin.take() {
        Some(body) => send(connections, head, body, deadline).await,
        // More of it was sent than is kept. The instance is not to blame for that.
        None => Err(Fault { kind: Kind::Reset, ..fault }),
    }
}

async fn send(
    connections: &Connections,
    head: &Parts,
    body: Body,
    deadline: Option<Instant>,
) -> Result<Head, Fault> {
    let request = || {
        let mut head = head.clone();
        if let Some(end) = deadline {
            let left = end.saturating_duration_since(Instant::now());
            head.headers.insert(GRPC_TIMEOUT, header_for(left));
        }
        http::Request::from_parts(head, body)
    };
    let connection: &Arc<Connection> = connections.calmest();
    connection.send(request).await.map(|(response, in_flight)| Head::new(response, in_flight))
}

/// The request for the chain and for lifecycle processors, and its template: if nobody says another, its path, which is a method
/// of gRPC, of which there are few.
struct View<'a>(HttpView<'a>, &'a str);

impl RequestView for View<'_> {
    fn method(&self) -> Option<&str> {
        self.0.method()
    }
    fn url(&self) -> Option<Cow<'_, str>> {
        self.0.url()
    }
    fn path(&self) -> Option<Cow<'_, str>> {
        self.0.path()
    }
    fn headers(&self) -> Option<&HeaderMap> {
        self.0.headers()
    }
    fn query(&self, name: &str) -> Option<Cow<'_, str>> {
        self.0.query(name)
    }
    fn attribute(&self, name: &str) -> Option<&str> {
        (name == CallInfo::URL_TEMPLATE).then_some(self.1)
    }
}

impl tower_service::Service<http::Request<Body>> for BalancedChannel {
    type Response = http::Response<Body>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Status>> + Send>>;

    /// Always ready: it reserves nothing, so that a clone can be called as well. Which instance is asked is known in `call`.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let inner = Arc::clone(&self.inner);
        let (mut head, body) = request.into_parts();
        Box::pin(async move {
            let deadline = timeout_of(&head.headers).and_then(|limit| Instant::now().checked_add(limit));
            let end = deadline.and_then(|end| end.checked_add(GRACE));
            let result = within(end, pin!(inner.balanced(&mut head, body, deadline))).await;
            result.unwrap_or_else(|| Err(Error::late(inner.source.name()))).map_err(Error::into_status)
        })
    }
}

impl fmt::Debug for BalancedChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BalancedChannel").field("service", &self.inner.source.name()).finish_non_exhaustive()
    }
}
