//! What is known of one name: its look-ups, its addresses, its last answer.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, Shared, WeakShared};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Settings;
use crate::discovery::{HealthRecord, SupplyError, SupplyErrorKind};
use crate::limit::Limit;
use crate::{InvalidInstance, ServiceId, ServiceInstance};

pub(super) type Answer = Result<Arc<[ServiceInstance]>, SupplyError>;
type Lookup = BoxFuture<'static, Answer>;

/// The shortest time between two look-ups of one name. A broken instance makes every caller ask, and a server may give
/// a TTL of 0; neither may become a look-up per request.
pub(super) const FLOOR: Duration = Duration::from_secs(1);

/// One service of a [`DnsDiscovery`](super::DnsDiscovery).
#[derive(Debug)]
pub(super) struct Host {
    service: ServiceId,
    settings: Arc<Settings>,
    health: Arc<HealthRecord>,
    known: Mutex<Known>,
    /// The last answer and when it came; `None` before the first.
    latest: watch::Sender<Option<(Answer, Instant)>>,
    told: Limit,
}

#[derive(Debug, Default)]
struct Known {
    /// The look-up under way; held weakly, so that one which all its callers gave up is not taken up again.
    running: Option<WeakShared<Lookup>>,
    /// When each address was last in an answer.
    seen: BTreeMap<IpAddr, Instant>,
}

impl Host {
    pub(super) fn new(service: ServiceId, settings: Arc<Settings>, health: Arc<HealthRecord>) -> Self {
        let (latest, _) = watch::channel(None);
        Self { service, settings, health, known: Mutex::default(), latest, told: Limit::faults() }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Option<(Answer, Instant)>> {
        self.latest.subscribe()
    }

    /// Looks the name up, unless an answer is younger than the floor; callers at one time share one look-up.
    pub(super) async fn lookup(self: &Arc<Self>) -> Answer {
        if let Some((answer, at)) = &*self.latest.borrow()
            && at.elapsed() < FLOOR
        {
            return answer.clone();
        }
        self.join().await
    }

    fn join(self: &Arc<Self>) -> Shared<Lookup> {
        let mut known = self.known.lock();
        if let Some(running) = known.running.as_ref().and_then(WeakShared::upgrade) {
            return running;
        }
        let host = Arc::clone(self);
        let lookup = async move { host.ask().await }.boxed().shared();
        known.running = lookup.downgrade();
        lookup
    }

    async fn ask(&self) -> Answer {
        let settings = &*self.settings;
        let name = settings.template.name(&self.service);
        let port = settings.template.port;
        // A panic would go on to every caller who shares this look-up.
        let asked = AssertUnwindSafe(settings.resolver.lookup(&name, port.unwrap_or(0))).catch_unwind();
        let found = match tokio::time::timeout(settings.timeout, asked).await {
            Ok(Ok(Ok(found))) => Ok(found),
            Ok(Err(_)) => {
                Err(SupplyError::new(SupplyErrorKind::Panicked, settings.origin.as_str(), name.as_str()))
            }
            Ok(Ok(Err(error))) => Err(SupplyError::new(
                SupplyErrorKind::Io,
                settings.origin.as_str(),
                format!("{name}: {error}"),
            )),
            Err(_) => Err(SupplyError::new(
                SupplyErrorKind::Timeout,
                settings.origin.as_str(),
                format!("{name}: no answer within {:?}", settings.timeout),
            )),
        };
        let answer = found
            .map(|found| self.list(&name, port, &found))
            .map_err(|error| error.of_service(&self.service));
        let answer = self.health.record(answer);
        self.latest.send_replace(Some((answer.clone(), Instant::now())));
        self.known.lock().running = None;
        answer
    }

    fn left_out(&self, error: &InvalidInstance) {
        if let Some(passed) = self.told.pass() {
            let (service, suppressed) = (&self.service, passed.suppressed());
            tracing::warn!(%service, %error, suppressed, "an address is left out");
        }
    }

    /// The addresses of an answer and those still within their grace, sorted: a new order is no change.
    fn list(&self, name: &str, port: Option<u16>, found: &[SocketAddr]) -> Arc<[ServiceInstance]> {
        let now = Instant::now();
        let grace = self.settings.grace;
        let seen = &mut self.known.lock().seen;
        seen.retain(|_, at| now.duration_since(*at) <= grace && !grace.is_zero());
        seen.extend(found.iter().map(|address| (address.ip(), now)));
        seen.keys()
            .filter_map(|ip| {
                let builder = ServiceInstance::builder(ip.to_string())
                    .service_id(self.service.clone())
                    .with_metadata("dns.name", name);
                let builder = match port {
                    Some(port) => builder.port(port),
                    None => builder,
                };
                builder.build().map_err(|error| self.left_out(&error)).ok()
            })
            .collect()
    }
}
