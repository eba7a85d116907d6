//! Properties of the slow start of instances.

use super::duration;
use super::setters::setters;
use super::words::words;
use serde::{Deserialize, Serialize};
use std::time::Duration;

words! {
    /// How the share of a new instance grows.
    ///
    /// Property: `evenkeel.slow-start.curve`. Default: `power`.
    SlowStartCurve, "power or steps" {
        /// `(time / window)^(1 / aggression)`, as in Envoy.
        #[default]
        Power = "power",
        /// In whole hundredths of the time, as in Dubbo.
        Steps = "steps",
    }
}

/// How an instance that comes into use gets less than its share at first: `evenkeel.slow-start.*`.
///
/// Off by default (a window of nothing); 60 s under the preset `modern`. It holds for **every policy**: a rotation or a draw
/// passes over such an instance more often, of two the one with less to do *for its part* is taken, and a hash gives it a part of
/// its keys. The time begins when an instance comes into use: when it is first seen, when it passes its health check after it
/// did not, and when it returns from an ejection. Instances of the first list are warm, and one that a registry forgot
/// for a moment is. When all are new, none is spared.
///
/// The curve is Envoy's: `max(min, (max(t, 1 s) / window)^(1 / aggression))`.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::config::{LoadBalancerProperties, SlowStartProperties};
///
/// let slow = SlowStartProperties::default().with_window(Duration::from_secs(30));
/// let orders = LoadBalancerProperties::default().with_slow_start(slow);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct SlowStartProperties {
    /// How long it takes until an instance gets its whole share; zero is off. Default: 0 s; 60 s under `modern`.
    #[serde(with = "duration::text")]
    pub window: Duration,
    /// How the share grows. Default: [`SlowStartCurve::Power`].
    pub curve: SlowStartCurve,
    /// Above 1 it grows faster at first, below 1 slower; above zero. Default: 1, evenly.
    pub aggression: f64,
    /// The least part of its share that an instance gets, in percent, from 1 to 100. Default: 10.
    pub min_percent: u32,
}

impl Default for SlowStartProperties {
    fn default() -> Self {
        Self { window: Duration::ZERO, curve: SlowStartCurve::default(), aggression: 1.0, min_percent: 10 }
    }
}

impl SlowStartProperties {
    /// Dubbo's warm-up: ten minutes, from one hundredth on, in hundredths.
    ///
    /// ```
    /// use evenkeel::config::SlowStartProperties;
    ///
    /// assert_eq!(SlowStartProperties::dubbo().window.as_secs(), 600);
    /// ```
    pub fn dubbo() -> Self {
        Self {
            window: Duration::from_secs(600),
            curve: SlowStartCurve::Steps,
            min_percent: 1,
            ..Self::default()
        }
    }

    setters! {
        /// Sets how long it takes. Default: 0 s, off.
        with_window(window: Duration) = window;
        /// Sets how the share grows. Default: as in Envoy.
        with_curve(curve: SlowStartCurve) = curve;
        /// Sets how fast it grows at first. Default: 1, evenly.
        with_aggression(aggression: f64) = aggression;
        /// Sets the least part of its share that an instance gets, in percent. Default: 10.
        with_min_percent(min_percent: u32) = min_percent;
    }
}
