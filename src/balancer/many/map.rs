use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use moka::notification::RemovalCause;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::super::LoadBalancer;
use crate::ServiceId;
use crate::instance::hash_name;

/// How many parts the map has: an insertion copies one of them, so that 2 000 first uses copy 16 times less.
const SHARDS: usize = 16;

/// The balancers by name: a look-up is a load and a hash; an insertion copies a part of the map and swaps it in, so that
/// no service waits for another.
pub(super) struct Map {
    shards: Arc<Shards>,
    /// Orders the names that nobody configured; `None` inside it is not possible, it only holds what may go.
    recent: Cache<ServiceId, Arc<Entry>>,
}

struct Shards {
    parts: [ArcSwap<Part>; SHARDS],
    hasher: RandomState,
    /// Pushed out while in use; they go when they are idle.
    overdue: Mutex<Vec<Arc<Entry>>>,
    warned: AtomicBool,
}

/// By the hash of the name; nearly always one entry each.
type Part = HashMap<u64, Vec<Arc<Entry>>>;

pub(super) struct Entry {
    pub(super) id: ServiceId,
    pub(super) balancer: LoadBalancer,
    /// Configured, eager or named in code: stays for good.
    kept: bool,
    made: Instant,
    ttl: Duration,
}

impl Entry {
    pub(super) fn new(id: ServiceId, balancer: LoadBalancer, kept: bool, ttl: Duration) -> Arc<Self> {
        Arc::new(Self { id, balancer, kept, made: Instant::now(), ttl })
    }
}

impl Map {
    /// `capacity` bounds the names that nobody configured.
    pub(super) fn new(capacity: u64) -> Self {
        let shards = Arc::new(Shards {
            parts: std::array::from_fn(|_| ArcSwap::default()),
            hasher: RandomState::new(),
            overdue: Mutex::default(),
            warned: AtomicBool::new(false),
        });
        let evicting = Arc::clone(&shards);
        let recent = Cache::builder()
            .max_capacity(capacity)
            // The default policy admits a name only if it is used more often than another: a new service that is asked
            // again and again would be built again and again.
            .eviction_policy(EvictionPolicy::lru())
            .eviction_listener(move |_, entry: Arc<Entry>, cause| {
                if cause == RemovalCause::Size {
                    evicting.evict(entry);
                }
            })
            .build();
        Self { shards, recent }
    }

    #[inline]
    pub(super) fn find(&self, name: &str) -> Option<Arc<Entry>> {
        let entry = self.shards.find(name)?;
        if !entry.kept {
            // Marks it as used; the value itself is not needed.
            let _ = self.recent.get(&entry.id);
        }
        Some(entry)
    }

    /// Adds an entry, unless another caller was faster; the one that is in the map.
    pub(super) fn insert(&self, entry: Arc<Entry>) -> Arc<Entry> {
        let winner = self.shards.insert(&entry);
        if !winner.kept && Arc::ptr_eq(&winner, &entry) {
            self.recent.insert(winner.id.clone(), Arc::clone(&winner));
            self.recent.run_pending_tasks();
            self.shards.sweep();
        }
        winner
    }

    pub(super) fn entries(&self) -> Vec<Arc<Entry>> {
        let parts = self.shards.parts.iter();
        parts.flat_map(|part| part.load().values().flatten().cloned().collect::<Vec<_>>()).collect()
    }
}

impl Shards {
    fn hash(&self, name: &str) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hash_name(name, &mut hasher);
        hasher.finish()
    }

    fn part(&self, hash: u64) -> &ArcSwap<Part> {
        // The top bits: the map inside uses the others.
        &self.parts[(hash >> 60) as usize % SHARDS]
    }

    fn find(&self, name: &str) -> Option<Arc<Entry>> {
        let hash = self.hash(name);
        let part = self.part(hash).load();
        part.get(&hash)?.iter().find(|entry| entry.id.matches(name)).cloned()
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

    /// The name was not used for longer than `capacity` others.
    fn evict(&self, entry: Arc<Entry>) {
        if entry.made.elapsed() < entry.ttl && !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                service = %entry.id,
                "a service is dropped before its list is as old as its TTL: cache.capacity is too small for the names in use"
            );
        }
        if entry.balancer.is_idle() {
            self.remove(&entry);
        } else {
            self.overdue.lock().push(entry);
        }
    }

    fn sweep(&self) {
        let idle = {
            let mut overdue = self.overdue.lock();
            let (idle, busy) = std::mem::take(&mut *overdue).into_iter().partition(|e| e.balancer.is_idle());
            *overdue = busy;
            let idle: Vec<Arc<Entry>> = idle;
            idle
        };
        for entry in &idle {
            self.remove(entry);
        }
    }
}
