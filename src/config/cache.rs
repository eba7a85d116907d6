//! How long a list of instances is good for.

use super::choices::Refresh;
use super::duration::{self, format_duration, parse_duration};
use super::setters::setters;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The cache of instance lists: `evenkeel.cache.*`.
///
/// Defaults: enabled, TTL 35 s counted from the last confirmation, hard age twice the TTL, refreshed behind the
/// callers, at most 256 services that no configuration names, no warm start.
///
/// ```
/// use evenkeel::config::CacheProperties;
/// use std::time::Duration;
///
/// let cache = CacheProperties::default().with_ttl(Duration::from_secs(5));
/// assert_eq!(cache.hard_age(), Duration::from_secs(10));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct CacheProperties {
    /// Whether lists are cached. Default: `true`. When off, every choice asks the registry; concurrent callers
    /// share one look-up.
    pub enabled: bool,
    /// Age from which a list is refreshed. Default: 35 s. `0` refreshes with every choice.
    #[serde(with = "duration::text")]
    pub ttl: Duration,
    /// Age from which callers wait for the refresh; unset means twice the TTL. Read it with [`Self::hard_age`].
    #[serde(with = "duration::optional_text")]
    pub hard_age: Option<Duration>,
    /// What callers wait for between TTL and hard age. Default: [`Refresh::Behind`].
    pub refresh: Refresh,
    /// How many services that no configuration names are kept. Default: 256. Read globally only.
    pub capacity: u64,
    /// A directory where lists are kept across restarts. Default: unset, nothing is written.
    pub warm_start: Option<PathBuf>,
}

impl Default for CacheProperties {
    fn default() -> Self {
        Self {
            enabled: true,
            ttl: Duration::from_secs(35),
            hard_age: None,
            refresh: Refresh::Behind,
            capacity: 256,
            warm_start: None,
        }
    }
}

impl CacheProperties {
    setters! {
        /// Sets whether lists are cached. Default: `true`.
        with_enabled(enabled: bool) = enabled;
        /// Sets the age from which a list is refreshed. Default: 35 s.
        with_ttl(ttl: Duration) = ttl;
        /// Sets the age from which callers wait; `None` means twice the TTL, the default.
        with_hard_age(hard_age: impl Into<Option<Duration>>) = hard_age.into();
        /// Sets what callers wait for between TTL and hard age. Default: [`Refresh::Behind`].
        with_refresh(refresh: Refresh) = refresh;
        /// Sets how many services that no configuration names are kept. Default: 256.
        with_capacity(capacity: u64) = capacity;
        /// Sets the directory where lists are kept across restarts. Default: none.
        with_warm_start(warm_start: impl Into<PathBuf>) = Some(warm_start.into());
    }

    /// The age from which callers wait for a refresh: the value set, never below the TTL, or twice the TTL.
    pub fn hard_age(&self) -> Duration {
        self.hard_age.map_or_else(|| self.ttl.saturating_mul(2), |age| age.max(self.ttl))
    }
}

/// How long the last known list may be served while the registry does not answer: `evenkeel.stale-if-error`.
///
/// In a file: `true` or `unbounded`, `false`, `off` or `0`, or a duration. Default: unbounded; 5 minutes under
/// the preset `kubernetes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Staleness {
    /// Until the registry answers again.
    #[default]
    Unbounded,
    /// For this long after the list was last confirmed.
    For(Duration),
    /// Not at all: past its hard age a list is gone.
    Off,
}

impl Staleness {
    /// What may be written, for error messages.
    pub(crate) const ALLOWED: &'static str = "true or unbounded, false, off or 0, or a duration such as 5m, 90s or PT5M (a plain number is milliseconds)";

    pub(crate) fn read(text: &str) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "true" | "on" | "yes" | "unbounded" => Some(Self::Unbounded),
            "false" | "off" | "no" => Some(Self::Off),
            other => {
                parse_duration(other).map(|bound| if bound.is_zero() { Self::Off } else { Self::For(bound) })
            }
        }
    }
}

impl Serialize for Staleness {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unbounded => serializer.serialize_str("unbounded"),
            Self::For(bound) => serializer.serialize_str(&format_duration(*bound)),
            Self::Off => serializer.serialize_str("off"),
        }
    }
}
