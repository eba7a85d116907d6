//! A server for a gateway, that can be drained.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::gateway::{Peer, PeerScheme};
use super::proxy::{Front, Known, Proxy, RequestBody, Tunnels, handle};

/// How long a client may take to the bytes that tell the version of HTTP, and then to the head of a request by HTTP/1.1: who
/// holds a connection without a word costs as much as one who works.
const HEAD: Duration = Duration::from_secs(30);

/// How often a connection of HTTP/2 is asked whether its client is still there, and how long the answer may take. Without a
/// stream there is nothing else that would tell.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// What a connection of HTTP/2 begins with (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The pause until another look at a connection of which a part of that came; it doubles as long as nothing more does, so that
/// who stops there costs next to nothing.
const LOOK: Duration = Duration::from_millis(10);

/// The longest of these pauses.
const LONG_LOOK: Duration = Duration::from_secs(1);

/// The pause after a connection that could not be taken, as when there are no more file descriptors: the next try at once
/// would fail as well.
const PAUSE: Duration = Duration::from_millis(50);

/// A gateway at work. Dropping the handle ends it at once, and cuts what is in flight.
#[must_use = "a gateway whose handle is dropped ends"]
pub struct GatewayHandle {
    address: SocketAddr,
    draining: watch::Sender<bool>,
    /// How many connections are open; `None` once none is taken any more, and all have ended.
    open: watch::Receiver<Option<usize>>,
    task: AbortHandle,
    tunnels: Arc<Tunnels>,
}

/// How a gateway ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Connections that were cut, since they had not ended within the limit.
    pub cut: usize,
    /// Websockets that were.
    pub websockets_cut: usize,
}

impl Drained {
    /// Whether everything that was in flight has ended by itself.
    pub const fn is_complete(&self) -> bool {
        self.cut == 0 && self.websockets_cut == 0
    }
}

impl GatewayHandle {
    pub(super) fn start(proxy: Arc<Proxy>, listener: TcpListener) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (draining, drain) = watch::channel(false);
        let (count, open) = watch::channel(Some(0));
        let tunnels = Arc::new(Tunnels::default());
        let served = Server { proxy, tunnels: Arc::clone(&tunnels), drain };
        let task = tokio::spawn(served.run(listener, count)).abort_handle();
        Ok(Self { address, draining, open, task, tunnels })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections, lets what is in flight end within `limit`, and then cuts what is left. Requests in flight get
    /// their answers, and connections that are idle close at once; a websocket goes on until one of its sides ends it.
    pub async fn shutdown(self, limit: Duration) -> Drained {
        self.draining.send_replace(true);
        let mut open = self.open.clone();
        let closed = async {
            // The task ends by itself, or it is gone.
            let _ = open.wait_for(Option::is_none).await;
            self.tunnels.ended().await;
        };
        let in_time = timeout(limit, closed).await.is_ok();
        let cut = if in_time { 0 } else { self.open.borrow().unwrap_or_default() };
        let websockets_cut = self.tunnels.running();
        // Cuts the rest.
        drop(self);
        Drained { cut, websockets_cut }
    }
}

impl Drop for GatewayHandle {
    fn drop(&mut self) {
        self.task.abort();
        self.tunnels.cut();
    }
}

impl fmt::Debug for GatewayHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayHandle").field("address", &self.address).finish_non_exhaustive()
    }
}

struct Server {
    proxy: Arc<Proxy>,
    tunnels: Arc<Tunnels>,
    drain: watch::Receiver<bool>,
}

impl Server {
    async fn run(self, listener: TcpListener, count: watch::Sender<Option<usize>>) {
        let mut drain = self.drain.clone();
        // Dropped with the task: every connection is cut then.
        let mut open = JoinSet::new();
        loop {
            tokio::select! {
                () = told(&mut drain) => break,
                Some(_) = open.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        open.spawn(self.connection(stream, peer));
                    }
                    Err(_) => sleep(PAUSE).await,
                },
            }
            count.send_replace(Some(open.len()));
        }
        drop(listener);
        while open.join_next().await.is_some() {
            count.send_replace(Some(open.len()));
        }
        count.send_replace(None);
    }

    /// One connection, until it ends, or until it has answered what was in flight when the drain began.
    fn connection(&self, stream: TcpStream, peer: SocketAddr) -> impl Future<Output = ()> + Send + 'static {
        let peer = Peer { address: Some(peer), scheme: PeerScheme::Http, known: Known::default() };
        let (proxy, tunnels) = (Arc::clone(&self.proxy), Arc::clone(&self.tunnels));
        let (front, mut drain) = (Front { proxy, tunnels, peer, tells: false }, self.drain.clone());
        async move {
            let _ = stream.set_nodelay(true);
            let version = tokio::select! {
                version = timeout(HEAD, is_http2(&stream)) => version.ok().and_then(Result::ok),
                () = told(&mut drain) => None,
            };
            let Some(is_http2) = version else {
                // What was seen and not read would make a reset of the end.
                let _ = stream.try_read(&mut [0; PREFACE.len()]);
                return;
            };
            let (stream, front) = (TokioIo::new(stream), Arc::new(front));
            let service = service_fn(move |request: hyper::Request<Incoming>| {
                let answer = handle(Arc::clone(&front), request.map(RequestBody::Incoming));
                async move { Ok::<_, Infallible>(answer.await) }
            });
            if is_http2 {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder.timer(TokioTimer::new());
                builder.keep_alive_interval(KEEP_ALIVE).keep_alive_timeout(KEEP_ALIVE);
                let serving = builder.serve_connection(stream, service);
                serve(serving, http2::Connection::graceful_shutdown, drain).await;
            } else {
                let mut builder = http1::Builder::new();
                builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
                let serving = builder.serve_connection(stream, service).with_upgrades();
                serve(serving, http1::UpgradeableConnection::graceful_shutdown, drain).await;
            }
        }
    }
}

/// Serves a connection until it ends, however it does: the client is gone then. `finish` lets it end what is in flight.
async fn serve<C: Future>(serving: C, finish: impl FnOnce(Pin<&mut C>), mut drain: watch::Receiver<bool>) {
    let mut serving = pin!(serving);
    // Which asks only who was woken: each question would take locks that all connections share, twice per request.
    let mut told: FuturesUnordered<_> = [told(&mut drain)].into_iter().collect();
    tokio::select! {
        biased;
        _ = serving.as_mut() => return,
        _ = told.next() => finish(serving.as_mut()),
    }
    let _ = serving.await;
}

/// Whether a connection begins as one of HTTP/2. Nothing is read.
///
/// # Errors
/// It broke, or ended before that can be told.
async fn is_http2(stream: &TcpStream) -> io::Result<bool> {
    let mut bytes = [0; PREFACE.len()];
    let (mut before, mut pause) = (0, LOOK);
    loop {
        // Before the look: what came with the end is seen then.
        let is_closed = stream.ready(Interest::READABLE).await?.is_read_closed();
        let seen = match stream.peek(&mut bytes).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            many => &bytes[..many],
        };
        if seen == PREFACE || !PREFACE.starts_with(seen) {
            return Ok(seen == PREFACE);
        }
        if is_closed {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        pause = if seen.len() > before { LOOK } else { LONG_LOOK.min(pause * 2) };
        before = seen.len();
        // What is there is seen again at once, so that there is nothing to wait for. Next to no client sends so little.
        sleep(pause).await;
    }
}

/// Waits until the drain begins; it does too when the handle is gone.
async fn told(drain: &mut watch::Receiver<bool>) {
    let _ = drain.wait_for(|drain| *drain).await;
}
