//! What every strategy can be told of a call's time and of what its further attempts may cost.

use std::time::Duration;

use tokio::time::Instant;

use super::sticky::Sticky;
use crate::call::RetryThrottle;
use crate::call::busy::MAX_WAIT;

/// What all strategies share.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    pub(super) timeout: Option<Duration>,
    pub(super) per_try_timeout: Option<Duration>,
    pub(super) max_push_back: Duration,
    pub(super) throttle: Option<RetryThrottle>,
    pub(super) sticky: Option<Sticky>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { timeout: None, per_try_timeout: None, max_push_back: MAX_WAIT, throttle: None, sticky: None }
    }
}

/// The setters of [`Limits`], for a strategy with a field `limits`.
macro_rules! limits {
    () => {
        /// Sets how long the call may take, its attempts, pauses and look-ups together. Default: no bound but that of
        /// [`Protocol::deadline`](crate::call::Protocol::deadline).
        #[must_use]
        pub fn with_timeout(mut self, timeout: std::time::Duration) -> Self {
            self.limits.timeout = Some(timeout);
            self
        }

        /// Sets how long one attempt may take; one that takes longer is dropped and counts as
        /// [`Failure::Timeout`](crate::Failure::Timeout). Default: no bound but that of the call.
        #[must_use]
        pub fn with_per_try_timeout(mut self, timeout: std::time::Duration) -> Self {
            self.limits.per_try_timeout = Some(timeout);
            self
        }
    };
    (sticky) => {
        limits!();

        /// Sets what keeps calls on the instance that answered the last one, if it is in use. Default: nothing, the policy
        /// chooses.
        #[must_use]
        pub fn with_sticky(mut self, sticky: crate::call::Sticky) -> Self {
            self.limits.sticky = Some(sticky);
            self
        }
    };
    (retries) => {
        limits!(sticky);

        /// Sets the longest wait that a server may ask for: after a [`PushBack::After`](crate::call::PushBack::After) that asks
        /// for more there is no other attempt, and the caller gets the answer; an instance that asks for more
        /// ([`Outcome::RetryAfter`](crate::Outcome::RetryAfter)) is not asked again, but others are. Default: 10 s.
        #[must_use]
        pub fn with_max_push_back(mut self, most: std::time::Duration) -> Self {
            self.limits.max_push_back = most;
            self
        }

        /// Sets a throttle that attempts after the first ask beside the service's budget; clones share it. Default: that of
        /// `retry.throttle`, which is off.
        #[must_use]
        pub fn with_retry_throttle(mut self, throttle: crate::call::RetryThrottle) -> Self {
            self.limits.throttle = Some(throttle);
            self
        }
    };
}
pub(super) use limits;

/// What an attempt is told of the call that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub(super) number: u32,
    pub(super) deadline: Option<Instant>,
}

impl Attempt {
    /// Counts the attempts of the call, from 1. gRPC's header `grpc-previous-rpc-attempts` is one less.
    pub const fn number(self) -> u32 {
        self.number
    }

    /// When its time is up, be it its own or the call's, if there is a limit.
    pub const fn deadline(self) -> Option<Instant> {
        self.deadline
    }

    /// What is left of its time now, to be told to the server (`grpc-timeout`); zero when it is up, `None` without a limit.
    pub fn time_left(self) -> Option<Duration> {
        self.deadline.map(|end| end.saturating_duration_since(Instant::now()))
    }
}
