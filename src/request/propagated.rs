//! Headers that the request which is being served hands on to the calls that it leads to.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{Request, RequestView};

tokio::task_local! {
    static CURRENT: Propagated;
}

/// Which headers of a request are handed on, and how much of them.
///
/// Default: `X-SC-LB-Hint`, `X-Api-Version`, `X-Version` and `X-Canary`; at most 16 values and 4 096 bytes, names included.
/// What is beyond that is left out, value by value. `Authorization` and `Cookie` are handed on if they are named, and never
/// else; what belongs to one connection or one body (`Host`, `Connection`, `Content-Length` and the like) is not, even if it is.
///
/// ```
/// use evenkeel::client::Propagation;
/// use http::{HeaderMap, HeaderName, HeaderValue};
///
/// let rules = Propagation::default().with_header(HeaderName::from_static("x-tenant"));
/// let mut headers = HeaderMap::new();
/// headers.insert("x-tenant", HeaderValue::from_static("acme"));
/// headers.insert("authorization", HeaderValue::from_static("Bearer 1"));
/// let propagated = rules.read(&headers);
/// assert_eq!(propagated.header("X-Tenant"), Some("acme"));
/// assert_eq!(propagated.header("authorization"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Propagation {
    names: Arc<[HeaderName]>,
    most: usize,
    bytes: usize,
}

impl Default for Propagation {
    fn default() -> Self {
        Self::new(["x-sc-lb-hint", "x-api-version", "x-version", "x-canary"].map(HeaderName::from_static))
    }
}

impl Propagation {
    /// These headers and no others.
    pub fn new(names: impl IntoIterator<Item = HeaderName>) -> Self {
        // A limit for what a client may make every hop behind carry: some values, about what one packet holds.
        Self { names: names.into_iter().collect(), most: 16, bytes: 4_096 }
    }

    /// One more header.
    #[must_use]
    pub fn with_header(self, name: HeaderName) -> Self {
        Self { names: self.names.iter().cloned().chain([name]).collect(), ..self }
    }

    /// Sets how many values are handed on, and how many bytes, names included (defaults: 16 and 4 096).
    #[must_use]
    pub fn with_limits(self, values: usize, bytes: usize) -> Self {
        Self { most: values, bytes, ..self }
    }

    /// What these headers hand on.
    pub fn read(&self, headers: &HeaderMap) -> Propagated {
        let (mut kept, mut bytes) = (HeaderMap::new(), 0);
        for name in &*self.names {
            if is_of_the_connection(name) || kept.contains_key(name) {
                continue;
            }
            for value in headers.get_all(name) {
                let size = name.as_str().len() + value.len();
                if kept.len() < self.most && size <= self.bytes - bytes {
                    bytes += size;
                    kept.append(name.clone(), value.clone());
                }
            }
        }
        Propagated::of(kept)
    }
}

/// Whether a header belongs to one connection or one body.
fn is_of_the_connection(name: &HeaderName) -> bool {
    const THOSE: [HeaderName; 9] =
        [CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];
    THOSE.contains(name) || ["keep-alive", "proxy-connection"].contains(&name.as_str())
}

/// Headers that every balanced call has that is made while they are in [`scope`](Self::scope), unless it has a header of the
/// name itself. Cheap to clone.
///
/// Stages see them before an instance is chosen, so that a hint decides at the second hop too. A layer
/// (`client::PropagationLayer`, feature `tower`) puts those of each request that a server gets into the scope of its handler. What a task
/// spawns is another task, which has none, unless it is given them:
///
/// ```
/// use evenkeel::client::{Propagated, Propagation};
/// use http::{HeaderMap, HeaderValue};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut headers = HeaderMap::new();
/// headers.insert("x-canary", HeaderValue::from_static("yes"));
/// let handler = async {
///     let lost = tokio::spawn(async { Propagated::current().is_empty() });
///     let kept = tokio::spawn(Propagated::current().scope(async { Propagated::current().is_empty() }));
///     (lost.await, kept.await)
/// };
/// let (lost, kept) = Propagation::default().read(&headers).scope(handler).await;
/// assert_eq!((lost?, kept?), (true, false));
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct Propagated(Option<Arc<HeaderMap>>);

impl Propagated {
    fn of(headers: HeaderMap) -> Self {
        Self((!headers.is_empty()).then(|| Arc::new(headers)))
    }

    /// Those of the scope that this is called in; none outside of every scope.
    pub fn current() -> Self {
        CURRENT.try_with(Self::clone).unwrap_or_default()
    }

    /// The same with one more value.
    #[must_use]
    pub fn with(self, name: HeaderName, value: HeaderValue) -> Self {
        let mut headers = self.0.as_deref().cloned().unwrap_or_default();
        headers.append(name, value);
        Self::of(headers)
    }

    /// The future, in whose scope these are, and no others.
    pub fn scope<F: Future>(self, future: F) -> tokio::task::futures::TaskLocalFuture<Self, F> {
        CURRENT.scope(self, future)
    }

    /// What the closure gives, in whose scope these are.
    pub fn sync_scope<T>(self, within: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self, within)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The first value of a header; case does not count in its name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.0.as_ref()?.get(name)?.to_str().ok()
    }

    /// All names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.0.iter().flat_map(|headers| headers.iter())
    }

    /// Adds them to the headers of a request, but for those that it has itself.
    pub fn add_to(&self, headers: &mut HeaderMap) {
        let Some(own) = &self.0 else { return };
        for name in own.keys().filter(|name| !headers.contains_key(*name)).cloned().collect::<Vec<_>>() {
            for value in own.get_all(&name) {
                headers.append(name.clone(), value.clone());
            }
        }
    }

    /// A view of a request that shows them as headers which it has not itself.
    pub(crate) fn over<'a>(&'a self, request: Request<'a>) -> Over<'a> {
        Over { request, propagated: self }
    }
}

