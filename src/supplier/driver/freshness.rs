use crate::sync::{AtomicU8, Ordering};

const DUE: u8 = 1;
const BUSY: u8 = 2;
const WAIT: u8 = 4;
const CLOSED: u8 = 8;
const IDLE: u8 = 16;
const SOLO: u8 = 32;
const RESIDENT: u8 = 64;

/// The state of a list in one byte, which is all that a pick reads to know whether it may serve.
///
/// Timers and look-ups set it; a pick loads it and, nearly always, finds that nothing wants attention.
///
/// - `DUE`: the next caller starts a look-up.
/// - `BUSY`: one runs, or a watch is open (`RESIDENT`).
/// - `WAIT`: there is no list that may be served; callers wait.
/// - `IDLE`: a watch asks whether anybody is there.
/// - `SOLO`: the look-ups run on a runtime with one thread, which a caller may keep from running its timers.
/// - `CLOSED`: the end.
#[derive(Debug)]
pub(crate) struct Freshness(AtomicU8);

/// A reading of a [`Freshness`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(u8);

impl Word {
    /// Whether a pick has anything to do but to serve.
    #[inline]
    pub(crate) fn wants_attention(self) -> bool {
        self.0 & (DUE | WAIT | CLOSED | IDLE | SOLO) != 0
    }
    pub(crate) fn is_due(self) -> bool {
        self.0 & DUE != 0
    }
    pub(crate) fn is_busy(self) -> bool {
        self.0 & BUSY != 0
    }
    pub(crate) fn is_watching(self) -> bool {
        self.0 & RESIDENT != 0
    }
    pub(crate) fn must_wait(self) -> bool {
        self.0 & WAIT != 0
    }
    pub(crate) fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }
    pub(crate) fn asks_whether_idle(self) -> bool {
        self.0 & IDLE != 0
    }
    pub(crate) fn is_solo(self) -> bool {
        self.0 & SOLO != 0
    }
    /// A look-up runs (not a watch) on a runtime that only this caller may be driving.
    pub(crate) fn wants_a_yield(self) -> bool {
        self.0 & (SOLO | BUSY | RESIDENT) == SOLO | BUSY
    }
}

impl Freshness {
    /// Nothing is known: the first caller starts a look-up and waits.
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(DUE | WAIT))
    }

    #[inline]
    pub(crate) fn load(&self) -> Word {
        // Acquire: whoever sees that it may serve sees the list too.
        Word(self.0.load(Ordering::Acquire))
    }

    /// Takes the look-up that is due; true for one caller only.
    pub(crate) fn start(&self, solo: bool) -> bool {
        self.change(|word| {
            (word & (DUE | BUSY | CLOSED) == DUE)
                .then_some((word & !(DUE | SOLO)) | BUSY | if solo { SOLO } else { 0 })
        })
    }

    /// The list is old enough to look again, behind the pick.
    pub(crate) fn due(&self) {
        self.change(|word| (word & (BUSY | CLOSED) == 0).then_some(word | DUE));
    }

    /// The list at hand may not be served any more.
    pub(crate) fn expire(&self) {
        self.change(|word| {
            (word & CLOSED == 0).then_some(word | WAIT | if word & BUSY == 0 { DUE } else { 0 })
        });
    }

    /// A list is at hand and may be served, whatever runs.
    pub(crate) fn serve(&self) {
        self.change(|word| (word & WAIT != 0).then_some(word & !WAIT));
    }

    /// A look-up, or a watch, ended.
    pub(crate) fn finish(&self, wait: bool, due: bool) {
        self.change(|word| {
            let rest = word & !(BUSY | RESIDENT | WAIT | DUE | IDLE);
            Some(rest | if wait { WAIT } else { 0 } | if due && word & CLOSED == 0 { DUE } else { 0 })
        });
    }

    /// A watch is open; `wait` when it has not given a list that may be served.
    pub(crate) fn watching(&self, wait: bool) {
        self.change(|word| Some((word & !(WAIT | DUE)) | RESIDENT | if wait { WAIT } else { 0 }));
    }

    /// Asks whether a caller is there, which the next one answers; true if the question stood already.
    pub(crate) fn ask_idle(&self) -> bool {
        self.0.fetch_or(IDLE, Ordering::AcqRel) & IDLE != 0
    }

    /// A caller is there.
    pub(crate) fn in_use(&self) {
        self.0.fetch_and(!IDLE, Ordering::AcqRel);
    }

    pub(crate) fn close(&self) {
        self.0.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Applies `step` until it sticks; false when it declines.
    fn change(&self, step: impl Fn(u8) -> Option<u8>) -> bool {
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            let Some(next) = step(word) else { return false };
            match self.0.compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_caller_starts_and_the_end_decides() {
        let list = Freshness::new();
        assert!(list.load().must_wait() && list.load().is_due());
        assert!(list.start(false) && !list.start(false));
        list.due();
        assert!(!list.load().is_due(), "nothing is due while one runs");
        list.finish(false, false);
        assert!(!list.load().wants_attention());
        list.due();
        assert!(list.load().is_due() && !list.load().must_wait());
        assert!(list.start(true));
        assert!(list.load().wants_a_yield());
        list.expire();
        assert!(list.load().must_wait() && !list.load().is_due());
        list.serve();
        assert!(!list.load().must_wait());
        list.watching(false);
        assert!(list.load().is_busy() && !list.load().wants_a_yield());
        assert!(!list.ask_idle() && list.ask_idle());
        list.in_use();
        assert!(!list.ask_idle());
        list.close();
        list.finish(false, true);
        assert!(list.load().is_closed() && !list.load().is_due() && !list.start(false));
    }
}
