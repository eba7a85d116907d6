use std::borrow::Cow;

use http::HeaderMap;

use crate::observe::CallInfo;
use crate::{HttpView, Request, RequestView};

/// What a call says to the balancer beside its request: a hint, a template of its path, what it costs.
///
/// [`RequestBuilder`](super::RequestBuilder) has a method for each. For a finished request it goes along with
/// [`Client::execute_with`](super::Client::execute_with), and for a client with middlewares in the extensions of the request:
/// reqwest shows nobody the extensions of its own requests.
///
/// ```no_run
/// use evenkeel::client::reqwest::CallOptions;
///
/// # async fn example(http: evenkeel::client::reqwest::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let request = reqwest::Request::new(reqwest::Method::POST, "lb://models/generate".parse()?);
/// let options = CallOptions::default().with_hint("blue").with_cost(500);
/// let response = http.execute_with(request, &options).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallOptions {
    hint: Option<String>,
    template: Option<String>,
    /// 0 counts as 1.
    cost: u16,
}

impl CallOptions {
    /// The group of instances that the request asks for, if the chain has hints; it wins over the header's (default: none).
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The template of the path, such as `/orders/{id}`, by which calls are told apart in metrics (default: none, and then
    /// they are not: a raw path would make a series of its own).
    #[must_use]
    pub fn with_template(mut self, template: impl Into<String>) -> Self {
        self.template = Some(template.into());
        self
    }

    /// What the request costs an instance, in any unit that all requests of the service share (default 1; 0 counts as 1);
    /// see [`Request::with_cost`].
    #[must_use]
    pub const fn with_cost(mut self, cost: u16) -> Self {
        self.cost = cost;
        self
    }

    /// The hint.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The template of the path.
    pub fn template(&self) -> Option<&str> {
        self.template.as_deref()
    }

    /// What it costs, at least 1.
    pub fn cost(&self) -> u16 {
        self.cost.max(1)
    }

    /// The same for a place of the same service to which a call was redirected: its path is another one.
    pub(super) fn elsewhere(&self) -> Self {
        Self { template: None, ..self.clone() }
    }
}

/// A request with its options, for the stages of the chain and for lifecycle processors.
pub(super) struct View<'a> {
    pub(super) http: HttpView<'a>,
    pub(super) options: &'a CallOptions,
}

impl View<'_> {
    pub(super) fn request(&self) -> Request<'_> {
        let request = Request::of(self).with_cost(self.options.cost);
        match self.options.hint() {
            Some(hint) => request.with_hint(hint),
            None => request,
        }
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
        self.options.template().filter(|_| name == CallInfo::URL_TEMPLATE)
    }
}
