use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::driver::Settings;
use super::stages::{
    Duplicates, HintStage, MetadataRoute, SameInstance, StatusStage, StickySession, WeightsStage,
    ZonePreference,
};
use super::stream::Streams;
use super::{
    BuildError, Chain, DiscoverySupplier, HealthStage, ListStage, Rank, RequestStage,
    ServiceInstanceListSupplier, Supplier,
};
use crate::config::{CacheProperties, Refresh, Staleness};
use crate::discovery::DiscoveryClient;
use crate::health::HealthCheck;
use crate::state::BackOff;
use crate::{InvalidServiceId, ServiceId};

/// Builds the chain of one service: a base and its stages, in any order of calls.
///
/// Defaults: caching on (35 s, refreshed behind the callers), duplicates and status stages on, weights off (a weight of 0
/// drains all the same), no zone preference, no request stages.
///
/// ```
/// use evenkeel::SupplierBuilder;
/// use evenkeel::discovery::SimpleDiscovery;
/// use evenkeel::supplier::MetadataRoute;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let supplier = SupplierBuilder::new("orders")
///     .with_discovery_client(SimpleDiscovery::new())
///     .with_zone_preference("eu-1a")
///     .with_weights()
///     .with_hints()
///     .with_metadata_route(MetadataRoute::by("version").header("X-Version"))
///     .build()?;
/// # Ok(()) }
/// ```
#[must_use]
pub struct SupplierBuilder {
    service: Result<ServiceId, InvalidServiceId>,
    base: Option<Base>,
    bases: u32,
    lists: Vec<Arc<dyn ListStage>>,
    pub(super) zone: Option<ZonePreference>,
    /// Where this client stands, also without a preference.
    pub(super) own_zone: Option<String>,
    pub(super) health: Option<HealthCheck>,
    pub(super) sticky: Option<StickySession>,
    pub(super) same_instance: bool,
    /// What properties ask for and this build cannot do.
    pub(super) refused: Option<String>,
    pub(super) hint: Option<HintStage>,
    pub(super) routes: Vec<MetadataRoute>,
    requests: Vec<Arc<dyn RequestStage>>,
    pub(super) weights: WeightsStage,
    pub(super) settings: Settings,
    hard_age: Option<Duration>,
    stale: Staleness,
    runtime: Option<Handle>,
    seed: Option<u64>,
}

enum Base {
    Client(Arc<dyn DiscoveryClient>),
    Own(Arc<dyn ServiceInstanceListSupplier>),
}

impl SupplierBuilder {
    /// Starts the chain of `service`; a name that is none is refused by [`build`](Self::build).
    pub fn new<S>(service: S) -> Self
    where
        S: TryInto<ServiceId>,
        InvalidServiceId: From<S::Error>,
    {
        Self {
            service: service.try_into().map_err(InvalidServiceId::from),
            base: None,
            bases: 0,
            lists: Vec::new(),
            zone: None,
            own_zone: None,
            health: None,
            sticky: None,
            same_instance: false,
            refused: None,
            hint: None,
            routes: Vec::new(),
            requests: Vec::new(),
            weights: WeightsStage::off(),
            settings: Settings::default(),
            hard_age: None,
            stale: Staleness::Unbounded,
            runtime: None,
            seed: None,
        }
    }

    /// Lists come from this registry.
    pub fn with_discovery_client(self, client: impl DiscoveryClient) -> Self {
        self.with_discovery(Arc::new(client))
    }

    /// The same with a client that is shared.
    pub fn with_discovery(mut self, client: Arc<dyn DiscoveryClient>) -> Self {
        self.base = Some(Base::Client(client));
        self.bases += 1;
        self
    }

    /// Lists come from a supplier of your own; its service must be this one.
    pub fn with_base(mut self, base: impl ServiceInstanceListSupplier) -> Self {
        self.base = Some(Base::Own(Arc::new(base)));
        self.bases += 1;
        self
    }

    /// Instances of the own zone first; a zone's name, or a [`ZonePreference`] with its guards.
    pub fn with_zone_preference(mut self, zone: impl Into<ZonePreference>) -> Self {
        self.zone = Some(zone.into());
        self
    }

