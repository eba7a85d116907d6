//! Traffic that is divided by priorities and zones hears of ejections, and an operator can switch them off.

use std::time::Duration;

use evenkeel::config::{OutlierDetectionProperties, Override};
use evenkeel::observe::{ChangeKind, InstanceCondition};
use evenkeel::policy::RoundRobin;
use evenkeel::{LoadBalancer, Outcome, ServiceInstance, SupplierBuilder};

use super::ejection::{call, lease, over_n, state};
use crate::support::*;

const GOOD: Outcome = Outcome::Status(200);
const BAD: Outcome = Outcome::Status(500);

fn at(id: &str, priority: u32) -> ServiceInstance {
    instance(id).to_builder().priority(priority).build().unwrap()
}

fn lavish() -> OutlierDetectionProperties {
    OutlierDetectionProperties::on().with_max_ejection_percent(100).with_min_available_percent(0)
}

fn balancer(
    shape: impl FnOnce(SupplierBuilder) -> SupplierBuilder,
    all: Vec<ServiceInstance>,
) -> LoadBalancer {
    let chain = shape(SupplierBuilder::new("orders").with_instances(all).with_seed(7));
    LoadBalancer::builder(chain.build().unwrap()).outlier_detection(lavish()).build()
}

/// The share of the first priority, in percent.
async fn first(lb: &LoadBalancer) -> usize {
    picks(lb, 1_000).await.iter().filter(|id| id.starts_with('a')).count() / 10
}

#[tokio::test(start_paused = true)]
async fn lbs_a_priority_loses_traffic_with_its_instances_and_gets_it_back() {
    let all = ["a1", "a2", "a3", "a4"].map(|id| at(id, 0)).into_iter();
    let all = all.chain(["b1", "b2", "b3", "b4"].map(|id| at(id, 1))).collect();
    let lb = balancer(|chain| chain.with_priorities(), all);
    assert_eq!(first(&lb).await, 100);
    // 140 x 3/4 is enough; 140 x 2/4 is 70, 140 x 1/4 is 35.
    for (id, share) in [("a1", 100), ("a2", 70), ("a3", 35)] {
        for _ in 0..5 {
            lease(&lb, id).await.complete(BAD);
        }
        assert!(state(&lb, id, |state| state.ejected().is_some()));
        advance(0.1).await;
        assert_eq!(first(&lb).await, share, "without {id}");
    }
    // Their times are over: each is probed, and is in use again.
    advance(30.0).await;
    for _ in 0..2_000 {
        call(&lb, |_| GOOD).await;
    }
    advance(0.1).await;
    assert_eq!(first(&lb).await, 100);
}

#[tokio::test(start_paused = true)]
async fn lbs_in_panic_the_ejected_are_used_and_nobody_is_ejected() {
    let lb = balancer(|chain| chain.with_panic_threshold(50), list("a b c d"));
    for id in ["a", "b"] {
        for _ in 0..5 {
            lease(&lb, id).await.complete(BAD);
        }
        advance(0.1).await;
    }
    // Half of them are in use: no panic.
    assert_eq!(lb.status().panic, None);
    assert_eq!(tally(&picks(&lb, 400).await).len(), 2);
    for _ in 0..5 {
        lease(&lb, "c").await.complete(BAD);
    }
    advance(0.1).await;
    even(&picks(&lb, 400).await, "a b c d", 100, 1);
    let seen: Vec<ChangeKind> = lb.change_log().iter().map(|change| change.kind).collect();
    assert!(seen.contains(&ChangeKind::PanicOn) && seen.contains(&ChangeKind::Ejected), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn status_names_the_detector_and_the_time_left() {
    let lb = over_n(10, OutlierDetectionProperties::on(), RoundRobin::default());
    for _ in 0..5 {
        lease(&lb, "4").await.complete(BAD);
    }
    advance(10.0).await;
    let status = lb.status();
    let row = status.instances.iter().find(|row| row.id == "4").unwrap();
    assert_eq!(row.state, InstanceCondition::Ejected);
    assert_eq!((row.for_ms, row.left_ms), (Some(10_000), Some(20_000)));
    assert!(row.reason.as_ref().unwrap().starts_with("consecutive-errors"), "{:?}", row.reason);
    assert_eq!((status.counts.ejected, status.counts.in_use), (1, 9));
    let page = status.to_string();
    assert!(page.contains("ejected") && page.contains("1 of 10 out of use"), "{page}");
    let json = serde_json::to_value(&status).unwrap();
    assert_eq!(json["counts"]["ejected"], 1);
}

#[tokio::test(start_paused = true)]
async fn an_operator_switches_ejection_off_and_it_comes_back_on_by_itself() {
    let lb = over_n(4, OutlierDetectionProperties::on(), RoundRobin::default());
    let eject = async |lb: &LoadBalancer| {
        for _ in 0..5 {
            lease(lb, "2").await.complete(BAD);
        }
        state(lb, "2", |state| state.ejected().is_some())
    };
    assert!(eject(&lb).await);
    let off = Override::ejection_off().because("a bad rollout of our own").lasting(Duration::from_secs(60));
    lb.override_with(off).unwrap();
    assert!(!state(&lb, "2", |state| state.is_skipped()), "who is out is let back");
    assert!(!eject(&lb).await, "nobody is ejected");
    advance(60.1).await;
    lease(&lb, "2").await.complete(GOOD);
    assert!(eject(&lb).await, "the override is over");
}
