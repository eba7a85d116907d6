use std::time::Duration;

use super::settings::{EjectionTime, Growth, Limits};

fn time(base: u64, max: u64, growth: Growth) -> EjectionTime {
    EjectionTime {
        base: Duration::from_secs(base),
        max: Duration::from_secs(max),
        jitter: Duration::ZERO,
        growth,
    }
}

/// How many of `n` may go, one after the other.
fn most(limits: Limits, n: usize) -> usize {
    (0..=n).find(|out| !limits.admit(n, *out, *out)).unwrap_or(n + 1)
}

#[test]
fn lbs_limits_are_checked_with_the_one_that_is_to_go() {
    let limits = |percent, one| Limits { max_percent: percent, always_one: one, min_available_percent: 0 };
    // The table of what a check after the ejection lets go.
    for (n, percent, one, gone) in [
        (3, 67, false, 2),
        (10, 10, false, 1),
        (9, 10, false, 0),
        (25, 10, false, 2),
        // One may go in any case.
        (9, 10, true, 1),
        (1, 10, true, 1),
        (3, 0, false, 0),
        (4, 100, false, 4),
    ] {
        assert_eq!(most(limits(percent, one), n), gone, "{n} at {percent} %");
    }
}

#[test]
fn lbs_half_of_the_list_stays_whatever_the_limit_says() {
    let limits = Limits { max_percent: 100, always_one: true, min_available_percent: 50 };
    for (n, gone) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (9, 4), (10, 5), (10_000, 5_000)] {
        assert_eq!(most(limits, n), gone, "of {n}");
    }
    // Those that are out for another reason count for the floor, and not for the limit.
    let tenth = Limits { max_percent: 10, ..limits };
    assert!(tenth.admit(20, 1, 9) && !tenth.admit(20, 1, 10) && !tenth.admit(20, 2, 2));
    assert!(!tenth.admit(2, 0, 1) && !tenth.admit(0, 0, 0));
    assert!(!limits.admit(5, 7, 9), "counts that do not fit together for a moment");
}

#[test]
fn lbs_ejections_grow_by_their_base_up_to_the_most() {
    let linear = time(30, 300, Growth::Linear);
    let seconds: Vec<u64> = (1..=12).map(|times| linear.of(times).as_secs()).collect();
    assert_eq!(seconds, [30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 300, 300]);
    assert_eq!(linear.of(0).as_secs(), 30);
    assert_eq!(time(60, 30, Growth::Linear).of(3).as_secs(), 60, "the most is never below the base");
    assert_eq!(
        time(u64::MAX, u64::MAX, Growth::Linear).of(u32::MAX),
        Duration::from_secs(u64::MAX).saturating_mul(2).min(Duration::from_secs(u64::MAX))
    );
}

#[test]
fn lbs_jitter_is_added_up_to_its_most() {
    let jittered = EjectionTime { jitter: Duration::from_secs(10), ..time(30, 300, Growth::Linear) };
    assert_eq!(jittered.drawn(1, 0), Duration::from_secs(30));
    assert_eq!(jittered.drawn(1, 1 << 63), Duration::from_secs(35));
    let most = jittered.drawn(20, u64::MAX);
    assert!(most < Duration::from_secs(310) && most > Duration::from_millis(309_999));
}

/// Ribbon's blackout: `min(2^min(f - T, 16) * F, M)` after f failures of which T trip it.
#[test]
fn ribbon_054_to_056_blackouts() {
    for (threshold, factor, max, failures, blackouts) in [
        (3, 10, 30, 0..=8, vec![0, 0, 0, 10, 20, 30, 30, 30, 30]),
        (1, 1, 30, 1..=7, vec![1, 2, 4, 8, 16, 30, 30]),
        (5, 2, 60, 5..=10, vec![2, 4, 8, 16, 32, 60]),
    ] {
        let time = time(factor, max, Growth::Doubling);
        let got: Vec<u64> = failures
            .map(|f: u32| if f < threshold { 0 } else { time.of(f - threshold + 1).as_secs() })
            .collect();
        assert_eq!(got, blackouts, "T={threshold}, F={factor}, M={max}");
    }
    let long = time(1, u64::MAX, Growth::Doubling);
    assert_eq!((long.of(17), long.of(99)), (Duration::from_secs(1 << 16), Duration::from_secs(1 << 16)));
}
