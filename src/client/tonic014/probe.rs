use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use http::uri::Scheme;
use parking_lot::Mutex;
use tonic::transport::{self, Channel, Endpoint};
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tower_service::Service;

use super::fault::{Fault, Kind};
use super::settings::endpoint_of;
use super::tls;
use crate::ServiceInstance;
use crate::health::{HealthProbe, ProbeError};

/// How many connections are kept; beyond that, the one that was not used for the longest is closed.
const MOST: usize = 1_024;

type Change = dyn Fn(&ServiceInstance, Endpoint) -> Result<Endpoint, transport::Error> + Send + Sync;

/// Alive is who says `SERVING` by the protocol `grpc.health.v1`.
///
/// `NOT_SERVING`, `SERVICE_UNKNOWN` and `UNKNOWN` are down, and so is `NOT_FOUND`, by which a server says that it does not
/// know the name. A server without the health service (`UNIMPLEMENTED`) is down too, since nobody can tell; with
/// [`with_unimplemented_as_up`](Self::with_unimplemented_as_up) it is up, as it does answer.
///
/// Each instance has a connection of its own for that, beside those of calls and never through a balancer. At most 1 024 are kept.
///
/// ```
/// use evenkeel::SupplierBuilder;
/// use evenkeel::client::tonic014::GrpcProbe;
/// use evenkeel::discovery::SimpleDiscovery;
/// use evenkeel::health::HealthCheck;
///
/// let check = HealthCheck::new(GrpcProbe::new().with_service("shop.Orders"));
/// let chain = SupplierBuilder::new("orders").with_discovery_client(SimpleDiscovery::new()).with_health_checks(check);
/// ```
#[derive(Clone)]
#[must_use]
pub struct GrpcProbe {
    service: String,
    unimplemented_is_up: bool,
    port: Option<u16>,
    change: Option<Arc<Change>>,
    channels: Arc<Channels>,
}

#[derive(Default)]
struct Channels {
    /// Counts uses.
    clock: AtomicU64,
    /// By address.
    kept: Mutex<HashMap<String, Kept>>,
}

struct Kept {
    /// The use at which it was made, so that who finds one dead does not throw away the next.
    made: u64,
    /// The last use.
    used: u64,
    channel: Channel,
}

impl GrpcProbe {
    /// Asks for the server as a whole.
    pub fn new() -> Self {
        Self {
            service: String::new(),
            unimplemented_is_up: false,
            port: None,
            change: None,
            channels: Arc::default(),
        }
    }

    /// Asks for this service, as `shop.Orders` (default: the empty name, which stands for the server).
    pub fn with_service(mut self, service: impl Into<String>) -> Self {
        self.service = service.into();
        self
    }

    /// A server that does not have the health service counts as up (default: down).
    pub fn with_unimplemented_as_up(mut self) -> Self {
        self.unimplemented_is_up = true;
        self
    }

    /// Asks this port instead of the instance's own.
    pub fn with_port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Changes the [`Endpoint`] of an instance, for its TLS; see
    /// [`BalancedChannel::endpoint`](super::BalancedChannel::endpoint). The time-out is that of the health check.
    pub fn with_endpoint(
        mut self,
        change: impl Fn(&ServiceInstance, Endpoint) -> Result<Endpoint, transport::Error> + Send + Sync + 'static,
    ) -> Self {
        self.change = Some(Arc::new(change));
        self.channels = Arc::default();
        self
    }

    /// The answer to a check. If the channel was lost, which never had the request then, it is asked for over another one:
    /// the task of a channel lives in the runtime of the probe that made it, and goes with that, whatever becomes of the server.
    async fn ask(&self, instance: &ServiceInstance) -> Result<Result<i32, Status>, ProbeError> {
        let endpoint = endpoint_of(instance).map_err(|fault| ProbeError::new(fault.text))?;
        if endpoint.uri().scheme() == Some(&Scheme::HTTPS) && !tls::is_there().await {
            return Err(ProbeError::new("it is secure, and tonic was built without TLS"));
        }
        let address = endpoint.uri().to_string();
        let make = || {
            let endpoint = match &self.change {
                Some(change) => change(instance, endpoint.clone()),
                None => Ok(endpoint.clone()),
            };
            endpoint
                .map(|endpoint| endpoint.connect_lazy())
                .map_err(|error| ProbeError::new(Fault::of(error).text))
        };
        let mut again = true;
        loop {
            let (made, channel) = self.channels.get(&address, make)?;
            let (answer, lost) = self.ask_over(channel).await;
            if lost {
                self.channels.forget(&address, made);
            }
            if !(lost && std::mem::take(&mut again)) {
                return Ok(answer);
            }
        }
    }

