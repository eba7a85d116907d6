use std::borrow::Cow;

use http::request::Parts;
use http::{HeaderMap, Uri};

use crate::{HttpView, RequestView};

/// A request on its way, as stages, policies and lifecycle processors see it: with the URL at the service, and the id of the route
/// as its attribute `route`.
pub(super) struct View<'a> {
    http: HttpView<'a>,
    target: &'a Uri,
    scheme: &'static str,
    service: &'a str,
    route: &'a str,
}

impl<'a> View<'a> {
    /// Of a request that goes to `target`, a path and query, of a service.
    pub(super) fn new(
        parts: &'a Parts,
        target: &'a Uri,
        scheme: &'static str,
        service: &'a str,
        route: &'a str,
    ) -> Self {
        let http = HttpView::new(&parts.method, target, &parts.headers);
        Self { http, target, scheme, service, route }
    }

    /// The URL at the service.
    pub(super) fn logical(&self) -> String {
        format!("{}://{}{}", self.scheme, self.service, self.target)
    }
}

impl RequestView for View<'_> {
    fn method(&self) -> Option<&str> {
        self.http.method()
    }
    fn url(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Owned(self.logical()))
    }
    fn path(&self) -> Option<Cow<'_, str>> {
        self.http.path()
    }
    fn headers(&self) -> Option<&HeaderMap> {
        self.http.headers()
    }
    fn query(&self, name: &str) -> Option<Cow<'_, str>> {
        self.http.query(name)
    }
    fn attribute(&self, name: &str) -> Option<&str> {
        (name == "route").then_some(self.route)
    }
}
