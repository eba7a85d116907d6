//! Balancers of addresses that no registry lists.

use super::super::{CallSettings, LoadBalancer, LoadBalancerBuilder};
use super::LoadBalancers;
use crate::config::LoadBalancerProperties;
use crate::supplier::{FixedSupplier, Supplier};
use crate::{ServiceId, ServiceInstance};

impl LoadBalancers {
    /// A balancer of one address, with what the properties in force say of calls to any service. It is none of these: it
    /// lives as long as somebody has it, and [`follow`](Self::follow) takes it to other properties.
    pub(crate) fn of_address(&self, id: &ServiceId, instance: ServiceInstance) -> LoadBalancer {
        let properties = self.properties(id);
        let (supplier, calls) = self.address(id, instance, &properties);
        LoadBalancerBuilder::new(supplier)
            .allow_downgrade(properties.allow_downgrade)
            .calls(calls)
            .wall(self.inner.recipe.wall.clone())
            .build()
    }

    /// Takes the balancer of an address to the properties that are in force now; its state stays.
    pub(crate) fn follow(&self, balancer: &LoadBalancer, instance: ServiceInstance) {
        let properties = self.properties(balancer.service_id());
        let (supplier, calls) = self.address(balancer.service_id(), instance, &properties);
        let policy = balancer.core.driver.publish.policy();
        balancer.reconfigure(supplier, policy, properties.allow_downgrade, calls);
    }

    /// A list of one has nothing to narrow or to probe, and nobody to come back to by a cookie.
    fn address(
        &self,
        id: &ServiceId,
        instance: ServiceInstance,
        properties: &LoadBalancerProperties,
    ) -> (Supplier, CallSettings) {
        let mut supplier = Supplier::plain(FixedSupplier::new(id.clone(), [instance]));
        self.inner.recipe.settle_address(&mut supplier, properties);
        let calls = CallSettings { instance_cookie: None, ..self.inner.recipe.calls(id, properties) };
        (supplier, calls)
    }
}
