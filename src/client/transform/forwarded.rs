use http::header::FORWARDED;
use http::{HeaderName, HeaderValue};

use super::Outgoing;
use crate::config::XForwardedProperties;
use crate::instance::{UrlParts, inner_scheme};

const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// Tells the logical address that the caller wrote, not that of the instance.
///
/// A header that is there already stays: it tells what the first caller in a row of them used. To `Forwarded` an element is
/// added (RFC 7239, 4).
pub(super) fn add(properties: &XForwardedProperties, request: &mut Outgoing<'_>) {
    if !properties.enabled && !properties.forwarded {
        return;
    }
    let Some(logical) = Logical::of(request.logical) else { return };
    if properties.enabled {
        keep_or_set(request, HOST, &logical.host_and_port());
        keep_or_set(request, PROTO, logical.scheme);
        keep_or_set(request, PORT, &logical.port.to_string());
        if let Some(prefix) = &properties.prefix {
            keep_or_set(request, PREFIX, prefix);
        }
    }
    if properties.forwarded {
        let host = logical.host_and_port();
        let token =
            host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
        let quoted = || format!("\"{}\"", host.replace('\\', "\\\\").replace('"', "\\\""));
        let host = if token { host } else { quoted() };
        if let Ok(element) = HeaderValue::from_str(&format!("host={host};proto={}", logical.scheme)) {
            request.headers.append(FORWARDED, element);
        }
    }
}

fn keep_or_set(request: &mut Outgoing<'_>, name: HeaderName, value: &str) {
    if let (false, Ok(value)) = (request.headers.contains_key(&name), HeaderValue::from_str(value)) {
        request.headers.insert(name, value);
    }
}

/// The address of a URL.
struct Logical<'a> {
    /// `http` for `lb`, which means just that.
    scheme: &'static str,
    host: &'a str,
    /// As written.
    explicit: Option<u16>,
    port: u16,
}

impl<'a> Logical<'a> {
    fn of(url: &'a str) -> Option<Self> {
        let UrlParts { scheme, authority, .. } = UrlParts::of(url);
        let scheme = inner_scheme(scheme?);
        let authority = authority.rsplit_once('@').map_or(authority, |(_, address)| address);
        // The colons inside of an IPv6 address are none of a port.
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (authority, None),
        };
        let secure = ["https", "wss"].iter().any(|name| scheme.eq_ignore_ascii_case(name));
        let explicit = port.and_then(|port| port.parse().ok());
        let port = explicit.unwrap_or(if secure { 443 } else { 80 });
        let scheme = if secure { "https" } else { "http" };
        (!host.is_empty()).then_some(Self { scheme, host, explicit, port })
    }

    fn host_and_port(&self) -> String {
        match self.explicit {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.to_owned(),
        }
    }
}
