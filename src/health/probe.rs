use std::error::Error;
use std::fmt;

use async_trait::async_trait;
use tokio::net::TcpStream;

use crate::ServiceInstance;

/// Asks one instance whether it works.
///
/// ```
/// use evenkeel::health::{HealthProbe, ProbeError};
/// use evenkeel::{ServiceInstance, async_trait};
///
/// /// Trusts what the registry keeps with an instance.
/// #[derive(Debug)]
/// struct Marked;
///
/// #[async_trait]
/// impl HealthProbe for Marked {
///     async fn check(&self, instance: &ServiceInstance) -> Result<(), ProbeError> {
///         match instance.metadata().get("sick") {
///             None => Ok(()),
///             Some(why) => Err(ProbeError::new(why)),
///         }
///     }
/// }
/// ```
#[async_trait]
pub trait HealthProbe: Send + Sync + fmt::Debug + 'static {
    /// `Ok` when it works. The caller limits the time and catches a panic.
    ///
    /// # Errors
    /// What is wrong, in a few words that are the same for the same fault: they stand in a warning.
    async fn check(&self, instance: &ServiceInstance) -> Result<(), ProbeError>;
}

/// Why a probe failed: "status 404", "connection refused".
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProbeError(String);

impl ProbeError {
    /// A failure for this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for ProbeError {}

/// Alive is who accepts a connection.
///
/// An instance without a port is asked at that of its scheme, 443 if it says `secure: true`, else 80.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpProbe {
    port: Option<u16>,
}

impl TcpProbe {
    /// Asks this port instead of the instance's own.
    #[must_use]
    pub fn with_port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }
}

#[async_trait]
impl HealthProbe for TcpProbe {
    async fn check(&self, instance: &ServiceInstance) -> Result<(), ProbeError> {
        let default = if instance.secure() == Some(true) { 443 } else { 80 };
        let port = self.port.or(instance.port()).unwrap_or(default);
        match TcpStream::connect((instance.host(), port)).await {
            Ok(_) => Ok(()),
            Err(error) => Err(ProbeError::new(error.kind().to_string())),
        }
    }
}
