//! How the traffic to a list, or a group of it, is divided: by priorities, by zones, and in panic.
//!
//! Everything here is made once per change of the list and ends in weights, which every policy honours anyway, so that a
//! pick costs what it costs with weights. Where it is on, instances that fail their health check, or are degraded, stay in
//! the list up to here with a [`Standing`], since panic may use them and shares of usable ones are taken of all.

mod division;
mod fleet;
mod fraction;
mod load;
mod report;
mod settings;
mod telling;
#[cfg(test)]
mod tests;
mod whereabouts;
mod zones;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::runtime::Handle;

pub use fleet::OwnFleet;
pub use report::{DistributionReport, PriorityReport, ZoneOff, ZoneShare, ZoneUse};
pub(crate) use settings::{Proportional, Settings};

use super::stage::Hub;
use crate::ServiceInstance;
use telling::Logs;
use whereabouts::Whereabouts;
use zones::{Shares, Zone};

/// How an instance stands before the traffic is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Usable.
    #[default]
    Healthy,
    /// Usable when there are too few healthy ones.
    Degraded,
    /// Fails its health check: used in panic only.
    Failing,
    /// Down by its registry: never used, but it counts as one that is missing.
    Down,
}

impl Standing {
    pub(crate) fn is_available(self) -> bool {
        matches!(self, Self::Healthy | Self::Degraded)
    }

    pub(crate) fn is_callable(self) -> bool {
        self != Self::Down
    }
}

/// An instance that takes part.
#[derive(Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub(crate) instance: &'a ServiceInstance,
    /// Its own weight in thousandths; 1 000 for all where weights are off. Not 0.
    pub(crate) weight: u64,
    pub(crate) standing: Standing,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Allotted {
    /// Who gets traffic, by place, and with which weight.
    pub(crate) used: Vec<(usize, u64)>,
    /// Who may be called when those cannot, by place: everybody usable, of priorities without traffic too, and who is used.
    pub(crate) whole: Vec<usize>,
    pub(crate) report: DistributionReport,
}

/// What the stages inside groups leave of some candidates, by place, with their weights.
pub(crate) type Narrow<'a> = dyn FnMut(&[usize]) -> Vec<(usize, u64)> + 'a;

/// The rules of one chain, and what they remember.
#[derive(Debug)]
pub(crate) struct Distribution {
    settings: Settings,
    runtime: Option<Handle>,
    whereabouts: Whereabouts,
    memory: Mutex<Memory>,
    /// In the own fleet's list of those who are told.
    joined: Mutex<Vec<u64>>,
    closed: AtomicBool,
    logs: Logs,
}

/// What was told last of zones in proportion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Told {
    #[default]
    Nothing,
    On,
    Off(ZoneOff),
}

/// A group, a priority, and whether its degraded instances.
type Key = (String, u32, bool);

/// What outlives one list.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    held: HashMap<Key, Shares>,
    own: Option<Zone>,
    /// What was told last of the whole list.
    zones: Told,
    panic: bool,
}

impl Distribution {
    pub(crate) fn new(settings: Settings, runtime: Option<Handle>) -> Self {
        let zones = settings.proportional.as_ref();
        let whereabouts = Whereabouts::new(
            zones.and_then(|zones| zones.own.as_deref()),
            zones.and_then(|zones| zones.addresses.clone()),
        );
        Self {
            settings,
            runtime,
            whereabouts,
            memory: Mutex::default(),
            joined: Mutex::default(),
            closed: AtomicBool::new(false),
            logs: Logs::default(),
        }
    }

    /// Whether instances that fail their health check may be used at all.
    pub(crate) fn panics(&self) -> bool {
        self.settings.threshold > 0
    }

    pub(crate) fn has_priorities(&self) -> bool {
        self.settings.priorities
    }

    /// Counts what changes weights without a change of the list.
    pub(crate) fn generation(&self) -> u64 {
        self.fleet().map_or(0, OwnFleet::generation)
    }

    /// The own zone, if it was found by the address of this host.
    pub(crate) fn zone(&self) -> Option<Arc<str>> {
        self.whereabouts.zone()
    }

    fn fleet(&self) -> Option<&OwnFleet> {
        self.settings.proportional.as_ref()?.fleet.as_ref()
    }

    pub(crate) fn attach(&self, hub: &Hub) {
        if let Some(fleet) = self.fleet() {
            self.joined.lock().push(fleet.join(hub.clone()));
        }
    }

    pub(crate) fn wake(&self) {
        if let Some(fleet) = self.fleet().filter(|_| !self.closed.load(Ordering::Acquire)) {
            fleet.start(self.runtime.as_ref());
        }
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let joined = std::mem::take(&mut *self.joined.lock());
        for number in joined {
            if let Some(fleet) = self.fleet() {
                fleet.leave(number);
            }
        }
    }

    /// Takes over what the rules before knew.
    pub(crate) fn inherit(&self, before: &Self) {
        let memory = before.memory.lock().clone();
        self.whereabouts.remember(memory.own.clone());
        *self.memory.lock() = memory;
    }

    /// Looks where this process is, and follows the own fleet from here on.
    pub(crate) fn prepare(&self, list: &[ServiceInstance]) {
        self.wake();
        if self.settings.proportional.is_some() {
            let known = self.fleet().and_then(|fleet| fleet.known().ok());
            let fleet = known.as_ref().map_or(&[][..], |known| &known.instances);
            self.memory.lock().own = self.whereabouts.look(&[fleet, list]);
        }
    }

    /// Forgets what is remembered of groups that are gone.
    pub(crate) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.memory.lock().held.retain(|(key, ..), _| is_there(key));
    }
}

impl Drop for Distribution {
    fn drop(&mut self) {
        self.close();
    }
}
