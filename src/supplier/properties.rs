//! A chain as properties describe it.

use super::SupplierBuilder;
use super::stages::{HintStage, MetadataRoute, StickySession, WeightsStage, ZonePreference};
use crate::config::{
    HealthCheckProperties, LoadBalancerProperties, ProbeName, StageName, UnknownGroup, ZeroWeight,
};
use crate::health::{HealthCheck, TcpProbe};

impl SupplierBuilder {
    /// Everything that properties say of this service: stages, caching, limits.
    pub fn with_properties(mut self, properties: &LoadBalancerProperties) -> Self {
        let p = properties;
        let weighted = p.configurations.contains(&StageName::Weighted);
        self.weights = if weighted { WeightsStage::on() } else { WeightsStage::off() }
            .zero_as_one(p.weight.zero == ZeroWeight::One)
            .with_metadata_key(p.weight.metadata_key.as_str());
        self.own_zone.clone_from(&p.zone);
        if p.configurations.contains(&StageName::ZonePreference) {
            let mut zone = ZonePreference::new(p.zone.clone().unwrap_or_default())
                .with_min_local_instances(p.zone_preference.min_local_instances as usize);
            if let Some(share) = p.zone_preference.max_share {
                zone = zone.with_max_share(share);
            }
            self.zone = Some(zone);
        }
        if p.configurations.contains(&StageName::Hint) || p.hint.is_some() {
            let stage = HintStage::default().with_header(p.hint_header_name.as_str());
            self.hint = Some(match &p.hint {
                Some(hint) => stage.with_default(hint.as_str()),
                None => stage,
            });
        }
        if p.configurations.contains(&StageName::StickySession) {
            self.sticky = Some(StickySession::of(&p.sticky_session));
        }
        self.same_instance |= p.configurations.contains(&StageName::SameInstance);
        if p.configurations.contains(&StageName::HealthCheck) {
            self.health = match health_check(&p.health_check) {
                Ok(check) => check,
                Err(why) => {
                    self.refused = Some(why);
                    None
                }
            };
        }
        for route in &p.routing {
            let mut stage = MetadataRoute::by(route.metadata.as_str());
            if let Some(name) = &route.header {
                stage = stage.header(name);
            }
            if let Some(name) = &route.cookie {
                stage = stage.cookie(name);
            }
            if let Some(name) = &route.query {
                stage = stage.query(name);
            }
            stage = stage.with_fallback(route.fallback.iter().cloned());
            self.routes.push(stage.or_nothing(route.unknown == UnknownGroup::Nothing));
        }
        self.settings.guard_watch = p.empty_guard_for_watch;
        self.settings.empty_life = p.empty_life;
        self.with_caching(p.cache.clone())
            .with_stale_if_error(p.stale_if_error)
            .with_empty_guard(p.empty_guard)
            .with_look_up_timeout(p.service_discovery.timeout)
            .with_choose_timeout(p.choose_timeout)
            .with_wait_for_instances(p.wait_for_instances)
            .with_back_off(p.backoff.min, p.backoff.max())
    }
}

/// The checks that properties ask for; `None` when a blank path switches them off.
fn health_check(p: &HealthCheckProperties) -> Result<Option<HealthCheck>, String> {
    let check = match p.probe {
        ProbeName::Tcp => HealthCheck::new(match p.port {
            Some(port) => TcpProbe::default().with_port(port),
            None => TcpProbe::default(),
        }),
        _ if p.path.trim().is_empty() => return Ok(None),
        _ => http_check(p)?,
    };
    let check = check.with_initial_delay(p.initial_delay).with_interval(p.interval).with_timeout(p.timeout);
    let check = check.with_rise(p.rise).with_fall(p.fall).with_fail_open(p.fail_open);
    Ok(Some(check.with_concurrency(p.concurrency as usize).with_repeat(p.repeat_health_check)))
}

#[cfg(feature = "reqwest")]
fn http_check(p: &HealthCheckProperties) -> Result<HealthCheck, String> {
    let probe =
        crate::health::HttpProbe::new(p.path.trim()).map_err(|error| format!("health-check: {error}"))?;
    Ok(HealthCheck::new(match p.port {
        Some(port) => probe.with_port(port),
        None => probe,
    }))
}

#[cfg(not(feature = "reqwest"))]
fn http_check(_: &HealthCheckProperties) -> Result<HealthCheck, String> {
    Err("health-check.probe: http needs the feature `reqwest`; tcp needs none".to_owned())
}
