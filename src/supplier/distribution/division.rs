//! From candidates to weights.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::fraction::{Share, weights};
use super::load::{Counts, Load, loads};
use super::report::{PriorityReport, ZoneShare};
use super::settings::Proportional;
use super::zones::{self, PerZone, Shares, Zone, folded, may_stay, proportional};
use super::{Allotted, Candidate, Distribution, DistributionReport, Key, Narrow, Standing, ZoneOff, ZoneUse};

/// Some candidates that are divided among themselves: healthy or degraded ones of a priority, or all of it.
struct Bucket {
    load: u64,
    members: Vec<usize>,
}

/// The candidates of one group, and what is found out of them once.
struct Field<'a> {
    key: &'a str,
    candidates: &'a [Candidate<'a>],
    /// The zone of each candidate, as a place in `zones`; empty where zones do not count.
    zone_of: Vec<usize>,
    zones: Vec<Zone>,
}

/// Who gets traffic. Most have the same share as others have, and a share is worked out once for all of them.
#[derive(Default)]
struct Used {
    members: Vec<(usize, usize)>,
    shares: Vec<Share>,
    /// By bucket, zone and weight.
    known: HashMap<(usize, usize, u64), usize>,
}

/// The usable members of a bucket in one zone: how many, and their weights together.
#[derive(Clone, Copy, Default)]
struct Usable {
    count: usize,
    weight: u64,
}

