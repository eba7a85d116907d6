//! Reports and overrides by the name of a service.

use std::error::Error;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::map::Entry;
use super::{Inner, LoadBalancers};
use crate::balancer::why::{Active, resolve};
use crate::balancer::{OverrideError, OverrideId};
use crate::config::{LoadBalancerProperties, Override, Properties};
use crate::observe::{Change, ChangeKind, ExplainOptions, Explanation, Page, ServiceStatus};
use crate::{Request, ServiceId};

/// A report was asked for of a service that has no balancer now; none is made for the question.
///
/// ```
/// use evenkeel::LoadBalancers;
/// use evenkeel::discovery::SimpleDiscovery;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let balancers = LoadBalancers::builder(SimpleDiscovery::new()).build()?;
/// let error = balancers.status("orders").unwrap_err();
/// assert_eq!(error.to_string(), "service \"orders\" has no balancer: nobody has called it, and nothing configures it");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownService {
    name: String,
    configured: bool,
}

impl UnknownService {
    /// The name that was asked for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the code or the properties name it: then it gets its balancer with the first call.
    pub fn is_configured(&self) -> bool {
        self.configured
    }
}

impl fmt::Display for UnknownService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name: String = self.name.chars().take(128).collect();
        let why = if self.configured { "it is configured" } else { "nothing configures it" };
        write!(f, "service {name:?} has no balancer: nobody has called it, and {why}")
    }
}

impl Error for UnknownService {}

impl LoadBalancers {
    /// How a service is doing; see [`LoadBalancer::status`](crate::LoadBalancer::status). Names compare without case.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// use evenkeel::{LoadBalancers, ServiceInstance};
    ///
    /// let balancers = LoadBalancers::fixed([("orders", vec![ServiceInstance::new("127.0.0.1", 8080)?])])?;
    /// balancers.ready(["orders"], Duration::from_secs(1)).await?;
    /// println!("{}", balancers.status("Orders")?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`UnknownService`] for one without a balancer; none is made.
    pub fn status(&self, service: impl AsRef<str>) -> Result<ServiceStatus, UnknownService> {
        self.status_page(service, Page::default())
    }

    /// The same with another part of the instances.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub fn status_page(&self, service: impl AsRef<str>, page: Page) -> Result<ServiceStatus, UnknownService> {
        Ok(self.known(service.as_ref())?.balancer.status_page(page))
    }

    /// Why a request to a service would go where it goes; see [`LoadBalancer::explain`](crate::LoadBalancer::explain).
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub fn explain(
        &self,
        service: impl AsRef<str>,
        request: &Request<'_>,
    ) -> Result<Explanation, UnknownService> {
        self.explain_with(service, request, ExplainOptions::default())
    }

    /// The same with another number of picks, or another part of the instances.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub fn explain_with(
        &self,
        service: impl AsRef<str>,
        request: &Request<'_>,
        options: ExplainOptions,
    ) -> Result<Explanation, UnknownService> {
        Ok(self.known(service.as_ref())?.balancer.explain_with(request, options))
    }

    /// The last changes of a service; see [`LoadBalancer::change_log`](crate::LoadBalancer::change_log).
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub fn change_log(&self, service: impl AsRef<str>) -> Result<Vec<Change>, UnknownService> {
        Ok(self.known(service.as_ref())?.balancer.change_log())
    }

    /// Overrides the configuration for a while, for one service or all, those that get a balancer later included.
    ///
    /// The same as an entry of `evenkeel.overrides`, and over it where both pin a preset. It ends by itself.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// use evenkeel::config::Override;
    /// use evenkeel::{LoadBalancers, ServiceInstance};
    ///
    /// let balancers = LoadBalancers::fixed([("orders", vec![ServiceInstance::new("127.0.0.1", 8080)?])])?;
    /// let half_an_hour = Duration::from_secs(1_800);
    /// let id = balancers.override_with(Override::drain_zone("eu-1b").lasting(half_an_hour).because("OPS-17: power"))?;
    /// assert!(balancers.end_override(id));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`OverrideError`]: without a reason or an end, or with an end that has passed.
    pub fn override_with(&self, over: Override) -> Result<OverrideId, OverrideError> {
        if let Some(fault) = over.service.as_deref().and_then(|name| ServiceId::new(name).err()) {
            return Err(OverrideError::new(&over, fault.to_string()));
        }
        let (id, active) = resolve(over, &self.inner.recipe.wall)?;
        {
            let mut all = self.inner.overrides.lock();
            all.retain(|one| !one.is_over());
            all.push(active);
        }
        self.inner.overridden.fetch_add(1, Ordering::AcqRel);
        self.inner.settle_all();
        Ok(id)
    }

    /// Ends an override of the code before its time; whether it was in force.
    pub fn end_override(&self, id: OverrideId) -> bool {
        let found = {
            let mut all = self.inner.overrides.lock();
            let position = all.iter().position(|one| one.id == Some(id));
            position.map(|at| all.remove(at)).is_some_and(|one| !one.is_over())
        };
        self.inner.overridden.fetch_add(1, Ordering::AcqRel);
        self.inner.settle_all();
        found
    }

    fn known(&self, name: &str) -> Result<Arc<Entry>, UnknownService> {
        self.inner.map.peek(name).ok_or_else(|| {
            let configured =
                ServiceId::new(name).is_ok_and(|id| self.inner.recipe.in_force.load().is_named(&id));
            UnknownService { name: name.to_owned(), configured }
        })
    }

    /// The balancers that there are, for who looks at all of them.
    #[cfg(feature = "axum08")]
    pub(crate) fn balancers(&self) -> impl Iterator<Item = crate::LoadBalancer> {
        self.inner.map.entries().into_iter().map(|entry| entry.balancer.clone())
    }

    /// The services that the code or the properties name and that have no balancer yet.
    pub fn configured_services(&self) -> Vec<ServiceId> {
        let mut all: Vec<ServiceId> = self.inner.recipe.in_force.load().names().cloned().collect();
        all.retain(|id| self.inner.map.peek(id.as_str()).is_none());
        all.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        all
    }
}

