//! The child process with the servers.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, ExitCode, Stdio};

use bytes::Bytes;
use evenkeel::gateway::{Gateway, RouteDefinition, Routes};
use evenkeel::{LoadBalancers, ServiceInstance};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// Marks the child; its value says what it serves.
pub const CHILD: &str = "EVENKEEL_END_TO_END_SERVES";

/// Servers in a process of their own, which ends with this.
pub struct Servers {
    child: Child,
    pub addresses: Vec<SocketAddr>,
}

impl Servers {
    /// Starts those that `what` names.
    pub fn start(what: &str) -> Self {
        let own = std::env::current_exe().expect("this program");
        let mut child = Command::new(own)
            .env(CHILD, what)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child process");
        let mut line = String::new();
        let out = child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("its addresses");
        let addresses = line.split_whitespace().map(|one| one.parse().expect("an address")).collect();
        Self { child, addresses }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The child: serves until its parent is gone.
pub fn serve(what: &str) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let mut words = what.split_whitespace();
    let addresses = match words.next() {
        Some("http") => (0..3).map(|_| http(&runtime)).collect::<Vec<_>>(),
        Some("grpc") => (0..3).map(|_| grpc(&runtime)).collect(),
        Some("proxies") => {
            let behind: Vec<_> = words.map(|one| one.parse().expect("an address")).collect();
            vec![proxy(&runtime, behind[0]), gateway(&runtime, &behind)]
        }
        _ => return ExitCode::FAILURE,
    };
    let line = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    println!("{line}");
    std::io::stdout().flush().expect("the parent");
    // The pipe ends with the parent.
    let _ = std::io::stdin().read(&mut [0]);
    ExitCode::SUCCESS
}

pub fn listen(runtime: &Runtime) -> (TcpListener, SocketAddr) {
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).expect("a port");
    let address = listener.local_addr().expect("its address");
    (listener, address)
}

/// Serves each connection with what `service` makes for it.
fn serve_http<S, B>(runtime: &Runtime, service: S) -> SocketAddr
where
    S: hyper::service::Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    S::Future: Send,
    B: hyper::body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (listener, address) = listen(runtime);
    runtime.spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let _ = stream.set_nodelay(true);
            let service = service.clone();
            tokio::spawn(async move {
                let stream = TokioIo::new(stream);
                let _ = hyper::server::conn::http1::Builder::new().serve_connection(stream, service).await;
            });
        }
    });
    address
}

/// The least that a reverse proxy does: another authority, and the rest as it came.
fn proxy(runtime: &Runtime, behind: SocketAddr) -> SocketAddr {
    let client = {
        let _inside = runtime.enter();
        legacy::Client::builder(TokioExecutor::new()).build_http::<Incoming>()
    };
    let authority: http::uri::Authority = behind.to_string().parse().expect("an authority");
    serve_http(
        runtime,
        service_fn(move |mut request: Request<Incoming>| {
            let mut parts = request.uri().clone().into_parts();
            parts.scheme = Some(http::uri::Scheme::HTTP);
            parts.authority = Some(authority.clone());
            *request.uri_mut() = http::Uri::from_parts(parts).expect("a URI");
            request.headers_mut().remove(http::header::HOST);
            client.request(request)
        }),
    )
}

/// The gateway, before instances.
fn gateway(runtime: &Runtime, behind: &[SocketAddr]) -> SocketAddr {
    let instance = |address: &SocketAddr| {
        ServiceInstance::new(address.ip().to_string(), address.port()).expect("an instance")
    };
    let (listener, address) = listen(runtime);
    let _inside = runtime.enter();
    let list: Vec<_> = behind.iter().map(instance).collect();
    let balancers = LoadBalancers::fixed([("orders", list)]).expect("balancers");
    let route = RouteDefinition::new("orders", "lb://orders").with_predicate("Path=/api/**");
    let gateway = Gateway::builder(balancers).routes(Routes::new([route]).expect("routes")).build();
    let handle = gateway.serve(listener).expect("a server");
    // It ends with the process.
    std::mem::forget(handle);
    address
}

/// A server of gRPC with the health service.
fn grpc(runtime: &Runtime) -> SocketAddr {
    let (listener, address) = listen(runtime);
    runtime.spawn(async move {
        let (_reporter, service) = tonic_health::server::health_reporter();
        let incoming = tonic::transport::server::TcpIncoming::from(listener).with_nodelay(Some(true));
        tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming).await
    });
    address
}

/// A server of HTTP/1.1 that answers everything with a few words.
fn http(runtime: &Runtime) -> SocketAddr {
    let answer = Bytes::from_static(b"{\"id\":42,\"state\":\"paid\"}");
    serve_http(
        runtime,
        service_fn(move |_: Request<Incoming>| {
            let answer = Response::new(Full::new(answer.clone()));
            async { Ok::<_, Infallible>(answer) }
        }),
    )
}
