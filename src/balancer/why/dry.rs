//! Picks without effect: on copies of the wheels and of chance, without a lease and without a claim.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::view::View;
use crate::Request;
use crate::policy::{Cursor, Level, PickCx, Rule, Scores, Set};
use crate::random::Random;
use crate::state::InstanceState;
use crate::sync::{AtomicU64, Ordering};

/// Copies of what picks turn and draw from.
pub(super) struct Rehearsal {
    /// By the address of the view, which lives as long as the snapshot that is looked at.
    sets: HashMap<usize, Set>,
    random: Random,
    /// Whose probing call is taken by a pick of this rehearsal.
    probed: HashSet<u64>,
}

/// Whom a pick would take.
pub(super) struct Picked<'v> {
    pub(super) state: &'v Arc<InstanceState>,
    /// It had to leave the set, or take what is not in use.
    pub(super) widened: bool,
}

impl Rehearsal {
    pub(super) fn new(random: &Random) -> Self {
        Self { sets: HashMap::new(), random: random.fork(), probed: HashSet::new() }
    }

    /// As [`View::pick`], behind what a request stage wants first.
    pub(super) fn pick<'v>(
        &mut self,
        view: &'v View,
        wanted: Option<&'v Arc<InstanceState>>,
        request: &Request<'_>,
    ) -> Option<Picked<'v>> {
        let tried = |state: &InstanceState| request.tried().is_some_and(|tried| tried.contains(state.uid()));
        if let Some(state) = wanted.filter(|state| !tried(state))
            && self.claim(state)
        {
            return Some(Picked { state, widened: false });
        }
        if request.tried().is_none()
            && let Some(state) = self.find(view, request, None)
            && self.claim(state)
        {
            return Some(Picked { state, widened: false });
        }
        let rule = Rule { tried: request.tried(), level: Level::Fit };
        for _ in 0..8 {
            let Some(state) = self.find(view, request, Some(&rule)) else { break };
            if self.claim(state) {
                return Some(Picked { state, widened: false });
            }
        }
        for level in [Level::Fit, Level::Untried, Level::Usable, Level::Any] {
            let rule = Rule { tried: request.tried(), level };
            let mut at = Some(view);
            while let Some(view) = at {
                if let Some(state) = self.find(view, request, Some(&rule)) {
                    return Some(Picked { state, widened: true });
                }
                at = view.wider.as_deref();
            }
        }
        None
    }

    /// What the policy goes by.
    pub(super) fn scores(&mut self, view: &View, request: &Request<'_>) -> Option<Scores> {
        let set = set(&mut self.sets, view);
        let random = self.random.fork();
        view.picker.scores(&mut PickCx { set, request, random: &random, rule: None, now: 0 })
    }

    fn find<'v>(
        &mut self,
        view: &'v View,
        request: &Request<'_>,
        rule: Option<&Rule<'_>>,
    ) -> Option<&'v Arc<InstanceState>> {
        let set = set(&mut self.sets, view);
        let at = view.picker.pick(&mut PickCx { set, request, random: &self.random, rule, now: 0 })?;
        view.states().get(at)
    }

    /// Whether the instance could be claimed; its one probing call is taken only here.
    fn claim(&mut self, state: &InstanceState) -> bool {
        !state.is_skipped() || (state.fits() && self.probed.insert(state.uid()))
    }
}

/// A copy of the set with wheels of its own, that stand where the real ones do.
fn set<'a>(sets: &'a mut HashMap<usize, Set>, view: &View) -> &'a Set {
    sets.entry(std::ptr::from_ref(view) as usize).or_insert_with(|| {
        let copy = |wheel: &AtomicU64| AtomicU64::new(wheel.load(Ordering::Relaxed));
        let cursor = &view.set.cursor;
        let cursor = Cursor { first: copy(&cursor.first), retry: copy(&cursor.retry) };
        let stood = [&cursor.first, &cursor.retry].map(|wheel| wheel.load(Ordering::Relaxed));
        Set {
            states: view.set.states.clone(),
            cursor: Arc::new(cursor),
            offsets: view.set.offsets,
            rehearsal: Some(stood),
        }
    })
}
