use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{HealthProbe, TcpProbe};

/// What is probed, how often, and what a verdict takes.
///
/// | setting | default |
/// |---|---|
/// | initial delay | 0 |
/// | interval, from the end of a round to the start of the next | 25 s |
/// | time-out of one probe | 5 s, and never more than the interval |
/// | rise: passed checks in a row until an instance is used again | 1 |
/// | fall: failed checks in a row until it is left out | 1 |
/// | fail-open: when none passes, all are used | on |
/// | concurrency: probes at the same time | 64 |
/// | idle: probing stops when nobody chose for this long | 10 min |
///
/// An instance that was not probed yet keeps its last verdict, or counts as up. A round is published whole.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::SupplierBuilder;
/// use evenkeel::discovery::SimpleDiscovery;
/// use evenkeel::health::HealthCheck;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let check = HealthCheck::tcp().with_interval(Duration::from_secs(10)).with_fall(2);
/// let chain = SupplierBuilder::new("orders").with_discovery_client(SimpleDiscovery::new()).with_health_checks(check);
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use]
pub struct HealthCheck {
    pub(crate) probe: Arc<dyn HealthProbe>,
    pub(crate) initial_delay: Duration,
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
    pub(crate) rise: u32,
    pub(crate) fall: u32,
    pub(crate) fail_open: bool,
    pub(crate) concurrency: usize,
    pub(crate) idle: Duration,
    pub(crate) repeat: bool,
}

impl HealthCheck {
    /// Checks by a probe of your own.
    pub fn new(probe: impl HealthProbe) -> Self {
        Self {
            probe: Arc::new(probe),
            initial_delay: Duration::ZERO,
            interval: Duration::from_secs(25),
            timeout: Duration::from_secs(5),
            rise: 1,
            fall: 1,
            fail_open: true,
            concurrency: 64,
            idle: Duration::from_secs(600),
            repeat: true,
        }
    }

    /// Checks whether an instance accepts a connection.
    pub fn tcp() -> Self {
        Self::new(TcpProbe::default())
    }

    /// Checks by a GET of `path`, which may hold a query; see [`HttpProbe`](super::HttpProbe).
    ///
    /// # Errors
    /// When reqwest cannot make a client.
    #[cfg(feature = "reqwest")]
    #[cfg_attr(docsrs, doc(cfg(feature = "reqwest")))]
    pub fn http(path: impl Into<String>) -> Result<Self, reqwest::Error> {
        Ok(Self::new(super::HttpProbe::new(path)?))
    }

    /// The wait before the first round.
    pub fn with_initial_delay(mut self, delay: Duration) -> Self {
        self.initial_delay = delay;
        self
    }

    /// The pause between the end of a round and the start of the next.
    pub fn with_interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// The limit of one probe.
    pub fn with_timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// Passed checks in a row until an instance that was left out is used again; at least 1.
    pub fn with_rise(mut self, checks: u32) -> Self {
        self.rise = checks.max(1);
        self
    }

    /// Failed checks in a row until an instance is left out; at least 1.
    pub fn with_fall(mut self, checks: u32) -> Self {
        self.fall = checks.max(1);
        self
    }

    /// Whether all are used when none passes.
    pub fn with_fail_open(mut self, yes: bool) -> Self {
        self.fail_open = yes;
        self
    }

    /// How many probes run at the same time; at least 1.
    pub fn with_concurrency(mut self, probes: usize) -> Self {
        self.concurrency = probes.max(1);
        self
    }

    /// Whether instances are checked again and again (default), or each only once.
    pub fn with_repeat(mut self, yes: bool) -> Self {
        self.repeat = yes;
        self
    }

    /// Probing stops when nobody chose for this long, and goes on with the next choose.
    pub fn with_idle(mut self, after: Duration) -> Self {
        self.idle = after;
        self
    }

    pub(crate) fn limit(&self) -> Duration {
        // A round that is longer than the interval would delay the verdicts on everybody.
        if self.interval.is_zero() { self.timeout } else { self.timeout.min(self.interval) }
    }
}

impl fmt::Debug for HealthCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthCheck")
            .field("probe", &self.probe)
            .field("interval", &self.interval)
            .field("timeout", &self.timeout)
            .field("rise", &self.rise)
            .field("fall", &self.fall)
            .field("fail_open", &self.fail_open)
            .finish_non_exhaustive()
    }
}
