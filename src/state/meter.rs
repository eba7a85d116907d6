use std::time::Duration;

use crate::choice::Outcome;

/// Who measures the attempts on one instance. It is reached through the instance's state, so that the end of an attempt
/// looks nothing up.
pub(crate) trait Meter: Send + Sync {
    /// An attempt ended. `took` is `None` for one that began before anybody measured; `in_flight` counts those that are
    /// still under way.
    fn ended(&self, reported: Reported<'_>, outcome: Outcome, took: Option<Duration>, in_flight: u32);

    /// Hands on what is known by now; `in_flight` counts the attempts under way.
    fn publish(&self, in_flight: u32);

    /// The instance is forgotten, or its balancer is gone: no handle is kept from here on, although a lease, or the last
    /// snapshot of a thread that picks no more, may keep the state for a while.
    fn end(&self, in_flight: u32);
}

/// What a call knows of its attempt; nothing of it for a lease that was chosen by hand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reported<'a> {
    pub(crate) method: Option<&'a str>,
    /// What may become a label: the template of the path, or the path.
    pub(crate) uri: Option<&'a str>,
    /// A response came, whatever became of its body.
    pub(crate) answered: bool,
    /// Its status, if its protocol has one.
    pub(crate) status: Option<u16>,
}
