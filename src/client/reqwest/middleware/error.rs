use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use ::reqwest::Url;

use crate::call::CallError;
use crate::client::tls_name::NameError;
use crate::{BuildError, ChooseError, ServiceId, ServiceInstance, TargetError};

/// Why a request through the middlewares came to nothing, inside of a [`reqwest_middleware::Error::Middleware`].
///
/// ```no_run
/// use evenkeel::client::reqwest::middleware::Error;
///
/// # async fn example(http: reqwest_middleware::ClientWithMiddleware) {
/// if let Err(error) = http.get("lb://orders/api/42").send().await
///     && let Some(error) = Error::of(&error)
/// {
///     println!("tried {:?}", error.tried());
/// }
/// # }
/// ```
pub struct Error(Box<Kind>);

#[derive(Debug)]
enum Kind {
    Refused { url: String, error: BuildError },
    Choose(ChooseError),
    Target(TargetError),
    Name(NameError),
    Url { url: String, why: String },
    Unsupported(Unsupported),
    Call(CallError<reqwest_middleware::Error>),
}

/// What the properties ask of a client and a finished one cannot do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsupported {
    /// To verify the certificate of an address by this name.
    TlsName {
        /// The service.
        service: ServiceId,
        /// The instance, whose host is an IP address.
        instance: ServiceInstance,
        /// The name.
        name: String,
    },
    /// To open a connection within this time.
    ConnectTimeout(ServiceId, Duration),
    /// To give up an instance that sends nothing for so long.
    ReadTimeout(ServiceId, Duration),
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (service, key, value) = match self {
            Self::TlsName { service, instance, name } => {
                return write!(
                    f,
                    "tls-name {name:?} of instance {instance} of service {service:?} needs a client per instance, which a \
                     finished client is not"
                );
            }
            Self::ConnectTimeout(service, limit) => (service, "connect-timeout", limit),
            Self::ReadTimeout(service, limit) => (service, "read-timeout", limit),
        };
        write!(
            f,
            "{key} {value:?} of service {service:?} cannot be set on a finished client; if it has a limit of its own, \
             say so by Balance::with_limits_of_client"
        )
    }
}

impl Error {
    pub(super) fn refused(url: &Url, error: BuildError) -> Self {
        Self(Box::new(Kind::Refused { url: url.as_str().to_owned(), error }))
    }

    pub(super) fn choose(error: ChooseError) -> Self {
        Self(Box::new(Kind::Choose(error)))
    }

    pub(super) fn target(error: TargetError) -> Self {
        Self(Box::new(Kind::Target(error)))
    }

    pub(super) fn name(error: NameError) -> Self {
        Self(Box::new(Kind::Name(error)))
    }

    pub(super) fn url(url: String, why: impl fmt::Display) -> Self {
        Self(Box::new(Kind::Url { url, why: why.to_string() }))
    }

    pub(super) fn unsupported(what: Unsupported) -> Self {
        Self(Box::new(Kind::Unsupported(what)))
    }

    pub(super) fn call(error: CallError<reqwest_middleware::Error>) -> Self {
        Self(Box::new(Kind::Call(error)))
    }

    /// The error of the balancing middlewares in an error of the client, if it is one.
    pub fn of(error: &reqwest_middleware::Error) -> Option<&Self> {
        match error {
            reqwest_middleware::Error::Middleware(error) => error.downcast_ref(),
            reqwest_middleware::Error::Reqwest(_) => None,
        }
    }

    /// What happened to the last attempt, if [`Retry`](super::Retry) tells of attempts.
    fn innermost(&self) -> &Kind {
        match &*self.0 {
            Kind::Call(error) => {
                error.call_error().and_then(Self::of).map_or(&self.0, |inner| inner.innermost())
            }
            kind => kind,
        }
    }

    /// The instances that were tried, in order.
    pub fn tried(&self) -> &[ServiceInstance] {
        match &*self.0 {
            Kind::Call(error) => error.tried(),
            _ => &[],
        }
    }

    /// Why nothing was chosen, if that is what happened.
    pub fn choose_error(&self) -> Option<&ChooseError> {
        match self.innermost() {
            Kind::Choose(error) => Some(error),
            Kind::Call(error) => error.choose_error(),
            _ => None,
        }
    }

    /// Why the service has no balancer, if it has none.
    pub fn build_error(&self) -> Option<&BuildError> {
        match self.innermost() {
            Kind::Refused { error, .. } => Some(error),
            _ => None,
        }
    }

    /// The refusal to send an `https` request in the clear, if it is that.
    pub fn target_error(&self) -> Option<&TargetError> {
        match self.innermost() {
            Kind::Target(error) => Some(error),
            _ => None,
        }
    }

    /// What a finished client cannot do, if that is it.
    pub fn as_unsupported(&self) -> Option<&Unsupported> {
        match self.innermost() {
            Kind::Unsupported(what) => Some(what),
            _ => None,
        }
    }

    /// The error of reqwest, if there is one.
    pub fn reqwest_error(&self) -> Option<&::reqwest::Error> {
        match &*self.0 {
            Kind::Call(error) => match error.call_error()? {
                reqwest_middleware::Error::Reqwest(error) => Some(error),
                reqwest_middleware::Error::Middleware(_) => None,
            },
            _ => None,
        }
    }

    /// Whether the time of the call, or of its last attempt, was up.
    pub fn is_timeout(&self) -> bool {
        let late = matches!(&*self.0, Kind::Call(error) if error.is_timeout());
        late || self.reqwest_error().is_some_and(::reqwest::Error::is_timeout)
    }
}

impl From<Error> for reqwest_middleware::Error {
    fn from(error: Error) -> Self {
        Self::middleware(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Refused { url, error } => write!(f, "{url:?} cannot be balanced: {error}"),
            Kind::Choose(error) => error.fmt(f),
            Kind::Target(error) => error.fmt(f),
            Kind::Name(error) => error.fmt(f),
            Kind::Url { url, why } => write!(f, "{url:?} is no URL: {why}"),
            Kind::Unsupported(what) => what.fmt(f),
            Kind::Call(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &*self.0 {
            Kind::Call(error) => error.call_error().and_then(StdError::source),
            _ => None,
        }
    }
}
