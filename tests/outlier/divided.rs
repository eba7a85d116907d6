//! Traffic that is divided by priorities and zones hears of ejections, and an operator can switch them off.

use std::time::Duration;

use evenkeel::config::{LiveProperties, OutlierDetectionProperties, Override, Properties};
use evenkeel::health::HealthCheck;
use evenkeel::observe::{ChangeKind, InstanceCondition};
use evenkeel::policy::RoundRobin;
use evenkeel::{
    Failure, InstanceState, LoadBalancer, LoadBalancers, Outcome, ServiceInstance, SupplierBuilder,
};

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
    let lb = balancer(SupplierBuilder::with_priorities, all);
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
    let status = lb.status();
    assert!(status.panic.is_some() && status.counts.ejected == 3, "{status}");
    // Whatever they answer meanwhile, nobody is ejected, and the panic does not flicker.
    for round in 0..200 {
        call(&lb, |id| if id == "d" || round % 3 == 0 { GOOD } else { BAD }).await;
        advance(0.05).await;
    }
    assert!(lb.status().panic.is_some());
    even(&picks(&lb, 400).await, "a b c d", 100, 1);
    // Their times are over: they are used for good, and may be ejected again.
    advance(20.0).await;
    let status = lb.status();
    assert!(status.panic.is_none() && status.counts.ejected == 0, "{status}");
    let times = lb.change_log().iter().filter(|change| change.kind == ChangeKind::PanicOn).count();
    assert_eq!(times, 1);
    while !state(&lb, "a", InstanceState::is_skipped) {
        lease(&lb, "a").await.complete(BAD);
    }
    assert_eq!(state(&lb, "a", InstanceState::ejections), 2, "for longer than the first time");
    let seen: Vec<ChangeKind> = lb.change_log().iter().map(|change| change.kind).collect();
    assert!(seen.contains(&ChangeKind::PanicOn) && seen.contains(&ChangeKind::Ejected), "{seen:?}");
}

/// How many of the first priority count as usable.
fn usable(lb: &LoadBalancer) -> usize {
    lb.snapshot().unwrap().distribution().unwrap().priorities()[0].healthy
}

#[tokio::test(start_paused = true)]
async fn lbs_a_priority_whose_probing_call_fails_loses_its_traffic_again() {
    let lb = balancer(SupplierBuilder::with_priorities, vec![at("a", 0), at("b", 1), at("c", 1)]);
    for _ in 0..5 {
        lease(&lb, "a").await.complete(BAD);
    }
    advance(0.1).await;
    assert_eq!((usable(&lb), first(&lb).await), (0, 0));
    // Due for its probing call, it has its share.
    advance(30.0).await;
    assert_eq!(usable(&lb), 1);
    assert_eq!(call(&lb, |_| BAD).await, "a");
    advance(0.1).await;
    assert_eq!(lb.status().counts.ejected, 1);
    assert_eq!((usable(&lb), first(&lb).await), (0, 0));
}

/// Half of those that pass their health check stay in use, and not half of all.
#[tokio::test(start_paused = true)]
async fn lbs_who_fails_its_health_check_is_none_of_those_that_stay() {
    for divided in [false, true] {
        let probe = Fake::new();
        for id in ["f", "g", "h", "i", "j"] {
            probe.set(id, Some(0), false);
        }
        let check = HealthCheck::new(probe.clone()).with_interval(Duration::from_secs(5));
        let chain = SupplierBuilder::new("orders").with_instances(list("a b c d e f g h i j")).with_seed(7);
        let chain = chain.with_health_checks(check);
        let chain = if divided { chain.with_panic_threshold(10) } else { chain };
        let lb = LoadBalancer::builder(chain.build().unwrap())
            .outlier_detection(lavish().with_min_available_percent(50))
            .build();
        pick(&lb).await;
        advance(1.0).await;
        for id in ["a", "b", "c", "d"] {
            for _ in 0..5 {
                lease(&lb, id).await.complete(BAD);
            }
            advance(3.0).await;
        }
        assert_eq!(lb.status().counts.ejected, 2, "of five; divided: {divided}");
    }
}

