use std::time::Duration;

use super::chance::Chance;
use super::{Nanos, SimError, nanos};

/// How much work a request is: the time that it takes on one core of a server of speed 1.
///
/// Every shape is scaled so that its mean is the given one; a load is then the same for all of them.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::sim::Demand;
///
/// let ten = Duration::from_millis(10);
/// assert_eq!(Demand::default(), Demand::truncated_normal(ten));
/// let web = Demand::bimodal(ten, 0.05, 20.0); // one in twenty is twenty times as heavy
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    mean: Duration,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Deterministic,
    Exponential,
    TruncatedNormal,
    LogNormal { sigma: f64 },
    Bimodal { share: f64, times: f64 },
    Pareto { alpha: f64, most: f64 },
}

impl Default for Demand {
    /// [`truncated_normal`](Self::truncated_normal) of 10 ms.
    fn default() -> Self {
        Self::truncated_normal(Duration::from_millis(10))
    }
}

/// The mean of a normal distribution of mean and deviation 1 without what is below 0: 1 + phi(1) / Phi(1).
const TRUNCATED_MEAN: f64 = 1.287_599_970_8;

impl Demand {
    const fn new(mean: Duration, shape: Shape) -> Self {
        Self { mean, shape }
    }

    /// All alike.
    pub const fn deterministic(mean: Duration) -> Self {
        Self::new(mean, Shape::Deterministic)
    }

    /// Exponential.
    pub const fn exponential(mean: Duration) -> Self {
        Self::new(mean, Shape::Exponential)
    }

    /// Normal with a deviation as large as its mean, drawn again below 0, as in the evaluation of Prequal (2024).
    pub const fn truncated_normal(mean: Duration) -> Self {
        Self::new(mean, Shape::TruncatedNormal)
    }

    /// Log-normal; `sigma` is the deviation of the logarithm, above 0 and at most 5 (1 is usual).
    pub const fn log_normal(mean: Duration, sigma: f64) -> Self {
        Self::new(mean, Shape::LogNormal { sigma })
    }

    /// Two kinds: a `share` (0 to 1) of the requests is so many `times` as heavy as the others.
    pub const fn bimodal(mean: Duration, share: f64, times: f64) -> Self {
        Self::new(mean, Shape::Bimodal { share, times })
    }

    /// Pareto with the exponent `alpha` (above 0; 1.5 is usual); what is above `most` times the least is that.
    pub const fn pareto(mean: Duration, alpha: f64, most: f64) -> Self {
        Self::new(mean, Shape::Pareto { alpha, most })
    }

    /// The mean.
    pub const fn mean(&self) -> Duration {
        self.mean
    }

    pub(super) fn check(&self) -> Result<(), SimError> {
        SimError::positive("mean demand", self.mean.as_secs_f64())?;
        match self.shape {
            Shape::Deterministic | Shape::Exponential | Shape::TruncatedNormal => Ok(()),
            Shape::LogNormal { sigma } => {
                SimError::within("sigma of the demand", sigma, f64::MIN_POSITIVE, 5.0)
            }
            Shape::Bimodal { share, times } => {
                SimError::within("share of heavy requests", share, 0.0, 1.0)?;
                SimError::positive("weight of heavy requests", times)
            }
            Shape::Pareto { alpha, most } => {
                SimError::positive("alpha of the demand", alpha)?;
                SimError::within("cap of the demand", most, 1.0, 1e9)
            }
        }
    }

    /// One, in nanoseconds; at least one.
    #[allow(clippy::cast_precision_loss)] // 53 bits are 104 days
    pub(super) fn draw(&self, chance: &mut Chance) -> f64 {
        (self.mean_nanos() as f64 * self.shape.draw(chance)).max(1.0)
    }

    fn mean_nanos(&self) -> Nanos {
        nanos(self.mean)
    }
}

impl Shape {
    /// One of mean 1.
    fn draw(self, chance: &mut Chance) -> f64 {
        match self {
            Self::Deterministic => 1.0,
            Self::Exponential => chance.exponential(),
            Self::TruncatedNormal => loop {
                let drawn = 1.0 + chance.normal();
                if drawn > 0.0 {
                    break drawn / TRUNCATED_MEAN;
                }
            },
            Self::LogNormal { sigma } => (sigma * chance.normal() - sigma * sigma / 2.0).exp(),
            Self::Bimodal { share, times } => {
                let heavy = chance.uniform() <= share;
                (if heavy { times } else { 1.0 }) / (1.0 + share * (times - 1.0))
            }
            Self::Pareto { alpha, most } => {
                // The mean with the least at 1: 1 and the area below the tail up to the cap.
                let beyond = 1.0 - alpha;
                let mean =
                    1.0 + if beyond.abs() < 1e-9 { most.ln() } else { (most.powf(beyond) - 1.0) / beyond };
                chance.uniform().powf(-1.0 / alpha).min(most) / mean
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_has_the_mean_it_was_given() {
        let mean = Duration::from_millis(10);
        for demand in [
            Demand::deterministic(mean),
            Demand::exponential(mean),
            Demand::truncated_normal(mean),
            Demand::log_normal(mean, 1.0),
            Demand::bimodal(mean, 0.05, 20.0),
            Demand::pareto(mean, 1.5, 100.0),
            Demand::pareto(mean, 1.0, 100.0),
        ] {
            demand.check().unwrap();
            let mut chance = Chance::new(1, 2);
            let n = 200_000;
            let all: Vec<f64> = (0..n).map(|_| demand.draw(&mut chance)).collect();
            let got = all.iter().sum::<f64>() / f64::from(n) / 1e7;
            assert!((got - 1.0).abs() < 0.02, "{demand:?}: {got}");
            assert!(all.iter().all(|one| *one >= 1.0));
        }
    }

    #[test]
    fn what_is_no_demand_is_an_error() {
        let mean = Duration::from_millis(10);
        for (demand, word) in [
            (Demand::exponential(Duration::ZERO), "mean demand"),
            (Demand::log_normal(mean, f64::NAN), "sigma"),
            (Demand::log_normal(mean, 0.0), "sigma"),
            (Demand::bimodal(mean, 1.5, 2.0), "share of heavy"),
            (Demand::bimodal(mean, 0.5, -2.0), "weight of heavy"),
            (Demand::pareto(mean, 0.0, 2.0), "alpha"),
            (Demand::pareto(mean, 1.5, 0.5), "cap"),
        ] {
            let error = demand.check().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
