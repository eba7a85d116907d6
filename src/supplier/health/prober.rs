//! The task that probes.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::stage::Shared;
use crate::ServiceInstance;
use crate::health::{HealthCheck, ProbeError};

/// Over which part of the interval the probes of a later round are spread: a quarter, so that a round ends long before the
/// next begins, and many instances are not all asked in one moment.
const SPREAD: u32 = 4;

pub(super) async fn run(running: Running, mut targets: watch::Receiver<Arc<[ServiceInstance]>>) {
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
        if !round(shared, &check, asked, spread).await {
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
            if !round(shared, &check, new, Duration::ZERO).await {
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

/// Probes all of `asked` and publishes what comes of it at once; false when nobody is interested any more.
async fn round(
    shared: &Weak<Shared>,
    check: &HealthCheck,
    asked: Vec<ServiceInstance>,
    spread: Duration,
) -> bool {
    if asked.is_empty() {
        return shared.strong_count() > 0;
    }
    let step = spread / u32::try_from(asked.len()).unwrap_or(u32::MAX).max(1);
    let started = Instant::now();
    let probes = asked.into_iter().enumerate().map(|(at, instance)| async move {
        sleep_until(started + step * u32::try_from(at).unwrap_or(u32::MAX)).await;
        let result = one(check, &instance).await;
        (instance, result)
    });
    let results: Vec<_> = stream::iter(probes).buffer_unordered(check.concurrency).collect().await;
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

async fn one(check: &HealthCheck, instance: &ServiceInstance) -> Result<(), ProbeError> {
    let limit = check.limit();
    match timeout(limit, AssertUnwindSafe(check.probe.check(instance)).catch_unwind()).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(ProbeError::new("a panic of the probe")),
        Err(_) => Err(ProbeError::new(format!("no answer within {} ms", limit.as_millis()))),
    }
}
