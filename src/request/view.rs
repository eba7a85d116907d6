use std::borrow::Cow;

use http::header::COOKIE;
use http::{HeaderMap, Method, Uri};

/// A look at a client's own request. Every method has a default of `None`: give what you have.
///
/// ```
/// use evenkeel::{Request, RequestView};
///
/// struct Message<'a> {
///     tenant: &'a str,
/// }
/// impl RequestView for Message<'_> {
///     fn attribute(&self, name: &str) -> Option<&str> {
///         (name == "tenant").then_some(self.tenant)
///     }
/// }
/// let message = Message { tenant: "acme" };
/// assert_eq!(Request::of(&message).attribute("tenant"), Some("acme"));
/// ```
pub trait RequestView: Send + Sync {
    /// The method, in upper case.
    fn method(&self) -> Option<&str> {
        None
    }
    /// The URL or its path.
    fn url(&self) -> Option<Cow<'_, str>> {
        None
    }
    /// The path of the URL, without its query, escapes as they are; by default cut out of [`url`](Self::url).
    fn path(&self) -> Option<Cow<'_, str>> {
        Some(match self.url()? {
            Cow::Borrowed(url) => Cow::Borrowed(path_of(url)),
            Cow::Owned(url) => Cow::Owned(path_of(&url).to_owned()),
        })
    }
    /// The first value of a header; case does not count in its name.
    fn header(&self, name: &str) -> Option<&str> {
        let _ = name;
        None
    }
    /// Hands `each` every value of a header, in their order; by default the first alone.
    fn header_values(&self, name: &str, each: &mut dyn FnMut(&str)) {
        if let Some(value) = self.header(name) {
            each(value);
        }
    }
    /// The first value of a cookie.
    fn cookie(&self, name: &str) -> Option<&str> {
        let _ = name;
        None
    }
    /// The first value of a query parameter, its escapes resolved.
    fn query(&self, name: &str) -> Option<Cow<'_, str>> {
        let _ = name;
        None
    }
    /// Anything else that the client keeps with its request.
    fn attribute(&self, name: &str) -> Option<&str> {
        let _ = name;
        None
    }
}

/// The view of an HTTP request in the types of the `http` crate.
#[derive(Clone, Copy, Debug)]
pub struct HttpView<'a> {
    method: &'a Method,
    uri: Target<'a>,
    headers: &'a HeaderMap,
}

#[derive(Clone, Copy, Debug)]
enum Target<'a> {
    Uri(&'a Uri),
    Text(&'a str),
}

impl<'a> HttpView<'a> {
    /// A view of its parts.
    pub const fn new(method: &'a Method, uri: &'a Uri, headers: &'a HeaderMap) -> Self {
        Self { method, uri: Target::Uri(uri), headers }
    }

    /// A view of an [`http::Request`].
    pub fn of<B>(request: &'a http::Request<B>) -> Self {
        Self::new(request.method(), request.uri(), request.headers())
    }

    /// A view with the URL as text, for a client that keeps it so.
    pub const fn with_text(method: &'a Method, url: &'a str, headers: &'a HeaderMap) -> Self {
        Self { method, uri: Target::Text(url), headers }
    }

    fn query_text(&self) -> Option<&'a str> {
        match self.uri {
            Target::Uri(uri) => uri.query(),
            Target::Text(url) => {
                let url = url.split_once('#').map_or(url, |(url, _)| url);
                url.split_once('?').map(|(_, query)| query)
            }
        }
    }
}

