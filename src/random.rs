//! Chance: injected by a seed, or from the thread.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

/// Random numbers for one balancer.
///
/// Without a seed they come from the thread's generator, which two threads do not share. With one, a counter is mixed,
/// so that a test sees the same numbers in the same order.
#[derive(Debug)]
pub(crate) struct Random {
    seeded: Option<AtomicU64>,
}

impl Random {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self { seeded: seed.map(AtomicU64::new) }
    }

    /// What comes next, without taking it: from a seed the same numbers, else others, which are not the thread's either.
    pub(crate) fn fork(&self) -> Self {
        let state = match &self.seeded {
            Some(counter) => counter.load(Ordering::Relaxed),
            None => RandomState::new().build_hasher().finish(),
        };
        Self::new(Some(state))
    }

    /// Any `u64`, each alike.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        match &self.seeded {
            None => fastrand::u64(..),
            Some(counter) => mix(counter.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)),
        }
    }
}

/// `splitmix64`'s finaliser (Steele, Lea and Flood, 2014): every bit of the input moves half of the output's.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number below `n` from a random one, without a division (Lemire, 2019); the bias is below `n / 2^64`.
#[inline]
pub(crate) fn below(random: u64, n: usize) -> usize {
    #[allow(clippy::cast_possible_truncation)] // the product's high half is below n
    let at = ((u128::from(random) * n as u128) >> 64) as usize;
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_bounds_hold() {
        let draw = |seed| {
            let random = Random::new(Some(seed));
            (0..100).map(|_| below(random.next(), 7)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(draw(3).iter().all(|&at| at < 7) && (0..7).all(|at| draw(3).contains(&at)));
        assert_eq!((below(u64::MAX, 1), below(0, 5), below(u64::MAX, 5)), (0, 0, 4));
    }
}
