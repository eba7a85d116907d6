mod build;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::distribution::Settings as DistributionSettings;
use super::driver::Settings;
use super::stages::{
    ApiVersion, HintStage, MetadataRoute, StickySession, Subset, WeightsStage, ZonePreference,
};
use super::{ListStage, OwnFleet, RequestStage, ServiceInstanceListSupplier};
use crate::config::{CacheProperties, Refresh, Staleness};
use crate::discovery::DiscoveryClient;
use crate::health::HealthCheck;
use crate::state::BackOff;
use crate::{InvalidServiceId, ServiceId, ServiceInstance};

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
    pub(super) division: Box<Division>,
    /// Where this client stands, also without a preference.
    pub(super) own_zone: Option<String>,
    pub(super) health: Option<HealthCheck>,
    pub(super) sticky: Option<StickySession>,
    pub(super) same_instance: bool,
    pub(super) subset: Option<Subset>,
    pub(super) api_version: Option<ApiVersion>,
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

/// How traffic is to be divided, and by whom.
#[derive(Default)]
pub(super) struct Division {
    pub(super) settings: DistributionSettings,
    pub(super) fleet: Option<OwnFleet>,
    pub(super) service: Option<String>,
}

enum Base {
    Client(Arc<dyn DiscoveryClient>),
    Own(Arc<dyn ServiceInstanceListSupplier>),
    Fixed(Vec<ServiceInstance>),
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
            division: Box::default(),
            own_zone: None,
            health: None,
            sticky: None,
            same_instance: false,
            subset: None,
            api_version: None,
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

    /// This list, which never changes.
    ///
    /// ```
    /// use evenkeel::{ServiceInstance, SupplierBuilder};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let list = [ServiceInstance::new("10.0.0.1", 8080)?, ServiceInstance::new("10.0.0.2", 8080)?];
    /// let supplier = SupplierBuilder::new("orders").with_instances(list).build()?;
    /// # Ok(()) }
    /// ```
    pub fn with_instances(mut self, instances: impl IntoIterator<Item = ServiceInstance>) -> Self {
        self.base = Some(Base::Fixed(instances.into_iter().collect()));
        self.bases += 1;
        self
    }

    /// Instances of the own zone first; a zone's name, or a [`ZonePreference`] with its guards.
    pub fn with_zone_preference(mut self, zone: impl Into<ZonePreference>) -> Self {
        self.zone = Some(zone.into());
        self
    }

    /// The clients of this service by zone, for a [`ZonePreference`] in proportion.
    pub fn with_own_fleet(mut self, fleet: OwnFleet) -> Self {
        self.division.fleet = Some(fleet);
        self
    }

    /// The same by the name of the service that this process is an instance of: looked up in the chain's registry. A fleet
    /// that is given counts for more.
    pub fn with_own_service_id(mut self, service: impl AsRef<str>) -> Self {
        let service = service.as_ref().trim();
        self.division.service = (!service.is_empty()).then(|| service.to_owned());
        self
    }

    /// What each zone gets, whatever the own zone is, as long as its usable instances can take it: a weight is lowered where
    /// fewer than 1 / [factor](Self::with_overprovisioning_factor) of the zone's instances are usable. Zones that are not
    /// named get nothing while a named one has a usable instance.
    ///
    /// ```
    /// use evenkeel::{ServiceInstance, SupplierBuilder};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let supplier = SupplierBuilder::new("orders")
    ///     .with_instances([ServiceInstance::new("10.0.0.1", 8080)?])
    ///     .with_zone_weights([("eu-1a", 3), ("eu-1b", 1)])
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    pub fn with_zone_weights(mut self, weights: impl IntoIterator<Item = (impl Into<String>, u32)>) -> Self {
        self.division.settings.weigh_zones(weights.into_iter().map(|(zone, weight)| (zone.into(), weight)));
        self
    }

    /// [`ServiceInstance::priority`] counts: the first priority takes the traffic as long as its usable instances can, and
    /// the next ones what is too much for it. Off by default.
    pub fn with_priorities(mut self) -> Self {
        self.division.settings.priorities = true;
        self
    }

    /// How many times its part a priority's or a zone's usable instances can take (default 1.4, as in Envoy: with 72 % of
    /// them usable all is well); 1 to 100.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates; checked when it is built
    pub fn with_overprovisioning_factor(mut self, factor: f64) -> Self {
        self.division.settings.factor = (factor * 100.0).round() as u64;
        self
    }

    /// Below this share of usable instances, in percent, all are used that are not down by their registry, since a verdict
    /// on most of a fleet is more likely wrong than right; by priority, where those count. 0, the default, is never, but when
    /// none passes its health check.
    pub fn with_panic_threshold(mut self, percent: u8) -> Self {
        self.division.settings.threshold = u64::from(percent);
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

    /// A part of the list for this client: a size, or a [`Subset`] with what is known of the client.
    ///
    /// ```
    /// use evenkeel::SupplierBuilder;
    /// use evenkeel::discovery::SimpleDiscovery;
    /// use evenkeel::supplier::Subset;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let supplier = SupplierBuilder::new("orders")
    ///     .with_discovery_client(SimpleDiscovery::new())
    ///     .with_subset(Subset::of_size(20).with_ordinal(3))
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    pub fn with_subset(mut self, subset: impl Into<Subset>) -> Self {
        self.subset = Some(subset.into());
        self
    }

    /// Only instances of the API version that a request asks for.
    ///
    /// ```
    /// use evenkeel::SupplierBuilder;
    /// use evenkeel::discovery::SimpleDiscovery;
    /// use evenkeel::supplier::ApiVersion;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let supplier = SupplierBuilder::new("orders")
    ///     .with_discovery_client(SimpleDiscovery::new())
    ///     .with_api_version(ApiVersion::default().with_header("X-Api-Version"))
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    pub fn with_api_version(mut self, versions: ApiVersion) -> Self {
        self.api_version = Some(versions);
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
