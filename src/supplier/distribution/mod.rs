//! How the traffic to a list, or a group of it, is divided: by priorities, by zones, and in panic.
//!
//! Everything here is made once per change of the list and ends in weights, which every policy honours anyway, so that a
//! pick costs what it costs with weights. Where it is on, instances that fail their health check, or are degraded, stay in
//! the list up to here with a [`Standing`], since panic may use them and shares of usable ones are taken of all.

mod fleet;
mod fraction;
mod load;
mod report;
mod settings;
#[cfg(test)]
mod tests;
mod whereabouts;
mod zones;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::runtime::Handle;

pub use fleet::OwnFleet;
pub use report::{DistributionReport, PriorityReport, ZoneOff, ZoneShare, ZoneUse};
pub(crate) use settings::{Proportional, Settings};

use super::stage::Hub;
use crate::limit::Limit;
use crate::{ServiceId, ServiceInstance};
use fraction::{Share, weights};
use load::{Counts, Load, loads};
use whereabouts::Whereabouts;
use zones::{PerZone, Shares, Zone, folded, may_stay, proportional};

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

#[derive(Debug)]
struct Logs {
    zones: Limit,
    zone: Limit,
    panic: Limit,
}

/// A group, a priority, and whether its degraded instances.
type Key = (String, u32, bool);

/// What outlives one list.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    held: HashMap<Key, Shares>,
    own: Option<Zone>,
    /// What was told last of the whole list.
    off: Option<Option<ZoneOff>>,
    panic: bool,
}

/// Some candidates that are divided among themselves: healthy or degraded ones of a priority, or all of it.
struct Bucket {
    load: u64,
    members: Vec<usize>,
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
            logs: Logs { zones: Limit::changes(), zone: Limit::faults(), panic: Limit::changes() },
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

    /// Divides the traffic among `candidates`. Total: any list, in any standing.
    pub(crate) fn allot(&self, key: &str, candidates: &[Candidate<'_>], narrow: &mut Narrow<'_>) -> Allotted {
        let mut of: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, candidate) in candidates.iter().enumerate() {
            let priority = if self.settings.priorities { candidate.instance.priority() } else { 0 };
            of.entry(priority).or_default().push(at);
        }
        let counts: Vec<Counts> = of.values().map(|members| counts(candidates, members)).collect();
        let mut loads = loads(&counts, self.settings.factor, self.settings.threshold);
        if !self.settings.priorities {
            // The law of the status: degraded ones if there is nobody better, and not before.
            for (load, counts) in loads.of.iter_mut().zip(&counts).filter(|_| !loads.total_panic) {
                let sum = load.healthy + load.degraded;
                (load.healthy, load.degraded) = if counts.healthy > 0 { (sum, 0) } else { (0, sum) };
            }
        }
        let mut report =
            DistributionReport { total_panic: loads.total_panic, priorities: Vec::with_capacity(of.len()) };
        let total: u64 = loads.of.iter().map(|load| load.healthy + load.degraded).sum();
        let mut shares: BTreeMap<usize, Share> = BTreeMap::new();
        for ((at, (priority, members)), load) in of.iter().enumerate().zip(&loads.of) {
            let mut zones = ZoneUse::Plain;
            for bucket in buckets(candidates, members, *load) {
                let part = Share::of(u128::from(bucket.load), u128::from(total));
                let divided = self.divide(key, *priority, candidates, (load.panic, &bucket), members, narrow);
                shares.extend(divided.0.into_iter().map(|(at, share)| (at, share.times(part))));
                zones = divided.1;
            }
            report.priorities.push(reported(*priority, counts[at], *load, total, zones));
        }
        shares.retain(|_, share| !share.is_zero());
        let open = |at: &usize| {
            candidates[*at].standing.is_available() || shares.contains_key(at) || {
                let nobody = shares.is_empty();
                nobody && candidates[*at].standing.is_callable()
            }
        };
        let whole: Vec<usize> = (0..candidates.len()).filter(open).collect();
        let (places, shares): (Vec<usize>, Vec<Share>) = shares.into_iter().unzip();
        let used = places.into_iter().zip(weights(&shares)).collect();
        Allotted { used, whole, report }
    }

