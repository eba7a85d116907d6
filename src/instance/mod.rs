//! What is balanced: [`ServiceInstance`] and its parts.

mod builder;
mod host;
mod metadata;
mod service_id;
mod status;
mod target;
mod weight;

#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

pub use builder::{InvalidInstance, ServiceInstanceBuilder};
pub use metadata::Metadata;
pub(crate) use service_id::words;
pub use service_id::{InvalidServiceId, ServiceId};
pub use status::{InvalidStatus, Status};
pub use target::{Target, TargetError};
pub(crate) use target::{UrlParts, inner_scheme};
pub use weight::{InvalidWeight, Weight};

/// One address at which a service can be called, with what the registry says of it. Cheap to clone.
///
/// **Identity** is id, host, port and scheme: two entries that agree in these are one instance, whose other values may
/// change in place; the same id on two ports is two instances. Hosts are kept in one normal form (no brackets, no
/// trailing dot, lower case), so `[::1]` and `::1` are one host.
///
/// ```
/// use evenkeel::{ServiceInstance, Status};
///
/// let a = ServiceInstance::builder("10.0.0.1").port(8080).id("a").zone("eu-1a").build()?;
/// assert_eq!(a.to_string(), "a (10.0.0.1:8080)");
/// assert_eq!(a.status(), Status::Unknown);
///
/// let wrong = ServiceInstance::builder("10.0.0.1").port(0).id("b").build().unwrap_err();
/// assert_eq!(wrong.to_string(), r#"instance "b" has port "0": 1 to 65535 is expected"#);
/// # Ok::<(), evenkeel::InvalidInstance>(())
/// ```
#[derive(Clone)]
pub struct ServiceInstance(Arc<InstanceData>);

pub(crate) struct InstanceData {
    id: Arc<str>,
    host: Arc<str>,
    port: Option<u16>,
    scheme: Option<Arc<str>>,
    secure: Option<bool>,
    service: Option<ServiceId>,
    zone: Option<Arc<str>>,
    weight: Option<Weight>,
    status: Status,
    priority: u32,
    metadata: Metadata,
    /// Of the identity; kept, because every update of a list looks every instance up.
    hash: u64,
}

impl InstanceData {
    /// The scheme with which a request is sent here; see [`Target::of`].
    ///
    /// # Errors
    /// It would go in the clear.
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    pub(crate) fn scheme_for(
        self: &Arc<Self>,
        requested: Option<&str>,
        allow_downgrade: bool,
    ) -> Result<std::borrow::Cow<'static, str>, TargetError> {
        target::scheme_for(self, requested, allow_downgrade)
    }

    pub(crate) fn authority(&self) -> String {
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        match self.port {
            Some(port) => format!("{open}{}{close}:{port}", self.host),
            None => format!("{open}{}{close}", self.host),
        }
    }

    /// The part of the scheme that tells two addresses apart: the own one, else what `secure` says.
    fn scheme_key(&self) -> Option<&str> {
        self.scheme.as_deref().or(match self.secure {
            Some(true) => Some("https"),
            Some(false) => Some("http"),
            None => None,
        })
    }

    fn identity(&self) -> (&str, &str, Option<u16>, Option<&str>) {
        (&self.id, &self.host, self.port, self.scheme_key())
    }
}

fn identity_hash(data: &InstanceData) -> u64 {
    let mut hasher = std::collections::hash_map::DefaultHasher::new();
    data.identity().hash(&mut hasher);
    hasher.finish()
}

impl ServiceInstance {
    /// Starts an instance at `host`: a name, an IPv4 address, or an IPv6 address with or without brackets.
    pub fn builder(host: impl Into<String>) -> ServiceInstanceBuilder {
        ServiceInstanceBuilder::new(host)
    }

    /// An instance at `host` and `port` with everything else at its default.
    ///
    /// # Errors
    /// As [`ServiceInstanceBuilder::build`].
    pub fn new(host: impl Into<String>, port: u16) -> Result<Self, InvalidInstance> {
        Self::builder(host).port(port).build()
    }

    /// A builder that starts from this instance, to change some of it.
    pub fn to_builder(&self) -> ServiceInstanceBuilder {
        ServiceInstanceBuilder {
            id: Some(Arc::clone(&self.0.id)),
            service: self.0.service.clone(),
            host: self.0.host.to_string(),
            port: self.0.port.map(i64::from),
            secure: self.0.secure,
            scheme: self.0.scheme.as_deref().map(str::to_owned),
            zone: self.0.zone.as_deref().map(str::to_owned),
            weight: self.0.weight,
            status: self.0.status,
            priority: self.0.priority,
            metadata: self.0.metadata.clone(),
        }
    }

