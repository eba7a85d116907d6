use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::super::{LoadBalancer, LoadBalancerBuilder};
use super::map::Map;
use super::{Inner, LoadBalancers, live};
use crate::config::{LiveProperties, LoadBalancerProperties, PolicyName, Properties};
use crate::discovery::DiscoveryClient;
use crate::policy::{LeastRequest, Policy, RandomPick, RoundRobin};
use crate::supplier::BuildError;
use crate::{ServiceId, SupplierBuilder};

/// Builds [`LoadBalancers`].
///
/// ```
/// use evenkeel::LoadBalancers;
/// use evenkeel::discovery::SimpleDiscovery;
/// use evenkeel::policy::LeastRequest;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let balancers = LoadBalancers::builder(SimpleDiscovery::new())
///     .service("orders", |service| service.chain(|chain| chain.with_weights()).policy(LeastRequest))
///     .build()?;
/// # Ok(()) }
/// ```
#[must_use]
pub struct LoadBalancersBuilder {
    discovery: Arc<dyn DiscoveryClient>,
    live: LiveProperties,
    follow: bool,
    file: Option<PathBuf>,
    code: Vec<(String, ServiceBuilder)>,
    runtime: Option<Handle>,
    seed: Option<u64>,
}

/// What the code says of one service; it wins over every property.
#[derive(Default)]
#[must_use]
pub struct ServiceBuilder {
    chains: Vec<Box<dyn Fn(SupplierBuilder) -> SupplierBuilder + Send + Sync>>,
    policy: Option<Arc<dyn Policy>>,
    discovery: Option<Arc<dyn DiscoveryClient>>,
}

impl ServiceBuilder {
    /// Changes the chain that the properties gave.
    pub fn chain(
        mut self,
        change: impl Fn(SupplierBuilder) -> SupplierBuilder + Send + Sync + 'static,
    ) -> Self {
        self.chains.push(Box::new(change));
        self
    }

    /// Decides among the instances.
    pub fn policy(mut self, policy: impl Policy) -> Self {
        self.policy = Some(Arc::new(policy));
        self
    }

    /// A registry of its own.
    pub fn discovery(mut self, discovery: impl DiscoveryClient) -> Self {
        self.discovery = Some(Arc::new(discovery));
        self
    }
}

impl fmt::Debug for ServiceBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceBuilder").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl LoadBalancersBuilder {
    pub(super) fn new(discovery: Arc<dyn DiscoveryClient>) -> Self {
        Self {
            discovery,
            live: LiveProperties::new(Properties::default()),
            follow: false,
            file: None,
            code: Vec::new(),
            runtime: None,
            seed: None,
        }
    }

    /// Properties that do not change (default: none, so every default holds).
    pub fn properties(mut self, properties: Properties) -> Self {
        self.live = LiveProperties::new(properties);
        self.follow = false;
        self
    }

    /// Properties that may change: a change is applied to all services, or to none if one of them could not work.
    pub fn live(mut self, properties: LiveProperties) -> Self {
        self.live = properties;
        self.follow = true;
        self
    }

    /// Follows a property file: its changes are applied live, whole or not at all. Needs
    /// [`live`](Self::live) or [`properties`](Self::properties) with what the file holds now.
    #[cfg(feature = "file")]
    pub fn watch_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self.follow = true;
        self
    }

    /// What the code says of `service`.
    pub fn service(
        mut self,
        service: impl Into<String>,
        shape: impl FnOnce(ServiceBuilder) -> ServiceBuilder,
    ) -> Self {
        self.code.push((service.into(), shape(ServiceBuilder::default())));
        self
    }

    /// Where background work runs (default: on the runtime of the caller that starts it).
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Makes chance repeat, a different one for each service.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The balancers. Every configured chain is checked now.
    ///
    /// # Errors
    /// [`BuildError`] for the first chain that cannot work.
    pub fn build(self) -> Result<LoadBalancers, BuildError> {
        let mut code = Vec::with_capacity(self.code.len());
        for (name, shape) in self.code {
            let id = ServiceId::new(&name).map_err(|error| super::invalid(&name, &error))?;
            code.push((id, shape));
        }
        let current = self.live.current();
        let capacity = current.global().cache_capacity;
        let eager = current.global().eager_load;
        let runtime = self.runtime.clone();
        let recipe = Recipe {
            discovery: self.discovery,
            live: self.live,
            code,
            listed: ArcSwap::default(),
            runtime: self.runtime,
            seed: self.seed,
        };
        recipe.check(&current)?;
        let inner = Arc::new(Inner {
            map: Map::new(capacity),
            recipe,
            closed: AtomicBool::new(false),
            tasks: Mutex::default(),
        });
        let balancers = LoadBalancers { inner };
        let runtime = runtime.or_else(|| Handle::try_current().ok());
        if self.follow {
            let Some(runtime) = &runtime else {
                let why = "properties that change need a tokio runtime: build inside one, or inject a handle";
                return Err(BuildError::new("*", why.to_owned()));
            };
            let tasks = live::follow(&balancers.inner, runtime, self.file);
            *balancers.inner.tasks.lock() = tasks;
        }
        for name in eager {
            let balancer = balancers.get(&name)?;
            if let Some(runtime) = &runtime {
                let _entered = runtime.enter();
                balancer.refresh();
            }
        }
        Ok(balancers)
    }
}

