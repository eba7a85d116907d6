use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::HOST;
use http::request::Parts;
use http::uri::{Authority, Scheme};
use http::{Uri, Version};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use tower_service::Service;

use super::aim::{aim, service_of};
use super::builder::{HyperBuilder, Settings};
use super::connect::{Bounded, Connector};
use super::error::{Attempt, Error, failure_of};
use super::options::View;
use super::protocol::Http;
use super::{BoxError, Returning};
use crate::balancer::CallSettings;
use crate::call::call_with;
use crate::choice::outcome_of;
use crate::client::pool::Pools;
use crate::client::returning::Home;
use crate::client::{Outgoing, Via};
use crate::config::HostHeader;
use crate::{BoxFuture, Choice, LoadBalancer, LoadBalancers, TrackedBody};

/// A client of hyper, HTTP/1.1 and HTTP/2, that sends requests to the instances of services; see the
/// [module](super). Cheap to clone, and a [`tower_service::Service`].
///
/// `B` is the body of requests, and `C` makes connections.
pub struct HyperClient<B, C = HttpConnector> {
    inner: Arc<Inner<B, C>>,
}

type Wire<B, C> = legacy::Client<Bounded<C>, Returning<B>>;

struct Inner<B, C> {
    balancers: LoadBalancers,
    settings: Settings<C>,
    pools: Pools<Arc<Wire<B, C>>>,
    /// For URIs that are not balanced.
    plain: Wire<B, C>,
}

impl LoadBalancers {
    /// A client of hyper over these balancers, over TCP without TLS; [`hyper_builder`](Self::hyper_builder) has more to
    /// set. The body of requests is any type that is told by its use.
    ///
    /// ```no_run
    /// # async fn example(balancers: evenkeel::LoadBalancers) -> Result<(), Box<dyn std::error::Error>> {
    /// use http_body_util::{BodyExt, Empty};
    ///
    /// let http = balancers.hyper();
    /// let request = http::Request::get("lb://orders/api/42").body(Empty::<&[u8]>::new())?;
    /// let text = http.request(request).await?.into_body().collect().await?.to_bytes();
    /// # Ok(()) }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "tower")))]
    pub fn hyper<B>(&self) -> HyperClient<B>
    where
        B: Body + Send + Unpin + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        self.hyper_builder().build()
    }

    /// Starts such a client with settings of its own: connectors such as those for TLS, HTTP/2, a time-out, bodies that can
    /// be sent again.
    #[cfg_attr(docsrs, doc(cfg(feature = "tower")))]
    pub fn hyper_builder(&self) -> HyperBuilder<HttpConnector> {
        HyperBuilder::new(self.clone())
    }
}

