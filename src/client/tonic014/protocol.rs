//! What the attempts of a call need to know of gRPC.

use std::time::Duration;

use http::HeaderMap;
use tokio::time::Instant;
use tonic::Code;

use super::answer::{Head, number};
use super::fault::Fault;
use crate::call::{Protocol, PushBack};
use crate::{Failure, Outcome};

/// What a server says of further attempts: milliseconds, or a number below zero.
const PUSH_BACK: &str = "grpc-retry-pushback-ms";

/// One call of gRPC.
pub(super) struct Grpc<'a> {
    pub(super) deadline: Option<Instant>,
    /// The codes on which this call may be repeated.
    pub(super) retryable: &'a [Code],
}

impl Protocol<Head, Fault> for Grpc<'_> {
    fn outcome(&self, result: Result<&Head, &Fault>) -> Outcome {
        match result {
            Ok(head) => head.outcome,
            Err(fault) => fault.outcome(),
        }
    }

    fn headers(&self, head: &Head) -> HeaderMap {
        head.response.headers().clone()
    }

    fn push_back(&self, result: Result<&Head, &Fault>) -> PushBack {
        match result {
            Ok(head) if head.code.is_some_and(|code| code != 0) => push_back_in(head.response.headers()),
            _ => PushBack::None,
        }
    }

    /// By the code that the caller would get, which an outcome does not tell: resets have several.
    fn is_retryable(&self, result: Option<Result<&Head, &Fault>>, outcome: Outcome) -> Option<bool> {
        if outcome == Outcome::Failure(Failure::Connect) {
            // It was never sent, and goes on for that reason.
            return None;
        }
        let code = match result {
            Some(Ok(head)) => head.settled?,
            Some(Err(fault)) => number(fault.code),
            None => number(Code::DeadlineExceeded),
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
    fn only_faults_whose_code_is_listed_are_repeated() {
        use super::super::fault::Kind;
        let says = |retryable: &[Code], fault: Option<&Fault>| {
            let grpc = Grpc { deadline: None, retryable };
            let outcome = fault.map_or(Outcome::Failure(Failure::Timeout), Fault::outcome);
            grpc.is_retryable(fault.map(Err), outcome)
        };
        for (kind, code) in [
            (Kind::Reset, Code::Unavailable),
            (Kind::Reset, Code::Internal),
            (Kind::Reset, Code::Cancelled),
            (Kind::Reset, Code::ResourceExhausted),
            (Kind::Timeout, Code::Unavailable),
            (Kind::Timeout, Code::DeadlineExceeded),
            (Kind::Other, Code::Unknown),
        ] {
            let fault = Fault::new(kind, code, "");
            for listed in (0..17).map(Code::from) {
                let may = (listed == code).then_some(true);
                assert_eq!(says(&[listed], Some(&fault)), may, "{kind:?} {code:?} {listed:?}");
            }
            assert_eq!(says(&[], Some(&fault)), None);
        }
        for kind in [Kind::Connect, Kind::Lost, Kind::Unprocessed] {
            let fault = Fault::new(kind, Code::Unavailable, "");
            assert_eq!(says(&[Code::Unavailable], Some(&fault)), None, "{kind:?} was never sent");
        }
        // An attempt that took too long: what the caller gets has this code.
        assert_eq!(says(&[Code::DeadlineExceeded], None), Some(true));
        assert_eq!(says(&[Code::Unavailable], None), None);
    }
}
