//! Priorities, panic, and instances that are about to leave.

use std::time::Duration;

use evenkeel::health::HealthCheck;
use evenkeel::policy::{LeastRequest, RoundRobin};
use evenkeel::supplier::{OwnFleet, ZonePreference};
use evenkeel::{
    ChooseErrorKind, LoadBalancer, Outcome, Reason, Request, ServiceInstance, Status, SupplierBuilder,
};

use super::zones::zoned;
use crate::support::*;

fn check(probe: &Fake) -> HealthCheck {
    HealthCheck::new(probe.clone()).with_interval(Duration::from_secs(10))
}

fn of(count: usize, priority: u32) -> Vec<ServiceInstance> {
    let one = |n| instance(&format!("p{priority}n{n}")).to_builder().priority(priority).build().unwrap();
    (0..count).map(one).collect()
}

async fn settled(lb: &LoadBalancer) {
    pick(lb).await;
    advance(1.0).await;
}

/// What priority 0 gets of a hundred.
async fn first(lb: &LoadBalancer) -> usize {
    picks(lb, 1_000).await.iter().filter(|id| id.starts_with("p0")).count() / 10
}

#[tokio::test(start_paused = true)]
async fn lbs_the_next_priority_takes_what_is_too_much_for_the_first() {
    let probe = Fake::new();
    let list: Vec<_> = of(10, 0).into_iter().chain(of(10, 1)).collect();
    let chain = chain(Live::new(list).source()).with_priorities().with_health_checks(check(&probe));
    let lb = over(chain, RoundRobin::default());
    settled(&lb).await;
    assert_eq!(first(&lb).await, 100);
    // 8 of 10 are enough, 7 are 98 %, and so on: 140 * usable / listed.
    let mut dead = 0;
    for (usable, load) in [(8, 100), (7, 98), (5, 70), (2, 28), (0, 0)] {
        while 10 - dead > usable {
            probe.set(&format!("p0n{dead}"), Some(0), false);
            dead += 1;
        }
        advance(30.0).await;
        settled(&lb).await;
        assert_eq!(first(&lb).await, load, "{usable}");
        let snapshot = lb.snapshot().unwrap();
        let [own, other] = snapshot.distribution().unwrap().priorities() else { panic!("two priorities") };
        assert_eq!((own.healthy, own.listed, other.healthy), (usable, 10, 10));
    }
}

#[tokio::test(start_paused = true)]
async fn lbs_without_priorities_they_do_not_count() {
    let list: Vec<_> = of(2, 0).into_iter().chain(of(2, 1)).collect();
    let picked = picks(&fixed(list.clone(), |chain| chain, RoundRobin::default()), 40).await;
    even(&picked, "p0n0 p0n1 p1n0 p1n1", 10, 0);
    let picked = picks(&fixed(list, SupplierBuilder::with_priorities, RoundRobin::default()), 40).await;
    even(&picked, "p0n0 p0n1", 20, 0);
}

#[tokio::test(start_paused = true)]
async fn lbs_panic_begins_below_the_threshold_and_ends_there() {
    let probe = Fake::new();
    let chain = chain(Live::new(zoned(&[10])).source());
    let lb = over(chain.with_panic_threshold(50).with_health_checks(check(&probe)), RoundRobin::default());
    settled(&lb).await;
    for n in 0..5 {
        probe.set(&format!("a{n}"), Some(0), false);
    }
    advance(30.0).await;
    settled(&lb).await;
    assert_eq!(tally(&picks(&lb, 50).await).len(), 5, "half of them are enough");
    assert!(!lb.snapshot().unwrap().distribution().unwrap().is_panic());
    probe.set("a5", Some(0), false);
    advance(30.0).await;
    settled(&lb).await;
    assert_eq!(tally(&picks(&lb, 50).await).len(), 10, "four are not");
    assert!(lb.snapshot().unwrap().distribution().unwrap().is_panic());
    probe.set("a5", Some(0), true);
    advance(30.0).await;
    settled(&lb).await;
    assert_eq!(tally(&picks(&lb, 50).await).len(), 5);
    assert!(!lb.snapshot().unwrap().distribution().unwrap().is_panic());
}

