use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::choice::{Failure, Outcome};

/// One token, in thousandths, as gRPC counts: a ratio has three digits behind the point.
const TOKEN: u32 = 1_000;

/// gRPC's throttle of retries (A6): a bucket of tokens that failures empty and successes fill slowly.
///
/// It starts full, with 10 tokens. An attempt that failed takes one, one that succeeded gives back 0.1; there are retries and
/// hedges only while **more than half** is left. So they stop after five failures in a row, and while more than one attempt
/// in eleven fails. What was never sent counts as neither, and so does an error of the call's own.
///
/// Clones share the bucket; one is meant for one service. It is off unless a strategy is given one, or `retry.throttle.enabled`
/// says so.
///
/// ```
/// use evenkeel::call::{Failover, RetryThrottle};
///
/// let throttle = RetryThrottle::default();
/// let strategy = Failover::default().with_retry_throttle(throttle.clone());
/// (0..5).for_each(|_| throttle.failed());
/// assert!(!throttle.permits());
/// throttle.succeeded();
/// assert!(throttle.permits() && throttle.tokens() > 5.0);
/// ```
#[derive(Clone, Debug)]
pub struct RetryThrottle {
    tokens: Arc<AtomicU32>,
    most: u32,
    ratio: u32,
}

impl Default for RetryThrottle {
    fn default() -> Self {
        Self::new(10, 0.1)
    }
}

impl RetryThrottle {
    /// With `max_tokens`, 1 to 1 000, and the part of a token that a success gives back, in thousandths, at least one; what is
    /// beyond is taken into these bounds, and what is not a number is the default.
    ///
    /// 1 000 is gRPC's own limit.
    pub fn new(max_tokens: u32, token_ratio: f64) -> Self {
        let most = max_tokens.clamp(1, 1_000) * TOKEN;
        let ratio = if token_ratio.is_nan() { 0.1 } else { token_ratio.clamp(0.001, 1_000.0) };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 1 and 1 000 000
        let ratio = (ratio * f64::from(TOKEN)).round() as u32;
        Self { tokens: Arc::new(AtomicU32::new(most)), most, ratio }
    }

    /// Whether an attempt after the first may be made.
    pub fn permits(&self) -> bool {
        self.tokens.load(Ordering::Relaxed) > self.most / 2
    }

    /// An attempt ended so. What was never sent counts as nothing, and so does what says nothing of the server.
    pub(crate) fn hear(&self, outcome: Outcome) {
        match outcome {
            Outcome::Failure(Failure::Connect) | Outcome::Cancelled => {}
            outcome if outcome.is_bad() => self.failed(),
            Outcome::Success | Outcome::Grpc(0) | Outcome::Status(..400) => self.succeeded(),
            _ => {}
        }
    }

    /// An attempt failed in a way that would be repeated.
    pub fn failed(&self) {
        self.change(|tokens| tokens.saturating_sub(TOKEN));
    }

    /// An attempt succeeded.
    pub fn succeeded(&self) {
        self.change(|tokens| tokens.saturating_add(self.ratio).min(self.most));
    }

    /// What is left.
    pub fn tokens(&self) -> f64 {
        f64::from(self.tokens.load(Ordering::Relaxed)) / f64::from(TOKEN)
    }

    fn change(&self, to: impl Fn(u32) -> u32) {
        let _ = self.tokens.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |tokens| Some(to(tokens)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lbs_grpc_throttle_stops_at_half_and_starts_above() {
        let throttle = RetryThrottle::default();
        let mut allowed = 0;
        while throttle.permits() {
            throttle.failed();
            allowed += u32::from(throttle.permits());
        }
        // Failures 1 to 4 are retried, the fifth is not.
        assert_eq!((allowed, throttle.tokens().to_string()), (4, "5".to_owned()));
        throttle.succeeded();
        assert_eq!((throttle.permits(), throttle.tokens().to_string()), (true, "5.1".to_owned()));
        (0..20).for_each(|_| throttle.failed());
        assert_eq!(throttle.tokens().to_string(), "0");
        let mut successes = 0;
        while !throttle.permits() {
            throttle.clone().succeeded();
            successes += 1;
        }
        assert_eq!(successes, 51);
        (0..1_000).for_each(|_| throttle.succeeded());
        assert_eq!(throttle.tokens().to_string(), "10");
    }

    #[test]
    fn lbs_grpc_throttle_stands_still_at_one_failure_in_eleven() {
        let throttle = RetryThrottle::default();
        throttle.failed();
        let before = throttle.tokens().to_string();
        for _ in 0..100 {
            throttle.failed();
            (0..10).for_each(|_| throttle.succeeded());
        }
        assert_eq!(throttle.tokens().to_string(), before);
    }

    #[test]
    fn what_an_outcome_counts_as() {
        for (outcome, tokens) in [
            (Outcome::Success, "6.1"),
            (Outcome::Status(200), "6.1"),
            (Outcome::Grpc(0), "6.1"),
            (Outcome::Status(404), "6"),
            (Outcome::Grpc(5), "6"),
            (Outcome::Cancelled, "6"),
            (Outcome::Failure(Failure::Connect), "6"),
            (Outcome::Status(429), "5"),
            (Outcome::Status(503), "5"),
            (Outcome::Grpc(14), "5"),
            (Outcome::Failure(Failure::Timeout), "5"),
        ] {
            let throttle = RetryThrottle::default();
            (0..4).for_each(|_| throttle.failed());
            throttle.hear(outcome);
            assert_eq!(throttle.tokens().to_string(), tokens, "{outcome}");
        }
    }

    #[test]
    fn settings_out_of_bounds_are_taken_into_them() {
        for (most, ratio, tokens, after) in
            [(0, 0.0, 1.0, 0.001), (u32::MAX, f64::INFINITY, 1_000.0, 1_000.0), (10, f64::NAN, 10.0, 9.1)]
        {
            let throttle = RetryThrottle::new(most, ratio);
            assert_eq!(throttle.tokens().to_string(), tokens.to_string());
            throttle.failed();
            throttle.succeeded();
            assert_eq!(throttle.tokens().to_string(), after.to_string(), "{most} {ratio}");
        }
    }
}