    /// The id that the registry gave, or `host:port`.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The service that it belongs to, where it is known.
    pub fn service_id(&self) -> Option<&ServiceId> {
        self.0.service.as_ref()
    }

    /// The host in its normal form: an IPv6 address has no brackets here (see [`authority`](Self::authority)).
    pub fn host(&self) -> &str {
        &self.0.host
    }

    /// The port; `None` means that of the scheme.
    pub fn port(&self) -> Option<u16> {
        self.0.port
    }

    /// Whether it speaks TLS; `None` when the registry does not say.
    pub fn secure(&self) -> Option<bool> {
        self.0.secure
    }

    /// A scheme of its own, if it has one.
    pub fn scheme(&self) -> Option<&str> {
        self.0.scheme.as_deref()
    }

    /// The zone, trimmed; `None` when it is missing or blank. Zones are compared without case.
    pub fn zone(&self) -> Option<&str> {
        self.0.zone.as_deref()
    }

    /// The weight that was set, not the one that metadata may hold.
    pub fn weight(&self) -> Option<Weight> {
        self.0.weight
    }

    /// What the registry says of it.
    pub fn status(&self) -> Status {
        self.0.status
    }

    /// Its priority; 0 is the first.
    pub fn priority(&self) -> u32 {
        self.0.priority
    }

    /// Everything else that the registry keeps with it.
    pub fn metadata(&self) -> &Metadata {
        &self.0.metadata
    }

    /// Host and port as they stand in a URL: an IPv6 address in brackets, the port left out when there is none.
    pub fn authority(&self) -> String {
        self.0.authority()
    }

    /// Whether both are one instance: id, host, port and scheme agree.
    pub fn same_identity(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.hash == other.0.hash && self.0.identity() == other.0.identity())
    }

    /// Whether both are one value in memory.
    pub(crate) fn is_same_entry(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn data(&self) -> Arc<InstanceData> {
        Arc::clone(&self.0)
    }

    pub(crate) fn from_data(data: Arc<InstanceData>) -> Self {
        Self(data)
    }

    pub(crate) fn is_data(&self, data: &Arc<InstanceData>) -> bool {
        Arc::ptr_eq(&self.0, data)
    }

    pub(crate) fn data_is_same_identity(data: &Arc<InstanceData>, instance: &Self) -> bool {
        instance.is_data(data) || (data.hash == instance.0.hash && data.identity() == instance.0.identity())
    }

    pub(crate) fn identity_hash(&self) -> u64 {
        self.0.hash
    }

    /// This instance as one of `service`, unless it says itself where it belongs.
    pub(crate) fn within(&self, service: &ServiceId) -> Self {
        if self.0.service.is_some() {
            return self.clone();
        }
        let d = &self.0;
        Self(Arc::new(InstanceData {
            id: Arc::clone(&d.id),
            host: Arc::clone(&d.host),
            port: d.port,
            scheme: d.scheme.clone(),
            secure: d.secure,
            service: Some(service.clone()),
            zone: d.zone.clone(),
            weight: d.weight,
            status: d.status,
            priority: d.priority,
            metadata: d.metadata.clone(),
            hash: d.hash,
        }))
    }
}

/// All values count here; see [`ServiceInstance::same_identity`] for the identity alone.
impl PartialEq for ServiceInstance {
    fn eq(&self, other: &Self) -> bool {
        if Arc::ptr_eq(&self.0, &other.0) {
            return true;
        }
        let (a, b) = (&self.0, &other.0);
        a.hash == b.hash
            && a.identity() == b.identity()
            && (a.secure, a.weight, a.status, a.priority) == (b.secure, b.weight, b.status, b.priority)
            && a.scheme == b.scheme
            && a.zone == b.zone
            && a.service == b.service
            && a.metadata == b.metadata
    }
}

impl Eq for ServiceInstance {}

/// By identity, which agrees with [`PartialEq`]: equal instances have equal identities.
impl Hash for ServiceInstance {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

/// `id (host:port)`, which is what errors and logs say of an instance.
impl fmt::Display for ServiceInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.authority();
        if authority == self.id() {
            f.write_str(&authority)
        } else {
            write!(f, "{} ({authority})", self.id())
        }
    }
}

impl fmt::Debug for ServiceInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceInstance")
            .field("id", &self.id())
            .field("service", &self.0.service)
            .field("authority", &self.authority())
            .field("scheme", &self.0.scheme_key())
            .field("zone", &self.zone())
            .field("weight", &self.0.weight)
            .field("status", &self.status())
            .field("metadata", &self.0.metadata)
            .finish()
    }
}
