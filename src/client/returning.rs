//! A request body that comes back for the next attempt.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;

type BoxError = Box<dyn Error + Send + Sync>;

/// Where a body stays between attempts: each one [`take`](Home::take)s it. One with nothing in it, as most requests have, needs no
/// place.
#[derive(Debug)]
pub(crate) struct Home<B>(Option<Arc<Mutex<Place<B>>>>);

#[derive(Debug)]
struct Place<B> {
    body: B,
    /// What was read of it, as long as it is no more than `limit`.
    kept: Vec<Bytes>,
    len: usize,
    trailers: Option<HeaderMap>,
    limit: usize,
    /// There is no more to read of it.
    ended: bool,
    /// Something was read that is not kept.
    gone: bool,
    /// The attempt that has it.
    attempt: u32,
}

/// A request body on its way with one attempt of a call.
///
/// As long as nobody read of it, as when its attempt could not connect, the next attempt gets it, whatever kind of body it
/// is. What was read is kept up to a limit, and sent again: first what was kept, then what is left. Beyond the limit the
/// body is a stream that can be sent once.
pub struct Returning<B> {
    /// `None`: there is nothing in it.
    place: Option<Arc<Mutex<Place<B>>>>,
    attempt: u32,
    /// How many of the kept parts were sent.
    at: usize,
    trailers_sent: bool,
}

impl<B: Body> Home<B> {
    /// A home for `body`, of which up to `limit` bytes are kept when they are read.
    pub(crate) fn new(body: B, limit: usize) -> Self {
        Self(Place::of(body, limit))
    }

    /// The body, to be sent from its start; `None` if a part of it is gone. An attempt that has it still gets no more of it.
    pub(crate) fn take(&self) -> Option<Returning<B>> {
        let attempt = match &self.0 {
            None => 0,
            Some(place) => {
                let mut place = place.lock();
                if place.gone {
                    return None;
                }
                place.attempt += 1;
                place.attempt
            }
        };
        Some(Returning { place: self.0.clone(), attempt, at: 0, trailers_sent: false })
    }
}

#[cfg(feature = "tower")]
impl<B: Body> Returning<B> {
    /// A body that is sent once.
    pub(crate) fn once(body: B) -> Self {
        Self { place: Place::of(body, 0), attempt: 0, at: 0, trailers_sent: false }
    }
}

impl<B: Body> Place<B> {
    /// The place of a body that has something in it.
    fn of(body: B, limit: usize) -> Option<Arc<Mutex<Self>>> {
        if body.is_end_stream() {
            return None;
        }
        Some(Arc::new(Mutex::new(Self::new(body, limit))))
    }

    fn new(body: B, limit: usize) -> Self {
        Self { ended: false, body, kept: Vec::new(), len: 0, trailers: None, limit, gone: false, attempt: 0 }
    }

    /// Keeps what was read, unless that is too much.
    fn keep(&mut self, data: &Bytes) -> bool {
        if self.gone || data.len() > self.limit.saturating_sub(self.len) {
            self.gone = true;
            self.kept = Vec::new();
            return false;
        }
        self.len += data.len();
        self.kept.push(data.clone());
        true
    }
}

impl<B> Body for Returning<B>
where
    B: Body + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let Some(place) = &this.place else { return Poll::Ready(None) };
        let mut guard = place.lock();
        let place = &mut *guard;
        if place.attempt != this.attempt {
            return Poll::Ready(Some(Err(Superseded.into())));
        }
        if let Some(part) = place.kept.get(this.at) {
            this.at += 1;
            return Poll::Ready(Some(Ok(Frame::data(part.clone()))));
        }
        if let (false, Some(trailers)) = (this.trailers_sent, &place.trailers) {
            this.trailers_sent = true;
            return Poll::Ready(Some(Ok(Frame::trailers(trailers.clone()))));
        }
        if place.ended {
            return Poll::Ready(None);
        }
        let frame = match std::task::ready!(Pin::new(&mut place.body).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                place.gone = true;
                return Poll::Ready(Some(Err(error.into())));
            }
            None => {
                place.ended = true;
                return Poll::Ready(None);
            }
        };
        Poll::Ready(Some(Ok(match frame.into_data() {
            Ok(mut data) => {
                let data = data.copy_to_bytes(data.remaining());
                this.at = if place.keep(&data) { this.at + 1 } else { 0 };
                Frame::data(data)
            }
            Err(other) => {
                let trailers = other.into_trailers().unwrap_or_default();
                this.trailers_sent = true;
                place.trailers = (!place.gone).then(|| trailers.clone());
                Frame::trailers(trailers)
            }
        })))
    }

    fn is_end_stream(&self) -> bool {
        let Some(place) = &self.place else { return true };
        let place = place.lock();
        let all_sent = self.at >= place.kept.len() && (self.trailers_sent || place.trailers.is_none());
        all_sent && (place.ended || place.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let Some(place) = &self.place else { return SizeHint::with_exact(0) };
        let place = place.lock();
        let mut hint = if place.ended { SizeHint::with_exact(0) } else { place.body.size_hint() };
        let again: usize = place.kept.iter().skip(self.at).map(Bytes::len).sum();
        let again = again as u64;
        // The upper end first: it must not fall below the lower one.
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(again));
        }
        hint.set_lower(hint.lower().saturating_add(again));
        hint
    }
}

