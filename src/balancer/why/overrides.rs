//! What an operator overrides, in force for one service: it marks who drains, and ends by itself.

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Wake;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::super::LoadBalancer;
use super::super::board::Board;
use crate::alarm::Alarm;
use crate::config::{Override, OverrideAction, OverrideEnd, Preset};
use crate::observe::{ChangeKind, OverrideStatus, millis};
use crate::supplier::driver::{Driver, Publish};
use crate::wall::{self, WallClock};
use crate::{ServiceInstance, Status};

/// An override that the code set, to end it before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OverrideId(u64);

/// Why an override cannot be set.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::config::Override;
/// use evenkeel::LoadBalancer;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let orders = LoadBalancer::fixed("orders", [])?;
/// let nameless = Override::drain_host("10.0.0.7").lasting(Duration::from_secs(60));
/// let error = orders.override_with(nameless).unwrap_err();
/// assert!(error.to_string().contains("needs a reason"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideError {
    what: String,
    why: String,
}

impl OverrideError {
    pub(in crate::balancer) fn new(over: &Override, why: impl Into<String>) -> Self {
        Self { what: over.to_string(), why: why.into() }
    }
}

impl fmt::Display for OverrideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the override {:?} cannot be set: {}", self.what, self.why)
    }
}

impl Error for OverrideError {}

/// An override in force.
#[derive(Clone, Debug)]
pub(in crate::balancer) struct Active {
    /// `None` for one of the properties.
    pub(in crate::balancer) id: Option<OverrideId>,
    pub(in crate::balancer) over: Override,
    /// On the clock that waits.
    until: Instant,
    /// On the wall.
    ends: SystemTime,
}

/// The same override, though it was read again.
impl PartialEq for Active {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.over == other.over && self.ends == other.ends
    }
}

impl Active {
    /// One of the properties; `None` if its time has passed.
    pub(in crate::balancer) fn configured(over: &Override, clock: &WallClock) -> Option<Self> {
        let OverrideEnd::At(ends) = over.end else { return None };
        // The two clocks may be apart by a little at the end.
        let left =
            ends.duration_since(clock.now()).ok().filter(|left| *left >= Duration::from_millis(100))?;
        Some(Self { id: None, over: over.clone(), until: after(left), ends })
    }

    pub(in crate::balancer) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    pub(in crate::balancer) fn preset(&self) -> Option<Preset> {
        match self.over.action {
            OverrideAction::Preset(preset) => Some(preset),
            _ => None,
        }
    }

    pub(super) fn drains(&self, instance: &ServiceInstance) -> bool {
        match &self.over.action {
            OverrideAction::DrainInstance(name) => {
                *name == instance.id() || name.eq_ignore_ascii_case(&instance.authority())
            }
            OverrideAction::DrainHost(host) => {
                let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
                host.eq_ignore_ascii_case(instance.host())
            }
            OverrideAction::DrainZone(zone) => {
                instance.zone().is_some_and(|own| own.eq_ignore_ascii_case(zone))
            }
            _ => false,
        }
    }

    fn is_drain(&self) -> bool {
        matches!(
            self.over.action,
            OverrideAction::DrainInstance(_) | OverrideAction::DrainHost(_) | OverrideAction::DrainZone(_)
        )
    }

    /// In a line.
    pub(super) fn word(&self) -> String {
        format!("{} until {}: {}", self.over, wall::format(self.ends), self.over.reason)
    }

    pub(super) fn report(&self, named: &[ServiceInstance]) -> OverrideStatus {
        let matches = || named.iter().filter(|instance| self.drains(instance)).count();
        OverrideStatus {
            what: self.over.to_string(),
            reason: self.over.reason.clone(),
            until: wall::format(self.ends),
            left_ms: millis(self.until.saturating_duration_since(Instant::now())),
            configured: self.id.is_none(),
            matches: self.is_drain().then(|| u32::try_from(matches()).unwrap_or(u32::MAX)),
        }
    }
}

/// `left` from now; one that no clock can hold is thirty years.
fn after(left: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(left).unwrap_or(now + Duration::from_secs(30 * 365 * 86_400))
}