impl<B, C> HyperClient<B, C>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
    C: Connector,
{
    pub(super) fn new(balancers: LoadBalancers, settings: Settings<C>) -> Self {
        let plain = settings.http.build(Bounded::new(settings.connector.clone(), None));
        Self { inner: Arc::new(Inner { balancers, settings, pools: Pools::default(), plain }) }
    }

    /// Sends a request. Unless that is switched off, the response's extensions hold a [`Via`] that names the instance.
    ///
    /// # Errors
    /// [`Error`], which names service and instances.
    pub fn request(
        &self,
        request: http::Request<B>,
    ) -> impl Future<Output = Result<http::Response<TrackedBody<Incoming>>, Error>> + Send {
        // The future of an `async fn` has room for each argument twice, and is moved.
        let (parts, body) = request.into_parts();
        async move {
            match service_of(&self.inner.balancers, &parts.uri, LoadBalancer::clone)? {
                Some(balancer) => self.balanced(&balancer, &parts, body).await,
                None => self.plain(parts, body).await,
            }
        }
    }

    /// The balancers behind this client.
    pub fn balancers(&self) -> &LoadBalancers {
        &self.inner.balancers
    }

    async fn plain(&self, mut parts: Parts, body: B) -> Result<http::Response<TrackedBody<Incoming>>, Error> {
        parts.version = on_the_wire(parts.version);
        let body = Returning::once(body);
        let protocol = Http::new(self.inner.settings.timeout_of(View::of(&parts).options()));
        let sent = self.inner.plain.request(http::Request::from_parts(parts, body));
        let sent = async { sent.await.map_err(|error| Attempt::Inner(error.into())) };
        match Http::within(protocol.begin(), sent).await {
            Ok(response) => Ok(response.map(TrackedBody::untracked)),
            Err(Attempt::Inner(error)) => Err(Error::plain(error)),
            Err(late) => Err(Error::plain(late)),
        }
    }

    async fn balanced(
        &self,
        balancer: &LoadBalancer,
        parts: &Parts,
        body: B,
    ) -> Result<http::Response<TrackedBody<Incoming>>, Error> {
        let settings = &self.inner.settings;
        let home = Home::new(body, settings.buffer);
        let view = View::of(parts);
        let calls = balancer.calls();
        let protocol = Http::new(settings.timeout_of(view.options()));
        let send = |choice: &Choice, _attempt: u32| {
            let body = home.take()?;
            let end = protocol.begin();
            let prepared = self
                .prepare(parts, choice, &calls)
                .map(|request| (self.client(balancer, choice), request.map(|()| body)));
            Some(Http::within(end, async move {
                let (client, request) = prepared?;
                client.request(request).await.map_err(|error| Attempt::Inner(error.into()))
            }))
        };
        let answered = call_with(balancer, &view.request(), &protocol, send).await.map_err(Error::call)?;
        let mut response = answered.response;
        if settings.via {
            response.extensions_mut().insert(Via::new(answered.instance, answered.attempts));
        }
        let mut lease = answered.lease;
        lease.hear(response.headers());
        let outcome = outcome_of(response.status(), response.headers());
        Ok(response.map(|body| TrackedBody::new(body, lease, outcome, |error| failure_of(error))))
    }

    /// The request of one attempt, without its body.
    fn prepare(
        &self,
        parts: &Parts,
        choice: &Choice,
        calls: &CallSettings,
    ) -> Result<http::Request<()>, Attempt> {
        let mut uri = aim(parts.uri.clone(), choice.state())?;
        let mut headers = parts.headers.clone();
        let transformers = &self.inner.settings.transformers;
        if transformers.have_work(calls) {
            let logical = parts.uri.to_string();
            let outgoing = Outgoing::new(&parts.method, &logical, uri.to_string(), &mut headers);
            let url = transformers.apply(calls, outgoing, &choice.instance());
            uri = Uri::try_from(&url).map_err(|error| Attempt::Uri(format!("{url:?} is no URI: {error}")))?;
            let named = calls.host_header == HostHeader::Service && !parts.headers.contains_key(HOST);
            if named && uri.authority() == choice.state().authority() {
                // As the URI's, so that it is `:authority` in HTTP/2; the connector knows where the instance is.
                headers.remove(HOST);
                uri = with_host(uri, &parts.uri)?;
            }
        }
        let mut request = http::Request::new(());
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() = dialled(uri)?;
        *request.version_mut() = on_the_wire(parts.version);
        *request.headers_mut() = headers;
        *request.extensions_mut() = parts.extensions.clone();
        Ok(request)
    }

    /// The client of an instance; made at its first call.
    fn client(&self, balancer: &LoadBalancer, choice: &Choice) -> Arc<Wire<B, C>> {
        let Inner { balancers, settings, pools, .. } = &*self.inner;
        let made = pools.client(balancers, balancer, choice.state(), |limit| {
            let connector = Bounded::new(settings.connector_of(&choice.instance()), Some(limit));
            let connector = connector.standing_for(balancer.service_id(), choice.state().authority());
            Ok::<_, Infallible>(Arc::new(settings.http.build(connector)))
        });
        match made {
            Ok(client) => client,
            Err(never) => match never {},
        }
    }
}

impl<B, C> Service<http::Request<B>> for HyperClient<B, C>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
    C: Connector,
{
    type Response = http::Response<TrackedBody<Incoming>>;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Self::Response, Error>>;

    /// Always ready: an instance is chosen, and a connection taken, when there is a request.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let client = self.clone();
        Box::pin(async move { client.request(request).await })
    }
}

/// A connection of HTTP/1.1 refuses a request that says it is one of HTTP/2, as one that was received may; which of the two
/// it becomes is told by the connection.
fn on_the_wire(version: Version) -> Version {
    if version == Version::HTTP_10 { version } else { Version::HTTP_11 }
}

/// The URI with the host and the port of the other one.
fn with_host(uri: Uri, other: &Uri) -> Result<Uri, Attempt> {
    let address = |of: &Authority| of.as_str().rsplit('@').next().and_then(|address| address.parse().ok());
    let mut parts = uri.into_parts();
    parts.authority = other.authority().and_then(address);
    Uri::from_parts(parts).map_err(|error| Attempt::Uri(error.to_string()))
}

/// A websocket begins as a request by `http`, which is what connectors know.
fn dialled(uri: Uri) -> Result<Uri, Attempt> {
    let scheme = match uri.scheme_str() {
        Some("ws") => Scheme::HTTP,
        Some("wss") => Scheme::HTTPS,
        _ => return Ok(uri),
    };
    let mut parts = uri.into_parts();
    parts.scheme = Some(scheme);
    Uri::from_parts(parts).map_err(|error| Attempt::Uri(error.to_string()))
}

impl<B, C> Clone for HyperClient<B, C> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<B, C> fmt::Debug for HyperClient<B, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HyperClient").field("balancers", &self.inner.balancers).finish_non_exhaustive()
    }
}
