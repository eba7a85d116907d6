//! Random, least active, shortest response: cases 020 to 029.

use std::time::Duration;

use evenkeel::policy::{LeastActive, Policy, RandomPick, ShortestResponse};
use evenkeel::{LoadBalancer, Outcome, Request};

use super::common::*;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn dubbo_020_random_by_weight() {
    let all = picks(&weighted(&[1, 9, 6], RandomPick), 10_000).await;
    for (id, share) in [("a", 62), ("b", 562), ("c", 375)] {
        assert!(per_mille(&all, id).abs_diff(share) <= 20, "{:?}", tally(&all));
    }
    assert_eq!(tally(&all).values().sum::<usize>(), 10_000);
}

#[tokio::test(start_paused = true)]
async fn dubbo_021_022_a_weight_of_0_has_no_part() {
    let all = picks(&weighted(&[0, 5], RandomPick), 200).await;
    assert_eq!(count(&all, "b"), 200);
    let all = picks(&weighted(&[10, 0, 20, 0, 5], RandomPick), 7_000).await;
    for (id, share) in [("a", 285), ("b", 0), ("c", 571), ("d", 0), ("e", 142)] {
        assert!(per_mille(&all, id).abs_diff(share) <= share / 15, "{id}: {:?}", tally(&all));
    }
}

#[tokio::test(start_paused = true)]
async fn dubbo_023_a_single_candidate_is_picked() {
    for policy in [Box::new(RandomPick) as Box<dyn Policy>, Box::new(LeastActive::exact())] {
        let supplier = evenkeel::supplier::FixedSupplier::new(orders(), providers(&[7]));
        let chain = evenkeel::SupplierBuilder::new("orders").with_base(supplier).build().unwrap();
        let lb = LoadBalancer::builder(chain).policy_arc(policy.into()).build();
        assert_eq!(picks(&lb, 3).await.concat(), "aaa");
    }
}

#[tokio::test(start_paused = true)]
async fn dubbo_024_least_active_ties_by_weight() {
    for policy in [LeastActive::exact(), LeastActive::default()] {
        let lb = weighted(&[1, 9, 6], policy);
        let _held = hold(&lb, "c", 1).await;
        let all = picks(&lb, 10_000).await;
        assert_eq!(count(&all, "c"), 0);
        assert!(per_mille(&all, "a").abs_diff(100) <= 10, "{:?}", tally(&all));
    }
}

#[tokio::test(start_paused = true)]
async fn dubbo_025_the_fewest_calls_win_whatever_the_weights() {
    let lb = weighted(&[900, 1, 900], LeastActive::exact());
    let _held = (hold(&lb, "a", 3).await, hold(&lb, "b", 1).await, hold(&lb, "c", 2).await);
    assert_eq!(order(&lb, 5).await, "bbbbb");
    let all = picks(&weighted(&[7, 7, 7], LeastActive::exact()), 3_000).await;
    even(&all, "a b c", 1_000, 100);
    // By default a weight is a part of the load: 3 of 900 are less than 1 of 1.
    let lb = weighted(&[900, 1, 900], LeastActive::default());
    let _held = (hold(&lb, "a", 3).await, hold(&lb, "b", 1).await, hold(&lb, "c", 2).await);
    assert_eq!(order(&lb, 5).await, "ccccc");
}

#[tokio::test(start_paused = true)]
async fn dubbo_026_the_least_of_five_gets_all() {
    for policy in [LeastActive::exact(), LeastActive::default()] {
        let lb = weighted(&[1; 5], policy);
        let mut held = Vec::new();
        for (id, n) in [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)] {
            held.extend(hold(&lb, id, n).await);
        }
        assert_eq!(count(&picks(&lb, 1_000).await, "a"), 1_000);
        drop(held);
        even(&picks(&lb, 1_000).await, "a b c d e", 200, 60);
    }
}

/// A call to `id` that took so long.
async fn answer(lb: &LoadBalancer, id: &str, millis: u64) {
    let choice = lease(lb, id).await;
    tokio::time::advance(Duration::from_millis(millis)).await;
    choice.complete(Outcome::Success);
}

#[tokio::test(start_paused = true)]
async fn dubbo_027_one_with_an_answer_waits_for_those_without() {
    let lb = weighted(&[1, 9, 15], ShortestResponse::exact());
    answer(&lb, "c", 5_000).await;
    let _held = hold(&lb, "c", 1).await;
    let all = picks(&lb, 10_000).await;
    assert_eq!(count(&all, "c"), 0);
    assert!(per_mille(&all, "a").abs_diff(100) <= 10, "{:?}", tally(&all));
}

#[tokio::test(start_paused = true)]
async fn dubbo_028_a_window_that_ends_makes_all_alike() {
    let lb = weighted(&[1, 9, 15], ShortestResponse::exact());
    answer(&lb, "c", 5_000).await;
    assert_eq!(count(&picks(&lb, 100).await, "c"), 0);
    advance(31.0).await;
    let all = picks(&lb, 10_000).await;
    for (id, share) in [("a", 40), ("b", 360), ("c", 600)] {
        assert!(per_mille(&all, id).abs_diff(share) <= 20, "{:?}", tally(&all));
    }
}

#[tokio::test(start_paused = true)]
async fn dubbo_029_the_mean_times_the_calls_decides() {
    for policy in [ShortestResponse::exact(), ShortestResponse::default()] {
        let lb = weighted(&[1, 1], policy);
        answer(&lb, "a", 10).await;
        answer(&lb, "b", 12).await;
        assert_eq!(pick(&lb).await, "a", "10 is less than 12");
        let _held = hold(&lb, "a", 2).await;
        assert_eq!(order(&lb, 3).await, "bbb", "30 is more than 12");
    }
}

#[tokio::test(start_paused = true)]
async fn one_without_an_answer_gets_one_call_and_waits_for_it() {
    let lb = weighted(&[1, 1], ShortestResponse::default());
    let first = lb.choose(&Request::EMPTY).await.unwrap();
    let second = lb.choose(&Request::EMPTY).await.unwrap();
    assert_ne!(first.instance(), second.instance());
    let quick = second.instance().id().to_owned();
    advance(0.01).await;
    second.complete(Outcome::Success);
    assert_eq!(count(&picks(&lb, 20).await, &quick), 20);
    drop(first);
}
