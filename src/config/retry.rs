//! Properties of retries.

use super::duration;
use super::setters::setters;
use super::words::words;
use serde::{Deserialize, Serialize};
use std::time::Duration;

words! {
    /// A kind of failed attempt that may be repeated.
    ///
    /// Property: `evenkeel.retry.retryable-exceptions`, a list. Default: `connect, timeout, reset`.
    RetryableError, "connect, timeout, reset, other, or the name of a Java exception" {
        /// The call was never sent: refused, or no connection in time.
        #[default]
        Connect = "connect",
        /// Sent, and no answer in time.
        Timeout = "timeout",
        /// The connection broke after the request, or a part of it, had been sent.
        Reset = "reset",
        /// Anything else.
        Other = "other",
    }
}

impl RetryableError {
    /// What the word of a property means; a Java class stands for the kinds that it would cover there. `None` for a word
    /// that is neither, `Some` of nothing for a Java class without a meaning here.
    pub(crate) fn of_word(word: &str) -> Option<&'static [Self]> {
        const ALL: &[RetryableError] =
            &[RetryableError::Connect, RetryableError::Timeout, RetryableError::Reset, RetryableError::Other];
        if let Some(kind) = Self::read(word) {
            return ALL.iter().position(|one| *one == kind).map(|at| &ALL[at..=at]);
        }
        Some(match java_class(word.trim())? {
            "Throwable" | "Exception" | "RuntimeException" => ALL,
            // Its time-out and its refused connection are kinds of it in Java too.
            "IOException"
            | "UncheckedIOException"
            | "ResourceAccessException"
            | "RestClientException"
            | "WebClientException"
            | "WebClientRequestException" => &ALL[..3],
            "ConnectException"
            | "ConnectTimeoutException"
            | "HttpConnectTimeoutException"
            | "HttpHostConnectException"
            | "NoRouteToHostException"
            | "UnknownHostException" => &ALL[..1],
            "TimeoutException"
            | "SocketTimeoutException"
            | "InterruptedIOException"
            | "HttpTimeoutException"
            | "ReadTimeoutException"
            | "WriteTimeoutException" => &ALL[1..2],
            "ClosedChannelException"
            | "EOFException"
            | "NoHttpResponseException"
            | "PrematureCloseException" => &ALL[2..3],
            "SocketException" => &[Self::Connect, Self::Reset],
            // Statuses have a list of their own; other classes mean nothing here.
            _ => &[],
        })
    }

    /// Whether the word is a Java class that has no meaning here. The two that stand for a status have one: they are what
    /// `retryable-status-codes` is about, and count in any case.
    pub(crate) fn is_foreign(word: &str) -> bool {
        Self::of_word(word).is_some_and(<[_]>::is_empty)
            && java_class(word.trim()) != Some("RetryableStatusCodeException")
    }
}

/// The bare name of a Java class; a word without a package is none.
fn java_class(word: &str) -> Option<&str> {
    let part = |name: &str| {
        let mut letters = name.chars();
        letters.next().is_some_and(|c| c.is_alphabetic() || c == '_')
            && letters.all(|c| c.is_alphanumeric() || c == '_')
    };
    let (_, class) = word.rsplit_once(['.', '$'])?;
    word.split(['.', '$']).all(part).then_some(class)
}

/// Retries of a call: `evenkeel.retry.*`.
///
/// Defaults: one more attempt, on another instance, for GET, HEAD and OPTIONS whose connection broke or whose answer did
/// not come; no status is retried; at most 20 % of the calls and 10 a second are retries.
///
/// A call that **was never sent** is no retry: it goes once to another instance whatever its method, and whatever these
/// say.
///
/// ```
/// use evenkeel::config::RetryProperties;
///
/// let retry = RetryProperties::default().with_retryable_status_codes([502, 503]);
/// assert_eq!(retry.most_attempts(), 2);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
// Each is a switch of Spring's with its own name.
#[allow(clippy::struct_excessive_bools)]
pub struct RetryProperties {
    /// Whether anything is retried. Default: `true`.
    pub enabled: bool,
    /// Whether methods other than GET, HEAD and OPTIONS are. Default: `false`.
    pub retry_on_all_operations: bool,
    /// Whether every kind of failure is, whatever `retryable-exceptions` says. Default: `false`.
    pub retry_on_all_exceptions: bool,
    /// More attempts on the same instance, for each instance. Default: 0.
    pub max_retries_on_same_service_instance: u32,
    /// More instances. Default: 1.
    pub max_retries_on_next_service_instance: u32,
    /// Statuses that are retried; after the last attempt the caller gets the last response. Default: none.
    pub retryable_status_codes: Vec<u16>,
    /// Kinds of failure that are retried. Default: connect, timeout, reset.
    pub retryable_exceptions: Vec<RetryableError>,
    /// Whether a next instance is another one while one is left. Default: `true`.
    pub avoid_previous_instance: bool,
    /// Pauses between attempts. Default: none.
    pub backoff: RetryBackoffProperties,
    /// The longest that one attempt may take until its answer begins; above zero. Default: unset, no limit.
    #[serde(with = "duration::optional_text")]
    pub per_try_timeout: Option<Duration>,
    /// The limit of retries over all calls of the service.
    pub budget: RetryBudgetProperties,
    /// gRPC's limit of retries, by failures in a row. Default: off.
    pub throttle: RetryThrottleProperties,
    /// Calls that are refused here while the service accepts too few. Default: off.
    pub adaptive_throttle: AdaptiveThrottleProperties,
}