    /// The answer over this channel, and whether that was lost.
    async fn ask_over(&self, mut channel: Channel) -> (Result<i32, Status>, bool) {
        // Before the client does it, whose status does not tell why a channel is not ready.
        if let Err(error) = poll_fn(|cx| Service::poll_ready(&mut channel, cx)).await {
            let fault = Fault::of(error);
            return (Err(Status::new(fault.code, fault.text)), fault.kind == Kind::Lost);
        }
        let request = HealthCheckRequest { service: self.service.clone() };
        let answer = HealthClient::new(channel).check(request).await;
        let lost = |status: &Status| Fault::of_body(status.clone()).kind == Kind::Lost;
        let lost = answer.as_ref().is_err_and(lost);
        (answer.map(|answer| answer.into_inner().status), lost)
    }

    /// What an answer means, in words that are the same for the same fault.
    fn verdict(&self, answer: Result<i32, Status>) -> Result<(), ProbeError> {
        match answer {
            Ok(status) => match ServingStatus::try_from(status) {
                Ok(ServingStatus::Serving) => Ok(()),
                Ok(other) => Err(ProbeError::new(other.as_str_name())),
                Err(_) => Err(ProbeError::new(format!("status {status} of no meaning"))),
            },
            Err(status) if status.code() == Code::Unimplemented && self.unimplemented_is_up => Ok(()),
            Err(status) => {
                let code = status.code();
                let why = match code {
                    Code::Unimplemented => "it has no health service".to_owned(),
                    Code::NotFound => format!("service {:?} is unknown to it", self.service),
                    _ => format!("{code:?}: {}", Fault::of_body(status).text),
                };
                Err(ProbeError::new(why))
            }
        }
    }
}

impl Channels {
    /// The channel, and when it was made.
    fn get(
        &self,
        address: &str,
        make: impl FnOnce() -> Result<Channel, ProbeError>,
    ) -> Result<(u64, Channel), ProbeError> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut kept = self.kept.lock();
        if let Some(one) = kept.get_mut(address) {
            one.used = now;
            return Ok((one.made, one.channel.clone()));
        }
        let channel = make()?;
        if kept.len() >= MOST {
            let oldest = kept.iter().min_by_key(|(_, one)| one.used).map(|(address, _)| address.clone());
            oldest.map(|address| kept.remove(&address));
        }
        kept.insert(address.to_owned(), Kept { made: now, used: now, channel: channel.clone() });
        Ok((now, channel))
    }

    /// Lets go of the channel that was made then.
    fn forget(&self, address: &str, made: u64) {
        let mut kept = self.kept.lock();
        if kept.get(address).is_some_and(|one| one.made == made) {
            kept.remove(address);
        }
    }
}

impl Default for GrpcProbe {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl HealthProbe for GrpcProbe {
    async fn check(&self, instance: &ServiceInstance) -> Result<(), ProbeError> {
        let asked = match self.port {
            Some(port) => instance.to_builder().port(port).build(),
            None => Ok(instance.clone()),
        };
        let asked = asked.map_err(|error| ProbeError::new(error.to_string()))?;
        self.verdict(self.ask(&asked).await?)
    }
}

impl fmt::Debug for GrpcProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcProbe").field("service", &self.service).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_serving_is_up() {
        let probe = GrpcProbe::new().with_service("shop.Orders");
        for (answer, verdict) in [
            (Ok(1), None),
            (Ok(0), Some("UNKNOWN")),
            (Ok(2), Some("NOT_SERVING")),
            (Ok(3), Some("SERVICE_UNKNOWN")),
            (Ok(77), Some("status 77 of no meaning")),
            (Err(Status::unimplemented("x")), Some("it has no health service")),
            (Err(Status::not_found("x")), Some("service \"shop.Orders\" is unknown to it")),
            (Err(Status::unavailable("gone")), Some("Unavailable: gone")),
        ] {
            assert_eq!(probe.verdict(answer).err().map(|error| error.to_string()).as_deref(), verdict);
        }
        assert!(probe.with_unimplemented_as_up().verdict(Err(Status::unimplemented("x"))).is_ok());
    }

    #[tokio::test]
    async fn as_many_channels_are_kept_as_there_may_be() {
        let channels = Channels::default();
        let make = || Ok(Endpoint::from_static("http://127.0.0.1:1").connect_lazy());
        for port in 0..=u16::try_from(MOST).unwrap() {
            channels.get(&port.to_string(), make).unwrap();
            channels.get("0", || panic!("it is used all the time")).ok();
        }
        let kept = channels.kept.lock();
        assert_eq!(kept.len(), MOST);
        assert!(kept.contains_key("0") && !kept.contains_key("1") && kept.contains_key("2"));
    }

    #[tokio::test]
    async fn who_finds_a_channel_dead_does_not_throw_away_the_next() {
        let channels = Channels::default();
        let make = || Ok(Endpoint::from_static("http://127.0.0.1:1").connect_lazy());
        let (first, _) = channels.get("a", make).unwrap();
        assert_eq!(channels.get("a", || panic!("it is kept")).unwrap().0, first);
        channels.forget("a", first);
        let (second, _) = channels.get("a", make).unwrap();
        channels.forget("a", first);
        assert_eq!(channels.get("a", || panic!("it is kept")).unwrap().0, second);
    }
}
