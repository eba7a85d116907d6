//! The answer of a call: what its status says, and its body, with which the lease ends.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tonic::body::Body;
use tonic::{Code, Status};

use super::connection::InFlight;
use super::error::insert;
use super::fault::{Fault, Kind};
use super::names::{name_in, names_of, note};
use crate::call::Visited;
use crate::choice::outcome_of;
use crate::{Lease, Outcome, ServiceId};

/// What the caller reads of an answer that ended as none may.
const NO_STATUS: &str = "the server ended its answer without a status";

/// The head of an answer, what it says, and what keeps its call counted.
pub(super) struct Head {
    pub(super) response: Response<Body>,
    in_flight: InFlight,
    /// The status, if it is there already; success, if more is to come.
    pub(super) outcome: Outcome,
    /// The code that the server sent with the head.
    pub(super) code: Option<u16>,
    /// The code that the caller gets, if the head decides it: nothing follows it, or nothing of gRPC.
    pub(super) settled: Option<u16>,
}

impl Head {
    pub(super) fn new(response: Response<Body>, in_flight: InFlight) -> Self {
        let (outcome, code, settled) = said(&response);
        Self { response, in_flight, outcome, code, settled }
    }
}

/// What the head of an answer says, read once for all who ask.
fn said(response: &Response<Body>) -> (Outcome, Option<u16>, Option<u16>) {
    let code = code_in(response.headers());
    let settled = match response.status() {
        StatusCode::OK if response.body().is_end_stream() => Some(code.unwrap_or(number(Code::Unknown))),
        StatusCode::OK => code,
        status => Some(code.unwrap_or(number(code_for(status)))),
    };
    let outcome = match code {
        Some(code) => Outcome::Grpc(code),
        None if response.status() == StatusCode::OK => Outcome::Grpc(settled.unwrap_or(0)),
        // A proxy, or something that does not speak gRPC.
        None => outcome_of(response.status(), response.headers()),
    };
    (outcome, code, settled)
}

/// The code of a status in headers or trailers. One that is no number, or that nobody knows, is 2 (unknown).
pub(super) fn code_in(headers: &HeaderMap) -> Option<u16> {
    let code = Code::from_bytes(headers.get(Status::GRPC_STATUS)?.as_bytes());
    Some(number(code))
}

pub(super) fn number(code: Code) -> u16 {
    u16::try_from(i32::from(code)).unwrap_or(2)
}

/// The code for an answer of HTTP that has none, as the protocol maps them.
fn code_for(status: StatusCode) -> Code {
    match status.as_u16() {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 | 502 | 503 | 504 => Code::Unavailable,
        _ => Code::Unknown,
    }
}

/// The status that a server did not send. The text is digits and words, which are a header as they are but for the spaces.
fn add_status(headers: &mut HeaderMap, code: u16, text: &str) {
    headers.insert(Status::GRPC_STATUS, HeaderValue::from(code));
    if let Ok(text) = HeaderValue::try_from(text.replace(' ', "%20")) {
        headers.insert(Status::GRPC_MESSAGE, text);
    }
}

/// Whom a call was sent to.
#[derive(Debug)]
pub(super) struct Story {
    pub(super) service: ServiceId,
    pub(super) visited: Visited,
}

/// What lives as long as a call does.
struct Held {
    lease: Lease,
    in_flight: InFlight,
    story: Story,
}

/// The response for the caller. One that has its status already ends the lease at once.
pub(super) fn answer(
    head: Head,
    mut lease: Lease,
    story: Story,
    deadline: Option<Instant>,
) -> Response<Body> {
    let Head { response, in_flight, outcome, code, settled } = head;
    let (mut head, body) = response.into_parts();
    if let Some(settled) = settled {
        let no_grpc = code.is_none();
        if no_grpc {
            let text = match head.status {
                StatusCode::OK => NO_STATUS.to_owned(),
                status => format!("the server answered with HTTP status {}", status.as_u16()),
            };
            add_status(&mut head.headers, settled, &text);
        }
        if settled != 0 {
            name_in(&mut head.headers, story.service.as_str(), &story.visited, outcome);
        }
        lease.answered(outcome);
        lease.complete(outcome);
        return Response::from_parts(head, if no_grpc { Body::empty() } else { body });
    }
    let limit = deadline.map(|end| Box::pin(tokio::time::sleep_until(end)));
    let body = Answer { inner: body, held: Some(Held { lease, in_flight, story }), limit };
    Response::from_parts(head, Body::new(body))
}

/// The body of an answer. Its last part, the trailers, has the status.
struct Answer {
    inner: Body,
    /// None once the call has ended.
    held: Option<Held>,
    /// The deadline of the call: tonic does not look at it once the head is there.
    limit: Option<Pin<Box<Sleep>>>,
}

