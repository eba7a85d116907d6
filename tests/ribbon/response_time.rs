//! Weighted response time: cases 025 to 030.

use std::time::Duration;

use evenkeel::policy::WeightedResponseTime;
use evenkeel::{LoadBalancer, Outcome};

use super::common::*;
use crate::support::*;

/// A balancer whose instances `a`, `b` and so on each answered once, after so many milliseconds; and time for weights.
async fn answered(policy: WeightedResponseTime, millis: &[u64]) -> LoadBalancer {
    let ids: Vec<String> = (b'a'..).zip(millis).map(|(id, _)| char::from(id).to_string()).collect();
    let ids = ids.join(" ");
    let lb = ruled(list(&ids), policy);
    for (id, millis) in ids.split_whitespace().zip(millis) {
        let choice = lease(&lb, id).await;
        tokio::time::advance(Duration::from_millis(*millis)).await;
        choice.complete(Outcome::Success);
    }
    advance(31.0).await;
    lb
}

/// The shares of the instances in so many picks, in percent.
async fn shares(lb: &LoadBalancer, ids: &str, n: usize) -> Vec<f64> {
    let all = picks(lb, n).await;
    #[allow(clippy::cast_precision_loss)]
    let share = |id: &str| count(&all, id) as f64 * 100.0 / n as f64;
    ids.split_whitespace().map(share).collect()
}

#[tokio::test(start_paused = true)]
async fn ribbon_025_026_shares_follow_the_mean_response_times() {
    for policy in [WeightedResponseTime::exact(), WeightedResponseTime::default()] {
        let lb = answered(policy, &[10, 40, 80, 100]).await;
        let found = shares(&lb, "a b c d", 20_000).await;
        let near = found.iter().zip([31.88, 27.54, 21.74, 18.84]).all(|(a, b)| (a - b).abs() < 1.0);
        assert!(near, "{found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn ribbon_027_two_thirds_for_who_is_twice_as_fast() {
    let lb = answered(WeightedResponseTime::exact(), &[100, 200]).await;
    let found = shares(&lb, "a b", 20_000).await;
    assert!((found[0] - 66.67).abs() < 1.0, "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn ribbon_028_without_weights_it_is_a_round_robin() {
    let lb = answered(WeightedResponseTime::exact(), &[70]).await;
    assert_eq!(picks(&lb, 5).await.concat(), "aaaaa");
    // Nobody has answered yet: each in its turn.
    let lb = ruled(list("a b c"), WeightedResponseTime::default());
    even(&picks(&lb, 9).await, "a b c", 3, 0);
}

#[tokio::test(start_paused = true)]
async fn ribbon_029_who_alone_took_any_time_gets_nothing() {
    let lb = answered(WeightedResponseTime::exact(), &[0, 50]).await;
    assert_eq!(count(&picks(&lb, 200).await, "b"), 0);
    // One without an answer is not taken for the fastest: it counts as the mean of the others.
    let lb = ruled(list("a b"), WeightedResponseTime::default());
    let choice = lease(&lb, "b").await;
    tokio::time::advance(Duration::from_millis(50)).await;
    choice.complete(Outcome::Success);
    advance(31.0).await;
    even(&picks(&lb, 1_000).await, "a b", 500, 60);
}

#[tokio::test(start_paused = true)]
async fn ribbon_030_a_list_that_shrinks_has_weights_of_its_own() {
    let live = Live::new(list("a b c"));
    let lb = over(chain(live.source()), WeightedResponseTime::default());
    for (id, millis) in [("a", 300), ("b", 200), ("c", 100)] {
        let choice = lease(&lb, id).await;
        tokio::time::advance(Duration::from_millis(millis)).await;
        choice.complete(Outcome::Success);
    }
    advance(31.0).await;
    assert_eq!(met(&lb, 100).await.len(), 3);
    live.set(list("b")).await;
    assert_eq!(picks(&lb, 3).await.concat(), "bbb");
    // What is known outlives the list: with a newcomer, weights are those of the answers.
    live.set(list("a c")).await;
    let found = shares(&lb, "a c", 10_000).await;
    assert!((found[1] - 75.0).abs() < 2.0, "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn weights_follow_the_newest_answers_and_ribbon_s_the_whole_life() {
    for (policy, expected) in [(WeightedResponseTime::default(), 90.9), (WeightedResponseTime::exact(), 48.8)]
    {
        let lb = answered(policy, &[1_000, 500]).await;
        picks(&lb, 1).await;
        for (id, millis) in [("a", 50), ("b", 500)] {
            let choice = lease(&lb, id).await;
            tokio::time::advance(Duration::from_millis(millis)).await;
            choice.complete(Outcome::Success);
        }
        advance(31.0).await;
        let found = shares(&lb, "a b", 10_000).await;
        assert!((found[0] - expected).abs() < 2.5, "{found:?} instead of {expected}");
    }
}
