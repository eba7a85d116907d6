//! The properties there are: their names, where they may stand, and how a value is read into its field.

use super::api_version::ApiVersionMatch;
use super::balancer::{LoadBalancerProperties, trimmed};
use super::cache::Staleness;
use super::choices::{HostHeader, PolicyName, Preset, ProbeName, Refresh, ZeroWeight, ZoneMode};
use super::outlier::OutlierMode;
use super::read::{
    Allowed, a_second_or_more, above_zero, aggression, amount, arguments, at_least_one, entries, factor,
    flag, from_one, header_name, metrics, names_of_services, part, part_percent, percent, percent_of_mean,
    points, port, put, required, retryable, share, span, stages, statuses, tls_name, token_ratio, tokens,
    whole, zone_weights,
};
use super::slow_start::SlowStartCurve;
use super::subset::SubsetAlgorithm;
use std::collections::HashMap;
use std::sync::LazyLock;

/// How a value is read into its field.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    /// One value.
    One(fn(&mut LoadBalancerProperties, &str) -> Result<(), Allowed>),
    /// A list, or a comma list in one text.
    List(fn(&mut LoadBalancerProperties, &[&str]) -> Result<(), Allowed>),
}

/// One property.
pub(crate) struct Property {
    /// Its name below the prefix.
    pub(crate) name: &'static str,
    /// Whether it may only stand globally, not below `clients.<id>`.
    pub(crate) global_only: bool,
    /// How its value is read.
    pub(crate) shape: Shape,
}

const fn one(
    name: &'static str,
    read: fn(&mut LoadBalancerProperties, &str) -> Result<(), Allowed>,
) -> Property {
    Property { name, global_only: false, shape: Shape::One(read) }
}

