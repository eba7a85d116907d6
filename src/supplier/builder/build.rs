//! From what was asked for to a chain that works.

use std::sync::Arc;

use super::super::distribution::{Distribution, OwnFleet, Proportional};
use super::super::driver::Settings;
use super::super::stages::{Duplicates, SameInstance, StatusStage, ZonePreference};
use super::super::stream::Streams;
use super::super::{
    BuildError, Chain, DiscoverySupplier, FixedSupplier, HealthStage, ListStage, Rank, RequestStage,
    ServiceInstanceListSupplier, Supplier,
};
use super::{Base, DistributionSettings, SupplierBuilder};
use crate::ServiceId;
use crate::config::{Staleness, ZoneMode};

impl SupplierBuilder {
    /// The chain.
    ///
    /// # Errors
    /// [`BuildError`] with the reason: no base or two of them, a base of another service, a stage that cannot work
    /// (`max-share` below 1, a route without a source, percentages above 100, an API version that no request could name, a
    /// subset of nobody, zone weights without any above 0, a threshold above 100), a name that is none, two request stages of one name, a limit of zero.
    pub fn build(mut self) -> Result<Supplier, BuildError> {
        let service = self.service.clone().map_err(|error| BuildError::new("?", error.to_string()))?;
        let refuse = |why: String| BuildError::new(service.as_str(), why);
        if let Some(why) = self.refused.take() {
            return Err(refuse(why));
        }
        let fleet = self.fleet().map_err(refuse)?;
        let base = self.base(&service).map_err(refuse)?;
        let settings = self.settings().map_err(refuse)?;
        let own_zone = self
            .zone
            .as_ref()
            .and_then(ZonePreference::zone)
            .map(str::to_owned)
            .or_else(|| self.own_zone.take());
        let distribution = self.distribution(fleet).map_err(refuse)?;
        let lists = self.list_stages(&service).map_err(refuse)?;
        let requests = self.request_stages().map_err(refuse)?;
        let (runtime, seed) = (self.runtime, self.seed);
        let distribution = distribution.map(|settings| Distribution::new(settings, runtime.clone()));
        let chain =
            Chain::new(lists, requests, self.weights).in_zone(own_zone.as_deref()).distributed(distribution);
        Ok(Supplier { base, chain, settings, runtime, seed, streams: Streams::default() })
    }

    /// The clients of this service, as far as it is said who they are.
    fn fleet(&mut self) -> Result<Option<OwnFleet>, String> {
        let proportional = self.zone.as_ref().is_some_and(|zone| zone.mode() == ZoneMode::Proportional);
        match (self.division.fleet.take(), self.division.service.take(), &self.base) {
            (Some(fleet), ..) => Ok(Some(fleet)),
            (None, Some(service), Some(Base::Client(client))) if proportional => {
                let fleet = OwnFleet::looked_up(&service, Arc::clone(client));
                fleet.map(Some).map_err(|error| format!("own-service-id: {}", error.reason()))
            }
            _ => Ok(None),
        }
    }

    /// How traffic is divided, if weights are not all there is to it.
    fn distribution(&mut self, fleet: Option<OwnFleet>) -> Result<Option<DistributionSettings>, String> {
        let mut settings = std::mem::take(&mut self.division.settings);
        // It is no stage then: it makes weights.
        if let Some(zone) = self.zone.take_if(|zone| zone.mode() == ZoneMode::Proportional) {
            zone.check().map_err(|why| format!("zone preference: {why}"))?;
            settings.proportional = Some(Proportional {
                own: zone.zone().map(str::to_owned),
                addresses: zone.local_addresses(),
                min_cluster_size: zone.min_cluster_size(),
                fleet,
            });
        }
        settings.check()?;
        Ok(settings.is_on().then_some(settings))
    }

    fn base(&mut self, service: &ServiceId) -> Result<Arc<dyn ServiceInstanceListSupplier>, String> {
        if self.bases > 1 {
            return Err(format!("{} bases are given, but lists come from one place", self.bases));
        }
        Ok(match self.base.take() {
            None => return Err("it has no base: where do the lists come from?".to_owned()),
            Some(Base::Client(client)) => Arc::new(DiscoverySupplier::new(service.clone(), client)),
            Some(Base::Own(base)) if base.service_id() != service => {
                return Err(format!("its base supplies service {:?}", base.service_id()));
            }
            Some(Base::Own(base)) => base,
            Some(Base::Fixed(list)) => Arc::new(FixedSupplier::new(service.clone(), list)),
        })
    }

    fn settings(&self) -> Result<Settings, String> {
        let mut settings = self.settings.clone();
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
                return Err(format!("{name} is zero, so that no look-up could ever succeed"));
            }
        }
        if settings.caching && settings.hard_age < settings.ttl {
            return Err("cache.hard-age is below cache.ttl".to_owned());
        }
        Ok(settings)
    }

    fn list_stages(&mut self, service: &ServiceId) -> Result<Vec<Arc<dyn ListStage>>, String> {
        let mut lists = std::mem::take(&mut self.lists);
        if let Some(check) = self.health.take() {
            lists.push(Arc::new(HealthStage::new(check)));
        }
        if let Some(zone) = self.zone.take() {
            zone.check().map_err(|why| format!("zone preference: {why}"))?;
            lists.push(Arc::new(zone));
        }
        if let Some(subset) = self.subset.take() {
            subset.check().map_err(|why| format!("subset: {why}"))?;
            lists.push(Arc::new(subset.identified(service, self.seed)));
        }
        if let Some(stage) =
            lists.iter().find(|stage| matches!(stage.rank(), Rank::Duplicates | Rank::Status))
        {
            return Err(format!("stage {:?} takes the rank of a built-in one", stage.name()));
        }
        lists.push(Arc::new(Duplicates));
        lists.push(Arc::new(StatusStage));
        Ok(lists)
    }

    fn request_stages(&mut self) -> Result<Vec<Arc<dyn RequestStage>>, String> {
        let mut requests: Vec<Arc<dyn RequestStage>> = Vec::new();
        // First: it is a must, where the others are wishes inside what it leaves.
        if let Some(versions) = self.api_version.take() {
            versions.check().map_err(|why| format!("API version: {why}"))?;
            requests.push(Arc::new(versions));
        }
        if let Some(hint) = self.hint.take() {
            requests.push(Arc::new(hint));
        }
        for route in std::mem::take(&mut self.routes) {
            route.check().map_err(|why| format!("metadata route {:?}: {why}", route.name()))?;
            // Another sequence for each, so that two routes do not draw alike.
            let seed = self.seed.map(|seed| seed.wrapping_add(1 + requests.len() as u64));
            requests.push(Arc::new(match seed {
                Some(seed) => route.seeded(seed),
                None => route,
            }));
        }
        requests.append(&mut self.requests);
        // Behind the groups: they name one instance of what those leave.
        if let Some(sticky) = self.sticky.take() {
            sticky.check().map_err(|why| format!("sticky session: {why}"))?;
            requests.push(Arc::new(sticky));
        }
        if self.same_instance {
            requests.push(Arc::new(SameInstance::default()));
        }
        for (at, stage) in requests.iter().enumerate() {
            if requests[..at].iter().any(|other| other.name() == stage.name()) {
                return Err(format!("two request stages are called {:?}", stage.name()));
            }
        }
        Ok(requests)
    }
}
