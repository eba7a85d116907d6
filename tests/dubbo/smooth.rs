//! Smooth weighted round robin: cases 009 to 019. The sequences of whole periods and their currents are also tested beside
//! the table, in `src/policy/tables/currents.rs`.

use std::sync::Arc;
use std::time::Duration;

use evenkeel::policy::SmoothRoundRobin;
use evenkeel::{LoadBalancer, Request, SupplierBuilder};

use super::common::*;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn dubbo_009_to_014_sequences_of_picks() {
    for (weights, expected) in [
        (&[5, 1, 1][..], "aabacaa"),
        (&[1, 9, 6], "bcbcbabcbcbbcbcb"),
        (&[1, 2, 3], "cbacbc"),
        (&[4, 2, 1], "abacaba"),
        (&[1, 1, 1], "abcabc"),
        (&[100, 50], "abaaba"),
    ] {
        let lb = weighted(weights, SmoothRoundRobin::exact());
        assert_eq!(order(&lb, 3 * expected.len()).await, expected.repeat(3), "{weights:?}");
        // By default it begins anywhere in the same order.
        let lb = weighted(weights, SmoothRoundRobin::default());
        let found = order(&lb, expected.len()).await;
        assert!(expected.repeat(2).contains(&found), "{found} is no part of {expected} again and again");
    }
}

#[tokio::test(start_paused = true)]
async fn dubbo_015_a_weight_of_0_is_never_picked() {
    let lb = weighted(&[1, 0, 2], SmoothRoundRobin::exact());
    assert_eq!(order(&lb, 6).await, "caccac");
    let lb = weighted(&[0, 0], SmoothRoundRobin::exact());
    let error = lb.choose(&Request::EMPTY).await.unwrap_err();
    assert!(error.to_string().contains("drain"), "all are drained: {error}");
}

/// Over a list that changes, with weights.
fn live(weights: &[u32]) -> (Live, LoadBalancer) {
    let live = Live::new(providers(weights));
    let lb = over(chain(live.source()).with_weights(), SmoothRoundRobin::exact());
    (live, lb)
}

#[tokio::test(start_paused = true)]
async fn dubbo_016_a_change_of_weight_keeps_the_current() {
    let (list, lb) = live(&[5, 1, 1]);
    assert_eq!(order(&lb, 3).await, "aab");
    list.set(providers(&[5, 3, 1])).await;
    // Currents were (1, -4, 3). With b's of 0, as in Dubbo, b would be picked once more than its share.
    assert_eq!(order(&lb, 9).await, reckon([1, -4, 3], [5, 3, 1], 9));
    assert_eq!(order(&lb, 9).await.matches('b').count(), 3);
}

/// The rule, turn by turn.
fn reckon(mut currents: [i64; 3], weights: [i64; 3], turns: usize) -> String {
    let mut order = String::new();
    for _ in 0..turns {
        (0..3).for_each(|at| currents[at] += weights[at]);
        let most = *currents.iter().max().unwrap();
        let at = currents.iter().position(|current| *current == most).unwrap();
        currents[at] -= weights.iter().sum::<i64>();
        order.push(['a', 'b', 'c'][at]);
    }
    order
}

#[tokio::test(start_paused = true)]
async fn dubbo_017_a_newcomer_begins_at_nothing() {
    let (list, lb) = live(&[2, 1]);
    assert_eq!(order(&lb, 3).await, "aba");
    list.set(providers(&[2, 1, 3])).await;
    assert_eq!(order(&lb, 6).await, "cabcac");
}

#[tokio::test(start_paused = true)]
async fn dubbo_018_shares_are_exact_from_many_threads() {
    let lb = weighted(&[1; 5], SmoothRoundRobin::exact());
    even(&picks(&lb, 10_000).await, "a b c d e", 2_000, 0);
    let lb = weighted(&[1, 9, 6], SmoothRoundRobin::exact());
    lb.ready().await.unwrap();
    let counts = Arc::new([0, 0, 0].map(std::sync::atomic::AtomicUsize::new));
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                for _ in 0..10_000 {
                    let id = lb.try_choose(&Request::EMPTY).unwrap().instance().id().as_bytes()[0];
                    counts[usize::from(id - b'a')].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
    });
    let counts = [0, 1, 2].map(|at| counts[at].load(std::sync::atomic::Ordering::Relaxed));
    assert_eq!(counts, [6_250, 56_250, 37_500]);
}