impl<B> fmt::Debug for Returning<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Returning").field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

/// What an attempt gets that was given up: another one sends the body now.
#[derive(Debug)]
struct Superseded;

impl fmt::Display for Superseded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the attempt was given up, and its body is sent by another one")
    }
}

impl Error for Superseded {}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;
    use http_body_util::{BodyExt, Empty, Full, StreamBody};

    use super::*;

    /// A body of parts of these sizes, and trailers.
    fn parts(sizes: &[usize]) -> impl Body<Data = Bytes, Error = Infallible> + Unpin + use<> {
        let frames: Vec<_> = sizes.iter().map(|size| Ok(Frame::data(vec![b'x'; *size].into()))).collect();
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", http::HeaderValue::from_static("7"));
        StreamBody::new(stream::iter(frames.into_iter().chain([Ok(Frame::trailers(trailers))])))
    }

    #[tokio::test]
    async fn a_body_comes_back_until_somebody_reads_of_it() {
        let home = Home::new(Full::new(&b"hello"[..]), 0);
        let on_its_way = home.take().unwrap();
        assert_eq!((on_its_way.size_hint().exact(), on_its_way.is_end_stream()), (Some(5), false));
        drop(on_its_way);
        // Nor does one have to be dropped for that.
        let held = home.take().unwrap();
        let read = home.take().unwrap().collect().await.unwrap();
        assert_eq!(read.to_bytes(), "hello");
        assert!(home.take().is_none());
        assert!(held.collect().await.unwrap_err().to_string().contains("another"));
    }

    #[tokio::test]
    async fn one_that_has_nothing_to_read_comes_back_after_it_was_sent() {
        let home = Home::new(Empty::<&'static [u8]>::new(), 0);
        for _ in 0..3 {
            let sent = home.take().unwrap();
            assert!(sent.is_end_stream());
            assert_eq!(sent.size_hint().exact(), Some(0));
            assert!(sent.collect().await.unwrap().to_bytes().is_empty());
        }
    }

    #[tokio::test]
    async fn case_023_what_is_within_the_limit_is_sent_again_with_the_same_length() {
        let home = Home::new(parts(&[3, 4]), 7);
        for _ in 0..3 {
            let read = home.take().unwrap().collect().await.unwrap();
            assert_eq!(read.trailers().unwrap()["x-sum"], "7");
            assert_eq!(read.to_bytes().len(), 7);
        }
        let home = Home::new(Full::new(&b"hello"[..]), 5);
        let mut first = home.take().unwrap();
        first.frame().await.unwrap().unwrap();
        assert!(first.is_end_stream());
        let second = home.take().unwrap();
        assert_eq!((second.size_hint().exact(), second.is_end_stream()), (Some(5), false));
    }

    #[tokio::test]
    async fn half_of_a_body_is_sent_again_and_the_rest_behind_it() {
        let home = Home::new(parts(&[3, 4, 2]), 100);
        let mut half = home.take().unwrap();
        half.frame().await.unwrap().unwrap();
        drop(half);
        let read = home.take().unwrap().collect().await.unwrap();
        assert_eq!((read.trailers().is_some(), read.to_bytes().len()), (true, 9));
    }

    #[tokio::test]
    async fn case_023_beyond_the_limit_it_is_a_stream_that_is_sent_once() {
        let home = Home::new(parts(&[3, 4, 2]), 6);
        let read = home.take().unwrap().collect().await.unwrap();
        assert_eq!((read.trailers().is_some(), read.to_bytes().len()), (true, 9));
        assert!(home.take().is_none());
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_does_not_come_back() {
        let frames = [Ok(Frame::data(Bytes::from_static(b"x"))), Err("broken")];
        let home = Home::new(StreamBody::new(stream::iter(frames)), 100);
        assert_eq!(home.take().unwrap().collect().await.unwrap_err().to_string(), "broken");
        assert!(home.take().is_none());
    }
}
