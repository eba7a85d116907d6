//! A request body that can be sent again: what was read of it is kept, up to a limit, until the call has its answer.
//!
//! Parts are handles of bytes that exist in any case; none is copied. A stream that is still open can be sent again too: the
//! next attempt gets what was read so far, and goes on with the rest.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;
use tonic::Status;
use tonic::body::Body;

/// Where the body of a call is; its attempts [`take`](Self::take) it one after the other.
#[derive(Debug)]
pub(super) struct Origin(Arc<Mutex<Source>>);

#[derive(Debug)]
struct Source {
    body: Body,
    /// What was read of it, in order; `None` once that is more than the limit, or once nobody may ask for it again.
    kept: Option<Kept>,
    /// How many more bytes may be kept.
    room: usize,
    /// The attempt that may read. One that was given up may still be held by a task of its connection.
    reader: u32,
}

/// The body on its way with one attempt.
#[derive(Debug)]
pub(super) struct Sent {
    source: Arc<Mutex<Source>>,
    reader: u32,
    /// What was kept, and is to be sent again before the rest.
    again: Again,
}

/// Parts of a body. Most bodies are one, which needs no list.
#[derive(Clone, Debug, Default)]
struct Kept {
    first: Option<Bytes>,
    more: Vec<Bytes>,
}

type Again = std::iter::Chain<std::option::IntoIter<Bytes>, std::vec::IntoIter<Bytes>>;

impl Kept {
    fn push(&mut self, data: Bytes) {
        match &self.first {
            None => self.first = Some(data),
            Some(_) => self.more.push(data),
        }
    }

    fn again(self) -> Again {
        self.first.into_iter().chain(self.more)
    }
}

impl Origin {
    /// `limit` is how many bytes are kept.
    pub(super) fn new(body: Body, limit: usize) -> Self {
        Self(Arc::new(Mutex::new(Source { body, kept: Some(Kept::default()), room: limit, reader: 0 })))
    }

    /// The body for an attempt; the one that had it before gets no more of it. `None` if too much of it was read.
    pub(super) fn take(&self) -> Option<Body> {
        let mut source = self.0.lock();
        let again = source.kept.clone()?.again();
        source.reader += 1;
        let sent = Sent { source: Arc::clone(&self.0), reader: source.reader, again };
        drop(source);
        Some(Body::new(sent))
    }
}

impl Drop for Origin {
    /// The call has its answer, or was given up: no more of the body has to be kept.
    fn drop(&mut self) {
        self.0.lock().kept = None;
    }
}

impl Source {
    fn keep(&mut self, data: &Bytes) {
        self.kept = match self.room.checked_sub(data.len()) {
            Some(room) => {
                self.room = room;
                let mut kept = self.kept.take();
                if let Some(kept) = &mut kept {
                    kept.push(data.clone());
                }
                kept
            }
            None => None,
        };
    }
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.get_mut();
        let mut source = this.source.lock();
        if source.reader != this.reader {
            return Poll::Ready(Some(Err(Status::cancelled("the call was sent again"))));
        }
        if let Some(data) = this.again.next() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        let polled = Pin::new(&mut source.body).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => match frame.data_ref() {
                Some(data) => source.keep(data),
                // Nothing of gRPC sends trailers with a request; such a body is not sent twice.
                None => source.kept = None,
            },
            Poll::Ready(Some(Err(_))) => source.kept = None,
            Poll::Ready(None) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.again.size_hint().0 == 0 && self.source.lock().body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let again = self.again.clone().map(|data| data.len() as u64).sum::<u64>();
        let rest = self.source.lock().body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(again));
        if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(again)) {
            hint.set_upper(upper);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use http_body_util::{BodyExt, StreamBody};
    use tokio::sync::mpsc;

    use super::*;

    /// A body whose parts a test sends.
    fn open(limit: usize) -> (mpsc::UnboundedSender<&'static str>, Origin) {
        let (sender, receiver) = mpsc::unbounded_channel::<&'static str>();
        let stream = futures_util::stream::unfold(receiver, async |mut parts| {
            let part = parts.recv().await?;
            Some((Ok::<_, Status>(Frame::data(Bytes::from_static(part.as_bytes()))), parts))
        });
        (sender, Origin::new(Body::new(StreamBody::new(Box::pin(stream))), limit))
    }

    fn next(body: &mut Body) -> Option<Result<Bytes, Status>> {
        let frame = body.frame().now_or_never()??;
        Some(frame.map(|frame| frame.into_data().unwrap_or_default()))
    }

    #[tokio::test]
    async fn what_was_read_is_sent_again_and_the_rest_behind_it() {
        let (sender, origin) = open(100);
        let mut first = origin.take().unwrap();
        sender.send("one").unwrap();
        sender.send("two").unwrap();
        assert_eq!(next(&mut first).unwrap().unwrap(), "one");
        assert_eq!(next(&mut first).unwrap().unwrap(), "two");
        let mut second = origin.take().unwrap();
        assert!(next(&mut first).unwrap().is_err(), "the attempt before reads no more");
        assert_eq!(next(&mut second).unwrap().unwrap(), "one");
        let third = origin.take().unwrap();
        assert_eq!(third.size_hint().lower(), 6);
        sender.send("three").unwrap();
        drop((sender, origin));
        let whole = third.collect().await.unwrap().to_bytes();
        assert_eq!(whole, "onetwothree");
    }

    #[tokio::test]
    async fn a_body_of_which_too_much_was_read_or_that_failed_is_not_sent_again() {
        let (sender, origin) = open(5);
        sender.send("four").unwrap();
        sender.send("four").unwrap();
        let mut body = origin.take().unwrap();
        assert_eq!(next(&mut body).unwrap().unwrap(), "four");
        assert!(origin.take().is_some_and(|again| !again.is_end_stream()));
        let mut body = origin.take().unwrap();
        assert_eq!(next(&mut body).unwrap().unwrap(), "four");
        assert_eq!(next(&mut body).unwrap().unwrap(), "four");
        assert!(origin.take().is_none());

        let broken =
            StreamBody::new(futures_util::stream::iter([Err::<Frame<Bytes>, _>(Status::internal("oh"))]));
        let origin = Origin::new(Body::new(broken), 5);
        assert!(origin.take().unwrap().collect().await.is_err());
        assert!(origin.take().is_none());
    }

    #[test]
    fn nothing_is_kept_once_the_call_has_its_answer() {
        let (sender, origin) = open(100);
        let mut body = origin.take().unwrap();
        let source = Arc::clone(&origin.0);
        drop(origin);
        sender.send("late").unwrap();
        assert_eq!(next(&mut body).unwrap().unwrap(), "late");
        assert!(source.lock().kept.is_none());
    }

    #[test]
    fn an_empty_body_can_always_be_sent_again() {
        let origin = Origin::new(Body::empty(), 0);
        assert!(origin.take().unwrap().is_end_stream() && origin.take().unwrap().is_end_stream());
    }
}
