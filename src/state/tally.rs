//! What ended badly: failures in a row by their kind, and how many there were.

use crate::choice::{Failure, Outcome};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// What kind of failure an outcome is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Connect,
    Timeout,
    Reset,
    Other,
    /// 5xx but the three of a gateway.
    Server,
    /// 502, 503, 504.
    Gateway,
    /// 429, or a request to come later.
    Busy,
    Grpc,
}

impl Kind {
    /// The kind of an outcome that speaks against an instance.
    pub(crate) fn of(outcome: Outcome) -> Option<Self> {
        Some(match outcome {
            _ if !outcome.is_bad() => return None,
            Outcome::Failure(Failure::Connect) => Self::Connect,
            Outcome::Failure(Failure::Timeout) => Self::Timeout,
            Outcome::Failure(Failure::Reset) => Self::Reset,
            Outcome::Status(502..=504) => Self::Gateway,
            Outcome::Status(429) | Outcome::RetryAfter(_) => Self::Busy,
            Outcome::Status(_) => Self::Server,
            Outcome::Grpc(_) => Self::Grpc,
            _ => Self::Other,
        })
    }
}

/// Failures without a good answer between them: all of them, answers of a gateway, and those without an answer. Three numbers in
/// one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row(u64);

/// How many bits a number has.
const LANE: u32 = 21;

impl Row {
    /// The largest number. What comes after it is the half of that, and not the same again: whoever acts at each multiple of a
    /// threshold would else act at every failure from there on, or never again.
    pub(crate) const MOST: u32 = (1 << LANE) - 1;

    fn lane(self, at: u32) -> u32 {
        #[allow(clippy::cast_possible_truncation)] // 21 bits
        let lane = (self.0 >> (at * LANE)) as u32;
        lane & Self::MOST
    }

    fn with(self, kind: Kind) -> Self {
        let counts = [
            true,
            kind == Kind::Gateway,
            matches!(kind, Kind::Connect | Kind::Timeout | Kind::Reset | Kind::Other),
        ];
        let of = |(at, counts): (u32, bool)| {
            let next = match self.lane(at) {
                lane if !counts => lane,
                Self::MOST => Self::MOST / 2 + 1,
                lane => lane + 1,
            };
            u64::from(next) << (at * LANE)
        };
        Self((0..).zip(counts).map(of).sum())
    }

    /// Of any kind.
    pub(crate) fn all(self) -> u32 {
        self.lane(0)
    }

    /// Answers of a gateway.
    pub(crate) fn gateway(self) -> u32 {
        self.lane(1)
    }

    /// Those without an answer.
    pub(crate) fn local(self) -> u32 {
        self.lane(2)
    }
}

/// Counts only what is not a good answer, so that a good one costs nothing: how many calls there were is known from the leases.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    row: AtomicU64,
    failed: AtomicU32,
    cancelled: AtomicU32,
}

/// What was counted until now; the numbers wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) begun: u32,
    pub(crate) failed: u32,
    pub(crate) cancelled: u32,
}

impl Tally {
    /// One more failure; the row with it.
    pub(crate) fn failed(&self, kind: Kind) -> Row {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let next = |row: u64| Some(Row(row).with(kind).0);
        // It never says `None`, so that both are the row before.
        let (Ok(before) | Err(before)) = self.row.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        Row(before).with(kind)
    }

    /// The caller gave up, which says nothing of the instance.
    pub(crate) fn cancelled(&self) {
        self.cancelled.fetch_add(1, Ordering::Relaxed);
    }

    /// A good answer ends every row.
    pub(crate) fn succeeded(&self) {
        self.row.store(0, Ordering::Relaxed);
    }

    pub(crate) fn row(&self) -> Row {
        Row(self.row.load(Ordering::Relaxed))
    }

    /// With the leases that were ever taken.
    pub(crate) fn count(&self, begun: u32) -> Count {
        let [failed, cancelled] = [&self.failed, &self.cancelled].map(|count| count.load(Ordering::Relaxed));
        Count { begun, failed, cancelled }
    }
}