impl<'a> Field<'a> {
    fn new(key: &'a str, candidates: &'a [Candidate<'a>], by_zone: bool) -> Self {
        let (mut zones, mut zone_of) = (Vec::new(), Vec::new());
        if by_zone {
            let (mut spelt, mut known) = (HashMap::new(), HashMap::new());
            zone_of.extend(candidates.iter().map(|candidate| {
                let zone = candidate.instance.zone();
                *spelt.entry(zone).or_insert_with(|| {
                    let zone = folded(zone);
                    *known.entry(zone.clone()).or_insert_with(|| {
                        zones.push(zone);
                        zones.len() - 1
                    })
                })
            }));
        }
        Self { key, candidates, zone_of, zones }
    }

    fn zone(&self, at: usize) -> usize {
        self.zone_of.get(at).copied().unwrap_or_default()
    }

    fn standing(&self, at: usize) -> Standing {
        self.candidates[at].standing
    }

    fn counts(&self, members: &[usize]) -> Counts {
        let count =
            |of: fn(Standing) -> bool| members.iter().filter(|at| of(self.standing(**at))).count() as u64;
        Counts {
            listed: members.len() as u64,
            callable: count(Standing::is_callable),
            healthy: count(|standing| standing == Standing::Healthy),
            degraded: count(|standing| standing == Standing::Degraded),
        }
    }

    /// Who of a priority gets which part.
    fn buckets(&self, members: &[usize], load: Load) -> Vec<Bucket> {
        let of = |load: u64, is_in: fn(Standing) -> bool| Bucket {
            load,
            members: members.iter().copied().filter(|at| is_in(self.standing(*at))).collect(),
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

    /// By zone, what is there of some members.
    fn by_zone(&self, members: impl Iterator<Item = (usize, u64)>) -> BTreeMap<Zone, Usable> {
        let mut sums = vec![Usable::default(); self.zones.len()];
        for (at, weight) in members {
            let Some(sum) = sums.get_mut(self.zone(at)) else { continue };
            *sum = Usable { count: sum.count + 1, weight: sum.weight.saturating_add(weight) };
        }
        self.zones.iter().cloned().zip(sums).filter(|(_, sum)| sum.count > 0).collect()
    }
}

impl Used {
    /// A member with the share that others of this bucket, zone and weight have too.
    fn put(&mut self, at: usize, class: (usize, usize, u64), share: impl FnOnce() -> Share) {
        let place = *self.known.entry(class).or_insert_with(|| {
            self.shares.push(share());
            self.shares.len() - 1
        });
        if !self.shares[place].is_zero() {
            self.members.push((at, place));
        }
    }

    fn weights(mut self) -> Vec<(usize, u64)> {
        // A stage may name somebody twice.
        self.members.sort_unstable_by_key(|(at, _)| *at);
        self.members.dedup_by_key(|(at, _)| *at);
        let some: Vec<Share> = self.shares.iter().copied().filter(|share| !share.is_zero()).collect();
        let mut numbers = weights(&some).into_iter();
        let of = |share: &Share| if share.is_zero() { 0 } else { numbers.next().unwrap_or_default() };
        let all: Vec<u64> = self.shares.iter().map(of).collect();
        self.members.into_iter().map(|(at, place)| (at, all[place])).collect()
    }
}

impl Distribution {
    fn has_zones(&self) -> bool {
        self.settings.zone_weights.is_some() || self.settings.proportional.is_some()
    }

    /// Divides the traffic among `candidates`. Total: any list, in any standing.
    pub(crate) fn allot(&self, key: &str, candidates: &[Candidate<'_>], narrow: &mut Narrow<'_>) -> Allotted {
        let field = Field::new(key, candidates, self.has_zones());
        let mut of: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, candidate) in candidates.iter().enumerate() {
            let priority = if self.settings.priorities { candidate.instance.priority() } else { 0 };
            of.entry(priority).or_default().push(at);
        }
        let counts: Vec<Counts> = of.values().map(|members| field.counts(members)).collect();
        let mut loads = loads(&counts, self.settings.factor, self.settings.threshold);
        if !self.settings.priorities && !loads.total_panic {
            // The law of the status: degraded ones if there is nobody better, and not before.
            for (load, counts) in loads.of.iter_mut().zip(&counts) {
                let sum = load.healthy + load.degraded;
                (load.healthy, load.degraded) = if counts.healthy > 0 { (sum, 0) } else { (0, sum) };
            }
        }
        let mut report =
            DistributionReport { total_panic: loads.total_panic, priorities: Vec::with_capacity(of.len()) };
        let total: u64 = loads.of.iter().map(|load| load.healthy + load.degraded).sum();
        let (mut used, mut number) = (Used::default(), 0);
        for (((priority, members), load), counts) in of.iter().zip(&loads.of).zip(&counts) {
            let mut zones = ZoneUse::Plain;
            for bucket in field.buckets(members, *load) {
                let part = Share::of(u128::from(bucket.load), u128::from(total));
                number += 1;
                let left = left(&field, &bucket, narrow);
                zones = self.divide(
                    &field,
                    (*priority, load.panic),
                    members,
                    (&bucket, left),
                    (part, number),
                    &mut used,
                );
            }
            report.priorities.push(reported(*priority, *counts, *load, total, zones));
        }
        let used = used.weights();
        let nobody = used.is_empty();
        let open = |at: &usize| {
            let standing = candidates[*at].standing;
            standing.is_available()
                || nobody && standing.is_callable()
                || used.binary_search_by_key(at, |(used, _)| *used).is_ok()
        };
        let whole = (0..candidates.len()).filter(open).collect();
        Allotted { used, whole, report }
    }

    /// Divides what a bucket gets among those of its members that are left.
    fn divide(
        &self,
        field: &Field<'_>,
        of: (u32, bool),
        all: &[usize],
        (bucket, left): (&Bucket, Vec<(usize, u64)>),
        (part, number): (Share, usize),
        used: &mut Used,
    ) -> ZoneUse {
        let (shares, zones) = if self.has_zones() {
            self.zones(field, of, &bucket.members, all)
        } else {
            (None, ZoneUse::Plain)
        };
        let capacity = field.by_zone(left.iter().copied());
        // Only zones where somebody is left; the parts of the others go to those, in proportion.
        let shares = shares.unwrap_or_default().into_iter().filter(|(zone, _)| capacity.contains_key(zone));
        let shares = zones::normalised(shares.collect());
        if shares.is_empty() {
            let total = left.iter().map(|(_, weight)| u128::from(*weight)).sum();
            for (at, weight) in left {
                used.put(at, (number, 0, weight), || part.times(Share::of(u128::from(weight), total)));
            }
            return zones;
        }
        for (at, weight) in left {
            let zone = field.zone(at);
            let share = || {
                let name = &field.zones[zone];
                let (share, there) =
                    (shares.get(name).copied(), capacity.get(name).copied().unwrap_or_default());
                let own = Share::of(u128::from(weight), u128::from(there.weight));
                share.map_or(Share::ZERO, |share| part.times(share).times(own))
            };
            used.put(at, (number, zone, weight), share);
        }
        zones
    }

    /// What each zone gets of a priority's traffic, if zones count.
    fn zones(
        &self,
        field: &Field<'_>,
        (priority, panic): (u32, bool),
        members: &[usize],
        all: &[usize],
    ) -> (Option<Shares>, ZoneUse) {
        let weighed = |at: &usize| (*at, field.candidates[*at].weight);
        let usable = field.by_zone(members.iter().map(weighed));
        if let Some(zone_weights) = &self.settings.zone_weights {
            if panic {
                return (None, ZoneUse::Off(ZoneOff::Panic));
            }
            let listed = field.by_zone(all.iter().map(weighed));
            let listed = listed.into_iter().map(|(zone, all)| (zone, all.count as u64)).collect();
            let shares = zones::weighted(zone_weights, self.settings.factor, &listed, |zone| {
                usable.get(zone).map_or(0, |usable| usable.count as u64)
            });
            let told = told(&shares, &usable, None);
            return (Some(shares), ZoneUse::Weighted(told));
        }
        let Some(rules) = &self.settings.proportional else { return (None, ZoneUse::Plain) };
        let degraded = members.iter().all(|at| field.standing(*at) == Standing::Degraded);
        let memory = (field.key.to_owned(), priority, degraded);
        let (own, clients) = match self.may_be_proportional(rules, panic, &memory, &usable) {
            Ok(both) => both,
            Err(why) => {
                self.memory.lock().held.remove(&memory);
                return (None, ZoneUse::Off(why));
            }
        };
        let servers: PerZone = usable.iter().map(|(zone, usable)| (zone.clone(), usable.weight)).collect();
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
        usable: &BTreeMap<Zone, Usable>,
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
            let count: usize = usable.values().map(|usable| usable.count).sum();
            // What is on goes off a little later than it comes on, so that a server that flaps does not switch it.
            let is_on = self.memory.lock().held.contains_key(memory);
            let least = rules.min_cluster_size;
            let needed = if is_on { least - (least / 6).max(1).min(least) } else { least };
            if count < needed {
                Err(ZoneOff::TooFewServers { usable: count, least })
            } else {
                Ok((own, clients))
            }
        }
    }
}

/// What the stages inside groups leave of a bucket. One that leaves nothing is passed over.
fn left(field: &Field<'_>, bucket: &Bucket, narrow: &mut Narrow<'_>) -> Vec<(usize, u64)> {
    let mut left = narrow(&bucket.members);
    left.retain(|(at, weight)| *weight > 0 && *at < field.candidates.len());
    if left.is_empty() {
        left.extend(bucket.members.iter().map(|at| (*at, field.candidates[*at].weight)));
    }
    left
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

fn told(shares: &Shares, usable: &BTreeMap<Zone, Usable>, clients: Option<&PerZone>) -> Vec<ZoneShare> {
    let zones = usable.keys().chain(clients.into_iter().flat_map(BTreeMap::keys));
    let zones: BTreeSet<&Zone> = zones.collect();
    zones
        .into_iter()
        .map(|zone| ZoneShare {
            zone: zone.to_string(),
            share: shares.get(zone).map_or(0.0, |share| share.value()),
            instances: usable.get(zone).map_or(0, |usable| usable.count),
            clients: clients.map(|clients| clients.get(zone).copied().unwrap_or_default()),
        })
        .collect()
}