impl Default for RetryProperties {
    fn default() -> Self {
        Self {
            enabled: true,
            retry_on_all_operations: false,
            retry_on_all_exceptions: false,
            max_retries_on_same_service_instance: 0,
            max_retries_on_next_service_instance: 1,
            retryable_status_codes: Vec::new(),
            retryable_exceptions: vec![
                RetryableError::Connect,
                RetryableError::Timeout,
                RetryableError::Reset,
            ],
            avoid_previous_instance: true,
            backoff: RetryBackoffProperties::default(),
            per_try_timeout: None,
            budget: RetryBudgetProperties::default(),
            throttle: RetryThrottleProperties::default(),
            adaptive_throttle: AdaptiveThrottleProperties::default(),
        }
    }
}

impl RetryProperties {
    /// Attempts of one call at most: (same + 1) x (next + 1), or 1 when retries are off. A call that was never sent may go to
    /// one more instance, which is not counted here.
    pub fn most_attempts(&self) -> u64 {
        if self.enabled {
            (u64::from(self.max_retries_on_same_service_instance) + 1)
                .saturating_mul(u64::from(self.max_retries_on_next_service_instance) + 1)
        } else {
            1
        }
    }

    setters! {
        /// Sets whether anything is retried. Default: `true`.
        with_enabled(enabled: bool) = enabled;
        /// Sets whether methods other than GET, HEAD and OPTIONS are. Default: `false`.
        with_retry_on_all_operations(retry_on_all_operations: bool) = retry_on_all_operations;
        /// Sets whether every kind of failure is. Default: `false`.
        with_retry_on_all_exceptions(retry_on_all_exceptions: bool) = retry_on_all_exceptions;
        /// Sets how many more attempts there are on the same instance. Default: 0.
        with_max_retries_on_same_service_instance(max_retries_on_same_service_instance: u32) =
            max_retries_on_same_service_instance;
        /// Sets how many more instances are tried. Default: 1.
        with_max_retries_on_next_service_instance(max_retries_on_next_service_instance: u32) =
            max_retries_on_next_service_instance;
        /// Sets the statuses that are retried. Default: none.
        with_retryable_status_codes(retryable_status_codes: impl IntoIterator<Item = u16>) =
            retryable_status_codes.into_iter().collect();
        /// Sets the kinds of failure that are retried. Default: connect, timeout, reset.
        with_retryable_exceptions(retryable_exceptions: impl IntoIterator<Item = RetryableError>) =
            retryable_exceptions.into_iter().collect();
        /// Sets whether a next instance is another one while one is left. Default: `true`.
        with_avoid_previous_instance(avoid_previous_instance: bool) = avoid_previous_instance;
        /// Sets the pauses between attempts. Default: none.
        with_backoff(backoff: RetryBackoffProperties) = backoff;
        /// Sets the longest that one attempt may take until its answer begins; `None`, the default, is no limit.
        with_per_try_timeout(per_try_timeout: impl Into<Option<Duration>>) = per_try_timeout.into();
        /// Sets the limit of retries over all calls of the service.
        with_budget(budget: RetryBudgetProperties) = budget;
        /// Sets gRPC's limit of retries. Default: off.
        with_throttle(throttle: RetryThrottleProperties) = throttle;
        /// Sets when calls are refused here. Default: never.
        with_adaptive_throttle(adaptive_throttle: AdaptiveThrottleProperties) = adaptive_throttle;
    }
}

