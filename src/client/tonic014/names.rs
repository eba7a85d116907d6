//! Instances in a status: in its metadata always, in its message where the fault is the server's.

use http::{HeaderMap, HeaderValue};
use tonic::Status;

use crate::call::Visited;
use crate::{Outcome, ServiceInstance};

/// In the metadata of a status: the instances that were tried.
pub(super) const TRIED: &str = "evenkeel-tried";

/// The header in which a status has its message.
const MESSAGE: &str = "grpc-message";

/// The instances that were tried for the call that ended with `status`, in order, as text: `a (10.0.0.1:50051), b (...)`.
/// `None` for a status that does not come from a balanced call, or from one for which there was nothing to choose.
///
/// It is the metadata entry `evenkeel-tried`. Bytes of an id that are no visible ASCII are escaped (`%C3%A4`).
///
/// ```
/// use evenkeel::client::tonic014::tried;
///
/// # fn example(status: tonic::Status) {
/// if let Some(instances) = tried(&status) {
///     println!("{:?} from {instances}", status.code());
/// }
/// # }
/// ```
pub fn tried(status: &Status) -> Option<&str> {
    status.metadata().get(TRIED)?.to_str().ok()
}

/// The instances as text, and as the value of a header.
pub(super) fn names_of<'a>(
    tried: impl Iterator<Item = &'a ServiceInstance>,
) -> (String, Option<HeaderValue>) {
    let names: Vec<String> = tried.map(ToString::to_string).collect();
    let names = names.join(", ");
    let header = HeaderValue::try_from(escaped(&names)).ok();
    (names, header)
}

/// Puts the instances into the headers or trailers of a status that a server sent. Code, message and details stay as they
/// are; if the code stands for a fault of the server (`outcome`), a note follows the message, since many people see nothing else.
pub(super) fn name_in(headers: &mut HeaderMap, service: &str, visited: &Visited, outcome: Outcome) {
    let (names, header) = names_of(visited.iter());
    if let Some(header) = header {
        headers.insert(TRIED, header);
    }
    if !outcome.is_failure() {
        return;
    }
    let mut message = headers.get(MESSAGE).map_or_else(Vec::new, |message| message.as_bytes().to_vec());
    message.extend_from_slice(escaped(&note(service, &names)).as_bytes());
    if let Ok(message) = HeaderValue::from_bytes(&message) {
        headers.insert(MESSAGE, message);
    }
}

/// What follows a message.
pub(super) fn note(service: &str, names: &str) -> String {
    format!(" (service {service:?}, tried {names})")
}

/// As the protocol has it for messages: visible ASCII and spaces as they are, everything else and `%` escaped.
fn escaped(text: &str) -> String {
    use std::fmt::Write as _;
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' | ..=0x1f | 0x7f.. => {
                let _ = write!(escaped, "%{byte:02X}");
            }
            _ => escaped.push(char::from(byte)),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_keeps_what_it_has_and_gets_the_instances() {
        let mut instances = Visited::default();
        instances.add(ServiceInstance::builder("10.0.0.1").port(1).id("köln 50%").build().unwrap());
        for (code, noted) in [(tonic::Code::Unavailable, true), (tonic::Code::NotFound, false)] {
            let original =
                Status::with_details(code, "kaputt: ä% \"x\"", bytes::Bytes::from_static(&[0, 159, 7]));
            let mut headers = HeaderMap::new();
            original.add_header(&mut headers).unwrap();
            let outcome = Outcome::Grpc(u16::try_from(i32::from(code)).unwrap());
            name_in(&mut headers, "orders", &instances, outcome);
            let status = Status::from_header_map(&headers).unwrap();
            assert_eq!((status.code(), status.details()), (code, original.details()));
            let note = if noted { " (service \"orders\", tried köln 50% (10.0.0.1:1))" } else { "" };
            assert_eq!(status.message(), format!("{}{note}", original.message()));
            assert_eq!(tried(&status), Some("k%C3%B6ln 50%25 (10.0.0.1:1)"));
        }
        assert_eq!(tried(&Status::ok("")), None);
    }
}