/// Every property but the [`MAPS`], the one that is [`KEYED`], `routing`, `overrides` and `clients`, which are made of names of their own.
pub(crate) const PROPERTIES: &[Property] = &[
    one("enabled", |to, text| put(&mut to.enabled, flag(text))),
    one("preset", |to, text| put(&mut to.preset, Preset::read(text).ok_or(Preset::ALLOWED))),
    one("policy", |to, text| put(&mut to.policy, PolicyName::of_word(text).ok_or(PolicyName::ALLOWED))),
    one("hash.header", |to, text| put(&mut to.hash.header, header_name(text).map(Some))),
    one("hash.cookie", |to, text| put(&mut to.hash.cookie, required(text).map(Some))),
    one("hash.query", |to, text| put(&mut to.hash.query, required(text).map(Some))),
    one("hash.attribute", |to, text| put(&mut to.hash.attribute, required(text).map(Some))),
    one("hash.path", |to, text| put(&mut to.hash.path, flag(text))),
    one("hash.source", |to, text| put(&mut to.hash.source, flag(text))),
    one("hash.terminal", |to, text| put(&mut to.hash.terminal, flag(text))),
    one("hash.nodes", |to, text| put(&mut to.hash.nodes, points(text))),
    one("hash.min-ring-size", |to, text| put(&mut to.hash.min_ring_size, points(text).map(Some))),
    one("hash.max-ring-size", |to, text| put(&mut to.hash.max_ring_size, points(text))),
    one("hash.table-size", |to, text| put(&mut to.hash.table_size, entries(text))),
    one("hash.balance-factor", |to, text| put(&mut to.hash.balance_factor, percent_of_mean(text).map(Some))),
    Property { name: "hash.arguments", global_only: false, shape: Shape::List(arguments) },
    one("policy-options.exact", |to, text| put(&mut to.policy_options.exact, flag(text))),
    one("policy-options.interval", |to, text| put(&mut to.policy_options.interval, above_zero(text))),
    one("policy-options.window", |to, text| put(&mut to.policy_options.window, above_zero(text))),
    one("policy-options.failure-latency", |to, text| put(&mut to.policy_options.failure_latency, span(text))),
    one("policy-options.timeout", |to, text| put(&mut to.policy_options.timeout, above_zero(text))),
    one("policy-options.active-limit", |to, text| {
        put(&mut to.policy_options.active_limit, from_one(text).map(Some))
    }),
    one("policy-options.triggering-load", |to, text| {
        put(&mut to.policy_options.triggering_load, amount(text))
    }),
    one("policy-options.blackout-share", |to, text| put(&mut to.policy_options.blackout_share, part(text))),
    one("policy-options.blackout", |to, text| put(&mut to.policy_options.blackout, span(text))),
    one("policy-options.expiration", |to, text| put(&mut to.policy_options.expiration, above_zero(text))),
    one("policy-options.update-period", |to, text| {
        put(&mut to.policy_options.update_period, above_zero(text))
    }),
    one("policy-options.error-penalty", |to, text| put(&mut to.policy_options.error_penalty, amount(text))),
    Property { name: "policy-options.metrics", global_only: false, shape: Shape::List(metrics) },
    Property { name: "configurations", global_only: false, shape: Shape::List(stages) },
    one("zone", |to, text| put(&mut to.zone, Ok(trimmed(text)))),
    one("zone-preference.min-local-instances", |to, text| {
        put(&mut to.zone_preference.min_local_instances, whole(text))
    }),
    one("zone-preference.max-share", |to, text| {
        put(&mut to.zone_preference.max_share, share(text).map(Some))
    }),
    one("zone-preference.mode", |to, text| {
        put(&mut to.zone_preference.mode, ZoneMode::read(text).ok_or(ZoneMode::ALLOWED))
    }),
    one("zone-preference.min-cluster-size", |to, text| {
        put(&mut to.zone_preference.min_cluster_size, from_one(text))
    }),
    Property { name: ZONE_WEIGHTS, global_only: false, shape: Shape::List(zone_weights) },
    one("own-service-id", |to, text| put(&mut to.own_service_id, Ok(trimmed(text)))),
    one("panic-threshold", |to, text| put(&mut to.panic_threshold, percent(text))),
    one("overprovisioning-factor", |to, text| put(&mut to.overprovisioning_factor, factor(text))),
    one("hint-header-name", |to, text| put(&mut to.hint_header_name, header_name(text))),
    one("weight.zero", |to, text| {
        put(&mut to.weight.zero, ZeroWeight::read(text).ok_or(ZeroWeight::ALLOWED))
    }),
    one("weight.metadata-key", |to, text| put(&mut to.weight.metadata_key, required(text))),
    one("cache.enabled", |to, text| put(&mut to.cache.enabled, flag(text))),
    one("cache.ttl", |to, text| put(&mut to.cache.ttl, span(text))),
    one("cache.hard-age", |to, text| put(&mut to.cache.hard_age, span(text).map(Some))),
    one("cache.refresh", |to, text| put(&mut to.cache.refresh, Refresh::read(text).ok_or(Refresh::ALLOWED))),
    Property {
        name: "cache.capacity",
        global_only: true,
        shape: Shape::One(|to, text| put(&mut to.cache.capacity, whole(text))),
    },
    one("cache.warm-start", |to, text| put(&mut to.cache.warm_start, Ok(trimmed(text).map(Into::into)))),
    one("health-check.probe", |to, text| {
        put(&mut to.health_check.probe, ProbeName::read(text).ok_or(ProbeName::ALLOWED))
    }),
    one("health-check.port", |to, text| put(&mut to.health_check.port, port(text).map(Some))),
    one("health-check.initial-delay", |to, text| put(&mut to.health_check.initial_delay, span(text))),
    one("health-check.interval", |to, text| put(&mut to.health_check.interval, above_zero(text))),
    one("health-check.timeout", |to, text| put(&mut to.health_check.timeout, above_zero(text))),
    one("health-check.rise", |to, text| put(&mut to.health_check.rise, whole(text))),
    one("health-check.fall", |to, text| put(&mut to.health_check.fall, whole(text))),
    one("health-check.fail-open", |to, text| put(&mut to.health_check.fail_open, flag(text))),
    one("health-check.concurrency", |to, text| put(&mut to.health_check.concurrency, whole(text))),
    one("health-check.repeat-health-check", |to, text| {
        put(&mut to.health_check.repeat_health_check, flag(text))
    }),
    one("health-check.refetch-instances", |to, text| put(&mut to.health_check.refetch_instances, flag(text))),
    one("health-check.refetch-instances-interval", |to, text| {
        put(&mut to.health_check.refetch_instances_interval, above_zero(text))
    }),
    one("sticky-session.instance-id-cookie-name", |to, text| {
        put(&mut to.sticky_session.instance_id_cookie_name, required(text))
    }),
    one("sticky-session.secret", |to, text| put(&mut to.sticky_session.secret, Ok(trimmed(text)))),
    one("sticky-session.add-service-instance-cookie", |to, text| {
        put(&mut to.sticky_session.add_service_instance_cookie, flag(text))
    }),
    one("subset.size", |to, text| put(&mut to.subset.size, from_one(text))),
    one("subset.instance-id", |to, text| put(&mut to.subset.instance_id, Ok(trimmed(text)))),
    one("subset.ordinal", |to, text| put(&mut to.subset.ordinal, whole(text).map(Some))),
    one("subset.algorithm", |to, text| {
        put(&mut to.subset.algorithm, SubsetAlgorithm::read(text).ok_or(SubsetAlgorithm::ALLOWED))
    }),
    one("api-version.required", |to, text| put(&mut to.api_version.required, flag(text))),
    one("api-version.default", |to, text| put(&mut to.api_version.default, Ok(trimmed(text)))),
    one("api-version.header", |to, text| put(&mut to.api_version.header, header_name(text).map(Some))),
    one("api-version.query-parameter", |to, text| {
        put(&mut to.api_version.query_parameter, required(text).map(Some))
    }),
    one("api-version.path-segment", |to, text| put(&mut to.api_version.path_segment, whole(text).map(Some))),
    one("api-version.fallback-to-available-instances", |to, text| {
        put(&mut to.api_version.fallback_to_available_instances, flag(text))
    }),
    one("api-version.matching", |to, text| {
        put(&mut to.api_version.matching, ApiVersionMatch::read(text).ok_or(ApiVersionMatch::ALLOWED))
    }),
    one("outlier-detection.enabled", |to, text| put(&mut to.outlier_detection.enabled, flag(text))),
    one("outlier-detection.mode", |to, text| {
        put(&mut to.outlier_detection.mode, OutlierMode::read(text).ok_or(OutlierMode::ALLOWED))
    }),
    one("outlier-detection.interval", |to, text| put(&mut to.outlier_detection.interval, above_zero(text))),
    one("outlier-detection.base-ejection-time", |to, text| {
        put(&mut to.outlier_detection.base_ejection_time, above_zero(text))
    }),
    one("outlier-detection.max-ejection-time", |to, text| {
        put(&mut to.outlier_detection.max_ejection_time, above_zero(text))
    }),
    one("outlier-detection.max-ejection-time-jitter", |to, text| {
        put(&mut to.outlier_detection.max_ejection_time_jitter, span(text))
    }),
    one("outlier-detection.max-ejection-percent", |to, text| {
        put(&mut to.outlier_detection.max_ejection_percent, percent(text))
    }),
    one("outlier-detection.min-available-percent", |to, text| {
        put(&mut to.outlier_detection.min_available_percent, percent(text))
    }),
    one("outlier-detection.consecutive-errors", |to, text| {
        put(&mut to.outlier_detection.consecutive_errors, whole(text))
    }),
    one("outlier-detection.consecutive-gateway-errors", |to, text| {
        put(&mut to.outlier_detection.consecutive_gateway_errors, whole(text))
    }),
    one("outlier-detection.consecutive-local-errors", |to, text| {
        put(&mut to.outlier_detection.consecutive_local_errors, whole(text))
    }),
    one("outlier-detection.retry-after", |to, text| put(&mut to.outlier_detection.retry_after, flag(text))),
    one("outlier-detection.success-rate.enabled", |to, text| {
        put(&mut to.outlier_detection.success_rate.enabled, flag(text))
    }),
    one("outlier-detection.success-rate.minimum-hosts", |to, text| {
        put(&mut to.outlier_detection.success_rate.minimum_hosts, whole(text))
    }),
    one("outlier-detection.success-rate.request-volume", |to, text| {
        put(&mut to.outlier_detection.success_rate.request_volume, whole(text))
    }),
    one("outlier-detection.success-rate.stdev-factor", |to, text| {
        put(&mut to.outlier_detection.success_rate.stdev_factor, whole(text))
    }),
    one("outlier-detection.failure-percentage.enabled", |to, text| {
        put(&mut to.outlier_detection.failure_percentage.enabled, flag(text))
    }),
    one("outlier-detection.failure-percentage.threshold", |to, text| {
        put(&mut to.outlier_detection.failure_percentage.threshold, percent(text))
    }),
    one("outlier-detection.failure-percentage.minimum-hosts", |to, text| {
        put(&mut to.outlier_detection.failure_percentage.minimum_hosts, whole(text))
    }),
    one("outlier-detection.failure-percentage.request-volume", |to, text| {
        put(&mut to.outlier_detection.failure_percentage.request_volume, whole(text))
    }),
    one("outlier-detection.circuit-breaker.failure-threshold", |to, text| {
        put(&mut to.outlier_detection.circuit_breaker.failure_threshold, from_one(text))
    }),
    one("outlier-detection.circuit-breaker.trip-timeout-factor", |to, text| {
        put(&mut to.outlier_detection.circuit_breaker.trip_timeout_factor, above_zero(text))
    }),
    one("outlier-detection.circuit-breaker.trip-max-timeout", |to, text| {
        put(&mut to.outlier_detection.circuit_breaker.trip_max_timeout, above_zero(text))
    }),
    one("slow-start.window", |to, text| put(&mut to.slow_start.window, span(text))),
    one("slow-start.curve", |to, text| {
        put(&mut to.slow_start.curve, SlowStartCurve::read(text).ok_or(SlowStartCurve::ALLOWED))
    }),
    one("slow-start.aggression", |to, text| put(&mut to.slow_start.aggression, aggression(text))),
    one("slow-start.min-percent", |to, text| put(&mut to.slow_start.min_percent, part_percent(text))),
    one("pre-connection.enabled", |to, text| put(&mut to.pre_connection.enabled, flag(text))),
    one("pre-connection.first-list", |to, text| put(&mut to.pre_connection.first_list, flag(text))),
    one("pre-connection.path", |to, text| put(&mut to.pre_connection.path, required(text))),
    one("pre-connection.ratio", |to, text| put(&mut to.pre_connection.ratio, part(text))),
    one("pre-connection.timeout", |to, text| put(&mut to.pre_connection.timeout, above_zero(text))),
    one("pre-connection.connect-timeout", |to, text| {
        put(&mut to.pre_connection.connect_timeout, above_zero(text))
    }),
    one("pre-connection.max-retries", |to, text| put(&mut to.pre_connection.max_retries, whole(text))),
    one("pre-connection.concurrency", |to, text| put(&mut to.pre_connection.concurrency, from_one(text))),
    one("retry.enabled", |to, text| put(&mut to.retry.enabled, flag(text))),
    one("retry.retry-on-all-operations", |to, text| put(&mut to.retry.retry_on_all_operations, flag(text))),
    one("retry.retry-on-all-exceptions", |to, text| put(&mut to.retry.retry_on_all_exceptions, flag(text))),
    one("retry.max-retries-on-same-service-instance", |to, text| {
        put(&mut to.retry.max_retries_on_same_service_instance, whole(text))
    }),
    one("retry.max-retries-on-next-service-instance", |to, text| {
        put(&mut to.retry.max_retries_on_next_service_instance, whole(text))
    }),
    Property { name: "retry.retryable-status-codes", global_only: false, shape: Shape::List(statuses) },
    Property { name: "retry.retryable-exceptions", global_only: false, shape: Shape::List(retryable) },
    one("retry.avoid-previous-instance", |to, text| put(&mut to.retry.avoid_previous_instance, flag(text))),
    one("retry.backoff.enabled", |to, text| put(&mut to.retry.backoff.enabled, flag(text))),
    one("retry.backoff.min-backoff", |to, text| put(&mut to.retry.backoff.min_backoff, span(text))),
    one("retry.backoff.max-backoff", |to, text| put(&mut to.retry.backoff.max_backoff, span(text).map(Some))),
    one("retry.backoff.jitter", |to, text| put(&mut to.retry.backoff.jitter, part(text))),
    one("retry.per-try-timeout", |to, text| put(&mut to.retry.per_try_timeout, above_zero(text).map(Some))),
    one("retry.budget.percent", |to, text| put(&mut to.retry.budget.percent, whole(text))),
    one("retry.budget.min-per-second", |to, text| put(&mut to.retry.budget.min_per_second, whole(text))),
    one("retry.throttle.enabled", |to, text| put(&mut to.retry.throttle.enabled, flag(text))),
    one("retry.throttle.max-tokens", |to, text| put(&mut to.retry.throttle.max_tokens, tokens(text))),
    one("retry.throttle.token-ratio", |to, text| put(&mut to.retry.throttle.token_ratio, token_ratio(text))),
    one("retry.adaptive-throttle.enabled", |to, text| {
        put(&mut to.retry.adaptive_throttle.enabled, flag(text))
    }),
    one("retry.adaptive-throttle.k", |to, text| put(&mut to.retry.adaptive_throttle.k, at_least_one(text))),
    one("retry.adaptive-throttle.window", |to, text| {
        put(&mut to.retry.adaptive_throttle.window, a_second_or_more(text))
    }),
    one("retry.adaptive-throttle.floor", |to, text| put(&mut to.retry.adaptive_throttle.floor, part(text))),
    one("x-forwarded.enabled", |to, text| put(&mut to.x_forwarded.enabled, flag(text))),
    one("x-forwarded.prefix", |to, text| put(&mut to.x_forwarded.prefix, Ok(trimmed(text)))),
    one("x-forwarded.forwarded", |to, text| put(&mut to.x_forwarded.forwarded, flag(text))),
    one("stats.enabled", |to, text| put(&mut to.stats.enabled, flag(text))),
    one("stats.include-path", |to, text| put(&mut to.stats.include_path, flag(text))),
    one("stale-if-error", |to, text| {
        put(&mut to.stale_if_error, Staleness::read(text).ok_or(Staleness::ALLOWED))
    }),
    one("empty-guard", |to, text| put(&mut to.empty_guard, span(text))),
    one("empty-guard-for-watch", |to, text| put(&mut to.empty_guard_for_watch, flag(text))),
    one("empty-life", |to, text| put(&mut to.empty_life, span(text))),
    one("service-discovery.timeout", |to, text| put(&mut to.service_discovery.timeout, above_zero(text))),
    one("choose-timeout", |to, text| put(&mut to.choose_timeout, span(text))),
    one("wait-for-instances", |to, text| put(&mut to.wait_for_instances, span(text))),
    one("connect-timeout", |to, text| put(&mut to.connect_timeout, above_zero(text))),
    one("read-timeout", |to, text| put(&mut to.read_timeout, above_zero(text).map(Some))),
    one("tls-name", |to, text| put(&mut to.tls_name, tls_name(text).map(Some))),
    one("backoff.min", |to, text| put(&mut to.backoff.min, above_zero(text))),
    one("backoff.max", |to, text| put(&mut to.backoff.max, above_zero(text))),
    one("allow-downgrade", |to, text| put(&mut to.allow_downgrade, flag(text))),
    one("host-header", |to, text| {
        put(&mut to.host_header, HostHeader::read(text).ok_or(HostHeader::ALLOWED))
    }),
    Property { name: EAGER, global_only: true, shape: Shape::List(|_, names| names_of_services(names)) },
];