impl RequestView for HttpView<'_> {
    fn method(&self) -> Option<&str> {
        Some(self.method.as_str())
    }

    fn url(&self) -> Option<Cow<'_, str>> {
        Some(match self.uri {
            Target::Uri(uri) => Cow::Owned(uri.to_string()),
            Target::Text(url) => Cow::Borrowed(url),
        })
    }

    fn path(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self.uri {
            Target::Uri(uri) => uri.path(),
            Target::Text(url) => path_of(url),
        }))
    }

    fn header(&self, name: &str) -> Option<&str> {
        let value = if self.headers.keys_len() <= FEW {
            let is_it = |key: &str| key.len() == name.len() && key.eq_ignore_ascii_case(name);
            // The keys alone first: they lie side by side, and most requests lack most headers.
            if !self.headers.keys().any(|key| is_it(key.as_str())) {
                return None;
            }
            self.headers.iter().find(|(key, _)| is_it(key.as_str())).map(|(_, value)| value)
        } else {
            self.headers.get(name)
        };
        value?.to_str().ok()
    }

    fn header_values(&self, name: &str, each: &mut dyn FnMut(&str)) {
        if self.headers.keys_len() <= FEW {
            let is_it = |key: &str| key.len() == name.len() && key.eq_ignore_ascii_case(name);
            let values = self.headers.iter().filter(|(key, _)| is_it(key.as_str()));
            values.filter_map(|(_, value)| value.to_str().ok()).for_each(each);
        } else {
            self.headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).for_each(each);
        }
    }

    fn cookie(&self, name: &str) -> Option<&str> {
        // One header with several pairs and several headers with one (HTTP/2) mean the same.
        let headers = self.headers;
        if headers.keys_len() > FEW {
            let mut lines = headers.get_all(COOKIE).iter();
            return lines.find_map(|line| cookie_in(line.as_bytes(), name.as_bytes()));
        }
        if !headers.keys().any(|key| *key == COOKIE) {
            return None;
        }
        let mut lines = headers.iter().filter(|(key, _)| **key == COOKIE);
        lines.find_map(|(_, line)| cookie_in(line.as_bytes(), name.as_bytes()))
    }

    fn query(&self, name: &str) -> Option<Cow<'_, str>> {
        self.query_text()?.split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(key) == name).then(|| decoded(value))
        })
    }
}

/// Up to so many headers are looked through one by one, which is then faster than a hash of the name.
const FEW: usize = 8;

/// The value of the first cookie `name` in a line, without blanks and quotes around it.
fn cookie_in<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a str> {
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        // The name first: of other cookies nothing is looked at but where they end.
        let value = rest.strip_prefix(name).and_then(|rest| rest.trim_ascii_start().strip_prefix(b"="));
        let Some(value) = value else {
            rest = &rest[semicolon(rest)? + 1..];
            continue;
        };
        let value = value[..semicolon(value).unwrap_or(value.len())].trim_ascii();
        let value = value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\"")).unwrap_or(value);
        return std::str::from_utf8(value).ok();
    }
}

/// Where the first semicolon is, eight bytes at a time.
fn semicolon(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    let mut words = bytes.chunks_exact(8);
    for (at, word) in words.by_ref().enumerate() {
        // A byte is 0 where it was a semicolon, and the lowest bit that is left tells the first of them.
        let word = u64::from_le_bytes(word.try_into().ok()?) ^ (ONES * u64::from(b';'));
        let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if zeros != 0 {
            return Some(at * 8 + zeros.trailing_zeros() as usize / 8);
        }
    }
    let rest = words.remainder();
    Some(bytes.len() - rest.len() + rest.iter().position(|byte| *byte == b';')?)
}

/// The path of a URL, or of a path with a query; empty when there is none.
fn path_of(url: &str) -> &str {
    let url = url.find(['?', '#']).map_or(url, |end| &url[..end]);
    match url.split_once("://") {
        // Behind a slash it is a part of the path.
        Some((scheme, rest)) if !scheme.contains('/') => rest.find('/').map_or("", |from| &rest[from..]),
        _ => url,
    }
}

