use std::time::Duration;

use tokio::time::Instant;

use super::tally::Window;
use super::{EjectionCause, Use};

/// What is known of an instance beyond its list entry, read in one go for reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Condition {
    pub(crate) in_use: Use,
    /// Its last call that said anything of it failed.
    pub(crate) failing: bool,
    /// How many calls its failures count as now.
    pub(crate) counted: u32,
    /// Back-offs in a row.
    pub(crate) failures: u32,
    /// Why it is ejected, if it is.
    pub(crate) ejected: Option<EjectionCause>,
    /// How often in a row.
    pub(crate) ejections: u32,
    /// Failures of any kind since the last good answer.
    pub(crate) row: u32,
    /// What was counted in the last interval.
    pub(crate) window: Option<Window>,
    /// The part of its share that it gets while it warms up, and how long that lasts.
    pub(crate) warmth: Option<f32>,
    pub(crate) warm_in: Option<Duration>,
    /// When it went out of use, or began to fail.
    pub(crate) since: Option<Instant>,
    /// When its back-off ends.
    pub(crate) until: Option<Instant>,
    /// When its failures count as load no longer.
    pub(crate) relieved: Option<Instant>,
    /// When it left the list.
    pub(crate) gone: Option<Instant>,
    /// Its latencies are kept.
    pub(crate) is_paced: bool,
}
