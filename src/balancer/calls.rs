//! What a balancer's code and properties say of whole calls; clients and [`call`](crate::call) read it.

use crate::config::{
    HostHeader, OutlierDetectionProperties, RetryProperties, SlowStartProperties, StatsProperties,
    XForwardedProperties,
};
use crate::observe::{Lifecycles, Meters};
use crate::supplier::StickySession;

/// Replaced whole when properties change.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallSettings {
    pub(crate) retry: RetryProperties,
    pub(crate) outlier_detection: OutlierDetectionProperties,
    pub(crate) slow_start: SlowStartProperties,
    pub(crate) lifecycles: Lifecycles,
    /// The hint of requests that carry none.
    pub(crate) hint: Option<String>,
    pub(crate) x_forwarded: XForwardedProperties,
    pub(crate) host_header: HostHeader,
    /// Writes the cookie of the instance into the outgoing request.
    pub(crate) instance_cookie: Option<StickySession>,
    pub(crate) stats: StatsProperties,
    /// The balancer's, while `stats` says that it is measured.
    pub(crate) meters: Option<Meters>,
}
