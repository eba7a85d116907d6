//! What each list stage leaves out, and why: the chain run once more, for a report. Nobody gets the list.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::stages::Duplicates;
use super::{Chain, ListStage, Rank, StageCx};
use crate::{ServiceId, ServiceInstance};

/// One stage at one list.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) stage: String,
    pub(crate) rank: Option<Rank>,
    pub(crate) before: usize,
    pub(crate) after: usize,
    /// Why it does nothing, though it is on.
    pub(crate) off: Option<String>,
    /// What it says of leaving nothing.
    pub(crate) why: Option<String>,
    pub(crate) left_out: Vec<(ServiceInstance, Option<String>)>,
}

/// What drains: a weight of zero, ahead of the status and behind the last stage before the groups.
const WEIGHT: &str = "weight";

impl Chain {
    /// The stages up to the groups, as [`Chain::usable`] runs them.
    pub(crate) fn trace(
        &self,
        mut list: Vec<ServiceInstance>,
        service: &ServiceId,
    ) -> (Vec<Step>, Vec<ServiceInstance>) {
        let mut steps = Vec::new();
        for stage in &self.outer {
            if stage.rank() == Rank::Status && !list.is_empty() {
                steps.extend(self.drain(&mut list));
            }
            steps.push(self.step(&**stage, &mut list, service, None));
        }
        if self.outer.last().is_some_and(|stage| stage.rank() > Rank::Status) {
            Duplicates.apply(&mut list, &StageCx::new(service, None).rehearsing());
            steps.extend(self.drain(&mut list));
        }
        (steps, list)
    }

    /// The stages inside groups, on the instances of one of them, or on all. One that leaves nothing is passed over.
    pub(crate) fn trace_within(
        &self,
        list: Vec<ServiceInstance>,
        service: &ServiceId,
        group: Option<&str>,
    ) -> (Vec<Step>, Vec<ServiceInstance>) {
        let (mut left, mut steps) = (list.clone(), Vec::new());
        for stage in &self.inner {
            steps.push(self.step(&**stage, &mut left, service, group));
        }
        if !self.inner.is_empty() {
            steps.extend(self.drain(&mut left));
        }
        if left.is_empty() && !list.is_empty() {
            for step in &mut steps {
                (step.after, step.left_out) = (step.before, Vec::new());
                step.off = Some("together with the others it would leave none, so all are used".to_owned());
            }
            return (steps, list);
        }
        (steps, left)
    }

    fn step(
        &self,
        stage: &dyn ListStage,
        list: &mut Vec<ServiceInstance>,
        service: &ServiceId,
        group: Option<&str>,
    ) -> Step {
        let cx = StageCx::new(service, group).inside(self).rehearsing();
        let before = list.clone();
        // A stage of the user's must not take a report with it.
        let panicked = catch_unwind(AssertUnwindSafe(|| stage.apply(list, &cx))).is_err();
        if panicked {
            list.clone_from(&before);
        }
        let left: HashSet<u64> = list.iter().map(ServiceInstance::identity_hash).collect();
        let left_out = before
            .iter()
            .filter(|instance| !left.contains(&instance.identity_hash()))
            .map(|instance| {
                let why = catch_unwind(AssertUnwindSafe(|| stage.why_left_out(instance, &cx)));
                (instance.clone(), why.unwrap_or_default())
            })
            .collect();
        Step {
            stage: stage.name().to_owned(),
            rank: Some(stage.rank()),
            before: before.len(),
            after: list.len(),
            off: if panicked { Some("it panicked".to_owned()) } else { cx.off() },
            why: cx.why(),
            left_out,
        }
    }

    /// What a weight of zero leaves out, if it leaves out any.
    fn drain(&self, list: &mut Vec<ServiceInstance>) -> Option<Step> {
        let before = list.len();
        let (left, drained): (Vec<_>, Vec<_>) =
            std::mem::take(list).into_iter().partition(|instance| !self.weights.weigh(instance).0.is_zero());
        *list = left;
        let why = |instance| (instance, Some("its weight is 0, which drains it".to_owned()));
        (!drained.is_empty()).then(|| Step {
            stage: WEIGHT.to_owned(),
            rank: None,
            before,
            after: list.len(),
            off: None,
            why: None,
            left_out: drained.into_iter().map(why).collect(),
        })
    }
}