/// A query's text with `+` and `%xx` resolved; borrowed when there is nothing to resolve. A broken escape stays.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|b| b == b'%' || b == b'+') {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = |i: usize| bytes.get(i).and_then(|b| char::from(*b).to_digit(16));
        match (bytes[at], hex(at + 1), hex(at + 2)) {
            (b'+', ..) => out.push(b' '),
            (b'%', Some(high), Some(low)) => {
                #[allow(clippy::cast_possible_truncation)] // two hex digits
                out.push((high * 16 + low) as u8);
                at += 2;
            }
            (byte, ..) => out.push(byte),
        }
        at += 1;
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> http::Request<()> {
        http::Request::builder()
            .uri("/a?v=1%2C2&w=a+b&empty&broken=%zz#f")
            .header("X-Hint", "blue")
            .header("cookie", "a=1; id=\"n-1\"")
            .header("cookie", "b=2; id=late; identity=3;id2 = \"; c; =5 ;d=; e =\" 6 \" ")
            .body(())
            .unwrap()
    }

    #[test]
    fn it_reads_headers_cookies_and_queries() {
        let request = request();
        let view = HttpView::of(&request);
        assert_eq!(view.method(), Some("GET"));
        assert_eq!(view.header("x-hint"), Some("blue"));
        assert_eq!(view.header("no such\nheader"), None);
        let cookies = [
            ("a", Some("1")),
            ("b", Some("2")),
            ("id", Some("n-1")),
            ("identity", Some("3")),
            ("id2", Some("\"")),
            ("c", None),
            ("ident", None),
            ("", Some("5")),
            ("d", Some("")),
            ("e", Some(" 6 ")),
            ("A", None),
        ];
        let mut many = request.headers().clone();
        for at in 0..20 {
            many.insert(
                http::HeaderName::from_bytes(format!("x-{at}").as_bytes()).unwrap(),
                "1".parse().unwrap(),
            );
        }
        let many = HttpView::new(request.method(), request.uri(), &many);
        // Few headers are looked through, of many one is looked up.
        for view in [view, many] {
            for (name, value) in cookies {
                assert_eq!(view.cookie(name), value, "{name:?}");
            }
            assert_eq!(
                (view.header("X-HINT"), view.header("x-hin"), view.header("")),
                (Some("blue"), None, None)
            );
        }
        assert_eq!(many.header("x-7"), Some("1"));
        let of = |name| view.query(name).map(Cow::into_owned);
        assert_eq!(of("v").as_deref(), Some("1,2"));
        assert_eq!(of("w").as_deref(), Some("a b"));
        assert_eq!(of("empty").as_deref(), Some(""));
        assert_eq!(of("broken").as_deref(), Some("%zz"));
        assert_eq!(of("none"), None);
        assert!(matches!(HttpView::of(&request).query("empty"), Some(Cow::Borrowed(_))));
    }

    #[test]
    fn a_text_url_has_the_same_query() {
        let (request, method) = (request(), Method::POST);
        let view = HttpView::with_text(&method, "lb://order_service/p?v=1%2C2#?v=3", request.headers());
        assert_eq!(view.query("v").as_deref(), Some("1,2"));
        assert_eq!(HttpView::with_text(&method, "lb://x/p#?v=3", request.headers()).query("v"), None);
    }

    proptest::proptest! {
        #[test]
        fn a_cookie_is_what_a_plain_reading_finds(line in "[a;=\\x22 b]{0,30}", name in "a{0,3}") {
            let plain = line.split(';').filter_map(|pair| pair.split_once('=')).find(|(key, _)| key.trim() == name);
            let plain = plain.map(|(_, value)| {
                let value = value.trim();
                value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value)
            });
            proptest::prop_assert_eq!(cookie_in(line.as_bytes(), name.as_bytes()), plain);
        }

        #[test]
        fn a_semicolon_is_found_where_it_is(bytes in proptest::collection::vec(proptest::sample::select(vec![0, b';', b':', b'<', 0xbb, 0xff]), 0..40)) {
            proptest::prop_assert_eq!(semicolon(&bytes), bytes.iter().position(|byte| *byte == b';'));
        }
    }

    #[test]
    fn a_path_is_cut_out_of_any_url() {
        struct Url(&'static str);
        impl RequestView for Url {
            fn url(&self) -> Option<Cow<'_, str>> {
                Some(Cow::Owned(self.0.to_owned()))
            }
        }
        let request = request();
        assert_eq!(HttpView::of(&request).path().as_deref(), Some("/a"));
        for (url, path) in [
            ("lb://orders/v1/a%20b?u=http://x/y", "/v1/a%20b"),
            ("/v1/a?b", "/v1/a"),
            ("http://h", ""),
            ("http://h?a/b", ""),
            ("", ""),
        ] {
            let view = HttpView::with_text(request.method(), url, request.headers());
            assert_eq!(view.path().as_deref(), Some(path), "{url}");
            assert_eq!(Url(url).path().as_deref(), Some(path), "{url}");
        }
    }

    #[test]
    fn a_url_inside_of_a_path_is_a_part_of_it() {
        for (url, path) in [
            ("/go/http://other/x?y", "/go/http://other/x"),
            ("/login?next=http://other/x", "/login"),
            ("lb://orders/go/http://other/x", "/go/http://other/x"),
        ] {
            assert_eq!(path_of(url), path);
        }
    }
}
