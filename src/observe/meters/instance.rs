use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use metrics::Label;

use super::attempts::{Attempts, Ended};
use super::service::Shared;
use super::{labels, names, recorder};
use crate::state::{Meter, Reported};
use crate::{Outcome, ServiceInstance};

/// The meter of one instance; it lives in the instance's state, and ends with it.
pub(super) struct InstanceMeter {
    service: Arc<Shared>,
    labels: Vec<Label>,
    attempts: Attempts,
    /// Attempts that were given up, and how many of those the recorder knows.
    cancelled: AtomicU64,
    told: AtomicU64,
    /// The recorder has its gauge.
    called: AtomicBool,
    /// The instance is forgotten, or its balancer is gone; what ends now is the last of it.
    over: AtomicBool,
}

impl InstanceMeter {
    pub(super) fn new(service: &Arc<Shared>, instance: &ServiceInstance) -> Self {
        Self {
            labels: labels::instance(&service.name, instance),
            service: Arc::clone(service),
            attempts: Attempts::default(),
            cancelled: AtomicU64::new(0),
            told: AtomicU64::new(0),
            called: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    fn tell_cancelled(&self) {
        let count = self.cancelled.load(Ordering::Relaxed);
        let by = count.saturating_sub(self.told.swap(count, Ordering::Relaxed));
        if by > 0 {
            recorder::count(names::CANCELLED, self.labels.clone(), by);
        }
    }
}

/// Where an attempt is recorded; `None` for one that was given up before there was a response.
fn series(told: Reported<'_>, outcome: Outcome) -> Option<Ended> {
    Some(match outcome {
        Outcome::Status(status) => Ended::Response(Some(status)),
        // A response without a status of its own counts as 200, which is Spring's rule.
        Outcome::Success | Outcome::Cancelled if told.answered => {
            Ended::Response(Some(told.status.unwrap_or(200)))
        }
        Outcome::Success => Ended::Response(None),
        Outcome::Failure(failure) => Ended::Failed(failure),
        Outcome::Cancelled => return None,
    })
}

impl Meter for InstanceMeter {
    fn ended(&self, told: Reported<'_>, outcome: Outcome, took: Option<Duration>, in_flight: u32) {
        match (series(told, outcome), took) {
            (Some(ended), Some(took)) => {
                let series = (ended, labels::method(told.method), told.uri);
                recorder::guarded(|| self.attempts.record(series, took, self.service.tick(), &self.labels));
            }
            (Some(_), None) => {}
            (None, _) => {
                self.cancelled.fetch_add(1, Ordering::Relaxed);
            }
        }
        if self.over.load(Ordering::Relaxed) {
            self.end(in_flight);
        }
    }

    fn end(&self, in_flight: u32) {
        self.over.store(true, Ordering::Relaxed);
        self.tell_cancelled();
        self.attempts.clear();
        if self.called.load(Ordering::Relaxed) || in_flight > 0 {
            self.called.store(in_flight > 0, Ordering::Relaxed);
            recorder::set(names::ACTIVE, self.labels.clone(), f64::from(in_flight));
        }
    }

    fn publish(&self, in_flight: u32) {
        let idle = in_flight == 0 && self.attempts.is_empty() && self.cancelled.load(Ordering::Relaxed) == 0;
        if idle && !self.called.load(Ordering::Relaxed) {
            // Nobody called it: a list of ten thousand is not ten thousand series.
            return;
        }
        self.called.store(true, Ordering::Relaxed);
        recorder::set(names::ACTIVE, self.labels.clone(), f64::from(in_flight));
        self.tell_cancelled();
        self.attempts.sweep(self.service.tick());
    }
}

impl Drop for InstanceMeter {
    /// The facade cannot take a series back: its last value is 0, and nothing of ours holds on to it.
    fn drop(&mut self) {
        self.tell_cancelled();
        if self.called.load(Ordering::Relaxed) {
            recorder::set(names::ACTIVE, self.labels.clone(), 0.0);
        }
    }
}
