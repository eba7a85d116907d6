//! The way to the recorder, from which no panic comes back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use metrics::{Histogram, Key, Label, Level, Metadata, Recorder};

use crate::limit::Limit;

const METADATA: Metadata<'static> = Metadata::new("evenkeel", Level::INFO, Some(module_path!()));

/// Does `work` on a recorder, which is the application's: if it panics, that is logged, and it counts as done.
pub(super) fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(work)).ok();
    if done.is_none() {
        panicked();
    }
    done
}

#[cold]
fn panicked() {
    static TOLD: Limit = Limit::faults();
    if let Some(passed) = TOLD.pass() {
        tracing::error!(suppressed = passed.suppressed(), "a metrics recorder panicked");
    }
}

/// The recorder of the process, or the one that a test put in its place on this thread.
pub(super) fn with(work: impl FnOnce(&dyn Recorder)) {
    guarded(|| metrics::with_recorder(work));
}

pub(super) fn count(name: &'static str, labels: Vec<Label>, by: u64) {
    with(|recorder| {
        recorder.register_counter(&Key::from_parts(name, labels), &METADATA).increment(by);
    });
}

pub(super) fn set(name: &'static str, labels: Vec<Label>, value: f64) {
    with(|recorder| recorder.register_gauge(&Key::from_parts(name, labels), &METADATA).set(value));
}

pub(super) fn record(name: &'static str, labels: Vec<Label>, took: Duration) {
    with(|recorder| {
        recorder.register_histogram(&Key::from_parts(name, labels), &METADATA).record(took.as_secs_f64());
    });
}

/// A handle to keep; one that does nothing if the recorder panics.
pub(super) fn histogram(name: &'static str, labels: Vec<Label>) -> Histogram {
    let key = Key::from_parts(name, labels);
    guarded(|| metrics::with_recorder(|recorder| recorder.register_histogram(&key, &METADATA)))
        .unwrap_or_else(Histogram::noop)
}
