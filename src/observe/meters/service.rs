use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use metrics::{Label, SharedString};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::super::Reading;
use super::{labels, names, recorder};
use crate::ServiceId;
use crate::state::InstanceState;

/// What a service and the meters of its instances share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) name: Arc<str>,
    base: Instant,
    /// Seconds since `base` when meters were last published: a clock that costs a load.
    tick: AtomicU32,
    /// Picks as far as they were counted: all, and those from lists that their sources did not confirm.
    picks: AtomicU64,
    stale: AtomicU64,
    elsewhere: AtomicU64,
    /// What is picked now comes from such a list.
    is_stale: AtomicBool,
}

/// The meters of one service.
pub(super) struct Service {
    pub(super) shared: Arc<Shared>,
    /// Picks that had been waited for.
    pub(super) missed: AtomicU64,
    /// To another instance, and to the same one.
    pub(super) retries: [AtomicU64; 2],
    pub(super) refused: AtomicU64,
    told: Mutex<Told>,
}

/// What the label `state` may say of an instance. The last two are not used: they are down by what the registry says, or a
/// stage left them out.
const STATES: [&str; 8] =
    ["up", "unknown", "degraded", "draining", "skipped", "connecting", "down", "unused"];

/// What the recorder knows.
#[derive(Default)]
struct Told {
    described: bool,
    hits: u64,
    stale: u64,
    elsewhere: u64,
    retries: [u64; 2],
    refused: u64,
    zones: BTreeSet<Box<str>>,
}

impl Shared {
    pub(super) fn new(service: &ServiceId) -> Self {
        Self {
            name: service.as_str().into(),
            base: Instant::now(),
            tick: AtomicU32::new(0),
            picks: AtomicU64::new(0),
            stale: AtomicU64::new(0),
            elsewhere: AtomicU64::new(0),
            is_stale: AtomicBool::new(false),
        }
    }

    /// All picks, and those from another zone.
    #[cfg(test)]
    pub(super) fn counted(&self) -> (u64, u64) {
        (self.picks.load(Ordering::Relaxed), self.elsewhere.load(Ordering::Relaxed))
    }

    /// The labels of our own meters.
    fn labels(&self) -> Vec<Label> {
        vec![Label::new(names::SERVICE, SharedString::from_shared(Arc::clone(&self.name)))]
    }

    /// The same with one more.
    pub(super) fn label(&self, key: &'static str, value: impl Into<SharedString>) -> Vec<Label> {
        let mut labels = self.labels();
        labels.push(Label::new(key, value.into()));
        labels
    }

