use std::fmt;
use std::sync::Weak;
use std::time::Duration;

/// Who has meters to publish: a balancer, or many.
pub(crate) trait Measured: Send + Sync {
    /// Hands everything to the recorder.
    fn publish(&self);
}

/// Hands the meters of a [`LoadBalancer`](crate::LoadBalancer), or of all [`LoadBalancers`](crate::LoadBalancers), to the
/// recorder of the facade `metrics`.
///
/// The times of attempts are recorded as they end. Everything else, gauges and the counts of picks, is set by
/// [`publish`](Self::publish), and when a list changes. So call it before each scrape, or let [`run`](Self::run) do it. It
/// does not keep the balancers alive. The [guide](crate::guide::observing) has the meters.
///
/// ```
/// use evenkeel::config::StatsProperties;
/// use evenkeel::{LoadBalancer, ServiceInstance, SupplierBuilder, discovery::SimpleDiscovery};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Before that: the recorder of an exporter is installed.
/// let chain = SupplierBuilder::new("orders").with_discovery_client(SimpleDiscovery::new()).build()?;
/// let orders = LoadBalancer::builder(chain).stats(StatsProperties::default().with_enabled(true)).build();
/// let collector = orders.collector();
/// collector.publish(); // before a scrape
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
pub struct Collector(Weak<dyn Measured>);

impl Collector {
    pub(crate) fn new(measured: Weak<dyn Measured>) -> Self {
        Self(measured)
    }

    /// Hands everything to the recorder; false once the balancers are gone.
    ///
    /// It walks over the instances of each service that is measured, under the lock that updates of its list take, never
    /// one that a pick takes.
    pub fn publish(&self) -> bool {
        self.0.upgrade().is_some_and(|measured| {
            measured.publish();
            true
        })
    }

    /// Publishes now and after each `every`, until the balancers are gone: for an exporter that cannot be asked to call
    /// [`publish`](Self::publish) first. Spawn it, with half the interval of the scrapes, say.
    pub async fn run(self, every: Duration) {
        while self.publish() {
            tokio::time::sleep(every).await;
        }
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").field("alive", &(self.0.strong_count() > 0)).finish()
    }
}
