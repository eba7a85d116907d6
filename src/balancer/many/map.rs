use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use moka::notification::RemovalCause;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::super::LoadBalancer;
use crate::ServiceId;
use crate::config::LoadBalancerProperties;
use crate::instance::words;
use crate::numbers::ByNumber;
use crate::random::mix;

/// How many parts the map has: an insertion copies one of them, so that 2 000 first uses copy 16 times less.
const SHARDS: usize = 16;

/// How often a look-up looks whether a name that was pushed out while in use is idle by now.
const SWEEP: Duration = Duration::from_millis(100);

/// The balancers by name: a look-up is a load and a hash; an insertion copies a part of the map and swaps it in, so that
/// no service waits for another.
pub(super) struct Map {
    shards: Arc<Shards>,
    capacity: u64,
    /// Orders the names that nobody configured. It holds no balancer, since it frees what it dropped at its leisure.
    recent: Cache<ServiceId, Weak<Entry>>,
}

struct Shards {
    parts: [ArcSwap<Part>; SHARDS],
    /// Makes the hashes of names.
    secret: u64,
    /// How many entries count against the capacity.
    counted: AtomicU64,
    /// Pushed out; they go when they are idle.
    overdue: Mutex<Overdue>,
    /// How many those are, to be read without the lock.
    waiting: AtomicU64,
    warned: AtomicBool,
}

struct Overdue {
    entries: Vec<Arc<Entry>>,
    swept: Instant,
}

/// By the hash of the name; nearly always one entry each.
type Part = ByNumber<Vec<Arc<Entry>>>;

/// A service in the map.
pub(super) struct Entry {
    pub(super) id: ServiceId,
    pub(super) balancer: LoadBalancer,
    /// Configured, eager or named in code: stays as long as it is.
    kept: AtomicBool,
    /// Balancing was switched off while it was in use.
    pub(super) off: AtomicBool,
    overdue: AtomicBool,
    made: Instant,
    ttl: Duration,
    /// What was applied last, but for the overrides; held while it changes.
    pub(super) applied: Mutex<LoadBalancerProperties>,
}

impl Entry {
    pub(super) fn new(
        id: ServiceId,
        balancer: LoadBalancer,
        kept: bool,
        properties: LoadBalancerProperties,
    ) -> Arc<Self> {
        let ttl = properties.cache.ttl;
        Arc::new(Self {
            id,
            balancer,
            kept: AtomicBool::new(kept),
            off: AtomicBool::new(false),
            overdue: AtomicBool::new(false),
            made: Instant::now(),
            ttl,
            applied: Mutex::new(properties.with_overrides([])),
        })
    }

    fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Relaxed)
    }
}

impl Map {
    /// `capacity` bounds the names that nobody configured.
    pub(super) fn new(capacity: u64) -> Self {
        let shards = Arc::new(Shards {
            parts: std::array::from_fn(|_| ArcSwap::default()),
            secret: RandomState::new().hash_one(0),
            counted: AtomicU64::new(0),
            overdue: Mutex::new(Overdue { entries: Vec::new(), swept: Instant::now() }),
            waiting: AtomicU64::new(0),
            warned: AtomicBool::new(false),
        });
        let evicting = Arc::downgrade(&shards);
        let recent = Cache::builder()
            .max_capacity(capacity)
            // The default policy admits a name only if it is used more often than another: a new service that is asked
            // again and again would be built again and again.
            .eviction_policy(EvictionPolicy::lru())
            .eviction_listener(move |_, entry: Weak<Entry>, cause| {
                if let (RemovalCause::Size, Some(shards), Some(entry)) =
                    (cause, evicting.upgrade(), entry.upgrade())
                {
                    shards.push_out(entry);
                }
            })
            .build();
        Self { shards, capacity, recent }
    }

    /// What `take` makes of an entry, which is used by that, and of `with`. It is lent: to count its users would cost as much as
    /// a pick. If there is none, `with` comes back.
    #[inline]
    pub(super) fn find<C, T>(&self, name: &str, with: C, take: impl FnOnce(&Entry, C) -> T) -> Result<T, C> {
        let taken = {
            let hash = self.shards.hash(name);
            let part = self.shards.part(hash).load();
            let Some(entry) = named(&part, hash, name) else { return Err(with) };
            if !entry.is_kept() {
                self.used(entry);
            }
            take(entry, with)
        };
        if self.shards.waiting.load(Ordering::Relaxed) > 0 {
            self.shards.sweep(SWEEP);
        }
        Ok(taken)
    }

    /// The same for who only looks: the name does not count as used.
    pub(super) fn peek(&self, name: &str) -> Option<Arc<Entry>> {
        self.shards.find(name)
    }

    /// Marks a name as the one used last.
    fn used(&self, entry: &Arc<Entry>) {
        if self.capacity == 0 {
            return;
        }
        if entry.overdue.load(Ordering::Relaxed) && entry.overdue.swap(false, Ordering::AcqRel) {
            self.recent.insert(entry.id.clone(), Arc::downgrade(entry));
        } else {
            let _ = self.recent.get(&entry.id);
        }
    }

