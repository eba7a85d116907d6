//! How long answers take, in one number: a percentile.

use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;

/// Steps between one power of two and the next: what is read is at most a sixteenth too long.
const STEPS: usize = 16;
/// Microseconds below 2^32, which is more than an hour: each power of two from 2^4 on has its steps.
const BUCKETS: usize = 29 * STEPS;
/// With fewer answers a percentile says nothing: of fifty, two or three are above the 95th.
const ENOUGH: u32 = 50;
/// Then all are halved, so that the answers of the last few thousand calls tell.
const MANY: u32 = 4_096;
/// The percentile is looked up again after so many: it moves no faster.
const EVERY: u32 = 32;

/// The latencies of one strategy, read at one percentile.
pub(super) struct Latencies {
    percent: f64,
    counts: Mutex<Counts>,
}

struct Counts {
    buckets: Box<[u32; BUCKETS]>,
    total: u32,
    since: u32,
    value: Option<Duration>,
}

impl Latencies {
    /// At `percent`, which is taken into 0 to 100.
    pub(super) fn new(percent: f64) -> Self {
        let counts = Counts { buckets: Box::new([0; BUCKETS]), total: 0, since: 0, value: None };
        Self {
            percent: if percent.is_nan() { 95.0 } else { percent.clamp(0.0, 100.0) },
            counts: counts.into(),
        }
    }

    pub(super) fn record(&self, took: Duration) {
        let mut counts = self.counts.lock();
        counts.buckets[bucket(took)] += 1;
        counts.total += 1;
        if counts.total >= MANY {
            let mut total = 0;
            for count in counts.buckets.iter_mut() {
                *count /= 2;
                total += *count;
            }
            counts.total = total;
        }
        counts.since += 1;
        if counts.total >= ENOUGH && (counts.value.is_none() || counts.since >= EVERY) {
            counts.since = 0;
            counts.value = Some(counts.at(self.percent));
        }
    }

    /// The percentile; `None` as long as too few answers came.
    pub(super) fn value(&self) -> Option<Duration> {
        self.counts.lock().value
    }
}

impl Counts {
    fn at(&self, percent: f64) -> Duration {
        let wanted = f64::from(self.total) * percent / 100.0;
        let mut seen = 0;
        let at = self.buckets.iter().position(|count| {
            seen += count;
            seen > 0 && f64::from(seen) >= wanted
        });
        Duration::from_micros(above(at.unwrap_or(BUCKETS - 1)))
    }
}

fn bucket(took: Duration) -> usize {
    let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX) as usize;
    if micros < STEPS {
        return micros;
    }
    let power = micros.ilog2() as usize;
    (power - 3) * STEPS + (micros >> (power - 4)) % STEPS
}

/// The first microsecond above a bucket.
fn above(bucket: usize) -> u64 {
    let (row, step) = (bucket / STEPS, (bucket % STEPS) as u64);
    if row == 0 { step + 1 } else { (STEPS as u64 + step + 1) << (row - 1) }
}

impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latencies")
            .field("percent", &self.percent)
            .field("value", &self.value())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_begins_where_the_one_before_ends() {
        for at in 0..BUCKETS - 1 {
            let end = Duration::from_micros(above(at));
            assert_eq!((bucket(end.saturating_sub(Duration::from_micros(1))), bucket(end)), (at, at + 1));
        }
        assert_eq!((bucket(Duration::ZERO), bucket(Duration::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn a_percentile_is_told_after_fifty_answers_and_follows_the_newer_ones() {
        let latencies = Latencies::new(95.0);
        let ms = Duration::from_millis;
        (0..49).for_each(|_| latencies.record(ms(10)));
        assert_eq!(latencies.value(), None);
        latencies.record(ms(10));
        let near = |ms: u64| {
            let value = latencies.value().unwrap();
            value >= Duration::from_millis(ms) && value <= Duration::from_millis(ms) * 17 / 16
        };
        assert!(near(10), "{latencies:?}");
        (0..950).for_each(|at| latencies.record(ms(if at % 10 == 0 { 300 } else { 10 })));
        assert!(near(300), "{latencies:?}");
        (0..20_000).for_each(|_| latencies.record(ms(50)));
        assert!(near(50), "{latencies:?}");
        for (percent, value) in [(f64::NAN, 95.0), (-1.0, 0.0), (101.0, 100.0)] {
            assert!((Latencies::new(percent).percent - value).abs() < f64::EPSILON);
        }
    }
}
