use std::fmt;
use std::time::Duration;

/// How an attempt ended, as a policy and an instance's state hear it.
///
/// Policies hear outcomes, not durations: a fast 503 is not a fast instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// It worked.
    Success,
    /// An answer with this HTTP status; 5xx counts as a failure.
    Status(u16),
    /// An answer of gRPC with this status code; codes that tell of the server count as failures: 2 (unknown), 4 (deadline
    /// exceeded), 8 (resource exhausted), 13 (internal), 14 (unavailable) and 15 (data loss).
    Grpc(u16),
    /// A 429 or 503 that says when to ask again; a failure.
    RetryAfter(RetryAfter),
    /// There was no answer.
    Failure(Failure),
    /// The caller gave up, which says nothing of the instance. What a dropped lease reports.
    Cancelled,
}

/// Why there was no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// **Never sent**: the connection was refused or not made in time. The call may go to another instance whatever its
    /// method, and this instance is skipped with growing back-off.
    Connect,
    /// Sent, and no answer in time.
    Timeout,
    /// The connection broke after the request, or a part of it, had been sent.
    Reset,
    /// Anything else.
    Other,
}

/// An answer that asks to come again later: a 429 or 503 with the header `Retry-After`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RetryAfter(u16);

/// In the word of a [`RetryAfter`]: its status is 429. The rest are seconds.
const TOO_MANY: u16 = 1 << 15;

impl RetryAfter {
    /// With this status, 429 or 503, after so many seconds, up to 32 767; `None` for another status.
    pub const fn new(status: u16, seconds: u16) -> Option<Self> {
        let seconds = if seconds < TOO_MANY { seconds } else { TOO_MANY - 1 };
        match status {
            429 => Some(Self(TOO_MANY | seconds)),
            503 => Some(Self(seconds)),
            _ => None,
        }
    }

    /// 429 or 503.
    pub const fn status(self) -> u16 {
        if self.0 & TOO_MANY == 0 { 503 } else { 429 }
    }

    /// When to come again, in seconds from then.
    pub const fn seconds(self) -> u16 {
        self.0 & !TOO_MANY
    }
}

impl Outcome {
    /// [`Cancelled`](Self::Cancelled), as [`packed`](Self::packed) has it.
    pub(super) const CANCELLED: u64 = 0;

    /// In 32 bits.
    pub(super) const fn packed(self) -> u64 {
        let (kind, value) = match self {
            Self::Cancelled => (Self::CANCELLED, 0),
            Self::Success => (1, 0),
            Self::Status(status) => (2, status),
            Self::Grpc(code) => (3, code),
            Self::RetryAfter(RetryAfter(word)) => (4, word),
            Self::Failure(failure) => (5, failure as u16),
        };
        kind << 16 | value as u64
    }

    pub(super) const fn unpacked(word: u64) -> Self {
        #[allow(clippy::cast_possible_truncation)] // the lower half
        let value = word as u16;
        match word >> 16 {
            1 => Self::Success,
            2 => Self::Status(value),
            3 => Self::Grpc(value),
            4 => Self::RetryAfter(RetryAfter(value)),
            5 => Self::Failure(match value {
                0 => Failure::Connect,
                1 => Failure::Timeout,
                2 => Failure::Reset,
                _ => Failure::Other,
            }),
            _ => Self::Cancelled,
        }
    }

    /// Whether the instance failed: no answer, a 5xx, a status of gRPC that stands for one, or a request to come later.
    pub const fn is_failure(self) -> bool {
        match self {
            Self::Status(status) => status >= 500,
            Self::Grpc(code) => matches!(code, 2 | 4 | 8 | 13 | 14 | 15),
            Self::Failure(_) | Self::RetryAfter(_) => true,
            Self::Success | Self::Cancelled => false,
        }
    }

    /// Whether the instance answered, be it with an error.
    pub const fn is_answer(self) -> bool {
        matches!(self, Self::Success | Self::Status(_) | Self::Grpc(_) | Self::RetryAfter(_))
    }

    /// Whether it speaks against the instance: a failure, or a 429, which is none for the caller, but comes from an instance
    /// that has too much to do.
    pub(crate) const fn is_bad(self) -> bool {
        self.is_failure() || matches!(self, Self::Status(429))
    }