    /// So many picks of one instance.
    pub(super) fn picked(&self, count: u64, elsewhere: bool) {
        self.picks.fetch_add(count, Ordering::Relaxed);
        if elsewhere {
            self.elsewhere.fetch_add(count, Ordering::Relaxed);
        }
        if self.is_stale.load(Ordering::Relaxed) {
            self.stale.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(super) fn tick(&self) -> u32 {
        self.tick.load(Ordering::Relaxed)
    }
}

/// 52 bits of a hash, which a gauge holds exactly.
#[allow(clippy::cast_precision_loss)]
fn exact(hash: u64) -> f64 {
    (hash >> 12) as f64
}

#[allow(clippy::cast_precision_loss)] // a list has fewer than 2^52 entries
fn size(count: usize) -> f64 {
    count as f64
}

impl Service {
    pub(super) fn new(service: &ServiceId) -> Self {
        Self {
            shared: Arc::new(Shared::new(service)),
            missed: AtomicU64::new(0),
            retries: Default::default(),
            refused: AtomicU64::new(0),
            told: Mutex::default(),
        }
    }

    /// Hands everything to the recorder.
    pub(super) fn publish(&self, reading: &Reading<'_>) {
        let seconds = self.shared.base.elapsed().as_secs();
        self.shared.tick.store(u32::try_from(seconds).unwrap_or(u32::MAX), Ordering::Relaxed);
        let mut told = self.told.lock();
        if !std::mem::replace(&mut told.described, true) {
            recorder::with(names::describe);
        }
        for state in reading.all {
            if let Some(meter) = state.meter() {
                meter.publish(state.standing());
            }
        }
        // What was picked until here came from the list before, or from this one before its source went away.
        self.shared.is_stale.store(reading.stale || reading.guarded, Ordering::Relaxed);
        self.gauges(reading);
        self.sizes(reading, &mut told);
        self.counters(&mut told);
    }

    fn gauges(&self, reading: &Reading<'_>) {
        let set = |name, value| recorder::set(name, self.shared.labels(), value);
        let flag = |name, on| set(name, f64::from(u8::from(on)));
        set(names::AGE, reading.age.map_or(f64::NAN, |age| age.as_secs_f64()));
        set(names::HASH, if reading.age.is_some() { exact(reading.hash) } else { f64::NAN });
        flag(names::STALE, reading.stale);
        flag(names::GUARDED, reading.guarded);
        flag(names::FAIL_OPEN, reading.fail_open);
    }

    /// Every listed instance has one state; every usable one a zone.
    fn sizes(&self, reading: &Reading<'_>, told: &mut Told) {
        let mut states: BTreeMap<&str, usize> = STATES.into_iter().map(|state| (state, 0)).collect();
        let mut zones: BTreeMap<Box<str>, usize> = BTreeMap::new();
        for state in reading.usable {
            let instance = state.instance();
            let word = match (state.is_connecting(), state.is_skipped()) {
                (true, _) => "connecting",
                (_, true) => "skipped",
                _ => instance.status().as_str(),
            };
            *states.entry(word).or_default() += 1;
            let zone = instance.zone().unwrap_or(labels::UNKNOWN);
            match zones.get_mut(zone) {
                Some(count) => *count += 1,
                None => drop(zones.insert(zone.into(), 1)),
            }
        }
        let unused = reading.known.saturating_sub(reading.usable.len() + reading.down);
        states.extend([("down", reading.down), ("unused", unused)]);
        for (state, count) in states {
            recorder::set(names::INSTANCES, self.shared.label(names::STATE, state), size(count));
        }
        // A zone that has gone is told so once.
        for zone in told.zones.iter().filter(|zone| !zones.contains_key(*zone)) {
            recorder::set(names::ZONES, self.shared.label(names::ZONE, String::from(&**zone)), 0.0);
        }
        for (zone, count) in &zones {
            recorder::set(names::ZONES, self.shared.label(names::ZONE, String::from(&**zone)), size(*count));
        }
        told.zones = zones.into_keys().collect();
    }

    /// Counters of ours, of which the recorder gets what was added.
    fn counters(&self, told: &mut Told) {
        let picks = self.shared.picks.load(Ordering::Relaxed);
        // Leases that were taken without a pick from the list at hand.
        let others = self.missed.load(Ordering::Relaxed) + self.retries[1].load(Ordering::Relaxed);
        let add = |name, labels, now: u64, told: &mut u64| {
            recorder::count(name, labels, now.saturating_sub(*told));
            *told = now.max(*told);
        };
        add(names::HITS, self.shared.labels(), picks.saturating_sub(others), &mut told.hits);
        add(
            names::STALE_PICKS,
            self.shared.labels(),
            self.shared.stale.load(Ordering::Relaxed),
            &mut told.stale,
        );
        add(
            names::CROSS_ZONE,
            self.shared.labels(),
            self.shared.elsewhere.load(Ordering::Relaxed),
            &mut told.elsewhere,
        );
        for (at, to) in [(0, "next"), (1, "same")] {
            let now = self.retries[at].load(Ordering::Relaxed);
            add(names::RETRIES, self.shared.label(names::TO, to), now, &mut told.retries[at]);
        }
        let refused = self.refused.load(Ordering::Relaxed);
        add(names::REFUSED, self.shared.labels(), refused, &mut told.refused);
    }

    /// The balancer is gone: its gauges have no value, and what was counted is told.
    pub(super) fn end(&self, all: &[Arc<InstanceState>]) {
        for state in all {
            if let Some(meter) = state.meter() {
                meter.end(state.standing());
            }
        }
        let told = &mut std::mem::take(&mut *self.told.lock());
        if !told.described {
            return;
        }
        self.counters(told);
        for name in [names::AGE, names::HASH, names::STALE, names::GUARDED, names::FAIL_OPEN] {
            recorder::set(name, self.shared.labels(), f64::NAN);
        }
        for state in STATES {
            recorder::set(names::INSTANCES, self.shared.label(names::STATE, state), f64::NAN);
        }
        for zone in &told.zones {
            recorder::set(names::ZONES, self.shared.label(names::ZONE, String::from(&**zone)), f64::NAN);
        }
    }
}
