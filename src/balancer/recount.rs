//! Traffic that is divided by who is usable is divided again when an instance is out of use, or back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::Wake;
use std::time::Duration;

use super::board::Board;
use crate::alarm::Alarm;
use crate::supplier::Chained;
use crate::supplier::driver::Driver;

/// Changes of this while are one: a storm of failures takes many instances out at a time, and each time the whole list is divided.
const GATHER: Duration = Duration::from_millis(50);
/// A list of this length is not divided on the thread of the timers.
const LONG: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Recount {
    /// Whether anything is divided by who is usable.
    divides: AtomicBool,
    due: AtomicBool,
    alarm: Alarm,
}

impl Recount {
    pub(super) fn new(divides: bool) -> Self {
        Self { divides: AtomicBool::new(divides), ..Self::default() }
    }

    pub(super) fn divides(&self, yes: bool) {
        self.divides.store(yes, Ordering::Relaxed);
    }
}

/// An instance is out of use, or back. Most services are told for nothing.
pub(super) fn fitness_changed(driver: &Arc<Driver<Board>>) {
    let board = &driver.publish;
    if !board.recount.divides.load(Ordering::Relaxed) || board.recount.due.swap(true, Ordering::AcqRel) {
        return;
    }
    let over = Arc::new(Gathered(Arc::downgrade(driver)));
    match board.service.back_off().0 {
        Some(runtime) => board.recount.alarm.arm(&runtime, GATHER, over),
        None => over.wake(),
    }
}

struct Gathered(Weak<Driver<Board>>);

impl Wake for Gathered {
    fn wake(self: Arc<Self>) {
        let Some(driver) = self.0.upgrade() else { return };
        let board = &driver.publish;
        // Before it is divided: what changes from here on is not seen by it.
        board.recount.due.store(false, Ordering::Release);
        let long = board.snapshot.load_full().is_some_and(|snapshot| snapshot.known() > LONG);
        match board.service.back_off().0.filter(|_| long) {
            Some(runtime) => {
                let driver = Arc::clone(&driver);
                board.service.behind(&runtime, Box::new(move || driver.recompute()));
            }
            None => driver.recompute(),
        }
    }
}
