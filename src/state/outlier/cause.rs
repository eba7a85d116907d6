use std::fmt;

/// Why an instance was ejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EjectionCause {
    /// Failures in a row, of any kind: `consecutive-errors`.
    ConsecutiveErrors,
    /// Answers 502, 503 or 504 in a row: `consecutive-gateway-errors`.
    ConsecutiveGatewayErrors,
    /// No answer, in a row: refused, timed out, broken off: `consecutive-local-errors`.
    ConsecutiveLocalErrors,
    /// Its success rate was far below that of the others: `success-rate`.
    SuccessRate,
    /// Too many of its calls failed: `failure-percentage`.
    FailurePercentage,
    /// It said when to come again.
    RetryAfter,
}

impl EjectionCause {
    /// In a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ConsecutiveErrors => "consecutive-errors",
            Self::ConsecutiveGatewayErrors => "consecutive-gateway-errors",
            Self::ConsecutiveLocalErrors => "consecutive-local-errors",
            Self::SuccessRate => "success-rate",
            Self::FailurePercentage => "failure-percentage",
            Self::RetryAfter => "retry-after",
        }
    }
}

impl fmt::Display for EjectionCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
