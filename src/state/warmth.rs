//! Slow start: how much of its share an instance gets that has just come into use.

use std::time::Duration;

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The curve of a slow start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Warmth {
    /// Zero is off.
    pub(crate) window: Duration,
    /// The least part of its share that an instance gets, above 0 and up to 1.
    pub(crate) min: f32,
    pub(crate) shape: Shape,
}

/// How the part grows with time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// `(t / window)^(1 / aggression)`, with t one second at least: Envoy's.
    Power { aggression: f32 },
    /// In whole hundredths, from one on: Dubbo's, for its usual weight of 100.
    Steps,
}

/// Dubbo's weight while an instance warms up, in whole numbers, in its single precision, of times in milliseconds.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn steps(uptime: u64, warmup: u64, weight: u32) -> u32 {
    let step = (uptime as f32 / (warmup as f32 / weight as f32)) as u32;
    step.clamp(1, weight.max(1))
}

/// A [`Warmth`] that picks read while it is replaced; a mixture of two for a moment does no harm.
#[derive(Debug, Default)]
pub(super) struct WarmthCell {
    window: AtomicU64,
    min: AtomicU32,
    /// `1 / aggression`; 0 stands for steps.
    exponent: AtomicU32,
}

impl WarmthCell {
    pub(super) fn set(&self, warmth: Option<Warmth>) {
        let window = warmth.map_or(0, |warmth| u64::try_from(warmth.window.as_nanos()).unwrap_or(u64::MAX));
        if let Some(warmth) = warmth {
            self.min.store(warmth.min.to_bits(), Ordering::Relaxed);
            let exponent = match warmth.shape {
                Shape::Power { aggression } => 1.0 / aggression,
                Shape::Steps => 0.0,
            };
            self.exponent.store(exponent.to_bits(), Ordering::Relaxed);
        }
        self.window.store(window, Ordering::Relaxed);
    }

    pub(super) fn is_on(&self) -> bool {
        self.window.load(Ordering::Relaxed) != 0
    }

    /// How long an instance is not warm yet that has been in use for `age` nanoseconds.
    pub(super) fn left(&self, age: u64) -> Option<Duration> {
        self.window.load(Ordering::Relaxed).checked_sub(age).map(Duration::from_nanos)
    }

    /// The part of its share that an instance gets which has been in use for `age` nanoseconds; `None` once it is warm.
    pub(super) fn part(&self, age: u64) -> Option<f32> {
        let window = self.window.load(Ordering::Relaxed);
        if age >= window {
            return None;
        }
        let [min, exponent] =
            [&self.min, &self.exponent].map(|bits| f32::from_bits(bits.load(Ordering::Relaxed)));
        #[allow(clippy::cast_precision_loss)] // a part needs no more than 24 bits
        let grown = if exponent > 0.0 {
            (age.max(1_000_000_000) as f32 / window as f32).powf(exponent)
        } else {
            steps(age / 1_000_000, (window / 1_000_000).max(1), 100) as f32 / 100.0
        };
        Some(grown.max(min).min(1.0))
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    fn cell(window: u64, min: f32, shape: Shape) -> WarmthCell {
        let cell = WarmthCell::default();
        cell.set(Some(Warmth { window: Duration::from_secs(window), min, shape }));
        cell
    }

    fn at(cell: &WarmthCell, seconds: f64) -> f64 {
        let age = u64::try_from(Duration::from_secs_f64(seconds).as_nanos()).unwrap();
        cell.part(age).map_or(1.0, f64::from)
    }

    #[test]
    #[allow(clippy::approx_constant)] // a row of a table
    fn lbs_slow_start_table() {
        for (aggression, row) in [
            (0.5, [0.1, 0.1, 0.1, 0.1, 0.1, 0.25, 0.5625, 0.9669]),
            (1.0, [0.1, 0.1, 0.1, 0.1667, 0.25, 0.5, 0.75, 0.9833]),
            (1.5, [0.1, 0.1357, 0.2154, 0.3029, 0.3969, 0.63, 0.8255, 0.9889]),
            (2.0, [0.1291, 0.2236, 0.3162, 0.4082, 0.5, 0.7071, 0.866, 0.9916]),
            (3.0, [0.2554, 0.3684, 0.4642, 0.5503, 0.63, 0.7937, 0.9086, 0.9944]),
        ] {
            let cell = cell(60, 0.1, Shape::Power { aggression });
            for (seconds, part) in [1.0, 3.0, 6.0, 10.0, 15.0, 30.0, 45.0, 59.0].into_iter().zip(row) {
                let got = at(&cell, seconds);
                assert!((got - part).abs() < 0.0001, "aggression {aggression} at {seconds} s: {got}");
            }
            assert!((at(&cell, 0.0) - row[0]).abs() < 0.0001, "the first second is one");
            assert_eq!(cell.part(60_000_000_000), None);
        }
    }

    #[test]
    fn a_window_of_nothing_or_below_a_second_makes_no_more_than_a_whole_share() {
        assert!(!WarmthCell::default().is_on() && WarmthCell::default().part(0).is_none());
        let short = WarmthCell::default();
        let shape = Shape::Power { aggression: 1.0 };
        short.set(Some(Warmth { window: Duration::from_millis(500), min: 0.1, shape }));
        assert_eq!(short.part(0), Some(1.0));
        let long = WarmthCell::default();
        long.set(Some(Warmth { window: Duration::MAX, min: 0.01, shape }));
        assert_eq!(long.part(5), Some(0.01));
        long.set(None);
        assert_eq!(long.part(5), None);
    }

    #[test]
    fn dubbo_001_to_003_weights_while_warming_up() {
        for (uptime, weight) in [
            (0, 1),
            (13, 1),
            (6_000, 1),
            (12_000, 2),
            (60_000, 10),
            (300_000, 50),
            (300_023, 50),
            (305_999, 50),
            (306_000, 51),
            (540_000, 90),
            (588_000, 98),
            (594_000, 99),
            (600_000, 100),
            (1_200_000, 100),
        ] {
            assert_eq!(steps(uptime, 600_000, 100), weight, "{uptime} ms");
        }
        let cell = cell(600, 0.01, Shape::Steps);
        for (seconds, part) in
            [(1.0, 0.01), (6.0, 0.01), (30.0, 0.05), (60.0, 0.1), (300.0, 0.5), (599.0, 0.99)]
        {
            assert!((at(&cell, seconds) - part).abs() < 1e-6, "{seconds} s");
        }
        assert!((at(&cell, 600.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn dubbo_004_single_precision_matters() {
        assert_eq!((steps(593_999, 600_000, 100), steps(599_999, 600_000, 100)), (98, 99));
    }

    #[test]
    fn dubbo_005_other_weights() {
        for (uptime, weight) in [(6_000, 2), (11_999, 3), (60_000, 20), (599_999, 199)] {
            assert_eq!(steps(uptime, 600_000, 200), weight, "{uptime} ms");
        }
        for uptime in [1, 300_000, 599_999] {
            assert_eq!(steps(uptime, 600_000, 1), 1);
        }
    }
}
