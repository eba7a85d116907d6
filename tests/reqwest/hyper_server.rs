//! Servers of hyper, for HTTP/1.1 and HTTP/2, which can be told to say goodbye.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel::ServiceInstance;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

pub struct Hyper {
    pub address: SocketAddr,
    counts: Arc<Counts>,
    goodbye: watch::Sender<u32>,
    task: AbortHandle,
}

#[derive(Default)]
struct Counts {
    served: AtomicUsize,
    accepted: AtomicUsize,
    open: AtomicUsize,
}

/// A connection is open as long as this lives.
struct Open(Arc<Counts>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Hyper {
    /// Answers with the protocol of the request.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Arc::<Counts>::default();
        let (goodbye, heard) = watch::channel(0);
        let shared = Arc::clone(&counts);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                shared.accepted.fetch_add(1, Ordering::SeqCst);
                shared.open.fetch_add(1, Ordering::SeqCst);
                let (open, mut heard) = (Open(Arc::clone(&shared)), heard.clone());
                heard.mark_unchanged();
                connections.spawn(async move {
                    let service = service_fn(|request: hyper::Request<Incoming>| {
                        open.0.served.fetch_add(1, Ordering::SeqCst);
                        let text = format!("{:?}", request.version());
                        async move { Ok::<_, Infallible>(hyper::Response::new(Full::new(Bytes::from(text)))) }
                    });
                    let builder = Builder::new(TokioExecutor::new());
                    let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), service));
                    loop {
                        tokio::select! {
                            _ = serving.as_mut() => return,
                            Ok(()) = heard.changed() => serving.as_mut().graceful_shutdown(),
                        }
                    }
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, counts, goodbye, task: task.abort_handle() }
    }

    /// Ends all connections when what is on them is done: GOAWAY in HTTP/2.
    pub fn say_goodbye(&self) {
        self.goodbye.send_modify(|times| *times += 1);
    }

    pub fn served(&self) -> usize {
        self.counts.served.load(Ordering::SeqCst)
    }

    pub fn accepted(&self) -> usize {
        self.counts.accepted.load(Ordering::SeqCst)
    }

    pub fn open(&self) -> usize {
        self.counts.open.load(Ordering::SeqCst)
    }

    pub fn instance(&self, id: &str) -> ServiceInstance {
        super::net::at(self.address, id)
    }
}

impl Drop for Hyper {
    fn drop(&mut self) {
        self.task.abort();
    }
}
