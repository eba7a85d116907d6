//! The connections to one instance.
//!
//! tonic's channel can connect by itself, when a request is there. But then each request in its queue waits for an attempt
//! of its own: behind a host that drops packets, the hundredth waits a hundred connect time-outs. So a channel gets one
//! connection, made beforehand by one task for everybody who waits, and never another: once it has ended, the channel says
//! so, and the next call makes a new channel.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use http::uri::Scheme;
use http::{Request, Response, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tonic::Code;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint};
use tower_service::Service;

use super::fault::{Fault, Kind, Lost};
use super::tls;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The connections to one instance, each made at its first call.
#[derive(Clone)]
pub(super) struct Connections {
    first: Arc<Connection>,
    more: Arc<[Arc<Connection>]>,
}

/// One of them.
pub(super) struct Connection {
    endpoint: Endpoint,
    connect_timeout: Duration,
    in_flight: AtomicUsize,
    /// Counts the channels, so that who finds one dead does not throw away the next.
    number: AtomicU64,
    state: Mutex<State>,
}

enum State {
    Down,
    Coming(u64, Coming),
    Up(u64, Channel),
}

type Coming = Shared<BoxFuture<'static, Result<Channel, Fault>>>;

/// A call on a connection, until its answer is read.
pub(super) struct InFlight {
    _counted: Counted,
    /// Streams go on over the connection on which they began.
    _channel: Channel,
}

impl Connections {
    /// `many` connections, at least one.
    pub(super) fn new(endpoint: &Endpoint, connect_timeout: Duration, many: usize) -> Self {
        let connection = || {
            Arc::new(Connection {
                endpoint: endpoint.clone(),
                connect_timeout,
                in_flight: AtomicUsize::new(0),
                number: AtomicU64::new(0),
                state: Mutex::new(State::Down),
            })
        };
        Self { first: connection(), more: (1..many).map(|_| connection()).collect() }
    }

    /// The one with the fewest calls.
    pub(super) fn calmest(&self) -> &Arc<Connection> {
        let calls = |connection: &&Arc<Connection>| connection.in_flight.load(Ordering::Relaxed);
        self.more
            .iter()
            .min_by_key(calls)
            .filter(|one| calls(one) < calls(&&self.first))
            .unwrap_or(&self.first)
    }
}

impl Connection {
    /// Sends what `request` makes once there is a connection; with the head of the answer comes what keeps the call counted.
    pub(super) async fn send(
        self: &Arc<Self>,
        request: impl FnOnce() -> Request<Body>,
    ) -> Result<(Response<Body>, InFlight), Fault> {
        // Counted from the start, so that those who wait for it go to different ones.
        let counted = Counted::new(self);
        let (number, channel) = self.up().await;
        let mut channel = channel?;
        let answered = match poll_fn(|cx| Service::poll_ready(&mut channel, cx)).await {
            Ok(()) => Service::call(&mut channel, request()).await,
            Err(error) => Err(error),
        };
        match answered.map_err(Fault::of) {
            Ok(response) => Ok((response, InFlight { _counted: counted, _channel: channel })),
            Err(fault) => {
                if fault.kind == Kind::Lost {
                    self.down(number);
                }
                Err(fault)
            }
        }
    }

    /// A channel with a connection; made, if there is none, by one task for all who wait.
    async fn up(self: &Arc<Self>) -> (u64, Result<Channel, Fault>) {
        let (number, coming) = {
            let mut state = self.state.lock();
            match &*state {
                State::Up(number, channel) => return (*number, Ok(channel.clone())),
                State::Coming(number, coming) => (*number, coming.clone()),
                State::Down => {
                    let number = self.number.fetch_add(1, Ordering::Relaxed);
                    let coming = self.begin(number);
                    *state = State::Coming(number, coming.clone());
                    (number, coming)
                }
            }
        };
        let made = coming.await;
        if made.is_err() {
            // The task has said so already, unless it was lost with its runtime.
            self.down(number);
        }
        (number, made)
    }

    /// A task, so that the caller who began it may give up without the others losing it.
    fn begin(self: &Arc<Self>, number: u64) -> Coming {
        let (endpoint, limit) = (self.endpoint.clone(), self.connect_timeout);
        let connection = Arc::downgrade(self);
        let task = tokio::spawn(async move {
            let made = connect(&endpoint, limit).await;
            if let Some(connection) = connection.upgrade() {
                connection.landed(number, &made);
            }
            made
        });
        let gone = || Fault::new(Kind::Lost, Code::Unavailable, "the runtime that connected is gone");
        async move { task.await.unwrap_or_else(|_| Err(gone())) }.boxed().shared()
    }

    fn landed(&self, number: u64, made: &Result<Channel, Fault>) {
        let mut state = self.state.lock();
        if state.is(number) {
            *state = match made {
                Ok(channel) => State::Up(number, channel.clone()),
                Err(_) => State::Down,
            };
        }
    }

    /// Lets go of a channel that has ended; calls that run on it go on.
    fn down(&self, number: u64) {
        let mut state = self.state.lock();
        if state.is(number) {
            *state = State::Down;
        }
    }
}

impl State {
    fn is(&self, number: u64) -> bool {
        matches!(self, Self::Up(current, _) | Self::Coming(current, _) if *current == number)
    }
}

async fn connect(endpoint: &Endpoint, limit: Duration) -> Result<Channel, Fault> {
    if endpoint.uri().scheme() == Some(&Scheme::HTTPS) && !tls::is_there().await {
        let text = "the instance is secure, and tonic was built without TLS: turn on its feature tls-ring or tls-aws-lc";
        return Err(Fault::new(Kind::Unfit, Code::FailedPrecondition, text));
    }
    let connector = Once { inner: connector(endpoint), used: false };
    // The limit holds for the name, TCP and TLS together.
    match tokio::time::timeout(limit, endpoint.connect_with_connector(connector)).await {
        Ok(made) => made.map_err(Fault::connecting),
        Err(_) => {
            Err(Fault::new(Kind::Connect, Code::Unavailable, format!("not connected within {limit:?}")))
        }
    }
}

/// As tonic makes it from the settings of an endpoint, as far as they can be read.
fn connector(endpoint: &Endpoint) -> HttpConnector {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(endpoint.get_tcp_nodelay());
    http.set_keepalive(endpoint.get_tcp_keepalive());
    http.set_keepalive_interval(endpoint.get_tcp_keepalive_interval());
    http.set_keepalive_retries(endpoint.get_tcp_keepalive_retries());
    http
}

/// Connects once.
struct Once {
    inner: HttpConnector,
    used: bool,
}

impl Service<Uri> for Once {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if self.used { Poll::Ready(Ok(())) } else { self.inner.poll_ready(cx).map_err(Into::into) }
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        if std::mem::replace(&mut self.used, true) {
            return Box::pin(std::future::ready(Err(Lost.into())));
        }
        let connecting = self.inner.call(uri);
        Box::pin(async move { Ok(connecting.await?) })
    }
}

/// Counts a call while it lives.
struct Counted(Arc<Connection>);

impl Counted {
    fn new(connection: &Arc<Connection>) -> Self {
        connection.in_flight.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(connection))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