impl Inner {
    /// The properties of a service as they count now, a pinned preset included, and the overrides in force.
    pub(super) fn effective(
        &self,
        properties: &Properties,
        name: &str,
    ) -> (LoadBalancerProperties, Vec<Active>) {
        let plain = properties.effective(name);
        let clock = &self.recipe.wall;
        let mut active: Vec<Active> =
            plain.overrides.iter().filter_map(|over| Active::configured(over, clock)).collect();
        let code = self.overrides.lock();
        active.extend(code.iter().filter(|one| one.over.concerns(name) && !one.is_over()).cloned());
        drop(code);
        // The last one counts, and those of the code come last.
        let pinned = active.iter().rev().find_map(Active::preset);
        let effective = if pinned.is_some() { properties.effective_with(name, pinned) } else { plain };
        (effective, active)
    }

    /// Applies what counts now to every service.
    pub(super) fn settle_all(&self) {
        for entry in self.map.entries() {
            self.settle(&entry);
        }
    }

    /// Has the end of a pinned preset reach a service.
    pub(super) fn attend(inner: &Arc<Self>, entry: &Arc<Entry>) {
        let (inner, entry): (Weak<Self>, Weak<Entry>) = (Arc::downgrade(inner), Arc::downgrade(entry));
        let ring = entry.upgrade().map(|entry| Arc::clone(&entry.balancer.core.ring));
        if let Some(ring) = ring {
            ring.on_unpin(move || {
                if let (Some(inner), Some(entry)) = (inner.upgrade(), entry.upgrade()) {
                    inner.settle(&entry);
                }
            });
        }
    }

    /// Notes for every service that properties are not applied.
    pub(super) fn refused(&self, why: &str) {
        for entry in self.map.entries() {
            entry.balancer.service_state().note(ChangeKind::ConfigRefused, None, why.to_owned());
        }
    }
}

/// What holds for a service now that did not before, in a line.
pub(super) fn differences(old: &LoadBalancerProperties, new: &LoadBalancerProperties) -> String {
    let said = [
        ("preset", old.preset.to_string(), new.preset.to_string()),
        ("policy", old.policy.to_string(), new.policy.to_string()),
        ("enabled", old.enabled.to_string(), new.enabled.to_string()),
        ("cache.ttl", format!("{:?}", old.cache.ttl), format!("{:?}", new.cache.ttl)),
        ("zone", zone(old), zone(new)),
        ("configurations", words(old), words(new)),
    ];
    let mut changed: Vec<String> = said
        .iter()
        .filter(|(_, old, new)| old != new)
        .map(|(name, old, new)| format!("{name} {old} -> {new}"))
        .collect();
    if changed.is_empty() {
        changed.push("other properties".to_owned());
    }
    changed.join(", ")
}

fn zone(properties: &LoadBalancerProperties) -> String {
    properties.zone.clone().unwrap_or_else(|| "none".to_owned())
}

fn words(properties: &LoadBalancerProperties) -> String {
    let all: Vec<&str> = properties.configurations.iter().map(|stage| stage.as_str()).collect();
    all.join("+")
}
