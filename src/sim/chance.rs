//! Random numbers of a run, from its seed.

use crate::random::{below, mix};

/// One stream of numbers. Each use of chance has a stream of its own, so that arrivals and their demands are the same
/// for every policy.
#[derive(Clone, Debug)]
pub(super) struct Chance(u64);

impl Chance {
    /// The stream `name` of a seed.
    pub(super) fn new(seed: u64, name: u64) -> Self {
        Self(mix(seed ^ mix(name.wrapping_add(0x51ed_270b))))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        below(self.next(), n)
    }

    /// Above 0, and at most 1.
    #[allow(clippy::cast_precision_loss)] // 53 bits
    pub(super) fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Of mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }

    /// Of mean 0 and deviation 1 (Box and Muller, 1958).
    pub(super) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}
