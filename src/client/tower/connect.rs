//! Connections to an instance.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::Connection;
use tower_service::Service;

use super::BoxError;

/// What makes connections for a [`HyperClient`](super::HyperClient): every connector of hyper-util's clients is one.
pub trait Connector:
    Service<
        Uri,
        Response: Read + Write + Connection + Send + Unpin + 'static,
        Error: Into<BoxError>,
        Future: Send + 'static,
    > + Clone
    + Send
    + Sync
    + 'static
{
}

impl<C> Connector for C where
    C: Service<
            Uri,
            Response: Read + Write + Connection + Send + Unpin + 'static,
            Error: Into<BoxError>,
            Future: Send + 'static,
        > + Clone
        + Send
        + Sync
        + 'static
{
}

/// A connector whose connections, with all that belongs to them such as TLS, are made within a limit.
#[derive(Clone)]
pub(super) struct Bounded<C> {
    connector: C,
    limit: Option<Duration>,
}

impl<C> Bounded<C> {
    pub(super) fn new(connector: C, limit: Option<Duration>) -> Self {
        Self { connector, limit }
    }
}

impl<C: Connector> Service<Uri> for Bounded<C> {
    type Response = C::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (limit, connecting) = (self.limit, self.connector.call(uri));
        Box::pin(async move {
            let Some(limit) = limit else { return connecting.await.map_err(Into::into) };
            match tokio::time::timeout(limit, connecting).await {
                Ok(connected) => connected.map_err(Into::into),
                Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, Late(limit)).into()),
            }
        })
    }
}

#[derive(Debug)]
struct Late(Duration);

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no connection within connect-timeout ({:?})", self.0)
    }
}

impl std::error::Error for Late {}