    /// Divides what a bucket gets among those of its members that the stages inside groups leave.
    fn divide(
        &self,
        key: &str,
        priority: u32,
        candidates: &[Candidate<'_>],
        (panic, bucket): (bool, &Bucket),
        all: &[usize],
        narrow: &mut Narrow<'_>,
    ) -> (Vec<(usize, Share)>, ZoneUse) {
        let zone_of = |at: usize| folded(candidates[at].instance.zone());
        let mut left = narrow(&bucket.members);
        left.retain(|(at, weight)| *weight > 0 && *at < candidates.len());
        if left.is_empty() {
            // A stage that leaves nothing is passed over.
            left = bucket.members.iter().map(|at| (*at, candidates[*at].weight)).collect();
        }
        let mut capacity = PerZone::new();
        for (at, weight) in &left {
            let sum = capacity.entry(zone_of(*at)).or_default();
            *sum = sum.saturating_add(*weight);
        }
        let (shares, zones) = self.zones(key, priority, candidates, panic, &bucket.members, all);
        let shares: Shares = match shares {
            // Only zones where somebody is left; the others' parts go to those, in proportion.
            Some(shares) => shares.into_iter().filter(|(zone, _)| capacity.contains_key(zone)).collect(),
            None => Shares::new(),
        };
        let sum: f64 = shares.values().map(|share| share.value()).sum();
        if shares.is_empty() || sum <= 0.0 {
            let total = capacity.values().map(|weight| u128::from(*weight)).sum();
            let even = left.iter().map(|(at, weight)| (*at, Share::of(u128::from(*weight), total)));
            return (even.collect(), zones);
        }
        // Proportions are what matters; what went with a zone is missing in all alike only if there is one bucket. So they
        // are brought back to a sum of 1.
        let shares = zones::normalised(shares);
        let own = left.iter().filter_map(|(at, weight)| {
            let zone = zone_of(*at);
            let share = *shares.get(&zone)?;
            Some((*at, share.times(Share::of(u128::from(*weight), u128::from(*capacity.get(&zone)?)))))
        });
        (own.collect(), zones)
    }

    /// What each zone gets of a priority's traffic, if zones count.
    fn zones(
        &self,
        key: &str,
        priority: u32,
        candidates: &[Candidate<'_>],
        panic: bool,
        members: &[usize],
        all: &[usize],
    ) -> (Option<Shares>, ZoneUse) {
        let mut usable: BTreeMap<Zone, (usize, u64)> = BTreeMap::new();
        for at in members {
            let (count, weight) = usable.entry(folded(candidates[*at].instance.zone())).or_default();
            (*count, *weight) = (*count + 1, weight.saturating_add(candidates[*at].weight));
        }
        if let Some(zone_weights) = &self.settings.zone_weights {
            if panic {
                return (None, ZoneUse::Off(ZoneOff::Panic));
            }
            let mut listed = PerZone::new();
            for at in all {
                *listed.entry(folded(candidates[*at].instance.zone())).or_default() += 1;
            }
            let shares = zones::weighted(zone_weights, self.settings.factor, &listed, |zone| {
                usable.get(zone).map_or(0, |(count, _)| *count as u64)
            });
            let told = told(&shares, &usable, None);
            return (Some(shares), ZoneUse::Weighted(told));
        }
        let Some(rules) = &self.settings.proportional else { return (None, ZoneUse::Plain) };
        let degraded = members.iter().all(|at| candidates[*at].standing == Standing::Degraded);
        let memory = (key.to_owned(), priority, degraded);
        let (own, clients) = match self.may_be_proportional(rules, panic, &memory, &usable) {
            Ok(both) => both,
            Err(why) => {
                self.memory.lock().held.remove(&memory);
                return (None, ZoneUse::Off(why));
            }
        };
        let servers: PerZone = usable.iter().map(|(zone, (_, weight))| (zone.clone(), *weight)).collect();
        let mut shares = proportional(&own, &servers, &clients);
        let held = &mut self.memory.lock().held;
        match held.get(&memory) {
            Some(held) if may_stay(held, &shares, &own, &servers, &clients) => shares.clone_from(held),
            _ => drop(held.insert(memory, shares.clone())),
        }
        let told = told(&shares, &usable, Some(&clients));
        (Some(shares), ZoneUse::Proportional { own: own.to_string(), shares: told })
    }

    /// The own zone and the clients, if everything is there that proportions are made from.
    fn may_be_proportional(
        &self,
        rules: &Proportional,
        panic: bool,
        memory: &Key,
        usable: &BTreeMap<Zone, (usize, u64)>,
    ) -> Result<(Zone, Arc<PerZone>), ZoneOff> {
        let Some(fleet) = &rules.fleet else { return Err(ZoneOff::NoOwnFleet) };
        let clients = fleet.known().map_err(ZoneOff::OwnFleetUnknown)?.clients;
        let own = self.whereabouts.zone().ok_or(ZoneOff::OwnZoneUnknown)?;
        let named = |zone: &&Zone| !zone.is_empty();
        if panic {
            Err(ZoneOff::Panic)
        } else if clients.keys().filter(named).count() < 2 {
            Err(ZoneOff::ClientsInOneZone)
        } else if !clients.contains_key(&own) {
            Err(ZoneOff::NoClientInOwnZone)
        } else if usable.keys().filter(named).count() < 2 {
            Err(ZoneOff::ServersInOneZone)
        } else {
            let count: usize = usable.values().map(|(count, _)| count).sum();
            // What is on goes off a little later than it comes on, so that a server that flaps does not switch it.
            let is_on = self.memory.lock().held.contains_key(memory);
            let least = rules.min_cluster_size;
            let needed = if is_on { least - (least / 6).max(1).min(least) } else { least };
            if count < needed { Err(ZoneOff::TooFewServers { usable: count, least }) } else { Ok((own, clients)) }
        }
    }

    /// Tells what changed since it was last told, of the whole list.
    pub(crate) fn tell(&self, service: &ServiceId, report: &DistributionReport) {
        let off = report.zones_off().cloned();
        let (changed, panicked) = {
            let mut memory = self.memory.lock();
            let changed = self.settings.proportional.is_some() && memory.off.as_ref() != Some(&off);
            let first = memory.off.is_none();
            memory.off = Some(off.clone());
            let panicked = std::mem::replace(&mut memory.panic, report.is_panic()) != report.is_panic();
            // Before the first look-up of the fleet has ended there is nothing to say.
            (changed && !(first && matches!(off, Some(ZoneOff::OwnFleetUnknown(_)))), panicked)
        };
        if changed {
            self.tell_zones(service, off.as_ref());
        }
        if panicked && let Some(passed) = self.logs.panic.pass() {
            let suppressed = passed.suppressed();
            let sum = |of: fn(&PriorityReport) -> usize| report.priorities().iter().map(of).sum::<usize>();
            let (usable, listed) = (sum(|of| of.healthy + of.degraded), sum(|of| of.listed));
            let threshold = self.settings.threshold;
            if report.is_panic() {
                tracing::warn!(
                    %service, usable, listed, threshold, total = report.is_total_panic(), suppressed,
                    "panic: too few instances are usable, and all are used"
                );
            } else {
                tracing::info!(%service, usable, listed, threshold, suppressed, "the panic is over: enough instances are usable");
            }
        }
    }

    fn tell_zones(&self, service: &ServiceId, off: Option<&ZoneOff>) {
        match off {
            Some(ZoneOff::OwnZoneUnknown) => {
                if let Some(passed) = self.logs.zone.pass() {
                    tracing::warn!(
                        %service, addresses = ?self.whereabouts.addresses(), suppressed = passed.suppressed(),
                        "the own zone is not known: zones are not used in proportion"
                    );
                }
            }
            Some(why) => {
                if let Some(passed) = self.logs.zones.pass() {
                    tracing::info!(
                        %service, %why, suppressed = passed.suppressed(),
                        "zones are not used in proportion: every instance is used by its weight"
                    );
                }
            }
            None => {
                if let Some(passed) = self.logs.zones.pass() {
                    let zone = self.whereabouts.zone();
                    tracing::info!(
                        %service, zone = zone.as_deref(), suppressed = passed.suppressed(),
                        "zones are used in proportion"
                    );
                }
            }
        }
    }
}

impl Drop for Distribution {
    fn drop(&mut self) {
        self.close();
    }
}

fn counts(candidates: &[Candidate<'_>], members: &[usize]) -> Counts {
    let count =
        |of: fn(Standing) -> bool| members.iter().filter(|at| of(candidates[**at].standing)).count() as u64;
    Counts {
        listed: members.len() as u64,
        callable: count(Standing::is_callable),
        healthy: count(|standing| standing == Standing::Healthy),
        degraded: count(|standing| standing == Standing::Degraded),
    }
}

/// Who of a priority gets which part.
fn buckets(candidates: &[Candidate<'_>], members: &[usize], load: Load) -> Vec<Bucket> {
    let of = |load: u64, is_in: fn(Standing) -> bool| Bucket {
        load,
        members: members.iter().copied().filter(|at| is_in(candidates[*at].standing)).collect(),
    };
    let buckets = if load.panic {
        vec![of(load.healthy + load.degraded, Standing::is_callable)]
    } else {
        vec![
            of(load.healthy, |standing| standing == Standing::Healthy),
            of(load.degraded, |standing| standing == Standing::Degraded),
        ]
    };
    buckets.into_iter().filter(|bucket| bucket.load > 0 && !bucket.members.is_empty()).collect()
}

#[allow(clippy::cast_precision_loss)] // percents and counts
fn reported(priority: u32, counts: Counts, load: Load, total: u64, zones: ZoneUse) -> PriorityReport {
    let whole = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    PriorityReport {
        priority,
        listed: whole(counts.listed),
        healthy: whole(counts.healthy),
        degraded: whole(counts.degraded),
        health: u32::try_from(load.health).unwrap_or(100),
        load: if total == 0 { 0.0 } else { (load.healthy + load.degraded) as f64 / total as f64 },
        panic: load.panic,
        zones,
    }
}

fn told(
    shares: &Shares,
    usable: &BTreeMap<Zone, (usize, u64)>,
    clients: Option<&PerZone>,
) -> Vec<ZoneShare> {
    let zones = usable.keys().chain(clients.into_iter().flat_map(BTreeMap::keys));
    let zones: std::collections::BTreeSet<&Zone> = zones.collect();
    zones
        .into_iter()
        .map(|zone| ZoneShare {
            zone: zone.to_string(),
            share: shares.get(zone).map_or(0.0, |share| share.value()),
            instances: usable.get(zone).map_or(0, |(count, _)| *count),
            clients: clients.map(|clients| clients.get(zone).copied().unwrap_or_default()),
        })
        .collect()
}
