//! Properties of outlier detection.

use super::duration;
use super::setters::setters;
use super::words::words;
use serde::{Deserialize, Serialize};
use std::time::Duration;

words! {
    /// How outliers are found.
    ///
    /// Property: `evenkeel.outlier-detection.mode`. Default: `envoy`.
    OutlierMode, "envoy or circuit-breaker" {
        /// Errors in a row, the success rate and the failure percentage side by side, as in Envoy and gRPC.
        #[default]
        Envoy = "envoy",
        /// Calls without an answer in a row, with a time out of use that doubles, as in Ribbon.
        CircuitBreaker = "circuit-breaker",
    }
}

/// When an instance that real calls show to be bad is taken out, and for how long: `evenkeel.outlier-detection.*`.
///
/// Off by default; the preset `modern` switches it on. An ejected instance comes back by **one probing call**: with a good
/// answer it is in use again, else it stays out for longer. Ejections are limited: at most `max-ejection-percent` of the
/// list, but one in any case, are out at once, counted over all detectors and with the one that is to go, and at least
/// `min-available-percent` stay in use.
///
/// The figures are Envoy's (`envoy.config.cluster.v3.OutlierDetection`) and gRPC's (A50), but `failure-percentage`, which Envoy
/// computes and by default does not enforce, counts: the success rate alone is blind when a fifth of all instances are bad.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::config::{LoadBalancerProperties, OutlierDetectionProperties};
///
/// let careful = OutlierDetectionProperties::on().with_consecutive_errors(3).with_base_ejection_time(Duration::from_secs(10));
/// let orders = LoadBalancerProperties::default().with_outlier_detection(careful);
/// assert!(orders.outlier_detection.enabled);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct OutlierDetectionProperties {
    /// Whether anything is ejected. Default: `false`; `true` under `modern`.
    pub enabled: bool,
    /// How outliers are found. Default: [`OutlierMode::Envoy`].
    pub mode: OutlierMode,
    /// How often success rates and failure percentages are looked at, over the calls since the last time; above zero. Default:
    /// 10 s.
    #[serde(with = "duration::text")]
    pub interval: Duration,
    /// The time out of use of a first ejection; each in a row adds as much. Default: 30 s.
    #[serde(with = "duration::text")]
    pub base_ejection_time: Duration,
    /// The longest time out of use. Default: 300 s.
    #[serde(with = "duration::text")]
    pub max_ejection_time: Duration,
    /// Up to so much is added to it, by chance, so that not all come back at once. Default: 0 s.
    #[serde(with = "duration::text")]
    pub max_ejection_time_jitter: Duration,
    /// How much of the list may be ejected at once, in percent; one instance always may. Default: 10.
    pub max_ejection_percent: u32,
    /// How much of the list stays in use whatever happens, in percent. Default: 50.
    pub min_available_percent: u32,
    /// Failures of any kind in a row that eject; 0 is off. Default: 5.
    pub consecutive_errors: u32,
    /// Answers 502, 503 or 504 in a row that eject; 0 is off. Default: 0.
    pub consecutive_gateway_errors: u32,
    /// Calls without an answer in a row (refused, timed out, broken off) that eject; 0 is off. Default: 0, since the failures of any
    /// kind count them.
    pub consecutive_local_errors: u32,
    /// Whether an answer 429 or 503 with `Retry-After` ejects for that time. Default: `true`.
    pub retry_after: bool,
    /// The comparison of success rates.
    pub success_rate: SuccessRateProperties,
    /// The share of calls that fail.
    pub failure_percentage: FailurePercentageProperties,
    /// The figures of the mode `circuit-breaker`.
    pub circuit_breaker: CircuitBreakerProperties,
}

impl Default for OutlierDetectionProperties {
    fn default() -> Self {
        Self {
            enabled: false,
            mode: OutlierMode::default(),
            interval: Duration::from_secs(10),
            base_ejection_time: Duration::from_secs(30),
            max_ejection_time: Duration::from_secs(300),
            max_ejection_time_jitter: Duration::ZERO,
            max_ejection_percent: 10,
            min_available_percent: 50,
            consecutive_errors: 5,
            consecutive_gateway_errors: 0,
            consecutive_local_errors: 0,
            retry_after: true,
            success_rate: SuccessRateProperties::default(),
            failure_percentage: FailurePercentageProperties::default(),
            circuit_breaker: CircuitBreakerProperties::default(),
        }
    }
}

impl OutlierDetectionProperties {
    /// Switched on, with Envoy's figures.
    pub fn on() -> Self {
        Self { enabled: true, ..Self::default() }
    }

    /// Switched on as Ribbon's circuit breaker.
    ///
    /// ```
    /// use evenkeel::config::OutlierDetectionProperties;
    ///
    /// let ribbon = OutlierDetectionProperties::circuit_breaker();
    /// assert_eq!(ribbon.circuit_breaker.failure_threshold, 3);
    /// ```
    pub fn circuit_breaker() -> Self {
        Self { enabled: true, mode: OutlierMode::CircuitBreaker, ..Self::default() }
    }

