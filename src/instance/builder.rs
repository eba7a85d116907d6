use std::fmt;
use std::sync::Arc;

use super::{InstanceData, Metadata, ServiceId, ServiceInstance, Status, Weight, host, identity_hash};

/// Builds a [`ServiceInstance`] and checks it; see there for an example.
#[derive(Clone, Debug)]
#[must_use]
pub struct ServiceInstanceBuilder {
    pub(super) id: Option<Arc<str>>,
    pub(super) service: Option<ServiceId>,
    pub(super) host: String,
    pub(super) port: Option<i64>,
    pub(super) secure: Option<bool>,
    pub(super) scheme: Option<String>,
    pub(super) zone: Option<String>,
    pub(super) weight: Option<Weight>,
    pub(super) status: Status,
    pub(super) priority: u32,
    pub(super) metadata: Metadata,
}

impl ServiceInstanceBuilder {
    pub(super) fn new(host: impl Into<String>) -> Self {
        Self {
            id: None,
            service: None,
            host: host.into(),
            port: None,
            secure: None,
            scheme: None,
            zone: None,
            weight: None,
            status: Status::Unknown,
            priority: 0,
            metadata: Metadata::default(),
        }
    }

    /// The id that the registry gave (default: `host:port`).
    pub fn id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// The service that it belongs to (default: unset; a supplier's service is filled in).
    pub fn service_id(mut self, service: ServiceId) -> Self {
        self.service = Some(service);
        self
    }

    /// The port, 1 to 65 535 (default: that of the scheme). Any integer is taken here and checked in
    /// [`build`](Self::build), since registries carry -1 and 0.
    pub fn port(mut self, port: impl Into<i64>) -> Self {
        self.port = Some(port.into());
        self
    }

    /// Whether it speaks TLS; `false` is a value and not the same as leaving it unset (the default).
    pub fn secure(mut self, secure: bool) -> Self {
        self.secure = Some(secure);
        self
    }

    /// A scheme of its own, which wins over [`secure`](Self::secure) and over the request's (default: unset).
    pub fn scheme(mut self, scheme: impl Into<String>) -> Self {
        self.scheme = Some(scheme.into());
        self
    }

    /// The zone (default: the metadata entry `zone`). Blanks around it do not count.
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = Some(zone.into());
        self
    }

    /// The weight (default: what the metadata say, else 1).
    pub fn weight(mut self, weight: Weight) -> Self {
        self.weight = Some(weight);
        self
    }

    /// What the registry says of it (default: [`Status::Unknown`]).
    pub fn status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }

    /// Its priority; 0 is the first and the default.
    pub fn priority(mut self, priority: u32) -> Self {
        self.priority = priority;
        self
    }

    /// All its metadata.
    pub fn metadata(mut self, metadata: impl Into<Metadata>) -> Self {
        self.metadata = metadata.into();
        self
    }

    /// One more entry of the metadata.
    pub fn with_metadata(mut self, key: impl Into<Arc<str>>, value: impl Into<Arc<str>>) -> Self {
        let old: Vec<(Arc<str>, Arc<str>)> =
            self.metadata.iter().map(|(k, v)| (k.into(), v.into())).collect();
        self.metadata = old.into_iter().chain([(key.into(), value.into())]).collect();
        self
    }

    /// Checks everything and builds the instance.
    ///
    /// # Errors
    /// [`InvalidInstance`] for a host that is none (`2001:db8:::5`, `a b`), a port out of 1 ..= 65 535 (0 counts as
    /// out), a scheme that is none. It names service, id, field and value.
    pub fn build(self) -> Result<ServiceInstance, InvalidInstance> {
        let wrong = |field, value: String, reason| InvalidInstance {
            service: self.service.clone(),
            id: self.id.as_deref().unwrap_or(&self.host).to_owned(),
            field,
            value,
            reason,
        };
        let host = host::normalise(&self.host).map_err(|reason| wrong("host", self.host.clone(), reason))?;
        let port = match self.port {
            None => None,
            Some(port) => match u16::try_from(port) {
                Ok(port) if port != 0 => Some(port),
                _ => return Err(wrong("port", port.to_string(), "1 to 65535 is expected")),
            },
        };
        let scheme = match self.scheme.as_deref().map(str::trim) {
            None | Some("") => None,
            Some(text) if is_scheme(text) => Some(Arc::<str>::from(text.to_ascii_lowercase())),
            Some(text) => {
                return Err(wrong("scheme", text.to_owned(), "letters, digits, + - . are expected"));
            }
        };
        let id = match self.id.as_deref().map(str::trim) {
            Some(id) if !id.is_empty() => Arc::from(id),
            _ => match port {
                Some(port) => format!("{host}:{port}").into(),
                None => Arc::clone(&host),
            },
        };
        let zone = match self.zone {
            Some(zone) => Some(zone),
            None => self.metadata.get("zone").map(str::to_owned),
        };
        let zone = zone.map(|zone| Arc::<str>::from(zone.trim())).filter(|zone| !zone.is_empty());
        let mut data = InstanceData {
            id,
            host,
            port,
            scheme,
            secure: self.secure,
            service: self.service,
            zone,
            weight: self.weight,
            status: self.status,
            priority: self.priority,
            metadata: self.metadata,
            hash: 0,
        };
        data.hash = identity_hash(&data);
        Ok(ServiceInstance(Arc::new(data)))
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// An entry of a registry that cannot be called; it names service, instance, field, value and what is expected.
///
/// A source drops such an entry with a warning; it never spoils the rest of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidInstance {
    pub(super) service: Option<ServiceId>,
    pub(super) id: String,
    pub(super) field: &'static str,
    pub(super) value: String,
    pub(super) reason: &'static str,
}

impl InvalidInstance {
    /// An error of a source that found `value` in `field` of the entry `id`.
    pub fn new(
        id: impl Into<String>,
        field: &'static str,
        value: impl Into<String>,
        reason: &'static str,
    ) -> Self {
        Self { service: None, id: id.into(), field, value: value.into(), reason }
    }

    /// The same error with the service that the entry belongs to.
    #[must_use]
    pub fn of_service(mut self, service: &ServiceId) -> Self {
        self.service = Some(service.clone());
        self
    }

    /// The id of the entry, or its host if it had none.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The field that is wrong: `host`, `port`, `scheme`, ...
    pub fn field(&self) -> &'static str {
        self.field
    }

    /// The value that is wrong.
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl fmt::Display for InvalidInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "instance {:?}", self.id)?;
        if let Some(service) = &self.service {
            write!(f, " of service {service:?}")?;
        }
        write!(f, " has {} {:?}: {}", self.field, self.value, self.reason)
    }
}

impl std::error::Error for InvalidInstance {}