    /// The outcome of an answer with this status and, if it has one, the value of its header `Retry-After`.
    ///
    /// Only seconds are read: a date needs a clock that agrees with the server's. Above 32 767 s it is that.
    ///
    /// ```
    /// use evenkeel::Outcome;
    ///
    /// assert_eq!(Outcome::answered(200, None), Outcome::Status(200));
    /// assert_eq!(Outcome::answered(503, Some("7")).to_string(), "status 503, retry after 7 s");
    /// assert_eq!(Outcome::answered(503, Some("soon")), Outcome::Status(503));
    /// ```
    pub fn answered(status: u16, retry_after: Option<&str>) -> Self {
        let text = retry_after.map(str::trim);
        let digits = text.filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
        let seconds = digits.map(|digits| digits.parse().unwrap_or(u16::MAX));
        match seconds.and_then(|seconds| RetryAfter::new(status, seconds)) {
            Some(later) => Self::RetryAfter(later),
            None => Self::Status(status),
        }
    }

    /// How long the instance wants to be left alone, if it says so.
    pub(crate) fn wait(self) -> Option<Duration> {
        match self {
            Self::RetryAfter(later) => Some(Duration::from_secs(later.seconds().into())),
            _ => None,
        }
    }

    /// The status of HTTP, if it was answered with one.
    pub const fn status(self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(status),
            Self::RetryAfter(later) => Some(later.status()),
            _ => None,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Success => "success",
            Self::Status(status) => return write!(f, "status {status}"),
            Self::Grpc(code) => return write!(f, "gRPC status {code}"),
            Self::RetryAfter(later) => {
                return write!(f, "status {}, retry after {} s", later.status(), later.seconds());
            }
            Self::Cancelled => "cancelled",
            Self::Failure(Failure::Connect) => "connect failed",
            Self::Failure(Failure::Timeout) => "timed out",
            Self::Failure(Failure::Reset) => "connection reset",
            Self::Failure(Failure::Other) => "failed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later(status: u16, seconds: u16) -> Outcome {
        Outcome::RetryAfter(RetryAfter::new(status, seconds).unwrap())
    }

    #[test]
    fn an_outcome_is_packed_without_loss() {
        let failures = [Failure::Connect, Failure::Timeout, Failure::Reset, Failure::Other];
        let all = failures.map(Outcome::Failure).into_iter().chain([Outcome::Cancelled, Outcome::Success]);
        let numbers = [0, 1, 404, u16::MAX].into_iter();
        let all = all.chain(numbers.clone().map(Outcome::Status)).chain(numbers.map(Outcome::Grpc));
        for outcome in all.chain([later(429, 7), later(503, 32_767)]) {
            assert!(u32::try_from(outcome.packed()).is_ok());
            assert_eq!(Outcome::unpacked(outcome.packed()), outcome, "{outcome}");
        }
        assert_eq!(Outcome::Cancelled.packed(), Outcome::CANCELLED);
    }

    #[test]
    fn a_retry_after_is_read_where_it_means_something() {
        for (status, header, outcome) in [
            (503, Some(" 120 "), later(503, 120)),
            (429, Some("0"), later(429, 0)),
            (429, Some("99999999999999999999"), later(429, 32_767)),
            (503, Some("-1"), Outcome::Status(503)),
            (503, Some(""), Outcome::Status(503)),
            (503, Some("Wed, 21 Oct 2015 07:28:00 GMT"), Outcome::Status(503)),
            (301, Some("5"), Outcome::Status(301)),
            (429, None, Outcome::Status(429)),
        ] {
            let got = Outcome::answered(status, header);
            assert_eq!((got, got.status()), (outcome, Some(status)), "{status} {header:?}");
        }
        assert_eq!((size_of::<Outcome>(), RetryAfter::new(500, 1)), (4, None));
        assert!(Outcome::Status(429).is_bad() && !Outcome::Status(429).is_failure());
        assert!(!Outcome::Status(404).is_bad() && !Outcome::Cancelled.is_bad());
    }

    #[test]
    fn a_5xx_is_a_failure_and_a_404_is_not() {
        for (outcome, failure) in [
            (Outcome::Success, false),
            (Outcome::Status(200), false),
            (Outcome::Status(404), false),
            (Outcome::Status(499), false),
            (Outcome::Status(500), true),
            (Outcome::Failure(Failure::Other), true),
            (later(429, 1), true),
            (Outcome::Grpc(0), false),
            (Outcome::Grpc(5), false),
            (Outcome::Grpc(12), false),
            (Outcome::Grpc(14), true),
            (Outcome::Cancelled, false),
        ] {
            assert_eq!(outcome.is_failure(), failure, "{outcome}");
        }
    }
}
