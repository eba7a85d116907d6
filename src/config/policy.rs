//! Properties of the policies that have some.

use super::duration;
use super::setters::setters;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What the policies of Ribbon's, of Dubbo's and by reports of load can be told: `evenkeel.policy-options.*`. Each reads what
/// its documentation names, and the rest has no meaning for it.
///
/// ```
/// use evenkeel::config::{LoadBalancerProperties, PolicyName, PolicyOptions};
///
/// let orders = LoadBalancerProperties::default()
///     .with_policy(PolicyName::AvailabilityFiltering)
///     .with_policy_options(PolicyOptions::default().with_active_limit(100));
/// assert_eq!(orders.policy_options.active_limit, Some(100));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct PolicyOptions {
    /// Whether the arithmetic is that of the original, without what this crate does about failures (the policies of Dubbo and
    /// Ribbon). Default: `false`.
    pub exact: bool,
    /// How often weights are made (`weighted-response-time`); above zero. Default: 30 s.
    #[serde(with = "duration::text")]
    pub interval: Duration,
    /// After what time a mean begins anew (`shortest-response`); above zero. Default: 30 s.
    #[serde(with = "duration::text")]
    pub window: Duration,
    /// What a failure counts as, if it did not take longer (`weighted-response-time`, `shortest-response`, `adaptive`). Default:
    /// 1 s.
    #[serde(with = "duration::text")]
    pub failure_latency: Duration,
    /// The time-out of calls, by which one that was not picked for long is told (`adaptive`); above zero. Default: 1 s.
    #[serde(with = "duration::text")]
    pub timeout: Duration,
    /// How many calls in flight make an instance busy (`availability-filtering`, `zone-avoidance`). Default: unset, no limit.
    pub active_limit: Option<u32>,
    /// From how many calls in flight per instance on the most loaded zone is left out (`zone-avoidance`). Default: 0.2.
    pub triggering_load: f64,
    /// From what part of its instances out of use on a zone is left out (`zone-avoidance`). Default: 0.99999.
    pub blackout_share: f64,
    /// For how long an instance must have been reporting before its weight is used (`client-side-weighted-round-robin`).
    /// Default: 10 s.
    #[serde(with = "duration::text")]
    pub blackout: Duration,
    /// For how long a weight is used after the last report (`client-side-weighted-round-robin`); above zero. Default: 3 min.
    #[serde(with = "duration::text")]
    pub expiration: Duration,
    /// How often weights are made (`client-side-weighted-round-robin`); less than 100 ms count as that. Default: 1 s.
    #[serde(with = "duration::text")]
    pub update_period: Duration,
    /// How much the part of errors counts beside the utilisation (`client-side-weighted-round-robin`). Default: 1.
    pub error_penalty: f64,
    /// Metrics of a report that say how busy an instance is, where the application itself does not
    /// (`client-side-weighted-round-robin`). Default: none.
    pub metrics: Vec<String>,
}

impl Default for PolicyOptions {
    fn default() -> Self {
        Self {
            exact: false,
            interval: Duration::from_secs(30),
            window: Duration::from_secs(30),
            failure_latency: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
            active_limit: None,
            triggering_load: 0.2,
            blackout_share: 0.99999,
            blackout: Duration::from_secs(10),
            expiration: Duration::from_secs(180),
            update_period: Duration::from_secs(1),
            error_penalty: 1.0,
            metrics: Vec::new(),
        }
    }
}

impl PolicyOptions {
    setters! {
        /// Sets whether the arithmetic is that of the original. Default: `false`.
        with_exact(exact: bool) = exact;
        /// Sets how often weights by response time are made. Default: 30 s.
        with_interval(interval: Duration) = interval;
        /// Sets after what time a mean begins anew. Default: 30 s.
        with_window(window: Duration) = window;
        /// Sets what a failure counts as. Default: 1 s.
        with_failure_latency(failure_latency: Duration) = failure_latency;
        /// Sets the time-out by which one that was not picked for long is told. Default: 1 s.
        with_timeout(timeout: Duration) = timeout;
        /// Sets how many calls in flight make an instance busy. Default: unset, no limit.
        with_active_limit(active_limit: impl Into<Option<u32>>) = active_limit.into();
        /// Sets the load per instance of a zone from which on it may be left out. Default: 0.2.
        with_triggering_load(triggering_load: f64) = triggering_load;
        /// Sets the part of its instances out of use from which on a zone is left out. Default: 0.99999.
        with_blackout_share(blackout_share: f64) = blackout_share;
        /// Sets for how long an instance must have been reporting. Default: 10 s.
        with_blackout(blackout: Duration) = blackout;
        /// Sets for how long a weight is used after the last report. Default: 3 min.
        with_expiration(expiration: Duration) = expiration;
        /// Sets how often weights by reports are made. Default: 1 s.
        with_update_period(update_period: Duration) = update_period;
        /// Sets how much the part of errors counts. Default: 1.
        with_error_penalty(error_penalty: f64) = error_penalty;
        /// Sets the metrics that say how busy an instance is. Default: none.
        with_metrics(metrics: impl IntoIterator<Item = impl Into<String>>) = metrics.into_iter().map(Into::into).collect();
    }
}
