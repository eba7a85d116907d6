use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::PreConnection;
use super::batch::{self, Batch, Running, Tries, share};
use crate::balancer::list::Member;
use crate::balancer::snapshot::{Node, Snapshot};
use crate::state::{InstanceState, ServiceState};

/// Who is new, and the batches that are being connected.
#[derive(Default)]
pub(in crate::balancer) struct Keeper {
    /// Held for looks at what it holds only: whoever ends a hold may come back here.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The uids of those who are listed and got calls, or are being connected; `None` before the first list.
    known: Option<HashSet<u64>>,
    /// As many tries run at a time as it has permits.
    gate: Option<(u32, Arc<Semaphore>)>,
    batches: Vec<(Arc<Batch>, AbortHandle)>,
    closed: bool,
}

/// A batch that waits for its list to be published; dropped before that, it holds nobody.
pub(in crate::balancer) struct Begun {
    running: Running,
    runtime: Handle,
    gate: Arc<Semaphore>,
}

impl Keeper {
    /// Other settings, for those who come from now on; switched off, nobody is waited for any more.
    pub(in crate::balancer) fn configure(&self, settings: &PreConnection) {
        if !settings.properties.enabled {
            self.state.lock().known = None;
            self.stop();
        }
    }

    /// The balancer is closed.
    pub(in crate::balancer) fn close(&self) {
        self.state.lock().closed = true;
        self.stop();
    }

    fn stop(&self) {
        let batches = std::mem::take(&mut self.state.lock().batches);
        for (batch, task) in batches {
            task.abort();
            // The task may be gone only later.
            batch.let_in();
        }
    }

    fn running(&self) -> Vec<Arc<Batch>> {
        let mut state = self.state.lock();
        state.batches.retain(|(batch, _)| !batch.is_over());
        state.batches.iter().map(|(batch, _)| Arc::clone(batch)).collect()
    }

    /// What was tried in vain, by uid, of those who are held.
    pub(in crate::balancer) fn tries(&self) -> HashMap<u64, Tries> {
        self.running().iter().flat_map(|batch| batch.tries().collect::<Vec<_>>()).collect()
    }

    /// A new list: those who left it, or are not available any more, are waited for no longer.
    pub(in crate::balancer) fn keep(&self, members: &[Member]) {
        let running = self.running();
        if running.is_empty() {
            return;
        }
        let is_there = |uid| {
            let at = members.binary_search_by_key(&uid, |member| member.uid);
            at.is_ok_and(|at| members[at].listed.is_available())
        };
        for batch in &running {
            batch.keep(is_there);
        }
    }

    /// The views of a list are made: who is in one of them for the first time since it was listed is to be connected, and is held
    /// if others are in use. Those whom only the widest views have are not: this client calls them for want of others.
    pub(in crate::balancer) fn begin(
        &self,
        settings: &PreConnection,
        members: &[Member],
        root: Option<&Node>,
        service: &Arc<ServiceState>,
    ) -> Option<Begun> {
        let root = root.filter(|_| settings.properties.enabled)?;
        let mut seen = HashSet::new();
        root.each_view(&mut |view| seen.extend(view.states().iter().map(|state| state.uid())));
        let available = || members.iter().filter(|member| member.listed.is_available());
        let new: Vec<Arc<InstanceState>> = {
            let mut state = self.state.lock();
            if state.closed {
                return None;
            }
            let known = state.known.take();
            let first = known.is_none();
            let known = known.unwrap_or_default();
            let is_new = |uid: u64| seen.contains(&uid) && !known.contains(&uid);
            // One that is out of use for what its calls showed is left to its probing call.
            let new = available().filter(|member| {
                is_new(member.uid) && !member.state.is_skipped() && (!first || settings.properties.first_list)
            });
            let new = new.map(|member| Arc::clone(&member.state)).collect();
            let uids = available().map(|member| member.uid);
            state.known = Some(uids.filter(|uid| seen.contains(uid) || known.contains(uid)).collect());
            new
        };
        let uids: HashSet<u64> = new.iter().map(|state| state.uid()).collect();
        let others = available().any(|member| !member.state.is_skipped() && !uids.contains(&member.uid));
        if !others {
            // Nobody else is in use: the first to be connected would get everything.
            for batch in self.running() {
                batch.let_in();
            }
        }
        let runtime = service.back_off().0.filter(|_| !new.is_empty())?;
        let hold = others && share(new.len(), settings.properties.ratio) > 0;
        let batch = Arc::new(Batch::new(service, settings, new, hold));
        let gate = self.gate(settings.properties.concurrency.max(1));
        Some(Begun { running: Running(batch), runtime, gate })
    }

    /// An instance of `list` is out of use, or back: when nobody is in use, those who are held are.
    pub(in crate::balancer) fn fitness_changed(&self, list: Option<&Snapshot>) {
        let running = self.running();
        if running.is_empty() {
            return;
        }
        let in_use = |(state, available): (&Arc<InstanceState>, bool)| available && !state.is_skipped();
        if !list.is_some_and(|list| list.members().any(in_use)) {
            for batch in &running {
                batch.let_in();
            }
        }
    }

    fn gate(&self, permits: u32) -> Arc<Semaphore> {
        let mut state = self.state.lock();
        match &state.gate {
            Some((of, gate)) if *of == permits => Arc::clone(gate),
            _ => {
                let most = usize::try_from(permits).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
                let gate = Arc::new(Semaphore::new(most));
                state.gate = Some((permits, Arc::clone(&gate)));
                gate
            }
        }
    }

    /// The list of a batch is published: its task begins.
    pub(in crate::balancer) fn start(&self, begun: Begun, service: &ServiceState) {
        let Begun { running, runtime, gate } = begun;
        let batch = Arc::clone(&running.0);
        batch.note();
        // A runtime that is gone drops it at once, and with it the hold.
        let task = runtime.spawn(batch::run(running, gate)).abort_handle();
        service.fitness_changed();
        let mut state = self.state.lock();
        if state.closed {
            task.abort();
            drop(state);
            batch.let_in();
        } else {
            state.batches.push((batch, task));
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop();
    }
}
