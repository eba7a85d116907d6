use std::error::Error as StdError;
use std::fmt;

use ::reqwest::Url;

use super::call::Attempt;
use super::redirect::Fault;
use crate::call::CallError;
use crate::client::Via;
use crate::client::failure::failure_in;
use crate::{BuildError, ChooseError, Failure, ServiceInstance, TargetError};

/// Why a request came to nothing; it names the service, the instances that were tried, and the cause, and the URLs that led
/// there if it was redirected.
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    /// The URLs before the one that failed; empty if it was not redirected.
    from: Vec<Url>,
}

#[derive(Debug)]
enum Kind {
    Url { url: String, why: String },
    Plain(::reqwest::Error),
    Refused { url: String, error: BuildError },
    Call(CallError<Attempt>),
    Redirect(Fault),
    Late,
}

impl Error {
    fn new(kind: Kind) -> Self {
        Self(Box::new(Inner { kind, from: Vec::new() }))
    }

    pub(super) fn plain(error: ::reqwest::Error) -> Self {
        Self::new(Kind::Plain(error))
    }

    pub(super) fn url(url: &str, why: impl fmt::Display) -> Self {
        Self::new(Kind::Url { url: url.to_owned(), why: why.to_string() })
    }

    pub(super) fn refused(url: &Url, error: BuildError) -> Self {
        Self::new(Kind::Refused { url: url.as_str().to_owned(), error })
    }

    pub(super) fn call(error: CallError<Attempt>) -> Self {
        Self::new(Kind::Call(error))
    }

    /// A redirect that is not followed, after these URLs.
    pub(super) fn redirect(fault: Fault, from: Vec<Url>) -> Self {
        Self(Box::new(Inner { kind: Kind::Redirect(fault), from }))
    }

    /// The time of the call was up between two requests.
    pub(super) fn late() -> Self {
        Self::new(Kind::Late)
    }

    /// The same, at the end of redirects.
    pub(super) fn after(mut self, from: &[Url]) -> Self {
        self.0.from = from.to_vec();
        self
    }

    /// The URLs that redirected, in order, the caller's first: those before the one that failed, or all that were called if
    /// there were too many; empty if the call was not redirected.
    pub fn redirected_from(&self) -> &[Url] {
        &self.0.from
    }

    /// Whether a redirect was not to be followed: too many, a circle, a scheme that nobody can call, or refused by a
    /// [`RedirectPolicy`](super::RedirectPolicy).
    pub fn is_redirect(&self) -> bool {
        matches!(&self.0.kind, Kind::Redirect(_))
    }

    /// Whether the time of the call, or of its last attempt, was up.
    pub fn is_timeout(&self) -> bool {
        match &self.0.kind {
            Kind::Late => true,
            Kind::Call(error) if error.is_timeout() => true,
            _ => self
                .reqwest_error()
                .is_some_and(|error| failure_of(error) == Failure::Timeout || error.is_timeout()),
        }
    }

    /// The instances that were tried, in order.
    pub fn tried(&self) -> &[ServiceInstance] {
        match &self.0.kind {
            Kind::Call(error) => error.tried(),
            _ => &[],
        }
    }

    /// The instance of the last attempt, and how many attempts were made; `None` if nothing was sent to an instance.
    pub fn via(&self) -> Option<Via> {
        let tried = self.tried();
        let attempts = u32::try_from(tried.len()).unwrap_or(u32::MAX);
        tried.last().map(|last| Via::new(last.clone(), attempts))
    }

    /// Why nothing was chosen, if that is what happened.
    pub fn choose_error(&self) -> Option<&ChooseError> {
        match &self.0.kind {
            Kind::Call(error) => error.choose_error(),
            _ => None,
        }
    }

    /// Whether the text that was given is no URL with a host; nothing was sent, nobody was asked.
    pub fn is_invalid_url(&self) -> bool {
        matches!(&self.0.kind, Kind::Url { .. })
    }

    /// Why the service has no balancer: the host names no service, its chain cannot work, or balancing is off for it.
    pub fn build_error(&self) -> Option<&BuildError> {
        match &self.0.kind {
            Kind::Refused { error, .. } => Some(error),
            _ => None,
        }
    }

    /// The refusal to send an `https` request in the clear, if it is that.
    pub fn target_error(&self) -> Option<&TargetError> {
        match &self.0.kind {
            Kind::Call(error) => match error.call_error()? {
                Attempt::Target(error) => Some(error),
                _ => None,
            },
            _ => None,
        }
    }

    /// The error of reqwest, if there is one.
    pub fn reqwest_error(&self) -> Option<&::reqwest::Error> {
        match &self.0.kind {
            Kind::Plain(error) => Some(error),
            Kind::Call(error) => match error.call_error()? {
                Attempt::Reqwest(error) => Some(error),
                _ => None,
            },
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.kind {
            Kind::Url { url, why } => write!(f, "{url:?} is no URL that can be called: {why}")?,
            Kind::Plain(error) => error.fmt(f)?,
            Kind::Refused { url, error } => write!(f, "{url:?} cannot be balanced: {error}")?,
            Kind::Call(error) => error.fmt(f)?,
            Kind::Redirect(fault) => fault.fmt(f)?,
            Kind::Late => f.write_str("the time of the call was up")?,
        }
        for (at, url) in self.0.from.iter().enumerate() {
            write!(f, "{}{url}", if at == 0 { " (redirected from " } else { ", then " })?;
        }
        f.write_str(if self.0.from.is_empty() { "" } else { ")" })
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error").field("kind", &self.0.kind).field("redirected_from", &self.0.from).finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.0.kind {
            Kind::Plain(error) => error.source(),
            Kind::Url { .. } | Kind::Refused { .. } | Kind::Redirect(_) | Kind::Late => None,
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
