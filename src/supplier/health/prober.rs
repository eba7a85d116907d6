//! The task that probes.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::stage::Shared;
use crate::ServiceInstance;
use crate::health::{HealthCheck, ProbeError};

/// Over which part of the interval the probes of a later round are spread: a quarter, so that a round ends long before the
/// next begins, and many instances are not all asked in one moment.
const SPREAD: u32 = 4;

/// Whom to probe: a list that changes.
type Targets = watch::Receiver<Arc<[ServiceInstance]>>;

pub(super) async fn run(running: Running, mut targets: Targets) {
    let shared = &running.0;
    let Some(check) = shared.upgrade().map(|shared| shared.check.clone()) else { return };
    sleep(check.initial_delay).await;
    let mut first = true;
    loop {
        let list = targets.borrow_and_update().clone();
        let Some(asked) = shared.upgrade().map(|shared| {
            let due = |instance: &&ServiceInstance| check.repeat || shared.is_new(instance);
            list.iter().filter(due).cloned().collect::<Vec<_>>()
        }) else {
            return;
        };
        let spread = if first { Duration::ZERO } else { check.interval / SPREAD };
        if !round(shared, &check, asked, &targets, spread).await {
            return;
        }
        first = false;
        let next = Instant::now().checked_add(check.interval);
        // New instances do not wait for the next round; the others do.
        loop {
            let pause = async {
                match next {
                    Some(next) => sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = pause => break,
                changed = targets.changed() => if changed.is_err() { return },
            }
            let list = targets.borrow_and_update().clone();
            let Some(new) = shared.upgrade().map(|shared| {
                list.iter().filter(|instance| shared.is_new(instance)).cloned().collect::<Vec<_>>()
            }) else {
                return;
            };
            if !round(shared, &check, new, &targets, Duration::ZERO).await {
                return;
            }
        }
        let Some(hub) = shared.upgrade().and_then(|shared| shared.hub.get().cloned()) else { return };
        match hub.idle_for() {
            Some(idle) if idle < check.idle => {}
            // The next caller has another task started.
            _ => return,
        }
    }
}

/// In the task: when it ends, be it that nobody calls or that its runtime goes away, the next caller starts another.
pub(super) struct Running(pub(super) Weak<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        let Some(shared) = self.0.upgrade() else { return };
        // In this order: who is woken finds that no task runs.
        shared.running.store(false, Ordering::Release);
        if let Some(hub) = shared.hub.get() {
            hub.wake_me();
        }
    }
}

/// Probes all of `asked` that are still a target when their turn comes, and publishes what comes of it at once; false when
/// nobody is interested any more.
async fn round(
    shared: &Weak<Shared>,
    check: &HealthCheck,
    asked: Vec<ServiceInstance>,
    targets: &Targets,
    spread: Duration,
) -> bool {
    if asked.is_empty() {
        return shared.strong_count() > 0;
    }
    let step = spread / u32::try_from(asked.len()).unwrap_or(u32::MAX).max(1);
    let started = Instant::now();
    let listed = &Mutex::new(Listed::default());
    let probes = asked.into_iter().enumerate().map(|(at, instance)| async move {
        sleep_until(started + step * u32::try_from(at).unwrap_or(u32::MAX)).await;
        let listed = listed.lock().holds(&instance, targets);
        let result = if listed { Some(one(check, &instance).await) } else { None };
        result.map(|result| (instance, result))
    });
    let probes = stream::iter(probes).buffer_unordered(check.concurrency);
    let results: Vec<_> = probes.filter_map(std::future::ready).collect().await;
    for (instance, result) in &results {
        if let Err(why) = result {
            tracing::debug!(service = instance.service_id().map(tracing::field::display), %instance, %why, "a health check failed");
        }
    }
    let Some(shared) = shared.upgrade() else { return false };
    let hub = shared.hub.get().cloned();
    let changed = shared.publish(results);
    drop(shared);
    if let (true, Some(hub)) = (changed, hub) {
        hub.recompute();
    }
    true
}

/// Whom to probe, as a set; made again only when the list is another one.
#[derive(Default)]
struct Listed {
    list: Option<Arc<[ServiceInstance]>>,
    /// Identities by their hashes: two of one hash cost a probe at worst.
    hashes: HashSet<u64>,
}

impl Listed {
    fn holds(&mut self, instance: &ServiceInstance, targets: &Targets) -> bool {
        let now = targets.borrow();
        if self.list.as_ref().is_none_or(|list| !Arc::ptr_eq(list, &now)) {
            self.hashes = now.iter().map(ServiceInstance::identity_hash).collect();
            self.list = Some(Arc::clone(&now));
        }
        self.hashes.contains(&instance.identity_hash())
    }
}

async fn one(check: &HealthCheck, instance: &ServiceInstance) -> Result<(), ProbeError> {
    let limit = check.limit();
    match timeout(limit, AssertUnwindSafe(check.probe.check(instance)).catch_unwind()).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(ProbeError::new("a panic of the probe")),
        Err(_) => Err(ProbeError::new(format!("no answer within {} ms", limit.as_millis()))),
    }
}
