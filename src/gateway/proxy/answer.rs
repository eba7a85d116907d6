//! Answers of the gateway itself, with the attributes that Spring's have.

use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;

use super::body::GatewayBody;
use crate::wall::{self, WallClock};

/// A short text that says what is wrong: `timestamp`, `path`, `status` and `error`.
pub(super) fn refusal(status: StatusCode, path: &str, clock: &WallClock) -> Response<GatewayBody> {
    let text = json!({
        "timestamp": wall::format(clock.now()),
        "path": path,
        "status": status.as_u16(),
        "error": status.canonical_reason().unwrap_or_default(),
    });
    let mut response = Response::new(GatewayBody::text(text.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// An answer that leads elsewhere.
pub(super) fn redirection(
    status: StatusCode,
    url: &HeaderValue,
    query: Option<&str>,
) -> Response<GatewayBody> {
    let with = |query: &str| {
        let join = if url.as_bytes().contains(&b'?') { "&" } else { "?" };
        HeaderValue::from_bytes(&[url.as_bytes(), join.as_bytes(), query.as_bytes()].concat()).ok()
    };
    let to = query.and_then(with).unwrap_or_else(|| url.clone());
    let mut response = Response::new(GatewayBody::text(""));
    *response.status_mut() = status;
    response.headers_mut().insert(LOCATION, to);
    response
}
