use std::sync::Arc;

use super::distribution::{Candidate, Distribution, Standing};
use super::stages::{Duplicates, WeightsStage};
use super::{Hub, ListStage, Rank, RequestStage, StageCx};
use crate::{ServiceId, ServiceInstance, Status};

/// The stages of one service, sorted; pure data, replaced whole when the configuration changes.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    /// Up to the groups.
    pub(crate) outer: Vec<Arc<dyn ListStage>>,
    /// Inside each group.
    pub(crate) inner: Vec<Arc<dyn ListStage>>,
    pub(crate) requests: Arc<[Arc<dyn RequestStage>]>,
    pub(crate) weights: WeightsStage,
    /// Where this client stands, if it was told.
    pub(crate) zone: Option<Arc<str>>,
    /// How the traffic is divided, if weights are not all there is to it.
    pub(crate) distribution: Option<Arc<Distribution>>,
}

/// What the stages up to the groups leave of a list.
pub(crate) struct Usable {
    pub(crate) list: Vec<ServiceInstance>,
    /// How each of them stands, where the traffic is divided by it; else none.
    pub(crate) standings: Vec<Standing>,
    /// Why it is empty, if it is; and what a stage says of that.
    pub(crate) reason: Reason,
    pub(crate) why: Option<String>,
    /// A stage would have left none, and left all.
    pub(crate) open: bool,
}

/// Why a list has nothing to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The source listed none.
    Empty,
    /// Every instance is down.
    AllDown,
    /// Every instance that is not down has weight 0.
    AllDrained,
    /// None passes its health check, and the check fails closed.
    AllUnhealthy,
    /// A stage left none.
    Filtered,
    /// The request asks for a group that has no instance, and may not go elsewhere.
    NoGroup,
    /// The request does not say what a stage of the chain requires.
    Required,
    /// There are instances, but the policy named none of them.
    NotPicked,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Empty => "the source lists none",
            Self::AllDown => "all are down",
            Self::AllDrained => "all are drained (weight 0)",
            Self::AllUnhealthy => "none passes its health check",
            Self::Filtered => "a stage of the chain left none",
            Self::NoGroup => "none is in the group that the request asks for",
            Self::Required => "the request does not say what a stage of the chain requires",
            Self::NotPicked => "the policy picked none",
        })
    }
}

impl Chain {
    pub(crate) fn new(
        mut lists: Vec<Arc<dyn ListStage>>,
        requests: Vec<Arc<dyn RequestStage>>,
        weights: WeightsStage,
    ) -> Self {
        // Stable: two stages of one rank keep the order in which they were added.
        lists.sort_by_key(|stage| stage.rank());
        let (inner, outer) = lists.into_iter().partition(|stage| stage.rank().is_inside_groups());
        Self { outer, inner, requests: requests.into(), weights, zone: None, distribution: None }
    }

    /// The same for a client in this zone.
    pub(crate) fn in_zone(self, zone: Option<&str>) -> Self {
        Self { zone: zone.map(str::trim).filter(|zone| !zone.is_empty()).map(Into::into), ..self }
    }

    /// The same with a rule by which the traffic is divided.
    pub(crate) fn distributed(self, distribution: Option<Distribution>) -> Self {
        Self { distribution: distribution.map(Arc::new), ..self }
    }

    /// Whether an instance stands in another zone than this client; one of them that names none stands nowhere.
    pub(crate) fn is_elsewhere(&self, instance: &ServiceInstance) -> bool {
        let found = || self.distribution.as_ref().and_then(|distribution| distribution.zone());
        match (self.zone.clone().or_else(found), instance.zone()) {
            (Some(own), Some(zone)) => !zone.eq_ignore_ascii_case(&own),
            _ => false,
        }
    }

    /// Whether a stage makes a subset.
    pub(crate) fn has_subset(&self) -> bool {
        self.inner.iter().any(|stage| stage.rank() == Rank::Subset)
    }

    /// Gives every stage the way back to its chain.
    pub(crate) fn attach(&self, hub: &Hub) {
        for stage in self.outer.iter().chain(&self.inner) {
            stage.attach(hub);
        }
        if let Some(distribution) = &self.distribution {
            distribution.attach(hub);
        }
    }