    /// Policies honour weights, from the metadata entry `weight`.
    pub fn with_weights(mut self) -> Self {
        self.weights = WeightsStage::on();
        self
    }

    /// The same with a function, another key, or Spring's meaning of 0.
    pub fn with_weights_stage(mut self, weights: WeightsStage) -> Self {
        self.weights = weights;
        self
    }

    /// A request's hint (`X-SC-LB-Hint`) names the group of instances with that metadata `hint`.
    pub fn with_hints(self) -> Self {
        self.with_hint_stage(HintStage::default())
    }

    /// The same with another header or a default hint.
    pub fn with_hint_stage(mut self, hint: HintStage) -> Self {
        self.hint = Some(hint);
        self
    }

    /// Requests go by a metadata entry; may be called for several entries.
    pub fn with_metadata_route(mut self, route: MetadataRoute) -> Self {
        self.routes.push(route);
        self
    }

    /// Instances that fail their health check are left out.
    pub fn with_health_checks(mut self, check: HealthCheck) -> Self {
        self.health = Some(check);
        self
    }

    /// A request goes back to the instance that its cookie names.
    pub fn with_sticky_session(mut self, sticky: StickySession) -> Self {
        self.sticky = Some(sticky);
        self
    }

    /// A request goes to the instance that the last one went to.
    pub fn with_same_instance_preference(mut self) -> Self {
        self.same_instance = true;
        self
    }

    /// A list stage of your own.
    pub fn with_list_stage(mut self, stage: impl ListStage) -> Self {
        self.lists.push(Arc::new(stage));
        self
    }

    /// A request stage of your own; those narrow after hints and metadata routes, in the order of these calls.
    pub fn with_request_stage(mut self, stage: impl RequestStage) -> Self {
        self.requests.push(Arc::new(stage));
        self
    }

    /// How lists are kept. On by default; `cache.enabled: false` switches it off without a change of code.
    pub fn with_caching(mut self, cache: CacheProperties) -> Self {
        self.hard_age = Some(cache.hard_age());
        self.settings.caching = cache.enabled;
        self.settings.ttl = cache.ttl;
        self.settings.refresh_waits = cache.refresh == Refresh::Wait;
        self.settings.disk = cache.warm_start;
        self
    }

    /// Every choose asks the source; concurrent ones share a look-up, and its last list is still served after a failure.
    pub fn without_caching(mut self) -> Self {
        self.settings.caching = false;
        self
    }

    /// How long the last list is served while the source gives no answer (default: without bound).
    pub fn with_stale_if_error(mut self, stale: Staleness) -> Self {
        self.stale = stale;
        self
    }

    /// How long the last list is kept against an empty answer (default 30 s; zero = not at all).
    pub fn with_empty_guard(mut self, guard: Duration) -> Self {
        self.settings.empty_guard = guard;
        self
    }

    /// The limit of one look-up (default 30 s).
    pub fn with_look_up_timeout(mut self, limit: Duration) -> Self {
        self.settings.look_up_limit = limit;
        self
    }

    /// How long a caller waits for a list (default 5 s).
    pub fn with_choose_timeout(mut self, limit: Duration) -> Self {
        self.settings.choose_timeout = limit;
        self
    }

    /// How long a caller waits for the first instance of a service that has none (default zero: an error at once).
    pub fn with_wait_for_instances(mut self, limit: Duration) -> Self {
        self.settings.wait_for_instances = limit;
        self
    }

    /// The wait after a failed look-up, and after a call that could not be sent: `min` doubling to `max` (default 1 s to
    /// 30 s).
    pub fn with_back_off(mut self, min: Duration, max: Duration) -> Self {
        self.settings.back_off = BackOff { min, max };
        self
    }

