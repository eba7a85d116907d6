use std::path::PathBuf;
use std::time::Duration;

use crate::state::BackOff;

/// How a list is kept; read on the control plane only, and replaced whole when the configuration changes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    /// Off: every choose asks, and concurrent ones share one look-up.
    pub(crate) caching: bool,
    pub(crate) ttl: Duration,
    /// Past it callers wait for the look-up.
    pub(crate) hard_age: Duration,
    /// Wait at the TTL already, as Spring does.
    pub(crate) refresh_waits: bool,
    /// How old a list may get while look-ups fail; `None` = any age.
    pub(crate) stale_bound: Option<Duration>,
    /// How long the last list is kept against an empty answer; zero = not at all.
    pub(crate) empty_guard: Duration,
    /// Whether the guard holds against a watch too.
    pub(crate) guard_watch: bool,
    /// How long an empty list is believed.
    pub(crate) empty_life: Duration,
    /// The limit of one look-up.
    pub(crate) look_up_limit: Duration,
    /// How long a caller waits.
    pub(crate) choose_timeout: Duration,
    /// How long a caller waits for the first instance of an empty service; zero = not at all.
    pub(crate) wait_for_instances: Duration,
    pub(crate) back_off: BackOff,
    /// Where the last good list is kept over restarts.
    pub(crate) disk: Option<PathBuf>,
    /// A watch without a caller for this long is closed.
    pub(crate) idle: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            caching: true,
            ttl: Duration::from_secs(35),
            hard_age: Duration::from_secs(70),
            refresh_waits: false,
            stale_bound: None,
            empty_guard: Duration::from_secs(30),
            guard_watch: true,
            empty_life: Duration::from_secs(1),
            look_up_limit: Duration::from_secs(30),
            choose_timeout: Duration::from_secs(5),
            wait_for_instances: Duration::ZERO,
            back_off: BackOff::default(),
            disk: None,
            idle: Duration::from_secs(600),
        }
    }
}
