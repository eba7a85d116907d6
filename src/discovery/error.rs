use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::ServiceId;

/// Why a source gave **no answer**: the set of instances stays as it is (an empty answer is a list, not an error).
///
/// Cheap to clone: every caller who waited for one look-up gets the same error.
///
/// ```
/// use evenkeel::discovery::{SupplyError, SupplyErrorKind};
///
/// let error = SupplyError::new(SupplyErrorKind::Denied, "consul", "403: ACL not found");
/// assert_eq!(error.to_string(), "consul denied the look-up: 403: ACL not found");
/// ```
#[derive(Clone)]
pub struct SupplyError(Arc<Inner>);

struct Inner {
    kind: SupplyErrorKind,
    origin: String,
    service: Option<ServiceId>,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// The kind of a [`SupplyError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SupplyErrorKind {
    /// The registry could not be reached or broke off.
    Io,
    /// It refused: missing rights, a wrong token.
    Denied,
    /// The answer was cut short, by missing rights or by a limit, so that it says nothing of the set.
    Truncated,
    /// The answer could not be read.
    Invalid,
    /// No answer within the limit of a look-up (`service-discovery.timeout`).
    Timeout,
    /// The source panicked, or a stage or the policy at its list.
    Panicked,
    /// The stream ended without a list, or a watch ended.
    Ended,
    /// The runtime that ran the look-up went away.
    Aborted,
    /// Anything else.
    Other,
}

impl SupplyError {
    /// An error of the source `origin` ("consul", "file ./registry.yml").
    pub fn new(kind: SupplyErrorKind, origin: impl Into<String>, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            kind,
            origin: origin.into(),
            service: None,
            message: message.into(),
            source: None,
        }))
    }

    /// The same with the error that caused it.
    pub fn caused_by(
        kind: SupplyErrorKind,
        origin: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        let source = source.into();
        Self(Arc::new(Inner {
            kind,
            origin: origin.into(),
            service: None,
            message: source.to_string(),
            source: Some(source),
        }))
    }

    /// The same error with the service that was looked up; a service that is already named stays.
    #[must_use]
    pub fn of_service(self, service: &ServiceId) -> Self {
        if self.0.service.is_some() {
            return self;
        }
        let inner = Arc::try_unwrap(self.0).unwrap_or_else(|shared| Inner {
            kind: shared.kind,
            origin: shared.origin.clone(),
            service: None,
            message: shared.message.clone(),
            // The cause cannot be cloned; keep it reachable through the shared error.
            source: Some(Box::new(SupplyError(Arc::clone(&shared)))),
        });
        Self(Arc::new(Inner { service: Some(service.clone()), ..inner }))
    }

    /// What went wrong.
    pub fn kind(&self) -> SupplyErrorKind {
        self.0.kind
    }

    /// The source that gave no answer.
    pub fn origin(&self) -> &str {
        &self.0.origin
    }

    /// The service that was looked up, where it is known.
    pub fn service(&self) -> Option<&ServiceId> {
        self.0.service.as_ref()
    }
}

impl fmt::Display for SupplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        let what = match inner.kind {
            SupplyErrorKind::Io => "could not be asked",
            SupplyErrorKind::Denied => "denied the look-up",
            SupplyErrorKind::Truncated => "gave a part of the answer only",
            SupplyErrorKind::Invalid => "gave an answer that could not be read",
            SupplyErrorKind::Timeout => "did not answer in time",
            SupplyErrorKind::Panicked => "panicked",
            SupplyErrorKind::Ended => "ended its stream",
            SupplyErrorKind::Aborted => "lost the runtime of its look-up",
            SupplyErrorKind::Other => "failed",
        };
        write!(f, "{} {what}", inner.origin)?;
        if let Some(service) = &inner.service {
            write!(f, " for service {service:?}")?;
        }
        if inner.message.is_empty() { Ok(()) } else { write!(f, ": {}", inner.message) }
    }
}

impl fmt::Debug for SupplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SupplyError({:?}: {self})", self.0.kind)
    }
}

impl Error for SupplyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
