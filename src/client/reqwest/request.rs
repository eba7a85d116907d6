use std::time::Duration;

use ::reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use ::reqwest::{Body, Response};

use super::client::Client;
use super::error::Error;

/// A request in the making: reqwest's own builder, and a hint for the balancer.
///
/// What has no method here is behind [`with`](Self::with): everything that reqwest's builder has, by the features that
/// you gave it, such as `json`, `query`, `form` and `multipart`.
#[derive(Debug)]
#[must_use = "a request does nothing until it is sent"]
pub struct RequestBuilder {
    client: Client,
    inner: Result<::reqwest::RequestBuilder, Error>,
    hint: Option<String>,
}

impl RequestBuilder {
    pub(super) fn new(client: Client, inner: Result<::reqwest::RequestBuilder, Error>) -> Self {
        Self { client, inner, hint: None }
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
        self.hint = Some(hint.into());
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

    /// A limit from the first attempt to the end of the body, both attempts together (default: what `make` set for the
    /// client, else none). The wait for a list has its own, `choose-timeout`.
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
        self.client.execute_with_hint(request, self.hint.as_deref()).await
    }
}