/// One of the code, checked, its end settled.
pub(in crate::balancer) fn resolve(
    over: Override,
    clock: &WallClock,
) -> Result<(OverrideId, Active), OverrideError> {
    static IDS: AtomicU64 = AtomicU64::new(1);
    if let Some(fault) = over.fault() {
        return Err(OverrideError::new(&over, fault));
    }
    let now = clock.now();
    let (left, ends) = match over.end {
        OverrideEnd::At(at) => (at.duration_since(now).unwrap_or_default(), at),
        OverrideEnd::After(left) => (left, now.checked_add(left).unwrap_or(now)),
        OverrideEnd::Unset => (Duration::ZERO, now),
    };
    if left.is_zero() {
        return Err(OverrideError::new(
            &over,
            format!("it ends at {}, which has passed", wall::format(ends)),
        ));
    }
    let id = OverrideId(IDS.fetch_add(1, Ordering::Relaxed));
    Ok((id, Active { id: Some(id), over, until: after(left), ends }))
}

/// Those of one service.
#[derive(Default)]
pub(in crate::balancer) struct Overrides {
    active: Mutex<Vec<Active>>,
    alarm: Alarm,
    ring: OnceLock<Weak<Ring>>,
}

/// Who is told that one ended: it ends the override, and has whoever pinned a preset let go of it.
pub(in crate::balancer) struct Ring {
    driver: Weak<Driver<Board>>,
    /// Called when a pinned preset ended.
    unpin: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Ring {
    pub(in crate::balancer) fn new(driver: &Arc<Driver<Board>>) -> Arc<Self> {
        Arc::new(Self { driver: Arc::downgrade(driver), unpin: OnceLock::new() })
    }

    pub(in crate::balancer) fn on_unpin(&self, unpin: impl Fn() + Send + Sync + 'static) {
        let _ = self.unpin.set(Box::new(unpin));
    }
}

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        let Some(driver) = self.driver.upgrade() else { return };
        let (runtime, _) = driver.publish.service.back_off();
        // Not inside the timer driver: the chain runs again, and with it code of the user's.
        if let Some(runtime) = runtime {
            runtime.spawn(async move { self.end() });
        }
    }
}

impl Ring {
    fn end(&self) {
        let Some(driver) = self.driver.upgrade() else { return };
        let mut unpinned = false;
        let changed = driver.publish.change_overrides(|all| {
            unpinned = all.iter().any(|one| one.is_over() && one.preset().is_some());
            all.retain(|one| !one.is_over());
        });
        if !changed {
            driver.publish.overrides.arm(driver.publish.service.back_off().0.as_ref());
        }
        if let Some(unpin) = self.unpin.get().filter(|_| unpinned) {
            unpin();
        }
    }
}

impl Overrides {
    /// All of them, those whose time is just over included.
    pub(in crate::balancer) fn in_force(&self) -> Vec<Active> {
        self.active.lock().clone()
    }

    pub(in crate::balancer) fn set_ring(&self, ring: &Arc<Ring>) {
        let _ = self.ring.set(Arc::downgrade(ring));
    }

    /// Whether nobody is to be ejected now.
    pub(in crate::balancer) fn ejection_off(&self) -> bool {
        let off = |one: &Active| one.over.action == OverrideAction::EjectionOff && !one.is_over();
        self.active.lock().iter().any(off)
    }

    /// The list with everybody who drains marked: by its status, which the chain knows how to treat.
    pub(in crate::balancer) fn marked(&self, mut list: Vec<ServiceInstance>) -> Vec<ServiceInstance> {
        let drains: Vec<Active> = {
            let active = self.active.lock();
            if active.is_empty() {
                return list;
            }
            active.iter().filter(|one| one.is_drain() && !one.is_over()).cloned().collect()
        };
        for instance in &mut list {
            let better = !matches!(instance.status(), Status::Down | Status::Draining);
            if better
                && drains.iter().any(|one| one.drains(instance))
                && let Ok(marked) = instance.to_builder().status(Status::Draining).build()
            {
                *instance = marked;
            }
        }
        list
    }

