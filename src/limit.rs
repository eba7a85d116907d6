//! How often an event may be logged.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Over which time events of one kind are counted: short enough that nothing is kept back for long, long enough that a
/// service whose every call fails fills no disk.
const WINDOW: Duration = Duration::from_secs(60);
/// A change of state may be told this often in a window: a rollout or an outage of a few instances is seen whole, one of a
/// thousand is not written out.
const CHANGES: u32 = 10;
/// The same for a fault, which says the same each time.
const FAULTS: u32 = 1;

/// Lets a kind of event of one service pass a few times a minute, and counts what it holds back.
#[derive(Debug)]
pub(crate) struct Limit {
    most: u32,
    window: Mutex<Window>,
}

#[derive(Debug)]
struct Window {
    since: Option<Instant>,
    passed: u32,
    held: u64,
}

/// An event that may be told, and how many were not since the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed(u64);

impl Passed {
    /// The value of the field `suppressed`: none when there is nothing to say.
    pub(crate) fn suppressed(self) -> Option<u64> {
        (self.0 > 0).then_some(self.0)
    }
}

impl Limit {
    /// For changes of state: ten a minute.
    pub(crate) const fn changes() -> Self {
        Self::new(CHANGES)
    }

    /// For faults: one a minute.
    pub(crate) const fn faults() -> Self {
        Self::new(FAULTS)
    }

    const fn new(most: u32) -> Self {
        Self { most, window: Mutex::new(Window { since: None, passed: 0, held: 0 }) }
    }

    /// Whether the event may be told now.
    pub(crate) fn pass(&self) -> Option<Passed> {
        let now = Instant::now();
        let mut window = self.window.lock();
        if window.since.is_none_or(|since| now.saturating_duration_since(since) >= WINDOW) {
            (window.since, window.passed) = (Some(now), 0);
        }
        if window.passed >= self.most {
            window.held = window.held.saturating_add(1);
            return None;
        }
        window.passed += 1;
        Some(Passed(std::mem::take(&mut window.held)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_minute_passes_a_few_and_the_next_tells_how_many_were_held_back() {
        for (limit, most) in [(Limit::faults(), FAULTS), (Limit::changes(), CHANGES)] {
            for _ in 0..most {
                assert_eq!(limit.pass(), Some(Passed(0)));
            }
            assert_eq!((limit.pass(), limit.pass()), (None, None));
            tokio::time::advance(Duration::from_millis(59_999)).await;
            assert_eq!(limit.pass(), None, "the window is not over");
            tokio::time::advance(Duration::from_millis(1)).await;
            assert_eq!(limit.pass().and_then(Passed::suppressed), Some(3));
            for _ in 1..most {
                assert_eq!(limit.pass().map(Passed::suppressed), Some(None));
            }
            assert_eq!(limit.pass(), None);
        }
    }
}
