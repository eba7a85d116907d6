use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::sim::Nanos;

/// Latencies, in buckets that are as wide as a thousandth of what is in them.
#[derive(Clone)]
pub struct Latencies {
    histogram: Histogram<u64>,
    sum: f64,
    max: Nanos,
}

impl Default for Latencies {
    /// No latency. From a microsecond to an hour; what is above counts as that.
    fn default() -> Self {
        let histogram =
            Histogram::new_with_bounds(1_000, 3_600_000_000_000, 3).expect("bounds that are in order");
        Self { histogram, sum: 0.0, max: 0 }
    }
}

impl Latencies {
    #[allow(clippy::cast_precision_loss)]
    pub(in crate::sim) fn record(&mut self, took: Nanos) {
        self.histogram.saturating_record(took);
        self.sum += took as f64;
        self.max = self.max.max(took);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The mean; nothing if there is none.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn mean(&self) -> Duration {
        Duration::from_nanos((self.sum / self.count().max(1) as f64) as u64)
    }

    /// What the part `of` (0 to 1) of them is not above; nothing if there is none.
    ///
    /// ```
    /// use evenkeel::sim::Latencies;
    ///
    /// assert_eq!(Latencies::default().quantile(0.99), std::time::Duration::ZERO);
    /// ```
    pub fn quantile(&self, of: f64) -> Duration {
        // The upper edge of its bucket, which may lie above all that is in it.
        Duration::from_nanos(self.histogram.value_at_quantile(of).min(self.max))
    }

    /// The longest.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }
}

impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Latencies({self})")
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(f, "mean {:.1} ms", ms(self.mean()))?;
        for (name, of) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)] {
            write!(f, ", {name} {:.1} ms", ms(self.quantile(of)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_thousandth_and_never_above_the_longest() {
        let mut latencies = Latencies::default();
        for ms in 1..=1_000_u64 {
            latencies.record(ms * 1_000_000);
        }
        assert_eq!((latencies.count(), latencies.max().as_millis()), (1_000, 1_000));
        assert_eq!(latencies.mean(), Duration::from_micros(500_500));
        for (of, ms) in [(0.001, 1.0), (0.5, 500.0), (0.99, 990.0), (0.999, 999.0)] {
            let off = latencies.quantile(of).as_secs_f64() * 1e3 / ms;
            assert!((1.0..1.002).contains(&off), "{of}: {off}");
        }
        assert_eq!(latencies.quantile(1.0), latencies.max());
        // Above an hour it is an hour, but for the mean and the longest.
        latencies.record(u64::MAX);
        assert!(latencies.quantile(1.0) < Duration::from_secs(3_700));
        assert_eq!(latencies.max(), Duration::from_nanos(u64::MAX));
    }
}
