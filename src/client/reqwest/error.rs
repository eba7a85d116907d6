use std::error::Error as StdError;
use std::fmt;

use ::reqwest::Url;

use super::client::Attempt;
use crate::call::CallError;
use crate::client::failure::failure_in;
use crate::{BuildError, ChooseError, Failure, ServiceInstance, TargetError};

/// Why a request came to nothing; it names the service, the instances that were tried, and the cause.
pub struct Error(Box<Kind>);

#[derive(Debug)]
enum Kind {
    Url { url: String, why: String },
    Plain(::reqwest::Error),
    Refused { url: String, error: BuildError },
    Call(CallError<Attempt>),
}

impl Error {
    pub(super) fn plain(error: ::reqwest::Error) -> Self {
        Self(Box::new(Kind::Plain(error)))
    }

    pub(super) fn url(url: &str, why: impl fmt::Display) -> Self {
        Self(Box::new(Kind::Url { url: url.to_owned(), why: why.to_string() }))
    }

    pub(super) fn refused(url: &Url, error: BuildError) -> Self {
        Self(Box::new(Kind::Refused { url: url.as_str().to_owned(), error }))
    }

    pub(super) fn call(error: CallError<Attempt>) -> Self {
        Self(Box::new(Kind::Call(error)))
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
        match &*self.0 {
            Kind::Call(error) => error.choose_error(),
            _ => None,
        }
    }

    /// Whether the text that was given is no URL with a host; nothing was sent, nobody was asked.
    pub fn is_invalid_url(&self) -> bool {
        matches!(&*self.0, Kind::Url { .. })
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
        match &*self.0 {
            Kind::Call(error) => match error.call_error()? {
                Attempt::Target(error) => Some(error),
                _ => None,
            },
            _ => None,
        }
    }

    /// The error of reqwest, if there is one.
    pub fn reqwest_error(&self) -> Option<&::reqwest::Error> {
        match &*self.0 {
            Kind::Plain(error) => Some(error),
            Kind::Call(error) => match error.call_error()? {
                Attempt::Reqwest(error) | Attempt::Redirected(error) => Some(error),
                _ => None,
            },
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Url { url, why } => write!(f, "{url:?} is no URL that can be called: {why}"),
            Kind::Plain(error) => error.fmt(f),
            Kind::Refused { url, error } => write!(f, "{url:?} cannot be balanced: {error}"),
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
            Kind::Url { .. } | Kind::Refused { .. } => None,
            Kind::Call(error) => error.source().and_then(StdError::source),
        }
    }
}

/// What an error of reqwest says of the instance; it looks through the whole chain of causes.
///
/// Not connected (refused, no route, unknown name, TLS handshake, connect time-out) is [`Failure::Connect`]: nothing of
/// the request was sent. A client of your own that follows redirects gives the same error when the place that it was led to
/// is not reached, though the request was sent: let it follow none where that matters.
pub fn failure_of(error: &::reqwest::Error) -> Failure {
    if error.is_connect() {
        return Failure::Connect;
    }
    if error.is_timeout() {
        return Failure::Timeout;
    }
    let reset = || if error.is_request() || error.is_body() { Failure::Reset } else { Failure::Other };
    failure_in(error.source()).unwrap_or_else(reset)
}
