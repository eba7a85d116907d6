use std::fmt;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use super::LoadBalancer;
use super::board::Board;
use super::calls::CallSettings;
use super::load_balancer::Handle;
use super::pre_connection::{Connector, PreConnect};
use super::why::Ring;
use crate::config::{
    OutlierDetectionProperties, PreConnectionProperties, RetryProperties, SlowStartProperties,
    StatsProperties, XForwardedProperties,
};
use crate::observe::{Lifecycle, Lifecycles};
use crate::policy::{Policy, RoundRobin};
use crate::state::{ServiceState, Sink};
use crate::supplier::driver::Driver;
use crate::supplier::{Chained, Hub, StickySession, Supplier};
use crate::wall::WallClock;

/// Builds a [`LoadBalancer`].
///
/// Defaults: [`RoundRobin`] from a random start, chance from the thread.
#[must_use]
pub struct LoadBalancerBuilder {
    supplier: Supplier,
    policy: Arc<dyn Policy>,
    allow_downgrade: bool,
    calls: CallSettings,
    lifecycles: Vec<Arc<dyn Lifecycle>>,
    wall: WallClock,
}

impl LoadBalancerBuilder {
    pub(super) fn new(supplier: Supplier) -> Self {
        Self {
            supplier,
            policy: Arc::new(RoundRobin::default()),
            allow_downgrade: false,
            calls: CallSettings::default(),
            lifecycles: Vec::new(),
            wall: WallClock::default(),
        }
    }

    /// What decides among the instances (default: round robin).
    pub fn policy(mut self, policy: impl Policy) -> Self {
        self.policy = Arc::new(policy);
        self
    }

    /// A policy that is shared already.
    pub fn policy_arc(mut self, policy: Arc<dyn Policy>) -> Self {
        self.policy = policy;
        self
    }

    /// Whether an `https` request may go to an instance that says `secure: false` (default: it may not).
    pub fn allow_downgrade(mut self, yes: bool) -> Self {
        self.allow_downgrade = yes;
        self
    }

    /// Retries of calls through [`call`](crate::call::call) and the clients (default: one next instance for safe methods;
    /// see [`RetryProperties`]).
    pub fn retry(mut self, retry: RetryProperties) -> Self {
        self.calls.retry = retry;
        self
    }

    /// Takes out instances that calls show to be bad (default: none).
    ///
    /// ```
    /// use evenkeel::config::OutlierDetectionProperties;
    /// use evenkeel::{LoadBalancer, ServiceInstance, SupplierBuilder};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let list = [ServiceInstance::new("10.0.0.1", 8080)?, ServiceInstance::new("10.0.0.2", 8080)?];
    /// let orders = LoadBalancer::builder(SupplierBuilder::new("orders").with_instances(list).build()?)
    ///     .outlier_detection(OutlierDetectionProperties::on())
    ///     .build();
    /// # Ok(()) }
    /// ```
    pub fn outlier_detection(mut self, detection: OutlierDetectionProperties) -> Self {
        self.calls.outlier_detection = detection;
        self
    }

    /// Gives an instance that comes into use less than its share at first (default: its share at once).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use evenkeel::config::SlowStartProperties;
    /// use evenkeel::{LoadBalancer, ServiceInstance, SupplierBuilder};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let list = [ServiceInstance::new("10.0.0.1", 8080)?];
    /// let orders = LoadBalancer::builder(SupplierBuilder::new("orders").with_instances(list).build()?)
    ///     .slow_start(SlowStartProperties::default().with_window(Duration::from_secs(60)))
    ///     .build();
    /// # Ok(()) }
    /// ```
    pub fn slow_start(mut self, slow_start: SlowStartProperties) -> Self {
        self.calls.slow_start = slow_start;
        self
    }

    /// Connects new instances before they get calls (default: not at all). What is opened is a connection of TCP, unless
    /// [`pre_connect`](Self::pre_connect) says what else.
    ///
    /// ```
    /// use evenkeel::config::PreConnectionProperties;
    /// use evenkeel::{LoadBalancer, ServiceInstance, SupplierBuilder};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let list = [ServiceInstance::new("10.0.0.1", 8080)?];
    /// let orders = LoadBalancer::builder(SupplierBuilder::new("orders").with_instances(list).build()?)
    ///     .pre_connection(PreConnectionProperties::on())
    ///     .build();
    /// # Ok(()) }
    /// ```
    pub fn pre_connection(mut self, properties: PreConnectionProperties) -> Self {
        self.calls.pre_connection.properties = properties;
        self
    }

    /// What opens the connections, if [`pre_connection`](Self::pre_connection) switches that on (default: TCP alone).
    pub fn pre_connect(mut self, connect: impl PreConnect) -> Self {
        self.calls.pre_connection.connector = Connector::Code(Arc::new(connect));
        self
    }

    /// One more processor that hears of the life of calls (default: none).
    pub fn lifecycle(self, lifecycle: impl Lifecycle) -> Self {
        self.lifecycle_arc(Arc::new(lifecycle))
    }

    /// One that is shared already.
    pub fn lifecycle_arc(mut self, lifecycle: Arc<dyn Lifecycle>) -> Self {
        self.lifecycles.push(lifecycle);
        self
    }

    /// What is measured (default: nothing). It needs the feature `metrics`; install the recorder of your exporter first, and
    /// see `LoadBalancer::collector`.
    pub fn stats(mut self, stats: StatsProperties) -> Self {
        self.calls.stats = stats;
        self
    }

    /// The headers by which a client tells an instance the logical address (default: none).
    pub fn x_forwarded(mut self, headers: XForwardedProperties) -> Self {
        self.calls.x_forwarded = headers;
        self
    }

    /// The cookie by which a client tells an instance that it was chosen (default: none).
    pub fn instance_cookie(mut self, cookie: StickySession) -> Self {
        self.calls.instance_cookie = Some(cookie);
        self
    }

    /// The clock on the wall, for the dates in reports and of overrides (default: the system's). Nothing else looks at it.
    pub fn wall_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.wall = WallClock::of(clock);
        self
    }

    pub(super) fn wall(mut self, clock: WallClock) -> Self {
        self.wall = clock;
        self
    }

    pub(super) fn calls(mut self, calls: CallSettings) -> Self {
        self.calls = calls;
        self
    }

    /// The balancer. Nothing happens before it is asked.
    pub fn build(self) -> LoadBalancer {
        let Supplier { base, chain, settings, runtime, seed, .. } = self.supplier;
        let service = Arc::new(ServiceState::seeded(base.service_id().clone(), seed));
        service.configure(self.allow_downgrade, settings.back_off);
        service.set_wall(self.wall);
        let mut calls = self.calls;
        if !self.lifecycles.is_empty() {
            calls.lifecycles = Lifecycles::of(service.id(), &self.lifecycles);
        }
        let board = Board::new(Arc::clone(&service), chain.clone(), self.policy, calls, seed);
        let driver = Arc::new(Driver::new(base, settings, runtime, seed, board));
        let sink: Weak<dyn Sink> = Arc::downgrade(&driver) as Weak<dyn Sink>;
        service.set_sink(sink);
        chain.attach(&Hub::new(Arc::downgrade(&driver) as Weak<dyn Chained>));
        let ring = Ring::new(&driver);
        driver.publish.overrides.set_ring(&ring);
        LoadBalancer { core: Arc::new(Handle { driver, ring }) }
    }
}

impl fmt::Debug for LoadBalancerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadBalancerBuilder").field("policy", &self.policy).finish_non_exhaustive()
    }
}
