//! Shares of traffic as exact fractions, and as the whole numbers that policies take for weights.

use crate::Weight;

/// What one instance, zone or priority gets of the traffic.
///
/// Exact as long as the numbers fit; the same as a float for when they do not, since products of thousands of different
/// weights have no common denominator that does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share {
    exact: Option<(u128, u128)>,
    value: f64,
}

impl Share {
    pub(super) const ZERO: Self = Self { exact: Some((0, 1)), value: 0.0 };
    pub(super) const ONE: Self = Self { exact: Some((1, 1)), value: 1.0 };

    /// `part` of `whole`; nothing of nothing is nothing.
    #[allow(clippy::cast_precision_loss)] // a float is what it is then
    pub(super) fn of(part: u128, whole: u128) -> Self {
        if part == 0 || whole == 0 {
            return Self::ZERO;
        }
        let divisor = common_divisor(part, whole);
        Self { exact: Some((part / divisor, whole / divisor)), value: part as f64 / whole as f64 }
    }

    /// This part of that one.
    #[must_use]
    pub(super) fn times(self, other: Self) -> Self {
        let exact = self.exact.zip(other.exact).and_then(|((a, b), (c, d))| {
            // Crosswise first, so that the products are as small as they can be.
            let (x, y) = (common_divisor(a, d).max(1), common_divisor(c, b).max(1));
            Some(((a / x).checked_mul(c / y)?, (b / y).checked_mul(d / x)?))
        });
        Self { exact, value: self.value * other.value }
    }

    /// All of them together; `None` for nothing.
    pub(super) fn sum(shares: impl Iterator<Item = Self>) -> Option<Self> {
        let add = |a: Self, b: Self| {
            let exact = a.exact.zip(b.exact).and_then(|((a, under), (b, other))| {
                let common = (under / common_divisor(under, other).max(1)).checked_mul(other)?;
                let both = a.checked_mul(common / under)?.checked_add(b.checked_mul(common / other)?)?;
                let divisor = common_divisor(both, common).max(1);
                Some((both / divisor, common / divisor))
            });
            Self { exact, value: a.value + b.value }
        };
        shares.reduce(add).filter(|sum| !sum.is_zero())
    }

    /// How much of `whole`, which is not zero, it is.
    #[must_use]
    pub(super) fn over(self, whole: Self) -> Self {
        let inverse =
            Self { exact: whole.exact.map(|(over, under)| (under, over)), value: 1.0 / whole.value };
        self.times(inverse)
    }

    pub(super) fn value(self) -> f64 {
        self.value
    }

    pub(super) fn is_zero(self) -> bool {
        self.value <= 0.0
    }
}

/// The largest weight that is given out, below [`Weight::MAX`].
const MOST: u64 = 1 << 40;

const _: () = assert!(MOST < Weight::MAX.thousandths());

/// Whole numbers in the proportions of `shares`, which are all above zero; exact if numbers up to 2^40 can say it, else
/// within a part in 2^40 of the largest.
pub(super) fn weights(shares: &[Share]) -> Vec<u64> {
    exact(shares).unwrap_or_else(|| rounded(shares))
}

fn exact(shares: &[Share]) -> Option<Vec<u64>> {
    let mut common = 1_u128;
    for share in shares {
        let (_, under) = share.exact?;
        common = (common / common_divisor(common, under)).checked_mul(under)?;
    }
    let scaled: Option<Vec<u128>> = shares
        .iter()
        .map(|share| share.exact.and_then(|(over, under)| over.checked_mul(common / under)))
        .collect();
    let scaled = scaled?;
    let divisor = scaled.iter().fold(0, |divisor, &number| common_divisor(number, divisor)).max(1);
    let largest = scaled.iter().max()? / divisor;
    if largest > u128::from(MOST) {
        return None;
    }
    // In thousandths, so that weights are whole where they can be.
    let unit = if largest <= u128::from(MOST / 1_000) { 1_000 } else { 1 };
    scaled.iter().map(|number| u64::try_from(number / divisor * unit).ok()).collect()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // 0 ..= 2^40
fn rounded(shares: &[Share]) -> Vec<u64> {
    let largest = shares.iter().map(|share| share.value).fold(f64::MIN_POSITIVE, f64::max);
    shares.iter().map(|share| ((share.value / largest * MOST as f64).round() as u64).max(1)).collect()
}

/// Of 0 and a number, that number.
pub(super) fn common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_multiply_exactly() {
        let third = Share::of(1, 3);
        assert_eq!(third.times(Share::of(3, 4)).exact, Some((1, 4)));
        assert_eq!(third.times(Share::ZERO).exact, Some((0, 1)));
        assert_eq!(Share::of(7, 7), Share::ONE);
        assert_eq!((Share::of(0, 5), Share::of(5, 0)), (Share::ZERO, Share::ZERO));
        assert!(Share::ZERO.is_zero() && !third.is_zero());
        // 66.67 / 16.67 / 16.67 are 4, 1 and 1, without a remainder.
        assert_eq!(weights(&[Share::of(2, 3), Share::of(1, 6), Share::of(1, 6)]), [4_000, 1_000, 1_000]);
    }

    #[test]
    fn numbers_that_do_not_fit_are_rounded_and_nobody_is_left_out() {
        // Primes, whose common denominator has hundreds of digits.
        let primes: Vec<u128> = (2_u128..2_000).filter(|n| (2..*n).all(|d| n % d > 0)).collect();
        let shares: Vec<Share> = primes.iter().map(|prime| Share::of(1, *prime)).collect();
        assert_eq!(exact(&shares), None);
        let weights = weights(&shares);
        assert_eq!(weights[0], MOST);
        for (prime, weight) in primes.iter().zip(&weights) {
            #[allow(clippy::cast_precision_loss)]
            let off = *weight as f64 * *prime as f64 / (2.0 * MOST as f64);
            assert!((off - 1.0).abs() < 1e-8, "1/{prime} is {weight}");
        }
        let tiny = Share::of(1, u128::MAX).times(Share::of(1, u128::MAX));
        assert_eq!(super::weights(&[Share::ONE, tiny]), [MOST, 1]);
    }

    proptest! {
        #[test]
        fn weights_are_in_proportion(parts in proptest::collection::vec((1_u64..=u64::MAX, 1_u64..=u64::MAX), 1..20)) {
            let shares: Vec<Share> =
                parts.iter().map(|(a, b)| Share::of(u128::from(*a), u128::from(*b))).collect();
            let weights = weights(&shares);
            prop_assert!(weights.iter().all(|weight| (1..=MOST).contains(weight)));
            let largest = shares.iter().map(|share| share.value).fold(0.0, f64::max);
            #[allow(clippy::cast_precision_loss)]
            let top = *weights.iter().max().unwrap() as f64;
            for (share, weight) in shares.iter().zip(&weights) {
                #[allow(clippy::cast_precision_loss)]
                let off = (share.value / largest - *weight as f64 / top).abs();
                prop_assert!(off < 1e-9, "{share:?} {weight}");
            }
        }
    }
}
