use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use metrics::Label;

use super::attempts::{Attempts, Ended};
use super::labels::{self, Method};
use super::service::Shared;
use super::{names, recorder};
use crate::state::{InstanceState, Meter, Reported, Standing};
use crate::{Outcome, ServiceInstance};

/// The meter of one instance; it lives in the instance's state, and ends with it.
///
/// What the end of an attempt reads comes first, in one line of memory.
#[repr(C)]
pub(super) struct InstanceMeter {
    /// The instance is forgotten, or its balancer is gone; what ends now is the last of it.
    over: AtomicBool,
    attempts: Attempts,
    service: Arc<Shared>,
    labels: Vec<Label>,
    /// The recorder has its gauge.
    called: AtomicBool,
    /// Attempts that were given up, and how many of those the recorder knows.
    cancelled: AtomicU64,
    told: AtomicU64,
    /// The leases that were ever taken, as far as they are counted.
    picks: AtomicU32,
}

impl InstanceMeter {
    /// `picks` is what was taken before anybody measured.
    pub(super) fn new(service: &Arc<Shared>, instance: &ServiceInstance, picks: u32) -> Self {
        Self {
            labels: labels::instance(&service.name, instance),
            service: Arc::clone(service),
            attempts: Attempts::default(),
            cancelled: AtomicU64::new(0),
            told: AtomicU64::new(0),
            picks: AtomicU32::new(picks),
            called: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    /// Counts what was picked since it was last counted.
    fn count(&self, standing: Standing) {
        // Two threads may count at once, and the later reading come first.
        let ahead = |seen: u32| Some(standing.picks.wrapping_sub(seen)).filter(|new| *new <= u32::MAX / 2);
        let step = |seen| ahead(seen).map(|_| standing.picks);
        if let Ok(seen) = self.picks.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step) {
            self.service.picked(u64::from(standing.picks.wrapping_sub(seen)), standing.elsewhere);
        }
    }

    fn tell_cancelled(&self) {
        let count = self.cancelled.load(Ordering::Relaxed);
        let by = count.saturating_sub(self.told.fetch_max(count, Ordering::Relaxed));
        if by > 0 {
            recorder::count(names::CANCELLED, self.labels.clone(), by);
        }
    }
}

#[allow(clippy::cast_precision_loss)] // nanoseconds of a quarter of a year are exact
fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// Where an attempt is recorded; `None` for one that was given up before there was a response.
fn series(told: Reported<'_>, outcome: Outcome) -> Option<Ended> {
    Some(match outcome {
        Outcome::Status(status) => Ended::Response(Some(status)),
        Outcome::RetryAfter(later) => Ended::Response(Some(later.status())),
        // A response without a status of its own counts as 200, which is Spring's rule.
        Outcome::Success | Outcome::Cancelled if told.answered => {
            Ended::Response(Some(told.status.unwrap_or(200)))
        }
        Outcome::Success | Outcome::Grpc(_) => Ended::Response(None),
        Outcome::Failure(failure) => Ended::Failed(failure),
        Outcome::Cancelled => return None,
    })
}

impl Meter for InstanceMeter {
    fn ended(&self, told: Reported<'_>, outcome: Outcome, took: Option<u64>, state: &InstanceState) {
        match (series(told, outcome), took) {
            (Some(ended), Some(took)) => {
                let series = (ended, Method::of(told.method), told.uri);
                let instance = || (&*self.labels, self.service.tick());
                recorder::guarded(|| self.attempts.record(series, seconds(took), instance));
            }
            (Some(_), None) => {}
            (None, _) => {
                self.cancelled.fetch_add(1, Ordering::Relaxed);
            }
        }
        if self.over.load(Ordering::Relaxed) {
            self.end(state.standing());
        }
    }

    fn publish(&self, standing: Standing) {
        self.count(standing);
        let Standing { in_flight, .. } = standing;
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

    fn resume(&self, standing: Standing) {
        self.picks.store(standing.picks, Ordering::Relaxed);
    }

    fn end(&self, standing: Standing) {
        self.over.store(true, Ordering::Relaxed);
        self.count(standing);
        self.tell_cancelled();
        self.attempts.clear();
        let Standing { in_flight, .. } = standing;
        if self.called.load(Ordering::Relaxed) || in_flight > 0 {
            self.called.store(in_flight > 0, Ordering::Relaxed);
            recorder::set(names::ACTIVE, self.labels.clone(), f64::from(in_flight));
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServiceId;

    #[test]
    fn picks_are_counted_once_also_when_a_count_wraps_or_an_older_reading_comes_late() {
        let service = Arc::new(Shared::new(&ServiceId::new("s").unwrap()));
        let meter =
            InstanceMeter::new(&service, &ServiceInstance::new("10.0.0.1", 80).unwrap(), u32::MAX - 5);
        let count = |picks, elsewhere| meter.count(Standing { in_flight: 0, picks, elsewhere });
        count(u32::MAX - 1, false);
        count(2, true);
        count(0, true);
        count(2, true);
        assert_eq!(service.counted(), (8, 4));
        meter.resume(Standing { in_flight: 0, picks: 100, elsewhere: false });
        count(101, false);
        assert_eq!(service.counted(), (9, 4));
    }
}
