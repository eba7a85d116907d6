//! `X-Forwarded-*` and `Forwarded`: what the gateway knows of the client, behind what others said before.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{Entry, FORWARDED};
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;

use crate::gateway::settings::GatewaySettings;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
pub(super) const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// What the gateway says of a client that names a host; all requests of a connection share it, as long as they name the same.
#[derive(Debug)]
pub(super) struct Lines {
    /// The host that the client named, with its port.
    host: Box<str>,
    client: Option<HeaderValue>,
    named: Option<HeaderValue>,
    scheme: HeaderValue,
    port: Option<HeaderValue>,
    /// All of it, as an element of `Forwarded`.
    element: Option<HeaderValue>,
}

impl Lines {
    fn new(peer: Option<SocketAddr>, scheme: &'static str, host: &str) -> Self {
        let client = peer.map(|peer| SocketAddr::new(peer.ip().to_canonical(), peer.port()));
        // Without what would end a quotation.
        let quoted = if host.contains(['"', '\\']) {
            Cow::Owned(host.replace(['"', '\\'], ""))
        } else {
            Cow::Borrowed(host)
        };
        let address = client.map(|client| format!(";for=\"{client}\"")).unwrap_or_default();
        let default = if scheme == "https" { "443" } else { "80" };
        Self {
            client: client.and_then(|client| value(client.ip().to_string())),
            named: value(host.to_owned()),
            scheme: HeaderValue::from_static(scheme),
            port: port_of(host)
                .map_or(Some(HeaderValue::from_static(default)), |port| value(port.to_owned())),
            element: value(format!("proto={scheme};host=\"{quoted}\"{address}")),
            host: host.into(),
        }
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }
}

/// A value that is shared by whoever has a clone, and not copied.
fn value(text: String) -> Option<HeaderValue> {
    HeaderValue::from_maybe_shared(Bytes::from(text)).ok()
}

/// The longest host that is kept: that of a name (RFC 1035, 2.3.4) with a port. A longer one is somebody's who wants to fill memory.
const LONGEST: usize = 255 + 6;

/// The lines of the last request of a connection.
#[derive(Debug, Default)]
pub(in crate::gateway) struct Known(Mutex<Option<Arc<Lines>>>);

impl Known {
    /// Those of a request that names `host`; `peer` and `scheme` are the connection's.
    pub(super) fn lines(&self, peer: Option<SocketAddr>, scheme: &'static str, host: &str) -> Arc<Lines> {
        if host.len() > LONGEST {
            return Arc::new(Lines::new(peer, scheme, host));
        }
        let mut known = self.0.lock();
        if let Some(lines) = &*known
            && *lines.host == *host
        {
            return Arc::clone(lines);
        }
        let lines = Arc::new(Lines::new(peer, scheme, host));
        *known = Some(Arc::clone(&lines));
        lines
    }
}

/// Adds to what is there; what a client said goes first, if its word does not count.
///
/// `path` is the path as it came, and `sent` as it goes on.
pub(super) fn add(
    settings: &GatewaySettings,
    trusted: bool,
    lines: &Lines,
    (path, sent): (&str, &str),
    headers: &mut HeaderMap,
) {
    if !trusted {
        for name in [FOR, HOST, PROTO, PORT, PREFIX, FORWARDED] {
            headers.remove(name);
        }
    }
    // At once, and not as each is added.
    headers.reserve(if settings.x_forwarded { 5 } else { 0 } + usize::from(settings.forwarded));
    if settings.x_forwarded {
        append(headers, FOR, lines.client.as_ref());
        append(headers, HOST, lines.named.as_ref());
        append(headers, PROTO, Some(&lines.scheme));
        append(headers, PORT, lines.port.as_ref());
        if let Some(prefix) = prefix(path, sent) {
            append(headers, PREFIX, HeaderValue::from_bytes(prefix.as_bytes()).ok().as_ref());
        }
    }
    if settings.forwarded {
        append(headers, FORWARDED, lines.element.as_ref());
    }
}

/// Whether what the client says of others counts; without a rule everybody's word does.
pub(super) fn is_trusted(settings: &GatewaySettings, peer: Option<SocketAddr>) -> bool {
    let Some(trusted) = &settings.trusted_proxies else { return true };
    peer.is_some_and(|peer| trusted.is_match(&peer.ip().to_canonical().to_string()))
}

/// One line for all values, in their order.
fn append(headers: &mut HeaderMap, name: HeaderName, value: Option<&HeaderValue>) {
    let Some(value) = value else { return };
    match headers.entry(name) {
        Entry::Vacant(entry) => drop(entry.insert(value.clone())),
        Entry::Occupied(mut entry) => {
            let all: Vec<&[u8]> = entry.iter().chain([value]).map(HeaderValue::as_bytes).collect();
            if let Ok(line) = HeaderValue::from_maybe_shared(Bytes::from(all.join(&b", "[..]))) {
                entry.insert(line);
            }
        }
    }
}

fn port_of(host: &str) -> Option<&str> {
    let (_, port) = host.rsplit_once(':')?;
    (!port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())).then_some(port)
}

