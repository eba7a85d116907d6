//! Instances that asked to be left alone for a while.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::{Choice, Outcome, Tried};

/// The longest wait that a server may ask for: longer than that, a caller is served better by the answer at hand.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(10);

/// Those of one call, and until when; the uid stands for the instance.
#[derive(Debug, Default)]
pub(super) struct Busy(Vec<(u64, Instant)>);

impl Busy {
    /// An attempt ended so.
    pub(super) fn hear(&mut self, uid: u64, outcome: Outcome) {
        self.0.retain(|(busy, _)| *busy != uid);
        self.0.extend(
            outcome.wait().and_then(|wait| Instant::now().checked_add(wait)).map(|until| (uid, until)),
        );
    }

    /// Until when the instance of `choice` is to be left alone.
    pub(super) fn until(&self, choice: &Choice) -> Option<Instant> {
        let uid = choice.state().uid();
        self.0.iter().find(|(busy, until)| *busy == uid && *until > Instant::now()).map(|(_, until)| *until)
    }

    /// Adds those that are not to be asked now.
    pub(super) fn add_to(&self, avoid: &mut Tried) {
        let now = Instant::now();
        self.0.iter().filter(|(_, until)| *until > now).for_each(|(uid, _)| avoid.add_uid(*uid));
    }
}

/// Gives up the lease of `choice`, and takes it again then: the wait is no call in flight.
pub(super) async fn wait(choice: Choice, until: Instant) -> Choice {
    let anchor = choice.anchor();
    drop(choice);
    sleep_until(until).await;
    let mut choice = anchor.lease();
    choice.hush();
    choice
}
