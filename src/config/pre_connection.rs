//! Properties of the connections that are opened before traffic.

use super::duration;
use super::setters::setters;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How new instances are connected before they get calls: `evenkeel.pre-connection.*`. Off by default.
///
/// An instance that a new list brings is listed at once, but calls go to others until a connection to it is open, or is waited for
/// no longer; one that is still not reached then gets calls as any other, and back-off deals with it. When nobody else is
/// in use, nobody is held: there is never an error, and never a wait, because of this. What opens a connection is
/// [`PreConnect`](crate::PreConnect): by default TCP alone, with a client of [`LoadBalancers`](crate::LoadBalancers) that
/// can, a GET through the very pool that will carry the calls.
///
/// Figures and defaults are those of Ribbon's `PrimeConnections`; the [guide](crate::guide::outliers#pre-connection) has its
/// names for them.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::config::{LoadBalancerProperties, PreConnectionProperties};
///
/// let connect = PreConnectionProperties::on().with_timeout(Duration::from_secs(5)).with_path("/ready");
/// let orders = LoadBalancerProperties::default().with_pre_connection(connect);
/// assert_eq!((orders.pre_connection.ratio, orders.pre_connection.max_retries), (1.0, 9));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct PreConnectionProperties {
    /// Whether new instances are connected before they get calls. Default: `false`.
    pub enabled: bool,
    /// Whether those of the very first list are connected too. They are all there is, so calls go to them meanwhile; with
    /// `eager-load.clients` the connections are there before the first call. Default: `false`.
    pub first_list: bool,
    /// The path of the request that a client of HTTP opens a connection with. Default: `/`.
    pub path: String,
    /// The part of those that came together, from 0 to 1, with whose connections all of them get calls. Default: 1.
    pub ratio: f64,
    /// How long those that came together are waited for in all; above zero. Default: 30 s.
    #[serde(with = "duration::text")]
    pub timeout: Duration,
    /// How long one try may take; above zero. Default: 2 s.
    #[serde(with = "duration::text")]
    pub connect_timeout: Duration,
    /// How often an instance is tried again, after 100 ms, then 200 ms, and so on. Default: 9.
    pub max_retries: u32,
    /// How many tries run at the same time, at least one. Default: 5.
    pub concurrency: u32,
}

impl Default for PreConnectionProperties {
    fn default() -> Self {
        Self {
            enabled: false,
            first_list: false,
            path: "/".into(),
            ratio: 1.0,
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(2),
            max_retries: 9,
            concurrency: 5,
        }
    }
}

impl PreConnectionProperties {
    /// Switched on, with the defaults.
    ///
    /// ```
    /// use evenkeel::config::PreConnectionProperties;
    ///
    /// assert!(PreConnectionProperties::on().enabled && !PreConnectionProperties::default().enabled);
    /// ```
    pub fn on() -> Self {
        Self::default().with_enabled(true)
    }

    setters! {
        /// Sets whether new instances are connected before they get calls. Default: `false`.
        with_enabled(enabled: bool) = enabled;
        /// Sets whether those of the very first list are connected too. Default: `false`.
        with_first_list(first_list: bool) = first_list;
        /// Sets the path of the request that a client of HTTP opens a connection with. Default: `/`.
        with_path(path: impl Into<String>) = path.into();
        /// Sets the part with whose connections all get calls. Default: 1.
        with_ratio(ratio: f64) = ratio;
        /// Sets how long those that came together are waited for. Default: 30 s.
        with_timeout(timeout: Duration) = timeout;
        /// Sets how long one try may take. Default: 2 s.
        with_connect_timeout(connect_timeout: Duration) = connect_timeout;
        /// Sets how often an instance is tried again. Default: 9.
        with_max_retries(max_retries: u32) = max_retries;
        /// Sets how many tries run at the same time. Default: 5.
        with_concurrency(concurrency: u32) = concurrency;
    }
}
