//! Servers of tonic, each with a runtime of its own, so that one can be killed as a process is; and a client for them.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use evenkeel::client::tonic::{BalancedChannel, Via};
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::{LoadBalancers, ServiceId, ServiceInstance};
use futures_util::stream::{BoxStream, StreamExt};
use http::uri::PathAndQuery;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};
use tonic::server::NamedService;
use tonic::transport::server::{Connected, TcpIncoming};
use tonic::{Request, Response, Status, Streaming};
use tonic_health::server::HealthReporter;
use tonic_prost::ProstCodec;

#[derive(Clone, PartialEq, prost::Message)]
pub struct Word {
    #[prost(string, tag = "1")]
    pub text: String,
}

pub fn word(text: &str) -> Word {
    Word { text: text.to_owned() }
}

/// What a server does with a request.
#[derive(Clone)]
pub enum Act {
    /// Its name.
    Answer,
    /// This status, before anything else.
    Status(Status),
    /// One message, then this status: only lists.
    Then(Status),
    /// One message, then nothing for ever: only lists.
    Silence,
    /// Nothing, for ever.
    Hang,
    /// What the function says for the number of the request, from 1.
    By(Arc<dyn Fn(usize) -> Act + Send + Sync>),
}

pub fn by(act: impl Fn(usize) -> Act + Send + Sync + 'static) -> Act {
    Act::By(Arc::new(act))
}

/// The head of a request, as a server saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub authority: String,
    pub headers: http::HeaderMap,
}

struct Shared {
    name: String,
    act: Act,
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
    open: Arc<AtomicUsize>,
}

pub struct Server {
    pub address: SocketAddr,
    pub health: HealthReporter,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
    stop: Mutex<Option<oneshot::Sender<()>>>,
    /// Bound to the same port, and never listening: a server that was killed refuses, and nobody else gets its port, as a
    /// server of another test might that never answers.
    _port: TcpSocket,
}

/// A connection that is counted while it is open.
struct Counted(TcpStream, Arc<AtomicUsize>);

impl Counted {
    fn new(stream: TcpStream, open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::SeqCst);
        Self(stream, Arc::clone(open))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Connected for Counted {
    type ConnectInfo = ();
    fn connect_info(&self) {}
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, to)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, from)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[derive(Clone)]
struct Echo(Arc<Shared>);

impl Server {
    pub async fn start(name: &str, act: Act) -> Self {
        Self::with(name, act, "127.0.0.1:0".parse().unwrap(), |builder| builder).await
    }

    pub async fn with(
        name: &str,
        act: Act,
        address: SocketAddr,
        change: impl FnOnce(tonic::transport::Server) -> tonic::transport::Server,
    ) -> Self {
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            act,
            seen: Mutex::default(),
            connections: AtomicUsize::new(0),
            open: Arc::default(),
        });
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let port = TcpSocket::new_v4().unwrap();
        // Both have the flag, which permits two sockets on a port of which one listens.
        port.set_reuseaddr(true).unwrap();
        port.bind(address).unwrap();
        let address = port.local_addr().unwrap();
        let listener = std::net::TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (health, health_server) = tonic_health::server::health_reporter();
        health.set_service_status("", tonic_health::ServingStatus::Serving).await;
        let (stop, stopped) = oneshot::channel::<()>();
        let (echo, counted) = (Echo(Arc::clone(&shared)), Arc::clone(&shared));
        let router = change(tonic::transport::Server::builder()).add_service(health_server).add_service(echo);
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let incoming = TcpIncoming::from(listener).map(move |stream| {
                counted.connections.fetch_add(1, Ordering::SeqCst);
                stream.map(|stream| Counted::new(stream, &counted.open))
            });
            let stopped = async move {
                // Kept by the server; dropped, it never stops by itself.
                if stopped.await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            router.serve_with_incoming_shutdown(incoming, stopped).await
        });
        Self { address, health, shared, runtime: Some(runtime), stop: Mutex::new(Some(stop)), _port: port }
    }

    pub fn served(&self) -> usize {
        self.shared.seen.lock().unwrap().len()
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Connections that are open.
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// As `kill -9`: the port is closed and every connection broken.
    pub fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Shuts down gracefully: GOAWAY, and calls that run come to their end.
    pub fn stop(&self) {
        let stop = self.stop.lock().unwrap().take();
        stop.unwrap().send(()).unwrap();
    }

    pub fn instance(&self) -> ServiceInstance {
        at(self.address, &self.shared.name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

impl NamedService for Echo {
    const NAME: &'static str = "test.Echo";
}

type Words = BoxStream<'static, Result<Word, Status>>;

impl Shared {
    fn act(&self) -> Act {
        let mut act = self.act.clone();
        while let Act::By(by) = &act {
            act = by(self.seen.lock().unwrap().len());
        }
        act
    }

    fn hello(&self, text: &str) -> Word {
        Word { text: format!("{} {text}", self.name) }
    }

    async fn say(&self, request: Request<Word>) -> Result<Response<Word>, Status> {
        match self.act() {
            Act::Status(status) | Act::Then(status) => Err(status),
            Act::Hang | Act::Silence => std::future::pending().await,
            Act::Answer | Act::By(_) => Ok(Response::new(self.hello(&request.into_inner().text))),
        }
    }

    async fn list(&self, request: Request<Word>) -> Result<Response<Words>, Status> {
        let first = Ok(self.hello(&request.into_inner().text));
        Ok(Response::new(match self.act() {
            Act::Status(status) => return Err(status),
            Act::Hang => std::future::pending().await,
            Act::Then(status) => futures_util::stream::iter([first, Err(status)]).boxed(),
            Act::Silence => {
                futures_util::stream::iter([first]).chain(futures_util::stream::pending()).boxed()
            }
            Act::Answer | Act::By(_) => futures_util::stream::iter([first]).boxed(),
        }))
    }
}

impl tower::Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let authority = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        let seen = Seen { authority, headers: request.headers().clone() };
        self.0.seen.lock().unwrap().push(seen);
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(ProstCodec::<Word, Word>::default());
            Ok(match request.uri().path() {
                "/test.Echo/Say" => {
                    let say = |request| {
                        let shared = Arc::clone(&shared);
                        async move { shared.say(request).await }
                    };
                    grpc.unary(tower::service_fn(say), request).await
                }
                "/test.Echo/List" => {
                    let list = |request| {
                        let shared = Arc::clone(&shared);
                        async move { shared.list(request).await }
                    };
                    grpc.server_streaming(tower::service_fn(list), request).await
                }
                // Every word comes back.
                _ => {
                    let chat = |request: Request<Streaming<Word>>| {
                        let shared = Arc::clone(&shared);
                        let words = request.into_inner().map(move |word| Ok(shared.hello(&word?.text)));
                        async move { Ok::<_, Status>(Response::new(words.boxed() as Words)) }
                    };
                    grpc.streaming(tower::service_fn(chat), request).await
                }
            })
        })
    }
}

