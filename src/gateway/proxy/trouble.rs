//! What a client is told when a call came to nothing.

use std::error::Error;
use std::io;
use std::sync::Arc;

use http::StatusCode;

use crate::call::CallError;
use crate::client::tower::Attempt;
use crate::gateway::route::Route;
use crate::{ChooseErrorKind, Failure, Outcome};

/// A request that gets no answer of an instance.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    /// For the log; a client is not told it.
    pub(super) error: Option<String>,
    pub(super) route: Arc<str>,
}

impl Refused {
    pub(super) fn new(status: StatusCode, route: &Route, error: &impl ToString) -> Self {
        Self { status, error: Some(error.to_string()), route: Arc::clone(&route.id) }
    }
}

/// The client's own doing, or no route: nothing for the log.
impl From<StatusCode> for Refused {
    fn from(status: StatusCode) -> Self {
        Self { status, error: None, route: Arc::default() }
    }
}

/// By what happened: 503 if there was nobody to ask, 504 if it took too long, 400 if the client broke off its body, else 502.
pub(super) fn refused(route: &Route, error: &CallError<Attempt>, use404: bool) -> Refused {
    let status = match (error.choose_error(), error.call_error()) {
        (Some(error), _) if use404 && matches!(error.kind(), ChooseErrorKind::NoInstances { .. }) => {
            StatusCode::NOT_FOUND
        }
        (_, Some(attempt)) => status_of(attempt),
        // It took longer than `retry.per-try-timeout`.
        _ if error.is_timeout() => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    Refused::new(status, route, error)
}

fn status_of(attempt: &Attempt) -> StatusCode {
    match (attempt, attempt.outcome()) {
        (_, Outcome::Failure(Failure::Timeout)) => StatusCode::GATEWAY_TIMEOUT,
        (Attempt::Inner(error), Outcome::Failure(Failure::Connect)) if timed_out(&**error) => {
            StatusCode::GATEWAY_TIMEOUT
        }
        // The body of the request broke off.
        (Attempt::Inner(_), Outcome::Cancelled) => StatusCode::BAD_REQUEST,
        _ => StatusCode::BAD_GATEWAY,
    }
}

/// Whether a connection was not made in time.
fn timed_out(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let of_io =
            error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut);
        if of_io || error.is::<tokio::time::error::Elapsed>() {
            return true;
        }
        cause = error.source();
    }
    false
}
