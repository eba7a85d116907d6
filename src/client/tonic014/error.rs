use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use http::HeaderValue;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use super::fault::Fault;
use super::names::{TRIED, names_of};
use crate::call::CallError;
use crate::{BuildError, ChooseError, ServiceInstance};

/// Why a call came to nothing, where no server sent a status: the source of the [`Status`] that the caller gets.
///
/// ```
/// use evenkeel::client::tonic014::Error;
///
/// # fn example(status: tonic::Status) {
/// if let Some(error) = Error::of(&status) {
///     println!("{} instance(s) were tried: {error}", error.tried().len());
/// }
/// # }
/// ```
pub struct Error(Kind);

enum Kind {
    Refused(BuildError),
    Call(CallError<Fault>),
    /// The time was up before there was anything to choose.
    Late(String),
}

impl Error {
    pub(super) fn refused(error: BuildError) -> Self {
        Self(Kind::Refused(error))
    }

    pub(super) fn call(error: CallError<Fault>) -> Self {
        Self(Kind::Call(error))
    }

    pub(super) fn late(service: &str) -> Self {
        Self(Kind::Late(format!(
            "a call to service {service:?} was over before an instance was chosen: its deadline was up"
        )))
    }

    /// The error behind a status; `None` for one that a server sent.
    pub fn of(status: &Status) -> Option<&Self> {
        status.source()?.downcast_ref()
    }

    /// The instances that were tried, in order.
    pub fn tried(&self) -> &[ServiceInstance] {
        match &self.0 {
            Kind::Call(error) => error.tried(),
            Kind::Refused(_) | Kind::Late(_) => &[],
        }
    }

    /// Why nothing was chosen, if that is what happened.
    pub fn choose_error(&self) -> Option<&ChooseError> {
        match &self.0 {
            Kind::Call(error) => error.choose_error(),
            Kind::Refused(_) | Kind::Late(_) => None,
        }
    }

    /// Why the service has no balancer: its name is none, its chain cannot work, or balancing is off for it.
    pub fn build_error(&self) -> Option<&BuildError> {
        match &self.0 {
            Kind::Refused(error) => Some(error),
            Kind::Call(_) | Kind::Late(_) => None,
        }
    }

    fn code(&self) -> Code {
        match &self.0 {
            Kind::Refused(_) => Code::FailedPrecondition,
            Kind::Late(_) => Code::DeadlineExceeded,
            Kind::Call(error) => match error.call_error() {
                Some(fault) => fault.code,
                None if error.is_timeout() => Code::DeadlineExceeded,
                None => Code::Unavailable,
            },
        }
    }

    /// The status for the caller.
    pub(super) fn into_status(self) -> Status {
        let (_, header) = names_of(self.tried().iter());
        let mut status = Status::new(self.code(), self.to_string());
        if let Some(header) = header.filter(|_| !self.tried().is_empty()) {
            insert(status.metadata_mut(), header);
        }
        status.set_source(Arc::new(self));
        status
    }
}

/// Puts the instances into the metadata of a status.
pub(super) fn insert(metadata: &mut MetadataMap, tried: HeaderValue) {
    let mut headers = std::mem::take(metadata).into_headers();
    headers.insert(TRIED, tried);
    *metadata = MetadataMap::from_headers(headers);
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Refused(error) => error.fmt(f),
            Kind::Call(error) => error.fmt(f),
            Kind::Late(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Error {
    /// Short: a status prints it behind a message that says everything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tried: Vec<String> = self.tried().iter().map(ToString::to_string).collect();
        f.debug_struct("Error").field("tried", &tried).finish_non_exhaustive()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.0 {
            Kind::Refused(error) => error.source(),
            Kind::Call(error) => error.source().and_then(StdError::source),
            Kind::Late(_) => None,
        }
    }
}
