//! Best available and availability filtering: cases 031 to 036.

use evenkeel::policy::{AvailabilityFiltering, BestAvailable, ZoneAvoidance};

use super::common::*;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn ribbon_031_the_fewest_calls_among_those_in_use() {
    for policy in [BestAvailable::exact(), BestAvailable::default()] {
        let lb = ruled(list("0 1 2 3 4 5 6 7 8 9"), policy);
        let mut held = Vec::new();
        for n in 0..10 {
            held.extend(hold(&lb, &n.to_string(), 10 - n).await);
        }
        assert_eq!(picks(&lb, 3).await.concat(), "999");
        trip(&lb, "9").await;
        assert_eq!(picks(&lb, 3).await.concat(), "888");
    }
    // Of those that are idle, Ribbon takes the first.
    let lb = ruled(list("a b c"), BestAvailable::exact());
    assert_eq!(picks(&lb, 9).await.concat(), "aaaaaaaaa");
    even(&picks(&ruled(list("a b c"), BestAvailable::default()), 3_000).await, "a b c", 1_000, 120);
}

#[tokio::test(start_paused = true)]
async fn ribbon_032_a_round_robin_over_those_in_use() {
    for policy in [AvailabilityFiltering::exact(), AvailabilityFiltering::default()] {
        let lb = ruled(list("g0 g1 g2 x0 x1 g3 g4 x2 g5 g6"), policy);
        for id in ["x0", "x1", "x2"] {
            trip(&lb, id).await;
        }
        let all = picks(&lb, 20).await;
        let first: usize = all[0][1..].parse().unwrap();
        for (k, id) in all.iter().enumerate() {
            assert_eq!(*id, format!("g{}", (first + k) % 7));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ribbon_033_one_that_trips_is_left_out_of_the_next_pick() {
    let lb = ruled(list("good2bad good"), AvailabilityFiltering::exact());
    let first = lb.choose(&evenkeel::Request::EMPTY).await.unwrap();
    assert_eq!(first.instance().id(), "good2bad");
    first.complete(evenkeel::Outcome::Failure(evenkeel::Failure::Connect));
    assert_eq!(picks(&lb, 3).await, ["good", "good", "good"]);
}

#[tokio::test(start_paused = true)]
async fn ribbon_034_busy_ones_are_left_out() {
    for policy in [AvailabilityFiltering::exact(), AvailabilityFiltering::default()] {
        let lb = ruled(zones(&[("a", 6), ("b", 8)]), policy.with_active_limit(1));
        let _held = (hold(&lb, "a2", 1).await, hold(&lb, "b1", 1).await, hold(&lb, "b7", 1).await);
        let met = met(&lb, 100).await;
        let of = |zone: char| met.iter().filter(|id| id.starts_with(zone)).count();
        assert_eq!((of('a'), of('b'), met.len()), (5, 6, 11), "{met:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn ribbon_035_zones_and_instances_that_are_out_and_all_of_them() {
    let policies = [ZoneAvoidance::exact(), ZoneAvoidance::default()];
    for policy in policies {
        let lb = ruled(zones(&[("a", 2), ("b", 2), ("c", 2)]), policy);
        for id in ["a1", "a2", "b1", "b2"] {
            trip(&lb, id).await;
        }
        assert_eq!(zones_met(&lb, 20).await, "c");
        trip(&lb, "c1").await;
        assert_eq!(met(&lb, 20).await.into_iter().collect::<String>(), "c2");
        trip(&lb, "c2").await;
        assert_eq!(met(&lb, 100).await.len(), 6, "when all are out, all are used");
    }
}

#[tokio::test(start_paused = true)]
async fn ribbon_036_without_a_limit_nobody_is_busy_and_at_the_limit_one_is() {
    let lb = ruled(list("a b"), AvailabilityFiltering::default());
    let _held = hold(&lb, "a", 100).await;
    assert_eq!(met(&lb, 10).await.len(), 2);
    let lb = ruled(list("a b"), AvailabilityFiltering::default().with_active_limit(2));
    let _one = hold(&lb, "a", 1).await;
    assert_eq!(met(&lb, 10).await.len(), 2, "one of two");
    let _two = hold(&lb, "a", 1).await;
    assert_eq!(picks(&lb, 5).await.concat(), "bbbbb");
    let _other = hold(&lb, "b", 2).await;
    even(&picks(&lb, 400).await, "a b", 200, 50);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_free_behind_many_busy_ones_is_found() {
    let ids: Vec<String> = (0..100).map(|n| format!("i{n}")).collect();
    let ids = ids.join(" ");
    let lb = ruled(list(&ids), AvailabilityFiltering::default().with_active_limit(1));
    let mut held = Vec::new();
    for id in ids.split_whitespace().filter(|id| *id != "i57") {
        held.extend(hold(&lb, id, 1).await);
    }
    assert_eq!(count(&picks(&lb, 20).await, "i57"), 20);
}
