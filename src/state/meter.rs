use super::InstanceState;
use crate::choice::Outcome;

/// Who measures the attempts on one instance. It is reached through the instance's state, so that the end of an attempt
/// looks nothing up.
pub(crate) trait Meter: Send + Sync {
    /// An attempt ended. `took`, in nanoseconds, is `None` for one that began before anybody measured.
    fn ended(&self, reported: Reported<'_>, outcome: Outcome, took: Option<u64>, state: &InstanceState);

    /// Hands on what is known by now.
    fn publish(&self, standing: Standing);

    /// What was picked until now is not counted: nobody measured.
    fn resume(&self, standing: Standing);

    /// The instance is forgotten, or its balancer is gone: few handles are kept from here on, although a lease, or the last
    /// snapshot of a thread that picks no more, may keep the state for a while.
    fn end(&self, standing: Standing);
}

/// What an instance's state tells its meter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// Leases that live.
    pub(crate) in_flight: u32,
    /// Leases that were ever taken; it wraps.
    pub(crate) picks: u32,
    /// It stands in another zone than this client.
    pub(crate) elsewhere: bool,
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