/// Who a panic lets back is usable again, which may end it: it does not begin anew with the next calls.
#[tokio::test(start_paused = true)]
async fn lbs_a_panic_that_lets_bad_ones_back_does_not_come_and_go_all_the_time() {
    let lb = balancer(|chain| chain.with_panic_threshold(50), list("a b c d"));
    let mut to_good = 0;
    for _ in 0..6_000 {
        to_good += usize::from(call(&lb, |id| if id == "d" { GOOD } else { BAD }).await == "d");
        advance(0.01).await;
    }
    let log = lb.change_log();
    let panics: u32 = log.iter().filter(|one| one.kind == ChangeKind::PanicOn).map(|one| one.times).sum();
    assert!((2..=7).contains(&panics), "{panics} panics in 60 s");
    assert!((1_400..=2_500).contains(&to_good), "{to_good} of 6000 to the good one");
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
    assert!(!state(&lb, "2", InstanceState::is_skipped), "who is out is let back");
    assert!(!eject(&lb).await, "nobody is ejected");
    advance(60.1).await;
    lease(&lb, "2").await.complete(GOOD);
    assert!(eject(&lb).await, "the override is over");
}

#[tokio::test(start_paused = true)]
async fn who_leaves_a_panic_by_other_settings_ejects_again() {
    let live = LiveProperties::new(
        Properties::default()
            .set("panic-threshold", "80")
            .and_then(|properties| properties.set("outlier-detection.enabled", "true"))
            .and_then(|properties| properties.set("outlier-detection.max-ejection-percent", "100"))
            .and_then(|properties| properties.set("outlier-detection.min-available-percent", "0"))
            .unwrap(),
    );
    let all =
        LoadBalancers::builder(Pull::always("a b c d", Duration::ZERO)).live(live.clone()).build().unwrap();
    let lb = all.get("orders").unwrap();
    pick(&lb).await;
    for id in ["a", "b"] {
        lease(&lb, id).await.complete(Outcome::Failure(Failure::Connect));
    }
    advance(0.1).await;
    assert!(lb.snapshot().unwrap().distribution().unwrap().is_panic());
    let eject = async |id: &str| {
        for _ in 0..5 {
            lease(&lb, id).await.complete(BAD);
        }
        state(&lb, id, |state| state.ejected().is_some())
    };
    assert!(!eject("c").await, "nobody is ejected in panic");
    live.reload(|properties| properties.clone().set("panic-threshold", "0")).unwrap();
    settle().await;
    lease(&lb, "c").await.complete(GOOD);
    assert!(eject("c").await);
}

/// Who gets no traffic is counted and looked at all the same, while the whole list is swept.
#[tokio::test(start_paused = true)]
async fn lbs_limits_count_those_that_the_division_leaves_out() {
    let all = ["a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8"].map(|id| at(id, 0)).to_vec();
    let detection = OutlierDetectionProperties::on().with_max_ejection_percent(25);
    let chain = SupplierBuilder::new("orders").with_instances(all).with_priorities().with_seed(7);
    let lb = LoadBalancer::builder(chain.build().unwrap()).outlier_detection(detection).build();
    for id in ["a1", "a2", "a3", "a4"] {
        for _ in 0..5 {
            lease(&lb, id).await.complete(BAD);
        }
        // A sweep, and a division, between any two.
        advance(3.0).await;
        assert!(lb.status().counts.ejected <= 2, "a quarter of eight");
    }
    assert_eq!(lb.status().counts.ejected, 2);
    lb.override_with(Override::ejection_off().because("all back").lasting(Duration::from_secs(60))).unwrap();
    assert_eq!(lb.status().counts.ejected, 0);
}
