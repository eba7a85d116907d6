use std::error::Error as StdError;
use std::fmt;

use http::Uri;

use super::BoxError;
use crate::call::CallError;
use crate::client::failure::{failure_in, is_of_the_request};
use crate::{
    BuildError, ChooseError, Failure, InstanceState, Outcome, ServiceId, ServiceInstance, TargetError,
};

/// Why a call came to nothing; it names the service, the instances that were tried, and the cause.
///
/// The error of the service or client below is its [`cause`](Self::cause), in its own type.
pub struct Error(Box<Kind>);

#[derive(Debug)]
enum Kind {
    Uri { uri: String, why: String },
    Plain(BoxError),
    Refused { uri: String, error: BuildError },
    Call(CallError<Attempt>),
}

/// What can go wrong in one attempt.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// The inner service or client failed.
    Inner(BoxError),
    /// There is no service for the instance, or it is not ready.
    Make(BoxError),
    Target(TargetError),
    Uri(String),
    /// The time of the call is up.
    Late,
}

impl Attempt {
    /// What it says of the instance.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Inner(error) => outcome_of_error(&**error),
            Self::Make(_) => Outcome::Failure(Failure::Connect),
            // Nothing was sent, and the instance has no part in it.
            Self::Target(_) | Self::Uri(_) => Outcome::Cancelled,
            Self::Late => Outcome::Failure(Failure::Timeout),
        }
    }
}

/// What an error of an inner service says of the instance.
pub(crate) fn outcome_of_error(error: &(dyn StdError + 'static)) -> Outcome {
    if let Some(error) = error.downcast_ref::<Error>() {
        return error.failure().map_or(Outcome::Cancelled, Outcome::Failure);
    }
    if is_of_the_request(error) { Outcome::Cancelled } else { Outcome::Failure(failure_of(error)) }
}

/// What an error of a service or client over hyper says of the instance; it looks through the whole chain of causes, by the
/// rules that all clients here share.
///
/// Not connected (refused, no route, unknown name, TLS handshake, connect time-out) is [`Failure::Connect`]: nothing of the
/// request was sent, so it may go to another instance whatever its method.
pub fn failure_of(error: &(dyn StdError + 'static)) -> Failure {
    failure_in(Some(error)).unwrap_or(Failure::Other)
}

impl Error {
    pub(crate) fn plain(error: impl Into<BoxError>) -> Self {
        Self(Box::new(Kind::Plain(error.into())))
    }

    pub(crate) fn uri(uri: &Uri, why: impl fmt::Display) -> Self {
        Self(Box::new(Kind::Uri { uri: uri.to_string(), why: why.to_string() }))
    }

    pub(crate) fn refused(uri: &Uri, error: BuildError) -> Self {
        Self(Box::new(Kind::Refused { uri: uri.to_string(), error }))
    }

    pub(crate) fn call(error: CallError<Attempt>) -> Self {
        Self(Box::new(Kind::Call(error)))
    }

    /// These attempts, and how the last one failed.
    pub(crate) fn attempts(service: &ServiceId, tried: Vec<ServiceInstance>, error: Attempt) -> Self {
        Self::call(CallError::call(service, tried, error))
    }

    /// One attempt, the only one.
    pub(crate) fn attempt(instance: &InstanceState, error: Attempt) -> Self {
        Self::call(CallError::call(instance.service_id(), vec![instance.instance()], error))
    }

    pub(crate) fn choose(error: ChooseError) -> Self {
        Self::call(CallError::choose(error))
    }

    /// What a layer above has to tell of it as of its own attempt.
    pub(crate) fn into_attempt(self) -> Attempt {
        match *self.0 {
            Kind::Plain(error) => Attempt::Inner(error),
            Kind::Call(error) if error.call_error().is_some() => match error.into_call_error() {
                Some(attempt) => attempt,
                None => Attempt::Late,
            },
            kind => Attempt::Inner(Self(Box::new(kind)).into()),
        }
    }

    /// The instances that were tried, in order.
    pub fn tried(&self) -> &[ServiceInstance] {
        self.call_error().map_or(&[], CallError::tried)
    }

    /// Why nothing was chosen, if that is what happened.
    pub fn choose_error(&self) -> Option<&ChooseError> {
        self.call_error().and_then(CallError::choose_error)
    }

    /// Why the service has no balancer: the host names no service, its chain cannot work, or balancing is off for it.
    pub fn build_error(&self) -> Option<&BuildError> {
        match &*self.0 {
            Kind::Refused { error, .. } => Some(error),
            _ => None,
        }
    }

    /// The refusal to send an `https` request in the clear, if it is that.
    pub fn target_error(&self) -> Option<&TargetError> {
        match self.last() {
            Some(Attempt::Target(error)) => Some(error),
            _ => None,
        }
    }

    /// Whether the URI names nobody who could be called; nothing was sent, nobody was asked.
    pub fn is_invalid_uri(&self) -> bool {
        matches!(&*self.0, Kind::Uri { .. }) || matches!(self.last(), Some(Attempt::Uri(_)))
    }

    /// Whether the time of the call was up, or an attempt took too long for the service below.
    pub fn is_timeout(&self) -> bool {
        self.failure() == Some(Failure::Timeout)
    }

    /// The error of the service or client below, if there is one, in the type that it gave.
    pub fn cause(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        match &*self.0 {
            Kind::Plain(error) => Some(&**error),
            _ => match self.last()? {
                Attempt::Inner(error) | Attempt::Make(error) => Some(&**error),
                _ => None,
            },
        }
    }

    /// How the last attempt failed; `None` if there was none, or if the instance had no part in it.
    pub fn failure(&self) -> Option<Failure> {
        let outcome = match &*self.0 {
            Kind::Plain(error) => match error.downcast_ref::<Attempt>() {
                Some(attempt) => attempt.outcome(),
                None => outcome_of_error(&**error),
            },
            _ => self.last()?.outcome(),
        };
        match outcome {
            Outcome::Failure(failure) => Some(failure),
            _ => None,
        }
    }

    fn call_error(&self) -> Option<&CallError<Attempt>> {
        match &*self.0 {
            Kind::Call(error) => Some(error),
            _ => None,
        }
    }

    fn last(&self) -> Option<&Attempt> {
        self.call_error().and_then(CallError::call_error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Uri { uri, why } => write!(f, "{uri:?} cannot be called: {why}"),
            Kind::Plain(error) => error.fmt(f),
            Kind::Refused { uri, error } => write!(f, "{uri:?} cannot be balanced: {error}"),
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
            Kind::Plain(error) => error.source(),
            Kind::Uri { .. } | Kind::Refused { .. } => None,
            // The text of the last attempt is in that of the call.
            Kind::Call(error) => match error.call_error() {
                Some(attempt) => attempt.source(),
                None => error.source(),
            },
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inner(error) => with_root(&**error, f),
            Self::Make(error) => {
                f.write_str("no service for the instance: ")?;
                with_root(&**error, f)
            }
            Self::Target(error) => error.fmt(f),
            Self::Uri(why) => f.write_str(why),
            Self::Late => f.write_str("the time of the call was up"),
        }
    }
}

/// The error, and what is at the bottom of it: "client error (Connect)" alone says little.
fn with_root(error: &(dyn StdError + 'static), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{error}")?;
    match std::iter::successors(error.source(), |error| (*error).source()).last() {
        Some(root) => write!(f, ": {root}"),
        None => Ok(()),
    }
}

impl StdError for Attempt {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Inner(error) | Self::Make(error) => error.source(),
            Self::Target(_) | Self::Uri(_) | Self::Late => None,
        }
    }
}
