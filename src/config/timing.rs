//! Properties of look-ups: their limit and the pauses between failed ones.

use super::duration;
use super::setters::setters;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The look-up of a service: `evenkeel.service-discovery.*`.
///
/// Default: a look-up may take 30 s.
///
/// ```
/// use evenkeel::config::ServiceDiscoveryProperties;
/// use std::time::Duration;
///
/// let discovery = ServiceDiscoveryProperties::default().with_timeout(Duration::from_secs(3));
/// assert_eq!(discovery.timeout, Duration::from_secs(3));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ServiceDiscoveryProperties {
    /// Longest that one look-up may take before it counts as failed; above zero. Default: 30 s.
    #[serde(with = "duration::text")]
    pub timeout: Duration,
}

impl Default for ServiceDiscoveryProperties {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30) }
    }
}

impl ServiceDiscoveryProperties {
    setters! {
        /// Sets the longest that one look-up may take. Default: 30 s.
        with_timeout(timeout: Duration) = timeout;
    }
}

/// Pauses between failed attempts, doubled each time with full jitter: `evenkeel.backoff.*`.
///
/// Defaults: from 1 s to 30 s.
///
/// ```
/// use evenkeel::config::BackoffProperties;
/// use std::time::Duration;
///
/// let backoff = BackoffProperties::default().with_max(Duration::from_secs(5));
/// assert_eq!(backoff.min, Duration::from_secs(1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct BackoffProperties {
    /// The first pause; above zero, since a pause of nothing would spin. Default: 1 s.
    #[serde(with = "duration::text")]
    pub min: Duration,
    /// The longest pause. Default: 30 s. Below `min` it counts as `min`: read it with [`Self::max`].
    #[serde(with = "duration::text")]
    pub max: Duration,
}

impl Default for BackoffProperties {
    fn default() -> Self {
        Self { min: Duration::from_secs(1), max: Duration::from_secs(30) }
    }
}

impl BackoffProperties {
    setters! {
        /// Sets the first pause. Default: 1 s.
        with_min(min: Duration) = min;
        /// Sets the longest pause. Default: 30 s.
        with_max(max: Duration) = max;
    }

    /// The longest pause, never below the first one.
    pub fn max(&self) -> Duration {
        self.max.max(self.min)
    }
}
