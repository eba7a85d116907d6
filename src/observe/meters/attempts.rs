//! The handles by which the ends of attempts on one instance are recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use metrics::{Histogram, Label};

use super::{labels, names, recorder};
use crate::Failure;

/// How many handles an instance keeps. Methods, templates and statuses of one service come to some dozens; with raw paths
/// as labels there is no end to them, and then the recorder is asked each time.
const MOST: usize = 256;
/// A handle that was not used for so long is dropped and asked for anew at its next use: an exporter that drops idle series
/// would leave a kept handle writing where nobody reads. So its time-out has to be longer than this; they are set in
/// minutes.
const IDLE: u32 = 60;

/// How an attempt ended, as far as its series goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// A response came; its status, if there is one.
    Response(Option<u16>),
    Failed(Failure),
}

/// The series of the attempts on one instance.
#[derive(Default)]
pub(super) struct Attempts(ArcSwap<Vec<Arc<Series>>>);

struct Series {
    ended: Ended,
    method: &'static str,
    uri: Option<Box<str>>,
    histogram: Histogram,
    /// The tick of its last use.
    used: AtomicU32,
}

impl Attempts {
    /// Records an attempt; `instance` are the labels of its instance, and `tick` is the time in seconds.
    pub(super) fn record(
        &self,
        (ended, method, uri): (Ended, &'static str, Option<&str>),
        took: Duration,
        tick: u32,
        instance: &[Label],
    ) {
        let all = self.0.load();
        let is_it =
            |one: &&Arc<Series>| one.ended == ended && one.method == method && one.uri.as_deref() == uri;
        if let Some(series) = all.iter().find(is_it) {
            // Written seldom, so that threads do not pass its line around.
            if series.used.load(Ordering::Relaxed) != tick {
                series.used.store(tick, Ordering::Relaxed);
            }
            series.histogram.record(took.as_secs_f64());
            return;
        }
        let room = all.len() < MOST;
        drop(all);
        let series = Arc::new(Series::new(ended, method, uri, tick, instance));
        series.histogram.record(took.as_secs_f64());
        if room {
            self.0.rcu(|all| {
                let mut next = Vec::clone(all);
                // Two that came at once got the same series of the recorder.
                if !next.iter().any(|one| is_it(&one)) {
                    next.push(Arc::clone(&series));
                }
                next
            });
        }
    }

    /// Whether no attempt was recorded lately.
    pub(super) fn is_empty(&self) -> bool {
        self.0.load().is_empty()
    }

    /// Drops every handle.
    pub(super) fn clear(&self) {
        self.0.store(Arc::default());
    }

    /// Drops the handles that were not used for long.
    pub(super) fn sweep(&self, tick: u32) {
        let is_used = |one: &Arc<Series>| tick.saturating_sub(one.used.load(Ordering::Relaxed)) < IDLE;
        if !self.0.load().iter().all(is_used) {
            self.0.rcu(|all| all.iter().filter(|one| is_used(one)).cloned().collect::<Vec<_>>());
        }
    }
}

impl Series {
    fn new(ended: Ended, method: &'static str, uri: Option<&str>, tick: u32, instance: &[Label]) -> Self {
        let mut all = instance.to_vec();
        all.push(Label::new("method", method));
        all.push(Label::new("uri", uri.unwrap_or(labels::UNKNOWN).to_owned()));
        let name = match ended {
            Ended::Response(status) => {
                all.push(Label::new("outcome", labels::outcome(status)));
                let status = status.map_or_else(|| labels::UNKNOWN.to_owned(), |status| status.to_string());
                all.push(Label::new("status", status));
                names::SUCCESS
            }
            Ended::Failed(failure) => {
                all.push(Label::new("exception", labels::exception(failure)));
                names::FAILED
            }
        };
        let histogram = recorder::histogram(name, all);
        Self { ended, method, uri: uri.map(Box::from), histogram, used: AtomicU32::new(tick) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_bounded_and_go_when_nobody_uses_them() {
        let attempts = Attempts::default();
        let took = Duration::from_millis(3);
        for n in 0..1_000 {
            let path = format!("/{n}");
            attempts.record((Ended::Response(Some(200)), "GET", Some(&path)), took, 5, &[]);
        }
        assert_eq!(attempts.0.load().len(), MOST);
        attempts.record((Ended::Response(Some(200)), "GET", Some("/7")), took, 5 + IDLE, &[]);
        attempts.sweep(4 + IDLE);
        assert_eq!(attempts.0.load().len(), MOST, "nobody is idle yet");
        attempts.sweep(5 + IDLE);
        assert_eq!(attempts.0.load().len(), 1, "only the one that was used");
        attempts.sweep(u32::MAX);
        assert!(attempts.is_empty());
    }
}
