use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::{Candidates, Needs, PickCx, Picker, Policy, Rotation, RoundRobin, Scores};
use crate::choice::Outcome;
use crate::state::InstanceState;

/// Always one instance, while it is listed, in use and was not tried; else what another policy picks.
///
/// For a debugging session, or a client that must stay with a leader. The others take over while it is out, and it has all
/// calls again once it is back. Of several instances with one id it is the one with the lowest address.
///
/// ```
/// use evenkeel::policy::{LeastRequest, Pinned};
///
/// let else_round_robin = Pinned::to("orders-7");
/// let else_least_request = Pinned::to("orders-7").or(LeastRequest);
/// ```
#[derive(Clone, Debug)]
pub struct Pinned {
    id: Box<str>,
    other: Arc<dyn Policy>,
}

impl Pinned {
    /// To the instance with this id, unless it is drained; a round robin of all when it cannot be had.
    pub fn to(id: impl Into<String>) -> Self {
        Self { id: id.into().into(), other: Arc::new(RoundRobin::default()) }
    }

    /// What picks when it cannot be had (default: a round robin).
    #[must_use]
    pub fn or(self, other: impl Policy) -> Self {
        Self { other: Arc::new(other), ..self }
    }
}

impl Policy for Pinned {
    fn name(&self) -> Cow<'static, str> {
        Cow::Owned(format!("pinned to {}, else {}", self.id, self.other.name()))
    }

    fn needs(&self) -> Needs {
        self.other.needs()
    }

    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        let drained = |at: usize| set.weights().is_some_and(|weights| weights[at].is_zero());
        let named = (0..set.len()).filter(|at| *set.instance(*at).id() == *self.id && !drained(*at));
        let address = |at: &usize| (set.instance(*at).host().to_owned(), set.instance(*at).port());
        Box::new(Pin { at: named.min_by_key(address), other: self.other.picker(set) })
    }

    fn start(&self, random: u64) -> u64 {
        self.other.start(random)
    }

    fn on_outcome(&self, instance: &InstanceState, outcome: Outcome, took: Option<Duration>) {
        self.other.on_outcome(instance, outcome, took);
    }
}

struct Pin {
    at: Option<usize>,
    other: Box<dyn Picker>,
}

impl Picker for Pin {
    fn rehearses(&self) -> bool {
        self.other.rehearses()
    }

    fn scores(&self, cx: &mut PickCx<'_>) -> Option<Scores> {
        match self.at {
            Some(pinned) if cx.fits(pinned) => {
                let of = (0..cx.len()).map(|at| (at == pinned).then_some(1.0)).collect();
                Some(Scores::new("1 for the pinned instance, which is in use", of))
            }
            _ => self.other.scores(cx),
        }
    }

    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        match self.at {
            Some(at) if cx.fits(at) => Some(at),
            _ => self.other.pick(cx),
        }
    }

    fn rotation(&self) -> Option<&dyn Rotation> {
        self.other.rotation()
    }

    fn legacy(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.other.legacy()
    }
}
