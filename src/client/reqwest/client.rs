use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::reqwest::header::HeaderMap;
use ::reqwest::redirect::Policy;
use ::reqwest::{Method, Response, Url};

use super::call::To;
use super::error::Error;
use super::follow;
use super::hook::{CookieStore, Hooks, ResponseHook};
use super::instance::{Current, KeepAlive};
use super::opener::Instances;
use super::options::CallOptions;
use super::redirect::RedirectPolicy;
use super::replay::Replay;
use super::request::RequestBuilder;
use crate::balancer::CallSettings;
use crate::client::RequestTransformer;
use crate::client::logical::balancer_of;
use crate::client::transform::Transformers;
use crate::{Choice, LoadBalancer, LoadBalancers, ServiceInstance};

/// Sends requests to the instances of services; see the [module](super). Cheap to clone.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

pub(super) type Make = dyn Fn(&ServiceInstance) -> ::reqwest::ClientBuilder + Send + Sync;

#[derive(Clone)]
struct Inner {
    balancers: LoadBalancers,
    transformers: Transformers,
    hooks: Hooks,
    redirects: RedirectPolicy,
    referer: bool,
    instances: Arc<Instances>,
    /// For URLs that are not balanced.
    plain: ::reqwest::Client,
}

impl Client {
    pub(super) fn new(
        balancers: LoadBalancers,
        make: impl Fn(&ServiceInstance) -> ::reqwest::ClientBuilder + Send + Sync + 'static,
    ) -> Result<Self, ::reqwest::Error> {
        let inner = Inner {
            instances: Instances::registered(&balancers, Arc::new(make), Some(KeepAlive::default())),
            balancers,
            transformers: Transformers::default(),
            hooks: Hooks::default(),
            redirects: RedirectPolicy::default(),
            referer: true,
            plain: ::reqwest::Client::builder().redirect(Policy::none()).build()?,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The same client with something changed; connections are shared.
    fn changed(&self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = (*self.inner).clone();
        change(&mut inner);
        Self { inner: Arc::new(inner) }
    }

    /// The same client with one more transformer of requests that are balanced (default: none). Clones made before do not
    /// have it; connections are shared. So it is with all methods of this kind.
    #[must_use]
    pub fn with_transformer(&self, transformer: impl RequestTransformer) -> Self {
        self.changed(|inner| inner.transformers = inner.transformers.with(Arc::new(transformer)))
    }

    /// The same client with one more hook for the responses of instances (default: none).
    #[must_use]
    pub fn with_response_hook(&self, hook: impl ResponseHook) -> Self {
        self.changed(|inner| inner.hooks.responses = inner.hooks.with(Arc::new(hook)))
    }

    /// The same client with a store of cookies by logical URL (default: none): one user, who comes back with what he was
    /// given. A request that has a header `Cookie` of its own gets no other.
    #[must_use]
    pub fn with_cookies(&self, store: impl CookieStore) -> Self {
        self.changed(|inner| inner.hooks.cookies = Some(Arc::new(store)))
    }

    /// The same client with other rules for redirects (default: at most 10 in a row); see the [module](super#redirects).
    #[must_use]
    pub fn with_redirects(&self, redirects: RedirectPolicy) -> Self {
        self.changed(|inner| inner.redirects = redirects)
    }

    /// The same client, which tells the place that it is redirected to where it comes from in the header `Referer`, or does
    /// not (default: it does, as reqwest).
    #[must_use]
    pub fn with_referer(&self, referer: bool) -> Self {
        self.changed(|inner| inner.referer = referer)
    }

    /// The same client with other settings for URLs that are not balanced, such as their TLS (default: those of
    /// [`reqwest::Client::builder`](::reqwest::Client::builder)). Redirects are followed as this client says.
    ///
    /// # Errors
    /// An error of reqwest, if it cannot make that client.
    pub fn with_plain(&self, builder: ::reqwest::ClientBuilder) -> Result<Self, ::reqwest::Error> {
        let plain = builder.redirect(Policy::none()).build()?;
        Ok(self.changed(|inner| inner.plain = plain))
    }

    /// The same client with another keep-alive of HTTP/2 (default: 20 s, 10 s): a connection from which nothing came for
    /// `interval` is asked for a sign of life, and given up when none came within `timeout`, with all calls on it. The new
    /// client shares no connections with this one.
    #[must_use]
    pub fn with_http2_keep_alive(&self, interval: Duration, timeout: Duration) -> Self {
        self.kept_alive(Some(KeepAlive { interval, timeout }))
    }

    /// The same client, which leaves the keep-alive of HTTP/2 to what `make` says, by reqwest's default none. The new client
    /// shares no connections with this one.
    #[must_use]
    pub fn without_http2_keep_alive(&self) -> Self {
        self.kept_alive(None)
    }

    fn kept_alive(&self, keep_alive: Option<KeepAlive>) -> Self {
        self.changed(|inner| inner.instances = inner.instances.kept_alive(keep_alive))
    }

    /// A GET.
    pub fn get(&self, url: impl AsRef<str>) -> RequestBuilder {
        self.request(Method::GET, url)
    }

    /// A HEAD.
    pub fn head(&self, url: impl AsRef<str>) -> RequestBuilder {
        self.request(Method::HEAD, url)
    }

    /// A POST.
    pub fn post(&self, url: impl AsRef<str>) -> RequestBuilder {
        self.request(Method::POST, url)
    }

    /// A PUT.
    pub fn put(&self, url: impl AsRef<str>) -> RequestBuilder {
        self.request(Method::PUT, url)
    }

    /// A PATCH.
    pub fn patch(&self, url: impl AsRef<str>) -> RequestBuilder {
        self.request(Method::PATCH, url)
    }

    /// A DELETE.
    pub fn delete(&self, url: impl AsRef<str>) -> RequestBuilder {
        self.request(Method::DELETE, url)
    }

    /// A request of any method. A text that is no URL with a host is an error of [`send`](RequestBuilder::send), which
    /// quotes it; a password in it becomes the header `Authorization`, as reqwest does it.
    pub fn request(&self, method: Method, url: impl AsRef<str>) -> RequestBuilder {
        let text = url.as_ref();
        let inner = match Url::parse(text) {
            Ok(url) if url.host_str().is_some_and(|host| !host.is_empty()) => {
                Ok(self.inner.plain.request(method, url))
            }
            Ok(_) => Err(Error::url(text, "it names no host")),
            Err(error) => Err(Error::url(text, error)),
        };
        RequestBuilder::new(self.clone(), inner)
    }

    /// Sends a finished request. The response's extensions hold a [`Via`](super::Via) that names the instance.
    ///
    /// # Errors
    /// [`Error`], which names service and instances.
    pub fn execute(
        &self,
        request: ::reqwest::Request,
    ) -> impl Future<Output = Result<Response, Error>> + Send {
        let mut replay = Replay::new(request, None, false);
        async move { follow::run(self, &mut replay, &CallOptions::default()).await }
    }

    /// Sends a finished request with a hint, a template or a cost.
    ///
    /// # Errors
    /// [`Error`], which names service and instances.
    pub fn execute_with(
        &self,
        request: ::reqwest::Request,
        options: &CallOptions,
    ) -> impl Future<Output = Result<Response, Error>> + Send {
        // The future of an `async fn` has room for each argument twice, and is moved.
        let mut replay = Replay::new(request, None, false);
        async move { follow::run(self, &mut replay, options).await }
    }

    /// The balancers behind this client.
    pub fn balancers(&self) -> &LoadBalancers {
        &self.inner.balancers
    }

    pub(super) fn plain(&self) -> &::reqwest::Client {
        &self.inner.plain
    }

    pub(super) fn transformers(&self) -> &Transformers {
        &self.inner.transformers
    }

    pub(super) fn hooks(&self) -> &Hooks {
        &self.inner.hooks
    }

    pub(super) fn redirects(&self) -> &RedirectPolicy {
        &self.inner.redirects
    }

    pub(super) fn sends_referer(&self) -> bool {
        self.inner.referer
    }

    /// Whether a response with these headers changes the cookies of the next request.
    pub(super) fn learns_cookies(&self, headers: &HeaderMap) -> bool {
        self.inner.hooks.cookies.is_some() && headers.contains_key(::reqwest::header::SET_COOKIE)
    }

    /// Where a request to this URL goes.
    pub(super) fn route(&self, url: &Url) -> Result<To, Error> {
        let host = url.host_str().unwrap_or_default();
        if url.scheme() == "lb" && host.is_empty() {
            return Err(Error::url(url.as_str(), "it names no host"));
        }
        match balancer_of(&self.inner.balancers, url.scheme(), host, url.port().is_some()) {
            Ok(Some(balancer)) => Ok(To::Service(balancer)),
            Ok(None) => Ok(To::Plain),
            Err(error) => Err(Error::refused(url, error)),
        }
    }

    /// The client of an instance; made at its first call.
    pub(super) fn client(
        &self,
        balancer: &LoadBalancer,
        choice: &Choice,
        instance: &ServiceInstance,
        calls: &Arc<CallSettings>,
    ) -> Result<Arc<Current>, ::reqwest::Error> {
        self.inner.instances.client(balancer, choice.state(), instance, calls)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("balancers", &self.inner.balancers).finish_non_exhaustive()
    }
}