impl Answer {
    /// Ends the call; whom it was sent to, unless it had ended before.
    fn end(&mut self, outcome: Outcome) -> Option<Story> {
        let held = self.held.take()?;
        self.limit = None;
        held.lease.complete(outcome);
        drop(held.in_flight);
        Some(held.story)
    }

    /// The call ends with a fault; the caller gets a status that names the instances.
    fn fail(&mut self, fault: Fault) -> Status {
        let outcome = match fault.kind {
            // The server had begun to answer: it did look at the request.
            Kind::Lost | Kind::Unprocessed | Kind::Connect => Outcome::Failure(crate::Failure::Reset),
            _ => fault.outcome(),
        };
        let Fault { code, mut text, cause, .. } = fault;
        let named = self.end(outcome).map(|story| (names_of(story.visited.iter()), story));
        if let Some(((names, _), story)) = &named {
            text.push_str(&note(story.service.as_str(), names));
        }
        let mut status = Status::new(code, text);
        if let Some(((_, Some(header)), _)) = named {
            insert(status.metadata_mut(), header);
        }
        if let Some(cause) = cause {
            status.set_source(cause);
        }
        status
    }

    /// The deadline is over.
    fn late(&mut self) -> Status {
        // Resets the stream.
        self.inner = Body::empty();
        self.fail(Fault::deadline())
    }

    fn trailers(&mut self, mut trailers: HeaderMap) -> HeaderMap {
        if let Some(held) = &self.held {
            held.lease.hear_trailers(&trailers);
        }
        let code = code_in(&trailers).unwrap_or_else(|| {
            let unknown = number(Code::Unknown);
            add_status(&mut trailers, unknown, NO_STATUS);
            unknown
        });
        if let Some(story) = self.end(Outcome::Grpc(code))
            && code != 0
        {
            name_in(&mut trailers, story.service.as_str(), &story.visited, Outcome::Grpc(code));
        }
        trailers
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.get_mut();
        // A server that never pauses would not be noticed below.
        if this.limit.as_ref().is_some_and(|limit| limit.deadline() <= Instant::now()) {
            return Poll::Ready(Some(Err(this.late())));
        }
        match Pin::new(&mut this.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let frame = match frame.into_trailers() {
                    Ok(trailers) => Frame::trailers(this.trailers(trailers)),
                    Err(frame) => frame,
                };
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(status))) => Poll::Ready(Some(Err(this.fail(Fault::of_body(status))))),
            // Without a status, which is a fault of the server: the caller gets one that names it.
            Poll::Ready(None) if this.held.is_some() => {
                Poll::Ready(Some(Ok(Frame::trailers(this.trailers(HeaderMap::new())))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let Some(limit) = &mut this.limit else { return Poll::Pending };
                ready!(limit.as_mut().poll(cx));
                Poll::Ready(Some(Err(this.late())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        // As long as the call has not ended, there is a status to come.
        self.held.is_none() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // A call whose caller gives up says nothing of the instance.
        self.end(Outcome::Cancelled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head of an answer behind which there is more.
    fn head(status: u16, entries: &[(&'static str, &'static str)]) -> Response<Body> {
        let mut response = Response::builder().status(status);
        for (name, value) in entries {
            response = response.header(*name, *value);
        }
        response.body(Body::new("more".to_owned())).unwrap()
    }

    #[test]
    fn the_status_of_grpc_counts_before_that_of_http() {
        for (status, entries, outcome, code) in [
            (200, &[][..], Outcome::Grpc(0), None),
            (200, &[("grpc-status", "14")], Outcome::Grpc(14), Some(14)),
            (200, &[("grpc-status", "5")], Outcome::Grpc(5), Some(5)),
            (200, &[("grpc-status", "nonsense")], Outcome::Grpc(2), Some(2)),
            (200, &[("grpc-status", "99")], Outcome::Grpc(2), Some(2)),
            (503, &[], Outcome::Status(503), Some(14)),
            (503, &[("grpc-status", "5")], Outcome::Grpc(5), Some(5)),
            (404, &[], Outcome::Status(404), Some(12)),
        ] {
            let response = head(status, entries);
            let (said, _, settled) = said(&response);
            assert_eq!((said, settled), (outcome, code), "{status} {entries:?}");
        }
        let (outcome, ..) = said(&head(503, &[("retry-after", "7")]));
        assert_eq!(outcome.to_string(), "status 503, retry after 7 s");
        let ended = |response: Response<Body>| response.map(|_| Body::empty());
        for (response, code) in [(head(200, &[]), 2), (head(200, &[("grpc-status", "0")]), 0)] {
            let response = ended(response);
            let (outcome, _, settled) = said(&response);
            assert_eq!((outcome, settled), (Outcome::Grpc(code), Some(code)));
        }
        for (status, code) in [(400, 13), (401, 16), (403, 7), (404, 12), (429, 14), (503, 14), (500, 2)] {
            assert_eq!(number(code_for(StatusCode::from_u16(status).unwrap())), code, "{status}");
        }
    }
}
