//! Whether tonic was built with TLS. Without it, a channel speaks to an `https` address in the clear, and says nothing.

use std::future::Ready;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::sync::OnceCell;
use tonic::transport::Endpoint;
use tower_service::Service;

static IS_THERE: OnceCell<bool> = OnceCell::const_new();

/// With TLS, an `https` address for which none was set up is an error; that is how it can be told.
pub(super) async fn is_there() -> bool {
    let look = || async {
        let endpoint = Endpoint::from_static("https://tls.invalid");
        endpoint.connect_with_connector(Nowhere).await.is_err()
    };
    *IS_THERE.get_or_init(look).await
}

/// Connects to nothing.
struct Nowhere;

/// Takes everything, and has nothing to say.
struct Void;

impl Service<Uri> for Nowhere {
    type Response = Void;
    type Error = io::Error;
    type Future = Ready<io::Result<Void>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        std::future::ready(Ok(Void))
    }
}

impl Read for Void {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Write for Void {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(from.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    /// The tests are built with TLS, which is told by what tonic does.
    #[tokio::test]
    async fn tls_is_told_from_what_tonic_does() {
        assert!(super::is_there().await);
    }
}
