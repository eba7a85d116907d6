//! Zone avoidance: cases 037 to 053.

use std::collections::BTreeMap;

use evenkeel::policy::ZoneAvoidance;
use evenkeel::{Choice, LoadBalancer, Outcome};

use super::common::*;
use crate::support::*;

/// Both: what holds of Ribbon's holds of ours.
const BOTH: [fn() -> ZoneAvoidance; 2] = [ZoneAvoidance::exact, ZoneAvoidance::default];

/// `(zone and number, leases)` each.
async fn load(lb: &LoadBalancer, all: &[(&str, usize)]) -> Vec<Choice> {
    let mut held = Vec::new();
    for (id, n) in all {
        held.extend(hold(lb, id, *n).await);
    }
    held
}

#[tokio::test(start_paused = true)]
async fn ribbon_037_the_most_loaded_zone_is_left_out() {
    for policy in BOTH {
        let lb = ruled(zones(&[("0", 3), ("1", 4), ("2", 3)]), policy());
        let all = [("11", 2), ("12", 2), ("13", 2), ("14", 2), ("21", 1), ("22", 1), ("23", 1)];
        let _held = load(&lb, &all).await;
        assert_eq!(zones_met(&lb, 100).await, "02");
    }
}

#[tokio::test(start_paused = true)]
async fn ribbon_038_to_042_zones_are_left_out_by_load_and_come_back() {
    for policy in BOTH {
        let lb = ruled(zones(&[("a", 4), ("b", 3), ("c", 4)]), policy());
        assert_eq!(zones_met(&lb, 100).await, "abc", "038: nothing is loaded");
        let on_c = load(&lb, &[("c1", 2)]).await;
        assert_eq!(zones_met(&lb, 100).await, "ab", "039: c has half a call for each");
        trip(&lb, "a1").await;
        // 040: one failure of b2 trips nothing in Ribbon. A failure after the call was sent does not here.
        lease(&lb, "b2").await.complete(Outcome::Cancelled);
        assert_eq!(zones_met(&lb, 100).await, "ab");
        let on_a = load(&lb, &[("a2", 1)]).await;
        assert_eq!(zones_met(&lb, 100).await, "ab", "041: a third of a call for each of a, c is still worse");
        drop((on_c, on_a));
        advance(15.0).await;
        lease(&lb, "a1").await.complete(Outcome::Success);
        let met = met(&lb, 100).await;
        assert!(met.contains("a1") && met.len() == 11, "042: all are back: {met:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn ribbon_043_instances_without_a_zone_are_always_used() {
    let mut list = zones(&[("c", 2)]);
    list.extend([instance("a1"), instance("b1")]);
    for policy in BOTH {
        let lb = ruled(list.clone(), policy());
        let _held = load(&lb, &[("c1", 9), ("a1", 9)]).await;
        assert_eq!(zones_met(&lb, 100).await, "abc");
    }
}

#[tokio::test(start_paused = true)]
async fn ribbon_044_045_a_zone_that_is_out_and_a_tie_of_the_others() {
    for policy in BOTH {
        let lb = ruled(zones(&[("a", 2), ("b", 2), ("c", 2)]), policy());
        trip(&lb, "a1").await;
        trip(&lb, "a2").await;
        assert_eq!(zones_met(&lb, 100).await, "bc");
        let on_b = load(&lb, &[("b1", 1)]).await;
        let _on_c = load(&lb, &[("c1", 1)]).await;
        assert_eq!(zones_met(&lb, 100).await, "bc", "a tie: one of them for each pick");
        drop(on_b);
        assert_eq!(zones_met(&lb, 100).await, "b", "045: now c is the worst");
    }
}

#[tokio::test(start_paused = true)]
async fn ribbon_046_the_load_that_counts_is_a_fifth_of_a_call() {
    for policy in BOTH {
        let lb = ruled(zones(&[("a", 11), ("b", 11), ("c", 11)]), policy());
        let mut held = load(&lb, &[("b1", 1), ("c1", 1)]).await;
        assert_eq!(zones_met(&lb, 200).await, "abc", "0.09 is below it");
        held.extend(load(&lb, &[("b2", 1), ("b3", 1)]).await);
        let all = picks(&lb, 104).await;
        // The default looks at the zones once in four picks.
        assert!(all[4..].iter().all(|id| !id.starts_with('b')), "0.27 is not");
        held.extend(load(&lb, &[("c2", 1), ("c3", 1)]).await);
        assert_eq!(zones_met(&lb, 200).await, "abc", "a tie");
    }
}

#[tokio::test(start_paused = true)]
async fn ribbon_047_a_zone_that_is_out_in_part_is_used() {
    for policy in BOTH {
        let lb = ruled(zones(&[("a", 3), ("b", 3), ("c", 3)]), policy());
        for id in ["a1", "a2", "a3", "b1", "b2"] {
            trip(&lb, id).await;
        }
        assert_eq!(met(&lb, 200).await.into_iter().collect::<Vec<_>>(), ["b3", "c1", "c2", "c3"]);
    }
}

#[tokio::test(start_paused = true)]
async fn ribbon_048_a_load_is_that_of_the_instances_in_use() {
    for policy in BOTH {
        // Three calls for three of four in use are one each: more than five for six.
        let lb = ruled(zones(&[("a", 4), ("b", 6)]), policy());
        let _held = load(&lb, &[("a1", 3), ("b1", 5)]).await;
        assert_eq!(zones_met(&lb, 50).await, "a", "three for four are less");
        trip(&lb, "a2").await;
        assert_eq!(zones_met(&lb, 50).await, "b");
    }
}

#[tokio::test(start_paused = true)]
async fn ribbon_049_a_single_zone_is_used_however_it_is() {
    for policy in BOTH {
        let lb = ruled(zones(&[("a", 3)]), policy());
        let held = load(&lb, &[("a1", 9), ("a2", 9)]).await;
        assert_eq!(met(&lb, 30).await.len(), 3);
        for id in ["a1", "a2", "a3"] {
            trip(&lb, id).await;
        }
        assert_eq!(met(&lb, 100).await.len(), 3);
        drop(held);
    }
}

#[tokio::test(start_paused = true)]
async fn ribbon_050_of_a_tie_the_larger_zone_is_left_out_more_often() {
    // a is out, and nothing is loaded: Ribbon leaves out b (2 instances) or c (6) for each pick.
    let lb = ruled(zones(&[("a", 1), ("b", 2), ("c", 6)]), ZoneAvoidance::exact());
    trip(&lb, "a1").await;
    let share = |all: &[String]| all.iter().filter(|id| id.starts_with('b')).count();
    let found = share(&picks(&lb, 4_000).await);
    assert!(found.abs_diff(3_000) < 150, "c is left out in three of four picks: {found}");
    // That takes from a healthy zone what it could do. Here both are used, in turn.
    let lb = ruled(zones(&[("a", 1), ("b", 2), ("c", 6)]), ZoneAvoidance::default());
    trip(&lb, "a1").await;
    assert_eq!(share(&picks(&lb, 400).await), 100);
}

/// Three good and four that are out in zone 0, three good in zone 1, which is loaded most.
async fn composite(policy: ZoneAvoidance) -> usize {
    let lb = ruled(zones(&[("0", 7), ("1", 3)]), policy);
    let held = load(&lb, &[("11", 9)]).await;
    for id in ["04", "05", "06", "07"] {
        trip(&lb, id).await;
    }
    let met: BTreeMap<String, usize> = tally(&picks(&lb, 200).await);
    drop(held);
    met.len()
}

#[tokio::test(start_paused = true)]
async fn ribbon_051_052_053_a_wider_set_is_used_when_too_few_are_left() {
    for policy in BOTH {
        assert_eq!(composite(policy()).await, 3, "051: in the zone and available");
        assert_eq!(composite(policy().with_min_available(5, 0.0)).await, 6, "052: available anywhere");
        assert_eq!(composite(policy().with_min_available(3, 0.0)).await, 3);
        assert_eq!(
            composite(policy().with_min_available(1, 0.3)).await,
            6,
            "053: 3 are not more than 3 of 10"
        );
        assert_eq!(composite(policy().with_min_available(1, 0.2)).await, 3);
        assert_eq!(
            composite(policy().with_min_available(11, 0.0)).await,
            6,
            "who is out is never in the wider set"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn names_of_zones_are_compared_without_case() {
    let upper = |one: evenkeel::ServiceInstance| {
        let zone = one.zone().unwrap().to_uppercase();
        one.to_builder().zone(zone).build().unwrap()
    };
    let mut list = zones(&[("a", 2)]);
    list.extend(zones(&[("b", 4)]));
    let list =
        list.into_iter().enumerate().map(|(at, one)| if at % 2 == 0 { upper(one) } else { one }).collect();
    let lb = ruled(list, ZoneAvoidance::default());
    let _held = load(&lb, &[("a1", 1)]).await;
    assert_eq!(zones_met(&lb, 50).await, "b", "a1 and a2 are one zone");
}

#[tokio::test(start_paused = true)]
async fn a_zone_that_was_out_comes_back_by_itself() {
    let lb = ruled(zones(&[("a", 2), ("b", 2)]), ZoneAvoidance::default());
    trip(&lb, "a1").await;
    trip(&lb, "a2").await;
    assert_eq!(zones_met(&lb, 20).await, "b");
    advance(1.1).await;
    // The back-off is over: a pick of the zone probes, and its answer brings the instance back.
    let mut probed = 0;
    for _ in 0..40 {
        let choice = lb.choose(&evenkeel::Request::EMPTY).await.unwrap();
        probed += usize::from(choice.instance().id().starts_with('a'));
        choice.complete(Outcome::Success);
    }
    assert!(probed > 10, "{probed}");
}

#[tokio::test(start_paused = true)]
async fn who_stands_behind_a_zone_that_is_left_out_does_not_get_its_share() {
    // Zones that joined one after the other stand so in the order of turns.
    let lb = ruled(zones(&[("a", 100), ("b", 100), ("c", 100)]), ZoneAvoidance::default());
    let _held = load(&lb, &[("b1", 60)]).await;
    picks(&lb, 100).await;
    let counts = tally(&picks(&lb, 20_000).await);
    assert_eq!(counts.len(), 200, "nobody of b");
    assert!(counts.values().all(|n| (80..=130).contains(n)), "{counts:?}");
}
