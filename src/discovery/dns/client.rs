use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;
use parking_lot::Mutex;

use super::host::Host;
use super::stream::Subscription;
use super::template::Template;
use super::{InvalidTemplate, Resolve, Settings, SystemResolver};
use crate::discovery::{DiscoveryClient, HealthRecord, Lists, SourceHealth, SupplyError, jitter::Jitter};
use crate::{ServiceId, ServiceInstance};

/// A source that looks host names up: each address is an instance.
///
/// The host name comes from a template, whose `{service}` stands for the service id in the caller's spelling. An
/// instance has the id `address:port` and the metadata entry `dns.name`. Names cannot be listed:
/// [`services`](DiscoveryClient::services) is empty.
///
/// **When it looks up.** A watch looks up at once and then each period (30 s, jittered by a tenth), as long as it is
/// polled; [`instances`](DiscoveryClient::instances) looks up at once and feeds the watches too, so that a connection
/// that failed need not wait for the period. One name is looked up at most once a second: a call that comes earlier
/// gets the last answer. Callers at one time share one look-up.
///
/// **What an answer does.** It replaces the list. A server that gives a few of many hosts in turn needs
/// [`with_absence_grace`](Self::with_absence_grace): then a host stays for that long after the last answer that held
/// it. The order of the addresses does not count. An error changes nothing; the system's resolver gives one for a name
/// without records too, so the last set stays until the name has addresses again.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::discovery::DnsDiscovery;
///
/// let discovery = DnsDiscovery::new("{service}.prod.svc.cluster.local.:8080")?
///     .with_period(Duration::from_secs(10))
///     .with_absence_grace(Duration::from_secs(60));
/// # Ok::<(), evenkeel::discovery::InvalidTemplate>(())
/// ```
#[derive(Clone, Debug)]
pub struct DnsDiscovery {
    settings: Arc<Settings>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    health: Arc<HealthRecord>,
    hosts: Mutex<Hosts>,
}

#[derive(Debug, Default)]
struct Hosts {
    /// Each name that is watched.
    watched: HashMap<ServiceId, Weak<Host>>,
    /// Each name that was asked for and is not watched, so that the floor and the grace hold for it as well.
    asked: HashMap<ServiceId, Arc<Host>>,
}

/// How many names that were only asked for are remembered; a name is text from a caller, who may make many of them up.
const REMEMBERED: usize = 1_024;

impl DnsDiscovery {
    /// A source with the names of `template`: a host name with `{service}` in it, and a port if there is one.
    ///
    /// A name that ends with a dot is not tried with the search domains of the machine, which saves look-ups.
    ///
    /// # Errors
    /// [`InvalidTemplate`], which quotes the input.
    pub fn new(template: &str) -> Result<Self, InvalidTemplate> {
        let template = Template::parse(template)?;
        let settings = Settings {
            origin: format!("dns {template}"),
            template,
            resolver: Arc::new(SystemResolver),
            period: Duration::from_secs(30),
            grace: Duration::ZERO,
            timeout: Duration::from_secs(10),
            seed: fastrand::u64(..),
        };
        Ok(Self { settings: Arc::new(settings), shared: Arc::default() })
    }

    fn change(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        // What earlier settings found does not count for the new ones.
        self.shared = Arc::default();
        self
    }

    /// The port of all instances (default: that of the template, else that of the scheme; 0 means the latter).
    #[must_use]
    pub fn with_port(self, port: u16) -> Self {
        self.change(|settings| settings.template.port = (port != 0).then_some(port))
    }

    /// The time between two look-ups of a name that is watched (default 30 s, jittered by a tenth; at least 1 s).
    #[must_use]
    pub fn with_period(self, period: Duration) -> Self {
        self.change(|settings| settings.period = period.max(super::host::FLOOR))
    }

    /// How long a host stays after the last answer that held it (default 0: each answer replaces the list).
    #[must_use]
    pub fn with_absence_grace(self, grace: Duration) -> Self {
        self.change(|settings| settings.grace = grace)
    }

    /// The limit of one look-up (default 10 s).
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        self.change(|settings| settings.timeout = timeout)
    }

    /// The resolver (default: [`SystemResolver`]).
    #[must_use]
    pub fn with_resolver(self, resolver: impl Resolve) -> Self {
        self.change(|settings| settings.resolver = Arc::new(resolver))
    }

    /// The seed of the jitter (default: random).
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        self.change(|settings| settings.seed = seed)
    }

    fn host(&self, service: &ServiceId, watched: bool) -> Arc<Host> {
        let mut hosts = self.shared.hosts.lock();
        let found = hosts.watched.get(service).and_then(Weak::upgrade);
        let host = found.or_else(|| hosts.asked.get(service).cloned()).unwrap_or_else(|| {
            Arc::new(Host::new(service.clone(), Arc::clone(&self.settings), Arc::clone(&self.shared.health)))
        });
        if watched {
            hosts.watched.retain(|_, host| host.strong_count() > 0);
            hosts.watched.insert(service.clone(), Arc::downgrade(&host));
        } else if !hosts.asked.contains_key(service) {
            if hosts.asked.len() >= REMEMBERED {
                hosts.asked.clear();
            }
            hosts.asked.insert(service.clone(), Arc::clone(&host));
        }
        host
    }
}

#[async_trait]
impl DiscoveryClient for DnsDiscovery {
    fn name(&self) -> &str {
        &self.settings.origin
    }

    async fn instances(&self, service: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError> {
        let host = self.host(service, false);
        host.lookup().await.map(|list| list.to_vec())
    }

    fn watch(&self, service: &ServiceId) -> Option<Lists> {
        let host = self.host(service, true);
        let period = Jitter::of_service(self.settings.period, self.settings.seed, service);
        Some(Box::pin(stream::unfold(Subscription::new(host, period), Subscription::next)))
    }

    /// Always empty: names cannot be listed.
    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        Ok(Vec::new())
    }

    fn health(&self) -> SourceHealth {
        self.shared.health.get()
    }
}