    /// Adds an entry, unless another caller was faster; the one that is in the map.
    pub(super) fn insert(&self, entry: &Arc<Entry>) -> Arc<Entry> {
        let winner = self.shards.insert(entry);
        if !winner.is_kept() && Arc::ptr_eq(&winner, entry) {
            self.count(&winner);
        }
        winner
    }

    fn count(&self, entry: &Arc<Entry>) {
        let counted = self.shards.counted.fetch_add(1, Ordering::Relaxed) + 1;
        if self.capacity == 0 {
            // A cache of no capacity takes nothing, and tells nobody.
            self.shards.push_out(Arc::clone(entry));
        } else {
            self.recent.insert(entry.id.clone(), Arc::downgrade(entry));
        }
        // Below the capacity nothing goes, and services do not meet here.
        if counted >= self.capacity {
            self.recent.run_pending_tasks();
            self.shards.sweep(Duration::ZERO);
        }
    }

    /// A service is configured from now on, or no longer.
    pub(super) fn keep(&self, entry: &Arc<Entry>, kept: bool) {
        let is_there = self.shards.find(entry.id.as_str()).is_some_and(|there| Arc::ptr_eq(&there, entry));
        if !is_there || entry.kept.swap(kept, Ordering::AcqRel) == kept {
            return;
        }
        if kept {
            self.shards.counted.fetch_sub(1, Ordering::Relaxed);
            self.recent.invalidate(&entry.id);
        } else {
            self.count(entry);
        }
    }

    pub(super) fn entries(&self) -> Vec<Arc<Entry>> {
        let parts = self.shards.parts.iter();
        parts.flat_map(|part| part.load().values().flatten().cloned().collect::<Vec<_>>()).collect()
    }
}

fn named<'a>(part: &'a Part, hash: u64, name: &str) -> Option<&'a Arc<Entry>> {
    part.get(&hash)?.iter().find(|entry| entry.id.matches(name))
}

impl Shards {
    /// It starts from a secret, so that names which meet in one process do not in another. Those that do are told apart by themselves.
    fn hash(&self, name: &str) -> u64 {
        words(name).fold(self.secret, |hash, word| mix(hash ^ word))
    }

    fn part(&self, hash: u64) -> &ArcSwap<Part> {
        // The top bits: the map inside uses the others.
        &self.parts[(hash >> 60) as usize % SHARDS]
    }

    fn find(&self, name: &str) -> Option<Arc<Entry>> {
        let hash = self.hash(name);
        named(&self.part(hash).load(), hash, name).cloned()
    }

    fn insert(&self, entry: &Arc<Entry>) -> Arc<Entry> {
        let hash = self.hash(entry.id.as_str());
        let mut winner = Arc::clone(entry);
        self.part(hash).rcu(|part| {
            if let Some(there) = part.get(&hash).and_then(|all| all.iter().find(|there| there.id == entry.id))
            {
                winner = Arc::clone(there);
                return Arc::clone(part);
            }
            winner = Arc::clone(entry);
            let mut next = (**part).clone();
            next.entry(hash).or_default().push(Arc::clone(entry));
            Arc::new(next)
        });
        winner
    }

    fn remove(&self, entry: &Arc<Entry>) {
        let hash = self.hash(entry.id.as_str());
        self.counted.fetch_sub(1, Ordering::Relaxed);
        self.part(hash).rcu(|part| {
            let mut next = (**part).clone();
            if let Some(all) = next.get_mut(&hash) {
                all.retain(|there| !Arc::ptr_eq(there, entry));
                if all.is_empty() {
                    next.remove(&hash);
                }
            }
            next
        });
    }

    /// `capacity` other names were used since. Called inside the cache, so the entry goes later.
    fn push_out(&self, entry: Arc<Entry>) {
        if entry.is_kept() || entry.overdue.swap(true, Ordering::AcqRel) {
            return;
        }
        if entry.made.elapsed() < entry.ttl && !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                service = %entry.id,
                "a service is dropped before its list is as old as its TTL: cache.capacity is too small for the names in use"
            );
        }
        let mut overdue = self.overdue.lock();
        overdue.entries.push(entry);
        self.waiting.store(overdue.entries.len() as u64, Ordering::Relaxed);
    }

    /// Lets go of what was pushed out and is idle, if the last look was longer ago than `pause`.
    fn sweep(&self, pause: Duration) {
        let mut idle = Vec::new();
        {
            let Some(mut overdue) = self.overdue.try_lock() else { return };
            let now = Instant::now();
            if now.saturating_duration_since(overdue.swept) < pause {
                return;
            }
            overdue.swept = now;
            for entry in std::mem::take(&mut overdue.entries) {
                if entry.is_kept() || !entry.overdue.load(Ordering::Acquire) {
                    // It was used again, or configured.
                    entry.overdue.store(false, Ordering::Release);
                } else if entry.balancer.is_idle() {
                    idle.push(entry);
                } else {
                    overdue.entries.push(entry);
                }
            }
            self.waiting.store(overdue.entries.len() as u64, Ordering::Relaxed);
        }
        for entry in &idle {
            self.remove(entry);
        }
    }
}
