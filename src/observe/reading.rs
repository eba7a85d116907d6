use std::sync::Arc;
use std::time::Duration;

use crate::state::InstanceState;

/// What a balancer knows at one moment.
pub(crate) struct Reading<'a> {
    /// Since the list was last confirmed; `None` without a list.
    pub(crate) age: Option<Duration>,
    /// The source gives no answer: the list is one from before.
    pub(crate) stale: bool,
    /// The source gives an empty answer that is not believed yet.
    pub(crate) guarded: bool,
    /// No instance passes its health check, and all are used.
    pub(crate) fail_open: bool,
    /// Of the instances that the source lists.
    pub(crate) hash: u64,
    /// How many those are, and how many of them are down.
    pub(crate) known: usize,
    pub(crate) down: usize,
    /// Those that some request may get.
    pub(crate) usable: &'a [Arc<InstanceState>],
    /// Those that are kept in mind.
    pub(crate) all: &'a [Arc<InstanceState>],
}