/// The name of the list of services looked up at start.
pub(crate) const EAGER: &str = "eager-load.clients";

/// The names of one route, below `routing[i]`.
pub(crate) const ROUTE_NAMES: &[&str] =
    &["metadata", "header", "cookie", "query", "fallback", "percent", "hash", "unknown"];

/// The names of one override, below `overrides[i]`; `for` is known to be refused with its reason.
pub(crate) const OVERRIDE_NAMES: &[&str] = &[
    "service",
    "drain.instance",
    "drain.host",
    "drain.zone",
    "ejection",
    "preset",
    "until",
    "reason",
    "for",
];

/// The names of one simple instance, below `instances.<service>[i]`; `metadata` has names below it.
pub(crate) const INSTANCE_NAMES: &[&str] =
    &["uri", "host", "port", "secure", "instance-id", "metadata", "service-id"];

/// Properties that are maps: a value for one service by its id, and one for all, as in Spring.
pub(crate) const MAPS: &[&str] = &["hint", HEALTH_PATH];

/// The path of health checks.
pub(crate) const HEALTH_PATH: &str = "health-check.path";

/// Other names of properties: Spring's, where it names what it measures with.
pub(crate) const ALIASES: &[(&str, &str)] = &[("stats.micrometer.enabled", "stats.enabled")];

