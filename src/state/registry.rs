use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{InstanceState, ServiceState};
use crate::ServiceInstance;

/// How long the state of an instance that left is kept. Registries flap for seconds; a rollout takes minutes.
const KEEP: Duration = Duration::from_secs(120);
/// How many states of instances that left are kept at most; beyond, those that left first go.
const KEEP_AT_MOST: usize = 4_096;

/// Every instance of one service that is listed, or was until lately, by identity.
#[derive(Default)]
pub(crate) struct Registry {
    /// By the hash of the identity, which the instance keeps: an update hashes no text.
    states: HashMap<u64, Bucket, BuildHasherDefault<Kept>>,
    next_uid: u64,
    len: usize,
    /// How many were known but not listed at the last sweep.
    gone: usize,
}

/// Nearly always one.
type Bucket = Vec<Arc<InstanceState>>;

/// The key is a hash already.
#[derive(Default)]
struct Kept(u64);

impl Hasher for Kept {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

impl Registry {
    /// The state of `instance`, made at first sight; and whether the instance differs from what was known of it.
    pub(crate) fn state_of(
        &mut self,
        instance: &ServiceInstance,
        service: &Arc<ServiceState>,
    ) -> (Arc<InstanceState>, bool) {
        let bucket = self.states.entry(instance.identity_hash()).or_default();
        if let Some(state) = bucket.iter().find(|state| state.is(instance)) {
            let changed = state.update(instance);
            return (Arc::clone(state), changed);
        }
        let state = InstanceState::new(self.next_uid, instance, service);
        self.next_uid += 1;
        self.len += 1;
        bucket.push(Arc::clone(&state));
        (state, true)
    }

    /// The place of an instance in the order of first sight, if it was seen.
    pub(crate) fn uid_of(&self, instance: &ServiceInstance) -> Option<u64> {
        let bucket = self.states.get(&instance.identity_hash())?;
        bucket.iter().find(|state| state.is(instance)).map(|state| state.uid())
    }

    /// Lets go of what left long ago. `listed` are the uids of the newest list, in ascending order.
    pub(crate) fn sweep(&mut self, listed: &[u64], now: Instant) {
        if self.len == listed.len() && self.gone == 0 {
            // Everything known is listed, as it was before: nothing is gone, nothing came back.
            return;
        }
        let mut gone = Vec::new();
        for state in self.states.values().flatten() {
            if listed.binary_search(&state.uid()).is_ok() {
                state.mark_gone(None);
            } else {
                state.mark_gone(Some(now));
                gone.push((state.gone_since().unwrap_or(now), state.uid()));
            }
        }
        self.gone = gone.len();
        gone.sort_unstable();
        let too_many = gone.len().saturating_sub(KEEP_AT_MOST);
        let mut drop: Vec<u64> = gone
            .iter()
            .enumerate()
            .filter(|(at, (since, _))| *at < too_many || now.saturating_duration_since(*since) >= KEEP)
            .map(|(_, (_, uid))| *uid)
            .collect();
        drop.sort_unstable();
        if drop.is_empty() {
            return;
        }
        let mut len = 0;
        self.states.retain(|_, bucket| {
            // Never while a lease lives: its count must be found again if the instance returns.
            bucket.retain(|state| {
                let stays = drop.binary_search(&state.uid()).is_err() || state.in_flight() > 0;
                if let Some(meter) = state.meter().filter(|_| !stays) {
                    meter.end(state.standing());
                }
                stays
            });
            len += bucket.len();
            !bucket.is_empty()
        });
        self.len = len;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<InstanceState>> {
        self.states.values().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServiceId;

    fn instance(n: u16) -> ServiceInstance {
        ServiceInstance::new("10.0.0.1", n).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn case_055_gone_states_are_bounded_in_time_and_number_but_not_leased_ones() {
        let service = Arc::new(ServiceState::new(ServiceId::new("s").unwrap()));
        let mut registry = Registry::default();
        let all: Vec<_> = (1..=5_000).map(|n| registry.state_of(&instance(n), &service).0).collect();
        let uids: Vec<u64> = all.iter().map(|state| state.uid()).collect();
        registry.sweep(&uids, Instant::now());
        assert_eq!(registry.len(), 5_000);
        all[0].enter(1);
        registry.sweep(&uids[4_990..], Instant::now());
        assert_eq!(registry.len(), 10 + KEEP_AT_MOST + 1, "the leased one is kept beyond the bound");
        tokio::time::advance(KEEP).await;
        registry.sweep(&uids[4_990..], Instant::now());
        assert_eq!(registry.len(), 11);
        let (again, changed) = registry.state_of(&instance(1), &service);
        assert!(!changed && again.in_flight() == 1 && Arc::ptr_eq(&again, &all[0]));
        all[0].leave(1);
        registry.sweep(&uids[4_990..], Instant::now());
        assert_eq!(registry.len(), 10);
    }
}
