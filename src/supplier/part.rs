//! The part of a list that requests of this client can get.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::identity::ByIdentity;
use super::{Chain, Rank, RequestStage, StageCx};
use crate::{ServiceId, ServiceInstance, Status};

impl Chain {
    /// What the stages inside groups leave, up to the subset, in the whole of `list` or in a group of it; in the order of
    /// `list`. `None` when no stage makes a subset.
    ///
    /// It goes through the groups as the tree of views does, and makes nothing but the part.
    pub(super) fn part(&self, list: &[ServiceInstance], service: &ServiceId) -> Option<Vec<ServiceInstance>> {
        if !self.has_subset() {
            return None;
        }
        let mut walk = Walk { chain: self, service, kept: HashSet::new() };
        let all: Vec<&ServiceInstance> = list.iter().collect();
        walk.group(&all, None, &self.requests);
        let kept = walk.kept;
        Some(
            list.iter().filter(|instance| kept.contains(&ByIdentity((*instance).clone()))).cloned().collect(),
        )
    }
}

struct Walk<'a> {
    chain: &'a Chain,
    service: &'a ServiceId,
    kept: HashSet<ByIdentity>,
}

impl Walk<'_> {
    fn group(&mut self, members: &[&ServiceInstance], name: Option<&str>, stages: &[Arc<dyn RequestStage>]) {
        let mut left: Vec<ServiceInstance> = members.iter().map(|instance| (*instance).clone()).collect();
        // What gets traffic of its own has a subset of its own, so that there is somebody to turn to.
        if let Some(distribution) = &self.chain.distribution {
            let mut of: BTreeMap<_, Vec<ServiceInstance>> = BTreeMap::new();
            for instance in left.drain(..) {
                let priority = if distribution.has_priorities() { instance.priority() } else { 0 };
                let degraded = instance.status() == Status::Degraded;
                of.entry((priority, degraded)).or_default().push(instance);
            }
            for left in of.into_values() {
                self.keep(left, name);
            }
        } else {
            self.keep(left, name);
        }
        self.branch(members, stages);
    }

    fn keep(&mut self, members: Vec<ServiceInstance>, name: Option<&str>) {
        let cx = StageCx::new(self.service, name).rehearsing();
        let mut left = members.clone();
        for stage in self.chain.inner.iter().filter(|stage| stage.rank() <= Rank::Subset) {
            stage.apply(&mut left, &cx);
        }
        // A stage inside groups that leaves nothing is passed over.
        self.kept.extend(if left.is_empty() { members } else { left }.into_iter().map(ByIdentity));
    }

    fn branch(&mut self, members: &[&ServiceInstance], stages: &[Arc<dyn RequestStage>]) {
        let Some((stage, rest)) = stages.split_first() else { return };
        let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        stage.groups_of(members, &mut |at, name| match groups.get_mut(name) {
            Some(group) => group.push(at),
            None => drop(groups.insert(name.to_owned(), vec![at])),
        });
        for (name, mut group) in groups {
            // A stage may name a group twice for one instance, and instances in an order of its own.
            group.sort_unstable();
            group.dedup();
            let group: Vec<&ServiceInstance> =
                group.into_iter().filter_map(|at| members.get(at).copied()).collect();
            self.group(&group, Some(&name), rest);
        }
        self.branch(members, rest);
    }
}
