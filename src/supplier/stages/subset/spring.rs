//! Spring Cloud's algorithm: that of the SRE book, over a hash of the client's id.

use crate::ServiceInstance;

/// `s[0] * 31^(n-1) + ... + s[n-1]` over UTF-16 units, wrapping, with the sign bit cleared: what Java hashes a text to.
pub(super) fn hash(text: &str) -> u32 {
    text.encode_utf16().fold(0_u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)))
        & 0x7fff_ffff
}

/// `size` of `list`, which is longer: the whole list is shuffled by the number of the client's round, and the client's
/// slice of it is cut out. What does not fill a slice is used by nobody in that round.
pub(super) fn subset(list: &[ServiceInstance], size: usize, client: u32) -> Vec<ServiceInstance> {
    let slices = u32::try_from(list.len() / size.max(1)).unwrap_or(u32::MAX).max(1);
    let (round, slice) = (client / slices, client % slices);
    let mut order: Vec<&ServiceInstance> = list.iter().collect();
    let mut generator = Generator::new(u64::from(round));
    for last in (1..order.len()).rev() {
        let at = generator.below(u32::try_from(last + 1).unwrap_or(u32::MAX));
        order.swap(last, at as usize);
    }
    let from = slice as usize * size;
    order.into_iter().skip(from).take(size).cloned().collect()
}

/// The 48-bit linear congruential generator of the JDK (Knuth, The Art of Computer Programming, volume 2, 3.2.1).
struct Generator(u64);

impl Generator {
    const MULTIPLIER: u64 = 0x5_deec_e66d;
    const MASK: u64 = (1 << 48) - 1;

    fn new(seed: u64) -> Self {
        Self((seed ^ Self::MULTIPLIER) & Self::MASK)
    }

    /// 31 random bits.
    fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(Self::MULTIPLIER).wrapping_add(0xb) & Self::MASK;
        #[allow(clippy::cast_possible_truncation)] // 48 bits without the lower 17
        let bits = (self.0 >> 17) as u32;
        bits
    }

    /// A number below `bound`, which is 1 to 2^31, without bias: a draw from the last incomplete run of `bound` numbers
    /// is drawn again.
    fn below(&mut self, bound: u32) -> u32 {
        if bound.is_power_of_two() {
            return u32::try_from((u64::from(bound) * u64::from(self.bits())) >> 31).unwrap_or_default();
        }
        loop {
            let bits = self.bits();
            let drawn = bits % bound;
            if u64::from(bits - drawn) + u64::from(bound) <= 1 << 31 {
                return drawn;
            }
        }
    }
}
