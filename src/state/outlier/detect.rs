//! Which instances are outliers in a while: pure functions of what was counted.

use super::settings::{FailurePercentage, SuccessRate};
use crate::state::tally::Window;

/// Whom the success rate names: below mean - factor x standard deviation, both of all that have enough calls.
///
/// By this rule alone, equal bad instances are seen only while they are fewer than 1 / (1 + factor^2) of all (21.7 % with 1.9),
/// and none is ever seen among four.
pub(super) fn by_success_rate(windows: &[Window], rule: SuccessRate) -> Vec<usize> {
    let known = enough(windows, rule.request_volume);
    let Some(threshold) = threshold(windows, &known, rule) else { return Vec::new() };
    known.into_iter().filter(|at| windows[*at].success_rate() < threshold).collect()
}

/// Below which rate an instance is an outlier; `None` with too few to compare.
fn threshold(windows: &[Window], known: &[usize], rule: SuccessRate) -> Option<f64> {
    if known.is_empty() || known.len() < rule.min_hosts as usize {
        return None;
    }
    let rates = || known.iter().map(|at| windows[*at].success_rate());
    #[allow(clippy::cast_precision_loss)] // fewer than 2^53 instances
    let n = known.len() as f64;
    let mean = rates().sum::<f64>() / n;
    let variance = rates().map(|rate| (rate - mean).powi(2)).sum::<f64>() / n;
    Some(mean - rule.deviations * variance.sqrt())
}

/// Whom the failure percentage names.
pub(super) fn by_failure_percentage(windows: &[Window], rule: FailurePercentage) -> Vec<usize> {
    let known = enough(windows, rule.request_volume);
    if known.len() < rule.min_hosts as usize {
        return Vec::new();
    }
    known.into_iter().filter(|at| windows[*at].failure_rate() >= rule.threshold).collect()
}

fn enough(windows: &[Window], volume: u32) -> Vec<usize> {
    (0..windows.len()).filter(|at| windows[*at].calls > 0 && windows[*at].calls >= volume).collect()
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    const RULE: SuccessRate = SuccessRate { min_hosts: 5, request_volume: 100, deviations: 1.9 };

    fn windows(rates: &[u32]) -> Vec<Window> {
        rates.iter().map(|rate| Window { calls: 100, failed: 100 - rate }).collect()
    }

    #[test]
    fn lbs_success_rate_table() {
        let nines: Vec<u32> = [99; 9].into_iter().chain([90]).collect();
        let zeros: Vec<u32> = [0, 0].into_iter().chain([100; 8]).collect();
        for (rates, expected, ejected) in [
            (vec![50, 100, 100, 100, 100], Some(52.0), vec![0]),
            (vec![0, 100, 100, 100, 100], Some(4.0), vec![0]),
            (nines, Some(92.97), vec![9]),
            (vec![99, 98, 99, 97, 99, 98, 99, 99, 98, 80], Some(86.014), vec![9]),
            (vec![0, 0, 100, 100, 100], Some(-33.08), vec![]),
            (zeros, Some(4.0), vec![0, 1]),
            // Fewer than five: nothing is compared.
            (vec![70, 100, 100, 100], None, vec![]),
        ] {
            let all = windows(&rates);
            let known: Vec<usize> = (0..all.len()).collect();
            match (threshold(&all, &known, RULE), expected) {
                (Some(got), Some(expected)) => assert!((got - expected).abs() < 0.01, "{rates:?}: {got}"),
                (got, expected) => assert_eq!(got, expected),
            }
            assert_eq!(by_success_rate(&all, RULE), ejected, "{rates:?}");
        }
        // The figures of the table's row of four, which min-hosts keeps from being used.
        let four = windows(&[70, 100, 100, 100]);
        let rule = SuccessRate { min_hosts: 4, ..RULE };
        assert!((threshold(&four, &[0, 1, 2, 3], rule).unwrap() - 67.82).abs() < 0.01);
        assert_eq!(by_success_rate(&four, rule), Vec::<usize>::new());
    }

    /// Equal bad instances are named only while they are fewer than 1 / (1 + 1.9^2) of all.
    #[test]
    fn lbs_success_rate_is_blind_to_a_quarter_of_bad_ones() {
        let rule = SuccessRate { min_hosts: 1, ..RULE };
        for n in 1..60_usize {
            let seen = (1..=n).take_while(|bad| {
                let rates: Vec<u32> = (0..n).map(|at| if at < *bad { 0 } else { 100 }).collect();
                by_success_rate(&windows(&rates), rule).len() == *bad
            });
            #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let most = (n as f64 / (1.0 + 1.9_f64.powi(2))).floor() as usize;
            assert_eq!(seen.count(), most, "of {n}");
        }
        for (n, bad) in [(4, 0), (5, 1), (9, 1), (10, 2), (13, 2), (14, 3), (18, 3), (19, 4)] {
            #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let most = (f64::from(n) / 4.61).floor() as i32;
            assert_eq!(most, bad, "of {n}");
        }
    }

    #[test]
    fn lbs_failure_percentage_is_reached_at_its_threshold() {
        let rule = FailurePercentage { min_hosts: 5, request_volume: 50, threshold: 85.0 };
        let window = |calls, failed| Window { calls, failed };
        let mut all = vec![window(100, 85), window(100, 84), window(50, 50), window(49, 49), window(60, 0)];
        assert_eq!(by_failure_percentage(&all, rule), Vec::<usize>::new(), "four have enough calls");
        all.push(window(200, 170));
        assert_eq!(by_failure_percentage(&all, rule), [0, 2, 5]);
        assert_eq!(
            by_failure_percentage(&[], FailurePercentage { min_hosts: 0, ..rule }),
            Vec::<usize>::new()
        );
        assert_eq!(by_success_rate(&[], SuccessRate { min_hosts: 0, ..RULE }), Vec::<usize>::new());
        let idle = [Window::default(); 9];
        assert_eq!(by_success_rate(&idle, SuccessRate { request_volume: 0, ..RULE }), Vec::<usize>::new());
    }
}
