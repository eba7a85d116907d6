use std::sync::Arc;
use std::time::Duration;

use ::reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use ::reqwest::{Body, Response};

use super::client::Client;
use super::error::Error;
use super::follow;
use super::options::CallOptions;
use super::replay::{MakeBody, Replay};

/// A request in the making: reqwest's own builder, and a hint for the balancer.
///
/// What has no method here is behind [`with`](Self::with): everything that reqwest's builder has, by the features that
/// you gave it, such as `json`, `query`, `form` and `multipart`.
#[must_use = "a request does nothing until it is sent"]
pub struct RequestBuilder {
    client: Client,
    inner: Result<::reqwest::RequestBuilder, Error>,
    options: CallOptions,
    make: Option<MakeBody>,
    /// Nobody but this builder had it in hand, so that it has no extensions.
    own: bool,
}

impl RequestBuilder {
    pub(super) fn new(client: Client, inner: Result<::reqwest::RequestBuilder, Error>) -> Self {
        Self { client, inner, options: CallOptions::default(), make: None, own: true }
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
        Self { own: false, ..self.change(change) }
    }

    fn change(self, change: impl FnOnce(::reqwest::RequestBuilder) -> ::reqwest::RequestBuilder) -> Self {
        Self { inner: self.inner.map(change), ..self }
    }

    /// The group of instances that the request asks for; see [`CallOptions::with_hint`].
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.options = self.options.with_hint(hint);
        self
    }

    /// The template of the path; see [`CallOptions::with_template`].
    pub fn template(mut self, template: impl Into<String>) -> Self {
        self.options = self.options.with_template(template);
        self
    }

    /// What it costs an instance; see [`CallOptions::with_cost`].
    pub fn cost(mut self, cost: u16) -> Self {
        self.options = self.options.with_cost(cost);
        self
    }

    /// Hint, template and cost in one.
    pub fn options(mut self, options: CallOptions) -> Self {
        self.options = options;
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
        self.change(|inner| inner.header(key, value))
    }

    /// Sets headers.
    pub fn headers(self, headers: HeaderMap) -> Self {
        self.change(|inner| inner.headers(headers))
    }

    /// The body. One that is a stream can be sent once only: it goes to another instance if nothing of it was read, since it
    /// never got a connection, and is not repeated otherwise. [`body_with`](Self::body_with) makes one that is.
    pub fn body(mut self, body: impl Into<Body>) -> Self {
        self.make = None;
        self.change(|inner| inner.body(body))
    }

    /// A body that is made anew for each attempt, so that a stream can be repeated like bytes in memory, also at a redirect
    /// that keeps it.
    ///
    /// ```no_run
    /// use futures_util::stream;
    ///
    /// # async fn example(http: evenkeel::client::reqwest::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let rows = || reqwest::Body::wrap_stream(stream::iter(["a,1\n", "b,2\n"].map(Ok::<_, std::io::Error>)));
    /// let response = http.put("lb://orders/import").body_with(rows).send().await?;
    /// # Ok(()) }
    /// ```
    pub fn body_with(mut self, make: impl Fn() -> Body + Send + Sync + 'static) -> Self {
        self.make = Some(Arc::new(make));
        self
    }

    /// A limit from the first attempt to the end of the body, all attempts and redirects together (default: none; a limit that `make` set
    /// for the client holds for each attempt). The wait for a list before the first attempt has its own, `choose-timeout`.
    pub fn timeout(self, limit: Duration) -> Self {
        self.change(|inner| inner.timeout(limit))
    }

    /// A bearer token.
    pub fn bearer_auth(self, token: impl std::fmt::Display) -> Self {
        self.change(|inner| inner.bearer_auth(token))
    }

    /// Sends it to an instance.
    ///
    /// # Errors
    /// [`Error`], which names service and instances, or quotes the text that is no URL.
    pub fn send(self) -> impl Future<Output = Result<Response, Error>> + Send {
        let Self { client, inner, options, make, own } = self;
        // The future of an `async fn` has room for each argument twice, and is moved.
        let mut replay = inner
            .and_then(|inner| inner.build().map_err(Error::plain))
            .map(|request| Replay::new(request, make, own))
            .map_err(Some);
        async move {
            match &mut replay {
                Ok(replay) => follow::run(&client, replay, &options).await,
                Err(error) => Err(error.take().unwrap_or_else(Error::late)),
            }
        }
    }
}

impl std::fmt::Debug for RequestBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestBuilder")
            .field("inner", &self.inner)
            .field("options", &self.options)
            .field("made_body", &self.make.is_some())
            .finish_non_exhaustive()
    }
}
