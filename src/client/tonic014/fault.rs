//! What went wrong in an attempt, looked for in the whole chain of causes.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;

use tonic::{Code, ConnectError, Status, TimeoutExpired};

use crate::{Failure, Outcome};

/// Why an attempt has no answer.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    pub(super) code: Code,
    pub(super) text: String,
    pub(super) cause: Option<Arc<dyn StdError + Send + Sync>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The connection was gone, or was going, before the server looked at the request. Another one may do.
    Lost,
    /// The server says that it did not look at the request, and the connection stays.
    Unprocessed,
    /// There is no connection.
    Connect,
    Timeout,
    Reset,
    Other,
    /// Nothing was tried: the instance has no part in it.
    Unfit,
}

/// A connection that has ended, and that nobody makes anew behind our back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost;

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection has ended")
    }
}

impl StdError for Lost {}

impl Fault {
    pub(super) fn new(kind: Kind, code: Code, text: impl Into<String>) -> Self {
        Self { kind, code, text: text.into(), cause: None }
    }

    /// An error of a channel.
    pub(super) fn of(error: tonic::transport::Error) -> Self {
        let (kind, code) = judge(&error).unwrap_or((Kind::Other, Code::Unknown));
        Self { kind, code, text: text_of(&error), cause: Some(Arc::new(error)) }
    }

    /// An error of a connection that is made: whatever it is, nothing was sent.
    pub(super) fn connecting(error: tonic::transport::Error) -> Self {
        Self {
            kind: Kind::Connect,
            code: Code::Unavailable,
            text: text_of(&error),
            cause: Some(Arc::new(error)),
        }
    }

    /// An error of the body of an answer.
    pub(super) fn of_body(status: Status) -> Self {
        let (kind, code) = judge(&status).unwrap_or((Kind::Other, status.code()));
        let text = status.source().map_or_else(|| status.message().to_owned(), text_of);
        Self { kind, code, text, cause: Some(Arc::new(status)) }
    }

    pub(super) fn deadline() -> Self {
        Self::new(Kind::Timeout, Code::DeadlineExceeded, "the deadline of the call is over")
    }

    /// What it says of the instance.
    pub(super) fn outcome(&self) -> Outcome {
        Outcome::Failure(match self.kind {
            Kind::Unfit => return Outcome::Cancelled,
            Kind::Lost | Kind::Unprocessed | Kind::Connect => Failure::Connect,
            Kind::Timeout => Failure::Timeout,
            Kind::Reset => Failure::Reset,
            Kind::Other => Failure::Other,
        })
    }

    /// Whether the server did not look at the request, so that it can be sent again to the same one.
    pub(super) fn is_unprocessed(&self) -> bool {
        matches!(self.kind, Kind::Lost | Kind::Unprocessed)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl StdError for Fault {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_ref().map(|cause| &**cause as _)
    }
}

fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}

