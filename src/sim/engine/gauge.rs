use crate::random::mix;
use crate::sim::{Cause, Latencies, Nanos, TraceEvent, What, nanos};
use crate::{Failure, Outcome};
use std::time::Duration;

/// How finely the picks of a server are kept over time.
pub(in crate::sim) const BUCKET: Nanos = 100_000_000;

/// What is kept of one server.
#[derive(Debug, Default)]
pub(in crate::sim) struct ServerGauge {
    /// Picks per bucket, since the start.
    pub(in crate::sim) over_time: Vec<u32>,
    /// Picks that were measured.
    pub(in crate::sim) picks: u64,
    pub(in crate::sim) failures: u64,
    pub(in crate::sim) max_in_flight: u32,
    /// How often it was seen with so many requests.
    pub(in crate::sim) in_flight: Vec<u64>,
    pub(in crate::sim) busy: f64,
    pub(in crate::sim) allocation: f64,
}

/// Everything that is measured.
#[derive(Debug)]
pub(in crate::sim) struct Gauge {
    /// From when to when.
    pub(in crate::sim) window: (Nanos, Nanos),
    pub(in crate::sim) servers: Vec<ServerGauge>,
    /// All requests, a failed one as the deadline.
    pub(in crate::sim) latency: Latencies,
    /// Good answers.
    pub(in crate::sim) answers: Latencies,
    pub(in crate::sim) requests: u64,
    pub(in crate::sim) errors: [u64; Cause::ALL.len()],
    pub(in crate::sim) cross_zone: u64,
    /// Requests that were measured and are not at an end.
    pub(in crate::sim) open: u64,
    /// How long the measured ones stayed in the system.
    pub(in crate::sim) stayed: f64,
    pub(in crate::sim) deadline: Option<Nanos>,

    /// Calls that began and that ended, from the start.
    pub(in crate::sim) picked: u64,
    pub(in crate::sim) ended: u64,
    /// Nanoseconds times calls in the system, within the window.
    pub(in crate::sim) crowd: f64,
    crowd_at: Nanos,

    pub(in crate::sim) hash: u64,
    pub(in crate::sim) trace: Option<Vec<TraceEvent>>,
}

impl Gauge {
    pub(super) fn new(window: (Nanos, Nanos), deadline: Option<Duration>, trace: bool) -> Self {
        Self {
            window,
            servers: Vec::new(),
            latency: Latencies::default(),
            answers: Latencies::default(),
            requests: 0,
            errors: [0; Cause::ALL.len()],
            cross_zone: 0,
            open: 0,
            stayed: 0.0,
            deadline: deadline.map(nanos),
            picked: 0,
            ended: 0,
            crowd: 0.0,
            crowd_at: 0,
            hash: 0,
            trace: trace.then(Vec::new),
        }
    }

    /// Whether what arrived then is measured.
    pub(super) fn counts(&self, arrived: Nanos) -> bool {
        (self.window.0..self.window.1).contains(&arrived)
    }

    /// The number of calls is about to change.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn crowd(&mut self, now: Nanos) {
        let (from, to) = (self.crowd_at.max(self.window.0), now.min(self.window.1));
        if to > from {
            self.crowd += (to - from) as f64 * (self.picked - self.ended) as f64;
        }
        self.crowd_at = now;
    }

    pub(super) fn picked(&mut self, now: Nanos, client: u32, server: u32, crosses: bool) {
        self.crowd(now);
        self.picked += 1;
        self.note(now, client, server, What::Picked);
        let counts = self.counts(now);
        let gauge = &mut self.servers[server as usize];
        #[allow(clippy::cast_possible_truncation)] // below 30 days
        let bucket = (now / BUCKET) as usize;
        if gauge.over_time.len() <= bucket {
            gauge.over_time.resize(bucket + 1, 0);
        }
        gauge.over_time[bucket] += 1;
        if counts {
            self.requests += 1;
            self.open += 1;
            gauge.picks += 1;
            self.cross_zone += u64::from(crosses);
        }
    }

    pub(super) fn not_chosen(&mut self, now: Nanos) {
        if self.counts(now) {
            self.requests += 1;
            self.fail(Cause::NotChosen, 0);
        }
    }

    #[allow(clippy::cast_precision_loss)]
    pub(super) fn ended(&mut self, now: Nanos, began: Nanos, client: u32, server: u32, outcome: Outcome) {
        self.crowd(now);
        self.ended += 1;
        self.note(now, client, server, What::Ended(outcome));
        if !self.counts(began) {
            return;
        }
        let took = now - began;
        self.open -= 1;
        self.stayed += took as f64;
        if let Some(cause) = Cause::of(outcome) {
            self.servers[server as usize].failures += 1;
            self.fail(cause, took);
        } else {
            self.answers.record(took);
            self.latency.record(took);
        }
    }

    fn fail(&mut self, cause: Cause, took: Nanos) {
        self.errors[cause as usize] += 1;
        self.latency.record(self.deadline.unwrap_or(took));
    }

    fn note(&mut self, now: Nanos, client: u32, server: u32, what: What) {
        let word = match what {
            What::Picked => 0,
            What::Ended(outcome) => code(outcome),
        };
        self.hash = mix(self.hash ^ now);
        self.hash = mix(self.hash ^ (u64::from(client) << 40 | u64::from(server) << 16 | word));
        if let Some(trace) = &mut self.trace {
            let (client, server) = (client as usize, server as usize);
            trace.push(TraceEvent { at: Duration::from_nanos(now), client, server, what });
        }
    }

    /// Server `server` was seen with so many requests.
    pub(super) fn sample(&mut self, server: usize, in_flight: u32) {
        let seen = &mut self.servers[server].in_flight;
        let at = in_flight as usize;
        if seen.len() <= at {
            seen.resize(at + 1, 0);
        }
        seen[at] += 1;
    }
}

/// A number for each outcome, none of them 0.
fn code(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Success => 1,
        Outcome::Cancelled => 2,
        Outcome::Failure(Failure::Connect) => 3,
        Outcome::Failure(Failure::Timeout) => 4,
        Outcome::Failure(Failure::Reset) => 5,
        Outcome::Failure(Failure::Other) => 6,
        Outcome::Status(status) => 16 + u64::from(status),
        Outcome::Grpc(code) => 1 << 20 | u64::from(code),
        Outcome::RetryAfter(later) => 1 << 21 | u64::from(later.status()) << 32 | u64::from(later.seconds()),
    }
}
