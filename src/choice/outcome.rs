use std::fmt;

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

impl Outcome {
    /// Whether the instance failed: no answer, or a 5xx.
    pub const fn is_failure(self) -> bool {
        match self {
            Self::Status(status) => status >= 500,
            Self::Failure(_) => true,
            Self::Success | Self::Cancelled => false,
        }
    }

    /// Whether the instance answered, be it with an error.
    pub const fn is_answer(self) -> bool {
        matches!(self, Self::Success | Self::Status(_))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Success => "success",
            Self::Status(status) => return write!(f, "status {status}"),
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

    #[test]
    fn a_5xx_is_a_failure_and_a_404_is_not() {
        for (outcome, failure) in [
            (Outcome::Success, false),
            (Outcome::Status(200), false),
            (Outcome::Status(404), false),
            (Outcome::Status(499), false),
            (Outcome::Status(500), true),
            (Outcome::Failure(Failure::Other), true),
            (Outcome::Cancelled, false),
        ] {
            assert_eq!(outcome.is_failure(), failure, "{outcome}");
        }
    }
}
