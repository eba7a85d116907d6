use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::ServiceId;
use crate::discovery::SupplyError;
use crate::supplier::Reason;

/// Why nothing was chosen. One pointer wide, so that the good case stays small.
///
/// ```
/// use evenkeel::{ChooseErrorKind, LoadBalancer, Reason, Request};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let empty = LoadBalancer::fixed("orders", [])?;
/// let error = empty.choose(&Request::EMPTY).await.unwrap_err();
/// assert!(matches!(error.kind(), ChooseErrorKind::NoInstances { reason: Reason::Empty, .. }));
/// assert!(error.to_string().starts_with("no instance of service \"orders\" to choose: the source lists none"));
/// # Ok(()) }
/// ```
pub struct ChooseError(Box<(ServiceId, ChooseErrorKind)>);

/// The kind of a [`ChooseError`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ChooseErrorKind {
    /// Only from `try_choose`: there is no list that may be served. Await `ready`, or use `choose`.
    NotReady,
    /// There is a list, and nothing in it to choose.
    NoInstances {
        /// Why.
        reason: Reason,
        /// How many instances the source lists.
        known: u32,
        /// How old that list is.
        age: Duration,
        /// What a stage of the chain says of it.
        detail: Option<String>,
    },
    /// The source gave no answer, and there is no list from before that may be served.
    Supply(SupplyError),
    /// No answer within `choose-timeout`; the look-up goes on, and its answer will be kept.
    Timeout {
        /// How long this caller waited.
        waited: Duration,
    },
    /// The balancer was closed.
    Closed,
    /// There is no tokio runtime to look up on: call from inside one, or inject a handle.
    NoRuntime,
}

impl ChooseError {
    pub(crate) fn new(service: &ServiceId, kind: ChooseErrorKind) -> Self {
        Self(Box::new((service.clone(), kind)))
    }

    /// What happened.
    pub fn kind(&self) -> &ChooseErrorKind {
        &self.0.1
    }

    /// The service.
    pub fn service(&self) -> &ServiceId {
        &self.0.0
    }

    pub(crate) fn is_not_ready(&self) -> bool {
        matches!(self.0.1, ChooseErrorKind::NotReady)
    }
}

impl fmt::Display for ChooseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (service, kind) = &*self.0;
        match kind {
            ChooseErrorKind::NotReady => {
                write!(f, "the instances of service {service:?} are not looked up yet")
            }
            ChooseErrorKind::NoInstances { reason, known, age, detail } => {
                write!(f, "no instance of service {service:?} to choose: ")?;
                match detail {
                    Some(detail) => f.write_str(detail)?,
                    None => write!(f, "{reason}")?,
                }
                write!(f, " ({known} known, list {:.1} s old)", age.as_secs_f64())
            }
            ChooseErrorKind::Supply(error) => {
                write!(f, "the instances of service {service:?} are not known: {error}")
            }
            ChooseErrorKind::Timeout { waited } => write!(
                f,
                "the look-up of service {service:?} took longer than this call waits ({:.1} s); it goes on",
                waited.as_secs_f64()
            ),
            ChooseErrorKind::Closed => write!(f, "the balancer of service {service:?} is closed"),
            ChooseErrorKind::NoRuntime => {
                write!(
                    f,
                    "no tokio runtime to look up service {service:?} on: call inside one, or inject a handle"
                )
            }
        }
    }
}

impl fmt::Debug for ChooseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChooseError").field(&self.0.0).field(&self.0.1).finish()
    }
}

impl Error for ChooseError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0.1 {
            ChooseErrorKind::Supply(error) => Some(error),
            _ => None,
        }
    }
}