    /// Has the next end noticed.
    pub(in crate::balancer) fn arm(&self, runtime: Option<&Handle>) {
        let next = self.active.lock().iter().map(|one| one.until).min();
        let (Some(next), Some(runtime)) = (next, runtime) else { return };
        let Some(ring) = self.ring.get().and_then(Weak::upgrade) else { return };
        self.alarm.arm(runtime, next.saturating_duration_since(Instant::now()), ring);
    }

    pub(in crate::balancer) fn cancel(&self) {
        self.alarm.cancel();
    }
}

impl Board {
    /// Puts others in force; whether they differ from those before.
    pub(in crate::balancer) fn change_overrides(&self, change: impl FnOnce(&mut Vec<Active>)) -> bool {
        let (before, all) = {
            let mut active = self.overrides.active.lock();
            let before = active.clone();
            change(&mut active);
            if *active == before {
                // Those of before, whose ends are armed.
                *active = before;
                return false;
            }
            (before, active.clone())
        };
        let service = self.service.id();
        for one in before.iter().filter(|one| !all.contains(one)) {
            let how = if one.is_over() { "its time is over" } else { "it was taken back" };
            self.service.note(ChangeKind::OverrideEnded, None, format!("{how}: {}", one.word()));
            let (what, reason) = (&one.over, &one.over.reason);
            tracing::info!(%service, %what, %reason, how, "an override ended");
        }
        for one in all.iter().filter(|one| !before.contains(one)) {
            self.service.note(ChangeKind::OverrideSet, None, one.word());
            let (what, reason, until) = (&one.over, &one.over.reason, wall::format(one.ends));
            tracing::warn!(%service, %what, %reason, until, "an override is in force");
        }
        self.service.set_ejection_off(self.overrides.ejection_off());
        self.recompute();
        self.overrides.arm(self.service.back_off().0.as_ref());
        true
    }
}

impl LoadBalancer {
    /// Overrides the configuration for a while: a drain, or ejection off. It ends by itself; it is shown by
    /// [`status`](Self::status), [`explain`](Self::explain) and [`change_log`](Self::change_log), and logged.
    ///
    /// For a balancer of [`LoadBalancers`](crate::LoadBalancers) use
    /// [`override_with`](crate::LoadBalancers::override_with) there, which knows all services and presets.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use evenkeel::config::Override;
    /// use evenkeel::{LoadBalancer, Request, ServiceInstance};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let orders = LoadBalancer::fixed("orders", [
    ///     ServiceInstance::new("10.0.0.1", 8080)?,
    ///     ServiceInstance::new("10.0.0.2", 8080)?,
    /// ])?;
    /// let drain = Override::drain_host("10.0.0.1").lasting(Duration::from_secs(1_800)).because("OPS-17: disk");
    /// let id = orders.override_with(drain)?;
    /// for _ in 0..10 {
    ///     assert_eq!(orders.choose(&Request::EMPTY).await?.instance().host(), "10.0.0.2");
    /// }
    /// assert!(orders.end_override(id));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`OverrideError`]: without a reason or an end, with an end that has passed, for another service, and for a preset,
    /// which a balancer that was made in code does not have.
    pub fn override_with(&self, over: Override) -> Result<OverrideId, OverrideError> {
        if let Some(service) = over.service.as_ref().filter(|_| !over.concerns(self.service_id().as_str())) {
            return Err(OverrideError::new(&over, format!("it is for service {service:?}")));
        }
        if matches!(over.action, OverrideAction::Preset(_)) {
            let why = "a balancer by itself has no preset: set it on LoadBalancers";
            return Err(OverrideError::new(&over, why));
        }
        let (id, active) = resolve(over, &self.service_state().wall())?;
        self.core.driver.publish.change_overrides(|all| all.push(active));
        Ok(id)
    }

    /// Ends an override before its time; whether it was in force.
    pub fn end_override(&self, id: OverrideId) -> bool {
        self.core.driver.publish.change_overrides(|all| all.retain(|one| one.id != Some(id)))
    }
}