/// Pauses between the attempts of a call: `evenkeel.retry.backoff.*`.
///
/// The pause before the n-th retry is `min-backoff` x 2^(n-1), at most `max-backoff`, more or less by up to `jitter` of
/// itself. Defaults: off; 5 ms, no bound, 0.5.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct RetryBackoffProperties {
    /// Whether there are pauses. Default: `false`.
    pub enabled: bool,
    /// The first pause. Default: 5 ms.
    #[serde(with = "duration::text")]
    pub min_backoff: Duration,
    /// The longest pause; unset is no bound. Default: unset.
    #[serde(with = "duration::optional_text")]
    pub max_backoff: Option<Duration>,
    /// The part of a pause by which it varies, 0 to 1. Default: 0.5.
    pub jitter: f64,
}

impl Default for RetryBackoffProperties {
    fn default() -> Self {
        Self { enabled: false, min_backoff: Duration::from_millis(5), max_backoff: None, jitter: 0.5 }
    }
}

impl RetryBackoffProperties {
    setters! {
        /// Sets whether there are pauses. Default: `false`.
        with_enabled(enabled: bool) = enabled;
        /// Sets the first pause. Default: 5 ms.
        with_min_backoff(min_backoff: Duration) = min_backoff;
        /// Sets the longest pause; `None`, the default, is no bound.
        with_max_backoff(max_backoff: impl Into<Option<Duration>>) = max_backoff.into();
        /// Sets the part of a pause by which it varies; it is taken into 0 to 1. Default: 0.5.
        with_jitter(jitter: f64) = if jitter.is_nan() { 0.0 } else { jitter.clamp(0.0, 1.0) };
    }
}

/// How many retries a service may get from this process: `evenkeel.retry.budget.*`.
///
/// Each call adds `percent` of a retry to an account, each retry takes one off it, and `min-per-second` more are allowed
/// in any case. Defaults: 20 %, 10 a second. A call that was never sent and goes to another instance is not counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct RetryBudgetProperties {
    /// Retries for a hundred calls. Default: 20.
    pub percent: u32,
    /// Retries a second that are allowed in any case. Default: 10.
    pub min_per_second: u32,
}

impl Default for RetryBudgetProperties {
    fn default() -> Self {
        Self { percent: 20, min_per_second: 10 }
    }
}

impl RetryBudgetProperties {
    setters! {
        /// Sets how many retries a hundred calls allow. Default: 20.
        with_percent(percent: u32) = percent;
        /// Sets how many retries a second are allowed in any case. Default: 10.
        with_min_per_second(min_per_second: u32) = min_per_second;
    }
}

/// gRPC's throttle of retries: `evenkeel.retry.throttle.*`; see [`RetryThrottle`](crate::call::RetryThrottle).
///
/// A failure takes a token, a success gives back `token-ratio` of one; nothing is repeated unless more than half of
/// `max-tokens` is left. Defaults: off; 10 tokens, 0.1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct RetryThrottleProperties {
    /// Whether it is on. Default: `false`.
    pub enabled: bool,
    /// The tokens of a full bucket, 1 to 1 000. Default: 10.
    pub max_tokens: u32,
    /// What a success gives back, in tokens, 0.001 to 1 000. Default: 0.1.
    pub token_ratio: f64,
}

impl Default for RetryThrottleProperties {
    fn default() -> Self {
        Self { enabled: false, max_tokens: 10, token_ratio: 0.1 }
    }
}

impl RetryThrottleProperties {
    setters! {
        /// Sets whether it is on. Default: `false`.
        with_enabled(enabled: bool) = enabled;
        /// Sets the tokens of a full bucket; they are taken into 1 to 1 000. Default: 10.
        with_max_tokens(max_tokens: u32) = max_tokens.clamp(1, 1_000);
        /// Sets what a success gives back; it is taken into 0.001 to 1 000. Default: 0.1.
        with_token_ratio(token_ratio: f64) =
            if token_ratio.is_nan() { 0.1 } else { token_ratio.clamp(0.001, 1_000.0) };
    }
}

/// Throttling by the client itself: `evenkeel.retry.adaptive-throttle.*`; see
/// [`AdaptiveThrottle`](crate::call::AdaptiveThrottle).
///
/// It holds for [`call`](crate::call::call()) and the clients; a strategy is wrapped in one in code. Defaults: off; K 2, a
/// window of 2 min, a floor of 0.05.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct AdaptiveThrottleProperties {
    /// Whether it is on. Default: `false`.
    pub enabled: bool,
    /// How many calls are sent for one that is accepted, 1 or more. Default: 2.
    pub k: f64,
    /// How long calls are counted, 1 s or more. Default: 2 min.
    #[serde(with = "duration::text")]
    pub window: Duration,
    /// The part of the calls that is sent in any case, 0 to 1. Default: 0.05.
    pub floor: f64,
}

