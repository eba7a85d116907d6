use std::fmt;

use serde::Serialize;

use super::words::Span;
use crate::state::ChangeKind;

/// One of the last changes of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Change {
    /// Counts the changes of the service, from 1; a gap is a row of equal ones, see `times`.
    pub number: u64,
    /// When, on the clock on the wall: RFC 3339, in UTC.
    pub at: String,
    /// How long ago.
    pub age_ms: u64,
    /// What kind of change it was.
    pub kind: ChangeKind,
    /// Whom it concerns; `None` = the service.
    pub instance: Option<String>,
    /// What happened, or why.
    pub detail: String,
    /// How often in a row it was the same, the last time at `at`.
    pub times: u32,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {:>12} ago  {:<17}", self.at, Span(self.age_ms), self.kind)?;
        if let Some(instance) = &self.instance {
            write!(f, " {instance}")?;
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        if self.times > 1 { write!(f, " ({} times)", self.times) } else { Ok(()) }
    }
}
