//! What the attempts of a call need to know of gRPC.

use std::time::Duration;

use http::{HeaderMap, Response};
use tokio::time::Instant;
use tonic::Code;
use tonic::body::Body;

use super::answer::{code_in, head_outcome, number};
use super::connection::InFlight;
use super::fault::Fault;
use crate::call::{Protocol, PushBack};
use crate::{Failure, Outcome};

/// What a server says of further attempts: milliseconds, or a number below zero.
const PUSH_BACK: &str = "grpc-retry-pushback-ms";

/// The head of an answer, and what keeps its call counted.
pub(super) type Head = (Response<Body>, InFlight);

/// One call of gRPC.
pub(super) struct Grpc<'a> {
    pub(super) deadline: Option<Instant>,
    /// The codes on which this call may be repeated.
    pub(super) retryable: &'a [Code],
}

impl Protocol<Head, Fault> for Grpc<'_> {
    fn outcome(&self, result: Result<&Head, &Fault>) -> Outcome {
        match result {
            Ok((response, _)) => head_outcome(response.status(), response.headers()),
            Err(fault) => fault.outcome(),
        }
    }

    fn headers(&self, (response, _): &Head) -> HeaderMap {
        response.headers().clone()
    }

    fn push_back(&self, result: Result<&Head, &Fault>) -> PushBack {
        match result {
            Ok((response, _)) if code_in(response.headers()).is_some_and(|code| code != 0) => {
                push_back_in(response.headers())
            }
            _ => PushBack::None,
        }
    }

    fn is_retryable(&self, outcome: Outcome) -> Option<bool> {
        let code = match outcome {
            Outcome::Grpc(code) => code,
            // The codes that the caller gets for these.
            Outcome::Failure(Failure::Reset) | Outcome::Status(502..=504) => number(Code::Unavailable),
            Outcome::Failure(Failure::Timeout) => number(Code::DeadlineExceeded),
            _ => return None,
        };
        let listed = self.retryable.iter().any(|retryable| number(*retryable) == code);
        listed.then_some(true)
    }

    /// As gRPC's own clients have it: a call fails to connect if every instance does.
    fn unsent_goes_to(&self) -> u32 {
        u32::MAX
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

/// As the protocol has it, anything but a number from 0 means that there must be no other attempt.
fn push_back_in(headers: &HeaderMap) -> PushBack {
    match headers.get(PUSH_BACK) {
        None => PushBack::None,
        Some(value) => match value.to_str().ok().and_then(|text| text.parse().ok()) {
            Some(millis) => PushBack::After(Duration::from_millis(millis)),
            None => PushBack::Never,
        },
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_push_back_is_a_number_of_milliseconds_or_an_end() {
        let read =
            |value| push_back_in(&HeaderMap::from_iter([(http::HeaderName::from_static(PUSH_BACK), value)]));
        for (text, push_back) in [
            ("0", PushBack::After(Duration::ZERO)),
            ("250", PushBack::After(Duration::from_millis(250))),
            ("-1", PushBack::Never),
            ("", PushBack::Never),
            ("soon", PushBack::Never),
            ("1.5", PushBack::Never),
            ("99999999999999999999999", PushBack::Never),
        ] {
            assert_eq!(read(HeaderValue::from_static(text)), push_back, "{text:?}");
        }
        assert_eq!(read(HeaderValue::from_bytes(b"\xff").unwrap()), PushBack::Never);
        assert_eq!(push_back_in(&HeaderMap::new()), PushBack::None);
    }

    #[test]
    fn only_listed_codes_are_repeated_whether_a_server_or_the_connection_says_them() {
        let codes = [Code::Unavailable];
        let grpc = Grpc { deadline: None, retryable: &codes };
        for (outcome, retryable) in [
            (Outcome::Grpc(14), Some(true)),
            (Outcome::Grpc(13), None),
            (Outcome::Grpc(0), None),
            (Outcome::Failure(Failure::Reset), Some(true)),
            (Outcome::Failure(Failure::Timeout), None),
            (Outcome::Failure(Failure::Connect), None),
            (Outcome::Status(503), Some(true)),
            (Outcome::Cancelled, None),
        ] {
            assert_eq!(grpc.is_retryable(outcome), retryable, "{outcome}");
        }
    }
}