/// The property that is a map by media type: for each, the parameter that holds the version.
pub(crate) const KEYED: &str = "api-version.media-type-parameters";

/// The list of [`PROPERTIES`] that may also be a map: by zone, its weight.
pub(crate) const ZONE_WEIGHTS: &str = "zone-preference.weights";

/// The list of [`PROPERTIES`] in which Java's exceptions may stand.
pub(crate) const RETRYABLE: &str = "retry.retryable-exceptions";

/// Properties that are shown as [`MASK`].
pub(crate) const SECRETS: &[&str] = &["sticky-session.secret"];

/// What is shown in place of a secret.
pub(crate) const MASK: &str = "******";

/// The text of a value, or what stands for one that is a secret, by its key as written: as in a file, in brackets, as a
/// list that it is not, or as a variable.
pub(crate) fn masked<'a>(key: &str, text: &'a str) -> &'a str {
    let last = |key: &str| super::key::uniform(key.rsplit('.').next().unwrap_or_default());
    let letters = |key: &str| -> String {
        key.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
    };
    let of = letters(key);
    let is = |secret: &&str| last(secret) == last(key) || of.contains(&letters(secret));
    if SECRETS.iter().any(is) { MASK } else { text }
}

/// The property of this name.
pub(crate) fn property(name: &str) -> Option<&'static Property> {
    PROPERTIES.iter().find(|property| property.name == name)
}

/// The property of this name without case, dashes and underscores.
pub(crate) fn spelt(uniform_name: &str) -> Option<&'static Property> {
    // A file may hold thousands of keys, each compared in several places of its path.
    static SPELT: LazyLock<HashMap<String, &Property>> = LazyLock::new(|| {
        PROPERTIES.iter().map(|property| (super::key::uniform(property.name), property)).collect()
    });
    SPELT.get(uniform_name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::key::uniform;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_names_are_spelt_alike_in_the_environment() {
        let mut names: Vec<&str> = PROPERTIES.iter().map(|property| property.name).collect();
        names.extend(MAPS.iter().chain([&KEYED, &"routing", &"overrides", &"clients"]));
        names.extend(ALIASES.iter().map(|(alias, _)| *alias));
        names.extend(crate::config::meaningless::OURS.iter().map(|(name, _)| *name));
        let spelt: BTreeSet<_> = names.iter().map(|name| uniform(name).replace('.', "")).collect();
        assert_eq!(spelt.len(), names.len());
    }
}
