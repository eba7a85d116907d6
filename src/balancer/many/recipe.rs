use std::collections::HashMap;
use std::collections::HashSet;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::super::pre_connection::{Connector, Openers, PreConnection};
use super::super::{CallSettings, LoadBalancer, LoadBalancerBuilder};
use super::{ServiceBuilder, policies};
use crate::config::{LiveProperties, LoadBalancerProperties, Properties, StatsProperties};
use crate::discovery::{DiscoveryClient, SimpleDiscovery};
use crate::observe::{Lifecycle, Lifecycles};
use crate::policy::Policy;
#[cfg(feature = "gateway")]
use crate::supplier::Supplier;
use crate::supplier::{BuildError, OwnFleet, StickySession};
use crate::wall::WallClock;
use crate::{ServiceId, SupplierBuilder};

/// How a service's balancer is made.
pub(super) struct Recipe {
    pub(super) discovery: Arc<dyn DiscoveryClient>,
    /// The same, if its instances come from the properties.
    simple: Option<SimpleDiscovery>,
    /// What was asked for last; `in_force` is what could be applied.
    pub(super) live: LiveProperties,
    pub(super) in_force: ArcSwap<InForce>,
    /// What the registry listed when it was asked.
    pub(super) listed: ArcSwap<HashSet<ServiceId>>,
    code: Vec<(ServiceId, ServiceBuilder)>,
    lifecycles: Vec<Arc<dyn Lifecycle>>,
    /// By the service: all balancers share one look-up of the own fleet.
    fleets: Mutex<HashMap<ServiceId, OwnFleet>>,
    /// The clients that can open a connection.
    pub(super) openers: Arc<Openers>,
    /// What the code says of every service.
    stats: Option<StatsProperties>,
    runtime: Option<Handle>,
    seed: Option<u64>,
    pub(super) wall: WallClock,
}

/// Properties that every service could be built with, and the names in them, made once so that no request has to.
pub(super) struct InForce {
    pub(super) properties: Arc<Properties>,
    /// Counts the changes.
    pub(super) generation: u64,
    /// The services that the code or the properties name, in that order of spelling; whether each is balanced.
    named: HashMap<ServiceId, bool>,
    /// Whether a service that nobody names is.
    others: bool,
}

impl InForce {
    fn new(properties: Arc<Properties>, code: &[(ServiceId, ServiceBuilder)], generation: u64) -> Self {
        let mut named = HashMap::new();
        let configured = properties.services().into_iter().filter_map(|name| ServiceId::new(name).ok());
        for id in code.iter().map(|(id, _)| id.clone()).chain(configured) {
            let enabled = properties.effective(id.as_str()).enabled;
            named.entry(id).or_insert(enabled);
        }
        let others = properties.effective("").enabled;
        Self { properties, generation, named, others }
    }

    /// The services that the code or the properties name.
    pub(super) fn names(&self) -> impl Iterator<Item = &ServiceId> {
        self.named.keys()
    }

    /// Whether the code or the properties name the service.
    pub(super) fn is_named(&self, id: &ServiceId) -> bool {
        self.named.contains_key(id)
    }
}

impl Recipe {
    pub(super) fn new(
        discovery: Arc<dyn DiscoveryClient>,
        live: LiveProperties,
        code: Vec<(ServiceId, ServiceBuilder)>,
        lifecycles: Vec<Arc<dyn Lifecycle>>,
        runtime: Option<Handle>,
        seed: Option<u64>,
    ) -> Result<Self, BuildError> {
        let current = live.current();
        let in_force = ArcSwap::from_pointee(InForce::new(Arc::clone(&current), &code, 0));
        let listed = ArcSwap::default();
        let recipe = Self {
            discovery,
            simple: None,
            live,
            in_force,
            listed,
            code,
            lifecycles,
            fleets: Mutex::default(),
            openers: Arc::default(),
            stats: None,
            runtime,
            seed,
            wall: WallClock::default(),
        };
        recipe.check(&current)?;
        Ok(recipe)
    }

    /// The same with a registry that takes its instances from the properties.
    pub(super) fn following(self, simple: Option<SimpleDiscovery>) -> Self {
        if let Some(simple) = &simple {
            simple.reconfigure(&self.in_force.load().properties);
        }
        Self { simple, ..self }
    }

    /// The same with another clock on the wall.
    pub(super) fn dated(self, wall: WallClock) -> Self {
        Self { wall, ..self }
    }

    /// The same where the code says what is measured.
    pub(super) fn measuring(self, stats: Option<StatsProperties>) -> Self {
        Self { stats, ..self }
    }

    /// Puts properties in force.
    pub(super) fn adopt(&self, new: Arc<InForce>) {
        if let Some(simple) = &self.simple {
            simple.reconfigure(&new.properties);
        }
        self.in_force.store(new);
    }

    /// What follows on the properties in force.
    pub(super) fn next(&self, properties: Arc<Properties>) -> InForce {
        InForce::new(properties, &self.code, self.in_force.load().generation + 1)
    }

    fn code(&self, service: &ServiceId) -> Option<&ServiceBuilder> {
        self.code.iter().find(|(id, _)| id == service).map(|(_, shape)| shape)
    }

    /// How the registry is asked for `given`: as the code or the configuration spells it, else as the registry does, else
    /// as the caller did. And whether the service is one of those that stay.
    pub(super) fn spelling(&self, given: &ServiceId, in_force: &InForce) -> (ServiceId, bool) {
        match in_force.named.get_key_value(given) {
            Some((id, _)) => (id.clone(), true),
            None => (self.listed.load().get(given).unwrap_or(given).clone(), false),
        }
    }

