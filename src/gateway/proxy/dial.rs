//! Connections to instances, whatever connector makes them.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::Authority;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use tower_service::Service;

use super::body::BoxError;
use crate::BoxFuture;
use crate::client::tower::Connector;

/// A connector without its type, so that a gateway has none.
#[derive(Clone)]
pub(in crate::gateway) struct Dial {
    connect: Arc<dyn Fn(Uri) -> BoxFuture<'static, Result<Line, BoxError>> + Send + Sync>,
    limit: Option<Duration>,
    /// Where the instance is, whatever host its requests are to see.
    to: Option<Authority>,
}

impl Dial {
    pub(in crate::gateway) fn new(connector: impl Connector) -> Self {
        let connect = Arc::new(move |uri| -> BoxFuture<'static, Result<Line, BoxError>> {
            let mut connector = connector.clone();
            Box::pin(async move {
                std::future::poll_fn(|cx| connector.poll_ready(cx)).await.map_err(Into::into)?;
                let line = connector.call(uri).await.map_err(Into::into)?;
                Ok(Line(Box::new(line)))
            })
        });
        Self { connect, limit: None, to: None }
    }

    /// The same, whose connections are made within a limit, with all that belongs to them.
    pub(super) fn within(&self, limit: Duration) -> Self {
        Self { limit: Some(limit), ..self.clone() }
    }

    /// The same, whose connections all go to one instance.
    pub(super) fn to(self, authority: Option<&Authority>) -> Self {
        Self { to: authority.cloned(), ..self }
    }

    fn dialled(&self, uri: Uri) -> Uri {
        let Some(authority) = &self.to else { return uri };
        let mut parts = uri.clone().into_parts();
        parts.authority = Some(authority.clone());
        Uri::from_parts(parts).unwrap_or(uri)
    }
}

impl Default for Dial {
    /// TCP, without TLS.
    fn default() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self::new(connector)
    }
}

impl Service<Uri> for Dial {
    type Response = Line;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Line, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (limit, connecting) = (self.limit, (self.connect)(self.dialled(uri)));
        let Some(limit) = limit else { return connecting };
        Box::pin(async move {
            let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {limit:?}"));
            tokio::time::timeout(limit, connecting).await.map_err(late)?
        })
    }
}

/// A connection without its type.
pub(in crate::gateway) struct Line(Box<dyn Io>);

trait Io: Read + Write + Connection + Send + Unpin {}
impl<T: Read + Write + Connection + Send + Unpin> Io for T {}

impl Read for Line {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.get_mut().0).poll_read(cx, buf)
    }
}

impl Write for Line {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.get_mut().0).poll_write(cx, buf)
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.get_mut().0).poll_flush(cx)
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.get_mut().0).poll_shutdown(cx)
    }
    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.get_mut().0).poll_write_vectored(cx, bufs)
    }
}

impl Connection for Line {
    fn connected(&self) -> Connected {
        self.0.connected()
    }
}
