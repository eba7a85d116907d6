//! Real HTTP servers on loopback for the examples.
#![allow(dead_code, missing_docs)] // each example uses a part

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

/// A server that answers every request with its name, and counts them. Below `/actuator/health` it tells how it is.
pub struct Server {
    pub name: String,
    pub address: SocketAddr,
    state: Arc<State>,
    task: AbortHandle,
}

#[derive(Default)]
struct State {
    served: AtomicU64,
    sick: AtomicBool,
    /// How many requests are answered with 503 before the next good answer.
    refusals: AtomicU64,
}

impl State {
    fn status(&self, path: &str) -> StatusCode {
        if path == "/actuator/health" {
            let sick = self.sick.load(Ordering::Relaxed);
            return if sick { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
        }
        self.served.fetch_add(1, Ordering::Relaxed);
        let less = |left: u64| left.checked_sub(1);
        match self.refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
            Ok(_) => StatusCode::SERVICE_UNAVAILABLE,
            Err(_) => StatusCode::OK,
        }
    }
}

impl Server {
    pub async fn start(name: &str) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let state = Arc::<State>::default();
        let (shared, answer) = (Arc::clone(&state), Bytes::from(format!("hello from {name}\n")));
        let task = tokio::spawn(async move {
            // Dropped with the task: every connection breaks at once, as when a process is killed.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (state, answer) = (Arc::clone(&shared), answer.clone());
                let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                    let mut response = hyper::Response::new(Full::new(answer.clone()));
                    *response.status_mut() = state.status(request.uri().path());
                    async move { Ok::<_, Infallible>(response) }
                });
                let http = hyper::server::conn::http1::Builder::new();
                connections.spawn(http.serve_connection(TokioIo::new(stream), service));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { name: name.to_owned(), address, state, task: task.abort_handle() })
    }

    pub fn served(&self) -> u64 {
        self.state.served.load(Ordering::Relaxed)
    }

    /// From now on its health check says so.
    pub fn set_healthy(&self, healthy: bool) {
        self.state.sick.store(!healthy, Ordering::Relaxed);
    }

    /// Answers the next `n` requests with 503.
    pub fn refuse_next(&self, n: u64) {
        self.state.refusals.store(n, Ordering::Relaxed);
    }

    /// As `kill -9`: the port is closed and every connection broken.
    pub fn kill(&self) {
        self.task.abort();
    }
}

/// A server that can be broken in three ways, and mended.
pub struct Broken {
    pub name: String,
    pub address: SocketAddr,
    fails: Arc<AtomicBool>,
    hangs: Arc<AtomicBool>,
    task: tokio::sync::Mutex<tokio::task::JoinHandle<()>>,
}

impl Broken {
    pub async fn start(name: &str) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (fails, hangs) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let task = tokio::spawn(listen(listener, Arc::clone(&fails), Arc::clone(&hangs)));
        Ok(Self { name: name.to_owned(), address, fails, hangs, task: task.into() })
    }

    /// Nobody listens any more, and every connection is broken.
    pub async fn refuse(&self) {
        let mut task = self.task.lock().await;
        task.abort();
        let _ = (&mut *task).await;
    }

    /// Somebody listens again, at the same address.
    pub async fn serve(&self) -> std::io::Result<()> {
        let listener = TcpListener::bind(self.address).await?;
        let task = tokio::spawn(listen(listener, Arc::clone(&self.fails), Arc::clone(&self.hangs)));
        *self.task.lock().await = task;
        Ok(())
    }

    /// Answers 503 at once.
    pub fn fail(&self, yes: bool) {
        self.fails.store(yes, Ordering::Relaxed);
    }

    /// Takes requests and does not answer them.
    pub fn hang(&self, yes: bool) {
        self.hangs.store(yes, Ordering::Relaxed);
    }
}

async fn listen(listener: TcpListener, fails: Arc<AtomicBool>, hangs: Arc<AtomicBool>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (fails, hangs) = (Arc::clone(&fails), Arc::clone(&hangs));
        let service = service_fn(move |_: hyper::Request<hyper::body::Incoming>| {
            let mut response = hyper::Response::new(Full::new(Bytes::from_static(b"well\n")));
            let (fails, hangs) = (fails.load(Ordering::Relaxed), hangs.load(Ordering::Relaxed));
            if fails {
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            }
            async move {
                // A healthy answer takes a little; who fails fast is faster.
                let pause = match (hangs, fails) {
                    (true, _) => Duration::from_secs(600),
                    (false, true) => Duration::ZERO,
                    (false, false) => Duration::from_millis(3),
                };
                tokio::time::sleep(pause).await;
                Ok::<_, Infallible>(response)
            }
        });
        let http = hyper::server::conn::http1::Builder::new();
        connections.spawn(http.serve_connection(TokioIo::new(stream), service));
        while connections.try_join_next().is_some() {}
    }
}
