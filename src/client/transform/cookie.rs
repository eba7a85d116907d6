use http::HeaderValue;
use http::header::COOKIE;

use super::Outgoing;
use crate::ServiceInstance;
use crate::supplier::StickySession;

/// Names the instance in the request's cookies, behind those that are there; an older value of the name is replaced.
///
/// All of them stand in one line: a client sends one header `Cookie` only (RFC 6265, 5.4).
pub(super) fn write(sticky: &StickySession, request: &mut Outgoing<'_>, instance: &ServiceInstance) {
    let value = sticky.value(instance);
    // An id of characters that no cookie can hold, and no cookie without a name.
    if value.is_empty() || !sticky.has_name() {
        return;
    }
    let mut line = Vec::new();
    let mut sensitive = false;
    for kept in request.headers.get_all(COOKIE) {
        sensitive |= kept.is_sensitive();
        for pair in kept.as_bytes().split(|byte| *byte == b';').map(<[u8]>::trim_ascii) {
            let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
            if !pair.is_empty() && name != sticky.cookie().as_bytes() {
                line.extend_from_slice(pair);
                line.extend_from_slice(b"; ");
            }
        }
    }
    line.extend_from_slice(format!("{}={value}", sticky.cookie()).as_bytes());
    if let Ok(mut line) = HeaderValue::from_bytes(&line) {
        line.set_sensitive(sensitive);
        request.headers.insert(COOKIE, line);
    }
}
