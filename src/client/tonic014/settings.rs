//! How the connections to an instance are made.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use tonic::transport::Endpoint;
use tonic::{Code, transport};

use super::fault::{Fault, Kind};
use crate::{ServiceId, ServiceInstance, Target};

/// How long nothing may come over a connection until it is asked whether it is still there. The servers of gRPC's own
/// libraries close connections that ask more often than every five minutes, and with them streams that are only silent.
pub(super) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(310);

/// How long the answer may take; gRPC's own default.
pub(super) const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// How much of a request is kept until its answer comes, so that it can be sent again; as much as gRPC's C core keeps.
pub(super) const REPLAY_LIMIT: usize = 256 * 1024;

/// What the pseudo-header `:authority` of a call says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Authority {
    /// The name of the service, as gRPC has it: it is the same for all instances, so that one that serves several names, and
    /// a proxy before it, can tell them apart. The default. A name that is no host, as one with an underscore, is not used.
    #[default]
    Service,
    /// Host and port of the instance, as tonic's own channel has it.
    Instance,
}

type Change = dyn Fn(&ServiceInstance, Endpoint) -> Result<Endpoint, transport::Error> + Send + Sync;
type Idempotent = dyn Fn(&str) -> bool + Send + Sync;

#[derive(Clone)]
pub(super) struct Settings {
    pub(super) change: Option<Arc<Change>>,
    pub(super) authority: Authority,
    pub(super) keep_alive: Option<(Duration, Duration)>,
    /// In place of the property.
    pub(super) connect_timeout: Option<Duration>,
    pub(super) channels: usize,
    pub(super) replay_limit: usize,
    pub(super) retry: Option<Retry>,
}

/// What is repeated although the server may have worked on it.
#[derive(Clone)]
pub(super) struct Retry {
    pub(super) codes: Arc<[Code]>,
    pub(super) idempotent: Arc<Idempotent>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            change: None,
            authority: Authority::default(),
            keep_alive: Some((KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT)),
            connect_timeout: None,
            channels: 1,
            replay_limit: REPLAY_LIMIT,
            retry: None,
        }
    }
}

impl Settings {
    /// The endpoint of an instance.
    pub(super) fn endpoint(
        &self,
        service: &ServiceId,
        instance: &ServiceInstance,
    ) -> Result<Endpoint, Fault> {
        let mut endpoint = endpoint_of(instance)?;
        if self.authority == Authority::Service
            && let Some(origin) = origin(endpoint.uri(), service.as_str())
        {
            endpoint = endpoint.origin(origin);
        }
        if let Some((interval, timeout)) = self.keep_alive {
            endpoint = endpoint
                .http2_keep_alive_interval(interval)
                .keep_alive_timeout(timeout)
                .keep_alive_while_idle(true);
        }
        match &self.change {
            Some(change) => {
                change(instance, endpoint).map_err(|error| unfit(instance, &Fault::of(error).text))
            }
            None => Ok(endpoint),
        }
    }
}

/// The address of an instance: `https` if it says that it is secure.
pub(super) fn endpoint_of(instance: &ServiceInstance) -> Result<Endpoint, Fault> {
    let target = Target::of(instance, None, true).map_err(|error| unfit(instance, &error.to_string()))?;
    let scheme = if is_secure(&target) { "https" } else { "http" };
    let uri = Uri::builder().scheme(scheme).authority(target.authority()).path_and_query("/").build();
    uri.map(Endpoint::from).map_err(|error| unfit(instance, &error.to_string()))
}

fn is_secure(target: &Target) -> bool {
    matches!(target.scheme(), "https" | "wss" | "grpcs")
}

fn origin(address: &Uri, service: &str) -> Option<Uri> {
    // What hosts are made of, which a URI is more generous with.
    let is_host = service.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
    let scheme = address.scheme().cloned().filter(|_| is_host)?;
    Uri::builder().scheme(scheme).authority(service).path_and_query("/").build().ok()
}

fn unfit(instance: &ServiceInstance, why: &str) -> Fault {
    Fault::new(Kind::Unfit, Code::FailedPrecondition, format!("instance {instance} cannot be called: {why}"))
}

/// The name to which the certificate of an instance is held: its metadata `tls-name`, else the name of its service, else its
/// host. Instances are mostly listed by address, and certificates are mostly made out to names.
///
/// ```
/// use evenkeel::ServiceInstance;
/// use evenkeel::client::tonic014::tls_name;
///
/// let instance = ServiceInstance::builder("10.0.0.1").port(443).with_metadata("tls-name", "orders.test").build()?;
/// assert_eq!(tls_name(&instance), "orders.test");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn tls_name(instance: &ServiceInstance) -> String {
    let named = instance.metadata().get("tls-name").filter(|name| !name.is_empty());
    let service = || instance.service_id().map(ToString::to_string);
    named.map(ToString::to_string).or_else(service).unwrap_or_else(|| instance.host().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(secure: Option<bool>) -> ServiceInstance {
        let builder = ServiceInstance::builder("2001:db8::5").port(50_051);
        match secure {
            Some(secure) => builder.secure(secure).build().unwrap(),
            None => builder.build().unwrap(),
        }
    }

    #[test]
    fn an_instance_is_addressed_by_its_host_and_scheme() {
        for (secure, uri) in [
            (None, "http://[2001:db8::5]:50051/"),
            (Some(false), "http://[2001:db8::5]:50051/"),
            (Some(true), "https://[2001:db8::5]:50051/"),
        ] {
            assert_eq!(endpoint_of(&instance(secure)).unwrap().uri(), uri);
        }
    }

    #[test]
    fn the_authority_is_the_service_if_that_can_be_a_host() {
        let address = Uri::from_static("https://10.0.0.1:1/");
        assert_eq!(origin(&address, "orders").unwrap(), "https://orders/");
        assert_eq!(origin(&address, "Billing.Api-v2").unwrap(), "https://Billing.Api-v2/");
        assert_eq!(origin(&address, "my_orders"), None);
        assert_eq!(origin(&address, "me@host"), None);
    }

    #[test]
    fn a_certificate_is_held_to_a_name() {
        let instance = instance(Some(true));
        assert_eq!(tls_name(&instance), "2001:db8::5");
        let listed = instance.to_builder().service_id(ServiceId::new("orders").unwrap()).build().unwrap();
        assert_eq!(tls_name(&listed), "orders");
        let named = listed.to_builder().with_metadata("tls-name", "orders.test").build().unwrap();
        assert_eq!(tls_name(&named), "orders.test");
        let empty = listed.to_builder().with_metadata("tls-name", "").build().unwrap();
        assert_eq!(tls_name(&empty), "orders");
    }
}
