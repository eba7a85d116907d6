use std::fmt;
use std::sync::{Arc, OnceLock};

use ::reqwest::header::HeaderMap;
use ::reqwest::{Method, Response, Url};
use tokio::time::Instant;

use super::error::{Error, failure_of};
use super::opener::Instances;
use super::request::{Extras, RequestBuilder, View};
use super::{lease, redirect};
use crate::call::{Protocol, call_with};
use crate::choice::outcome_of;
use crate::client::logical::balancer_of;
use crate::client::transform::Transformers;
use crate::client::{Outgoing, RequestTransformer, Via};
use crate::{Choice, Failure, HttpView, LoadBalancer, LoadBalancers, Outcome, Request, ServiceInstance};

/// Sends requests to the instances of services; see the [module](super). Cheap to clone.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

pub(super) type Make = dyn Fn(&ServiceInstance) -> ::reqwest::ClientBuilder + Send + Sync;

struct Inner {
    balancers: LoadBalancers,
    transformers: Transformers,
    instances: Arc<Instances>,
    /// For URLs that are not balanced.
    plain: ::reqwest::Client,
}

/// How a request goes out.
enum Route {
    /// To its own host.
    Plain,
    To(LoadBalancer),
}

impl Client {
    pub(super) fn new(
        balancers: LoadBalancers,
        make: impl Fn(&ServiceInstance) -> ::reqwest::ClientBuilder + Send + Sync + 'static,
    ) -> Result<Self, ::reqwest::Error> {
        let plain = ::reqwest::Client::builder().build()?;
        let instances = Instances::registered(&balancers, Arc::new(make));
        let transformers = Transformers::default();
        Ok(Self { inner: Arc::new(Inner { balancers, transformers, instances, plain }) })
    }

    /// The same client with one more transformer of requests that are balanced (default: none). Clones made before do not
    /// have it; connections are shared.
    #[must_use]
    pub fn with_transformer(&self, transformer: impl RequestTransformer) -> Self {
        let inner = &*self.inner;
        Self {
            inner: Arc::new(Inner {
                balancers: inner.balancers.clone(),
                transformers: inner.transformers.with(Arc::new(transformer)),
                instances: Arc::clone(&inner.instances),
                plain: inner.plain.clone(),
            }),
        }
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

    /// Sends a finished request. The response's extensions hold a [`Via`] that names the instance.
    ///
    /// # Errors
    /// [`Error`], which names service and instances.
    pub async fn execute(&self, request: ::reqwest::Request) -> Result<Response, Error> {
        self.execute_with(request, &Extras::default()).await
    }

    pub(super) async fn execute_with(
        &self,
        request: ::reqwest::Request,
        extras: &Extras,
    ) -> Result<Response, Error> {
        match self.route(request.url())? {
            Route::Plain => self.inner.plain.execute(request).await.map_err(Error::plain),
            Route::To(balancer) => self.balanced(&balancer, request, extras).await,
        }
    }

    /// The balancers behind this client.
    pub fn balancers(&self) -> &LoadBalancers {
        &self.inner.balancers
    }

    fn route(&self, url: &Url) -> Result<Route, Error> {
        let host = url.host_str().unwrap_or_default();
        if url.scheme() == "lb" && host.is_empty() {
            return Err(Error::url(url.as_str(), "it names no host"));
        }
        match balancer_of(&self.inner.balancers, url.scheme(), host, url.port().is_some()) {
            Ok(Some(balancer)) => Ok(Route::To(balancer)),
            Ok(None) => Ok(Route::Plain),
            Err(error) => Err(Error::refused(url, error)),
        }
    }

    async fn balanced(
        &self,
        balancer: &LoadBalancer,
        request: ::reqwest::Request,
        extras: &Extras,
    ) -> Result<Response, Error> {
        let original = request.url().as_str().to_owned();
        let scheme = request.url().scheme().to_owned();
        let (method, headers) = (request.method().clone(), request.headers().clone());
        let view = View { http: HttpView::with_text(&method, &original, &headers), extras };
        let wanted = Request::of(&view);
        let wanted = match &extras.hint {
            Some(hint) => wanted.with_hint(hint),
            None => wanted,
        };
        let calls = balancer.calls();
        let limit = request.timeout().copied();
        // Kept for the next attempt; a body that is a stream cannot be.
        let mut spare = Some(request);
        // From the first attempt on: the wait for a list has its own limit.
        let ends = OnceLock::new();
        let send = |choice: &Choice, attempt: u32| {
            let request = spare.take()?;
            spare = request.try_clone();
            let end = *ends.get_or_init(|| limit.and_then(|limit| Instant::now().checked_add(limit)));
            let request = if attempt == 1 { request } else { within(request, end)? };
            let instance = choice.instance();
            let prepared = choice
                .target(Some(&scheme))
                .map_err(Attempt::Target)
                .and_then(|target| {
                    let url = target.rewrite(&original);
                    let mut request = request;
                    let outgoing = Outgoing::new(&method, &original, url, request.headers_mut());
                    let url = self.inner.transformers.apply(&calls, outgoing, &instance);
                    aim(request, url)
                })
                .and_then(|request| {
                    let client = self.inner.instances.client(balancer, choice.state(), &instance);
                    client.map(|client| (client, request)).map_err(Attempt::Reqwest)
                });
            Some(async move {
                let (client, request) = prepared?;
                redirect::watch(client.execute(request)).await.map_err(|(error, redirected)| match error {
                    error if redirected => Attempt::Redirected(error),
                    error => Attempt::Reqwest(error),
                })
            })
        };
        let answered = call_with(balancer, &wanted, &Http(&ends), send).await.map_err(Error::call)?;
        let via = Via::new(answered.instance, answered.attempts);
        Ok(lease::hold(answered.response, answered.lease, Some(via)))
    }
}

/// What reqwest's responses and errors mean, and when the time of the call is up.
struct Http<'a>(&'a OnceLock<Option<Instant>>);

