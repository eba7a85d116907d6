use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use crate::ServiceId;

/// A period that varies by a tenth, so that many clients who started together do not ask together.
#[derive(Clone, Debug)]
pub(super) struct Jitter {
    period: Duration,
    rng: fastrand::Rng,
}

impl Jitter {
    /// The same seed gives the same waits.
    pub(super) fn new(period: Duration, seed: u64) -> Self {
        Self { period, rng: fastrand::Rng::with_seed(seed) }
    }

    /// The same for one of many services, each of which gets waits of its own from one seed.
    pub(super) fn of_service(period: Duration, seed: u64, service: &ServiceId) -> Self {
        let mut hasher = DefaultHasher::new();
        service.hash(&mut hasher);
        Self::new(period, seed ^ hasher.finish())
    }

    /// A share between a half and one, for a back-off: never no wait at all.
    pub(super) fn share(&mut self) -> f64 {
        0.5 + 0.5 * self.rng.f64()
    }

    /// The next wait: 0.9 to 1.1 times the period.
    pub(super) fn next(&mut self) -> Duration {
        // A period beyond what a clock can count is as good as a year.
        const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
        self.period.min(LONGEST).mul_f64(0.9 + 0.2 * self.rng.f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_varies_by_a_tenth_and_follows_its_seed() {
        let waits = |seed| {
            let mut jitter = Jitter::new(Duration::from_secs(10), seed);
            (0..100).map(|_| jitter.next()).collect::<Vec<_>>()
        };
        assert!(waits(1).iter().all(|wait| (9_000..=11_000).contains(&wait.as_millis())));
        assert_eq!(waits(1), waits(1));
        assert_ne!(waits(1), waits(2));
        assert!(Jitter::new(Duration::MAX, 1).next() > Duration::from_secs(1));
        assert_eq!(Jitter::new(Duration::ZERO, 1).next(), Duration::ZERO);
    }
}
