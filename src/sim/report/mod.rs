//! What came of a run.

mod errors;
mod latencies;
mod server;

use std::fmt;
use std::time::Duration;

pub use errors::{Cause, Errors};
pub use latencies::Latencies;
pub use server::ServerReport;

use super::engine::{BUCKET, Gauge};
use super::{Nanos, SECOND, nanos};
use crate::Outcome;

/// What came of a run. Unless it says otherwise, a figure is of the requests that arrived after the warm-up and within the
/// measured time.
#[derive(Clone, Debug)]
pub struct Report {
    window: (Nanos, Nanos),
    servers: Vec<ServerReport>,
    /// Picks of each server over time.
    over_time: Vec<Vec<u32>>,
    latency: Latencies,
    answers: Latencies,
    requests: u64,
    errors: Errors,
    cross_zone: u64,
    unfinished: u64,
    little: Little,
    flow: [u64; 4],
    hash: u64,
    trace: Vec<TraceEvent>,
}

/// Little's law, by two ways of counting that know nothing of each other: the calls in the system on average are the
/// rate of arrivals times the time that one stays.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Little {
    /// Calls in the system, on average over the measured time.
    pub in_system: f64,
    /// Arrivals per second.
    pub rate: f64,
    /// The mean stay.
    pub stay: Duration,
}

impl Little {
    /// By how much the two differ, as a part of the greater. The edges of the measured time leave some: as much as a stay
    /// is of the measured time, and more while queues grow.
    pub fn error(&self) -> f64 {
        let product = self.rate * self.stay.as_secs_f64();
        (self.in_system - product).abs() / self.in_system.max(product).max(f64::MIN_POSITIVE)
    }
}

/// An entry of [`Report::trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceEvent {
    /// When, since the start of the run.
    pub at: Duration,
    /// The client.
    pub client: usize,
    /// The server.
    pub server: usize,
    /// What happened.
    pub what: What,
}

/// What an entry of the trace is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// The client picked the server.
    Picked,
    /// A call ended so.
    Ended(Outcome),
}

impl Report {
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn new(mut gauge: Gauge, open: u64, leases: u64) -> Self {
        let span = gauge.window.1 - gauge.window.0;
        let seconds = span as f64 / SECOND as f64;
        let ended = gauge.requests - gauge.errors[Cause::NotChosen as usize] - gauge.open;
        let little = Little {
            in_system: gauge.crowd / span as f64,
            rate: (gauge.requests - gauge.errors[Cause::NotChosen as usize]) as f64 / seconds,
            stay: Duration::from_secs_f64(gauge.stayed / ended.max(1) as f64 / 1e9),
        };
        let over_time =
            gauge.servers.iter_mut().map(|server| std::mem::take(&mut server.over_time)).collect();
        let picks = gauge.servers.iter().map(|server| server.picks).sum();
        Self {
            window: gauge.window,
            servers: gauge.servers.into_iter().map(|server| ServerReport::new(server, picks, span)).collect(),
            over_time,
            latency: gauge.latency,
            answers: gauge.answers,
            requests: gauge.requests,
            errors: Errors::new(gauge.errors),
            cross_zone: gauge.cross_zone,
            unfinished: gauge.open,
            little,
            flow: [gauge.picked, gauge.ended, open, leases],
            hash: gauge.hash,
            trace: gauge.trace.unwrap_or_default(),
        }
    }

    /// How many requests there were.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Latencies of all requests that came to an end. One that failed counts as the deadline, or without a deadline as what
    /// it took, so that a policy gains nothing by failing fast.
    pub fn latency(&self) -> &Latencies {
        &self.latency
    }

    /// Latencies of good answers alone.
    pub fn answers(&self) -> &Latencies {
        &self.answers
    }

    /// The requests that failed.
    pub fn errors(&self) -> Errors {
        self.errors
    }

    /// The part of the requests that failed, 0 to 1.
    #[allow(clippy::cast_precision_loss)]
    pub fn error_rate(&self) -> f64 {
        self.errors.total() as f64 / self.requests.max(1) as f64
    }