#[tokio::test(start_paused = true)]
async fn dubbo_019_who_vanished_keeps_its_current_for_a_minute() {
    // b's current was -4, so that it waits longer than one that begins at nothing.
    for (seconds, current) in [(30, -4), (61, 0)] {
        let (list, lb) = live(&[5, 1, 1]);
        assert_eq!(order(&lb, 3).await, "aab");
        let without_b = || providers(&[5, 1, 1]).into_iter().filter(|one| one.id() != "b").collect();
        list.set(without_b()).await;
        assert!(!order(&lb, 6).await.contains('b'));
        tokio::time::advance(Duration::from_secs(seconds)).await;
        list.set(without_b()).await;
        list.set(providers(&[5, 1, 1])).await;
        assert_eq!(order(&lb, 14).await, reckon([1, current, 3], [5, 1, 1], 14), "after {seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn lists_that_do_not_differ_disturb_nothing() {
    let list = Live::new(providers(&[5, 1, 1]));
    let lb = over(chain(list.source()).with_weights().with_hints(), SmoothRoundRobin::exact());
    let mut found = String::new();
    for turn in 0..14 {
        let mut same = providers(&[5, 1, 1]);
        same.rotate_left(turn % 3);
        // Another entry that nobody looks at makes a new list of the same members.
        same[0] = same[0].to_builder().with_metadata("turn", turn.to_string()).build().unwrap();
        list.set(same).await;
        found += &order(&lb, 1).await;
    }
    assert_eq!(found, "aabacaa".repeat(2));
    let with_hint = Request::EMPTY.with_hint("nobody");
    assert_eq!(pick_for(&lb, &with_hint).await, "a", "an unknown hint is the whole list");
}

#[tokio::test(start_paused = true)]
async fn retries_turn_a_wheel_of_their_own_and_avoid_what_was_tried() {
    let lb = weighted(&[5, 1, 1], SmoothRoundRobin::exact());
    let mut firsts = String::new();
    for _ in 0..14 {
        let first = lb.choose(&Request::EMPTY).await.unwrap();
        firsts += first.instance().id();
        let mut tried = evenkeel::Tried::new();
        tried.add(&first);
        let second = lb.choose(&Request::EMPTY.with_tried(&tried)).await.unwrap();
        assert_ne!(second.instance().id(), first.instance().id());
    }
    assert_eq!(firsts, "aabacaa".repeat(2));
}

#[tokio::test(start_paused = true)]
async fn weights_beyond_a_table_keep_their_shares() {
    let lb =
        fixed(providers(&[99_991, 50_021, 3]), SupplierBuilder::with_weights, SmoothRoundRobin::default());
    let all = picks(&lb, 3_000).await;
    assert!(per_mille(&all, "a").abs_diff(666) <= 2 && per_mille(&all, "b").abs_diff(333) <= 2);
}

#[tokio::test(start_paused = true)]
async fn an_order_beyond_a_table_goes_on_while_the_list_flaps() {
    let weights = [99_991, 50_021, 3, 7];
    let list = Live::new(providers(&weights));
    let lb = over(chain(list.source()).with_weights(), SmoothRoundRobin::default());
    let mut all = Vec::new();
    for turn in 0..300 {
        list.set(providers(&weights[..3 + turn % 2])).await;
        all.push(pick(&lb).await);
    }
    assert!(per_mille(&all, "a").abs_diff(666) <= 30, "{:?}", tally(&all));
    assert!(per_mille(&all, "b").abs_diff(333) <= 30, "{:?}", tally(&all));
}
