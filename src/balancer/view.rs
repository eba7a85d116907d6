use std::sync::Arc;

use crate::policy::{Candidates, Cursor, Level, PickCx, Picker, Policy};
use crate::random::Random;
use crate::state::{Claim, InstanceState};
use crate::sync::Ordering;
use crate::{Choice, Request, Tried, Weight};

/// A set to pick from - the whole list, or a group - with its picker. Built when the list changes, never after.
pub(crate) struct View {
    pub(super) states: Box<[Arc<InstanceState>]>,
    pub(super) weights: Option<Box<[Weight]>>,
    picker: Box<dyn Picker>,
    cursor: Arc<Cursor>,
    /// Of the wheel of first attempts, and of the other.
    offsets: [u64; 2],
    /// Where to look when nothing is left here.
    pub(super) wider: Option<Arc<View>>,
}

impl View {
    /// `states` in the order of first sight, not empty. `old` is the view of the same key in the list before.
    pub(super) fn new(
        states: Box<[Arc<InstanceState>]>,
        weights: Option<Box<[Weight]>>,
        policy: &dyn Policy,
        cursor: Arc<Cursor>,
        old: Option<&View>,
        random: &Random,
        wider: Option<Arc<View>>,
    ) -> Self {
        let picker = policy.picker(&Candidates::new(&states, weights.as_deref()));
        let mut view = Self { states, weights, picker, cursor, offsets: [0, 0], wider };
        view.offsets = match old {
            Some(old) => [0, 1].map(|wheel| view.continued(old, wheel)),
            None => [0, 1].map(|_| policy.start(random.next())),
        };
        view
    }

    /// The offset with which the next turn falls to the instance after the one picked last in `old`.
    fn continued(&self, old: &View, wheel: usize) -> u64 {
        let unchanged = old.offsets[wheel];
        let count = if wheel == 0 { &self.cursor.first } else { &self.cursor.retry }.load(Ordering::Relaxed);
        let (Some(before), Some(after)) = (old.picker.rotation(), self.picker.rotation()) else {
            return unchanged;
        };
        if count == 0 {
            // Nothing was picked yet: the start stays where chance put it.
            return unchanged;
        }
        let turn = old.turn_at(count.wrapping_sub(1), wheel);
        let uid = old.states[before.at(turn)].uid();
        // In the order of first sight: the one itself, else the next one after it, else the first.
        let at = self.states.partition_point(|state| state.uid() < uid);
        let next = match self.states.get(at) {
            Some(state) if state.uid() == uid => after.turn_after(turn, at).map(|turn| turn + 1),
            Some(_) => after.turn_after(turn, at),
            None => after.turn_after(turn, 0),
        };
        next.map_or(unchanged, |turn| turn.wrapping_sub(count))
    }

    fn turn_at(&self, count: u64, wheel: usize) -> u64 {
        count.wrapping_add(self.offsets[wheel]) & crate::policy::POSITION_MASK
    }

    /// Picks and takes the lease. `None` = nobody here fits, and so nobody in any wider view.
    #[inline]
    pub(super) fn pick(&self, request: &Request<'_>, random: &Random) -> Option<Choice> {
        let tried = request.tried();
        // A probing call can be taken by another caller between the pick and the claim; then pick again.
        for _ in 0..8 {
            let Some(at) = self.index(request, tried, Level::Fit, random) else { break };
            let state = self.states.get(at)?;
            match state.claim() {
                Claim::Usable => return Some(Choice::new(state, false)),
                Claim::Probe => return Some(Choice::new(state, true)),
                Claim::Taken => {}
            }
        }
        self.widen(request, tried, random)
    }

    #[inline]
    fn index(
        &self,
        request: &Request<'_>,
        tried: Option<&Tried>,
        level: Level,
        random: &Random,
    ) -> Option<usize> {
        let (wheel, offset) = match tried {
            None => (&self.cursor.first, self.offsets[0]),
            Some(_) => (&self.cursor.retry, self.offsets[1]),
        };
        PickCx { states: &self.states, request, tried, level, wheel, offset, random }.pick_with(&*self.picker)
    }

    /// Nobody here is usable and untried: first wider views, then instances that are skipped but not tried, then any.
    #[cold]
    fn widen(&self, request: &Request<'_>, tried: Option<&Tried>, random: &Random) -> Option<Choice> {
        for level in [Level::Fit, Level::Untried, Level::Any] {
            let mut view = Some(self);
            while let Some(at) = view {
                if let Some(state) = at.index(request, tried, level, random).and_then(|i| at.states.get(i)) {
                    let probe = state.claim_anyway();
                    return Some(Choice::new(state, probe));
                }
                view = at.wider.as_deref();
            }
        }
        None
    }
}
