use std::fmt;
#[cfg(feature = "file")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::SystemTime;

use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::super::PreConnect;
use super::map::Map;
use super::recipe::Recipe;
use super::{Inner, LoadBalancers, live};
use crate::config::{LiveProperties, Properties, StatsProperties};
use crate::discovery::{DiscoveryClient, SimpleDiscovery};
use crate::observe::Lifecycle;
use crate::policy::Policy;
use crate::supplier::BuildError;
use crate::wall::WallClock;
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
    /// The same, if its instances come from the properties.
    simple: Option<SimpleDiscovery>,
    /// `None`: the defaults, or what the file that is followed holds.
    live: Option<LiveProperties>,
    follow: bool,
    file: Option<PathBuf>,
    code: Vec<(String, ServiceBuilder)>,
    lifecycles: Vec<Arc<dyn Lifecycle>>,
    stats: Option<StatsProperties>,
    runtime: Option<Handle>,
    seed: Option<u64>,
    wall: WallClock,
}

/// What the code says of one service; it wins over every property.
#[derive(Default)]
#[must_use]
pub struct ServiceBuilder {
    pub(super) chains: Vec<Box<dyn Fn(SupplierBuilder) -> SupplierBuilder + Send + Sync>>,
    pub(super) policy: Option<Arc<dyn Policy>>,
    pub(super) discovery: Option<Arc<dyn DiscoveryClient>>,
    pub(super) connect: Option<Arc<dyn PreConnect>>,
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

    /// What opens connections to new instances, if `pre-connection.enabled` says so (default: the clients that can, and
    /// TCP alone without any; see [`PreConnectionProperties`](crate::config::PreConnectionProperties)).
    pub fn pre_connect(mut self, connect: impl PreConnect) -> Self {
        self.connect = Some(Arc::new(connect));
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
            simple: None,
            live: None,
            follow: false,
            file: None,
            code: Vec::new(),
            lifecycles: Vec::new(),
            stats: None,
            runtime: None,
            seed: None,
            wall: WallClock::default(),
        }
    }

    pub(super) fn configured(properties: Properties) -> Self {
        let simple = SimpleDiscovery::configured(&properties);
        let builder = Self::new(Arc::new(simple.clone())).properties(properties);
        Self { simple: Some(simple), ..builder }
    }

    /// Properties that do not change (default: none, so every default holds).
    pub fn properties(mut self, properties: Properties) -> Self {
        self.live = Some(LiveProperties::new(properties));
        self.follow = false;
        self
    }

    /// Properties that may change: a change is applied to all services, or to none if one of them could not work. What
    /// `properties` hold then is not in force; an error is logged. Calls in flight, states and rotations are not
    /// disturbed, and a service for which nothing changed does not notice. `cache.capacity` and `eager-load` are read at
    /// the start only.
    pub fn live(mut self, properties: LiveProperties) -> Self {
        self.live = Some(properties);
        self.follow = true;
        self
    }

    /// Follows a property file: its changes are applied as those of [`live`](Self::live) are, whole or not at all.
    ///
    /// With [`properties`](Self::properties) or [`live`](Self::live) the file takes the place of their file layer. Without
    /// them [`build`](Self::build) loads it, with the environment, as [`Properties::load`] does.
    #[cfg(feature = "file")]
    #[cfg_attr(docsrs, doc(cfg(feature = "file")))]
    pub fn watch_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
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

    /// One more processor that hears of the life of calls, of every service that it supports (default: none).
    pub fn lifecycle(self, lifecycle: impl Lifecycle) -> Self {
        self.lifecycle_arc(Arc::new(lifecycle))
    }

    /// One that is shared already.
    pub fn lifecycle_arc(mut self, lifecycle: Arc<dyn Lifecycle>) -> Self {
        self.lifecycles.push(lifecycle);
        self
    }

    /// What is measured of every service, whatever the properties say (default: what `stats.enabled` says of each). It needs
    /// the feature `metrics`; install the recorder of your exporter first, and see `LoadBalancers::collector`.
    pub fn stats(mut self, stats: StatsProperties) -> Self {
        self.stats = Some(stats);
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

    /// The clock on the wall, for the dates in reports and of overrides (default: the system's). Nothing else looks at it.
    pub fn wall_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.wall = WallClock::of(clock);
        self
    }

    /// The balancers. Every configured chain is checked now, and services of `eager-load` are looked up behind the caller
    /// if there is a tokio runtime.
    ///
    /// # Errors
    /// [`BuildError`] for the first chain that cannot work, for properties that change without a runtime to follow them
    /// on, and for a followed file that cannot be loaded.
    pub fn build(self) -> Result<LoadBalancers, BuildError> {
        let mut code = Vec::with_capacity(self.code.len());
        for (name, shape) in self.code {
            let id = ServiceId::new(&name).map_err(|error| super::invalid(&name, &error))?;
            code.push((id, shape));
        }
        let live = match self.live {
            Some(live) => live,
            #[cfg(feature = "file")]
            None => LiveProperties::new(initial(self.file.as_deref())?),
            #[cfg(not(feature = "file"))]
            None => LiveProperties::new(Properties::default()),
        };
        let runtime = self.runtime.clone();
        let recipe = Recipe::new(self.discovery, live, code, self.lifecycles, self.runtime, self.seed)?
            .following(self.simple)
            .measuring(self.stats)
            .dated(self.wall);
        let current = Arc::clone(&recipe.in_force.load().properties);
        let global = current.global();
        let inner = Arc::new(Inner {
            map: Map::new(global.cache_capacity),
            recipe,
            closed: AtomicBool::new(false),
            overrides: Mutex::default(),
            overridden: AtomicU64::new(0),
            tasks: Mutex::default(),
        });
        let balancers = LoadBalancers { inner };
        let runtime = runtime.or_else(|| Handle::try_current().ok());
        if self.follow || self.file.is_some() {
            let Some(runtime) = &runtime else {
                let why = "properties that change need a tokio runtime: build inside one, or inject a handle";
                return Err(BuildError::new("*", why.to_owned()));
            };
            let tasks = live::follow(&balancers.inner, runtime, self.file);
            *balancers.inner.tasks.lock() = tasks;
        }
        for name in global.eager_load {
            if !current.effective(&name).enabled {
                continue;
            }
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

/// What holds when the code gives no properties.
#[cfg(feature = "file")]
fn initial(file: Option<&Path>) -> Result<Properties, BuildError> {
    match file {
        Some(path) => Properties::load(path).map_err(|error| BuildError::new("*", error.to_string())),
        None => Ok(Properties::default()),
    }
}
