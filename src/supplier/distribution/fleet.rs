//! How many clients there are in each zone: the instances of one's own service.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::super::{Hub, ServiceInstanceListSupplier, Supplier, SupplierBuilder};
use super::zones::{PerZone, folded};
use crate::discovery::{DiscoveryClient, SupplyError};
use crate::{ServiceId, ServiceInstance};

/// How often it is looked whether anybody still calls a balancer that asks for the fleet.
const LOOK: Duration = Duration::from_secs(60);
/// After so long without a caller nothing follows the fleet any more, as it is with health checks and watches.
const IDLE: Duration = Duration::from_secs(600);

/// The clients that share a service with this one, by zone: what proportional zones are made from.
///
/// Usually the instances of one's own service, [`looked_up`](Self::looked_up) in the same registry: one look-up and one
/// small task for all balancers that share the handle, from their first list until ten minutes without a caller. The last
/// answer stands while the registry gives none.
///
/// A clone is the same fleet.
///
/// ```
/// use evenkeel::supplier::OwnFleet;
///
/// // Told, not looked up; any measure of the traffic of a zone does, for only the proportions count.
/// let fleet = OwnFleet::fixed([("eu-1a", 20), ("eu-1b", 10), ("eu-1c", 10)]);
/// fleet.set([("eu-1a", 21), ("eu-1b", 10), ("eu-1c", 10)]);
/// ```
#[derive(Clone)]
pub struct OwnFleet(Arc<Inner>);

struct Inner {
    supplier: Option<Supplier>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: Option<Known>,
    error: Option<String>,
    /// Counts what could change a share.
    generation: u64,
    /// Who is told of changes, by number.
    hubs: Vec<(u64, Hub)>,
    next: u64,
    running: bool,
    task: Option<AbortHandle>,
}

/// What is known of the fleet.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) clients: Arc<PerZone>,
    pub(super) instances: Arc<[ServiceInstance]>,
}

impl OwnFleet {
    /// So many clients in each zone, or any other measure of their traffic; a zone named twice is added up.
    pub fn fixed(clients: impl IntoIterator<Item = (impl AsRef<str>, u64)>) -> Self {
        let fleet = Self::new(None);
        fleet.set(clients);
        fleet
    }

    /// The usable instances of `service` in this registry.
    ///
    /// # Errors
    /// [`BuildError`](super::super::BuildError) for a name that is none.
    pub fn looked_up(
        service: &str,
        registry: Arc<dyn DiscoveryClient>,
    ) -> Result<Self, super::super::BuildError> {
        Ok(Self::supplied(SupplierBuilder::new(service).with_discovery(registry).build()?))
    }

    /// What a chain leaves: its cache and its stages decide who counts as a client.
    pub fn supplied(supplier: Supplier) -> Self {
        Self::new(Some(supplier))
    }

    fn new(supplier: Option<Supplier>) -> Self {
        Self(Arc::new(Inner { supplier, state: Mutex::default() }))
    }

    /// Replaces what is known; balancers that ask for the fleet divide their traffic anew.
    pub fn set(&self, clients: impl IntoIterator<Item = (impl AsRef<str>, u64)>) {
        let mut zones = PerZone::new();
        for (zone, count) in clients.into_iter().filter(|(_, count)| *count > 0) {
            let sum = zones.entry(folded(Some(zone.as_ref()))).or_default();
            *sum = sum.saturating_add(count);
        }
        self.0.take(Known { clients: Arc::new(zones), instances: Arc::default() });
    }

    /// The clients of each zone, zones folded to lower case and the blank one that of clients without any; `None` before
    /// the first answer.
    pub fn clients(&self) -> Option<Vec<(String, u64)>> {
        let known = self.known().ok()?;
        Some(known.clients.iter().map(|(zone, count)| (zone.to_string(), *count)).collect())
    }

    /// The service that is looked up, if one is.
    pub fn service_id(&self) -> Option<&ServiceId> {
        self.0.supplier.as_ref().map(ServiceInstanceListSupplier::service_id)
    }

    /// What is known, else why nothing is.
    pub(super) fn known(&self) -> Result<Known, String> {
        let state = self.0.state.lock();
        match (&state.known, &state.error) {
            (Some(known), _) => Ok(known.clone()),
            (None, Some(error)) => Err(error.clone()),
            (None, None) => Err("it was not looked up yet".to_owned()),
        }
    }

