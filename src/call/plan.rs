//! What follows on an attempt: a pure machine over the properties of retries.

use std::time::Duration;

use crate::config::{RetryBackoffProperties, RetryProperties, RetryableError};
use crate::{Failure, Outcome};

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The caller gets what there is.
    Stop,
    /// One more attempt on the same instance.
    Same,
    /// One on another instance.
    Next,
}

/// Where one call stands.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    retry: &'a RetryProperties,
    /// Whether its method may be repeated.
    repeatable: bool,
    /// To how many other instances it goes if it was never sent, whatever the properties say.
    unsent: u32,
    /// More attempts so far on this instance.
    same: u32,
    /// Instances so far after the first.
    next: u32,
    retries: u32,
}

impl<'a> Plan<'a> {
    pub(super) fn new(retry: &'a RetryProperties, method: Option<&str>) -> Self {
        let safe = method.is_some_and(|method| matches!(method, "GET" | "HEAD" | "OPTIONS"));
        let repeatable = retry.enabled && (safe || retry.retry_on_all_operations);
        Self { retry, repeatable, unsent: 1, same: 0, next: 0, retries: 0 }
    }

    /// The same for a call that goes to so many other instances, as long as it was never sent (default: 1).
    pub(super) fn with_unsent(self, instances: u32) -> Self {
        Self { unsent: instances, ..self }
    }

    /// The step after an attempt that ended so; `may` is what the protocol says of it, if it does. `take` takes a retry from the budget of the service; it is not
    /// asked for another instance after one that heard nothing, nor if anything else stands against the retry.
    pub(super) fn after(&mut self, outcome: Outcome, may: Option<bool>, take: impl Fn() -> bool) -> Step {
        let never_sent = outcome == Outcome::Failure(Failure::Connect);
        let retryable = match may {
            Some(may) => may && self.retry.enabled,
            None => self.is_retryable(outcome),
        };
        let goes_on = self.next < self.retry.max_retries_on_next_service_instance;
        // It would have to be waited for, while another one may be asked at once.
        let is_busy = outcome.wait().is_some_and(|wait| !wait.is_zero());
        let step = if !retryable {
            Step::Stop
        } else if self.same < self.retry.max_retries_on_same_service_instance && !(is_busy && goes_on) {
            Step::Same
        } else if goes_on {
            Step::Next
        } else {
            Step::Stop
        };
        let step = match step {
            // Whatever the method and the properties: nothing was sent, so nothing can happen twice.
            Step::Stop if never_sent && self.next < self.unsent => Step::Next,
            // The same instance again is a retry in any case; another one costs nothing if this one heard nothing.
            Step::Same if !take() => {
                let most = self.unsent.max(self.retry.max_retries_on_next_service_instance);
                let goes_on = self.next < most;
                if never_sent && goes_on { Step::Next } else { Step::Stop }
            }
            Step::Next if !never_sent && !take() => Step::Stop,
            step => step,
        };
        match step {
            Step::Stop => return step,
            Step::Same => self.same += 1,
            Step::Next => (self.same, self.next) = (0, self.next + 1),
        }
        self.retries = self.retries.saturating_add(1);
        step
    }

    fn is_retryable(&self, outcome: Outcome) -> bool {
        self.repeatable
            && match outcome {
                Outcome::Status(_) | Outcome::RetryAfter(_) => {
                    outcome.status().is_some_and(|status| self.retry.retryable_status_codes.contains(&status))
                }
                Outcome::Failure(failure) => {
                    self.retry.retry_on_all_exceptions
                        || self.retry.retryable_exceptions.contains(&kind(failure))
                }
                Outcome::Success | Outcome::Grpc(_) | Outcome::Cancelled => false,
            }
    }

    /// The pause before the next retry, if there is one; `random` is any number, each alike.
    pub(super) fn pause(&self, random: impl FnOnce() -> u64) -> Option<Duration> {
        let backoff = &self.retry.backoff;
        backoff.enabled.then(|| pause(backoff, self.retries.saturating_add(1), random()))
    }
}

fn kind(failure: Failure) -> RetryableError {
    match failure {
        Failure::Connect => RetryableError::Connect,
        Failure::Timeout => RetryableError::Timeout,
        Failure::Reset => RetryableError::Reset,
        Failure::Other => RetryableError::Other,
    }
}

