use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::sim::Nanos;

/// Latencies, in buckets that are as wide as a thousandth of what is in them.
#[derive(Clone)]
pub struct Latencies {
    histogram: Histogram<u64>,
    sum: f64,
}

impl Default for Latencies {
    /// No latency. From a microsecond to an hour; what is above counts as that.
    fn default() -> Self {
        let histogram =
            Histogram::new_with_bounds(1_000, 3_600_000_000_000, 3).expect("bounds that are in order");
        Self { histogram, sum: 0.0 }
    }
}

impl Latencies {
    #[allow(clippy::cast_precision_loss)]
    pub(in crate::sim) fn record(&mut self, took: Nanos) {
        self.histogram.saturating_record(took);
        self.sum += took as f64;
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
        Duration::from_nanos(self.histogram.value_at_quantile(of))
    }

    /// The longest.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.histogram.max())
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
