//! Where picks are counted.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many lines threads are spread over: as many as threads that pick at once on most machines; more threads share.
const STRIPES: usize = 16;

/// Counts of picks by two properties, spread so that two threads seldom write the same line: a pick pays for one relaxed
/// addition.
#[derive(Debug)]
pub(super) struct Cells(Box<[Stripe; STRIPES]>);

/// Two cache lines, since processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe([AtomicU64; 4]);

/// What the cells hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Picks {
    pub(super) all: u64,
    pub(super) stale: u64,
    pub(super) elsewhere: u64,
}

thread_local! {
    /// The stripe of this thread; the first pick sets it.
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Gives out stripes in turn.
static NEXT: AtomicUsize = AtomicUsize::new(0);

fn stripe() -> usize {
    // A thread that is ending shares the first one.
    STRIPE
        .try_with(|own| {
            if own.get() == usize::MAX {
                own.set(NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES);
            }
            own.get()
        })
        .unwrap_or_default()
}

impl Cells {
    pub(super) fn new() -> Self {
        Self(Box::default())
    }

    /// One pick.
    #[inline]
    pub(super) fn count(&self, stale: bool, elsewhere: bool) {
        let cell = usize::from(stale) + 2 * usize::from(elsewhere);
        self.0[stripe() % STRIPES].0[cell].fetch_add(1, Ordering::Relaxed);
    }

    /// All picks so far.
    pub(super) fn read(&self) -> Picks {
        let mut picks = Picks::default();
        for stripe in &*self.0 {
            for (at, cell) in stripe.0.iter().enumerate() {
                let count = cell.load(Ordering::Relaxed);
                picks.all = picks.all.wrapping_add(count);
                if at & 1 != 0 {
                    picks.stale = picks.stale.wrapping_add(count);
                }
                if at & 2 != 0 {
                    picks.elsewhere = picks.elsewhere.wrapping_add(count);
                }
            }
        }
        picks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_thread_loses_a_pick() {
        let cells = Cells::new();
        std::thread::scope(|scope| {
            for at in 0..40_u64 {
                let cells = &cells;
                scope.spawn(move || (0..100).for_each(|_| cells.count(at % 2 == 0, at % 4 == 0)));
            }
        });
        assert_eq!(cells.read(), Picks { all: 4_000, stale: 2_000, elsewhere: 1_000 });
    }
}