/// `min x 2^(n-1)`, at most `max`, more or less by `jitter`, and never out of the two bounds: the formula of Reactor's
/// back-off, which Spring uses.
pub(super) fn pause(backoff: &RetryBackoffProperties, retry: u32, random: u64) -> Duration {
    let factor = 1_u32.checked_shl(retry.saturating_sub(1)).unwrap_or(u32::MAX);
    let most = backoff.max_backoff.unwrap_or(Duration::MAX).max(backoff.min_backoff);
    let even = backoff.min_backoff.saturating_mul(factor).min(most);
    #[allow(clippy::cast_precision_loss)] // a share of the pause needs no more than 53 bits
    let part = (random as f64 / u64::MAX as f64).mul_add(2.0, -1.0) * backoff.jitter.clamp(0.0, 1.0);
    let moved = scaled(even, (1.0 + part).max(0.0));
    moved.clamp(backoff.min_backoff, most)
}

/// A product that no duration can hold is the longest one.
fn scaled(pause: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(pause.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESET: Outcome = Outcome::Failure(Failure::Reset);
    const REFUSED: Outcome = Outcome::Failure(Failure::Connect);

    fn retry(same: u32, next: u32) -> RetryProperties {
        RetryProperties::default()
            .with_max_retries_on_same_service_instance(same)
            .with_max_retries_on_next_service_instance(next)
    }

    fn steps(retry: &RetryProperties, method: &str, outcome: Outcome) -> Vec<Step> {
        let mut plan = Plan::new(retry, Some(method));
        std::iter::from_fn(|| Some(plan.after(outcome, None, || true)).filter(|step| *step != Step::Stop))
            .take(100)
            .collect()
    }

    #[test]
    fn scl_209_same_and_next_take_turns_until_both_are_used_up() {
        assert_eq!(steps(&retry(1, 1), "GET", RESET), [Step::Same, Step::Next, Step::Same]);
        for (same, next) in [(0, 0), (0, 1), (3, 0), (2, 3), (0, 7)] {
            let retry = retry(same, next);
            assert_eq!(steps(&retry, "GET", RESET).len() as u64 + 1, retry.most_attempts(), "{same} {next}");
        }
    }

    #[test]
    fn who_asks_to_come_later_is_not_asked_again_while_another_one_may_be() {
        let later = |seconds| Outcome::RetryAfter(crate::RetryAfter::new(503, seconds).unwrap());
        let retry = retry(2, 1).with_retryable_status_codes([503]);
        assert_eq!(steps(&retry, "GET", later(8)), [Step::Next, Step::Same, Step::Same]);
        assert_eq!(
            steps(&retry, "GET", later(0)),
            [Step::Same, Step::Same, Step::Next, Step::Same, Step::Same]
        );
    }

    #[test]
    fn scl_210_to_211_methods_statuses_and_kinds() {
        let all = retry(0, 1).with_retry_on_all_operations(true).with_retryable_status_codes([404, 502]);
        let safe = all.clone().with_retry_on_all_operations(false);
        for (retry, method, outcome, retried) in [
            (&safe, "POST", RESET, false),
            (&all, "POST", RESET, true),
            (&safe, "GET", Outcome::Status(404), true),
            (&safe, "GET", Outcome::Status(503), false),
            (&safe, "POST", Outcome::Status(404), false),
            (&safe, "HEAD", RESET, true),
            (&safe, "OPTIONS", RESET, true),
            (&safe, "TRACE", RESET, false),
            (&safe, "get", RESET, false),
            (&safe, "GET", Outcome::Failure(Failure::Other), false),
            (&safe, "GET", Outcome::Failure(Failure::Timeout), true),
            (&safe, "GET", Outcome::Success, false),
            (&safe, "GET", Outcome::Cancelled, false),
        ] {
            assert_eq!(steps(retry, method, outcome).len(), usize::from(retried), "{method} {outcome}");
        }
        assert!(Plan::new(&all, None).after(RESET, None, || true) == Step::Next);
        assert!(Plan::new(&safe, None).after(RESET, None, || true) == Step::Stop);
        let any = safe.with_retry_on_all_exceptions(true);
        assert_eq!(steps(&any, "GET", Outcome::Failure(Failure::Other)), [Step::Next]);
    }

    #[test]
    fn what_was_never_sent_goes_once_to_another_instance_whatever_the_method_and_the_properties() {
        let off = retry(3, 3).with_enabled(false);
        for retry in [off, retry(0, 0), retry(0, 1), retry(2, 2)] {
            assert_eq!(steps(&retry, "POST", REFUSED), [Step::Next], "{retry:?}");
        }
        assert_eq!(steps(&retry(0, 3), "GET", REFUSED), [Step::Next; 3]);
        // A second instance that was reached and broke off is a retry, which a POST does not get.
        let retry = retry(0, 1);
        let mut plan = Plan::new(&retry, Some("POST"));
        assert_eq!(plan.after(REFUSED, None, || unreachable!("nothing was sent")), Step::Next);
        assert_eq!(plan.after(RESET, None, || true), Step::Stop);
        // A protocol may say that it goes to more.
        let mut plan = Plan::new(&retry, Some("POST")).with_unsent(3);
        let steps = [(); 4].map(|()| plan.after(REFUSED, None, || unreachable!("nothing was sent")));
        assert_eq!(steps, [Step::Next, Step::Next, Step::Next, Step::Stop]);
    }

    #[test]
    fn a_budget_that_is_used_up_stops_what_was_sent() {
        let retry = retry(1, 1);
        assert_eq!(Plan::new(&retry, Some("GET")).after(RESET, None, || false), Step::Stop);
        // To another instance what was never sent goes in any case, but not to the same one again.
        let mut plan = Plan::new(&retry, Some("GET"));
        assert_eq!([(); 2].map(|()| plan.after(REFUSED, None, || false)), [Step::Next, Step::Stop]);
    }

    #[test]
    fn a_protocol_may_know_better_than_the_properties() {
        let (properties, code) = (retry(0, 2), Outcome::Grpc(14));
        let mut plan = Plan::new(&properties, Some("POST"));
        assert_eq!(
            [(); 3].map(|()| plan.after(code, Some(true), || true)),
            [Step::Next, Step::Next, Step::Stop]
        );
        assert_eq!(Plan::new(&properties, Some("POST")).after(code, Some(true), || false), Step::Stop);
        assert_eq!(Plan::new(&properties, Some("POST")).after(code, None, || true), Step::Stop);
        assert_eq!(Plan::new(&properties, Some("GET")).after(RESET, Some(false), || true), Step::Stop);
        assert_eq!(Plan::new(&properties, Some("POST")).after(REFUSED, Some(false), || true), Step::Next);
        let off = properties.clone().with_enabled(false);
        assert_eq!(Plan::new(&off, Some("POST")).after(code, Some(true), || true), Step::Stop);
    }

    #[test]
    fn pauses_double_within_their_bounds() {
        let ms = Duration::from_millis;
        let backoff = RetryBackoffProperties::default().with_enabled(true).with_max_backoff(ms(50));
        let even = backoff.clone().with_jitter(0.0);
        let row: Vec<_> = (1..6).map(|n| pause(&even, n, 7)).collect();
        assert_eq!(row, [ms(5), ms(10), ms(20), ms(40), ms(50)]);
        for n in [0, 1, 2, 3, 31, 32, u32::MAX] {
            for random in [0, 1, u64::MAX / 2, u64::MAX] {
                let pause = pause(&backoff, n, random);
                assert!((ms(5)..=ms(50)).contains(&pause), "{n} {random}: {pause:?}");
            }
        }
        // The second: 10 ms, more or less by half of it.
        assert_eq!((pause(&backoff, 2, 0), pause(&backoff, 2, u64::MAX)), (ms(5), ms(15)));
        let unbounded = even.clone().with_max_backoff(None).with_min_backoff(Duration::MAX);
        assert_eq!(pause(&unbounded, 9, 1), Duration::MAX);
        let off = RetryProperties::default();
        assert_eq!(Plan::new(&off, None).pause(|| unreachable!("nobody draws")), None);
        let on = off.with_backoff(even);
        let mut plan = Plan::new(&on, Some("GET"));
        assert_eq!(plan.pause(|| 7), Some(ms(5)));
        assert_eq!((plan.after(RESET, None, || true), plan.pause(|| 7)), (Step::Next, Some(ms(10))));
    }
}
