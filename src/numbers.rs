//! Maps by numbers of our own.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by a number that no outsider chooses: one that was counted, or a hash with a secret of its own. It needs no hash
/// against collisions that somebody contrives, which costs more than all else of a look-up.
pub(crate) type ByNumber<V> = HashMap<u64, V, BuildHasherDefault<Spread>>;

/// Spreads a number over all bits: a table goes by the lowest and by the highest of them.
#[derive(Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Numbers do not come this way.
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // Fibonacci hashing (Knuth, The Art of Computer Programming, 6.4), whose product has its best bits at the top.
        let product = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    #[test]
    fn numbers_in_a_row_meet_neither_in_the_lowest_nor_in_the_highest_bits() {
        let spread = BuildHasherDefault::<Spread>::default();
        let hashes: Vec<u64> = (0..128_u64).map(|number| spread.hash_one(number)).collect();
        let lowest: HashSet<u64> = hashes.iter().map(|hash| hash & 0xff).collect();
        let highest: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
        assert!(lowest.len() > 80, "{} of 128", lowest.len());
        assert!(highest.len() > 80, "{} of 128", highest.len());
    }

    #[test]
    fn numbers_that_agree_in_their_highest_bits_are_told_apart() {
        let mut map = ByNumber::default();
        map.extend((0..1_000_u64).map(|number| (7 << 60 | number, number)));
        assert!((0..1_000_u64).all(|number| map.get(&(7 << 60 | number)) == Some(&number)));
    }
}