/// The first cause that says something; `None` if none does.
fn judge(error: &(dyn StdError + 'static)) -> Option<(Kind, Code)> {
    // It comes as an error of connecting, which it is not: nobody has tried.
    if chain(error).any(<dyn StdError>::is::<Lost>) {
        return Some((Kind::Lost, Code::Unavailable));
    }
    chain(error).find_map(|cause| {
        if cause.is::<ConnectError>() {
            Some((Kind::Connect, Code::Unavailable))
        } else if cause.is::<TimeoutExpired>() {
            // tonic says CANCELLED; the protocol keeps that for callers who give up.
            Some((Kind::Timeout, Code::DeadlineExceeded))
        } else if cause.is::<tower::buffer::error::Closed>() {
            // The task of the channel went with its runtime, and never had the request.
            Some((Kind::Lost, Code::Unavailable))
        } else if let Some(hyper) = cause.downcast_ref::<hyper::Error>() {
            of_hyper(hyper)
        } else if let Some(h2) = cause.downcast_ref::<h2::Error>() {
            Some(of_h2(h2))
        } else {
            cause.downcast_ref::<io::Error>().map(of_io)
        }
    })
}

fn of_hyper(error: &hyper::Error) -> Option<(Kind, Code)> {
    if error.is_canceled() {
        // It says so of requests that were not given to the connection.
        Some((Kind::Lost, Code::Unavailable))
    } else if error.is_timeout() {
        // No answer to a ping of the keep-alive.
        Some((Kind::Timeout, Code::Unavailable))
    } else {
        None
    }
}

/// The codes are those of the protocol's own table.
fn of_h2(error: &h2::Error) -> (Kind, Code) {
    use h2::Reason;
    if error.is_remote() && error.is_go_away() {
        // A stream ends so only if its number is above the last one that the server looked at.
        return (Kind::Lost, Code::Unavailable);
    }
    if error.is_remote() && error.reason() == Some(Reason::REFUSED_STREAM) {
        return (Kind::Unprocessed, Code::Unavailable);
    }
    let code = match error.reason() {
        Some(Reason::CANCEL) => Code::Cancelled,
        Some(Reason::ENHANCE_YOUR_CALM) => Code::ResourceExhausted,
        Some(Reason::INADEQUATE_SECURITY) => Code::PermissionDenied,
        Some(_) => Code::Internal,
        None => Code::Unavailable,
    };
    (Kind::Reset, code)
}

fn of_io(error: &io::Error) -> (Kind, Code) {
    match error.kind() {
        io::ErrorKind::TimedOut => (Kind::Timeout, Code::Unavailable),
        _ => (Kind::Reset, Code::Unavailable),
    }
}

/// The chain of causes as one text. What a cause repeats of the one below it is said once.
fn text_of(error: &(dyn StdError + 'static)) -> String {
    let mut text = String::new();
    for cause in chain(error).filter(|cause| !cause.is::<tonic::transport::Error>()) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&cause);
        }
    }
    if text.is_empty() { error.to_string() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cause below two that say nothing.
    fn wrapped(cause: impl StdError + Send + Sync + 'static) -> Box<dyn StdError + Send + Sync> {
        let outer = io::Error::other(ConnectError(Box::new(cause)));
        Box::new(outer)
    }

    #[test]
    fn a_lost_connection_is_found_below_what_looks_like_an_error_of_connecting() {
        let ended = wrapped(Lost);
        assert_eq!(judge(&*ended), Some((Kind::Lost, Code::Unavailable)));
        let refused = ConnectError(Box::new(io::Error::from(io::ErrorKind::ConnectionRefused)));
        assert_eq!(judge(&refused), Some((Kind::Connect, Code::Unavailable)));
        assert_eq!(
            judge(&io::Error::from(io::ErrorKind::BrokenPipe)),
            Some((Kind::Reset, Code::Unavailable))
        );
        assert_eq!(
            judge(&io::Error::from(io::ErrorKind::TimedOut)),
            Some((Kind::Timeout, Code::Unavailable))
        );
        assert_eq!(judge(&fmt::Error), None);
    }

    #[test]
    fn resets_have_the_codes_of_the_protocol() {
        for (reason, code) in [
            (h2::Reason::NO_ERROR, Code::Internal),
            (h2::Reason::PROTOCOL_ERROR, Code::Internal),
            (h2::Reason::CANCEL, Code::Cancelled),
            (h2::Reason::ENHANCE_YOUR_CALM, Code::ResourceExhausted),
            (h2::Reason::INADEQUATE_SECURITY, Code::PermissionDenied),
        ] {
            assert_eq!(judge(&h2::Error::from(reason)), Some((Kind::Reset, code)), "{reason}");
        }
    }

    #[test]
    fn only_what_never_reached_anybody_counts_as_never_sent() {
        for (kind, outcome) in [
            (Kind::Lost, Outcome::Failure(Failure::Connect)),
            (Kind::Unprocessed, Outcome::Failure(Failure::Connect)),
            (Kind::Connect, Outcome::Failure(Failure::Connect)),
            (Kind::Timeout, Outcome::Failure(Failure::Timeout)),
            (Kind::Reset, Outcome::Failure(Failure::Reset)),
            (Kind::Other, Outcome::Failure(Failure::Other)),
            (Kind::Unfit, Outcome::Cancelled),
        ] {
            assert_eq!(Fault::new(kind, Code::Unknown, "").outcome(), outcome, "{kind:?}");
        }
    }

    #[test]
    fn the_text_says_each_cause_once() {
        let error = ConnectError(Box::new(io::Error::other("no route")));
        assert_eq!(text_of(&error), "no route");
    }
}
