use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http_body::Body;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::connect::Connector;
use super::options::CallOptions;
use super::{BoxError, HyperClient};
use crate::client::RequestTransformer;
use crate::client::transform::Transformers;
use crate::{LoadBalancers, ServiceInstance};

/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(30);
/// How often a connection of HTTP/2 is tested while calls wait on it, and how long it may take to answer.
const PING: Duration = Duration::from_secs(20);
const PONG: Duration = Duration::from_secs(10);

type PerInstance<C> = Arc<dyn Fn(&ServiceInstance, &C) -> C + Send + Sync>;

/// Settings of a [`HyperClient`]; made by [`LoadBalancers::hyper_builder`].
pub struct HyperBuilder<C> {
    balancers: LoadBalancers,
    settings: Settings<C>,
}

/// What holds for every call of a client.
pub(super) struct Settings<C> {
    pub(super) connector: C,
    pub(super) http: legacy::Builder,
    pub(super) transformers: Transformers,
    pub(super) via: bool,
    pub(super) buffer: usize,
    timeout: Option<Duration>,
    per_instance: Option<PerInstance<C>>,
}

impl<C: Clone> Settings<C> {
    pub(super) fn connector_of(&self, instance: &ServiceInstance) -> C {
        match &self.per_instance {
            Some(make) => make(instance, &self.connector),
            None => self.connector.clone(),
        }
    }

    pub(super) fn timeout_of(&self, options: Option<&CallOptions>) -> Option<Duration> {
        options.and_then(|options| options.timeout).or(self.timeout)
    }
}

impl HyperBuilder<HttpConnector> {
    pub(super) fn new(balancers: LoadBalancers) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        // A connector without TLS refuses other schemes by itself; one that wraps it decides.
        let mut http = legacy::Client::builder(TokioExecutor::new());
        http.timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .http2_keep_alive_interval(PING)
            .http2_keep_alive_timeout(PONG);
        let settings = Settings {
            connector,
            http,
            transformers: Transformers::default(),
            via: true,
            buffer: 0,
            timeout: None,
            per_instance: None,
        };
        Self { balancers, settings }
    }
}

impl<C> HyperBuilder<C> {
    /// Sets what makes connections, such as a connector for TLS (default: TCP, without delay of small packets).
    ///
    /// It gets the URI at the instance. A connection that is not made within the property `connect-timeout` of the service,
    /// TLS included, was never sent.
    #[must_use]
    pub fn connector<D>(self, connector: D) -> HyperBuilder<D> {
        let Settings { http, transformers, via, buffer, timeout, .. } = self.settings;
        let settings = Settings { connector, http, transformers, via, buffer, timeout, per_instance: None };
        HyperBuilder { balancers: self.balancers, settings }
    }

    /// Sets how the connector of an instance is made of the one for all (default: a clone of it): a name by which its
    /// certificate is verified, for instance. Asked once for each instance.
    #[must_use]
    pub fn connector_for(mut self, make: impl Fn(&ServiceInstance, &C) -> C + Send + Sync + 'static) -> Self {
        self.settings.per_instance = Some(Arc::new(make));
        self
    }

    /// Speaks HTTP/2 from the first byte, without TLS too (default: off). With TLS a connector that negotiates does not need
    /// it.
    #[must_use]
    pub fn http2_only(self, yes: bool) -> Self {
        self.http(|http| {
            http.http2_only(yes);
        })
    }

    /// Sets how long a connection is kept that nobody uses (default: 30 s). Those of an instance that left the list close
    /// with the next call of its service, or after this time.
    #[must_use]
    pub fn pool_idle_timeout(self, limit: Duration) -> Self {
        self.http(|http| {
            http.pool_idle_timeout(limit);
        })
    }

    /// Changes everything else that hyper's client has to set.
    #[must_use]
    pub fn http(mut self, change: impl FnOnce(&mut legacy::Builder)) -> Self {
        change(&mut self.settings.http);
        self
    }

    /// Sets the limit of a call, from its first attempt to the head of the response, all attempts together (default: none);
    /// [`CallOptions::with_timeout`] sets that of one call. The wait for a list before has its own, `choose-timeout`.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.settings.timeout = Some(limit);
        self
    }

    /// Sets up to how many bytes of a request's body are kept while it is sent, so that it can be sent again (default: 0).
    ///
    /// What nobody read goes to another instance in any case. A body that is longer is a stream: nothing of it is kept, and
    /// its call is not repeated once some of it was read.
    #[must_use]
    pub fn buffer(mut self, bytes: usize) -> Self {
        self.settings.buffer = bytes;
        self
    }

    /// Sets whether a response's extensions hold a [`Via`](crate::client::Via) that names the instance (default: yes; it
    /// costs four small allocations).
    #[must_use]
    pub fn via(mut self, yes: bool) -> Self {
        self.settings.via = yes;
        self
    }

    /// Adds a transformer of requests that are balanced (default: none).
    #[must_use]
    pub fn transformer(mut self, transformer: impl RequestTransformer) -> Self {
        self.settings.transformers = self.settings.transformers.with(Arc::new(transformer));
        self
    }

    /// The client, for requests with bodies of `B`. Connections are made at the first calls.
    pub fn build<B>(self) -> HyperClient<B, C>
    where
        B: Body + Send + Unpin + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
        C: Connector,
    {
        HyperClient::new(self.balancers, self.settings)
    }
}

impl<C> fmt::Debug for HyperBuilder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HyperBuilder")
            .field("balancers", &self.balancers)
            .field("http", &self.settings.http)
            .field("timeout", &self.settings.timeout)
            .field("buffer", &self.settings.buffer)
            .finish_non_exhaustive()
    }
}
