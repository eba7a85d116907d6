//! A layer for servers that hands headers of a request on to the calls that its handler makes.

use std::task::{Context, Poll};

use tokio::task::futures::TaskLocalFuture;
use tower_layer::Layer;
use tower_service::Service;

use crate::request::{Propagated, Propagation};

/// Puts chosen headers of each request into the scope of its handler: every balanced call that is made inside has them, by
/// whatever client of this crate, unless it has a header of the name itself.
///
/// Works with axum (`Router::layer`) and every other server of tower. The scope ends with the handler: what it spawns, and a
/// body that is streamed after it has answered, are outside ([`Propagated::scope`]). Calls to hosts that are not balanced have
/// nothing of it.
///
/// ```
/// use evenkeel::client::{Propagation, PropagationLayer};
/// use http::HeaderName;
///
/// // The hint, versions and the canary; and a header of one's own.
/// let layer = PropagationLayer::new(Propagation::default().with_header(HeaderName::from_static("x-tenant")));
/// let app: axum::Router = axum::Router::new().layer(layer);
/// ```
#[derive(Clone, Debug, Default)]
pub struct PropagationLayer {
    rules: Propagation,
}

impl PropagationLayer {
    /// A layer that goes by these rules; the default one by the default ones.
    pub fn new(rules: Propagation) -> Self {
        Self { rules }
    }
}

impl<S> Layer<S> for PropagationLayer {
    type Service = Propagating<S>;

    fn layer(&self, inner: S) -> Propagating<S> {
        Propagating { inner, rules: self.rules.clone() }
    }
}

/// The service that [`PropagationLayer`] makes.
#[derive(Clone, Debug)]
pub struct Propagating<S> {
    inner: S,
    rules: Propagation,
}

impl<S, B> Service<http::Request<B>> for Propagating<S>
where
    S: Service<http::Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = TaskLocalFuture<Propagated, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let propagated = self.rules.read(request.headers());
        let handler = propagated.clone().sync_scope(|| self.inner.call(request));
        propagated.scope(handler)
    }
}
