//! A chain as properties describe it.

use super::SupplierBuilder;
use super::stages::{
    ApiVersion, HintStage, MetadataRoute, Source, StickySession, Subset, WeightsStage, ZonePreference,
};
use crate::config::{
    ApiVersionProperties, HealthCheckProperties, LoadBalancerProperties, MetadataRouteProperties, ProbeName,
    StageName, SubsetProperties, UnknownGroup, ZeroWeight, hash_source,
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
            zone = zone
                .with_mode(p.zone_preference.mode)
                .with_min_cluster_size(p.zone_preference.min_cluster_size as usize);
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
        if p.configurations.contains(&StageName::Subset) {
            self.subset = Some(subset(&p.subset));
        }
        if p.configurations.contains(&StageName::ApiVersion) {
            self.api_version = Some(api_version(&p.api_version));
        }
        for route in &p.routing {
            match metadata_route(route) {
                Ok(stage) => self.routes.push(stage),
                Err(why) => self.refused = Some(why),
            }
        }
        if !p.zone_preference.weights.is_empty() {
            self = self.with_zone_weights(p.zone_preference.weights.clone());
        }
        if p.configurations.contains(&StageName::Priority) {
            self = self.with_priorities();
        }
        if let Some(service) = &p.own_service_id {
            self = self.with_own_service_id(service);
        }
        self = self
            .with_panic_threshold(p.panic_threshold)
            .with_overprovisioning_factor(p.overprovisioning_factor);
        self.settings.guard_watch = p.empty_guard_for_watch;
        self.settings.empty_life = p.empty_life;
        self.with_caching(p.caching())
            .with_stale_if_error(p.stale_if_error)
            .with_empty_guard(p.empty_guard)
            .with_look_up_timeout(p.service_discovery.timeout)
            .with_choose_timeout(p.choose_timeout)
            .with_wait_for_instances(p.wait_for_instances)
            .with_back_off(p.backoff.min, p.backoff.max())
    }
}

fn subset(p: &SubsetProperties) -> Subset {
    let subset = Subset::of_size(p.size as usize).with_algorithm(p.algorithm);
    let subset = subset.with_client(p.instance_id.as_deref().unwrap_or_default());
    match p.ordinal {
        Some(ordinal) => subset.with_ordinal(ordinal),
        None => subset,
    }
}

fn api_version(p: &ApiVersionProperties) -> ApiVersion {
    let mut stage = ApiVersion::default()
        .with_required(p.required)
        .with_fallback(p.fallback_to_available_instances)
        .with_matching(p.matching);
    if let Some(version) = &p.default {
        stage = stage.with_default(version);
    }
    if let Some(name) = &p.header {
        stage = stage.with_header(name);
    }
    if let Some(name) = &p.query_parameter {
        stage = stage.with_query_parameter(name);
    }
    if let Some(at) = p.path_segment {
        stage = stage.with_path_segment(at);
    }
    for (media_type, name) in &p.media_type_parameters {
        stage = stage.with_media_type_parameter(media_type, name);
    }
    stage
}

fn metadata_route(p: &MetadataRouteProperties) -> Result<MetadataRoute, String> {
    let mut stage = MetadataRoute::by(p.metadata.as_str());
    if let Some(name) = &p.header {
        stage = stage.header(name);
    }
    if let Some(name) = &p.cookie {
        stage = stage.cookie(name);
    }
    if let Some(name) = &p.query {
        stage = stage.query(name);
    }
    for (group, percent) in &p.percent {
        stage = stage.with_percent(group, *percent);
    }
    if let Some(text) = &p.hash {
        let source = match hash_source(text) {
            Some(("header", name)) => Source::Header(name.to_owned()),
            Some(("cookie", name)) => Source::Cookie(name.to_owned()),
            Some((_, name)) => Source::Query(name.to_owned()),
            None => {
                return Err(format!(
                    "routing by {:?}: hash is {text:?}: header:<name>, cookie:<name> or query:<name> is expected",
                    p.metadata
                ));
            }
        };
        // Without a percentage nobody asks for it.
        if !p.percent.is_empty() {
            stage = stage.with_hash(source);
        }
    }
    stage = stage.with_fallback(p.fallback.iter().cloned());
    Ok(stage.or_nothing(p.unknown == UnknownGroup::Nothing))
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
