use crate::balancer::LoadBalancer;
use crate::discovery::SimpleDiscovery;
use crate::policy::Policy;
use crate::supplier::SupplierBuilder;

use super::SERVICE;

/// A client of the simulated service, for which a balancer is built.
///
/// ```
/// use evenkeel::policy::LeastRequest;
/// use evenkeel::sim::{Server, Simulation};
/// use evenkeel::LoadBalancer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let zones = Simulation::new(Server::in_zones(9, ["a", "b", "c"])).with_clients(3);
/// let zones = zones.with_duration(std::time::Duration::from_secs(2));
/// let report = zones.run_with(|client| {
///     let zone = client.zone().unwrap_or_default();
///     let supplier = client.chain().with_zone_preference(zone).build()?;
///     Ok(LoadBalancer::builder(supplier).policy(LeastRequest).build())
/// })?;
/// assert!(report.cross_zone_share() < 0.001);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Client {
    pub(super) index: usize,
    pub(super) zone: Option<String>,
    pub(super) seed: u64,
    pub(super) discovery: SimpleDiscovery,
    pub(super) weighted: bool,
}

impl Client {
    /// Its number, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Its zone: the clients are in the zones of the servers in turn. `None` if no server has one.
    pub fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    /// A seed that no other client has, and every run has again.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The registry that lists the servers, under the name [`SERVICE`].
    pub fn discovery(&self) -> SimpleDiscovery {
        self.discovery.clone()
    }

    /// A chain over the registry, seeded, and with weights if any server has one.
    pub fn chain(&self) -> SupplierBuilder {
        let chain =
            SupplierBuilder::new(SERVICE).with_discovery_client(self.discovery()).with_seed(self.seed);
        if self.weighted { chain.with_weights() } else { chain }
    }

    /// A balancer over [`chain`](Self::chain).
    ///
    /// # Panics
    /// Never: the chain is one that can be built.
    pub fn balancer(&self, policy: impl Policy) -> LoadBalancer {
        let supplier = self.chain().build().expect("a chain over a source in code");
        LoadBalancer::builder(supplier).policy(policy).build()
    }
}
