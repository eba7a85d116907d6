//! `X-Forwarded-*` and `Forwarded`: what the gateway knows of the client, behind what others said before.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::ops::Range;

use bytes::Bytes;
use http::header::{Entry, FORWARDED};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::gateway::settings::GatewaySettings;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// What the gateway saw of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) peer: Option<SocketAddr>,
    /// The host that the client named, with its port.
    pub(super) host: &'a str,
    pub(super) scheme: &'static str,
    /// The path as it came, and as it goes on.
    pub(super) path: &'a str,
    pub(super) sent: &'a str,
}

/// Adds to what is there; what a client said whose word does not count goes first.
pub(super) fn add(settings: &GatewaySettings, seen: Seen<'_>, headers: &mut HeaderMap) {
    if !is_trusted(settings, seen.peer) {
        for name in [FOR, HOST, PROTO, PORT, PREFIX, FORWARDED] {
            headers.remove(name);
        }
    }
    // At once, and not as each is added.
    headers.reserve(if settings.x_forwarded { 5 } else { 0 } + usize::from(settings.forwarded));
    let client = seen.peer.map(Client::new);
    if settings.x_forwarded {
        if let Some(client) = &client {
            append(headers, FOR, &[client.ip()]);
        }
        append(headers, HOST, &[seen.host]);
        append_known(headers, PROTO, seen.scheme);
        match port_of(seen.host) {
            Some(port) => append(headers, PORT, &[port]),
            None => append_known(headers, PORT, if seen.scheme == "https" { "443" } else { "80" }),
        }
        if let Some(prefix) = prefix(seen.path, seen.sent) {
            append(headers, PREFIX, &[prefix]);
        }
    }
    if settings.forwarded {
        // Without what would end a quotation.
        let host = if seen.host.contains(['"', '\\']) {
            Cow::Owned(seen.host.replace(['"', '\\'], ""))
        } else {
            Cow::Borrowed(seen.host)
        };
        let of_client = match &client {
            Some(client) => [";for=\"", client.whole(), "\""],
            None => [""; 3],
        };
        let [before, address, behind] = of_client;
        append(
            headers,
            FORWARDED,
            &["proto=", seen.scheme, ";host=\"", &host, "\"", before, address, behind],
        );
    }
}

/// The address of a client as text, written once: the IP alone stands in it as it does with the port.
struct Client {
    text: String,
    ip: Range<usize>,
}

impl Client {
    fn new(peer: SocketAddr) -> Self {
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let text = peer.to_string();
        // `1.2.3.4:5`, `[::1]:5`, and with a zone `[fe80::1%2]:5`, which no canonical address has.
        let end = text.rfind(':').unwrap_or(text.len());
        let ip = if peer.is_ipv6() { 1..end.saturating_sub(1) } else { 0..end };
        Self { text, ip }
    }

    fn ip(&self) -> &str {
        self.text.get(self.ip.clone()).unwrap_or_default()
    }

    fn whole(&self) -> &str {
        &self.text
    }
}

/// Whether what the client says of others counts; without a rule everybody's word does.
pub(super) fn is_trusted(settings: &GatewaySettings, peer: Option<SocketAddr>) -> bool {
    let Some(trusted) = &settings.trusted_proxies else { return true };
    peer.is_some_and(|peer| trusted.is_match(&peer.ip().to_canonical().to_string()))
}

/// One line for all values, in their order; `value` comes in pieces. The line becomes the header as it is, without a copy.
fn append(headers: &mut HeaderMap, name: HeaderName, value: &[&str]) {
    let len: usize = value.iter().map(|piece| piece.len()).sum();
    let mut line = Vec::new();
    for there in headers.get_all(&name) {
        line.extend_from_slice(there.as_bytes());
        line.extend_from_slice(b", ");
    }
    line.reserve_exact(len);
    for piece in value {
        line.extend_from_slice(piece.as_bytes());
    }
    if let Ok(line) = HeaderValue::from_maybe_shared(Bytes::from(line)) {
        headers.insert(name, line);
    }
}

/// The same for a word that needs no place of its own where it stands alone.
fn append_known(headers: &mut HeaderMap, name: HeaderName, value: &'static str) {
    match headers.entry(name) {
        Entry::Vacant(entry) => drop(entry.insert(HeaderValue::from_static(value))),
        Entry::Occupied(entry) => {
            let name = entry.key().clone();
            append(headers, name, &[value]);
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

    fn seen(sent: &str) -> Seen<'_> {
        let peer = Some("10.0.0.9:5000".parse().unwrap());
        Seen { peer, host: "shop.test:8080", scheme: "http", path: "/api/orders/1", sent }
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
        add(&GatewaySettings::default(), seen("/orders/1"), &mut headers);
        assert_eq!(
            shown(&headers),
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
    fn an_address_is_written_as_the_headers_have_it() {
        for (peer, ip, whole) in [
            ("10.0.0.9:5000", "10.0.0.9", "10.0.0.9:5000"),
            ("[::1]:80", "::1", "[::1]:80"),
            ("[2001:db8::7]:65535", "2001:db8::7", "[2001:db8::7]:65535"),
            ("[::ffff:10.0.0.9]:1", "10.0.0.9", "10.0.0.9:1"),
            ("[fe80::1%2]:5", "fe80::1", "[fe80::1]:5"),
        ] {
            let client = Client::new(peer.parse().unwrap());
            assert_eq!((client.ip(), client.whole()), (ip, whole), "{peer}");
        }
        let seen = Seen { host: "a\"b\\c", scheme: "https", ..seen("/x") };
        let mut headers = HeaderMap::new();
        add(&GatewaySettings::default(), seen, &mut headers);
        assert_eq!(headers[FORWARDED], "proto=https;host=\"abc\";for=\"10.0.0.9:5000\"");
        assert_eq!((&headers[PROTO], &headers[PORT]), (&"https".parse().unwrap(), &"443".parse().unwrap()));
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
            add(&trusts(pattern), seen("/api/orders/1"), &mut headers);
            assert_eq!(headers[FOR], wanted);
            assert!(!headers.contains_key(PREFIX));
        }
        let off = GatewaySettings { x_forwarded: false, forwarded: false, ..Default::default() };
        let mut headers = HeaderMap::new();
        add(&off, seen("/x"), &mut headers);
        assert!(headers.is_empty());
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
