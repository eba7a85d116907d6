//! One balancer for each service: [`LoadBalancers`].

#[cfg(feature = "gateway")]
mod address;
mod builder;
mod hashing;
mod live;
mod map;
mod policies;
mod ready;
mod recipe;
mod why;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use builder::{LoadBalancersBuilder, ServiceBuilder};
pub use ready::NotReady;
pub use why::UnknownService;

use super::LoadBalancer;
use super::why::Active;
use crate::config::{LoadBalancerProperties, Properties};
use crate::discovery::{DiscoveryClient, SupplyError};
use crate::supplier::BuildError;
use crate::{InvalidServiceId, ServiceId, ServiceInstance};
use map::{Entry, Map};
use recipe::Recipe;

/// The balancers of many services: a cheap handle, whose clones share everything.
///
/// A service's balancer is made when it is first asked for, without a lock that services share and without waiting.
/// Names compare without case and without a trailing dot. Services that the configuration or the code names stay for
/// good; of other names, which may come from URLs, the 256 used last are kept (`cache.capacity`), and one with a call in
/// flight as long as that lasts.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::config::Properties;
/// use evenkeel::discovery::SimpleDiscovery;
/// use evenkeel::{LoadBalancers, Request, ServiceInstance};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let registry = SimpleDiscovery::new().with_instances("orders", [ServiceInstance::new("10.0.0.1", 8080)?])?;
/// let properties = Properties::default().set_for("orders", "cache.ttl", "5s")?;
/// let balancers = LoadBalancers::from_properties(properties, registry)?;
///
/// balancers.ready(["orders"], Duration::from_secs(5)).await?;
/// let choice = balancers.get("ORDERS")?.choose(&Request::EMPTY).await?;
/// assert_eq!(choice.url("/api/42")?, "http://10.0.0.1:8080/api/42");
/// balancers.shutdown().await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct LoadBalancers {
    inner: Arc<Inner>,
}

struct Inner {
    map: Map,
    recipe: Recipe,
    closed: AtomicBool,
    /// What the code overrides, and how often that changed.
    overrides: Mutex<Vec<Active>>,
    overridden: AtomicU64,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

#[cfg(feature = "metrics")]
impl crate::observe::Measured for Inner {
    fn publish(&self) {
        for entry in self.map.entries() {
            entry.balancer.core.driver.publish.publish_meters();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for task in self.tasks.get_mut() {
            task.abort();
        }
    }
}

impl LoadBalancers {
    /// Starts from a registry; properties and code for single services can be added.
    pub fn builder(discovery: impl DiscoveryClient) -> LoadBalancersBuilder {
        LoadBalancersBuilder::new(Arc::new(discovery))
    }

    /// Balancers as `properties` say, over `discovery`. Services of `eager-load.clients` are looked up at once if there
    /// is a tokio runtime.
    ///
    /// # Errors
    /// [`BuildError`] for a configured service whose chain cannot work.
    pub fn from_properties(
        properties: Properties,
        discovery: impl DiscoveryClient,
    ) -> Result<Self, BuildError> {
        Self::builder(discovery).properties(properties).build()
    }

    /// Balancers whose instances stand in the properties themselves
    /// (`spring.cloud.discovery.client.simple.instances`), and follow them when they change.
    ///
    /// To have those beside a registry, put both into a
    /// [`CompositeDiscovery`](crate::discovery::CompositeDiscovery):
    /// [`SimpleDiscovery::configured`](crate::discovery::SimpleDiscovery::configured) is the one half.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use evenkeel::LoadBalancers;
    /// use evenkeel::config::Properties;
    ///
    /// let properties = Properties::default().with_environment([(
    ///     "SPRING_CLOUD_DISCOVERY_CLIENT_SIMPLE_INSTANCES_ORDERS_0_URI",
    ///     "http://10.0.0.1:8080",
    /// )])?;
    /// let balancers = LoadBalancers::configured(properties).build()?;
    /// # Ok(()) }
    /// ```
    pub fn configured(properties: Properties) -> LoadBalancersBuilder {
        LoadBalancersBuilder::configured(properties)
    }

