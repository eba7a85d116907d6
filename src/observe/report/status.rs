use std::fmt;

use serde::Serialize;

use super::OverrideStatus;

/// How a service is doing, at one moment.
///
/// `Display` writes a page for a person; what is wrong stands above what is not. In JSON all times are milliseconds.
///
/// ```
/// use evenkeel::{LoadBalancer, Request, ServiceInstance};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let orders = LoadBalancer::fixed("orders", [ServiceInstance::new("10.0.0.1", 8080)?])?;
/// orders.ready().await?;
/// let status = orders.status();
/// assert_eq!((status.counts.known, status.counts.in_use), (1, 1));
/// assert!(status.to_string().contains("10.0.0.1:8080"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ServiceStatus {
    /// The service.
    pub service: String,
    /// When this was, on the clock on the wall: RFC 3339, in UTC.
    pub at: String,
    /// In a word: `ok`, or what is wrong, the worst first.
    pub verdict: Vec<String>,
    /// The balancer was closed.
    pub closed: bool,
    /// The source.
    pub source: SourceStatus,
    /// The list at hand; `None` before the first.
    pub list: Option<ListStatus>,
    /// The empty guard.
    pub guard: GuardStatus,
    /// Look-ups.
    pub look_up: LookUpStatus,
    /// Everybody is used although too few are well: why. `None` when that is not so.
    pub panic: Option<String>,
    /// Zones.
    pub zone: ZoneStatus,
    /// How the traffic is divided by priorities and zones; empty where nothing divides it but weights.
    pub traffic: Vec<PriorityStatus>,
    /// The policy.
    pub policy: String,
    /// The stages of the chain, in their order, at the whole list.
    pub stages: Vec<StageStatus>,
    /// The overrides in force.
    pub overrides: Vec<OverrideStatus>,
    /// How many are how.
    pub counts: Counts,
    /// The instances of the page that was asked for; those that are not simply in use first.
    pub instances: Vec<InstanceStatus>,
    /// How many were passed over before these.
    pub before: usize,
    /// How many follow behind these.
    pub left_off: usize,
}

/// How the source is doing, as far as the answers for this service tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct SourceStatus {
    /// `healthy`, `failing` or `unknown` (nobody asked yet).
    pub state: String,
    /// How long ago it last gave an answer.
    pub answered_ago_ms: Option<u64>,
    /// How often in a row it gave none.
    pub failures: u32,
    /// Why it gave none, if the last time it did not.
    pub error: Option<String>,
    /// How long ago it last gave none, also if it has answered since.
    pub failed_ago_ms: Option<u64>,
}

/// The list at hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ListStatus {
    /// Counts the lists that differed, from 1.
    pub version: u64,
    /// `pull`, `push`, `guarded`, `stale` or `disk`.
    pub origin: String,
    /// How long ago the source last confirmed it; 0 while a watch is open.
    pub age_ms: u64,
    /// How many the source lists.
    pub known: usize,
    /// How many some request may get.
    pub usable: usize,
    /// How many a request without any group is spread over.
    pub spread: usize,
    /// Why there is nothing to choose, if there is nothing.
    pub nothing: Option<String>,
}

/// The empty guard: an empty answer against a list at hand is not believed for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct GuardStatus {
    /// Whether it holds the list now.
    pub on: bool,
    /// Since when.
    pub for_ms: Option<u64>,
    /// How long until the empty answer is believed.
    pub left_ms: Option<u64>,
}

/// Look-ups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own
pub struct LookUpStatus {
    /// One runs now.
    pub busy: bool,
    /// A watch is open.
    pub watching: bool,
    /// The next caller starts one.
    pub due: bool,
    /// Callers wait for it: no list may be served.
    pub callers_wait: bool,
    /// How long the source is left alone after it failed.
    pub back_off_ms: Option<u64>,
}

/// Zones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ZoneStatus {
    /// Where this client stands, if it was told.
    pub own: Option<String>,
    /// `off` (no stage prefers a zone), `own` (the own zone only), `all` (every zone, though one is preferred),
    /// `proportional` (each zone as much as it has room for) or `weighted` (by the weights of zones).
    pub mode: String,
    /// Why all are used, if the preference is on.
    pub why: Option<String>,
}

