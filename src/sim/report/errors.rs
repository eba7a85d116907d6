use std::fmt;

use crate::{Failure, Outcome};

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The server refused the connection.
    Refused,
    /// The client gave up at the deadline.
    Timeout,
    /// The server answered with an error.
    Failed,
    /// The server had as many requests as it takes.
    Overloaded,
    /// The balancer named no server.
    NotChosen,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Refused, Self::Timeout, Self::Failed, Self::Overloaded, Self::NotChosen];

    pub(in crate::sim) fn of(outcome: Outcome) -> Option<Self> {
        match outcome {
            Outcome::Failure(Failure::Connect) => Some(Self::Refused),
            Outcome::Failure(Failure::Timeout) => Some(Self::Timeout),
            Outcome::Status(503) => Some(Self::Overloaded),
            _ if outcome.is_failure() => Some(Self::Failed),
            _ => None,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "refused",
            Self::Timeout => "timed out",
            Self::Failed => "failed",
            Self::Overloaded => "overloaded",
            Self::NotChosen => "not chosen",
        })
    }
}

/// How many requests failed, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Errors([u64; Cause::ALL.len()]);

impl Errors {
    pub(super) fn new(by_cause: [u64; Cause::ALL.len()]) -> Self {
        Self(by_cause)
    }

    /// Those of one cause.
    pub fn of(&self, cause: Cause) -> u64 {
        self.0[cause as usize]
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.total() == 0 {
            return f.write_str("no errors");
        }
        let some = Cause::ALL.into_iter().filter(|cause| self.of(*cause) > 0);
        for (at, cause) in some.enumerate() {
            write!(f, "{}{} {cause}", if at == 0 { "" } else { ", " }, self.of(cause))?;
        }
        Ok(())
    }
}