    /// Balancers over lists that never change: for a unit test, in one line.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use evenkeel::{LoadBalancers, ServiceInstance};
    ///
    /// let balancers = LoadBalancers::fixed([("orders", vec![ServiceInstance::new("127.0.0.1", 8080)?])])?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`BuildError`] for a name that is none.
    pub fn fixed<S, I>(services: impl IntoIterator<Item = (S, I)>) -> Result<Self, BuildError>
    where
        S: AsRef<str>,
        I: IntoIterator<Item = ServiceInstance>,
    {
        let registry = crate::discovery::SimpleDiscovery::new();
        let mut builder = Self::builder(registry.clone());
        for (name, instances) in services {
            let name = name.as_ref();
            let id = ServiceId::new(name).map_err(|error| invalid(name, &error))?;
            registry.set(&id, instances);
            builder = builder.service(name, |service| service);
        }
        builder.build()
    }

    /// The balancer of `service`, made if need be. Never waits. After [`shutdown`](Self::shutdown) it is one that is
    /// closed: choosing is the error [`Closed`](crate::ChooseErrorKind::Closed).
    ///
    /// # Errors
    /// [`BuildError`] for a name that is none (it is quoted), a chain that cannot work, and a service for which balancing
    /// is off (`enabled: false`).
    pub fn get(&self, service: impl AsRef<str>) -> Result<LoadBalancer, BuildError> {
        self.using(service.as_ref(), LoadBalancer::clone)
    }

    /// What `with` makes of the balancer of `service`, which is lent to it; see [`get`](Self::get).
    #[inline]
    pub(crate) fn using<T>(
        &self,
        service: &str,
        with: impl FnOnce(&LoadBalancer) -> T,
    ) -> Result<T, BuildError> {
        let found = self.inner.map.find(service, with, |entry, with| {
            if entry.off.load(Ordering::Relaxed) {
                return Err(recipe::disabled(&entry.id));
            }
            Ok(with(&entry.balancer))
        });
        match found {
            Ok(made) => made,
            Err(with) => self.make(service).map(|balancer| with(&balancer)),
        }
    }

    #[cold]
    fn make(&self, name: &str) -> Result<LoadBalancer, BuildError> {
        let given = ServiceId::new(name).map_err(|error| invalid(name, &error))?;
        let recipe = &self.inner.recipe;
        let mut in_force = recipe.in_force.load_full();
        let (id, kept) = recipe.spelling(&given, &in_force);
        let overridden = self.inner.overridden.load(Ordering::Acquire);
        let (properties, overrides) = self.inner.effective(&in_force.properties, id.as_str());
        let balancer = recipe.build(&id, &properties)?;
        if self.inner.closed.load(Ordering::Acquire) {
            drop(balancer.core.driver.shut());
            return Ok(balancer);
        }
        let entry = self.inner.map.insert(&Entry::new(id, balancer, kept, properties));
        Inner::attend(&self.inner, &entry);
        if !overrides.is_empty() || self.inner.overridden.load(Ordering::Acquire) != overridden {
            self.inner.settle(&entry);
        }
        // Changed properties are applied to what is in the map; this service may have come a moment too late.
        loop {
            let now = recipe.in_force.load_full();
            if Arc::ptr_eq(&now, &in_force) {
                break;
            }
            self.inner.settle(&entry);
            in_force = now;
        }
        if self.inner.closed.load(Ordering::Acquire) {
            drop(entry.balancer.core.driver.shut());
        }
        Ok(entry.balancer.clone())
    }

    /// Whether `host` names a service, so that `http://host/...` is balanced: a configured one, one of the code, or one
    /// that [`list_services`](Self::list_services) found; but none for which balancing is off (`enabled: false`). `lb://`
    /// needs no such name.
    pub fn is_known(&self, host: &str) -> bool {
        self.inner.recipe.is_known(host)
    }

