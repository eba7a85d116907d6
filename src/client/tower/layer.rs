use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use tower_layer::Layer;

use super::aim::service_of;
use super::error::Error;
use super::{Balance, BoxError};
use crate::client::RequestTransformer;
use crate::client::transform::Transformers;
use crate::{BuildError, Failure, LoadBalancer, LoadBalancers, ServiceId};

/// Which service a request goes to, where its URI does not say it.
type Names = Arc<dyn Fn(&Parts) -> Option<ServiceId> + Send + Sync>;

/// Which service a request goes to: that of a closure, else that of its URI.
#[derive(Clone)]
pub(super) struct Routes {
    pub(super) balancers: LoadBalancers,
    names: Option<Names>,
}

impl Routes {
    pub(super) fn new(balancers: LoadBalancers) -> Self {
        Self { balancers, names: None }
    }

    pub(super) fn name_by(&mut self, names: impl Fn(&Parts) -> Option<ServiceId> + Send + Sync + 'static) {
        self.names = Some(Arc::new(names));
    }

    /// What `with` makes of the balancer; `None`: the request is not balanced.
    pub(super) fn using<T>(
        &self,
        parts: &Parts,
        with: impl FnOnce(&LoadBalancer) -> T,
    ) -> Result<Option<T>, Error> {
        match self.names.as_ref().and_then(|names| names(parts)) {
            Some(service) => {
                let refused = |error: BuildError| Error::refused(&parts.uri, error);
                self.balancers.using(service.as_str(), with).map(Some).map_err(refused)
            }
            None => service_of(&self.balancers, &parts.uri, with),
        }
    }

    /// The balancer itself.
    pub(super) fn balancer(&self, parts: &Parts) -> Result<Option<LoadBalancer>, Error> {
        self.using(parts, LoadBalancer::clone)
    }
}

/// Balances the requests of the service below it; made by [`LoadBalancers::balance_layer`].
///
/// Per request it chooses an instance and replaces scheme and authority of the URI, and nothing else of it. The response's
/// body holds the lease of the instance. It makes one attempt: put a [`RetryLayer`](super::RetryLayer) above it.
#[derive(Clone)]
pub struct BalanceLayer {
    pub(super) settings: Arc<Settings>,
}

/// What holds for every call through a layer.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) routes: Routes,
    pub(super) transformers: Transformers,
    pub(super) via: bool,
    pub(super) failures: Option<fn(&BoxError) -> Failure>,
}

impl LoadBalancers {
    /// A layer that balances the requests of a service of HTTP, such as a client of hyper with layers of your own.
    ///
    /// ```no_run
    /// # fn example(balancers: evenkeel::LoadBalancers) {
    /// use http_body_util::Empty;
    /// use hyper_util::client::legacy::Client;
    /// use hyper_util::rt::TokioExecutor;
    /// use tower::ServiceBuilder;
    ///
    /// let hyper = Client::builder(TokioExecutor::new()).build_http();
    /// let service = ServiceBuilder::new()
    ///     .layer(balancers.retry_layer()) // by the retry properties of the service
    ///     .layer(balancers.balance_layer())
    ///     .service(hyper);
    /// # async fn call<S: tower::Service<http::Request<Empty<&'static [u8]>>>>(mut service: S) -> Result<(), S::Error> {
    /// service.call(http::Request::get("lb://orders/api/42").body(Empty::new()).unwrap()).await?;
    /// # Ok(()) }
    /// # drop(call(service)); }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "tower")))]
    pub fn balance_layer(&self) -> BalanceLayer {
        let routes = Routes::new(self.clone());
        let settings = Settings { routes, transformers: Transformers::default(), via: false, failures: None };
        BalanceLayer { settings: Arc::new(settings) }
    }
}

impl BalanceLayer {
    fn change(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }

    /// Sets which service a request goes to; for those of which it says `None`, the URI tells it, as it does by default.
    #[must_use]
    pub fn service_by(self, names: impl Fn(&Parts) -> Option<ServiceId> + Send + Sync + 'static) -> Self {
        self.change(|settings| settings.routes.name_by(names))
    }

    /// Sets whether a response's extensions hold a [`Via`](crate::client::Via) that names the instance (default: no, since
    /// it costs four allocations and this layer has none).
    #[must_use]
    pub fn via(self, yes: bool) -> Self {
        self.change(|settings| settings.via = yes)
    }

    /// Adds a transformer of requests that are balanced (default: none).
    #[must_use]
    pub fn transformer(self, transformer: impl RequestTransformer) -> Self {
        self.change(|settings| settings.transformers = settings.transformers.with(Arc::new(transformer)))
    }

    /// Sets what an error of the service below says of the instance (default: [`failure_of`](super::failure_of)), for
    /// services that do not give the errors of hyper, of the system, or of tower's time-out.
    #[must_use]
    pub fn failures(self, judge: fn(&BoxError) -> Failure) -> Self {
        self.change(|settings| settings.failures = Some(judge))
    }
}

impl<S> Layer<S> for BalanceLayer {
    type Service = Balance<S>;

    fn layer(&self, inner: S) -> Balance<S> {
        Balance::new(inner, Arc::clone(&self.settings))
    }
}

impl fmt::Debug for BalanceLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BalanceLayer")
            .field("balancers", &self.settings.routes.balancers)
            .field("via", &self.settings.via)
            .finish_non_exhaustive()
    }
}
