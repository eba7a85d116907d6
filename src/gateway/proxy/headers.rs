//! Headers that belong to one connection, and requests for another protocol.

use http::header::{CONNECTION, EXPECT, HeaderName, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, Version};

/// Those of a connection (RFC 9110, 7.6.1); two of them by old names.
const OF_A_CONNECTION: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("proxy-authenticate"),
    HeaderName::from_static("proxy-authorization"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Removes what belongs to the connection, also what `Connection` names. That a request can read trailers is kept.
pub(super) fn strip(headers: &mut HeaderMap) {
    let trailers = words(headers, &TE)
        .any(|word| word.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("trailers"));
    let named: Vec<HeaderName> =
        words(headers, &CONNECTION).filter_map(|word| HeaderName::from_bytes(word.as_bytes()).ok()).collect();
    for name in named.iter().chain(&OF_A_CONNECTION) {
        headers.remove(name);
    }
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// The same for a request. What it expects before it sends its body was answered by the server in front.
pub(super) fn strip_request(headers: &mut HeaderMap) {
    strip(headers);
    headers.remove(EXPECT);
}

/// Whether a request asks for a websocket. Another protocol is not passed on: the server behind would speak it without the
/// routes.
pub(super) fn asks_for_websocket(method: &Method, version: Version, headers: &HeaderMap) -> bool {
    *method == Method::GET
        && version == Version::HTTP_11
        && words(headers, &CONNECTION).any(|word| word.eq_ignore_ascii_case("upgrade"))
        && words(headers, &UPGRADE).any(|word| word.eq_ignore_ascii_case("websocket"))
}

/// Says that the connection is to speak the protocol of a websocket.
pub(super) fn ask_for_websocket(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
}

fn words<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn what_belongs_to_the_connection_goes() {
        let mut map = headers(&[
            ("connection", "close, X-Secret"),
            ("connection", "x-more, te"),
            ("x-secret", "1"),
            ("x-more", "2"),
            ("keep-alive", "timeout=5"),
            ("te", "gzip, Trailers;q=0.5"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("proxy-authorization", "x"),
            ("trailer", "x-sum"),
            ("expect", "100-continue"),
            ("content-length", "3"),
            ("x-kept", "3"),
        ]);
        strip_request(&mut map);
        let mut kept: Vec<_> =
            map.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        kept.sort();
        assert_eq!(kept, ["content-length: 3", "te: trailers", "x-kept: 3"]);
    }

    #[test]
    fn only_a_websocket_is_another_protocol() {
        let asks = |method: Method, version, pairs: &[(&'static str, &'static str)]| {
            asks_for_websocket(&method, version, &headers(pairs))
        };
        let good = [("connection", "keep-alive, Upgrade"), ("upgrade", "WebSocket")];
        assert!(asks(Method::GET, Version::HTTP_11, &good));
        assert!(!asks(Method::POST, Version::HTTP_11, &good) && !asks(Method::GET, Version::HTTP_10, &good));
        assert!(!asks(Method::GET, Version::HTTP_11, &[("connection", "upgrade"), ("upgrade", "h2c")]));
        assert!(!asks(Method::GET, Version::HTTP_11, &[("upgrade", "websocket")]));
    }
}