/// What was taken from the front of a path.
fn prefix<'a>(path: &'a str, sent: &str) -> Option<&'a str> {
    let (path, sent) = (path.strip_suffix('/').unwrap_or(path), sent.strip_suffix('/').unwrap_or(sent));
    path.strip_suffix(sent).filter(|prefix| !prefix.is_empty())
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    const HTTP: &str = "http";

    /// The headers of a request by a client of 10.0.0.9 for `shop.test:8080`, whose path came as `/api/orders/1`.
    fn added(settings: &GatewaySettings, sent: &str, mut headers: HeaderMap) -> HeaderMap {
        let peer: SocketAddr = "10.0.0.9:5000".parse().unwrap();
        let lines = Lines::new(Some(peer), HTTP, "shop.test:8080");
        let trusted = is_trusted(settings, Some(peer));
        add(settings, trusted, &lines, ("/api/orders/1", sent), &mut headers);
        headers
    }

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let mut all: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        all.sort();
        all
    }

    #[test]
    fn what_others_said_stands_before_ours() {
        let mut headers = HeaderMap::new();
        headers.append(FOR, HeaderValue::from_static("1.1.1.1"));
        headers.append(FOR, HeaderValue::from_static("2.2.2.2, 3.3.3.3"));
        headers.append(FORWARDED, HeaderValue::from_static("for=1.1.1.1"));
        assert_eq!(
            shown(&added(&GatewaySettings::default(), "/orders/1", headers)),
            [
                "forwarded: for=1.1.1.1, proto=http;host=\"shop.test:8080\";for=\"10.0.0.9:5000\"",
                "x-forwarded-for: 1.1.1.1, 2.2.2.2, 3.3.3.3, 10.0.0.9",
                "x-forwarded-host: shop.test:8080",
                "x-forwarded-port: 8080",
                "x-forwarded-prefix: /api",
                "x-forwarded-proto: http",
            ]
        );
    }

    #[test]
    fn a_prefix_is_told_as_it_was_written() {
        let lines = Lines::new(None, HTTP, "a");
        for (path, wanted) in [("/%C3%A4/x", "/%C3%A4"), ("/\u{e4}/x", "/\u{e4}")] {
            let mut headers = HeaderMap::new();
            add(&GatewaySettings::default(), true, &lines, (path, "/x"), &mut headers);
            assert_eq!(headers[PREFIX].as_bytes(), wanted.as_bytes());
        }
    }

    #[test]
    fn an_address_is_written_as_the_headers_have_it() {
        for (peer, ip, whole) in [
            ("10.0.0.9:5000", "10.0.0.9", "10.0.0.9:5000"),
            ("[::1]:80", "::1", "[::1]:80"),
            ("[2001:db8::7]:65535", "2001:db8::7", "[2001:db8::7]:65535"),
            ("[::ffff:10.0.0.9]:1", "10.0.0.9", "10.0.0.9:1"),
            ("[fe80::1%2]:5", "fe80::1", "[fe80::1]:5"),
        ] {
            let lines = Lines::new(Some(peer.parse().unwrap()), HTTP, "a");
            assert_eq!(lines.client.unwrap(), ip, "{peer}");
            assert_eq!(lines.element.unwrap(), format!("proto=http;host=\"a\";for=\"{whole}\""));
        }
        let lines = Lines::new(None, "https", "a\"b\\c");
        assert_eq!(
            (lines.client, lines.element.unwrap()),
            (None, HeaderValue::from_static("proto=https;host=\"abc\""))
        );
        assert_eq!((lines.scheme, lines.port.unwrap()), ("https".parse().unwrap(), "443".parse().unwrap()));
    }

    #[test]
    fn requests_of_a_connection_share_their_lines_while_they_name_one_host() {
        let known = Known::default();
        let of = |host| known.lines(None, HTTP, host);
        let first = of("a.test");
        assert!(Arc::ptr_eq(&first, &of("a.test")));
        let other = of("b.test:81");
        assert_eq!(
            (other.host(), other.port.as_ref().unwrap()),
            ("b.test:81", &HeaderValue::from_static("81"))
        );
        assert_eq!(
            (first.host(), of("a.test").port.as_ref().unwrap()),
            ("a.test", &HeaderValue::from_static("80"))
        );
        let long = "a".repeat(LONGEST + 1);
        assert_eq!(known.lines(None, HTTP, &long).host(), long);
        assert_eq!(known.0.lock().as_ref().unwrap().host(), "a.test", "it is not kept");
    }

    #[test]
    fn a_word_that_does_not_count_is_dropped() {
        let trusts = |pattern: &str| GatewaySettings {
            trusted_proxies: Some(Regex::new(pattern).unwrap()),
            ..Default::default()
        };
        for (pattern, wanted) in [("^10\\..*$", "6.6.6.6, 10.0.0.9"), ("^11\\..*$", "10.0.0.9")] {
            let mut headers = HeaderMap::new();
            headers.append(FOR, HeaderValue::from_static("6.6.6.6"));
            let headers = added(&trusts(pattern), "/api/orders/1", headers);
            assert_eq!(headers[FOR], wanted);
            assert!(!headers.contains_key(PREFIX));
        }
        let off = GatewaySettings { x_forwarded: false, forwarded: false, ..Default::default() };
        assert!(added(&off, "/x", HeaderMap::new()).is_empty());
    }

    #[test]
    fn a_prefix_is_what_was_taken_from_the_front() {
        for (path, sent, wanted) in [
            ("/api/orders/", "/orders", Some("/api")),
            ("/a/b", "/", Some("/a/b")),
            ("/a", "/a", None),
            ("/a", "/b", None),
            ("/a", "/x/a", None),
        ] {
            assert_eq!(prefix(path, sent), wanted, "{path} {sent}");
        }
    }
}