    /// Where background work runs (default: on the runtime of the caller that starts it). For a server with a runtime per
    /// thread, inject the one that lives longest.
    pub fn with_runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Makes chance repeat: random starts, draws and jitter (default: from the thread's generator).
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The chain.
    ///
    /// # Errors
    /// [`BuildError`] with the reason: no base or two of them, a base of another service, a stage that cannot work
    /// (`max-share` below 1, a route without a source), a name that is none, two request stages of one name, a limit of
    /// zero.
    pub fn build(self) -> Result<Supplier, BuildError> {
        let service = self.service.map_err(|error| BuildError::new("?", error.to_string()))?;
        let refuse = |why: String| BuildError::new(service.as_str(), why);
        if let Some(why) = self.refused {
            return Err(refuse(why));
        }
        if self.bases > 1 {
            return Err(refuse(format!("{} bases are given, but lists come from one place", self.bases)));
        }
        let base: Arc<dyn ServiceInstanceListSupplier> = match self.base {
            None => return Err(refuse("it has no base: where do the lists come from?".to_owned())),
            Some(Base::Client(client)) => Arc::new(DiscoverySupplier::new(service.clone(), client)),
            Some(Base::Own(base)) if *base.service_id() != service => {
                return Err(refuse(format!("its base supplies service {:?}", base.service_id())));
            }
            Some(Base::Own(base)) => base,
        };
        let mut settings = self.settings;
        settings.hard_age = self.hard_age.unwrap_or(settings.ttl.saturating_mul(2));
        settings.stale_bound = match self.stale {
            Staleness::Unbounded => None,
            Staleness::For(bound) => Some(bound),
            // Not past the age at which callers would wait anyway.
            Staleness::Off => Some(settings.hard_age),
        };
        for (name, limit) in
            [("service-discovery.timeout", settings.look_up_limit), ("backoff.min", settings.back_off.min)]
        {
            if limit.is_zero() {
                return Err(refuse(format!("{name} is zero, so that no look-up could ever succeed")));
            }
        }
        if settings.caching && settings.hard_age < settings.ttl {
            return Err(refuse("cache.hard-age is below cache.ttl".to_owned()));
        }
        let own_zone = self.zone.as_ref().and_then(ZonePreference::zone).map(str::to_owned).or(self.own_zone);
        let mut lists = self.lists;
        if let Some(check) = self.health {
            lists.push(Arc::new(HealthStage::new(check)));
        }
        if let Some(zone) = self.zone {
            zone.check().map_err(|why| refuse(format!("zone preference: {why}")))?;
            lists.push(Arc::new(zone));
        }
        if let Some(stage) =
            lists.iter().find(|stage| matches!(stage.rank(), Rank::Duplicates | Rank::Status))
        {
            return Err(refuse(format!("stage {:?} takes the rank of a built-in one", stage.name())));
        }
        lists.push(Arc::new(Duplicates));
        lists.push(Arc::new(StatusStage));
        let mut requests: Vec<Arc<dyn RequestStage>> = Vec::new();
        if let Some(hint) = self.hint {
            requests.push(Arc::new(hint));
        }
        for route in self.routes {
            route.check().map_err(|why| refuse(format!("metadata route {:?}: {why}", route.name())))?;
            requests.push(Arc::new(route));
        }
        requests.extend(self.requests);
        // Behind the groups: they name one instance of what those leave.
        if let Some(sticky) = self.sticky {
            sticky.check().map_err(|why| refuse(format!("sticky session: {why}")))?;
            requests.push(Arc::new(sticky));
        }
        if self.same_instance {
            requests.push(Arc::new(SameInstance::default()));
        }
        for (at, stage) in requests.iter().enumerate() {
            if requests[..at].iter().any(|other| other.name() == stage.name()) {
                return Err(refuse(format!("two request stages are called {:?}", stage.name())));
            }
        }
        let chain = Chain::new(lists, requests, self.weights).in_zone(own_zone.as_deref());
        let (runtime, seed) = (self.runtime, self.seed);
        Ok(Supplier { base, chain, settings, runtime, seed, streams: Streams::default() })
    }
}

impl From<&str> for ZonePreference {
    fn from(zone: &str) -> Self {
        Self::new(zone)
    }
}

impl From<String> for ZonePreference {
    fn from(zone: String) -> Self {
        Self::new(zone)
    }
}

impl fmt::Debug for SupplierBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SupplierBuilder").field("service", &self.service).finish_non_exhaustive()
    }
}
