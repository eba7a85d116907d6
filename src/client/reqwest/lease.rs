use ::reqwest::{Body, Response, ResponseBuilderExt};

use super::error::failure_of;
use crate::choice::outcome_of;
use crate::client::Via;
use crate::{Lease, Track, TrackedBody};

impl Track for Response {
    type Tracked = Response;

    fn track(self, mut lease: Lease) -> Response {
        lease.hear(self.headers());
        let via = lease.instance().map(|instance| Via::new(instance, 1));
        hold(self, lease, via)
    }
}

/// The same response, whose body holds the lease.
pub(super) fn hold(response: Response, lease: Lease, via: Option<Via>) -> Response {
    let url = response.url().clone();
    let (parts, body) = http::Response::<Body>::from(response).into_parts();
    let body = TrackedBody::new(body, lease, outcome_of(parts.status, &parts.headers), failure_of);
    // The URL travels in an extension that only a builder can set.
    let mut whole = http::Response::builder().status(parts.status).version(parts.version);
    if let Some(headers) = whole.headers_mut() {
        *headers = parts.headers;
    }
    if let Some(extensions) = whole.extensions_mut() {
        *extensions = parts.extensions;
        if let Some(via) = via {
            extensions.insert(via);
        }
    }
    // Status and headers were those of a response.
    let whole = whole.url(url).body(Body::wrap(body));
    Response::from(whole.unwrap_or_default())
}
