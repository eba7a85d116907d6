//! Properties of what a call tells of its logical address, and of what is measured.

use super::setters::setters;
use serde::{Deserialize, Serialize};

/// Headers that tell an instance the logical address that was called: `evenkeel.x-forwarded.*`.
///
/// Defaults: off.
///
/// ```
/// use evenkeel::config::XForwardedProperties;
///
/// assert!(!XForwardedProperties::default().enabled);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct XForwardedProperties {
    /// Whether `X-Forwarded-Host`, `-Proto` and `-Port` are sent. Default: `false`.
    pub enabled: bool,
    /// The value of `X-Forwarded-Prefix`, sent with the others; unset sends none. Default: unset.
    pub prefix: Option<String>,
    /// Whether `Forwarded` (RFC 7239) is sent. Default: `false`.
    pub forwarded: bool,
}

impl XForwardedProperties {
    setters! {
        /// Sets whether `X-Forwarded-Host`, `-Proto` and `-Port` are sent. Default: `false`.
        with_enabled(enabled: bool) = enabled;
        /// Sets the value of `X-Forwarded-Prefix`. Default: unset, none is sent.
        with_prefix(prefix: impl Into<Option<String>>) = prefix.into();
        /// Sets whether `Forwarded` (RFC 7239) is sent. Default: `false`.
        with_forwarded(forwarded: bool) = forwarded;
    }
}

/// What is measured: `evenkeel.stats.*`. Read by the feature `metrics`.
///
/// ```
/// use evenkeel::config::StatsProperties;
///
/// assert!(!StatsProperties::default().enabled);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct StatsProperties {
    /// Whether calls are measured: `stats.enabled`, Spring's `stats.micrometer.enabled`. Default: `false`.
    pub enabled: bool,
    /// Whether the raw path of a call becomes a label when it has no template; it makes a series for each path.
    /// Default: `false` (Spring: `true`).
    pub include_path: bool,
}

impl StatsProperties {
    setters! {
        /// Sets whether calls are measured. Default: `false`.
        with_enabled(enabled: bool) = enabled;
        /// Sets whether the raw path of a call becomes a label. Default: `false`.
        with_include_path(include_path: bool) = include_path;
    }
}
