//! Headers that belong to one connection, and requests for another protocol.

use http::header::{CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HeaderName, TE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, Version};
use http_body::Body;

/// Those of a connection (RFC 9110, 7.6.1); two of them by old names.
static OF_A_CONNECTION: [HeaderName; 8] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("proxy-authenticate"),
    HeaderName::from_static("proxy-authorization"),
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Removes what belongs to the connection, also what `Connection` names. That a request can read trailers is kept, and so is
/// `Trailer`: trailers go on over HTTP/1.1 only if it names them.
pub(super) fn strip(headers: &mut HeaderMap) {
    // Most messages have none of them, and a look at each name is cheaper than to look for each of them.
    if !headers.keys().any(|name| OF_A_CONNECTION.contains(name)) {
        return;
    }
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
    if has(headers, &EXPECT) {
        headers.remove(EXPECT);
    }
}

/// One line for all cookies. A client may send each as a field of its own over HTTP/2, and HTTP/1.1 knows only one field (RFC
/// 9113, 8.2.3).
pub(super) fn join_cookies(headers: &mut HeaderMap) {
    if headers.len() == headers.keys_len() {
        // No name has two values.
        return;
    }
    let mut lines = headers.get_all(COOKIE).iter();
    let (Some(first), Some(second)) = (lines.next(), lines.next()) else { return };
    let all: Vec<&[u8]> = [first, second].into_iter().chain(lines).map(HeaderValue::as_bytes).collect();
    if let Ok(line) = HeaderValue::from_bytes(&all.join(&b"; "[..])) {
        headers.insert(COOKIE, line);
    }
}

/// Whether a request asks for a websocket. Another protocol is not passed on: the server behind would speak it without the
/// routes.
pub(super) fn asks_for_websocket(method: &Method, version: Version, headers: &HeaderMap) -> bool {
    *method == Method::GET
        && version == Version::HTTP_11
        && has(headers, &UPGRADE)
        && words(headers, &CONNECTION).any(|word| word.eq_ignore_ascii_case("upgrade"))
        && words(headers, &UPGRADE).any(|word| word.eq_ignore_ascii_case("websocket"))
}

/// Whether a request says that a body follows. What comes behind the head of a websocket is the other protocol's, so that a
/// server behind could not tell the two apart.
pub(super) fn announce_body(headers: &HeaderMap) -> bool {
    headers.contains_key(TRANSFER_ENCODING)
        || headers.get_all(CONTENT_LENGTH).iter().any(|length| length.as_bytes() != b"0")
}

/// Says how long the body is, as it is: its length, or that it comes in chunks. By a length that is not its own the server
/// behind would wait for what does not come, and take the next request on the connection for it; and without any of the two
/// a GET has no body over HTTP/1.1. Over HTTP/2 the connection leaves out that of the chunks.
pub(super) fn frame(headers: &mut HeaderMap, body: &impl Body) {
    let length = if body.is_end_stream() { Some(0) } else { body.size_hint().exact() };
    if length.is_some() && !has(headers, &CONTENT_LENGTH) {
        return;
    }
    match (length, said_length(headers)) {
        (None, Some(_)) => {}
        (None, None) => {
            headers.remove(CONTENT_LENGTH);
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        (Some(length), said) if said == Some(length) => {}
        (Some(_), _) => {
            headers.remove(CONTENT_LENGTH);
        }
    }
}

/// The length that the headers say, if they say one.
fn said_length(headers: &HeaderMap) -> Option<u64> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter().map(|length| {
        let text = length.to_str().ok()?;
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?
    });
    let first = lengths.next()??;
    lengths.all(|length| length == Some(first)).then_some(first)
}

/// Says that the connection is to speak the protocol of a websocket.
pub(super) fn ask_for_websocket(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
}

/// Whether there is such a header, of the few that a message has.
fn has(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.keys().any(|key| key == name)
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
        assert_eq!(kept, ["content-length: 3", "te: trailers", "trailer: x-sum", "x-kept: 3"]);
    }

    #[test]
    fn a_length_stays_only_if_it_is_that_of_the_body() {
        for (lengths, body, wanted) in [
            (&["5"][..], "hello", 1),
            (&["5", "5"], "hello", 2),
            (&["5", "6"], "hello", 0),
            (&["+5"], "hello", 0),
            (&["40"], "hello", 0),
            (&["40"], "", 0),
            (&["0"], "", 1),
        ] {
            let pairs: Vec<_> = lengths.iter().map(|length| ("content-length", *length)).collect();
            let mut map = headers(&pairs);
            frame(&mut map, &http_body_util::Full::new(body.as_bytes()));
            assert_eq!(map.get_all(CONTENT_LENGTH).iter().count(), wanted, "{lengths:?} {body}");
        }
    }

    #[test]
    fn cookies_become_one_field() {
        for (lines, wanted) in [
            (&[][..], None),
            (&["a=1; b=2"], Some("a=1; b=2")),
            (&["a=1", "b=2; c=3", "d=4"], Some("a=1; b=2; c=3; d=4")),
        ] {
            let pairs: Vec<_> = lines.iter().map(|line| ("cookie", *line)).collect();
            let mut map = headers(&pairs);
            join_cookies(&mut map);
            assert_eq!(map.get_all(COOKIE).iter().next().map(|line| line.to_str().unwrap()), wanted);
            assert!(map.len() < 2);
        }
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
