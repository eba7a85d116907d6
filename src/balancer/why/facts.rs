//! What a report looks at, read in one go so that no lock is held while it is made.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use tokio::time::Instant;

use super::super::LoadBalancer;
use super::super::pre_connection::Tries;
use super::super::snapshot::Snapshot;
use super::Active;
use crate::observe::{StageStatus, safe};
use crate::policy::Policy;
use crate::state::InstanceState;
use crate::supplier::{Chain, Step};
use crate::{ServiceId, ServiceInstance};

pub(super) struct Facts {
    pub(super) service: ServiceId,
    pub(super) now: Instant,
    pub(super) wall: SystemTime,
    pub(super) snapshot: Option<Arc<Snapshot>>,
    pub(super) chain: Chain,
    pub(super) policy: Arc<dyn Policy>,
    /// What the source lists, one of each identity, with drains marked.
    pub(super) listed: Vec<ServiceInstance>,
    /// By the hash of the identity.
    states: HashMap<u64, Vec<Arc<InstanceState>>>,
    /// Those that left the list and have calls in flight.
    pub(super) gone: Vec<(ServiceInstance, Arc<InstanceState>)>,
    pub(super) overrides: Vec<Active>,
    /// What was tried in vain of those that are being connected, by uid.
    pub(super) connecting: HashMap<u64, Tries>,
    /// The stages up to the groups, and what they leave.
    pub(super) steps: Vec<Step>,
    pub(super) usable: Vec<ServiceInstance>,
    pub(super) open: bool,
    pub(super) closed: bool,
}

impl Facts {
    pub(super) fn of(balancer: &LoadBalancer) -> Self {
        let board = &balancer.core.driver.publish;
        let look = board.look();
        let overrides = board.overrides.in_force();
        let named = board.overrides.marked(look.named);
        let service = board.service.id().clone();
        let (steps, usable) = look.chain.trace(named.clone(), &service);
        let mut states: HashMap<u64, Vec<Arc<InstanceState>>> = HashMap::new();
        for state in look.states {
            states.entry(state.instance().identity_hash()).or_default().push(state);
        }
        let mut seen = std::collections::HashSet::with_capacity(named.len());
        // The last of one identity wins, as in the chain; which entry is shown makes no other difference.
        let mut listed: Vec<ServiceInstance> =
            named.into_iter().rev().filter(|instance| seen.insert(instance.identity_hash())).collect();
        listed.reverse();
        let gone = states
            .values()
            .flatten()
            .filter(|state| state.in_flight() > 0 && !listed_has(&seen, state))
            .map(|state| (state.instance(), Arc::clone(state)))
            .collect();
        Self {
            service,
            now: Instant::now(),
            wall: board.service.wall().now(),
            snapshot: board.snapshot.load_full(),
            chain: look.chain,
            policy: board.policy(),
            listed,
            gone,
            states,
            overrides: overrides.into_iter().filter(|one| !one.is_over()).collect(),
            connecting: board.connecting.tries(),
            steps,
            usable,
            open: look.open,
            closed: balancer.is_closed(),
        }
    }

    pub(super) fn state(&self, instance: &ServiceInstance) -> Option<&Arc<InstanceState>> {
        self.states.get(&instance.identity_hash())?.iter().find(|state| state.is(instance))
    }

    pub(super) fn states(&self) -> impl Iterator<Item = &Arc<InstanceState>> {
        self.states.values().flatten()
    }
}

fn listed_has(listed: &std::collections::HashSet<u64>, state: &InstanceState) -> bool {
    listed.contains(&state.instance().identity_hash())
}

/// Who leaves an instance out, by the hash of its identity.
pub(super) type LeftOut = HashMap<u64, (String, Option<String>)>;

pub(super) fn left_out(steps: &[Step]) -> LeftOut {
    let all = steps.iter().flat_map(|step| {
        step.left_out
            .iter()
            .map(|(instance, why)| (instance.identity_hash(), (step.stage.clone(), why.clone())))
    });
    all.collect()
}

/// A step as a report shows it.
pub(super) fn stage(step: &Step) -> StageStatus {
    StageStatus {
        stage: step.stage.clone(),
        before: step.before,
        after: step.after,
        note: step.off.as_deref().or(step.why.as_deref()).map(safe),
    }
}
