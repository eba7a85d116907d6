use std::sync::Arc;

use crate::policy::{Candidates, Cursor, Level, PickCx, Picker, Policy, Publishing, Rule, Set};
use crate::random::Random;
use crate::state::{Claim, InstanceState};
use crate::sync::Ordering;
use crate::{Choice, Request, Weight};

/// A set to pick from - the whole list, or a group - with its picker. Built when the list changes, never after.
pub(crate) struct View {
    pub(super) set: Set,
    pub(super) weights: Option<Box<[Weight]>>,
    pub(super) picker: Box<dyn Picker>,
    /// Where the wheels stood when it was built.
    stood: [Stand; 2],
    /// Where to look when nothing is left here.
    pub(super) wider: Option<Arc<View>>,
}

/// Who was picked. Two words, which is what a function hands back in registers.
#[derive(Clone, Copy)]
pub(super) struct Picked<'a> {
    state: &'a Arc<InstanceState>,
    /// When, on the service's clock, or 0 if the clock was not read; below it one bit, which says that its call probes it.
    word: u64,
}

impl<'a> Picked<'a> {
    #[inline]
    fn new(state: &'a Arc<InstanceState>, now: u64, probe: bool) -> Self {
        Self { state, word: now << 1 | u64::from(probe) }
    }

    /// An instance that a picker, or a stage, decided on; `None` if another call was faster.
    #[inline]
    pub(super) fn claim(state: &'a Arc<InstanceState>, now: u64) -> Option<Self> {
        match state.claim() {
            Claim::Usable => Some(Self::new(state, now, false)),
            Claim::Probe => Some(Self::new(state, now, true)),
            Claim::Taken => None,
        }
    }

    /// The same, to be kept.
    #[inline]
    pub(super) fn won(self) -> Won {
        Won { state: Arc::clone(self.state), word: self.word }
    }
}

/// Who was picked, out of its snapshot: still two words. It is claimed, so it must become a lease, which ends the claim.
#[must_use]
pub(super) struct Won {
    state: Arc<InstanceState>,
    word: u64,
}

impl Won {
    /// The lease on it.
    #[inline]
    pub(super) fn lease(self, request: &Request<'_>) -> Choice {
        Choice::new(self.state, self.word & 1 != 0, self.word >> 1, request.cost())
    }
}

/// Where a wheel stood when its view was built: until somebody picks, a further change goes on from there, so that
/// changes alone move nothing.
#[derive(Clone, Copy, Default)]
struct Stand {
    /// The turns that were taken until then.
    count: u64,
    /// The uid of the instance that had the last of them.
    last: Option<u64>,
}

impl View {
    /// `states` in the order of first sight, not empty. `old` is the view of the same key in the list before.
    pub(super) fn new(
        states: Box<[Arc<InstanceState>]>,
        weights: Option<Box<[Weight]>>,
        (policy, publishing): (&dyn Policy, &Publishing),
        cursor: Arc<Cursor>,
        old: Option<&View>,
        random: &Random,
        wider: Option<Arc<View>>,
    ) -> Self {
        let before = old.map(|old| &*old.picker);
        let picker = policy.picker(
            &Candidates::new(&states, weights.as_deref()).after(before).within(publishing).by(random),
        );
        let set = Set { states, cursor, offsets: [0, 0], rehearsal: None };
        let mut view = Self { set, weights, picker, stood: [Stand::default(); 2], wider };
        for wheel in [0, 1] {
            let cursor = &view.set.cursor;
            let count = [&cursor.first, &cursor.retry][wheel].load(Ordering::Relaxed);
            let last = old.and_then(|old| old.last(count, wheel));
            view.stood[wheel] = Stand { count, last };
            view.set.offsets[wheel] = match old {
                Some(old) => view.continued(old, wheel, random),
                None => policy.start(random.next()),
            };
        }
        view
    }

