//! Ribbon's circuit breaker as a mode of the outlier detection.

use std::time::Duration;

use evenkeel::config::OutlierDetectionProperties;
use evenkeel::policy::RoundRobin;
use evenkeel::{EjectionCause, Failure, InstanceState, LoadBalancer, Outcome};

use super::ejection::{call, lease, over_n, state};
use crate::support::*;

const GOOD: Outcome = Outcome::Status(200);
const BROKEN: Outcome = Outcome::Failure(Failure::Timeout);

async fn tripped() -> LoadBalancer {
    let lb = over_n(3, OutlierDetectionProperties::circuit_breaker(), RoundRobin::default());
    pick(&lb).await;
    for failures in 1..=3 {
        assert!(!state(&lb, "1", InstanceState::is_skipped));
        lease(&lb, "1").await.complete(BROKEN);
        assert_eq!(state(&lb, "1", InstanceState::consecutive_failures), failures);
    }
    lb
}

fn left(lb: &LoadBalancer) -> Duration {
    state(lb, "1", InstanceState::skipped_until).unwrap() - tokio::time::Instant::now()
}

#[tokio::test(start_paused = true)]
async fn ribbon_057_three_failures_open_it_for_ten_seconds() {
    let lb = tripped().await;
    assert_eq!(state(&lb, "1", InstanceState::ejected), Some(EjectionCause::ConsecutiveLocalErrors));
    assert_eq!(left(&lb), Duration::from_secs(10));
    advance(9.999).await;
    assert_eq!(count(&picks(&lb, 30).await, "1"), 0);
    advance(0.001).await;
    lease(&lb, "1").await.complete(GOOD);
    even(&picks(&lb, 300).await, "0 1 2", 100, 0);
}

#[tokio::test(start_paused = true)]
async fn ribbon_058_a_success_closes_it_at_once_and_forgets_everything() {
    let lb = over_n(1, OutlierDetectionProperties::circuit_breaker(), RoundRobin::default());
    for _ in 0..5 {
        call(&lb, |_| BROKEN).await;
    }
    assert!(state(&lb, "0", InstanceState::is_skipped), "all may be out");
    // All are out, so all are used.
    call(&lb, |_| GOOD).await;
    assert!(!state(&lb, "0", InstanceState::is_skipped));
    assert_eq!(state(&lb, "0", InstanceState::consecutive_failures), 0);
    for _ in 0..3 {
        call(&lb, |_| BROKEN).await;
    }
    let until = state(&lb, "0", InstanceState::skipped_until).unwrap();
    assert_eq!(until - tokio::time::Instant::now(), Duration::from_secs(10), "as the first time");
}

#[tokio::test(start_paused = true)]
async fn ribbon_059_a_failure_after_the_time_opens_it_for_twice_as_long() {
    let lb = tripped().await;
    for seconds in [20, 30, 30] {
        tokio::time::sleep(left(&lb)).await;
        lease(&lb, "1").await.complete(BROKEN);
        assert_eq!(left(&lb), Duration::from_secs(seconds));
    }
}

#[tokio::test(start_paused = true)]
async fn ribbon_a_breaker_hears_of_calls_without_an_answer_alone() {
    let lb = over_n(3, OutlierDetectionProperties::circuit_breaker(), RoundRobin::default());
    for _ in 0..30 {
        lease(&lb, "1").await.complete(Outcome::Status(500));
    }
    assert!(!state(&lb, "1", InstanceState::is_skipped));
}
