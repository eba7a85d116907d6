use crate::sync::{AtomicU32, Ordering};

/// What the first failure of a row counts as, in calls.
///
/// More than a healthy instance has in flight at most loads, so that one which fails fast does not look idle.
const FIRST: u32 = 16;
/// How often that doubles.
const DOUBLINGS: u32 = 12;

/// Load that nobody sent: a failure counts as calls in flight for a while, since an instance that fails fast has few real ones
/// and would attract all others.
#[derive(Debug, Default)]
pub(crate) struct Phantom(AtomicU32);

impl Phantom {
    /// How many calls it counts as.
    #[inline]
    pub(crate) fn calls(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// It begins, after so many rows of failures before this one.
    pub(crate) fn begin(&self, rows: u32) {
        self.0.store(FIRST << rows.min(DOUBLINGS), Ordering::Relaxed);
    }

    /// It is over.
    pub(crate) fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_with_each_row_up_to_its_most() {
        let phantom = Phantom::default();
        assert_eq!(phantom.calls(), 0);
        let row = [0, 1, 2, 12, 13, u32::MAX].map(|rows| {
            phantom.begin(rows);
            phantom.calls()
        });
        assert_eq!(row, [16, 32, 64, 1 << 16, 1 << 16, 1 << 16]);
        phantom.end();
        assert_eq!(phantom.calls(), 0);
    }
}
