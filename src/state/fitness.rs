use crate::sync::{AtomicU8, Ordering};

const USABLE: u8 = 0;
const SKIPPED: u8 = 1;
const PROBE_DUE: u8 = 2;
const PROBING: u8 = 3;
/// The bits of the states above: in those that a picker may take, the lowest is 0.
const STATE: u8 = 3;
/// It warms up: a picker takes it with less than its share of the chances. Beside the state, which it does not change.
const WARMING: u8 = 4;
/// It is ejected, and used all the same: too few are left. Its state is that of one in use.
const PARDONED: u8 = 8;
/// It is out of use only until a connection to it is open; its state is that of one that is skipped, so that a pick sees no
/// difference. No timer and no failure moves it: its hold ends, or a call that went to it anyway is answered.
const HELD: u8 = 16;

/// Whether an instance may be picked, in one byte that a pick reads beside the counter it writes.
///
/// ```text
/// usable --fail--> skipped --(back-off over)--> probe due --claim--> probing --answer--> usable
///                     ^                             ^                  |  |
///                     |                             +---(cancelled)----+  |
///                     +----------------------fail------------------------+
///
/// usable --hold--> held --(connected, or no longer waited for; an answer)--> usable
/// ```
#[derive(Debug)]
pub(crate) struct Fitness(AtomicU8);

/// What [`Fitness::claim`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// An ordinary call.
    Usable,
    /// This call is the one that probes.
    Probe,
    /// Another call was faster: pick again.
    Taken,
}

/// How an instance may be used, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Usable,
    Skipped,
    ProbeDue,
    Probing,
    /// A connection to it is being opened.
    Connecting,
}

impl Default for Fitness {
    fn default() -> Self {
        Self(AtomicU8::new(USABLE))
    }
}