/// A client as a generator would write it.
#[derive(Clone)]
pub struct EchoClient<T>(Grpc<T>);

impl<T> EchoClient<T>
where
    T: GrpcService<Body>,
    T::ResponseBody: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    <T::ResponseBody as http_body::Body>::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    T::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    pub fn new(channel: T) -> Self {
        Self(Grpc::new(channel))
    }

    async fn ready(&mut self) -> Result<(), Status> {
        self.0.ready().await.map_err(|error| Status::unknown(error.into().to_string()))
    }

    pub async fn say(&mut self, word: impl tonic::IntoRequest<Word>) -> Result<Response<Word>, Status> {
        self.ready().await?;
        let path = PathAndQuery::from_static("/test.Echo/Say");
        self.0.unary(word.into_request(), path, ProstCodec::default()).await
    }

    pub async fn list(
        &mut self,
        word: impl tonic::IntoRequest<Word>,
    ) -> Result<Response<Streaming<Word>>, Status> {
        self.ready().await?;
        let path = PathAndQuery::from_static("/test.Echo/List");
        self.0.server_streaming(word.into_request(), path, ProstCodec::default()).await
    }

    pub async fn chat(
        &mut self,
        words: impl tonic::IntoStreamingRequest<Message = Word>,
    ) -> Result<Response<Streaming<Word>>, Status> {
        self.ready().await?;
        let path = PathAndQuery::from_static("/test.Echo/Chat");
        self.0.streaming(words.into_streaming_request(), path, ProstCodec::default()).await
    }
}

pub type Client = EchoClient<BalancedChannel>;

pub fn at(address: SocketAddr, id: &str) -> ServiceInstance {
    ServiceInstance::builder(address.ip().to_string()).port(address.port()).id(id).build().unwrap()
}

/// A port that refuses: it is bound, so that nobody else gets it, and nobody listens.
pub struct Refusing(TcpSocket);

impl Refusing {
    pub fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Self(socket)
    }

    pub fn instance(&self, id: &str) -> ServiceInstance {
        at(self.0.local_addr().unwrap(), id)
    }
}

/// Properties for servers that are alive on a machine that may stall.
pub fn patient() -> Properties {
    Properties::default().set("connect-timeout", "20s").unwrap()
}

/// Balancers over the service `orders` with these instances.
pub fn balancers(
    instances: impl IntoIterator<Item = ServiceInstance>,
    properties: Properties,
) -> LoadBalancers {
    let registry = SimpleDiscovery::new().with_instances("orders", instances).unwrap();
    LoadBalancers::from_properties(properties, registry).unwrap()
}

/// The same, with the registry, whose list a test changes.
pub fn changing(instances: impl IntoIterator<Item = ServiceInstance>) -> (SimpleDiscovery, LoadBalancers) {
    let registry = SimpleDiscovery::new().with_instances("orders", instances).unwrap();
    (registry.clone(), LoadBalancers::from_properties(patient(), registry).unwrap())
}

pub fn orders() -> ServiceId {
    ServiceId::new("orders").unwrap()
}

pub fn over(instances: impl IntoIterator<Item = ServiceInstance>) -> Client {
    EchoClient::new(balancers(instances, patient()).tonic("orders"))
}

/// Who answered, and after how many attempts.
pub fn via<T>(response: &Response<T>) -> (String, u32) {
    let via = response.extensions().get::<Via>().unwrap();
    (via.instance().id().to_owned(), via.attempts())
}

/// A call that has to come to an end, in a test whose machine may stall.
pub async fn ends<T>(what: &str, call: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(60);
    let ended = tokio::time::timeout(limit, call).await;
    ended.unwrap_or_else(|_| panic!("{what} has not ended within {limit:?}: it hangs"))
}

/// Waits for an event of another task or socket, for twenty seconds at most.
pub async fn eventually(what: &str, happened: impl Fn() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
