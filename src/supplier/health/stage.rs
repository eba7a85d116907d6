use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::super::distribution::Standing;
use super::super::identity::ByIdentity;
use super::super::{Hub, ListStage, Memory, Rank, StageCx};
use super::prober::{self, Running};
use crate::health::{HealthCheck, ProbeError};
use crate::state::ChangeKind;
use crate::{ServiceId, ServiceInstance};

/// Leaves out the instances that fail their health check; one task probes, from the first list on.
pub struct HealthStage {
    shared: Arc<Shared>,
}

/// What the stage and its prober share.
pub(super) struct Shared {
    pub(super) check: HealthCheck,
    pub(super) hub: OnceLock<Hub>,
    /// Whom to probe: of the newest list, as it came to this stage, what this client may use.
    pub(super) targets: watch::Sender<Arc<[ServiceInstance]>>,
    pub(super) state: Mutex<State>,
    /// A task probes.
    pub(super) running: AtomicBool,
    closed: AtomicBool,
}

#[derive(Default)]
pub(super) struct State {
    verdicts: Verdicts,
    service: Option<ServiceId>,
    task: Option<AbortHandle>,
    /// All failed at the last look, which was told.
    open: bool,
}

type Verdicts = HashMap<ByIdentity, Verdict>;

/// What is known of one instance.
#[derive(Clone, Debug, Default)]
struct Verdict {
    /// `None` until the first check ends.
    alive: Option<bool>,
    passed: u32,
    failed: u32,
    last: Option<ProbeError>,
}

impl HealthStage {
    /// A stage that checks so.
    pub fn new(check: HealthCheck) -> Self {
        Self {
            shared: Arc::new(Shared {
                check,
                hub: OnceLock::new(),
                targets: watch::Sender::new(Arc::default()),
                state: Mutex::default(),
                running: AtomicBool::new(false),
                closed: AtomicBool::new(false),
            }),
        }
    }

    /// What [`apply`](ListStage::apply) leaves, and nothing else.
    fn rehearse(&self, list: &mut Vec<ServiceInstance>, dead: &HashSet<ByIdentity>, cx: &StageCx<'_>) {
        if list.is_empty() || dead.len() < list.len() {
            list.retain(|instance| !dead.contains(&ByIdentity(instance.clone())));
        } else if self.shared.check.fail_open {
            cx.fail_open();
            cx.switched_off("none passes its health check, so all are used");
        } else {
            cx.explain(format!("none passes its health check: {}", reasons(&self.shared.state.lock(), list)));
            list.clear();
        }
    }

    /// Starts the prober unless it runs; without a runtime the next list does.
    fn start(&self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.shared.closed.load(Ordering::Acquire) || self.shared.running.swap(true, Ordering::AcqRel) {
            return;
        }
        let (running, targets) = (Running(Arc::downgrade(&self.shared)), self.shared.targets.subscribe());
        let task = runtime.spawn(prober::run(running, targets));
        self.shared.state.lock().task = Some(task.abort_handle());
    }
}

impl Drop for HealthStage {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Whether an instance waits for its first check.
    pub(super) fn is_new(&self, instance: &ServiceInstance) -> bool {
        let state = self.state.lock();
        state.verdicts.get(&ByIdentity(instance.clone())).is_none_or(|verdict| verdict.alive.is_none())
    }

    /// Who of `list` failed its last checks.
    fn dead(&self, list: &[ServiceInstance]) -> HashSet<ByIdentity> {
        let state = self.state.lock();
        let failed = |one: &ByIdentity| state.verdicts.get(one).and_then(|v| v.alive) == Some(false);
        list.iter().cloned().map(ByIdentity).filter(failed).collect()
    }

    /// Tells who failed or passed by these results, and before did not.
    fn tell(&self, flips: Vec<(ServiceInstance, Option<ProbeError>)>) {
        let Some(hub) = self.hub.get() else { return };
        for (instance, why) in flips {
            match why {
                Some(why) => hub.note(ChangeKind::CheckFailed, Some(&instance), why.to_string()),
                None => hub.note(ChangeKind::CheckPassed, Some(&instance), "it passes its health check"),
            }
        }
    }

    /// Takes the results of a whole round; whether the list changes by it.
    pub(super) fn publish(&self, results: Vec<(ServiceInstance, Result<(), ProbeError>)>) -> bool {
        let mut state = self.state.lock();
        let (mut changed, mut flips) = (false, Vec::new());
        for (instance, result) in results {
            let checked = instance.clone();
            let verdict = state.verdicts.entry(ByIdentity(instance)).or_default();
            let before = verdict.alive;
            match result {
                Ok(()) => {
                    (verdict.passed, verdict.failed) = (verdict.passed.saturating_add(1), 0);
                    verdict.last = None;
                    if before.is_none() || verdict.passed >= self.check.rise {
                        verdict.alive = Some(true);
                    }
                }
                Err(why) => {
                    (verdict.passed, verdict.failed) = (0, verdict.failed.saturating_add(1));
                    verdict.last = Some(why);
                    if verdict.failed >= self.check.fall {
                        verdict.alive = Some(false);
                    } else if before.is_none() {
                        verdict.alive = Some(true);
                    }
                }
            }
            // Not yet probed counts as up.
            let flipped = before.unwrap_or(true) != verdict.alive.unwrap_or(true);
            changed |= flipped;
            if flipped {
                flips.push((checked, verdict.last.clone().filter(|_| verdict.alive == Some(false))));
            }
        }
        // Whoever is no target any more is not probed, and not remembered.
        let targets = self.targets.borrow().clone();
        let listed: HashSet<ByIdentity> = targets.iter().cloned().map(ByIdentity).collect();
        state.verdicts.retain(|target, _| listed.contains(target));
        drop(state);
        self.tell(flips);
        changed
    }
}

