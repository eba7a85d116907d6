use std::time::Duration;

use ::reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use ::reqwest::{Body, Response};

use super::client::Client;
use super::error::Error;

/// A request in the making, as reqwest's own builder, and with a hint for the balancer.
///
/// For everything that this builder has not, build a [`reqwest::Request`](::reqwest::Request) and
/// [`execute`](Client::execute) it.
#[derive(Debug)]
#[must_use = "a request does nothing until it is sent"]
pub struct RequestBuilder {
    client: Client,
    inner: ::reqwest::RequestBuilder,
    hint: Option<String>,
}

impl RequestBuilder {
    pub(super) fn new(client: Client, inner: ::reqwest::RequestBuilder) -> Self {
        Self { client, inner, hint: None }
    }

    fn map(self, change: impl FnOnce(::reqwest::RequestBuilder) -> ::reqwest::RequestBuilder) -> Self {
        Self { inner: change(self.inner), ..self }
    }

    /// The group of instances that the request asks for, if the chain has hints.
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
        self.map(|inner| inner.header(key, value))
    }

    /// Sets headers.
    pub fn headers(self, headers: HeaderMap) -> Self {
        self.map(|inner| inner.headers(headers))
    }

    /// The body.
    pub fn body(self, body: impl Into<Body>) -> Self {
        self.map(|inner| inner.body(body))
    }

    /// A limit for the whole call.
    pub fn timeout(self, limit: Duration) -> Self {
        self.map(|inner| inner.timeout(limit))
    }

    /// A bearer token.
    pub fn bearer_auth(self, token: impl std::fmt::Display) -> Self {
        self.map(|inner| inner.bearer_auth(token))
    }

    /// Sends it to an instance.
    ///
    /// # Errors
    /// [`Error`], which names service and instances.
    pub async fn send(self) -> Result<Response, Error> {
        let request = self.inner.build().map_err(Error::plain)?;
        self.client.execute_with_hint(request, self.hint.as_deref()).await
    }
}
