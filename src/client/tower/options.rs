use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::request::Parts;

use crate::observe::CallInfo;
use crate::{HttpView, Request, RequestView};

/// What one call says to the balancer beside its request: put it into the request's extensions, also those of a
/// `tonic::Request`.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::client::tower::CallOptions;
///
/// # fn main() -> Result<(), http::Error> {
/// let options = CallOptions::default().with_hint("blue").with_timeout(Duration::from_secs(2));
/// let request = http::Request::get("lb://orders/api/42").extension(options).body(())?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    hint: Option<Arc<str>>,
    template: Option<Arc<str>>,
    cost: Option<u16>,
    pub(super) timeout: Option<Duration>,
}

impl CallOptions {
    /// Sets the group of instances that the request asks for, if the chain has hints; it wins over the header's (default:
    /// none).
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Arc<str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the template of the path, such as `/orders/{id}`, by which calls are told apart in metrics (default: none, and
    /// then they are not: a raw path would make a series of its own; a call of gRPC has its path, which is a method).
    #[must_use]
    pub fn with_template(mut self, template: impl Into<Arc<str>>) -> Self {
        self.template = Some(template.into());
        self
    }

    /// Sets what the call costs an instance (default: 1); see [`Request::with_cost`].
    #[must_use]
    pub fn with_cost(mut self, cost: u16) -> Self {
        self.cost = Some(cost);
        self
    }

    /// Sets the limit of the call, from its first attempt to the head of the response, all attempts together (default: that
    /// of the client). A layer that makes one attempt only does not read it, nor does the client of gRPC, whose calls have a
    /// limit of their own, `grpc-timeout`.
    #[must_use]
    pub fn with_timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// What they say of a request.
    pub(in crate::client) fn over<'a>(&'a self, request: Request<'a>) -> Request<'a> {
        let request = request.with_cost(self.cost.unwrap_or(1));
        match &self.hint {
            Some(hint) => request.with_hint(hint),
            None => request,
        }
    }

    pub(in crate::client) fn template(&self) -> Option<&str> {
        self.template.as_deref()
    }
}

/// A request, and what it says beside itself, for the stages of the chain and for lifecycle processors.
pub(super) struct View<'a> {
    http: HttpView<'a>,
    options: Option<&'a CallOptions>,
}

impl<'a> View<'a> {
    pub(super) fn of(parts: &'a Parts) -> Self {
        let http = HttpView::new(&parts.method, &parts.uri, &parts.headers);
        Self { http, options: parts.extensions.get() }
    }

    /// As the balancer sees it.
    pub(super) fn request(&self) -> Request<'_> {
        let request = Request::of(self);
        match self.options {
            Some(options) => options.over(request),
            None => request,
        }
    }

    pub(super) fn options(&self) -> Option<&'a CallOptions> {
        self.options
    }
}

impl RequestView for View<'_> {
    fn method(&self) -> Option<&str> {
        self.http.method()
    }
    fn url(&self) -> Option<Cow<'_, str>> {
        self.http.url()
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
        let template = self.options.and_then(CallOptions::template);
        template.filter(|_| name == CallInfo::URL_TEMPLATE)
    }
}