#[tokio::test(start_paused = true)]
async fn lbs_what_is_down_or_draining_stays_out_of_a_panic() {
    let probe = Fake::new();
    let with = |id: &str, status| instance(id).to_builder().status(status).build().unwrap();
    let list = || {
        let mut list = vec![with("down", Status::Down), with("leaving", Status::Draining)];
        list.extend([with("well", Status::Up), with("ill", Status::Up), with("sick", Status::Unknown)]);
        list
    };
    probe.set("ill", Some(0), false);
    probe.set("sick", Some(0), false);
    let source = || Live::new(list()).source();
    let lb = over(
        chain(source()).with_panic_threshold(50).with_health_checks(check(&probe)),
        RoundRobin::default(),
    );
    settled(&lb).await;
    even(&picks(&lb, 30).await, "well ill sick", 10, 0);
    let snapshot = lb.snapshot().unwrap();
    let report = &snapshot.distribution().unwrap().priorities()[0];
    // One that is down is one that is missing; one that leaves is not.
    assert_eq!((report.listed, report.healthy, report.panic), (4, 1, true));
    // Who is down is not probed, nor is who leaves.
    assert_eq!((probe.asked("down"), probe.asked("leaving")), (0, 0));
    // Without the threshold it is as ever.
    let lb = over(chain(source()).with_health_checks(check(&probe)), RoundRobin::default());
    settled(&lb).await;
    even(&picks(&lb, 30).await, "well", 30, 0);
}

