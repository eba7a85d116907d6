use std::fmt;

use serde::Serialize;

use super::words::Span;
use crate::state::ChangeKind;

/// One of the last changes of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Change {
    /// Counts the changes of the service, from 1; where one is missing, an equal one stands behind it: see `times`.
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
    /// How often it was the same lately, the last time at `at`.
    pub times: u32,
    /// How long ago it was so first.
    pub first_age_ms: u64,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {:>12} ago  {:<17}", self.at, Span(self.age_ms), self.kind)?;
        let said = [self.instance.as_deref(), Some(&*self.detail).filter(|detail| !detail.is_empty())];
        let said: Vec<&str> = said.into_iter().flatten().collect();
        write!(f, "  {}", said.join(": "))?;
        if self.times > 1 {
            write!(f, " ({} times in {})", self.times, Span(self.first_age_ms))
        } else {
            Ok(())
        }
    }
}
