use std::fmt;
use std::future::Future;
use std::sync::Arc;

use http::{HeaderMap, Method};

use super::transform::Transformers;
use super::{Outgoing, RequestTransformer};
use crate::call::{Answered, CallError, call};
use crate::instance::UrlParts;
use crate::request::Propagated;
use crate::{
    BuildError, Choice, ChooseError, LoadBalancer, LoadBalancers, Outcome, Request, ServiceInstance, Target,
    TargetError,
};

/// Calls services by name with whatever sends the request: Spring's `LoadBalancerClient`.
///
/// ```
/// use evenkeel::client::LoadBalancerClient;
/// use evenkeel::{Failure, LoadBalancers, Outcome, Request, ServiceInstance};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let balancers = LoadBalancers::fixed([("orders", vec![ServiceInstance::new("10.0.0.1", 8080)?])])?;
/// let client = LoadBalancerClient::new(balancers);
/// let classify = |result: Result<&String, &std::io::Error>| match result {
///     Ok(_) => Outcome::Success,
///     Err(_) => Outcome::Failure(Failure::Other),
/// };
/// let answer = client
///     .execute("orders", &Request::EMPTY, classify, |attempt| {
///         let url = attempt.url("lb://orders/api/42?x=%20");
///         async move { url.map_err(std::io::Error::other) } // where a real one would send it
///     })
///     .await?;
/// assert_eq!(answer.response, "http://10.0.0.1:8080/api/42?x=%20");
/// answer.lease.complete(Outcome::Success);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct LoadBalancerClient {
    balancers: LoadBalancers,
    transformers: Transformers,
}

/// One attempt of a call by [`LoadBalancerClient::execute`].
pub struct Attempt<'a> {
    client: &'a LoadBalancerClient,
    balancer: &'a LoadBalancer,
    choice: &'a Choice,
    number: u32,
}

impl LoadBalancerClient {
    /// A client over these balancers.
    pub fn new(balancers: LoadBalancers) -> Self {
        Self { balancers, transformers: Transformers::default() }
    }

    /// One more transformer for [`Attempt::prepare`] (default: none).
    #[must_use]
    pub fn with_transformer(self, transformer: impl RequestTransformer) -> Self {
        let transformers = self.transformers.with(Arc::new(transformer));
        Self { transformers, ..self }
    }

    /// The balancers behind this client.
    pub fn balancers(&self) -> &LoadBalancers {
        &self.balancers
    }

    /// An instance of `service` for `request`.
    ///
    /// # Errors
    /// [`ClientError`]: the name is none, balancing is off, or there is nothing to choose.
    pub async fn choose(
        &self,
        service: impl AsRef<str>,
        request: &Request<'_>,
    ) -> Result<Choice, ClientError> {
        let propagated = Propagated::current();
        let over = propagated.over(*request);
        let with_propagated = request.with_view(&over);
        let request = if propagated.is_empty() { request } else { &with_propagated };
        Ok(self.balancers.get(service)?.choose(request).await?)
    }

    /// Sends a call to an instance of `service`, and again as its retry properties allow; see [`call`](crate::call::call()).
    /// `send` makes an attempt. Every attempt's instance, the response's status and the errors are known to retries and
    /// lifecycle processors by `classify`.
    ///
    /// # Errors
    /// [`CallError`], which names the instances that were tried.
    pub async fn execute<R, E, F>(
        &self,
        service: impl AsRef<str>,
        request: &Request<'_>,
        classify: impl Fn(Result<&R, &E>) -> Outcome,
        mut send: impl FnMut(Attempt<'_>) -> F,
    ) -> Result<Answered<R>, CallError<E>>
    where
        E: fmt::Display,
        F: Future<Output = Result<R, E>>,
    {
        let balancer = &self.balancers.get(service).map_err(CallError::refused)?;
        let send =
            |choice: &Choice, number: u32| Some(send(Attempt { client: self, balancer, choice, number }));
        call(balancer, request, classify, send).await
    }

    /// The URL of `original` on `instance`: scheme, host and port change; user info, path, query and fragment stay byte for
    /// byte. A port that the instance does not name is the scheme's own (443 for `https` and `wss`, 80 for the others).
    ///
    /// ```
    /// use evenkeel::client::LoadBalancerClient;
    /// use evenkeel::{LoadBalancers, ServiceInstance};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = LoadBalancerClient::new(LoadBalancers::fixed([("orders", Vec::new())])?);
    /// let instance = ServiceInstance::new("10.0.0.1", 8080)?;
    /// let url = client.reconstruct_uri(&instance, "http://me@orders/a%2Fb?c[]=%20d#top")?;
    /// assert_eq!(url, "http://me@10.0.0.1:8080/a%2Fb?c[]=%20d#top");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`TargetError`] when an `https` request would go in the clear, unless `allow-downgrade` is set for the service that
    /// the URL names.
    pub fn reconstruct_uri(&self, instance: &ServiceInstance, original: &str) -> Result<String, TargetError> {
        let UrlParts { scheme, authority, .. } = UrlParts::of(original);
        let address = authority.rsplit_once('@').map_or(authority, |(_, address)| address);
        let service = address.split_once(':').map_or(address, |(host, _)| host);
        let allow_downgrade = crate::ServiceId::new(service)
            .is_ok_and(|service| self.balancers.properties(&service).allow_downgrade);
        Ok(Target::of(instance, scheme, allow_downgrade)?.reconstruct(original))
    }
}

impl Attempt<'_> {
    /// The instance.
    pub fn instance(&self) -> ServiceInstance {
        self.choice.instance()
    }

    /// Counts the attempts of the call, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The URL at the instance of the `logical` one, by its scheme and path; see [`Target::rewrite`].
    ///
    /// # Errors
    /// [`TargetError`] when an `https` request would go in the clear.
    pub fn url(&self, logical: &str) -> Result<String, TargetError> {
        Ok(self.choice.target(UrlParts::of(logical).scheme)?.rewrite(logical))
    }

    /// The same, after all transformers: the headers that the properties of the service ask for, and those of
    /// [`LoadBalancerClient::with_transformer`].
    ///
    /// # Errors
    /// [`TargetError`] when an `https` request would go in the clear.
    pub fn prepare(
        &self,
        method: &Method,
        logical: &str,
        headers: &mut HeaderMap,
    ) -> Result<String, TargetError> {
        let url = self.url(logical)?;
        let outgoing = Outgoing::new(method, logical, url, headers);
        Ok(self.client.transformers.apply(&self.balancer.calls(), outgoing, &self.instance()))
    }
}

impl fmt::Debug for Attempt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("choice", self.choice)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// Why there is no instance for a call.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// The service has no balancer: its name is none, its chain cannot work, or balancing is off.
    Service(BuildError),
    /// There is nothing to choose.
    Choose(ChooseError),
}

impl From<BuildError> for ClientError {
    fn from(error: BuildError) -> Self {
        Self::Service(error)
    }
}

impl From<ChooseError> for ClientError {
    fn from(error: ChooseError) -> Self {
        Self::Choose(error)
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(error) => error.fmt(f),
            Self::Choose(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Service(error) => error.source(),
            Self::Choose(error) => error.source(),
        }
    }
}