    /// The requests that had not come to an end when the run was over: servers that hang, without a deadline, or a load
    /// that no server can bear.
    pub fn unfinished(&self) -> u64 {
        self.unfinished
    }

    /// The servers, those that were added included.
    pub fn servers(&self) -> &[ServerReport] {
        &self.servers
    }

    /// The share of the calls that a server got; none for one that there is not.
    pub fn share(&self, server: usize) -> f64 {
        self.servers.get(server).map_or(0.0, ServerReport::share)
    }

    /// The share that a server got from `time` since the start of the run (tenths of a second are told apart) to the end
    /// of the measured time; whatever the warm-up is.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    pub fn share_after(&self, server: usize, time: Duration) -> f64 {
        let from = (nanos(time).div_ceil(BUCKET)) as usize;
        let to = (self.window.1 / BUCKET) as usize;
        let picks =
            |all: &Vec<u32>| -> u64 { all.iter().take(to).skip(from).map(|picks| u64::from(*picks)).sum() };
        let total: u64 = self.over_time.iter().map(picks).sum();
        self.over_time.get(server).map_or(0.0, |all| picks(all) as f64 / total.max(1) as f64)
    }

    /// The share of the calls that went to a server in another zone than the client's.
    #[allow(clippy::cast_precision_loss)]
    pub fn cross_zone_share(&self) -> f64 {
        self.cross_zone as f64 / self.requests.max(1) as f64
    }

    /// The most requests that any server had at a time.
    pub fn max_in_flight(&self) -> u32 {
        self.servers.iter().map(ServerReport::max_in_flight).max().unwrap_or(0)
    }

    /// What the part `of` (0 to 1) of the looks at servers did not see above: requests that a server has, looked at every
    /// 10 ms.
    pub fn in_flight_quantile(&self, of: f64) -> u32 {
        server::quantile(&self.in_flight(), of)
    }

    /// The share of the looks that saw so many requests or more at a server.
    #[allow(clippy::cast_precision_loss)]
    pub fn in_flight_at_least(&self, requests: u32) -> f64 {
        let seen = self.in_flight();
        let above: u64 = seen.iter().skip(requests as usize).sum();
        above as f64 / seen.iter().sum::<u64>().max(1) as f64
    }

    fn in_flight(&self) -> Vec<u64> {
        let most = self.servers.iter().map(|server| server.in_flight.len()).max().unwrap_or(0);
        let mut all = vec![0; most];
        for server in &self.servers {
            for (sum, seen) in all.iter_mut().zip(&server.in_flight) {
                *sum += seen;
            }
        }
        all
    }

    /// The part of the allocations that was used, on average over the servers.
    #[allow(clippy::cast_precision_loss)]
    pub fn utilization(&self) -> f64 {
        let sum: f64 = self.servers.iter().map(ServerReport::utilization).sum();
        sum / self.servers.len().max(1) as f64
    }

    /// Little's law.
    pub fn little(&self) -> Little {
        self.little
    }

    /// Whether every call that began, from the start, ended or was still under way at the end; and whether the balancers
    /// counted no call in flight when those were given up.
    pub fn is_balanced(&self) -> bool {
        let [picked, ended, open, leases] = self.flow;
        picked == ended + open && leases == 0
    }

    /// A number that stands for every pick and every end of a call, with its time: the same for two runs that are the same.
    pub fn trace_hash(&self) -> u64 {
        self.hash
    }

    /// Every pick and every end of a call, from the start; empty unless
    /// [`Simulation::with_trace`](super::Simulation::with_trace) was asked for it.
    pub fn trace(&self) -> &[TraceEvent] {
        &self.trace
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests: {}; {}", self.requests, self.latency, self.errors)?;
        let (most, usual) = (self.max_in_flight(), self.in_flight_quantile(0.99));
        write!(f, "; in flight per server: p99 {usual}, max {most}")
    }
}
