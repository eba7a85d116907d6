//! A response body that holds the lease of its instance.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::{Failure, Lease, Outcome};

/// A response that can carry a [`Lease`] to the end of its body.
pub trait Track {
    /// The response with the lease in its body.
    type Tracked;
    /// Puts the lease into the body.
    fn track(self, lease: Lease) -> Self::Tracked;
}

impl<B: Body> Track for http::Response<B> {
    type Tracked = http::Response<TrackedBody<B>>;

    fn track(self, mut lease: Lease) -> Self::Tracked {
        lease.hear(self.headers());
        let outcome = outcome_of(self.status(), self.headers());
        self.map(|body| TrackedBody::new(body, lease, outcome, |_| Failure::Reset))
    }
}

/// What an answer with this head is, once its body has ended.
pub(crate) fn outcome_of(status: http::StatusCode, headers: &http::HeaderMap) -> Outcome {
    let retry_after = headers.get(http::header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    Outcome::answered(status.as_u16(), retry_after)
}

pin_project! {
    /// A body that ends the lease of its instance when it ends, breaks off or is dropped.
    pub struct TrackedBody<B: Body> {
        #[pin]
        inner: B,
        lease: Held,
        classify: fn(&B::Error) -> Failure,
    }
}

/// The lease, and what it reports when nobody says otherwise.
struct Held {
    lease: Option<Lease>,
    outcome: Outcome,
}

impl Held {
    fn end(&mut self, outcome: Outcome) {
        if let Some(lease) = self.lease.take() {
            lease.complete(outcome);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.end(if self.outcome.is_bad() { self.outcome } else { Outcome::Cancelled });
    }
}

impl<B: Body> TrackedBody<B> {
    /// `classify` says what an error of the body means.
    pub(crate) fn new(
        inner: B,
        mut lease: Lease,
        outcome: Outcome,
        classify: fn(&B::Error) -> Failure,
    ) -> Self {
        lease.answered(outcome);
        let mut lease = Held { lease: Some(lease), outcome };
        if inner.is_end_stream() {
            lease.end(outcome);
        }
        Self { inner, lease, classify }
    }

    /// A body without a lease: somebody else holds it, or nobody chose an instance.
    #[cfg(feature = "tower")]
    pub(crate) fn untracked(inner: B) -> Self {
        let lease = Held { lease: None, outcome: Outcome::Success };
        Self { inner, lease, classify: |_| Failure::Other }
    }
}

impl<B: Body> Body for TrackedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.project();
        let mut inner = this.inner;
        let polled = inner.as_mut().poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(trailers) = frame.trailers_ref()
            && let Some(lease) = &this.lease.lease
        {
            lease.hear_trailers(trailers);
        }
        match &polled {
            Poll::Ready(None) => this.lease.end(this.lease.outcome),
            Poll::Ready(Some(Err(error))) => this.lease.end(Outcome::Failure((this.classify)(error))),
            // A reader that knows the length may never poll past the last frame.
            Poll::Ready(Some(Ok(_))) if inner.is_end_stream() => {
                this.lease.end(this.lease.outcome);
            }
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B: Body> std::fmt::Debug for TrackedBody<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrackedBody").field("lease", &self.lease.lease).finish_non_exhaustive()
    }
}