    pub(super) fn generation(&self) -> u64 {
        self.0.state.lock().generation
    }

    /// Tells `hub` of changes, until it is [taken out](Self::leave).
    pub(super) fn join(&self, hub: Hub) -> u64 {
        let mut state = self.0.state.lock();
        state.next += 1;
        let number = state.next;
        state.hubs.push((number, hub));
        number
    }

    /// The last one ends the task.
    pub(super) fn leave(&self, number: u64) {
        let mut state = self.0.state.lock();
        state.hubs.retain(|(other, _)| *other != number);
        if state.hubs.is_empty()
            && let Some(task) = state.task.take()
        {
            task.abort();
        }
    }

    /// Follows the list unless that is done; without a runtime the next list does.
    pub(super) fn start(&self, runtime: Option<&Handle>) {
        if self.0.supplier.is_none() {
            return;
        }
        let Some(runtime) = runtime.cloned().or_else(|| Handle::try_current().ok()) else { return };
        let mut state = self.0.state.lock();
        if state.hubs.is_empty() || std::mem::replace(&mut state.running, true) {
            return;
        }
        let task = runtime.spawn(follow(Running(Arc::downgrade(&self.0))));
        state.task = Some(task.abort_handle());
    }
}

impl Inner {
    fn take(&self, known: Known) {
        let mut state = self.state.lock();
        state.error = None;
        // The addresses matter too: they tell in which zone this process is.
        let same = state
            .known
            .as_ref()
            .is_some_and(|old| old.clients == known.clients && old.instances == known.instances);
        if same {
            return;
        }
        state.known = Some(known);
        Self::changed(state);
    }

    fn failed(&self, error: &SupplyError) {
        let mut state = self.state.lock();
        let first = state.error.is_none();
        state.error = Some(error.to_string());
        if first && state.known.is_none() {
            Self::changed(state);
        }
    }

    fn changed(mut state: parking_lot::MutexGuard<'_, State>) {
        state.generation += 1;
        let hubs: Vec<Hub> = state.hubs.iter().map(|(_, hub)| hub.clone()).collect();
        // Chains run without the lock: they ask for what is known.
        drop(state);
        for hub in hubs {
            hub.recompute();
        }
    }

    /// Whether nobody has called for long.
    fn is_idle(&self) -> bool {
        let hubs: Vec<Hub> = self.state.lock().hubs.iter().map(|(_, hub)| hub.clone()).collect();
        // Each is asked, so that each notices its next caller.
        let used = hubs.iter().filter(|hub| hub.idle_for().is_some_and(|idle| idle < IDLE)).count();
        used == 0
    }
}

/// In the task: when it ends, be it that nobody calls or that its runtime goes away, the next caller starts another.
struct Running(Weak<Inner>);

impl Drop for Running {
    fn drop(&mut self) {
        let Some(inner) = self.0.upgrade() else { return };
        let hubs: Vec<Hub> = {
            let mut state = inner.state.lock();
            state.running = false;
            state.hubs.iter().map(|(_, hub)| hub.clone()).collect()
        };
        for hub in hubs {
            hub.wake_me();
        }
    }
}

async fn follow(running: Running) {
    let lists = running.0.upgrade().and_then(|inner| Some(inner.supplier.as_ref()?.get()));
    let Some(mut lists) = lists else { return };
    loop {
        tokio::select! {
            list = lists.next() => {
                let (Some(list), Some(inner)) = (list, running.0.upgrade()) else { return };
                match list {
                    Ok(list) => inner.take(known(list)),
                    Err(error) => inner.failed(&error),
                }
            }
            () = tokio::time::sleep(LOOK) => {
                if running.0.upgrade().is_none_or(|inner| inner.is_idle()) {
                    return;
                }
            }
        }
    }
}

fn known(list: Vec<ServiceInstance>) -> Known {
    let mut clients = PerZone::new();
    for instance in &list {
        *clients.entry(folded(instance.zone())).or_default() += 1;
    }
    Known { clients: Arc::new(clients), instances: list.into() }
}

impl fmt::Debug for OwnFleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnFleet")
            .field("service", &self.service_id())
            .field("clients", &self.clients())
            .finish_non_exhaustive()
    }
}
