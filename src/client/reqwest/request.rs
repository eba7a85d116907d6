use std::borrow::Cow;
use std::time::Duration;

use ::reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use ::reqwest::{Body, Response};

use super::client::Client;
use super::error::Error;
use crate::observe::CallInfo;
use crate::{HttpView, RequestView};

/// A request in the making: reqwest's own builder, and a hint for the balancer.
///
/// What has no method here is behind [`with`](Self::with): everything that reqwest's builder has, by the features that
/// you gave it, such as `json`, `query`, `form` and `multipart`.
#[derive(Debug)]
#[must_use = "a request does nothing until it is sent"]
pub struct RequestBuilder {
    client: Client,
    inner: Result<::reqwest::RequestBuilder, Error>,
    extras: Extras,
}

/// What a request says to the balancer beside itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Extras {
    pub(super) hint: Option<String>,
    pub(super) template: Option<String>,
}

/// A request with its extras, for the stages of the chain and for lifecycle processors.
pub(super) struct View<'a> {
    pub(super) http: HttpView<'a>,
    pub(super) extras: &'a Extras,
}

impl RequestView for View<'_> {
    fn method(&self) -> Option<&str> {
        self.http.method()
    }
    fn url(&self) -> Option<Cow<'_, str>> {
        self.http.url()
    }
    fn header(&self, name: &str) -> Option<&str> {
        self.http.header(name)
    }
    fn cookie(&self, name: &str) -> Option<&str> {
        self.http.cookie(name)
    }
    fn query(&self, name: &str) -> Option<Cow<'_, str>> {
        self.http.query(name)
    }
    fn attribute(&self, name: &str) -> Option<&str> {
        self.extras.template.as_deref().filter(|_| name == CallInfo::URL_TEMPLATE)
    }
}

impl RequestBuilder {
    pub(super) fn new(client: Client, inner: Result<::reqwest::RequestBuilder, Error>) -> Self {
        Self { client, inner, extras: Extras::default() }
    }

    /// Changes it by reqwest's own builder.
    ///
    /// ```no_run
    /// # async fn example(http: evenkeel::client::reqwest::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let request = http.get("lb://orders/api/42").with(|request| request.basic_auth("me", Some("secret")));
    /// let response = request.send().await?;
    /// # Ok(()) }
    /// ```
    pub fn with(self, change: impl FnOnce(::reqwest::RequestBuilder) -> ::reqwest::RequestBuilder) -> Self {
        Self { inner: self.inner.map(change), ..self }
    }

    /// The group of instances that the request asks for, if the chain has hints; it wins over the header's (default:
    /// none).
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.extras.hint = Some(hint.into());
        self
    }

    /// The template of the path, such as `/orders/{id}`, by which calls are told apart in metrics (default: none, and then
    /// they are not: a raw path would make a series of its own).
    pub fn template(mut self, template: impl Into<String>) -> Self {
        self.extras.template = Some(template.into());
        self
    }

    /// Adds a header.
    pub fn header<K, V>(self, key: K, value: V) -> Self
    where
        HeaderName: TryFrom<K>,
        <HeaderName as TryFrom<K>>::Error: Into<http::Error>,
        HeaderValue: TryFrom<V>,
        <HeaderValue as TryFrom<V>>::Error: Into<http::Error>,
    {
        self.with(|inner| inner.header(key, value))
    }

    /// Sets headers.
    pub fn headers(self, headers: HeaderMap) -> Self {
        self.with(|inner| inner.headers(headers))
    }

    /// The body. One that is a stream can be sent once only, so that such a call has one attempt.
    pub fn body(self, body: impl Into<Body>) -> Self {
        self.with(|inner| inner.body(body))
    }

    /// A limit from the first attempt to the end of the body, all attempts together (default: none; a limit that `make` set
    /// for the client holds for each attempt). The wait for a list before the first attempt has its own, `choose-timeout`.
    pub fn timeout(self, limit: Duration) -> Self {
        self.with(|inner| inner.timeout(limit))
    }

    /// A bearer token.
    pub fn bearer_auth(self, token: impl std::fmt::Display) -> Self {
        self.with(|inner| inner.bearer_auth(token))
    }

    /// Sends it to an instance.
    ///
    /// # Errors
    /// [`Error`], which names service and instances, or quotes the text that is no URL.
    pub async fn send(self) -> Result<Response, Error> {
        let request = self.inner?.build().map_err(Error::plain)?;
        self.client.execute_with(request, &self.extras).await
    }
}
