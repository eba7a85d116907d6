//! The properties there are: their names, where they may stand, and how a value is read into its field.

use super::api_version::ApiVersionMatch;
use super::balancer::{LoadBalancerProperties, trimmed};
use super::cache::Staleness;
use super::choices::{PolicyName, Preset, ProbeName, Refresh, StageName, UnknownGroup, ZeroWeight};
use super::duration::{self, parse_duration};
use super::retry::RetryableError;
use super::stages::{MetadataRouteProperties, hash_source};
use super::subset::SubsetAlgorithm;
use std::time::Duration;

/// Why a value is refused: what would be allowed.
pub(crate) type Allowed = &'static str;

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

/// Every property but the [`MAPS`], `routing` and `clients`, which are made of names of their own.
pub(crate) const PROPERTIES: &[Property] = &[
    one("enabled", |to, text| put(&mut to.enabled, flag(text))),
    one("preset", |to, text| put(&mut to.preset, Preset::read(text).ok_or(Preset::ALLOWED))),
    one("policy", |to, text| put(&mut to.policy, PolicyName::read(text).ok_or(PolicyName::ALLOWED))),
    Property { name: "configurations", global_only: false, shape: Shape::List(stages) },
    one("zone", |to, text| put(&mut to.zone, Ok(trimmed(text)))),
    one("zone-preference.min-local-instances", |to, text| {
        put(&mut to.zone_preference.min_local_instances, whole(text))
    }),
    one("zone-preference.max-share", |to, text| {
        put(&mut to.zone_preference.max_share, share(text).map(Some))
    }),
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
    one("retry.budget.percent", |to, text| put(&mut to.retry.budget.percent, whole(text))),
    one("retry.budget.min-per-second", |to, text| put(&mut to.retry.budget.min_per_second, whole(text))),
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
    one("backoff.min", |to, text| put(&mut to.backoff.min, above_zero(text))),
    one("backoff.max", |to, text| put(&mut to.backoff.max, above_zero(text))),
    one("allow-downgrade", |to, text| put(&mut to.allow_downgrade, flag(text))),
    Property { name: EAGER, global_only: true, shape: Shape::List(|_, names| names_of_services(names)) },
];

/// The name of the list of services looked up at start.
pub(crate) const EAGER: &str = "eager-load.clients";

/// The names of one route, below `routing[i]`.
pub(crate) const ROUTE_NAMES: &[&str] =
    &["metadata", "header", "cookie", "query", "fallback", "percent", "hash", "unknown"];

/// The names of one simple instance, below `instances.<service>[i]`; `metadata` has names below it.
pub(crate) const INSTANCE_NAMES: &[&str] =
    &["uri", "host", "port", "secure", "instance-id", "metadata", "service-id"];

/// Properties that are maps: a value for one service by its id, and one for all, as in Spring.
pub(crate) const MAPS: &[&str] = &["hint", HEALTH_PATH];

/// The path of health checks.
pub(crate) const HEALTH_PATH: &str = "health-check.path";

/// Properties of Spring that have no meaning here, since discovery and checks are loops of their own and a round is
/// published whole.
pub(crate) const MEANINGLESS: &[&str] = &[
    "health-check.refetch-instances",
    "health-check.refetch-instances-interval",
    "health-check.update-results-list",
];

/// First names of properties that Spring has and this version does not read.
pub(crate) const SPRING_ONLY: &[&str] =
    &["eureka", "zookeeper", "call-get-with-request-on-delegates", "use-raw-status-code-in-response-data"];

/// The property of this name.
pub(crate) fn property(name: &str) -> Option<&'static Property> {
    PROPERTIES.iter().find(|property| property.name == name)
}

fn put<T>(field: &mut T, value: Result<T, Allowed>) -> Result<(), Allowed> {
    *field = value?;
    Ok(())
}

/// A yes or no, with Spring's words for both.
pub(crate) fn flag(text: &str) -> Result<bool, Allowed> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err("true or false (also on, off, yes, no, 1, 0)"),
    }
}

fn whole<T: TryFrom<u64>>(text: &str) -> Result<T, Allowed> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .then(|| text.parse::<u64>().ok().and_then(|number| T::try_from(number).ok()))
        .flatten()
        .ok_or("a whole number, 0 or larger, in digits")
}

fn port(text: &str) -> Result<u16, Allowed> {
    match whole(text) {
        Ok(port) if port != 0 => Ok(port),
        _ => Err("a port, 1 to 65535"),
    }
}

fn share(text: &str) -> Result<f64, Allowed> {
    match text.trim().parse::<f64>() {
        Ok(share) if share.is_finite() && share >= 1.0 => Ok(share),
        _ => Err("a number of at least 1, such as 1.5"),
    }
}

