//! The labels of Spring's meters, by Spring's rules: what is missing is `UNKNOWN`.

use std::sync::Arc;

use metrics::{Label, SharedString};

use super::super::CallInfo;
use crate::{Failure, ServiceInstance};

/// What stands for a value that is not known.
pub(super) const UNKNOWN: &str = "UNKNOWN";
/// What stands for a method that is none of HTTP's own, so that a caller cannot make a series for each word that it thinks
/// of; OpenTelemetry's name for it.
const OTHER: &str = "_OTHER";

/// The methods of RFC 9110 and 5789, and what stands for the others.
const METHODS: [&str; 11] =
    [UNKNOWN, OTHER, "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// The label `method`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Method(u8);

impl Method {
    pub(super) fn of(given: Option<&str>) -> Self {
        let Some(given) = given else { return Self(0) };
        let known = METHODS.into_iter().zip(0..).skip(2).find(|(known, _)| *known == given);
        Self(known.map_or(1, |(_, at)| at))
    }

    pub(super) fn as_str(self) -> &'static str {
        METHODS[usize::from(self.0)]
    }
}

/// What may stand for the path: its template; the raw path only if `with_path`, since it makes a series for each.
pub(super) fn uri(call: &CallInfo, with_path: bool) -> Option<&str> {
    call.template.as_deref().or_else(|| call.path().filter(|_| with_path))
}

/// The label `outcome`: the class of a status.
pub(super) fn outcome(status: Option<u16>) -> &'static str {
    match status {
        Some(100..200) => "INFORMATIONAL",
        Some(200..300) => "SUCCESS",
        Some(300..400) => "REDIRECTION",
        Some(400..500) => "CLIENT_ERROR",
        Some(500..600) => "SERVER_ERROR",
        _ => UNKNOWN,
    }
}

/// The label `exception`: the kind of failure, in the words of `retry.retryable-exceptions`.
pub(super) fn exception(failure: Failure) -> &'static str {
    match failure {
        Failure::Connect => "connect",
        Failure::Timeout => "timeout",
        Failure::Reset => "reset",
        Failure::Other => "other",
    }
}

/// The four labels of an instance.
pub(super) fn instance(service: &Arc<str>, instance: &ServiceInstance) -> Vec<Label> {
    let text = |text: &str| SharedString::from_shared(Arc::from(text));
    let port =
        instance.port().map_or_else(|| SharedString::const_str(UNKNOWN), |port| text(&port.to_string()));
    vec![
        Label::new("serviceId", SharedString::from_shared(Arc::clone(service))),
        Label::new("serviceInstance.instanceId", text(instance.id())),
        Label::new("serviceInstance.host", text(instance.host())),
        Label::new("serviceInstance.port", port),
    ]
}

/// Those of a call for which there was no instance.
pub(super) fn discard(service: &Arc<str>, given: Option<&str>, uri: Option<&str>) -> Vec<Label> {
    vec![
        Label::new("serviceId", SharedString::from_shared(Arc::clone(service))),
        Label::new("method", Method::of(given).as_str()),
        Label::new("uri", uri.unwrap_or(UNKNOWN).to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_of_ones_own_makes_no_series_of_its_own() {
        for (given, label) in [
            (None, UNKNOWN),
            (Some("GET"), "GET"),
            (Some("PATCH"), "PATCH"),
            (Some("get"), OTHER),
            (Some(""), OTHER),
            (Some("X-RANDOM-17"), OTHER),
        ] {
            assert_eq!(Method::of(given).as_str(), label, "{given:?}");
        }
    }

    #[test]
    fn scl_310_a_status_of_each_class_and_of_none() {
        for (status, class) in [
            (102, "INFORMATIONAL"),
            (204, "SUCCESS"),
            (302, "REDIRECTION"),
            (404, "CLIENT_ERROR"),
            (503, "SERVER_ERROR"),
            (700, UNKNOWN),
            (0, UNKNOWN),
            (99, UNKNOWN),
            (u16::MAX, UNKNOWN),
        ] {
            assert_eq!(outcome(Some(status)), class, "{status}");
        }
        assert_eq!(outcome(None), UNKNOWN);
    }
}