impl Fitness {
    /// Whether a picker may take it without another thought: usable, and warm.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.0.load(Ordering::Relaxed) == USABLE
    }

    /// Whether a picker may take it: usable, or due for its one probing call.
    #[inline]
    pub(crate) fn fits(&self) -> bool {
        self.0.load(Ordering::Relaxed) & 1 == 0
    }

    /// Takes the instance for a call that a picker decided on.
    #[inline]
    pub(crate) fn claim(&self) -> Claim {
        if self.is_plain() { Claim::Usable } else { self.claim_with_care() }
    }

    #[inline(never)]
    fn claim_with_care(&self) -> Claim {
        match self.0.load(Ordering::Relaxed) & STATE {
            USABLE => Claim::Usable,
            PROBE_DUE if self.step(PROBE_DUE, PROBING) => Claim::Probe,
            _ => Claim::Taken,
        }
    }

    /// Takes it although it may be skipped, since nothing better is left; true if the call's outcome matters to it.
    pub(crate) fn claim_anyway(&self) -> bool {
        self.claim() != Claim::Usable
    }

    /// It failed. Whether this starts a new time out of use: one burst of failures is one, and only the probing call or a
    /// failure while usable counts.
    pub(crate) fn fail(&self, probe: bool) -> bool {
        self.step(USABLE, SKIPPED)
            || (probe && (self.step(PROBING, SKIPPED) || self.step(PROBE_DUE, SKIPPED)))
    }

    /// The back-off is over.
    pub(crate) fn probe_due(&self) {
        self.step(SKIPPED, PROBE_DUE);
    }

    /// The probing call was given up: the next one probes.
    pub(crate) fn release(&self) {
        self.step(PROBING, PROBE_DUE);
    }

    /// It answered. Whether it had been out of use.
    pub(crate) fn restore(&self) -> bool {
        self.0.fetch_and(WARMING, Ordering::AcqRel) & STATE != USABLE
    }

    /// How it may be used, for reports.
    pub(crate) fn in_use(&self) -> Use {
        match self.0.load(Ordering::Relaxed) & (STATE | HELD) {
            USABLE => Use::Usable,
            SKIPPED => Use::Skipped,
            PROBE_DUE => Use::ProbeDue,
            PROBING => Use::Probing,
            _ => Use::Connecting,
        }
    }

    /// It is out of use until a connection to it is open; only one that is in use is held.
    pub(crate) fn hold(&self) -> bool {
        let next = |byte: u8| (byte & (STATE | PARDONED) == USABLE).then_some(byte | SKIPPED | HELD);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).is_ok()
    }

    /// It is held no longer; whether it was.
    pub(crate) fn end_hold(&self) -> bool {
        let next = |byte: u8| (byte & HELD != 0).then_some(byte & WARMING | USABLE);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).is_ok()
    }

    /// Whether it is held.
    pub(crate) fn is_held(&self) -> bool {
        self.0.load(Ordering::Relaxed) & HELD != 0
    }

    /// Whether it is out of use, waiting for a probe or a connection included.
    pub(crate) fn is_skipped(&self) -> bool {
        self.0.load(Ordering::Relaxed) & STATE != USABLE
    }

    /// One that is ejected is used all the same; whether it was out of use.
    pub(crate) fn pardon(&self) -> bool {
        let next =
            |byte: u8| (byte & (STATE | HELD) == SKIPPED).then_some(byte & WARMING | PARDONED | USABLE);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).is_ok()
    }

    /// No longer: it is in use for good, or out again. Whether it was pardoned.
    pub(crate) fn end_pardon(&self, out: bool) -> bool {
        let to = if out { SKIPPED } else { USABLE };
        let next = |byte: u8| (byte & PARDONED != 0).then_some(byte & WARMING | to);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).is_ok()
    }

    pub(crate) fn is_pardoned(&self) -> bool {
        self.0.load(Ordering::Relaxed) & PARDONED != 0
    }

    /// Whether it warms up.
    #[inline]
    pub(crate) fn is_warming(&self) -> bool {
        self.0.load(Ordering::Relaxed) & WARMING != 0
    }

    /// It warms up, or it is warm.
    pub(crate) fn set_warming(&self, yes: bool) {
        if yes {
            self.0.fetch_or(WARMING, Ordering::AcqRel);
        } else {
            self.0.fetch_and(!WARMING, Ordering::AcqRel);
        }
    }

    fn step(&self, from: u8, to: u8) -> bool {
        let next = |byte: u8| (byte & (STATE | HELD) == from).then_some(byte & WARMING | to);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).is_ok()
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_call_probes_and_its_end_decides() {
        let fitness = Fitness::default();
        assert_eq!(fitness.claim(), Claim::Usable);
        assert!(fitness.fail(false), "the first failure starts a back-off");
        assert!(!fitness.fail(false), "the rest of the burst does not");
        assert!(!fitness.fits() && fitness.claim() == Claim::Taken);
        fitness.probe_due();
        assert!(fitness.fits());
        assert_eq!(fitness.claim(), Claim::Probe);
        assert!(!fitness.fits() && fitness.claim() == Claim::Taken, "one call probes, not two");
        fitness.release();
        assert_eq!(fitness.claim(), Claim::Probe);
        assert!(fitness.fail(true));
        assert!(fitness.is_skipped());
        assert!(fitness.claim_anyway(), "fail-open: the outcome of this call matters");
        assert!(fitness.restore() && !fitness.restore());
        assert!(!fitness.claim_anyway());
    }

    #[test]
    fn a_pardon_is_use_for_the_time_being() {
        let fitness = Fitness::default();
        assert!(!fitness.pardon(), "one in use needs none");
        assert!(fitness.fail(false) && fitness.pardon());
        assert!(fitness.fits() && fitness.is_pardoned() && !fitness.is_skipped());
        assert_eq!(fitness.claim(), Claim::Usable);
        assert!(fitness.end_pardon(true) && fitness.is_skipped() && !fitness.end_pardon(false));
        assert!(fitness.pardon() && fitness.end_pardon(false) && fitness.is_plain());
        assert!(fitness.fail(false) && fitness.pardon() && fitness.fail(false), "it cannot be reached");
        assert!(fitness.is_skipped() && !fitness.is_pardoned());
    }

    #[test]
    fn one_that_is_held_is_moved_by_nothing_but_its_end_and_an_answer() {
        let fitness = Fitness::default();
        fitness.set_warming(true);
        assert!(!fitness.is_held() && fitness.hold() && !fitness.hold());
        assert!(!fitness.fits() && fitness.is_skipped() && fitness.is_held());
        assert_eq!(fitness.claim(), Claim::Taken);
        assert!(fitness.claim_anyway(), "the outcome of a call that goes to it anyway matters");
        assert!(!fitness.fail(false) && !fitness.fail(true) && !fitness.pardon());
        fitness.probe_due();
        fitness.release();
        assert_eq!(fitness.in_use(), Use::Connecting);
        assert!(fitness.end_hold() && !fitness.end_hold());
        assert!(fitness.fits() && fitness.is_warming() && !fitness.is_skipped());
        assert!(fitness.hold() && fitness.restore() && fitness.fits() && !fitness.end_hold());
        // One that is out already, or used in spite of it, is not held.
        assert!(fitness.fail(false) && !fitness.hold());
        assert!(fitness.pardon() && !fitness.hold() && fitness.end_pardon(true));
        fitness.probe_due();
        assert!(!fitness.hold() && fitness.in_use() == Use::ProbeDue);
    }

    #[test]
    fn to_warm_up_changes_nothing_else() {
        let fitness = Fitness::default();
        fitness.set_warming(true);
        assert!(fitness.fits() && !fitness.is_plain() && !fitness.is_skipped());
        assert_eq!(fitness.claim(), Claim::Usable);
        assert!(fitness.fail(false) && !fitness.fits() && fitness.is_warming());
        fitness.probe_due();
        assert_eq!(fitness.claim(), Claim::Probe);
        assert!(fitness.restore() && fitness.is_warming() && fitness.fits());
        fitness.set_warming(false);
        assert!(fitness.is_plain());
    }
}