/// Calls of a while, and how many of them failed. Calls that the caller gave up are none; one in flight counts as well until
/// it has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) calls: u32,
    pub(crate) failed: u32,
}

impl From<Row> for Window {
    /// The calls of a row, which failed all.
    fn from(row: Row) -> Self {
        Self { calls: row.all(), failed: row.all() }
    }
}

impl Window {
    pub(crate) fn between(before: Count, after: Count) -> Self {
        let failed = after.failed.wrapping_sub(before.failed);
        let begun = after.begun.wrapping_sub(before.begun);
        let calls = begun.saturating_sub(after.cancelled.wrapping_sub(before.cancelled));
        // Calls may have begun in the while before.
        Self { calls: calls.max(failed), failed }
    }

    /// The part that succeeded, in percent; 100 when there was none.
    pub(crate) fn success_rate(self) -> f64 {
        if self.calls == 0 { 100.0 } else { 100.0 - self.failure_rate() }
    }

    pub(crate) fn failure_rate(self) -> f64 {
        if self.calls == 0 { 0.0 } else { f64::from(self.failed) * 100.0 / f64::from(self.calls) }
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn lbs_failures_in_a_row_are_counted_by_kind_and_a_good_answer_ends_them() {
        let tally = Tally::default();
        for (outcome, all, gateway, local) in [
            (Outcome::Failure(Failure::Connect), 1, 0, 1),
            (Outcome::Failure(Failure::Timeout), 2, 0, 2),
            (Outcome::Status(500), 3, 0, 2),
            (Outcome::Status(503), 4, 1, 2),
            (Outcome::answered(503, Some("3")), 5, 1, 2),
            (Outcome::Status(429), 6, 1, 2),
            (Outcome::Grpc(14), 7, 1, 2),
            (Outcome::Failure(Failure::Reset), 8, 1, 3),
            (Outcome::Failure(Failure::Other), 9, 1, 4),
        ] {
            let row = tally.failed(Kind::of(outcome).unwrap());
            assert_eq!((row.all(), row.gateway(), row.local()), (all, gateway, local), "{outcome}");
        }
        tally.succeeded();
        assert_eq!(tally.row(), Row::default());
        assert_eq!(tally.count(20), Count { begun: 20, failed: 9, cancelled: 0 });
        for _ in 0..300 {
            tally.failed(Kind::Server);
        }
        assert_eq!(tally.row().all(), 300);
        for good in [Outcome::Success, Outcome::Status(404), Outcome::Grpc(5), Outcome::Cancelled] {
            assert_eq!(Kind::of(good), None);
        }
    }

    #[test]
    fn a_row_without_end_passes_each_multiple_of_a_threshold_and_no_lane_runs_into_the_next() {
        let last = (0..Row::MOST).fold(Row::default(), |row, _| row.with(Kind::Gateway));
        assert_eq!((last.all(), last.gateway(), last.local()), (Row::MOST, Row::MOST, 0));
        let next: Vec<_> = (0..4)
            .scan(last, |row, _| {
                *row = row.with(Kind::Timeout);
                Some((row.all(), row.gateway(), row.local()))
            })
            .collect();
        let half = 1 << 20;
        let wanted = [(half, 1), (half + 1, 2), (half + 2, 3), (half + 3, 4)];
        assert_eq!(next, wanted.map(|(all, local)| (all, Row::MOST, local)));
    }

    #[test]
    fn a_window_is_the_difference_of_counts_that_wrap() {
        let before = Count { begun: u32::MAX, failed: u32::MAX, cancelled: 5 };
        let after = Count { begun: 99, failed: 19, cancelled: 25 };
        let window = Window::between(before, after);
        assert_eq!(window, Window { calls: 80, failed: 20 });
        assert!((window.success_rate() - 75.0).abs() < 1e-9 && (window.failure_rate() - 25.0).abs() < 1e-9);
        // Calls of the window before that fail in this one, and cancelled ones of before.
        let late = Window::between(Count::default(), Count { begun: 1, failed: 3, cancelled: 9 });
        assert_eq!(late, Window { calls: 3, failed: 3 });
        assert!((Window::default().success_rate() - 100.0).abs() < 1e-9);
    }
}