    /// The list up to the groups, and why it is empty if it is.
    pub(crate) fn usable(&self, mut list: Vec<ServiceInstance>, service: &ServiceId) -> Usable {
        let mut reason = Reason::Empty;
        let mut cx = StageCx::new(service, None).inside(self);
        if let Some(distribution) = &self.distribution {
            distribution.prepare(&list);
            cx = cx.marking(distribution.panics());
        }
        // They are counted where shares of usable ones are taken, and nothing else.
        let mut down = Vec::new();
        for stage in &self.outer {
            if stage.rank() == Rank::Status && !list.is_empty() {
                reason = if list.iter().all(|i| i.status() == Status::Down) {
                    Reason::AllDown
                } else {
                    Reason::AllDrained
                };
                // Drained ones go first: they must not keep a worse tier of status from being used.
                list.retain(|instance| !self.weights.weigh(instance).0.is_zero());
                if cx.is_marking() {
                    down = list.extract_if(.., |instance| instance.status() == Status::Down).collect();
                }
            }
            if stage.rank() > Rank::Health && !list.is_empty() {
                list.append(&mut down);
            }
            let before = list.len();
            stage.apply(&mut list, &cx);
            if before > 0 && list.is_empty() && stage.rank() > Rank::Status {
                reason = if stage.rank() == Rank::Health { Reason::AllUnhealthy } else { Reason::Filtered };
            }
        }
        if self.outer.last().is_some_and(|stage| stage.rank() > Rank::Status) {
            let before = list.len();
            self.tidy(&mut list, &cx);
            if before > 0 && list.is_empty() {
                reason = Reason::AllDrained;
            }
        }
        let mut standings = Vec::new();
        if cx.is_marking() && !list.is_empty() {
            list.append(&mut down);
            standings.extend(list.iter().map(|instance| match instance.status() {
                Status::Down => Standing::Down,
                _ => cx.standing(instance),
            }));
            let is_used = |standing: &Standing| {
                standing.is_available() || *standing == Standing::Failing && cx.panics()
            };
            if !standings.iter().any(is_used) {
                // A stage of one's own left those alone that may not be used.
                (reason, standings) = (Reason::Filtered, Vec::new());
                list.clear();
            }
        }
        let why = if list.is_empty() { cx.why() } else { None };
        Usable { list, standings, reason, why, open: cx.is_open() }
    }

    /// Hands what the stages of `old` know to those that take their places.
    pub(crate) fn succeed(&self, old: &Self) {
        for stage in self.outer.iter().chain(&self.inner) {
            let same =
                |before: &&Arc<dyn ListStage>| before.name() == stage.name() && before.rank() == stage.rank();
            let before = old.outer.iter().chain(&old.inner).find(same);
            if let Some(memory) = before.and_then(|before| before.memory()) {
                stage.inherit(memory);
            }
        }
        if let (Some(distribution), Some(before)) = (&self.distribution, &old.distribution) {
            distribution.inherit(before);
        }
    }

    /// Somebody is there again.
    pub(crate) fn wake(&self) {
        for stage in self.outer.iter().chain(&self.inner) {
            stage.wake();
        }
        if let Some(distribution) = &self.distribution {
            distribution.wake();
        }
    }

    /// Nobody will be there again.
    pub(crate) fn close(&self) {
        for stage in self.outer.iter().chain(&self.inner) {
            stage.close();
        }
        if let Some(distribution) = &self.distribution {
            distribution.close();
        }
    }

    /// A stage of one's own may repeat an instance, or drain it.
    fn tidy(&self, list: &mut Vec<ServiceInstance>, cx: &StageCx<'_>) {
        Duplicates.apply(list, cx);
        list.retain(|instance| !self.weights.weigh(instance).0.is_zero());
    }

    /// A group's list through the stages inside groups.
    pub(crate) fn within(&self, list: &mut Vec<ServiceInstance>, service: &ServiceId, group: Option<&str>) {
        let cx = StageCx::new(service, group);
        for stage in &self.inner {
            stage.apply(list, &cx);
        }
    }

    /// The whole list through all list stages, as a request without any group sees it.
    pub(crate) fn whole(&self, list: Vec<ServiceInstance>, service: &ServiceId) -> Vec<ServiceInstance> {
        let Usable { list: usable, standings, .. } = self.usable(list, service);
        if let Some(distribution) = &self.distribution {
            return self.divided(distribution, &usable, &standings, service);
        }
        let mut left = usable.clone();
        self.within(&mut left, service, None);
        self.tidy(&mut left, &StageCx::new(service, None));
        // A stage inside groups that leaves nothing is passed over.
        if left.is_empty() { usable } else { left }
    }

    /// Who of a whole list gets any traffic, in its order.
    fn divided(
        &self,
        distribution: &Distribution,
        list: &[ServiceInstance],
        standings: &[Standing],
        service: &ServiceId,
    ) -> Vec<ServiceInstance> {
        let candidates: Vec<Candidate<'_>> = list
            .iter()
            .zip(standings)
            .map(|(instance, standing)| Candidate {
                instance,
                weight: self.own_weight(instance),
                standing: *standing,
            })
            .collect();
        let allotted = distribution.allot("", &candidates, &mut |members| {
            let mut left: Vec<ServiceInstance> = members.iter().map(|at| list[*at].clone()).collect();
            self.within(&mut left, service, None);
            self.tidy(&mut left, &StageCx::new(service, None));
            let place = |one: &ServiceInstance| {
                let at = members.iter().find(|at| list[**at].same_identity(one))?;
                Some((*at, self.own_weight(one)))
            };
            left.iter().filter_map(place).collect()
        });
        drop(distribution.tell(service, &allotted.report));
        let mut used: Vec<usize> = allotted.used.into_iter().map(|(at, _)| at).collect();
        used.sort_unstable();
        used.into_iter().map(|at| list[at].clone()).collect()
    }

    /// What counts of an instance where traffic is divided: its weight, or the same for all.
    pub(crate) fn own_weight(&self, instance: &ServiceInstance) -> u64 {
        if self.weights.is_on() {
            self.weights.weigh(instance).0.thousandths()
        } else {
            crate::Weight::ONE.thousandths()
        }
    }
}
