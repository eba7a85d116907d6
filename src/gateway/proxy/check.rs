//! What a request must be before a route is looked for.

use http::header::HOST;
use http::request::Parts;
use http::{Method, StatusCode, Version};

use crate::gateway::pattern::decoded;

/// The host that a request names, with its port.
///
/// # Errors
/// The status for a request that no route could be right for: a tunnel, a target that is no path, a path that leads out of
/// what its route was chosen for, a host that is none or two.
pub(super) fn host(parts: &Parts) -> Result<&str, StatusCode> {
    if parts.method == Method::CONNECT {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    let path = parts.uri.path();
    if !path.starts_with('/') || leads_out(path) {
        return Err(StatusCode::BAD_REQUEST);
    }
    let mut hosts = parts.headers.get_all(HOST).iter();
    let (first, second) = (hosts.next(), hosts.next());
    let named = first.map(|host| host.to_str().map_err(|_| StatusCode::BAD_REQUEST)).transpose()?;
    let named = match (parts.uri.authority(), named) {
        _ if second.is_some() => return Err(StatusCode::BAD_REQUEST),
        // A target with a host counts over the header (RFC 9112, 3.2.2).
        (Some(authority), _) => authority.as_str(),
        (None, Some(host)) => host,
        (None, None) if parts.version == Version::HTTP_10 => "",
        (None, None) => return Err(StatusCode::BAD_REQUEST),
    };
    if named.bytes().all(|byte| PLAIN[usize::from(byte)]) { Ok(named) } else { Err(StatusCode::BAD_REQUEST) }
}

/// What stands in a host with its port (RFC 3986, 3.2.2); a look is cheaper than a search, at each byte of each request.
static PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let others = b"-._~:[]%!$&'()*+,;=";
    let mut at = 0;
    while at < others.len() {
        plain[others[at] as usize] = true;
        at += 1;
    }
    let mut byte = 0;
    while byte < 128_u8 {
        plain[byte as usize] |= byte.is_ascii_alphanumeric();
        byte += 1;
    }
    plain
};

/// Whether a segment is `..` or `.`, also if its dots are escaped: a server behind would resolve it, and serve what another
/// route, or none, is for. Honest clients resolve them themselves.
pub(super) fn leads_out(path: &str) -> bool {
    let is_dots = |segment: &str| {
        let segment = segment.split(';').next().unwrap_or_default();
        // Not longer than two dots with escapes.
        segment.len() <= 6 && matches!(&*decoded(segment), "." | "..")
    };
    let any = |path: &str| path.split(['/', '\\']).any(is_dots);
    if path.contains('%') {
        // A slash that is escaped, or a backslash, ends a segment for some servers.
        return any(&["%2f", "%2F", "%5c", "%5C"]
            .iter()
            .fold(path.to_owned(), |path, slash| path.replace(slash, "/")));
    }
    path.contains('.') && any(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: &str, uri: &str, hosts: &[&str]) -> Result<String, u16> {
        let mut request = http::Request::builder().method(method).uri(uri);
        for value in hosts {
            request = request.header("host", *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        host(&parts).map(str::to_owned).map_err(|status| status.as_u16())
    }

    #[test]
    fn the_host_is_that_of_the_target_or_of_the_header() {
        assert_eq!(of("GET", "/a", &["shop.test:80"]).as_deref(), Ok("shop.test:80"));
        assert_eq!(of("GET", "http://other.test/a", &["shop.test"]).as_deref(), Ok("other.test"));
        assert_eq!(of("GET", "/a", &["[::1]:80"]).as_deref(), Ok("[::1]:80"));
        for (method, uri, hosts, status) in [
            ("CONNECT", "shop.test:443", &["shop.test"][..], 405),
            ("OPTIONS", "*", &["shop.test"], 400),
            ("GET", "/a", &[], 400),
            ("GET", "/a", &["a.test", "b.test"], 400),
            ("GET", "/a", &["me@a.test"], 400),
            ("GET", "/a", &["a.test/x"], 400),
            ("GET", "/a", &["a b"], 400),
        ] {
            assert_eq!(of(method, uri, hosts), Err(status), "{method} {uri} {hosts:?}");
        }
    }

    #[test]
    fn a_path_that_leads_out_is_refused() {
        for path in
            ["/a/../b", "/..", "/a/.", "/a/%2e%2E/b", "/a/.%2e", "/a%2f..%2fb", "/a/..;x=1/b", "/a/..%5cb"]
        {
            assert!(leads_out(path), "{path}");
        }
        for path in ["/", "/a..b/c", "/...", "/a/.b", "/a%2Fb", "/100%25", "/a//b/", "/v1.2/x"] {
            assert!(!leads_out(path), "{path}");
        }
    }
}
