//! The bodies on both sides.

use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;

use crate::TrackedBody;

pub(in crate::gateway) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request, as it comes from the server in front.
#[derive(Debug)]
pub(in crate::gateway) enum RequestBody {
    Incoming(Incoming),
    Other(UnsyncBoxBody<Bytes, BoxError>),
    Empty,
}

impl RequestBody {
    /// The body of a server; that of hyper needs no box.
    pub(in crate::gateway) fn of<B>(body: B) -> Self
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let mut body = Some(body);
        if let Some(incoming) = (&mut body as &mut dyn Any).downcast_mut::<Option<Incoming>>() {
            return incoming.take().map_or(Self::Empty, Self::Incoming);
        }
        body.map_or(Self::Empty, |body| Self::Other(body.map_err(Into::into).boxed_unsync()))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            Self::Incoming(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            Self::Other(body) => Pin::new(body).poll_frame(cx),
            Self::Empty => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Incoming(body) => body.is_end_stream(),
            Self::Other(body) => body.is_end_stream(),
            Self::Empty => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Incoming(body) => body.size_hint(),
            Self::Other(body) => body.size_hint(),
            Self::Empty => SizeHint::with_exact(0),
        }
    }
}

/// The body of an answer of a gateway: that of the instance, frame by frame and holding its lease, or a text of the gateway.
pub struct GatewayBody(Inner);

enum Inner {
    Text(Option<Bytes>),
    Instance(TrackedBody<Incoming>),
}

impl GatewayBody {
    pub(super) fn text(text: impl Into<Bytes>) -> Self {
        Self(Inner::Text(Some(text.into()).filter(|text| !text.is_empty())))
    }

    pub(super) fn instance(body: TrackedBody<Incoming>) -> Self {
        Self(Inner::Instance(body))
    }
}

impl Body for GatewayBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.get_mut().0 {
            Inner::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Inner::Instance(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Text(text) => text.is_none(),
            Inner::Instance(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            Inner::Instance(body) => body.size_hint(),
        }
    }
}

impl fmt::Debug for GatewayBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Inner::Text(_) => "GatewayBody(text)",
            Inner::Instance(_) => "GatewayBody(instance)",
        })
    }
}
