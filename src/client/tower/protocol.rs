//! What the attempts of a call over HTTP mean.

use std::sync::OnceLock;
use std::time::Duration;

use futures_util::FutureExt;
use http::HeaderMap;
use tokio::time::Instant;

use super::BoxError;
use super::error::Attempt;
use crate::call::Protocol;
use crate::choice::outcome_of;
use crate::future::within;
use crate::{Failure, Outcome};

/// HTTP, and the limit of one call, from its first attempt on: the wait for a list has its own limit.
pub(super) struct Http {
    limit: Option<Duration>,
    ends: OnceLock<Option<Instant>>,
    failures: Option<fn(&BoxError) -> Failure>,
}

impl Http {
    pub(super) fn new(limit: Option<Duration>) -> Self {
        Self { limit, ends: OnceLock::new(), failures: None }
    }

    /// Errors of the service below mean what `failures` says.
    pub(super) fn judging(self, failures: Option<fn(&BoxError) -> Failure>) -> Self {
        Self { failures, ..self }
    }

    /// When the time of the call is up; the first attempt begins now, if none has begun.
    pub(super) fn begin(&self) -> Option<Instant> {
        *self.ends.get_or_init(|| self.limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    /// The attempt, until the time of the call is up.
    pub(super) fn within<T>(
        end: Option<Instant>,
        attempt: impl Future<Output = Result<T, Attempt>>,
    ) -> impl Future<Output = Result<T, Attempt>> {
        within(end, attempt).map(|done| done.unwrap_or(Err(Attempt::Late)))
    }
}

impl<B> Protocol<http::Response<B>, Attempt> for Http {
    fn outcome(&self, result: Result<&http::Response<B>, &Attempt>) -> Outcome {
        match (result, self.failures) {
            (Ok(response), _) => outcome_of(response.status(), response.headers()),
            (Err(Attempt::Inner(error)), Some(judge)) => Outcome::Failure(judge(error)),
            (Err(attempt), _) => attempt.outcome(),
        }
    }

    fn headers(&self, response: &http::Response<B>) -> HeaderMap {
        response.headers().clone()
    }

    fn deadline(&self) -> Option<Instant> {
        self.ends.get().copied().flatten()
    }
}
