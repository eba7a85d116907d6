use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use crate::sim::Nanos;

/// The granularity of tokio's timers.
const TICK: Nanos = 1_000_000;

/// The paused clock of the runtime, moved from event to event.
///
/// To move it costs one lock of the clock; the runtime gets a turn, in which timers fire and tasks run, once per virtual
/// millisecond, which is as fine as its timers are. A turn for every event would be most of the time of a run.
#[derive(Debug, Default)]
pub(super) struct Clock {
    now: Nanos,
    tick: Nanos,
}

impl Clock {
    /// Moves to `at`, with a turn of the runtime at each millisecond on the way.
    #[inline]
    pub(super) async fn to(&mut self, at: Nanos) {
        if at >= self.tick + TICK {
            self.ticks(at).await;
        }
        self.step(at);
    }

    #[inline(never)]
    async fn ticks(&mut self, at: Nanos) {
        while at >= self.tick + TICK {
            self.tick += TICK;
            self.step(self.tick);
            tokio::task::yield_now().await;
        }
    }

    /// What is to be done at once gets its turns, without time passing.
    pub(super) async fn settle(&self, turns: usize) {
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }

    #[inline]
    fn step(&mut self, at: Nanos) {
        if at > self.now {
            // The first poll moves the clock; what it waits for then is a turn of the runtime, which is not wanted here.
            let advance = pin!(tokio::time::advance(Duration::from_nanos(at - self.now)));
            let _ = advance.poll(&mut Context::from_waker(Waker::noop()));
            self.now = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Instant, sleep};

    #[tokio::test(start_paused = true)]
    async fn it_is_where_it_was_moved_to_and_timers_ring_within_a_millisecond() {
        let start = Instant::now();
        let sleeper = tokio::spawn(async move {
            sleep(Duration::from_millis(35)).await;
            start.elapsed()
        });
        tokio::task::yield_now().await;
        let mut clock = Clock::default();
        for at in [1, 1_500, 999_999, 20_000_000, 20_000_001, 61_000_000] {
            clock.to(at).await;
            assert_eq!(start.elapsed(), Duration::from_nanos(at));
        }
        assert!(sleeper.is_finished());
        let rang = sleeper.await.unwrap();
        assert!((35..=37).contains(&rang.as_millis()), "{rang:?}");
    }
}
