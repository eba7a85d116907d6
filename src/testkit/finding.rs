use std::error::Error;
use std::fmt;

use super::Check;

/// A check that a policy passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed(pub(super) Measured);

/// A check that a policy failed, or that could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding(pub(super) Measured);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Measured {
    pub(super) check: Check,
    pub(super) policy: String,
    pub(super) got: String,
    pub(super) bound: String,
    pub(super) seed: u64,
}

impl Passed {
    /// Which one.
    pub fn check(&self) -> Check {
        self.0.check
    }
}

impl Finding {
    /// Which one.
    pub fn check(&self) -> Check {
        self.0.check
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { check, policy, got, bound, seed } = self;
        write!(f, "{check}: {policy}: {got}; the bound is {bound} (seed {seed})")
    }
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Finding {}
