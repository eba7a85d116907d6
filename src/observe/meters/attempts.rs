//! The handles by which the ends of attempts on one instance are recorded.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use metrics::{Histogram, Label};

use super::labels::{self, Method};
use super::{names, recorder};
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
///
/// What the end of an attempt pays for is the lines of memory that it fetches and the locked operations that it makes. So
/// the first series, nearly always that of a success, lies here and is found without any; it is used as long as it is used,
/// and once it was idle it takes its place among the others.
#[derive(Default)]
#[repr(C)]
pub(super) struct Attempts {
    first: OnceLock<Series>,
    /// The first was idle.
    retired: AtomicBool,
    more: ArcSwap<Vec<Arc<Series>>>,
}

struct Series {
    ended: Ended,
    method: Method,
    /// It was used since the last sweep.
    used: AtomicBool,
    /// The time of the sweep before which it was last used.
    swept: AtomicU32,
    histogram: Histogram,
    uri: Option<Box<str>>,
}

/// What tells the series of an instance apart.
pub(super) type Which<'a> = (Ended, Method, Option<&'a str>);

impl Attempts {
    /// Records an attempt that took so many seconds; `instance` gives the labels of its instance, and the time.
    #[inline]
    pub(super) fn record<'a>(
        &self,
        which: Which<'_>,
        took: f64,
        instance: impl FnOnce() -> (&'a [Label], u32),
    ) {
        match self.first() {
            Some(first) if first.is(which) => first.record(took),
            _ => self.record_other(which, took, instance()),
        }
    }

    fn first(&self) -> Option<&Series> {
        self.first.get().filter(|_| !self.retired.load(Ordering::Relaxed))
    }

    #[inline(never)]
    fn record_other(&self, which: Which<'_>, took: f64, (instance, tick): (&[Label], u32)) {
        let more = self.more.load();
        if let Some(series) = more.iter().find(|one| one.is(which)) {
            series.record(took);
            return;
        }
        let room = more.len() + 1 < MOST;
        drop(more);
        let series = Series::new(which, tick, instance);
        series.record(took);
        let Err(series) = self.first.set(series) else { return };
        if room {
            let series = Arc::new(series);
            self.more.rcu(|more| {
                let mut next = Vec::clone(more);
                // Two that came at once got the same series of the recorder.
                if !next.iter().any(|one| one.is(which)) {
                    next.push(Arc::clone(&series));
                }
                next
            });
        }
    }

    /// Whether no attempt was recorded lately.
    pub(super) fn is_empty(&self) -> bool {
        self.first().is_none() && self.more.load().is_empty()
    }

    /// Drops every handle but the first, which goes with the instance's state.
    pub(super) fn clear(&self) {
        self.retired.store(true, Ordering::Relaxed);
        self.more.store(Arc::default());
    }

    /// Drops the handles that were not used for long.
    pub(super) fn sweep(&self, tick: u32) {
        if self.first().is_some_and(|first| first.is_idle(tick)) {
            self.retired.store(true, Ordering::Relaxed);
        }
        let more = self.more.load_full();
        let idle: Vec<_> = more.iter().filter(|one| one.is_idle(tick)).collect();
        if !idle.is_empty() {
            let stays = |one: &&Arc<Series>| !idle.iter().any(|idle| Arc::ptr_eq(idle, one));
            self.more.rcu(|more| more.iter().filter(stays).cloned().collect::<Vec<_>>());
        }
    }
}

impl Series {
    fn is(&self, (ended, method, uri): Which<'_>) -> bool {
        self.ended == ended && self.uri.as_deref() == uri && self.method == method
    }

    /// Whether nobody used it for long; called by sweeps, of which one runs at a time.
    fn is_idle(&self, tick: u32) -> bool {
        if self.used.swap(false, Ordering::Relaxed) {
            self.swept.store(tick, Ordering::Relaxed);
        }
        tick.saturating_sub(self.swept.load(Ordering::Relaxed)) >= IDLE
    }

    #[inline]
    fn record(&self, took: f64) {
        // Written seldom, so that threads do not pass its line around.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        self.histogram.record(took);
    }

    fn new((ended, method, uri): Which<'_>, tick: u32, instance: &[Label]) -> Self {
        let mut all = instance.to_vec();
        all.push(Label::new("method", method.as_str()));
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
        let (used, swept) = (AtomicBool::new(true), AtomicU32::new(tick));
        Self { ended, method, used, swept, histogram, uri: uri.map(Box::from) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(attempts: &Attempts) -> usize {
        usize::from(attempts.first().is_some()) + attempts.more.load().len()
    }

    #[test]
    fn handles_are_bounded_and_go_when_nobody_uses_them() {
        let attempts = Attempts::default();
        let record = |path: &str, tick| {
            let which = (Ended::Response(Some(200)), Method::of(Some("GET")), Some(path));
            attempts.record(which, 0.003, || (&[], tick));
        };
        (0..1_000).for_each(|n| record(&format!("/{n}"), 5));
        assert_eq!(kept(&attempts), MOST);
        attempts.sweep(6);
        record("/7", 5 + IDLE);
        attempts.sweep(5 + IDLE);
        assert_eq!(kept(&attempts), MOST, "nobody is idle yet");
        attempts.sweep(6 + IDLE);
        assert_eq!(kept(&attempts), 1, "only the one that was used");
        // The first was idle: it is asked for again, and kept among the others.
        record("/0", 5 + IDLE);
        record("/0", 5 + IDLE);
        assert!(attempts.first().is_none() && kept(&attempts) == 2);
        attempts.sweep(7 + IDLE);
        attempts.sweep(7 + 2 * IDLE);
        assert!(attempts.is_empty());
    }
}