#[tokio::test(start_paused = true)]
async fn lbs_when_nobody_passes() {
    let probe = Fake::new();
    for id in ["a0", "a1", "a2"] {
        probe.set(id, Some(0), false);
    }
    // The threshold, fail-open, and what comes of both: an error only if nothing allows it.
    for (threshold, fail_open, all) in
        [(0, true, true), (50, true, true), (0, false, false), (50, false, false)]
    {
        let chain = chain(Live::new(zoned(&[3])).source())
            .with_priorities()
            .with_panic_threshold(threshold)
            .with_health_checks(check(&probe).with_fail_open(fail_open));
        let lb = over(chain, RoundRobin::default());
        drop(lb.choose(&Request::EMPTY).await);
        advance(1.0).await;
        if all {
            even(&picks(&lb, 30).await, "a0 a1 a2", 10, 0);
            assert_eq!(lb.snapshot().unwrap().distribution().unwrap().is_total_panic(), threshold > 0);
        } else {
            let error = lb.choose(&Request::EMPTY).await.unwrap_err();
            assert!(
                matches!(error.kind(), ChooseErrorKind::NoInstances { reason: Reason::AllUnhealthy, .. }),
                "{error}"
            );
        }
    }
    let down = |id: &str| instance(id).to_builder().status(Status::Down).build().unwrap();
    let lb =
        fixed(vec![down("a"), down("b")], |chain| chain.with_panic_threshold(100), RoundRobin::default());
    let error = lb.choose(&Request::EMPTY).await.unwrap_err();
    assert!(matches!(error.kind(), ChooseErrorKind::NoInstances { reason: Reason::AllDown, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn case_011_a_local_instance_that_is_ill_takes_nothing_in_any_mode_and_order() {
    type Call = fn(SupplierBuilder) -> SupplierBuilder;
    // The clients are where b's instances are not, so that the own zone takes a half when its instance is well.
    let modes: [(Call, &[(&str, usize)]); 3] = [
        (|chain| chain.with_zone_preference("A").with_panic_threshold(50), &[("a1", 40)]),
        (
            |chain| {
                let zone = ZonePreference::proportional().with_min_cluster_size(2);
                let zone = zone.with_local_addresses(["10.0.0.9".parse().unwrap()]);
                chain.with_zone_preference(zone).with_own_fleet(OwnFleet::fixed([("a", 4), ("b", 2)]))
            },
            // Nobody here has that address: every instance is used.
            &[("a1", 13), ("b1", 13), ("b2", 13)],
        ),
        (
            |chain| {
                let zone = ZonePreference::new("A").with_mode(evenkeel::config::ZoneMode::Proportional);
                let zone = zone.with_min_cluster_size(2);
                chain.with_zone_preference(zone).with_own_fleet(OwnFleet::fixed([("a", 4), ("b", 2)]))
            },
            &[("a1", 20), ("b1", 10), ("b2", 10)],
        ),
    ];
    for (mode, well) in modes {
        for health_first in [true, false] {
            let probe = Fake::new();
            probe.set("a1", Some(0), false);
            let source = Pull::new(|_| async { Ok(with("zone", "a1=A b1=B b2=B")) });
            let chain = chain(source);
            let chain = if health_first {
                mode(chain.with_health_checks(check(&probe)))
            } else {
                mode(chain).with_health_checks(check(&probe))
            };
            let lb = over(chain, RoundRobin::default());
            let start = tokio::time::Instant::now();
            pick(&lb).await;
            tokio::time::sleep_until(start + Duration::from_secs(20)).await;
            even(&picks(&lb, 40).await, "b1 b2", 20, 0);
            tokio::time::sleep_until(start + Duration::from_secs(60)).await;
            probe.set("a1", Some(0), true);
            tokio::time::sleep_until(start + Duration::from_secs(75)).await;
            let picked = picks(&lb, 40).await;
            for (id, expected) in well {
                assert!(count(&picked, id).abs_diff(*expected) <= 1, "{id}: {:?}", tally(&picked));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn case_062_terminating_instances_are_used_only_when_nothing_else_is_left() {
    use Status::{Down, Draining, Unknown, Up};
    type Call = fn(SupplierBuilder) -> SupplierBuilder;
    let shapes: [Call; 3] = [
        |chain| chain,
        |chain| chain.with_panic_threshold(50),
        |chain| {
            let zone = ZonePreference::new("z").with_mode(evenkeel::config::ZoneMode::Proportional);
            let zone = zone.with_min_cluster_size(1);
            let chain = chain.with_priorities().with_panic_threshold(50).with_zone_preference(zone);
            chain.with_own_fleet(OwnFleet::fixed([("z", 1), ("y", 1)]))
        },
    ];
    for shape in shapes {
        // Ready, terminating and serving, not serving, and one that says nothing of itself.
        let of = |id: &str, status| instance(id).to_builder().status(status).build().unwrap();
        let step = |a, b, c, d| vec![of("a", a), of("b", b), of("c", c), of("d", d)];
        let live = Live::new(step(Up, Up, Up, Unknown));
        let lb = over(shape(chain(live.source())), LeastRequest);
        let mut running = lb.choose(&Request::EMPTY).await.unwrap();
        while running.instance().id() != "b" {
            running = lb.choose(&Request::EMPTY).await.unwrap();
        }
        live.set(step(Up, Draining, Down, Unknown)).await;
        let counts = tally(&picks(&lb, 100).await);
        assert_eq!(counts.keys().map(String::as_str).collect::<Vec<_>>(), ["a", "d"]);
        // The call that runs there is still counted, and ends as it would.
        assert_eq!(running.instance().id(), "b");
        running.complete(Outcome::Success);
        live.set(step(Draining, Draining, Down, Draining)).await;
        let counts = tally(&picks(&lb, 100).await);
        assert_eq!(counts.keys().map(String::as_str).collect::<Vec<_>>(), ["a", "b", "d"]);
        let only = || vec![of("c", Down)];
        live.set(only()).await;
        let error = lb.choose(&Request::EMPTY).await.unwrap_err();
        assert!(
            matches!(error.kind(), ChooseErrorKind::NoInstances { reason: Reason::AllDown, .. }),
            "{error}"
        );
    }
    // All deleted: no instances, in one event of the watch. The guard against empty lists is off for this.
    let live = Live::new(vec![instance("a")]);
    let lb = over(chain(live.source()).with_empty_guard(Duration::ZERO), RoundRobin::default());
    assert_eq!(pick(&lb).await, "a");
    live.set(Vec::new()).await;
    let error = lb.choose(&Request::EMPTY).await.unwrap_err();
    assert!(matches!(error.kind(), ChooseErrorKind::NoInstances { reason: Reason::Empty, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn lbs_each_priority_has_a_subset_and_all_of_them_are_probed() {
    let probe = Fake::new();
    let list: Vec<_> = of(40, 0).into_iter().chain(of(40, 1)).collect();
    let chain = chain(Live::new(list.clone()).source());
    let chain = chain.with_priorities().with_subset(4).with_health_checks(check(&probe));
    let lb = over(chain, RoundRobin::default());
    settled(&lb).await;
    let asked = || -> Vec<String> {
        let of = |one: &ServiceInstance| (probe.asked(one.id()) > 0).then(|| one.id().to_owned());
        list.iter().filter_map(of).collect()
    };
    let members = asked();
    assert_eq!(members.iter().filter(|id| id.starts_with("p0")).count(), 4, "{members:?}");
    assert_eq!(members.len(), 8);
    let picked = tally(&picks(&lb, 40).await);
    assert_eq!(picked.len(), 4);
    assert!(picked.keys().all(|id| id.starts_with("p0") && members.contains(id)));
    // Members that fail are replaced, and whoever gets traffic is probed.
    for id in picked.keys() {
        probe.set(id, Some(0), false);
    }
    for _ in 0..5 {
        advance(10.0).await;
        pick(&lb).await;
    }
    let now = tally(&picks(&lb, 40).await);
    assert!(now.keys().all(|id| !picked.contains_key(id)) && now.len() == 4, "{now:?}");
    let asked = asked();
    assert!(now.keys().all(|id| asked.contains(id)), "{now:?} of {asked:?}");
}

#[tokio::test(start_paused = true)]
async fn lbs_degraded_instances_of_a_registry() {
    let degraded = |one: &ServiceInstance| one.to_builder().status(Status::Degraded).build().unwrap();
    let list: Vec<_> = of(10, 0).iter().map(degraded).chain(of(10, 1)).collect();
    // Healthy ones of all priorities come before degraded ones of the first.
    let lb = fixed(list.clone(), SupplierBuilder::with_priorities, RoundRobin::default());
    assert_eq!(first(&lb).await, 0);
    // What those cannot take goes to degraded ones: here 5 of 10 of the second are down.
    let mut list = list;
    for one in &mut list[10..15] {
        *one = one.to_builder().status(Status::Down).build().unwrap();
    }
    let lb = fixed(list.clone(), SupplierBuilder::with_priorities, RoundRobin::default());
    assert_eq!(first(&lb).await, 30);
    // Without priorities they are used if nobody is better, with a threshold as without.
    for threshold in [0, 20] {
        let lb = fixed(list.clone(), |chain| chain.with_panic_threshold(threshold), RoundRobin::default());
        assert_eq!(first(&lb).await, 0);
    }
    list.truncate(10);
    let lb = fixed(list, |chain| chain.with_panic_threshold(50), RoundRobin::default());
    assert_eq!(first(&lb).await, 100);
}

#[tokio::test(start_paused = true)]
async fn lbs_a_stage_of_ones_own_that_leaves_nobody_usable() {
    #[derive(Debug)]
    struct Only(Status);
    impl evenkeel::supplier::ListStage for Only {
        fn name(&self) -> &str {
            "only"
        }
        fn rank(&self) -> evenkeel::supplier::Rank {
            evenkeel::supplier::Rank::Filter(0)
        }
        fn apply(&self, list: &mut Vec<ServiceInstance>, _: &evenkeel::supplier::StageCx<'_>) {
            list.retain(|one| one.status() == self.0);
        }
    }
    let of = |id: &str, status| instance(id).to_builder().status(status).build().unwrap();
    let list = || vec![of("a", Status::Up), of("b", Status::Down)];
    for threshold in [0, 50] {
        let shape = |chain: SupplierBuilder| chain.with_priorities().with_panic_threshold(threshold);
        let lb = fixed(list(), |chain| shape(chain).with_list_stage(Only(Status::Up)), RoundRobin::default());
        assert_eq!(pick(&lb).await, "a");
        let lb =
            fixed(list(), |chain| shape(chain).with_list_stage(Only(Status::Down)), RoundRobin::default());
        let error = lb.choose(&Request::EMPTY).await.unwrap_err();
        let reason = matches!(error.kind(), ChooseErrorKind::NoInstances { reason: Reason::Filtered, .. });
        assert!(reason, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn lbs_a_stream_of_lists_has_those_who_get_traffic() {
    use evenkeel::ServiceInstanceListSupplier;
    use futures_util::StreamExt;

    let list: Vec<_> = of(2, 0).into_iter().chain(of(2, 1)).collect();
    let supplier = chain(Live::new(list).source()).with_priorities().build().unwrap();
    let first = supplier.get().next().await.unwrap().unwrap();
    let ids: Vec<_> = first.iter().map(ServiceInstance::id).collect();
    assert_eq!(ids, ["p0n0", "p0n1"]);
}
