//! What chance allows.

/// How seldom a policy that is right breaks a bound: once in a million seeds.
pub(super) const SELDOM: f64 = 1e-6;
/// What a normal variable exceeds as seldom.
const Z: f64 = 4.753_424;

/// Pearson's statistic of counts against expected shares, which sum up to 1.
#[allow(clippy::cast_precision_loss)]
pub(super) fn chi_square(counts: &[u64], shares: &[f64]) -> f64 {
    let total: u64 = counts.iter().sum();
    let term = |(count, share): (&u64, &f64)| {
        let expected = share * total as f64;
        (*count as f64 - expected).powi(2) / expected
    };
    counts.iter().zip(shares).map(term).sum()
}

/// What that seldom exceeds with so many kinds (Wilson and Hilferty, 1931).
#[allow(clippy::cast_precision_loss)]
pub(super) fn chi_square_bound(kinds: usize) -> f64 {
    let freedom = kinds.saturating_sub(1).max(1) as f64;
    let spread = 2.0 / (9.0 * freedom);
    freedom * (1.0 - spread + Z * spread.sqrt()).powi(3)
}

/// How long a run of one kind seldom is, in so many draws by chance, if the kind has this share.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn run_bound(draws: usize, share: f64) -> usize {
    // A run of k begins anywhere with a probability of share^k; it is the first to do so if the draw before is another.
    let log = (SELDOM / draws as f64).ln() / share.ln();
    log.ceil().max(1.0) as usize
}

/// How often a kind of this share is seldom drawn in `window` draws, if one looks at so many windows.
#[allow(clippy::cast_precision_loss)]
pub(super) fn window_bound(window: usize, share: f64, looks: usize) -> usize {
    let seldom = SELDOM / looks as f64;
    let n = window as f64;
    // The tail of the binomial distribution, from its end down to where it is no longer seldom.
    let mut tail = 0.0;
    let mut term = share.powi(i32::try_from(window).unwrap_or(i32::MAX));
    for hits in (1..=window).rev() {
        tail += term;
        if tail > seldom {
            return hits;
        }
        let k = hits as f64;
        term *= k / (n - k + 1.0) * (1.0 - share) / share;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_hardly_above_the_exact_ones() {
        // For an even number of degrees the tail has a closed form: e^(-x/2) times the first terms of e^(x/2).
        for (kinds, expected) in [(3, 27.631), (11, 46.863), (101, 182.127)] {
            let off = chi_square_bound(kinds) / expected;
            // Never below: a policy that is right must not be accused.
            assert!((1.0..1.1).contains(&off), "{kinds}: {off}");
        }
        assert!(chi_square(&[10, 10], &[0.5, 0.5]) < 1e-9);
        assert!((chi_square(&[30, 10], &[0.5, 0.5]) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn runs_and_windows_of_real_chance_are_within_their_bounds_and_near_them() {
        assert_eq!(run_bound(20_000, 0.1), 11);
        let random = crate::random::Random::new(Some(3));
        let drawn: Vec<usize> = (0..20_000).map(|_| crate::random::below(random.next(), 10)).collect();
        let most = drawn.windows(100).map(|all| all.iter().filter(|one| **one == 0).count()).max().unwrap();
        let bound = window_bound(100, 0.1, 20_000 * 10);
        assert!(most <= bound && bound <= 35, "{most} {bound}");
        // All of it: certain.
        assert_eq!(window_bound(5, 1.0, 1), 5);
    }
}
