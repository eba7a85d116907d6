//! What a balancer's code and properties say of whole calls; clients and [`call`](crate::call) read it.

use std::time::Duration;

use super::pre_connection::PreConnection;
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
    pub(crate) pre_connection: PreConnection,
    pub(crate) lifecycles: Lifecycles,
    /// The hint of requests that carry none.
    pub(crate) hint: Option<String>,
    pub(crate) x_forwarded: XForwardedProperties,
    /// The longest that a connection may take to open, if it is not the default.
    #[cfg_attr(not(feature = "reqwest-middleware"), allow(dead_code))]
    pub(crate) connect_timeout: Option<Duration>,
    /// The longest that an instance may send nothing.
    #[cfg_attr(not(feature = "reqwest"), allow(dead_code))]
    pub(crate) read_timeout: Option<Duration>,
    /// The name in the certificates of instances whose host is an address.
    #[cfg_attr(not(feature = "reqwest"), allow(dead_code))]
    pub(crate) tls_name: Option<String>,
    pub(crate) host_header: HostHeader,
    /// Writes the cookie of the instance into the outgoing request.
    pub(crate) instance_cookie: Option<StickySession>,
    pub(crate) stats: StatsProperties,
    /// The balancer's, while `stats` says that it is measured.
    pub(crate) meters: Option<Meters>,
}

impl CallSettings {
    /// Whether requests are changed on their way: headers, the host.
    pub(crate) fn shape_requests(&self) -> bool {
        let Self { x_forwarded, host_header, instance_cookie, .. } = self;
        let forwarded = x_forwarded.enabled || x_forwarded.forwarded;
        forwarded || *host_header == HostHeader::Service || instance_cookie.is_some()
    }
}