    /// Who was picked last when `count` turns had been taken.
    fn last(&self, count: u64, wheel: usize) -> Option<u64> {
        if count == self.stood[wheel].count {
            return self.stood[wheel].last;
        }
        let turn = self.turn_at(count.wrapping_sub(1), wheel);
        Some(self.states().get(self.picker.rotation()?.at(turn))?.uid())
    }

    /// The offset with which the next turn falls to the instance after the one picked last in `old`.
    fn continued(&self, old: &View, wheel: usize, random: &Random) -> u64 {
        let unchanged = old.set.offsets[wheel];
        let Stand { count, last } = self.stood[wheel];
        // Nothing was picked yet: the start stays where chance put it. The same set: its order stays as it is.
        let (Some(last), false) = (last, self.is_same(old)) else {
            return unchanged;
        };
        let Some(rotation) = self.picker.rotation() else { return unchanged };
        let from = random.next() & crate::policy::POSITION_MASK;
        // In the order of first sight: the one itself, else the next one after it, else the first.
        let at = self.states().partition_point(|state| state.uid() < last);
        let next = match self.states().get(at) {
            Some(state) if state.uid() == last => {
                rotation.turn_from(at, from).map(|turn| turn.wrapping_add(1))
            }
            Some(_) => rotation.turn_from(at, from),
            None => rotation.turn_from(0, from),
        };
        next.map_or(unchanged, |turn| turn.wrapping_sub(count))
    }

    fn turn_at(&self, count: u64, wheel: usize) -> u64 {
        count.wrapping_add(self.set.offsets[wheel]) & crate::policy::POSITION_MASK
    }

    /// The same set with the same weights.
    fn is_same(&self, other: &Self) -> bool {
        self.states().len() == other.states().len()
            && self.states().iter().zip(other.states()).all(|(a, b)| Arc::ptr_eq(a, b))
            && self.weights == other.weights
    }

    /// The instances, in the order of first sight.
    pub(super) fn states(&self) -> &[Arc<InstanceState>] {
        &self.set.states
    }

    /// Picks and claims an instance. `None` = nobody here fits, and so nobody in any wider view.
    #[inline]
    pub(super) fn pick(&self, request: &Request<'_>, random: &Random) -> Option<Picked<'_>> {
        if request.tried().is_none()
            && let Some((state, now)) = self.find(request, None, random)
            && let Some(picked) = Picked::claim(state, now)
        {
            return Some(picked);
        }
        self.pick_again(request, random)
    }

    /// A later attempt, or one more after a pick that came to nothing.
    #[inline(never)]
    fn pick_again(&self, request: &Request<'_>, random: &Random) -> Option<Picked<'_>> {
        let rule = Rule { tried: request.tried(), level: Level::Fit };
        // A probing call can be taken by another caller between the pick and the claim; then pick again.
        for _ in 0..8 {
            let Some((state, now)) = self.find(request, Some(&rule), random) else { break };
            if let Some(picked) = Picked::claim(state, now) {
                return Some(picked);
            }
        }
        self.widen(request, random)
    }

    /// Whom the picker names, and when, if it read the clock.
    #[inline]
    fn find(
        &self,
        request: &Request<'_>,
        rule: Option<&Rule<'_>>,
        random: &Random,
    ) -> Option<(&Arc<InstanceState>, u64)> {
        let mut cx = PickCx { set: &self.set, request, random, rule, now: 0 };
        let at = self.picker.pick(&mut cx)?;
        let now = cx.now;
        Some((self.set.states.get(at)?, now))
    }

    /// Nobody here is usable and untried: first wider views, then instances that are skipped but not tried, then those that
    /// are usable though tried, then any.
    #[cold]
    fn widen(&self, request: &Request<'_>, random: &Random) -> Option<Picked<'_>> {
        for level in [Level::Fit, Level::Untried, Level::Usable, Level::Any] {
            let rule = Rule { tried: request.tried(), level };
            let mut view = Some(self);
            while let Some(at) = view {
                if let Some((state, now)) = at.find(request, Some(&rule), random) {
                    return Some(Picked::new(state, now, state.claim_anyway()));
                }
                view = at.wider.as_deref();
            }
        }
        None
    }
}