impl ListStage for HealthStage {
    fn name(&self) -> &'static str {
        "health"
    }

    fn rank(&self) -> Rank {
        Rank::Health
    }

    fn why_left_out(&self, instance: &ServiceInstance, _: &StageCx<'_>) -> Option<String> {
        let state = self.shared.state.lock();
        let verdict = state.verdicts.get(&ByIdentity(instance.clone()))?;
        let failed = verdict.failed;
        verdict
            .last
            .as_ref()
            .map(|last| format!("{failed} health checks failed in a row, the last with {last}"))
    }

    fn apply(&self, list: &mut Vec<ServiceInstance>, cx: &StageCx<'_>) {
        let dead = self.shared.dead(list);
        if cx.is_rehearsal() {
            self.rehearse(list, &dead, cx);
            return;
        }
        let due = whom_to_probe(list, &dead, cx);
        self.shared.targets.send_if_modified(|targets| {
            let differs = targets.len() != due.len() || !targets.iter().zip(&due).all(|(a, b)| a == b);
            if differs {
                *targets = due.into();
            }
            differs
        });
        self.start();
        let mut state = self.shared.state.lock();
        state.service.get_or_insert_with(|| cx.service().clone());
        if list.is_empty() || dead.len() < list.len() {
            let usable = list.len() - dead.len();
            if cx.is_marking() {
                mark_failing(&dead, cx);
            } else {
                list.retain(|instance| !dead.contains(&ByIdentity(instance.clone())));
            }
            if std::mem::take(&mut state.open) {
                tracing::info!(service = %cx.service(), usable, "health checks pass again");
            }
            return;
        }
        let why = reasons(&state, list);
        if !std::mem::replace(&mut state.open, true) {
            let fail_open = self.shared.check.fail_open;
            tracing::warn!(
                service = %cx.service(), instances = list.len(), probe = ?self.shared.check.probe, %why, fail_open,
                "no instance passes its health check"
            );
        }
        if self.shared.check.fail_open {
            cx.fail_open();
            if cx.panics() {
                mark_failing(&dead, cx);
            }
        } else {
            cx.explain(format!("none passes its health check: {why}"));
            list.clear();
        }
    }

    fn attach(&self, hub: &Hub) {
        // A stage belongs to one chain.
        let _ = self.shared.hub.set(hub.clone());
    }

    fn memory(&self) -> Option<Memory> {
        let verdicts: Verdicts = self.shared.state.lock().verdicts.clone();
        Some(Arc::new(verdicts))
    }

    fn inherit(&self, memory: Memory) {
        if let Ok(verdicts) = memory.downcast::<Verdicts>() {
            self.shared.state.lock().verdicts.clone_from(&verdicts);
        }
    }

    fn wake(&self) {
        self.start();
    }

    fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
        let task = self.shared.state.lock().task.take();
        if let Some(task) = task {
            task.abort();
        }
    }
}

/// So often it is asked who takes the places of those that fail; then everybody is probed. Each look finds a whole subset
/// of failed ones, so this is a service that is down.
const LOOKS: usize = 32;

/// Everybody; or, where the chain makes a subset, the members of this client's subsets, and who would be a member if it
/// passed: a failed one has to be probed to come back.
fn whom_to_probe(
    list: &[ServiceInstance],
    dead: &HashSet<ByIdentity>,
    cx: &StageCx<'_>,
) -> Vec<ServiceInstance> {
    let mut left = list.to_vec();
    let mut failed: HashSet<ByIdentity> = HashSet::new();
    for _ in 0..LOOKS {
        let Some(part) = cx.part_of_client(&left) else { break };
        let (down, mut asked) = split(part, dead);
        if down.is_empty() {
            // Some schemes choose others when somebody leaves who would be in no subset, and all the dead leave.
            if failed.len() < dead.len() {
                left.retain(|one| !dead.contains(&ByIdentity(one.clone())));
                asked.extend(cx.part_of_client(&left).into_iter().flatten().map(ByIdentity));
            }
            asked.extend(failed);
            return list.iter().filter(|one| asked.contains(&ByIdentity((*one).clone()))).cloned().collect();
        }
        failed.extend(down);
        left.retain(|one| !failed.contains(&ByIdentity(one.clone())));
    }
    list.to_vec()
}

fn mark_failing(dead: &HashSet<ByIdentity>, cx: &StageCx<'_>) {
    for one in dead {
        cx.mark(&one.0, Standing::Failing);
    }
}

/// The dead of a part, and the others.
fn split(part: Vec<ServiceInstance>, dead: &HashSet<ByIdentity>) -> (Vec<ByIdentity>, HashSet<ByIdentity>) {
    let (mut down, mut up) = (Vec::new(), HashSet::new());
    for one in part.into_iter().map(ByIdentity) {
        if dead.contains(&one) {
            down.push(one);
        } else {
            up.insert(one);
        }
    }
    (down, up)
}

/// "3 with status 404, 1 with connection refused".
fn reasons(state: &State, list: &[ServiceInstance]) -> String {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for instance in list {
        let last =
            state.verdicts.get(&ByIdentity(instance.clone())).and_then(|verdict| verdict.last.as_ref());
        *counts.entry(last.map_or_else(|| "no answer".to_owned(), ToString::to_string)).or_default() += 1;
    }
    let parts: Vec<String> = counts.into_iter().map(|(why, n)| format!("{n} with {why}")).collect();
    parts.join(", ")
}

impl fmt::Debug for HealthStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthStage").field("check", &self.shared.check).finish_non_exhaustive()
    }
}