impl Default for AdaptiveThrottleProperties {
    fn default() -> Self {
        Self { enabled: false, k: 2.0, window: Duration::from_secs(120), floor: 0.05 }
    }
}

impl AdaptiveThrottleProperties {
    setters! {
        /// Sets whether it is on. Default: `false`.
        with_enabled(enabled: bool) = enabled;
        /// Sets how many calls are sent for one that is accepted; less than 1 is 1. Default: 2.
        with_k(k: f64) = if k.is_nan() { 2.0 } else { k.max(1.0) };
        /// Sets how long calls are counted; less than 1 s is 1 s. Default: 2 min.
        with_window(window: Duration) = window.max(Duration::from_secs(1));
        /// Sets the part of the calls that is sent in any case; it is taken into 0 to 1. Default: 0.05.
        with_floor(floor: f64) = if floor.is_nan() { 0.05 } else { floor.clamp(0.0, 1.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_failures() {
        use RetryableError::{Connect, Other, Reset, Timeout};
        for (word, wanted) in [
            ("connect", Some(&[Connect][..])),
            (" Reset ", Some(&[Reset])),
            ("java.io.IOException", Some(&[Connect, Timeout, Reset])),
            ("java.util.concurrent.TimeoutException", Some(&[Timeout])),
            ("java.net.ConnectException", Some(&[Connect])),
            ("io.netty.channel.ConnectTimeoutException", Some(&[Connect])),
            ("java.net.SocketException", Some(&[Connect, Reset])),
            ("java.lang.Throwable", Some(&[Connect, Timeout, Reset, Other])),
            ("org.example.Outer$TimeoutException", Some(&[Timeout])),
            ("org.example.OwnException", Some(&[])),
            ("IOException", None),
            ("conect", None),
            ("", None),
            (".", None),
            ("a.", None),
            ("java io.IOException", None),
            ("1.5", None),
        ] {
            assert_eq!(RetryableError::of_word(word), wanted, "{word}");
        }
        let status = "org.springframework.cloud.client.loadbalancer.reactive.RetryableStatusCodeException";
        assert!(
            RetryableError::is_foreign("org.example.OwnException") && !RetryableError::is_foreign(status)
        );
    }

    #[test]
    fn what_throttles_take() {
        use crate::config::read::{a_second_or_more, at_least_one, token_ratio, tokens};
        assert_eq!([tokens("1").ok(), tokens("1000").ok()], [Some(1), Some(1_000)]);
        assert_eq!([token_ratio("0.001").ok(), token_ratio("1e3").ok()], [Some(0.001), Some(1_000.0)]);
        assert_eq!([at_least_one("1").ok(), at_least_one(" 2.5 ").ok()], [Some(1.0), Some(2.5)]);
        assert_eq!(a_second_or_more("1s").ok(), Some(Duration::from_secs(1)));
        for text in ["0", "1001", "-1", "ten", ""] {
            assert!(tokens(text).is_err(), "{text}");
        }
        for text in ["0", "0.0009", "1000.1", "NaN", "inf", ""] {
            assert!(token_ratio(text).is_err(), "{text}");
        }
        for text in ["0.99", "NaN", "inf", "-2", ""] {
            assert!(at_least_one(text).is_err(), "{text}");
        }
        for text in ["0", "999ms", "soon"] {
            assert!(a_second_or_more(text).is_err(), "{text}");
        }
        let retry = RetryThrottleProperties::default().with_max_tokens(0).with_token_ratio(f64::NAN);
        assert_eq!((retry.max_tokens, retry.token_ratio.to_bits()), (1, 0.1_f64.to_bits()));
        let adaptive =
            AdaptiveThrottleProperties::default().with_k(0.0).with_floor(2.0).with_window(Duration::ZERO);
        assert_eq!((adaptive.k.to_bits(), adaptive.floor.to_bits()), (1_f64.to_bits(), 1_f64.to_bits()));
        assert_eq!(adaptive.window, Duration::from_secs(1));
    }

    #[test]
    fn the_most_attempts_never_overflow() {
        let retry = RetryProperties::default();
        assert_eq!(retry.most_attempts(), 2);
        assert_eq!(retry.clone().with_max_retries_on_same_service_instance(2).most_attempts(), 6);
        assert_eq!(retry.clone().with_enabled(false).most_attempts(), 1);
        let most = retry
            .with_max_retries_on_same_service_instance(u32::MAX)
            .with_max_retries_on_next_service_instance(u32::MAX);
        assert_eq!(most.most_attempts(), u64::MAX);
    }
}
