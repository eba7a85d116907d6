//! Real HTTP servers on loopback for the examples.
#![allow(dead_code, missing_docs)] // each example uses a part

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

/// A server that answers every request with its name, and counts them.
pub struct Server {
    pub name: String,
    pub address: SocketAddr,
    served: Arc<AtomicU64>,
    task: AbortHandle,
}

impl Server {
    pub async fn start(name: &str) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let served = Arc::new(AtomicU64::new(0));
        let (count, answer) = (Arc::clone(&served), Bytes::from(format!("hello from {name}\n")));
        let task = tokio::spawn(async move {
            // Dropped with the task: every connection breaks at once, as when a process is killed.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (count, answer) = (Arc::clone(&count), answer.clone());
                let service = service_fn(move |_| {
                    count.fetch_add(1, Ordering::Relaxed);
                    let body = Full::new(answer.clone());
                    async move { Ok::<_, Infallible>(hyper::Response::new(body)) }
                });
                let http = hyper::server::conn::http1::Builder::new();
                connections.spawn(http.serve_connection(TokioIo::new(stream), service));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { name: name.to_owned(), address, served, task: task.abort_handle() })
    }

    pub fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    /// As `kill -9`: the port is closed and every connection broken.
    pub fn kill(&self) {
        self.task.abort();
    }
}
