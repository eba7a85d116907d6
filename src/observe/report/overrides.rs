use std::fmt;

use serde::Serialize;

use super::words::Span;

/// An operator's override that is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct OverrideStatus {
    /// What it does: `drain host 10.0.0.7`, `ejection off`, `preset spring`.
    pub what: String,
    /// Why it was set.
    pub reason: String,
    /// When it ends, on the clock on the wall: RFC 3339, in UTC.
    pub until: String,
    /// How long until then.
    pub left_ms: u64,
    /// Whether it stands in the properties; else the code set it.
    pub configured: bool,
    /// How many listed instances it matches, for one that drains.
    pub matches: Option<u32>,
}

impl fmt::Display for OverrideStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = if self.configured { "properties" } else { "code" };
        let left = Span(self.left_ms);
        write!(f, "{}, until {} ({left} left), by {by}: {}", self.what, self.until, self.reason)?;
        match self.matches {
            Some(0) => f.write_str(" [it matches no listed instance]"),
            Some(1) => f.write_str(" [one instance]"),
            Some(count) => write!(f, " [{count} instances]"),
            None => Ok(()),
        }
    }
}
