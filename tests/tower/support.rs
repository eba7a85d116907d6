//! Short ways to call by the client of hyper, and servers of hyper.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::LoadBalancers;
use evenkeel::ServiceInstance;
use evenkeel::client::Via;
use evenkeel::client::tower::{Error, HyperClient};
use evenkeel::config::Properties;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

use super::net::at;

pub type Client = HyperClient<Full<Bytes>>;

pub fn client(balancers: &LoadBalancers) -> Client {
    balancers.hyper()
}

/// Over the service `orders` with these instances.
pub fn over(instances: impl IntoIterator<Item = ServiceInstance>) -> Client {
    client(&super::net::balancers(instances, Properties::default()))
}

pub fn request(method: Method, uri: &str, body: impl Into<Full<Bytes>>) -> Request<Full<Bytes>> {
    Request::builder().method(method).uri(uri).body(body.into()).unwrap()
}

pub fn get(uri: &str) -> Request<Full<Bytes>> {
    request(Method::GET, uri, "")
}

pub fn via<B>(response: &Response<B>) -> Via {
    response.extensions().get::<Via>().unwrap().clone()
}

/// One call whose response is read to its end; who answered.
pub async fn send(http: &Client, method: Method) -> Result<Via, Error> {
    let response = http.request(request(method, "lb://orders/x", "body")).await?;
    let via = via(&response);
    response.into_body().collect().await.unwrap();
    Ok(via)
}

pub async fn text<B>(response: Response<B>) -> String
where
    B: hyper::body::Body<Error: std::fmt::Debug>,
{
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// A request as a server of hyper got it, with its body.
#[derive(Clone, Debug)]
pub struct Seen {
    pub uri: Uri,
    pub version: http::Version,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// What a server of hyper answers to its n-th request, from 1: a status and a body, after a pause.
pub type Answer = (u16, &'static str, Duration);

type Answers = dyn Fn(usize) -> Answer + Send + Sync;

/// A server of hyper, for HTTP/1.1 and HTTP/2 without TLS.
pub struct Hyper {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    open: Arc<AtomicUsize>,
    task: AbortHandle,
}

/// Counts an open connection.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Hyper {
    pub async fn start(answer: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, open) = (Arc::<Mutex<Vec<Seen>>>::default(), Arc::<AtomicUsize>::default());
        let (kept, count, answer) = (Arc::clone(&seen), Arc::clone(&open), Arc::new(answer) as Arc<Answers>);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let guard = Open(Arc::clone(&count));
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                let service =
                    service_fn(move |request| served(request, Arc::clone(&kept), Arc::clone(&answer)));
                connections.spawn(async move {
                    let _guard = guard;
                    let http = auto::Builder::new(TokioExecutor::new());
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, seen, open, task: task.abort_handle() }
    }

    /// One that answers everything at once.
    pub async fn ok(body: &'static str) -> Self {
        Self::start(move |_| (200, body, Duration::ZERO)).await
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub fn served(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// Connections that are open now.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    pub fn instance(&self, id: &str) -> ServiceInstance {
        at(self.address, id)
    }
}

impl Drop for Hyper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn served(
    request: Request<Incoming>,
    kept: Arc<Mutex<Vec<Seen>>>,
    answer: Arc<Answers>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let number = {
        let mut kept = kept.lock().unwrap();
        let (uri, version, headers) = (parts.uri, parts.version, parts.headers);
        kept.push(Seen { uri, version, headers, body });
        kept.len()
    };
    let (status, text, pause) = answer(number);
    tokio::time::sleep(pause).await;
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response.headers_mut().insert("x-from", "server".parse().unwrap());
    Ok(response)
}
