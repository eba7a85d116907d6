//! Adaptive: cases 040 to 044. The arithmetic of a load is tested beside it, in `src/policy/dubbo/adaptive.rs`; that of what
//! is reported in `src/state/stats.rs`.

use std::time::Duration;

use evenkeel::policy::Adaptive;
use evenkeel::{LoadBalancer, LoadReport, Outcome};

use super::common::*;
use crate::support::*;

/// A good call to `id`, whose reply has these attachments.
async fn reply(lb: &LoadBalancer, id: &str, time: &str, load: &str, rt: &str) {
    let choice = lease(lb, id).await;
    choice.report(&LoadReport::from_dubbo(Some(time), Some(load), Some(rt)));
    choice.complete(Outcome::Success);
}

fn said(lb: &LoadBalancer, id: &str) -> (Option<f64>, Option<f64>) {
    let list = lb.snapshot().unwrap();
    let state = list.instances().find(|state| state.instance().id() == id).unwrap();
    let stats = state.statistics().unwrap();
    (stats.reported_cpu(), stats.reported_latency())
}

#[tokio::test(start_paused = true)]
async fn dubbo_040_041_the_smaller_load_has_the_pick() {
    for policy in [Adaptive::exact(), Adaptive::default()] {
        let lb = weighted(&[1, 1], policy);
        reply(&lb, "a", "1", "0.9", "16").await;
        reply(&lb, "b", "1", "0.2", "16").await;
        assert_eq!(count(&picks(&lb, 100).await, "b"), 100, "fewer processors in use");
        // Twice that load is 0.4, and three times 0.6; from five on it is more than a's 0.9.
        let _held = hold(&lb, "b", 6).await;
        assert_eq!(pick(&lb).await, "a");
    }
}

#[tokio::test(start_paused = true)]
async fn dubbo_042_the_latency_that_is_told_is_a_mean() {
    let lb = weighted(&[1, 1], Adaptive::exact());
    let mut expected = 0.0;
    for (time, rt) in (1..).zip([100.0, 10.0, 100.0, 5_000.0]) {
        reply(&lb, "a", &time.to_string(), "0.5", &rt.to_string()).await;
        expected = 0.5 * expected + 0.5 * rt;
        assert_eq!(said(&lb, "a"), (Some(0.5), Some(expected)));
    }
}

#[tokio::test(start_paused = true)]
async fn dubbo_043_who_waits_for_twice_the_time_out_is_next_and_equals_go_by_weight() {
    for policy in [Adaptive::exact(), Adaptive::default()] {
        let lb = weighted(&[1, 1], policy.with_timeout(Duration::from_millis(500)));
        reply(&lb, "a", "1", "0.1", "1").await;
        reply(&lb, "b", "1", "0.9", "900").await;
        assert_eq!(order(&lb, 20).await, "a".repeat(20));
        advance(0.6).await;
        assert_eq!(order(&lb, 20).await, "a".repeat(20));
        advance(0.5).await;
        assert!(order(&lb, 20).await.contains('b'), "1.1 s without a pick are more than a second");
        assert_eq!(order(&lb, 20).await, "a".repeat(20), "one pick is enough");
    }
    // Nobody told anything: all loads are 0.
    let all = picks(&weighted(&[1, 9], Adaptive::exact()), 10_000).await;
    assert!(per_mille(&all, "a").abs_diff(100) <= 10, "{:?}", tally(&all));
}

#[tokio::test(start_paused = true)]
async fn dubbo_044_a_report_from_before_and_one_without_numbers() {
    let lb = weighted(&[1, 1], Adaptive::exact());
    reply(&lb, "a", "1000", "0.5", "20").await;
    assert_eq!(said(&lb, "a"), (Some(0.5), Some(10.0)));
    reply(&lb, "a", "999", "0.1", "90").await;
    assert_eq!(said(&lb, "a"), (Some(0.5), Some(10.0)));
    reply(&lb, "a", "now", "0.1", "90").await;
    assert_eq!(said(&lb, "a"), (Some(0.5), Some(10.0)), "no number is 0, which is before");
    reply(&lb, "a", "1001", "none", "x").await;
    assert_eq!(said(&lb, "a"), (Some(0.0), Some(5.0)));
}