impl fmt::Debug for LoadBalancersBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadBalancersBuilder").field("discovery", &self.discovery).finish_non_exhaustive()
    }
}

/// How a service's balancer is made.
pub(super) struct Recipe {
    pub(super) discovery: Arc<dyn DiscoveryClient>,
    pub(super) live: LiveProperties,
    code: Vec<(ServiceId, ServiceBuilder)>,
    /// What the registry listed when it was asked.
    pub(super) listed: ArcSwap<Vec<ServiceId>>,
    runtime: Option<Handle>,
    seed: Option<u64>,
}

impl Recipe {
    fn code(&self, service: &ServiceId) -> Option<&ServiceBuilder> {
        self.code.iter().find(|(id, _)| id == service).map(|(_, shape)| shape)
    }

    /// How the registry is asked for `given`: as the code or the configuration spells it, else as the registry does, else
    /// as the caller did. And whether the service is one of those that stay.
    pub(super) fn spelling(&self, given: &ServiceId) -> (ServiceId, bool) {
        if let Some((id, _)) = self.code.iter().find(|(id, _)| id == given) {
            return (id.clone(), true);
        }
        let properties = self.live.current();
        let configured = properties.services().into_iter().find(|name| given.matches(name));
        if let Some(id) = configured.and_then(|name| ServiceId::new(name).ok()) {
            return (id, true);
        }
        let listed = self.listed.load().iter().find(|id| *id == given).cloned();
        (listed.unwrap_or_else(|| given.clone()), false)
    }

    pub(super) fn is_known(&self, host: &str) -> bool {
        self.code.iter().any(|(id, _)| id.matches(host))
            || self.listed.load().iter().any(|id| id.matches(host))
            || ServiceId::new(host)
                .is_ok_and(|id| self.live.current().services().iter().any(|name| id.matches(name)))
    }

    pub(super) fn properties(&self, service: &ServiceId) -> LoadBalancerProperties {
        self.live.current().effective(service.as_str())
    }

    /// Whether the chain of every service that is named can work with `properties`.
    pub(super) fn check(&self, properties: &Properties) -> Result<(), BuildError> {
        let configured = properties.services().into_iter().map(str::to_owned);
        let named = self.code.iter().map(|(id, _)| id.as_str().to_owned());
        for name in configured.chain(named) {
            let id = ServiceId::new(&name).map_err(|error| super::invalid(&name, &error))?;
            let effective = properties.effective(&name);
            if effective.enabled {
                self.chain(&id, &effective).build()?;
            }
        }
        Ok(())
    }

    pub(super) fn chain(&self, id: &ServiceId, properties: &LoadBalancerProperties) -> SupplierBuilder {
        let code = self.code(id);
        let discovery = code.and_then(|code| code.discovery.as_ref()).unwrap_or(&self.discovery);
        let mut chain =
            SupplierBuilder::new(id).with_discovery(Arc::clone(discovery)).with_properties(properties);
        if let Some(runtime) = &self.runtime {
            chain = chain.with_runtime(runtime.clone());
        }
        if let Some(seed) = self.seed {
            let named = id.as_str().bytes().fold(seed, |hash, byte| {
                (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0000_01b3)
            });
            chain = chain.with_seed(named);
        }
        for change in code.iter().flat_map(|code| &code.chains) {
            chain = change(chain);
        }
        chain
    }

    pub(super) fn policy(&self, id: &ServiceId, properties: &LoadBalancerProperties) -> Arc<dyn Policy> {
        if let Some(policy) = self.code(id).and_then(|code| code.policy.as_ref()) {
            return Arc::clone(policy);
        }
        match properties.policy {
            PolicyName::Random => Arc::new(RandomPick),
            PolicyName::LeastRequest => Arc::new(LeastRequest),
            _ => Arc::new(RoundRobin::default()),
        }
    }

    pub(super) fn build(
        &self,
        id: &ServiceId,
        properties: &LoadBalancerProperties,
    ) -> Result<LoadBalancer, BuildError> {
        if !properties.enabled {
            return Err(BuildError::new(
                id.as_str(),
                "balancing is off by configuration (enabled: false)".to_owned(),
            ));
        }
        let supplier = self.chain(id, properties).build()?;
        Ok(LoadBalancerBuilder::new(supplier)
            .policy_arc(self.policy(id, properties))
            .allow_downgrade(properties.allow_downgrade)
            .build())
    }
}
