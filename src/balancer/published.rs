use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;

use super::snapshot::Snapshot;

/// The published snapshot of one balancer, and each thread's own hold on it.
///
/// What a pick pays for is locked operations. A guard of `ArcSwap` is two of them; a thread that remembers the snapshot
/// it used last needs none, only a look at the version. The price: a thread that does not pick any more holds on to the
/// snapshot that it used last, one for each slot at most, until it picks there again or ends.
pub(crate) struct Published {
    /// Tells balancers apart, also those that are gone.
    id: u64,
    /// Goes up after each swap.
    version: AtomicU64,
    current: ArcSwapOption<Snapshot>,
}

/// How many balancers a thread remembers; those beyond share slots.
const SLOTS: usize = 32;
/// How often a slot is asked for in vain before another balancer takes it over, so that two of them do not push each
/// other out at every pick.
const MISSES: u32 = 4;
/// A list of this length is not freed on the path of a pick.
const LONG: usize = 256;

struct Held {
    id: u64,
    version: u64,
    misses: u32,
    snapshot: Option<Arc<Snapshot>>,
}

thread_local! {
    static HELD: [RefCell<Held>; SLOTS] = const {
        [const { RefCell::new(Held { id: 0, version: 0, misses: 0, snapshot: None }) }; SLOTS]
    };
}

/// From 1: 0 is nobody's.
static IDS: AtomicU64 = AtomicU64::new(1);

impl Published {
    pub(super) fn new() -> Self {
        Self {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            version: AtomicU64::new(0),
            current: ArcSwapOption::empty(),
        }
    }

    /// Tells this from all others, also from those that are gone.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Goes up behind each change.
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The newest snapshot, for good.
    pub(super) fn load_full(&self) -> Option<Arc<Snapshot>> {
        self.current.load_full()
    }

    /// Publishes another one.
    pub(super) fn swap(&self, next: Option<Arc<Snapshot>>) -> Option<Arc<Snapshot>> {
        let old = self.current.swap(next);
        // Behind the swap: who sees the new version finds the new snapshot, or a newer one.
        self.version.fetch_add(1, Ordering::Release);
        old
    }

    /// Lets one of two see the newest snapshot, once: `known` without a locked operation if this thread knows it, else `other`. They
    /// are two so that the one on the path of every pick has one place, and becomes a part of it.
    #[inline]
    pub(super) fn with<R>(
        &self,
        known: impl FnOnce(Option<&Snapshot>) -> R,
        other: impl FnOnce(Option<&Snapshot>) -> R,
    ) -> R {
        let version = self.version.load(Ordering::Acquire);
        #[allow(clippy::cast_possible_truncation)] // only the low bits count
        let slot = self.id as usize % SLOTS;
        let seen = HELD.try_with(|held| {
            // Taken already: a stage of this chain asks the same balancer, or one that shares the slot.
            let mut held = held[slot].try_borrow_mut().ok()?;
            let is_newest = held.id == self.id && held.version == version;
            if !is_newest && !self.renew(&mut held, version) {
                return None;
            }
            Some(known(held.snapshot.as_deref()))
        });
        match seen {
            Ok(Some(seen)) => seen,
            // The thread is ending, or the slot is another's for now.
            _ => other(self.current.load().as_deref()),
        }
    }

    /// Takes the newest snapshot into the slot; false if the slot stays another balancer's.
    #[cold]
    fn renew(&self, held: &mut Held, version: u64) -> bool {
        if held.id != self.id && held.snapshot.is_some() {
            held.misses += 1;
            if held.misses < MISSES {
                return false;
            }
        }
        let next = Held { id: self.id, version, misses: 0, snapshot: self.current.load_full() };
        free(std::mem::replace(held, next).snapshot);
        true
    }
}

/// Drops a snapshot; the last hold on a long one elsewhere, if there is an elsewhere.
fn free(old: Option<Arc<Snapshot>>) {
    let Some(old) = old.filter(|old| old.known() > LONG && Arc::strong_count(old) == 1) else { return };
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        drop(runtime.spawn_blocking(move || drop(old)));
    }
}

impl std::fmt::Debug for Published {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Published").field("version", &self.version).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use crate::{LoadBalancer, Request, ServiceInstance};

    fn balancer(n: u16) -> LoadBalancer {
        LoadBalancer::fixed("orders", [ServiceInstance::new("10.0.0.1", n).unwrap()]).unwrap()
    }

    fn port(balancer: &LoadBalancer) -> u16 {
        balancer.try_choose(&Request::EMPTY).unwrap().instance().port().unwrap()
    }

    /// More balancers than slots, in turn and on two threads: each sees its own list.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_slot_never_shows_another_balancers_list() {
        let all: Vec<_> = (1..=100).map(balancer).collect();
        for balancer in &all {
            balancer.ready().await.unwrap();
        }
        let picks = |all: Vec<LoadBalancer>| {
            for round in 0..20 {
                for (at, balancer) in all.iter().enumerate() {
                    for _ in 0..(round % 7) {
                        assert_eq!(usize::from(port(balancer)), at + 1);
                    }
                }
            }
        };
        let other = std::thread::spawn({
            let all = all.clone();
            move || picks(all)
        });
        picks(all);
        other.join().unwrap();
    }
}
