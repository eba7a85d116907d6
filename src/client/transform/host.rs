use http::HeaderValue;
use http::header::HOST;

use super::Outgoing;
use crate::instance::UrlParts;

/// Names the service as the caller wrote it, in place of the instance; a `Host` of the caller's own stays.
pub(super) fn name_service(request: &mut Outgoing<'_>) {
    let authority = UrlParts::of(request.logical).authority;
    let address = authority.rsplit_once('@').map_or(authority, |(_, address)| address);
    if let (false, Ok(value)) = (request.headers.contains_key(HOST), HeaderValue::from_str(address)) {
        request.headers.insert(HOST, value);
    }
}
