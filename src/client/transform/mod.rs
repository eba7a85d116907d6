//! Changes to a request on its way to an instance.

mod cookie;
mod forwarded;
mod host;

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, Method};

#[cfg(feature = "tower")]
use crate::LoadBalancer;
use crate::ServiceInstance;
use crate::balancer::CallSettings;
use crate::config::HostHeader;
use crate::request::Propagated;

/// Changes each attempt of a call after its URL was pointed at the instance: Spring's `LoadBalancerRequestTransformer`.
///
/// Several run by their [`order`](Self::order), lowest first, those of one order as they were added; each sees what those
/// before it did. Built-in ones run first: the headers that are [handed on](crate::client::Propagated), those of `x-forwarded`,
/// `host-header`, and the cookie of `sticky-session`.
///
/// ```
/// use evenkeel::ServiceInstance;
/// use evenkeel::client::{Outgoing, RequestTransformer};
/// use http::HeaderValue;
///
/// /// Tells the instance its own name.
/// #[derive(Debug)]
/// struct Named;
///
/// impl RequestTransformer for Named {
///     fn transform(&self, request: &mut Outgoing<'_>, instance: &ServiceInstance) {
///         if let Ok(id) = HeaderValue::from_str(instance.id()) {
///             request.headers_mut().insert("x-instance", id);
///         }
///     }
/// }
/// ```
pub trait RequestTransformer: Send + Sync + fmt::Debug + 'static {
    /// Where it stands among several; lowest first (default 0).
    fn order(&self) -> i32 {
        0
    }

    /// Changes the request that is about to be sent to `instance`.
    fn transform(&self, request: &mut Outgoing<'_>, instance: &ServiceInstance);
}

/// A request on its way to an instance, as far as a [`RequestTransformer`] may see and change it.
#[derive(Debug)]
pub struct Outgoing<'a> {
    method: &'a Method,
    logical: &'a str,
    url: String,
    headers: &'a mut HeaderMap,
}

impl<'a> Outgoing<'a> {
    /// A request by its parts: `logical` is the URL that the caller wrote, `url` the one at the instance.
    pub fn new(
        method: &'a Method,
        logical: &'a str,
        url: impl Into<String>,
        headers: &'a mut HeaderMap,
    ) -> Self {
        Self { method, logical, url: url.into(), headers }
    }

    /// The method.
    pub fn method(&self) -> &Method {
        self.method
    }

    /// The URL that the caller wrote, with the name of the service.
    pub fn logical_url(&self) -> &str {
        self.logical
    }

    /// The URL at the instance.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sends the request to another URL.
    pub fn set_url(&mut self, url: impl Into<String>) {
        self.url = url.into();
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        self.headers
    }

    /// The headers, to change them.
    pub fn headers_mut(&mut self) -> &mut HeaderMap {
        self.headers
    }
}

/// The transformers of a client, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transformers(Arc<[Arc<dyn RequestTransformer>]>);

impl Transformers {
    pub(crate) fn with(&self, transformer: Arc<dyn RequestTransformer>) -> Self {
        let mut all: Vec<_> = self.0.iter().cloned().chain([transformer]).collect();
        all.sort_by_key(|one| one.order());
        Self(all.into())
    }

    /// What is to be changed in the calls of this balancer; `None`: nothing, so that nobody writes URLs as text for it.
    #[cfg(feature = "tower")]
    pub(crate) fn work(&self, balancer: &LoadBalancer) -> Option<Arc<CallSettings>> {
        balancer.calls_that_shape(self.have_work_anyway())
    }

    /// Whether there is anything to change.
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    pub(crate) fn have_work(&self, calls: &CallSettings) -> bool {
        calls.shape_requests() || self.have_work_anyway()
    }

    /// Whatever the settings of the service say.
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    fn have_work_anyway(&self) -> bool {
        !self.0.is_empty() || !Propagated::current().is_empty()
    }

    /// What the properties of a service ask for, then those of the client. The URL to send to.
    pub(crate) fn apply(
        &self,
        calls: &CallSettings,
        mut request: Outgoing<'_>,
        instance: &ServiceInstance,
    ) -> String {
        Propagated::current().add_to(request.headers);
        forwarded::add(&calls.x_forwarded, &mut request);
        if calls.host_header == HostHeader::Service {
            host::name_service(&mut request);
        }
        if let Some(cookie) = &calls.instance_cookie {
            cookie::write(cookie, &mut request, instance);
        }
        for transformer in &*self.0 {
            transformer.transform(&mut request, instance);
        }
        request.url
    }
}