impl Protocol<Response, Attempt> for Http<'_> {
    fn outcome(&self, result: Result<&Response, &Attempt>) -> Outcome {
        match result {
            Ok(response) => outcome_of(response.status(), response.headers()),
            // Nothing was sent, and the instance has no part in it.
            Err(Attempt::Target(_) | Attempt::Url(..)) => Outcome::Cancelled,
            Err(Attempt::Reqwest(error)) if error.is_builder() => Outcome::Cancelled,
            Err(Attempt::Reqwest(error)) => Outcome::Failure(failure_of(error)),
            // The instance answered, and the call may have had its effect: only what is safe may be repeated.
            Err(Attempt::Redirected(error)) => Outcome::Failure(match failure_of(error) {
                Failure::Connect => Failure::Reset,
                failure => failure,
            }),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.get().copied().flatten()
    }

    fn headers(&self, response: &Response) -> HeaderMap {
        response.headers().clone()
    }
}

/// The limit of a call holds for all attempts together; `None` when nothing is left of it.
fn within(mut request: ::reqwest::Request, end: Option<Instant>) -> Option<::reqwest::Request> {
    if let (Some(limit), Some(end)) = (request.timeout_mut(), end) {
        *limit = Some(end.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())?;
    }
    Some(request)
}

/// Points the request at its URL.
fn aim(mut request: ::reqwest::Request, url: String) -> Result<::reqwest::Request, Attempt> {
    *request.url_mut() = Url::parse(&url).map_err(|error| Attempt::Url(url, error.to_string()))?;
    Ok(request)
}

/// What can go wrong in one attempt.
#[derive(Debug)]
pub(super) enum Attempt {
    Reqwest(::reqwest::Error),
    /// What happened on the way to which the instance redirected.
    Redirected(::reqwest::Error),
    Target(crate::TargetError),
    Url(String, String),
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reqwest(error) | Self::Redirected(error) => error.fmt(f),
            Self::Target(error) => error.fmt(f),
            Self::Url(url, why) => write!(f, "{url:?} is no URL: {why}"),
        }
    }
}

impl std::error::Error for Attempt {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // The text is reqwest's own; its cause is the next one.
            Self::Reqwest(error) | Self::Redirected(error) => error.source(),
            Self::Target(_) | Self::Url(..) => None,
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("balancers", &self.inner.balancers).finish_non_exhaustive()
    }
}
