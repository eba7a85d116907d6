//! A request body that comes back if nobody read of it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;

/// Where a body comes back to: [`take`](Home::take) it for the next attempt.
#[derive(Debug)]
pub(crate) struct Home<B>(Arc<Mutex<Option<B>>>);

/// A body on its way. Dropped before anybody read of it, as when its call could not connect, it goes [home](Home), whatever
/// kind of body it is; so does one that has nothing to read.
#[derive(Debug)]
pub(crate) struct Returning<B> {
    inner: Option<B>,
    /// None once it was read of.
    home: Option<Arc<Mutex<Option<B>>>>,
}

impl<B> Home<B> {
    /// A home with `body` in it.
    pub(crate) fn new(body: B) -> Self {
        Self(Arc::new(Mutex::new(Some(body))))
    }

    /// The body, to be sent; `None` while it is on its way, and for ever once it was read.
    pub(crate) fn take(&self) -> Option<Returning<B>> {
        let body = self.0.lock().take()?;
        Some(Returning { inner: Some(body), home: Some(Arc::clone(&self.0)) })
    }
}

impl<B: Body + Unpin> Body for Returning<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.get_mut();
        // From now on a part of it may be gone.
        this.home = None;
        match &mut this.inner {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl<B> Drop for Returning<B> {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            *home.lock() = self.inner.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::FutureExt;
    use http_body_util::{BodyExt, Empty, Full, StreamBody};

    use super::*;

    #[tokio::test]
    async fn a_body_comes_back_until_somebody_reads_of_it() {
        let home = Home::new(Full::new(&b"hello"[..]));
        let on_its_way = home.take().unwrap();
        assert_eq!(on_its_way.size_hint().exact(), Some(5));
        assert!(home.take().is_none() && !on_its_way.is_end_stream());
        drop(on_its_way);
        let Ok(read) = home.take().unwrap().collect().await;
        assert_eq!(read.to_bytes(), "hello");
        assert!(home.take().is_none());
    }

    #[tokio::test]
    async fn one_that_has_nothing_to_read_comes_back_after_it_was_sent() {
        let home = Home::new(Empty::<&'static [u8]>::new());
        let sent = home.take().unwrap();
        // As a client does: it asks, and reads nothing.
        assert!(sent.is_end_stream());
        drop(sent);
        assert!(home.take().is_some());
    }

    #[tokio::test]
    async fn half_a_body_does_not_come_back() {
        let (sender, body) =
            tokio::sync::mpsc::unbounded_channel::<Result<Frame<&'static [u8]>, Infallible>>();
        sender.send(Ok(Frame::data(&b"half"[..]))).unwrap();
        let stream = futures_util::stream::unfold(body, async |mut body| Some((body.recv().await?, body)));
        let home = Home::new(StreamBody::new(Box::pin(stream)));
        let mut read = home.take().unwrap();
        let frame = read.frame().now_or_never();
        assert!(frame.is_some_and(|frame| frame.is_some()));
        drop(read);
        assert!(home.take().is_none());
    }
}