/// What one priority gets of the traffic to the whole list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct PriorityStatus {
    /// The priority; 0 is the first. The only one, where priorities do not count.
    pub priority: u32,
    /// Its instances.
    pub listed: usize,
    /// Those that are usable; and those that are, but degraded.
    pub healthy: usize,
    /// Those that are degraded, and usable.
    pub degraded: usize,
    /// What it gets, in percent.
    pub load_percent: f64,
    /// So few are usable that all are used.
    pub panic: bool,
    /// What its zones get, where zones count.
    pub zones: Vec<ZoneShareStatus>,
}

/// What a zone gets of the traffic of its priority.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ZoneShareStatus {
    /// The zone; blank for instances without one.
    pub zone: String,
    /// What it gets, in percent.
    pub share_percent: f64,
    /// Its usable instances.
    pub instances: usize,
    /// Its clients, where that counts.
    pub clients: Option<u64>,
}

/// A list stage at the list of now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct StageStatus {
    /// Its name.
    pub stage: String,
    /// How many came to it.
    pub before: usize,
    /// How many it left.
    pub after: usize,
    /// Why it does nothing although it is on, or why it leaves none.
    pub note: Option<String>,
}

/// How many instances are how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Counts {
    /// The source lists.
    pub known: usize,
    /// In use, those with failures that count as load included.
    pub in_use: usize,
    /// In use, and failures count as load.
    pub failing: usize,
    /// Out of use: calls could not be sent.
    pub skipped: usize,
    /// Out of use: ejected by the outlier detection.
    pub ejected: usize,
    /// Out of use, and the next pick probes one.
    pub probe_due: usize,
    /// Out of use, and a call is probing one.
    pub probing: usize,
    /// New, and being connected; calls go to others until then.
    pub connecting: usize,
    /// Left out by a stage.
    pub left_out: usize,
    /// Down, says the registry.
    pub down: usize,
    /// Drained: by the registry, by a weight of 0, or by an override.
    pub draining: usize,
    /// Left the list, and still known.
    pub gone: usize,
    /// Calls in flight from this process.
    pub in_flight: u64,
    /// Calls in flight to instances that left the list.
    pub in_flight_gone: u64,
}

/// How an instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum InstanceCondition {
    /// Calls could not be sent to it: it is out of use until its back-off ends.
    Skipped,
    /// A call is on its way that decides whether it returns.
    Probing,
    /// Its back-off is over: the next pick of it is the one call that probes it.
    ProbeDue,
    /// It did worse than its like, and gets nothing for a while.
    Ejected,
    /// It is new, and gets calls once a connection to it is open.
    Connecting,
    /// It is in use, and its last failures count as load.
    Failing,
    /// The registry says that it is down.
    Down,
    /// It gets no new calls while another is left: by its status, a weight of 0, or an override.
    Draining,
    /// A stage of the chain leaves it out.
    LeftOut,
    /// It is in use with a growing share, since it is new or was out.
    Warming,
    /// It left the list. It is shown while calls to it are in flight.
    Gone,
    /// It is in use.
    InUse,
}

impl InstanceCondition {
    /// The word that reports write.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::Probing => "probing",
            Self::ProbeDue => "probe-due",
            Self::Ejected => "ejected",
            Self::Connecting => "connecting",
            Self::Failing => "failing",
            Self::Down => "down",
            Self::Draining => "draining",
            Self::LeftOut => "left-out",
            Self::Warming => "warming",
            Self::Gone => "gone",
            Self::InUse => "in-use",
        }
    }
}

impl fmt::Display for InstanceCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An instance at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct InstanceStatus {
    /// Its id and address.
    pub instance: String,
    /// Its own id.
    pub id: String,
    /// How it is.
    pub state: InstanceCondition,
    /// The stage that leaves it out, if one does.
    pub stage: Option<String>,
    /// Why it is so.
    pub reason: Option<String>,
    /// For how long.
    pub for_ms: Option<u64>,
    /// How long that lasts by itself: the rest of a back-off, or of failures counting as load.
    pub left_ms: Option<u64>,
    /// Calls in flight from this process.
    pub in_flight: u32,
    /// The same with the calls that failures count as.
    pub load: u32,
    /// What an answer takes, if the policy keeps it.
    pub latency_ms: Option<f64>,
    /// Its weight, if weights are honoured.
    pub weight: Option<f64>,
    /// Its zone.
    pub zone: Option<String>,
    /// What the registry says of it, overrides included.
    pub status: String,
    /// Calls ever taken from this process; it wraps at 2^32.
    pub calls: u32,
    /// The part of its calls that succeeded in the last interval of the outlier detection, from 0 to 1; counted only while
    /// something fails.
    pub success_rate: Option<f64>,
}