/// The names alone: values may be nobody's business.
impl fmt::Debug for Propagated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().flat_map(|headers| headers.keys())).finish()
    }
}

/// A request with what is handed on to it.
pub(crate) struct Over<'a> {
    request: Request<'a>,
    propagated: &'a Propagated,
}

impl RequestView for Over<'_> {
    fn method(&self) -> Option<&str> {
        self.request.method()
    }
    fn url(&self) -> Option<Cow<'_, str>> {
        self.request.url()
    }
    fn path(&self) -> Option<Cow<'_, str>> {
        self.request.path()
    }
    fn header(&self, name: &str) -> Option<&str> {
        self.request.header(name).or_else(|| self.propagated.header(name))
    }
    fn header_values(&self, name: &str, each: &mut dyn FnMut(&str)) {
        let mut own = false;
        self.request.header_values(name, &mut |value| {
            own = true;
            each(value);
        });
        if let (false, Some(headers)) = (own, &self.propagated.0) {
            headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).for_each(each);
        }
    }
    fn cookie(&self, name: &str) -> Option<&str> {
        self.request.cookie(name)
    }
    fn query(&self, name: &str) -> Option<Cow<'_, str>> {
        self.request.query(name)
    }
    fn attribute(&self, name: &str) -> Option<&str> {
        self.request.attribute(name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::HttpView;
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn named(names: &[&'static str]) -> Propagation {
        Propagation::new(names.iter().map(|name| HeaderName::from_static(name)))
    }

    #[test]
    fn what_is_named_is_handed_on_and_nothing_else() {
        let all = headers(&[
            ("x-sc-lb-hint", "blue"),
            ("authorization", "secret"),
            ("cookie", "a=b"),
            ("x-other", "1"),
            ("host", "h"),
        ]);
        let propagated = Propagation::default().read(&all);
        let names =
            |propagated: &Propagated| propagated.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>();
        assert_eq!(names(&propagated), ["x-sc-lb-hint"]);
        assert_eq!(format!("{propagated:?}"), "[\"x-sc-lb-hint\"]");
        let more = named(&["authorization", "host", "x-other", "x-other", "te"]).read(&all);
        assert_eq!(names(&more), ["authorization", "x-other"]);
        assert!(named(&["x-none"]).read(&all).is_empty());
    }

    #[test]
    fn there_is_a_limit_of_values_and_of_bytes() {
        let mut many = HeaderMap::new();
        for at in 0..100 {
            many.append("x-canary", at.to_string().parse().unwrap());
        }
        assert_eq!(Propagation::default().read(&many).iter().count(), 16);
        let long = headers(&[("x-canary", &"x".repeat(5_000)), ("x-version", "2")]);
        let kept = Propagation::default().read(&long);
        assert_eq!((kept.header("x-canary"), kept.header("x-version")), (None, Some("2")));
        // 8 of the name and 2 of the value.
        let exact = headers(&[("x-canary", "12"), ("x-version", "2")]);
        assert_eq!(Propagation::default().with_limits(9, 10).read(&exact).iter().count(), 1);
        assert!(
            Propagation::default().with_limits(9, 9).read(&exact).iter().all(|(name, _)| name != "x-canary")
        );
    }

    #[tokio::test]
    async fn a_scope_holds_for_its_future_and_is_not_inherited() {
        let rules = named(&["x-canary"]);
        let outer = rules.read(&headers(&[("x-canary", "outer")]));
        let header = || Propagated::current().header("x-canary").map(str::to_owned);
        assert!(Propagated::current().is_empty());
        let inner = rules.read(&headers(&[("x-canary", "inner")]));
        let seen = outer.clone().scope(async move {
            let within = inner.scope(async move { header() }).await;
            let none = Propagated::default().sync_scope(header);
            (header(), within, none)
        });
        assert_eq!(seen.await, (Some("outer".to_owned()), Some("inner".to_owned()), None));
        assert_eq!(header(), None);
    }

    #[test]
    fn the_request_has_the_last_word() {
        let propagated = Propagation::default().read(&headers(&[("x-canary", "yes"), ("x-version", "2")]));
        let propagated = propagated.with(HeaderName::from_static("x-version"), HeaderValue::from_static("3"));
        let mut own = headers(&[("x-canary", "no")]);
        let request = http::Request::builder().uri("/a?b=1").header("x-canary", "no").body(()).unwrap();
        let view = HttpView::of(&request);
        let over = propagated.over(Request::of(&view));
        let values = |name: &str| {
            let mut all = Vec::new();
            over.header_values(name, &mut |value| all.push(value.to_owned()));
            all
        };
        assert_eq!((over.header("X-Canary"), over.header("x-version")), (Some("no"), Some("2")));
        assert_eq!(
            (values("x-canary"), values("X-Version")),
            (vec!["no".to_owned()], vec!["2".to_owned(), "3".to_owned()])
        );
        assert_eq!((over.method(), over.query("b").as_deref()), (Some("GET"), Some("1")));
        propagated.add_to(&mut own);
        assert_eq!((own["x-canary"].as_bytes(), own.get_all("x-version").iter().count()), (&b"no"[..], 2));
    }
}