    setters! {
        /// Sets whether anything is ejected. Default: `false`.
        with_enabled(enabled: bool) = enabled;
        /// Sets how outliers are found. Default: as Envoy.
        with_mode(mode: OutlierMode) = mode;
        /// Sets how often rates are looked at. Default: 10 s.
        with_interval(interval: Duration) = interval;
        /// Sets the time out of use of a first ejection. Default: 30 s.
        with_base_ejection_time(base_ejection_time: Duration) = base_ejection_time;
        /// Sets the longest time out of use. Default: 300 s.
        with_max_ejection_time(max_ejection_time: Duration) = max_ejection_time;
        /// Sets what is added to it at most, by chance. Default: 0 s.
        with_max_ejection_time_jitter(max_ejection_time_jitter: Duration) = max_ejection_time_jitter;
        /// Sets how much of the list may be ejected at once, in percent. Default: 10.
        with_max_ejection_percent(max_ejection_percent: u32) = max_ejection_percent;
        /// Sets how much of the list stays in use, in percent. Default: 50.
        with_min_available_percent(min_available_percent: u32) = min_available_percent;
        /// Sets the failures in a row that eject. Default: 5; 0 is off.
        with_consecutive_errors(consecutive_errors: u32) = consecutive_errors;
        /// Sets the answers 502, 503 or 504 in a row that eject. Default: 0, off.
        with_consecutive_gateway_errors(consecutive_gateway_errors: u32) = consecutive_gateway_errors;
        /// Sets the calls without an answer in a row that eject. Default: 0, off.
        with_consecutive_local_errors(consecutive_local_errors: u32) = consecutive_local_errors;
        /// Sets whether `Retry-After` is taken at its word. Default: `true`.
        with_retry_after(retry_after: bool) = retry_after;
        /// Sets the comparison of success rates.
        with_success_rate(success_rate: SuccessRateProperties) = success_rate;
        /// Sets the share of calls that fail.
        with_failure_percentage(failure_percentage: FailurePercentageProperties) = failure_percentage;
        /// Sets the figures of the mode `circuit-breaker`.
        with_circuit_breaker(circuit_breaker: CircuitBreakerProperties) = circuit_breaker;
    }
}

/// Ejects whose success rate is below the mean by so many standard deviations: `evenkeel.outlier-detection.success-rate.*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct SuccessRateProperties {
    /// Whether rates are compared. Default: `true`.
    pub enabled: bool,
    /// Instances with enough calls that it takes. Default: 5.
    pub minimum_hosts: u32,
    /// Calls of an instance in an interval that it takes to count. Default: 100.
    pub request_volume: u32,
    /// Standard deviations below the mean, in thousandths. Default: 1900.
    pub stdev_factor: u32,
}

impl Default for SuccessRateProperties {
    fn default() -> Self {
        Self { enabled: true, minimum_hosts: 5, request_volume: 100, stdev_factor: 1_900 }
    }
}

impl SuccessRateProperties {
    setters! {
        /// Sets whether rates are compared. Default: `true`.
        with_enabled(enabled: bool) = enabled;
        /// Sets the instances that it takes. Default: 5.
        with_minimum_hosts(minimum_hosts: u32) = minimum_hosts;
        /// Sets the calls of an instance that it takes. Default: 100.
        with_request_volume(request_volume: u32) = request_volume;
        /// Sets the standard deviations below the mean, in thousandths. Default: 1900.
        with_stdev_factor(stdev_factor: u32) = stdev_factor;
    }
}

/// Ejects of whose calls too many fail: `evenkeel.outlier-detection.failure-percentage.*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct FailurePercentageProperties {
    /// Whether it counts. Default: `true`.
    pub enabled: bool,
    /// The percentage that ejects when it is reached, up to 100. Default: 85.
    pub threshold: u32,
    /// Instances with enough calls that it takes. Default: 5.
    pub minimum_hosts: u32,
    /// Calls of an instance in an interval that it takes to count. Default: 50.
    pub request_volume: u32,
}

impl Default for FailurePercentageProperties {
    fn default() -> Self {
        Self { enabled: true, threshold: 85, minimum_hosts: 5, request_volume: 50 }
    }
}

impl FailurePercentageProperties {
    setters! {
        /// Sets whether it counts. Default: `true`.
        with_enabled(enabled: bool) = enabled;
        /// Sets the percentage that ejects. Default: 85.
        with_threshold(threshold: u32) = threshold;
        /// Sets the instances that it takes. Default: 5.
        with_minimum_hosts(minimum_hosts: u32) = minimum_hosts;
        /// Sets the calls of an instance that it takes. Default: 50.
        with_request_volume(request_volume: u32) = request_volume;
    }
}

/// Ribbon's circuit breaker: `evenkeel.outlier-detection.circuit-breaker.*`.
///
/// After `failure-threshold` calls without an answer in a row an instance is out for `trip-timeout-factor`, after each further
/// failure for twice as long, up to `trip-max-timeout`. All instances may be out; then all are used. A good answer forgets
/// everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct CircuitBreakerProperties {
    /// Calls without an answer in a row; at least 1. Default: 3.
    pub failure_threshold: u32,
    /// The first time out of use. Default: 10 s.
    #[serde(with = "duration::text")]
    pub trip_timeout_factor: Duration,
    /// The longest. Default: 30 s.
    #[serde(with = "duration::text")]
    pub trip_max_timeout: Duration,
}

impl Default for CircuitBreakerProperties {
    fn default() -> Self {
        Self {
            failure_threshold: 3,
            trip_timeout_factor: Duration::from_secs(10),
            trip_max_timeout: Duration::from_secs(30),
        }
    }
}

impl CircuitBreakerProperties {
    setters! {
        /// Sets the calls without an answer in a row. Default: 3.
        with_failure_threshold(failure_threshold: u32) = failure_threshold;
        /// Sets the first time out of use. Default: 10 s.
        with_trip_timeout_factor(trip_timeout_factor: Duration) = trip_timeout_factor;
        /// Sets the longest time out of use. Default: 30 s.
        with_trip_max_timeout(trip_max_timeout: Duration) = trip_max_timeout;
    }
}
