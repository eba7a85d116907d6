use std::sync::Arc;

use ::reqwest::{Request, Response, Url};
use async_trait::async_trait;
use http::Extensions;
use reqwest_middleware::{Middleware, Next, Result};

use super::balancer_of;
use super::error::{Error, Unsupported};
use super::retry::outcome;
use crate::balancer::CallSettings;
use crate::client::reqwest::lease;
use crate::client::reqwest::options::{CallOptions, View};
use crate::client::tls_name::tls_name;
use crate::client::transform::Transformers;
use crate::client::{Outgoing, RequestTransformer, Via};
use crate::request::Propagated;
use crate::{HttpView, InstanceState, LoadBalancer, LoadBalancers, Outcome, Target, Tried};

/// Sends each request that names a service to one of its instances; see the [module](super).
#[derive(Clone, Debug)]
pub struct Balance {
    balancers: LoadBalancers,
    transformers: Transformers,
    limits_of_client: bool,
}

/// The instance that the middleware outside has chosen, and holds the lease of.
#[derive(Clone)]
pub(super) struct Chosen(pub(super) Arc<InstanceState>);

/// What a request went through so far, if a middleware that knows nothing of it makes the attempts.
#[derive(Clone, Default)]
struct Attempts {
    tried: Tried,
    made: u32,
}

impl Balance {
    /// Over these balancers.
    pub fn new(balancers: &LoadBalancers) -> Self {
        let balancers = balancers.clone();
        Self { balancers, transformers: Transformers::default(), limits_of_client: false }
    }

    /// One more transformer of requests that are balanced (default: none).
    #[must_use]
    pub fn with_transformer(self, transformer: impl RequestTransformer) -> Self {
        let transformers = self.transformers.with(Arc::new(transformer));
        Self { transformers, ..self }
    }

    /// The client was built with limits of its own: those of the properties are not held against it (default: a
    /// `connect-timeout` or `read-timeout` that is set is an [`Unsupported`]).
    #[must_use]
    pub fn with_limits_of_client(self) -> Self {
        Self { limits_of_client: true, ..self }
    }

    /// Points the request at the instance.
    fn aim(
        &self,
        request: &mut Request,
        balancer: &LoadBalancer,
        state: &InstanceState,
    ) -> std::result::Result<(), Error> {
        let (calls, instance) = (balancer.calls(), state.instance());
        let logical = request.url().clone();
        let target = Target::of(&instance, Some(logical.scheme()), state.service().allow_downgrade());
        let target = target.map_err(Error::target)?;
        if target.scheme() == "https"
            && let Some((_, name)) = tls_name(&instance, calls.tls_name.as_deref()).map_err(Error::name)?
        {
            let (service, name) = (balancer.service_id().clone(), name.into_owned());
            return Err(Error::unsupported(Unsupported::TlsName {
                service,
                instance: instance.clone(),
                name,
            }));
        }
        self.check(balancer, &calls)?;
        let method = request.method().clone();
        let at = target.rewrite(logical.as_str());
        let outgoing = Outgoing::new(&method, logical.as_str(), at, request.headers_mut());
        let at = self.transformers.apply(&calls, outgoing, &instance);
        match Url::parse(&at) {
            Ok(url) => *request.url_mut() = url,
            Err(error) => return Err(Error::url(at, error)),
        }
        Ok(())
    }

    /// Whether a finished client can do what the properties ask.
    fn check(&self, balancer: &LoadBalancer, calls: &CallSettings) -> std::result::Result<(), Error> {
        if self.limits_of_client {
            return Ok(());
        }
        let service = || balancer.service_id().clone();
        match (calls.connect_timeout, calls.read_timeout) {
            (Some(limit), _) => Err(Error::unsupported(Unsupported::ConnectTimeout(service(), limit))),
            (None, Some(limit)) => Err(Error::unsupported(Unsupported::ReadTimeout(service(), limit))),
            (None, None) => Ok(()),
        }
    }

    /// An attempt with a choice of its own.
    async fn choose_and_run(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
        balancer: &LoadBalancer,
    ) -> Result<Response> {
        let options = extensions.get::<CallOptions>().cloned().unwrap_or_default();
        let mut attempts = extensions.remove::<Attempts>().unwrap_or_default();
        // Before an instance is chosen, since the chain goes by it.
        Propagated::current().add_to(request.headers_mut());
        let choice = {
            let http = HttpView::with_text(request.method(), request.url().as_str(), request.headers());
            let view = View { http, options: &options };
            let wanted = view.request().with_tried(&attempts.tried);
            balancer.choose(&wanted).await.map_err(Error::choose)?
        };
        self.aim(&mut request, balancer, choice.state())?;
        attempts.tried.add(&choice);
        attempts.made = attempts.made.saturating_add(1);
        let made = attempts.made;
        extensions.insert(attempts);
        let result = next.run(request, extensions).await;
        match result {
            Ok(response) => {
                let via = Via::new(choice.instance(), made);
                let mut lease = crate::Lease::from(choice);
                lease.hear(response.headers());
                Ok(lease::hold(response, lease, Some(via)))
            }
            Err(error) => {
                match outcome(Err(&error)) {
                    Outcome::Cancelled => drop(choice),
                    outcome => choice.complete(outcome),
                }
                Err(error)
            }
        }
    }
}

#[async_trait]
impl Middleware for Balance {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let Some(balancer) = balancer_of(&self.balancers, &request)? else {
            return next.run(request, extensions).await;
        };
        match extensions.remove::<Chosen>() {
            Some(Chosen(state)) => {
                self.aim(&mut request, &balancer, &state)?;
                next.run(request, extensions).await
            }
            None => self.choose_and_run(request, extensions, next, &balancer).await,
        }
    }
}
