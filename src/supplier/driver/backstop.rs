use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Notices a deadline whose timer cannot ring, because the caller keeps the only thread of the runtime to itself:
/// `block_on(choose())` in a loop returns before timers or tasks run.
///
/// It reads the clock at most every 128th pick of a busy caller and at every pick of a slow one: the spacing follows
/// the rate, so that some 64 readings fall into one TTL. On a runtime with more threads it is not used.
#[derive(Debug)]
pub(crate) struct Backstop {
    base: Instant,
    left: AtomicU32,
    spacing: AtomicU32,
    quick: AtomicU32,
    checked: AtomicU64,
    /// Nanoseconds after `base`; `u64::MAX` when nothing is due.
    due: AtomicU64,
    window: AtomicU64,
    expires: AtomicBool,
}

/// How many quick readings in a row make a busy caller.
const QUICK: u32 = 4;
/// The most picks between two readings.
const AT_MOST: u64 = 128;

impl Backstop {
    pub(crate) fn new() -> Self {
        Self {
            base: Instant::now(),
            left: AtomicU32::new(0),
            spacing: AtomicU32::new(0),
            quick: AtomicU32::new(0),
            checked: AtomicU64::new(0),
            due: AtomicU64::new(u64::MAX),
            window: AtomicU64::new(0),
            expires: AtomicBool::new(false),
        }
    }

    fn now(&self) -> u64 {
        nanos(Instant::now().saturating_duration_since(self.base))
    }

    /// A timer is armed: something is due `after` from now.
    pub(crate) fn arm(&self, after: Duration, expires: bool) {
        self.window.store(nanos(after), Ordering::Relaxed);
        self.expires.store(expires, Ordering::Relaxed);
        self.due.store(self.now().saturating_add(nanos(after)), Ordering::Release);
        self.left.store(0, Ordering::Relaxed);
    }

    pub(crate) fn disarm(&self) {
        self.due.store(u64::MAX, Ordering::Release);
    }

    /// `Some(expires)` once the deadline is seen to have passed. Races between callers cost a reading, no more.
    pub(crate) fn check(&self) -> Option<bool> {
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
            return None;
        }
        let due = self.due.load(Ordering::Acquire);
        if due == u64::MAX {
            return None;
        }
        let now = self.now();
        if now >= due {
            self.disarm();
            return Some(self.expires.load(Ordering::Relaxed));
        }
        let passed = now.saturating_sub(self.checked.swap(now, Ordering::Relaxed)).max(1);
        let picks = u64::from(self.spacing.load(Ordering::Relaxed)) + 1;
        let wanted = self.window.load(Ordering::Relaxed) / 64;
        let wanted = u128::from(picks) * u128::from(wanted) / u128::from(passed);
        // It grows after several quick readings only, and by doubling: a few picks in a row are no busy caller.
        let quick = if wanted >= u128::from(picks) { self.quick.load(Ordering::Relaxed) + 1 } else { 0 };
        let most = if quick >= QUICK { (2 * picks - 1).min(AT_MOST - 1) } else { picks - 1 };
        self.quick.store(if quick >= QUICK { 0 } else { quick }, Ordering::Relaxed);
        #[allow(clippy::cast_possible_truncation)] // at most 127
        let spacing = wanted.min(u128::from(most)) as u32;
        self.spacing.store(spacing, Ordering::Relaxed);
        self.left.store(spacing, Ordering::Relaxed);
        None
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slow_caller_is_looked_at_every_time_and_a_fast_one_every_128th() {
        let backstop = Backstop::new();
        backstop.arm(Duration::from_millis(50), false);
        assert_eq!(backstop.check(), None);
        tokio::time::advance(Duration::from_millis(100)).await;
        assert_eq!(backstop.check(), Some(false));
        assert_eq!(backstop.check(), None, "once");
        backstop.arm(Duration::from_secs(1), true);
        for _ in 0..1_000 {
            assert_eq!(backstop.check(), None);
        }
        tokio::time::advance(Duration::from_secs(2)).await;
        let at = (0..=AT_MOST).find_map(|at| backstop.check().map(|expires| (at, expires)));
        assert!(matches!(at, Some((_, true))), "{at:?}");
    }
}