    /// The effective properties of a service, as they are in force: a preset that an override pins included.
    pub fn properties(&self, service: &ServiceId) -> LoadBalancerProperties {
        self.inner.effective(&self.inner.recipe.in_force.load().properties, service.as_str()).0
    }

    /// Counts the changes of the properties in force.
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    pub(crate) fn generation(&self) -> u64 {
        self.inner.recipe.in_force.load().generation
    }

    /// Has `opener` open the connections to new instances, as long as it lives.
    #[cfg(feature = "reqwest")]
    pub(crate) fn opened_by(&self, opener: std::sync::Weak<dyn super::Opener>) {
        self.inner.recipe.openers.add(opener);
    }

    /// The balancer that an instance belongs to, if it is one of these.
    #[cfg(feature = "reqwest")]
    pub(crate) fn balancer_of(&self, state: &crate::InstanceState) -> Option<LoadBalancer> {
        let balancer = self.inner.map.peek(state.service_id().as_str())?.balancer.clone();
        std::ptr::eq(balancer.service_state(), state.service()).then_some(balancer)
    }

    /// Asks the registry for the names of all services; from then on `http://name/...` is balanced for each of them.
    ///
    /// # Errors
    /// [`SupplyError`] when the registry gives no answer; what was known stays.
    pub async fn list_services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        let services = self.inner.recipe.discovery.services().await?;
        self.inner.recipe.listed.store(Arc::new(services.iter().cloned().collect()));
        Ok(services)
    }

    /// What hands the meters of all services to the recorder; they are on by `stats.enabled`, or
    /// [`stats`](LoadBalancersBuilder::stats).
    #[cfg(feature = "metrics")]
    #[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
    pub fn collector(&self) -> crate::observe::Collector {
        crate::observe::Collector::new(
            Arc::downgrade(&self.inner) as std::sync::Weak<dyn crate::observe::Measured>
        )
    }

    /// The services that have a balancer now.
    pub fn services(&self) -> Vec<ServiceId> {
        self.inner.map.entries().iter().map(|entry| entry.id.clone()).collect()
    }

    /// Waits until each of `services` has an instance to choose: what a readiness probe asks.
    ///
    /// # Errors
    /// [`NotReady`] after `limit`: it names who is missing, and why.
    pub async fn ready<S: AsRef<str>>(
        &self,
        services: impl IntoIterator<Item = S>,
        limit: Duration,
    ) -> Result<(), NotReady> {
        ready::ready(self, services.into_iter().map(|name| name.as_ref().to_owned()).collect(), limit).await
    }

    /// Closes every balancer: no look-up, watch or timer from here on. Calls in flight go on; to wait for them see
    /// [`drain`](Self::drain). Takes at most a second, and may be called again.
    pub async fn shutdown(&self) {
        self.inner.closed.store(true, Ordering::Release);
        for task in self.inner.tasks.lock().drain(..) {
            task.abort();
        }
        let entries = self.inner.map.entries();
        join_all(entries.iter().map(|entry| entry.balancer.close())).await;
    }

    /// [`shutdown`](Self::shutdown), then waits until no call is in flight, for `limit` at most; how many are left.
    pub async fn drain(&self, limit: Duration) -> u32 {
        self.shutdown().await;
        let end = after(limit);
        loop {
            let left = self.in_flight();
            if left == 0 || Instant::now() >= end {
                return left;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Calls in flight over all services.
    pub fn in_flight(&self) -> u32 {
        self.inner.map.entries().iter().map(|entry| entry.balancer.in_flight()).sum()
    }
}

/// `limit` from now; a limit that no clock can hold is thirty years.
fn after(limit: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(limit).unwrap_or(now + Duration::from_secs(30 * 365 * 86_400))
}

fn invalid(name: &str, error: &InvalidServiceId) -> BuildError {
    BuildError::new(name, error.to_string())
}

impl fmt::Debug for LoadBalancers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadBalancers").field("services", &self.services()).finish_non_exhaustive()
    }
}
