use crate::sim::Nanos;
use crate::sim::engine::ServerGauge;

/// What came of one server.
#[derive(Clone, Debug)]
pub struct ServerReport {
    calls: u64,
    share: f64,
    failures: u64,
    max_in_flight: u32,
    pub(super) in_flight: Vec<u64>,
    utilization: f64,
}

impl ServerReport {
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn new(gauge: ServerGauge, all: u64, span: Nanos) -> Self {
        Self {
            calls: gauge.picks,
            share: gauge.picks as f64 / all.max(1) as f64,
            failures: gauge.failures,
            max_in_flight: gauge.max_in_flight,
            in_flight: gauge.in_flight,
            utilization: gauge.busy / (gauge.allocation.max(f64::MIN_POSITIVE) * span as f64),
        }
    }

    /// Calls that went to it.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Their share of all calls, 0 to 1.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Those that failed.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// The most requests that it had at a time.
    pub fn max_in_flight(&self) -> u32 {
        self.max_in_flight
    }

    /// How many it had, at most, in the part `of` (0 to 1) of the looks, one every 10 ms.
    pub fn in_flight_quantile(&self, of: f64) -> u32 {
        quantile(&self.in_flight, of)
    }

    /// The part of its allocation that it used; above 1 if it burst.
    pub fn utilization(&self) -> f64 {
        self.utilization
    }
}

/// The value below or at which the part `of` of them is; `seen[n]` says how often n was seen.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn quantile(seen: &[u64], of: f64) -> u32 {
    let total: u64 = seen.iter().sum();
    let rank = ((total as f64 * of).ceil() as u64).max(1);
    let mut below = 0;
    for (value, times) in seen.iter().enumerate() {
        below += times;
        if below >= rank {
            return value as u32;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_counts() {
        assert_eq!(quantile(&[], 0.5), 0);
        let seen = [50, 49, 0, 1];
        assert_eq!([0.0, 0.5, 0.51, 0.99, 0.991, 1.0].map(|of| quantile(&seen, of)), [0, 0, 1, 1, 3, 3]);
    }
}
