use std::borrow::Cow;

use http::{HeaderMap, Method, Uri};

use super::headers;

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
    /// All headers, if the client keeps them so: then [`header`](Self::header), [`header_values`](Self::header_values) and
    /// [`cookie`](Self::cookie) look into them by default. A view whose own `header` finds more than is in them gives none.
    fn headers(&self) -> Option<&HeaderMap> {
        None
    }
    /// The first value of a header; case does not count in its name.
    fn header(&self, name: &str) -> Option<&str> {
        headers::first(self.headers()?, name)
    }
    /// Hands `each` every value of a header, in their order; by default the first alone, unless there are
    /// [`headers`](Self::headers).
    fn header_values(&self, name: &str, each: &mut dyn FnMut(&str)) {
        if let Some(headers) = self.headers() {
            headers::all(headers, name, each);
        } else if let Some(value) = self.header(name) {
            each(value);
        }
    }
    /// The first value of a cookie.
    fn cookie(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(headers::cookie(self.headers()?, name)?).ok()
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

    fn headers(&self) -> Option<&HeaderMap> {
        Some(self.headers)
    }

    fn query(&self, name: &str) -> Option<Cow<'_, str>> {
        self.query_text()?.split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(key) == name).then(|| decoded(value))
        })
    }
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