    pub(super) fn is_known(&self, host: &str) -> bool {
        let Ok(id) = ServiceId::new(host) else { return false };
        let in_force = self.in_force.load();
        match in_force.named.get(&id) {
            Some(enabled) => *enabled,
            None => in_force.others && self.listed.load().contains(&id),
        }
    }

    /// Whether the chain of every service that is named can work with `properties`, and that of any other.
    pub(super) fn check(&self, properties: &Properties) -> Result<(), BuildError> {
        let configured = properties.services().into_iter().map(str::to_owned);
        let named = self.code.iter().map(|(id, _)| id.as_str().to_owned());
        for name in configured.chain(named).chain(["*".to_owned()]) {
            let id = ServiceId::new(&name).map_err(|error| super::invalid(&name, &error))?;
            let effective = properties.effective(&name);
            if effective.enabled {
                self.chain(&id, &effective).build()?;
                self.hash_is_well(&id, &effective)?;
            }
        }
        Ok(())
    }

    pub(super) fn chain(&self, id: &ServiceId, properties: &LoadBalancerProperties) -> SupplierBuilder {
        let code = self.code(id);
        let discovery = code.and_then(|code| code.discovery.as_ref()).unwrap_or(&self.discovery);
        let mut chain =
            SupplierBuilder::new(id).with_discovery(Arc::clone(discovery)).with_properties(properties);
        if let Some(fleet) = self.fleet(properties) {
            chain = chain.with_own_fleet(fleet);
        }
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

    /// The clients of the own service, looked up in the common registry; a name that is none is left to the chain to refuse.
    fn fleet(&self, properties: &LoadBalancerProperties) -> Option<OwnFleet> {
        let own = ServiceId::new(properties.own_service_id.as_deref()?).ok()?;
        let mut fleets = self.fleets.lock();
        if let Some(fleet) = fleets.get(&own) {
            return Some(fleet.clone());
        }
        let fleet = OwnFleet::looked_up(own.as_str(), Arc::clone(&self.discovery)).ok()?;
        fleets.insert(own, fleet.clone());
        Some(fleet)
    }

    /// What holds for the driver of an address: it has no chain that could say it.
    #[cfg(feature = "gateway")]
    pub(super) fn settle_address(&self, supplier: &mut Supplier, properties: &LoadBalancerProperties) {
        let backoff = &properties.backoff;
        supplier.settings.back_off = crate::state::BackOff { min: backoff.min, max: backoff.max() };
        supplier.runtime.clone_from(&self.runtime);
        supplier.seed = self.seed;
    }

    pub(super) fn policy(&self, id: &ServiceId, properties: &LoadBalancerProperties) -> Arc<dyn Policy> {
        if let Some(policy) = self.code(id).and_then(|code| code.policy.as_ref()) {
            return Arc::clone(policy);
        }
        policies::policy(properties)
    }

    /// Whether the policy, unless the code sets another, has a key to go by.
    fn hash_is_well(&self, id: &ServiceId, properties: &LoadBalancerProperties) -> Result<(), BuildError> {
        let set_in_code = self.code(id).is_some_and(|code| code.policy.is_some());
        let fault = properties.hash.fault(properties.policy).filter(|_| !set_in_code);
        fault.map_or(Ok(()), |fault| Err(BuildError::new(id.as_str(), fault)))
    }

    /// What holds for whole calls to a service.
    pub(super) fn calls(&self, id: &ServiceId, properties: &LoadBalancerProperties) -> CallSettings {
        let sticky = &properties.sticky_session;
        let by_default = LoadBalancerProperties::for_preset(properties.preset).connect_timeout;
        CallSettings {
            retry: properties.retry.clone(),
            outlier_detection: properties.outlier_detection.clone(),
            slow_start: properties.slow_start.clone(),
            pre_connection: PreConnection {
                properties: properties.pre_connection.clone(),
                connector: match self.code(id).and_then(|code| code.connect.as_ref()) {
                    Some(connect) => Connector::Code(Arc::clone(connect)),
                    None => Connector::Clients(Arc::clone(&self.openers)),
                },
            },
            lifecycles: Lifecycles::of(id, &self.lifecycles),
            hint: properties.hint.clone(),
            x_forwarded: properties.x_forwarded.clone(),
            connect_timeout: Some(properties.connect_timeout).filter(|limit| *limit != by_default),
            read_timeout: properties.read_timeout,
            tls_name: properties.tls_name.clone(),
            host_header: properties.host_header,
            instance_cookie: sticky.add_service_instance_cookie.then(|| StickySession::of(sticky)),
            stats: self.stats.as_ref().unwrap_or(&properties.stats).clone(),
            meters: None,
        }
    }

    pub(super) fn build(
        &self,
        id: &ServiceId,
        properties: &LoadBalancerProperties,
    ) -> Result<LoadBalancer, BuildError> {
        if !properties.enabled {
            return Err(disabled(id));
        }
        self.hash_is_well(id, properties)?;
        let supplier = self.chain(id, properties).build()?;
        Ok(LoadBalancerBuilder::new(supplier)
            .policy_arc(self.policy(id, properties))
            .allow_downgrade(properties.allow_downgrade)
            .calls(self.calls(id, properties))
            .wall(self.wall.clone())
            .build())
    }
}

pub(super) fn disabled(id: &ServiceId) -> BuildError {
    BuildError::new(id.as_str(), "balancing is off by configuration (enabled: false)".to_owned())
}