fn span(text: &str) -> Result<Duration, Allowed> {
    parse_duration(text).ok_or(duration::ALLOWED)
}

fn above_zero(text: &str) -> Result<Duration, Allowed> {
    match span(text)? {
        Duration::ZERO => Err("a duration above zero, such as 1s, 250ms or PT1S"),
        above => Ok(above),
    }
}

fn required(text: &str) -> Result<String, Allowed> {
    trimmed(text).ok_or("a text that is not blank")
}

fn header_name(text: &str) -> Result<String, Allowed> {
    let text = text.trim();
    match http::HeaderName::try_from(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("the name of a header, such as X-SC-LB-Hint"),
    }
}

fn stages(to: &mut LoadBalancerProperties, words: &[&str]) -> Result<(), Allowed> {
    let read = |word: &&str| StageName::read(word).ok_or(StageName::ALLOWED);
    put(&mut to.configurations, words.iter().map(read).collect())
}

fn statuses(to: &mut LoadBalancerProperties, words: &[&str]) -> Result<(), Allowed> {
    let read = |word: &&str| match whole::<u16>(word) {
        Ok(status @ 100..=999) => Ok(status),
        _ => Err("statuses of HTTP, such as 502, 503"),
    };
    put(&mut to.retry.retryable_status_codes, words.iter().map(read).collect())
}

fn retryable(to: &mut LoadBalancerProperties, words: &[&str]) -> Result<(), Allowed> {
    let mut kinds = Vec::new();
    for word in words {
        for kind in RetryableError::of_word(word).ok_or(RetryableError::ALLOWED)? {
            if !kinds.contains(kind) {
                kinds.push(*kind);
            }
        }
    }
    put(&mut to.retry.retryable_exceptions, Ok(kinds))
}

fn from_one(text: &str) -> Result<u32, Allowed> {
    match whole(text)? {
        0 => Err("a whole number, 1 or larger, in digits"),
        number => Ok(number),
    }
}

fn part(text: &str) -> Result<f64, Allowed> {
    match text.trim().parse::<f64>() {
        Ok(part) if (0.0..=1.0).contains(&part) => Ok(part),
        _ => Err("a number from 0 to 1, such as 0.5"),
    }
}

fn names_of_services(names: &[&str]) -> Result<(), Allowed> {
    if names.iter().all(|name| !super::key::fold(name.trim()).is_empty()) {
        Ok(())
    } else {
        Err("names of services that are not blank")
    }
}

/// Reads one value of a route.
pub(crate) fn read_route(to: &mut MetadataRouteProperties, name: &str, text: &str) -> Result<(), Allowed> {
    match name {
        "metadata" => put(&mut to.metadata, required(text)),
        "header" => put(&mut to.header, header_name(text).map(Some)),
        "cookie" => put(&mut to.cookie, required(text).map(Some)),
        "query" => put(&mut to.query, required(text).map(Some)),
        "unknown" => put(&mut to.unknown, UnknownGroup::read(text).ok_or(UnknownGroup::ALLOWED)),
        "hash" => match hash_source(text) {
            Some((word, name)) => put(&mut to.hash, Ok(Some(format!("{word}:{name}")))),
            None => Err("header:<name>, cookie:<name> or query:<name>"),
        },
        "percent" => comma_list(text).try_for_each(|share| {
            let (group, percent) = share.split_once('=').ok_or(SHARES)?;
            put_share(to, group, percent).map_err(|_| SHARES)
        }),
        _ if name.starts_with("percent.") => put_share(to, &name["percent.".len()..], text),
        _ => {
            to.fallback.extend(comma_list(text).map(str::to_owned));
            Ok(())
        }
    }
}

/// What a list of shares may be.
const SHARES: Allowed =
    "a list such as canary=5, beta=0.5: values of the metadata key, and a percentage from 0 to 100 each";

fn put_share(to: &mut MetadataRouteProperties, group: &str, text: &str) -> Result<(), Allowed> {
    let text = text.trim();
    let group = trimmed(group).ok_or("a percentage for a value of the metadata key, which is not blank")?;
    match text.strip_suffix('%').unwrap_or(text).trim_end().parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => {
            to.percent.insert(group, percent);
            Ok(())
        }
        _ => Err("a percentage from 0 to 100, such as 5 or 0.5"),
    }
}

/// The words of a comma list; blanks between commas are no words.
pub(crate) fn comma_list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::key::uniform;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_names_are_spelt_alike_in_the_environment() {
        let names: BTreeSet<_> =
            PROPERTIES.iter().map(|property| uniform(property.name).replace('.', "")).collect();
        assert_eq!(names.len(), PROPERTIES.len());
    }
}
