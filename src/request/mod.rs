//! What a caller says of a request: [`Request`], over a [`RequestView`] of the client's own request.

mod headers;
mod propagated;
mod seen;
mod tried;
mod view;

use std::borrow::Cow;
use std::fmt;

pub(crate) use headers::Named;
use http::HeaderMap;
pub use propagated::{Propagated, Propagation};
pub(crate) use seen::{Seen, mark, mark_of_group};
pub use tried::Tried;
pub use view::{HttpView, RequestView};

/// What request stages and policies may look at. It borrows everything: nothing is copied, nothing is allocated.
///
/// Most calls need no more than [`Request::EMPTY`].
///
/// ```
/// use evenkeel::Request;
///
/// let request = Request::EMPTY.with_hint("blue");
/// assert_eq!(request.hint(), Some("blue"));
/// assert_eq!(request.header("x-sc-lb-hint"), None); // no view: it has no headers
/// ```
#[derive(Clone, Copy)]
pub struct Request<'a> {
    view: Option<&'a dyn RequestView>,
    hint: Option<&'a str>,
    tried: Option<&'a Tried>,
    cost: u16,
}

impl Default for Request<'_> {
    fn default() -> Self {
        Request::EMPTY
    }
}

impl Request<'static> {
    /// A request that says nothing of itself.
    pub const EMPTY: Self = Self { view: None, hint: None, tried: None, cost: 1 };
}

impl<'a> Request<'a> {
    /// A request over a client's own one.
    pub const fn of(view: &'a dyn RequestView) -> Self {
        Self { view: Some(view), hint: None, tried: None, cost: 1 }
    }

    /// The same request with a hint: the group of instances that it asks for (metadata `hint`).
    #[must_use]
    pub const fn with_hint<'b>(self, hint: &'b str) -> Request<'b>
    where
        'a: 'b,
    {
        Request { view: self.view, hint: Some(hint), tried: self.tried, cost: self.cost }
    }

    /// The same request with the instances that it has been sent to already; the pick avoids them while another is left,
    /// and turns a wheel of its own, so that the first attempts of other requests rotate undisturbed.
    #[must_use]
    pub const fn with_tried<'b>(self, tried: &'b Tried) -> Request<'b>
    where
        'a: 'b,
    {
        Request { view: self.view, hint: self.hint, tried: Some(tried), cost: self.cost }
    }

    /// The same request with what it costs an instance, in any unit that all requests of the service share; 1 by default, and
    /// 0 counts as 1.
    ///
    /// Calls in flight are counted in it, and so is every load that policies compare: one batch of 500 weighs as much as 500
    /// requests of one. Numbers such as tokens of a prompt serve well, scaled so that they fit.
    ///
    /// ```
    /// use evenkeel::{LoadBalancer, Request, ServiceInstance};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let models = LoadBalancer::fixed("models", [ServiceInstance::new("10.0.0.1", 8080)?])?;
    /// let choice = models.choose(&Request::EMPTY.with_cost(500)).await?;
    /// assert_eq!(choice.state().in_flight(), 500);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn with_cost(self, cost: u16) -> Self {
        Self { cost: if cost == 0 { 1 } else { cost }, ..self }
    }

    /// The same request, seen by another view of it.
    pub(crate) const fn with_view<'b>(self, view: &'b dyn RequestView) -> Request<'b>
    where
        'a: 'b,
    {
        Request { view: Some(view), hint: self.hint, tried: self.tried, cost: self.cost }
    }

    /// What it costs an instance, at least 1.
    #[inline]
    pub const fn cost(&self) -> u16 {
        self.cost
    }

    /// The hint that the caller gave (not the header's).
    pub const fn hint(&self) -> Option<&'a str> {
        self.hint
    }

    /// The instances that were tried, if any was.
    #[inline]
    pub(crate) fn tried(&self) -> Option<&'a Tried> {
        match self.tried {
            Some(tried) if !tried.is_empty() => Some(tried),
            _ => None,
        }
    }

    /// The method, if there is a view that knows it.
    pub fn method(&self) -> Option<&'a str> {
        self.view.and_then(RequestView::method)
    }

    /// The URL, or its path, as the client has it.
    pub fn url(&self) -> Option<Cow<'a, str>> {
        self.view.and_then(RequestView::url)
    }

    /// The path of the URL, without its query, escapes as they are.
    pub fn path(&self) -> Option<Cow<'a, str>> {
        self.view.and_then(RequestView::path)
    }

    /// All headers, if the client keeps them in such a map.
    pub fn headers(&self) -> Option<&'a HeaderMap> {
        self.view.and_then(RequestView::headers)
    }

    /// The first value of the header `name`; case does not count.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.view.and_then(|view| view.header(name))
    }

    /// Hands `each` every value of the header `name`, in their order; case does not count.
    pub fn header_values(&self, name: &str, each: &mut dyn FnMut(&str)) {
        if let Some(view) = self.view {
            view.header_values(name, each);
        }
    }

    /// The first value of the cookie `name`.
    pub fn cookie(&self, name: &str) -> Option<&'a str> {
        self.view.and_then(|view| view.cookie(name))
    }

    /// What it has, in short.
    #[inline]
    pub(crate) fn seen(&self) -> Seen {
        Seen::of(self)
    }

    /// [`header`](Self::header) by a name that was made ready.
    #[inline(always)]
    #[allow(clippy::inline_always)] // most callers without a view have a hint alone
    pub(crate) fn header_by(&self, name: &Named) -> Option<&'a str> {
        self.view.and_then(|view| header_in(view, name))
    }

    /// [`header_values`](Self::header_values) by a name that was made ready.
    pub(crate) fn header_values_by(&self, name: &Named, each: &mut dyn FnMut(&str)) {
        match self.headers() {
            Some(headers) => name.all(headers, each),
            None => self.header_values(name.text(), each),
        }
    }

    /// [`cookie`](Self::cookie) as it came, be it text or not.
    #[inline]
    pub(crate) fn raw_cookie(&self, name: &str) -> Option<&'a [u8]> {
        let view = self.view?;
        match view.headers() {
            Some(headers) => headers::cookie(headers, name),
            None => view.cookie(name).map(str::as_bytes),
        }
    }

    /// The first value of the query parameter `name`, with its escapes resolved.
    pub fn query(&self, name: &str) -> Option<Cow<'a, str>> {
        self.view.and_then(|view| view.query(name))
    }

    /// An attribute that the client keeps with its request.
    pub fn attribute(&self, name: &str) -> Option<&'a str> {
        self.view.and_then(|view| view.attribute(name))
    }
}

fn header_in<'a>(view: &'a dyn RequestView, name: &Named) -> Option<&'a str> {
    match view.headers() {
        Some(headers) => name.first(headers),
        None => view.header(name.text()),
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method())
            .field("hint", &self.hint)
            .field("tried", &self.tried)
            .finish_non_exhaustive()
    }
}
