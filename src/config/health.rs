//! Properties of health checks.

use super::choices::ProbeName;
use super::duration;
use super::setters::setters;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Health checks: `evenkeel.health-check.*`. They are on for a service whose `configurations` name `health-check`.
///
/// ```
/// use evenkeel::config::HealthCheckProperties;
/// use std::time::Duration;
///
/// let check = HealthCheckProperties::default().with_path("/health?deep=1").with_interval(Duration::from_secs(10));
/// assert_eq!((check.rise, check.fall, check.fail_open), (1, 1, true));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct HealthCheckProperties {
    /// How an instance is asked. Default: `http`, which needs the feature `reqwest`.
    pub probe: ProbeName,
    /// What is asked for by HTTP; blank switches the checks of the service off. Default: `/actuator/health`. As in Spring
    /// it may stand below `path.<service>` and `path.default`.
    pub path: String,
    /// The port that is asked, instead of the instance's own. Default: unset.
    pub port: Option<u16>,
    /// The wait before the first round. Default: 0.
    #[serde(with = "duration::text")]
    pub initial_delay: Duration,
    /// The pause between the end of a round and the start of the next; above zero. Default: 25 s.
    #[serde(with = "duration::text")]
    pub interval: Duration,
    /// The limit of one probe; above zero. Default: 5 s, and never more than the interval.
    #[serde(with = "duration::text")]
    pub timeout: Duration,
    /// Passed checks in a row until an instance is used again; 0 counts as 1. Default: 1.
    pub rise: u32,
    /// Failed checks in a row until an instance is left out; 0 counts as 1. Default: 1.
    pub fall: u32,
    /// Whether all are used when none passes. Default: true.
    pub fail_open: bool,
    /// How many probes of a service run at the same time; 0 counts as 1. Default: 64.
    pub concurrency: u32,
    /// Whether instances are checked again and again, or each only once. Default: true.
    pub repeat_health_check: bool,
    /// Whether the list is looked up again every [`refetch_instances_interval`](Self::refetch_instances_interval):
    /// `cache.ttl` is at most that long then. Default: false.
    pub refetch_instances: bool,
    /// How often, if [`refetch_instances`](Self::refetch_instances) says so; above zero. Default: 25 s.
    #[serde(with = "duration::text")]
    pub refetch_instances_interval: Duration,
}

impl Default for HealthCheckProperties {
    fn default() -> Self {
        Self {
            probe: ProbeName::Http,
            path: "/actuator/health".to_owned(),
            port: None,
            initial_delay: Duration::ZERO,
            interval: Duration::from_secs(25),
            timeout: Duration::from_secs(5),
            rise: 1,
            fall: 1,
            fail_open: true,
            concurrency: 64,
            repeat_health_check: true,
            refetch_instances: false,
            refetch_instances_interval: Duration::from_secs(25),
        }
    }
}

impl HealthCheckProperties {
    setters! {
        /// Sets how an instance is asked. Default: `http`.
        with_probe(probe: ProbeName) = probe;
        /// Sets what is asked for by HTTP; blank switches the checks off. Default: `/actuator/health`.
        with_path(path: impl Into<String>) = path.into();
        /// Sets the port that is asked. Default: the instance's own.
        with_port(port: impl Into<Option<u16>>) = port.into();
        /// Sets the wait before the first round. Default: 0.
        with_initial_delay(initial_delay: Duration) = initial_delay;
        /// Sets the pause between two rounds. Default: 25 s.
        with_interval(interval: Duration) = interval;
        /// Sets the limit of one probe. Default: 5 s.
        with_timeout(timeout: Duration) = timeout;
        /// Sets how many passed checks bring an instance back. Default: 1.
        with_rise(rise: u32) = rise;
        /// Sets how many failed checks take an instance out. Default: 1.
        with_fall(fall: u32) = fall;
        /// Sets whether all are used when none passes. Default: true.
        with_fail_open(fail_open: bool) = fail_open;
        /// Sets how many probes run at the same time. Default: 64.
        with_concurrency(concurrency: u32) = concurrency;
        /// Sets whether instances are checked again and again. Default: true.
        with_repeat_health_check(repeat_health_check: bool) = repeat_health_check;
        /// Sets whether the list is looked up again every `refetch_instances_interval`. Default: false.
        with_refetch_instances(refetch_instances: bool) = refetch_instances;
        /// Sets how often the list is looked up again. Default: 25 s.
        with_refetch_instances_interval(refetch_instances_interval: Duration) = refetch_instances_interval;
    }
}
