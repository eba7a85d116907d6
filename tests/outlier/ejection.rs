use std::time::Duration;

use evenkeel::config::{
    CacheProperties, FailurePercentageProperties, OutlierDetectionProperties, SuccessRateProperties,
};
use evenkeel::policy::{LeastRequest, Policy, RoundRobin};
use evenkeel::{Choice, EjectionCause, Failure, InstanceState, LoadBalancer, Outcome, Request, Tried};

use crate::support::*;

const GOOD: Outcome = Outcome::Status(200);
const BAD: Outcome = Outcome::Status(500);
const TIMEOUT: Outcome = Outcome::Failure(Failure::Timeout);

/// Over instances "0", "1", ... that never change.
pub fn over_n(n: usize, detection: OutlierDetectionProperties, policy: impl Policy) -> LoadBalancer {
    let ids: Vec<String> = (0..n).map(|at| at.to_string()).collect();
    let chain = SupplierBuilder::new("orders").with_instances(list(&ids.join(" "))).with_seed(7);
    LoadBalancer::builder(chain.build().unwrap()).policy(policy).outlier_detection(detection).build()
}

use evenkeel::SupplierBuilder;

/// One call, whose instance says what comes of it.
pub async fn call(balancer: &LoadBalancer, outcome: impl Fn(&str) -> Outcome) -> String {
    let choice = balancer.choose(&Request::EMPTY).await.unwrap();
    let id = choice.instance().id().to_owned();
    choice.complete(outcome(&id));
    id
}

/// A lease on this instance, by turning until it comes.
pub async fn lease(balancer: &LoadBalancer, id: &str) -> Choice {
    for _ in 0..1_000 {
        let choice = balancer.choose(&Request::EMPTY).await.unwrap();
        if choice.instance().id() == id {
            return choice;
        }
        choice.complete(GOOD);
    }
    panic!("{id} is never chosen");
}

pub fn state<T>(balancer: &LoadBalancer, id: &str, look: impl Fn(&InstanceState) -> T) -> T {
    let snapshot = balancer.snapshot().unwrap();
    let found = snapshot.all_instances().find(|state| state.instance().id() == id);
    look(found.unwrap())
}

fn ejected(balancer: &LoadBalancer) -> Vec<String> {
    let snapshot = balancer.snapshot().unwrap();
    let out = snapshot.all_instances().filter(|state| state.ejected().is_some());
    out.map(|state| state.instance().id().to_owned()).collect()
}

/// Only what is named counts.
pub fn bare() -> OutlierDetectionProperties {
    OutlierDetectionProperties::on()
        .with_consecutive_errors(0)
        .with_success_rate(SuccessRateProperties::default().with_enabled(false))
        .with_failure_percentage(FailurePercentageProperties::default().with_enabled(false))
}

#[tokio::test(start_paused = true)]
async fn lbs_nothing_is_ejected_by_default() {
    let lb = over_n(3, OutlierDetectionProperties::default(), RoundRobin::default());
    for _ in 0..300 {
        call(&lb, |id| if id == "1" { TIMEOUT } else { GOOD }).await;
    }
    assert_eq!(ejected(&lb), Vec::<String>::new());
    even(&picks(&lb, 300).await, "0 1 2", 100, 0);
}

#[tokio::test(start_paused = true)]
async fn lbs_five_errors_in_a_row_eject_and_a_good_answer_between_them_does_not() {
    let lb = over_n(4, OutlierDetectionProperties::on(), RoundRobin::default());
    for _ in 0..20 {
        for outcome in [BAD, BAD, BAD, BAD, GOOD] {
            lease(&lb, "1").await.complete(outcome);
        }
    }
    assert_eq!(ejected(&lb), Vec::<String>::new());
    assert_eq!(state(&lb, "1", InstanceState::consecutive_failures), 0);
    // A caller that gives up, and a 404, are no errors; a 404 is a good answer.
    for outcome in [BAD, BAD, Outcome::Cancelled, BAD, BAD] {
        lease(&lb, "1").await.complete(outcome);
    }
    assert_eq!((ejected(&lb).len(), state(&lb, "1", InstanceState::consecutive_failures)), (0, 4));
    lease(&lb, "1").await.complete(TIMEOUT);
    assert_eq!(ejected(&lb), ["1"]);
    assert_eq!(state(&lb, "1", InstanceState::ejected), Some(EjectionCause::ConsecutiveErrors));
    even(&picks(&lb, 300).await, "0 2 3", 100, 0);
}

#[tokio::test(start_paused = true)]
async fn lbs_one_probing_call_brings_it_back_and_its_failure_keeps_it_out_for_longer() {
    let lb = over_n(4, OutlierDetectionProperties::on(), RoundRobin::starting_at(0));
    eject(&lb, "2").await;
    for out in [30.0, 60.0, 90.0] {
        advance(out - 0.001).await;
        assert_eq!(count(&picks(&lb, 40).await, "2"), 0, "{out} s");
        advance(0.002).await;
        // One call is let through, also while others ask.
        let probe = lease(&lb, "2").await;
        assert_eq!(count(&picks(&lb, 40).await, "2"), 0);
        assert!(state(&lb, "2", InstanceState::is_skipped));
        probe.complete(BAD);
    }
    assert_eq!(state(&lb, "2", InstanceState::ejections), 4);
    advance(120.001).await;
    // One that the caller gives up says nothing: the next one probes.
    drop(lease(&lb, "2").await);
    lease(&lb, "2").await.complete(GOOD);
    assert_eq!(ejected(&lb), Vec::<String>::new());
    even(&picks(&lb, 400).await, "0 1 2 3", 100, 0);
}

#[tokio::test(start_paused = true)]
async fn lbs_a_threshold_of_many_hundreds_is_reached() {
    let lb = over_n(2, bare().with_consecutive_errors(700), RoundRobin::default());
    for n in 1..=700 {
        lease(&lb, "1").await.complete(BAD);
        assert_eq!(ejected(&lb).len(), usize::from(n == 700), "after {n}");
    }
}

async fn eject(lb: &LoadBalancer, id: &str) {
    for _ in 0..5 {
        lease(lb, id).await.complete(BAD);
    }
    assert!(ejected(lb).iter().any(|out| out == id), "{id}");
}

#[tokio::test(start_paused = true)]
async fn lbs_the_time_grows_up_to_its_most_and_is_forgotten_step_by_step() {
    let lb = over_n(10, OutlierDetectionProperties::on(), RoundRobin::default());
    eject(&lb, "3").await;
    for out in [30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 300] {
        let left = state(&lb, "3", InstanceState::skipped_until).unwrap() - tokio::time::Instant::now();
        assert_eq!(left, Duration::from_secs(out));
        tokio::time::sleep(left + Duration::from_millis(1)).await;
        lease(&lb, "3").await.complete(BAD);
    }
    advance(300.001).await;
    lease(&lb, "3").await.complete(GOOD);
    // In use again: each interval of ten seconds takes one away.
    let before = state(&lb, "3", InstanceState::ejections);
    assert_eq!(before, 12);
    advance(50.0).await;
    assert_eq!(state(&lb, "3", InstanceState::ejections), before - 5);
    advance(100.0).await;
    assert_eq!(state(&lb, "3", InstanceState::ejections), 0);
    eject(&lb, "3").await;
    let left = state(&lb, "3", InstanceState::skipped_until).unwrap() - tokio::time::Instant::now();
    assert_eq!(left, Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn lbs_a_tenth_at_most_one_at_least_and_never_more_than_half() {
    for (n, detection, most) in [
        (10, OutlierDetectionProperties::on(), 1),
        (25, OutlierDetectionProperties::on(), 2),
        (4, OutlierDetectionProperties::on(), 1),
        (2, OutlierDetectionProperties::on(), 1),
        (1, OutlierDetectionProperties::on(), 0),
        (3, OutlierDetectionProperties::on().with_max_ejection_percent(67), 1),
        (3, OutlierDetectionProperties::on().with_max_ejection_percent(67).with_min_available_percent(0), 2),
        (10, OutlierDetectionProperties::on().with_max_ejection_percent(100), 5),
        (10, OutlierDetectionProperties::on().with_max_ejection_percent(0), 0),
    ] {
        let lb = over_n(n, detection, RoundRobin::default());
        for _ in 0..n * 100 {
            call(&lb, |_| BAD).await;
        }
        assert_eq!(ejected(&lb).len(), most, "of {n}");
    }
}

#[tokio::test(start_paused = true)]
async fn lbs_those_that_cannot_be_reached_count_for_the_floor() {
    let detection = OutlierDetectionProperties::on().with_max_ejection_percent(100);
    let lb = over_n(4, detection, RoundRobin::default());
    for _ in 0..40 {
        call(&lb, |id| if id < "2" { Outcome::Failure(Failure::Connect) } else { BAD }).await;
    }
    // Two of four are out already.
    assert_eq!(ejected(&lb), Vec::<String>::new());
    assert!(["0", "1"].iter().all(|id| state(&lb, id, InstanceState::is_skipped)));
}

#[tokio::test(start_paused = true)]
async fn lbs_the_success_rate_names_who_is_far_below_the_others() {
    let lb =
        over_n(10, bare().with_success_rate(SuccessRateProperties::default()), RoundRobin::starting_at(0));
    // The clock of the intervals begins with the first failure.
    lease(&lb, "9").await.complete(BAD);
    let mut nines = 0_u32;
    for _ in 0..1_100 {
        let well = nines.is_multiple_of(5);
        nines += u32::from(call(&lb, |id| if id == "9" && !well { BAD } else { GOOD }).await == "9");
    }
    assert_eq!(ejected(&lb), Vec::<String>::new(), "not before the interval ends");
    advance(10.0).await;
    assert_eq!(ejected(&lb), ["9"]);
    assert_eq!(state(&lb, "9", InstanceState::ejected), Some(EjectionCause::SuccessRate));
    let rate = state(&lb, "9", InstanceState::success_rate).unwrap();
    assert!((0.1..0.3).contains(&rate), "{rate}");
    assert_eq!(state(&lb, "1", InstanceState::success_rate), Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn lbs_too_few_calls_or_hosts_name_nobody() {
    for (n, calls) in [(10, 90), (4, 400)] {
        let lb = over_n(n, bare().with_success_rate(SuccessRateProperties::default()), RoundRobin::default());
        for _ in 0..n * calls {
            call(&lb, |id| if id == "0" { BAD } else { GOOD }).await;
        }
        advance(10.0).await;
        assert_eq!(ejected(&lb), Vec::<String>::new(), "{n} with {calls} calls");
    }
}

/// A quarter of all is bad: the success rate alone sees none of them (see the unit tests), the failure percentage sees all.
#[tokio::test(start_paused = true)]
async fn lbs_f7_a_quarter_of_bad_hosts() {
    let bad = |id: &str| if id.parse::<u32>().unwrap() < 5 { BAD } else { GOOD };
    let run = |detection: OutlierDetectionProperties| async move {
        let lb = over_n(20, detection.with_max_ejection_percent(100), RoundRobin::default());
        for _ in 0..20 * 120 {
            call(&lb, bad).await;
        }
        advance(10.0).await;
        ejected(&lb).len()
    };
    assert_eq!(run(bare().with_success_rate(SuccessRateProperties::default())).await, 0);
    assert_eq!(run(bare().with_failure_percentage(FailurePercentageProperties::default())).await, 5);
    assert_eq!(run(OutlierDetectionProperties::on()).await, 5);
}

#[tokio::test(start_paused = true)]
async fn lbs_f6_one_of_twenty_that_fails_every_other_call_is_gone_within_two_intervals() {
    let lb = over_n(20, OutlierDetectionProperties::on(), RoundRobin::default());
    let mut calls = 0_u32;
    let mut gone = None;
    for step in 0..200 {
        for _ in 0..22 * 10 {
            let good = calls.is_multiple_of(2);
            let id = call(&lb, |id| if id == "7" && !good { BAD } else { GOOD }).await;
            calls += u32::from(id == "7");
        }
        advance(1.0).await;
        assert!(ejected(&lb).len() <= 2);
        if gone.is_none() && ejected(&lb) == ["7"] {
            gone = Some(step);
        }
    }
    assert!(gone.is_some_and(|step| step <= 20), "{gone:?}");
}

/// A flapping server: two seconds well, two seconds not. The time out of use grows, and is forgotten once it is well.
#[tokio::test(start_paused = true)]
async fn lbs_f10_a_server_that_flaps_is_out_for_longer_each_time() {
    let lb = over_n(10, OutlierDetectionProperties::on(), RoundRobin::default());
    let start = tokio::time::Instant::now();
    let bad = |id: &str| {
        id == "4" && start.elapsed().as_secs() < 300 && (start.elapsed().as_secs() / 2).is_multiple_of(2)
    };
    let mut outs = Vec::new();
    let mut was = false;
    for _ in 0..400 * 20 {
        for _ in 0..10 {
            call(&lb, |id| if bad(id) { BAD } else { GOOD }).await;
        }
        advance(0.05).await;
        let out = state(&lb, "4", |state| state.ejected().is_some());
        if out && !was {
            outs.push(state(&lb, "4", InstanceState::ejections));
        }
        was = out;
    }
    assert!(outs.len() >= 2 && outs.windows(2).all(|pair| pair[0] <= pair[1] + 3), "{outs:?}");
    assert!(!was, "it is well since a hundred seconds");
}

#[tokio::test(start_paused = true)]
async fn lbs_a_retry_after_is_taken_at_its_word_up_to_the_most() {
    let later = |seconds: &str| Outcome::answered(503, Some(seconds));
    let lb = over_n(4, OutlierDetectionProperties::on(), RoundRobin::default());
    lease(&lb, "0").await.complete(later("7"));
    assert_eq!(state(&lb, "0", InstanceState::ejected), Some(EjectionCause::RetryAfter));
    let left = state(&lb, "0", InstanceState::skipped_until).unwrap() - tokio::time::Instant::now();
    assert_eq!(left, Duration::from_secs(7));
    advance(7.001).await;
    lease(&lb, "0").await.complete(GOOD);
    lease(&lb, "0").await.complete(later("9000"));
    let left = state(&lb, "0", InstanceState::skipped_until).unwrap() - tokio::time::Instant::now();
    assert_eq!(left, Duration::from_secs(300));
    // Nobody goes for no time, and not without leave.
    let lb = over_n(4, OutlierDetectionProperties::on().with_retry_after(false), RoundRobin::default());
    lease(&lb, "0").await.complete(later("7"));
    let lb2 = over_n(4, OutlierDetectionProperties::on(), RoundRobin::default());
    lease(&lb2, "0").await.complete(later("0"));
    assert_eq!((ejected(&lb).len(), ejected(&lb2).len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn lbs_kinds_of_errors_have_thresholds_of_their_own() {
    for (detection, outcome, cause) in [
        (
            bare().with_consecutive_gateway_errors(3),
            Outcome::Status(502),
            EjectionCause::ConsecutiveGatewayErrors,
        ),
        (bare().with_consecutive_local_errors(3), TIMEOUT, EjectionCause::ConsecutiveLocalErrors),
        (bare().with_consecutive_errors(3), Outcome::Grpc(14), EjectionCause::ConsecutiveErrors),
    ] {
        let lb = over_n(4, detection.clone(), RoundRobin::default());
        for _ in 0..3 {
            lease(&lb, "1").await.complete(outcome);
        }
        assert_eq!(state(&lb, "1", InstanceState::ejected), Some(cause), "{outcome}");
        if cause != EjectionCause::ConsecutiveErrors {
            let lb = over_n(4, detection, RoundRobin::default());
            for _ in 0..9 {
                lease(&lb, "1").await.complete(BAD);
            }
            assert_eq!(ejected(&lb).len(), 0, "a 500 is none of {cause}");
        }
    }
}

/// Case 011 with ejection in place of health: one dead local instance must not swallow the traffic of its zone.
#[tokio::test(start_paused = true)]
async fn case_011_a_local_instance_that_fails_is_left_for_the_other_zone() {
    let zoned = |id: &str, zone: &str| instance(id).to_builder().zone(zone).build().unwrap();
    let all = vec![zoned("a1", "A"), zoned("b1", "B"), zoned("b2", "B")];
    let shapes: [fn(SupplierBuilder) -> SupplierBuilder; 2] = [
        |chain| chain.with_zone_preference("A").with_caching(CacheProperties::default()),
        |chain| chain.with_caching(CacheProperties::default()).with_zone_preference("A"),
    ];
    for shape in shapes {
        let chain = shape(SupplierBuilder::new("orders").with_instances(all.clone()).with_seed(7));
        let lb = LoadBalancer::builder(chain.build().unwrap())
            .outlier_detection(OutlierDetectionProperties::on())
            .build();
        let start = tokio::time::Instant::now();
        let well = |id: &str| id != "a1" || start.elapsed().as_secs() >= 60;
        for _ in 0..40 {
            call(&lb, |id| if well(id) { GOOD } else { BAD }).await;
            advance(0.1).await;
        }
        assert_eq!(ejected(&lb), ["a1"]);
        advance(16.0).await;
        let at_20 = picks(&lb, 40).await;
        assert!(at_20.iter().all(|id| id.starts_with('b')), "{at_20:?}");
        // It is well from 60 s on; the call that probes it at some 63 s finds so.
        while start.elapsed() < Duration::from_secs(95) {
            call(&lb, |id| if well(id) { GOOD } else { BAD }).await;
            advance(1.0).await;
        }
        let later = picks(&lb, 40).await;
        assert!(later.iter().all(|id| id == "a1"), "{later:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn lbs_when_all_in_view_are_out_they_are_used_and_one_good_answer_is_enough() {
    let detection =
        OutlierDetectionProperties::on().with_max_ejection_percent(100).with_min_available_percent(0);
    let lb = over_n(3, detection, LeastRequest);
    for _ in 0..60 {
        call(&lb, |_| BAD).await;
    }
    assert_eq!(ejected(&lb).len(), 3);
    let seen = picks(&lb, 300).await;
    assert_eq!(tally(&seen).len(), 3, "all are used when none is left");
    let id = call(&lb, |_| GOOD).await;
    assert!(!ejected(&lb).contains(&id));
    assert_eq!(count(&picks(&lb, 30).await, &id), 30);
}

#[tokio::test(start_paused = true)]
async fn lbs_a_retry_passes_over_who_is_ejected_before_it_returns_to_who_was_tried() {
    let lb = over_n(3, OutlierDetectionProperties::on(), RoundRobin::default());
    eject(&lb, "0").await;
    let mut tried = Tried::new();
    let first = lb.choose(&Request::EMPTY).await.unwrap();
    tried.add(&first);
    let second = lb.choose(&Request::EMPTY.with_tried(&tried)).await.unwrap();
    assert_ne!(second.instance().id(), "0");
    assert_ne!(second.instance().id(), first.instance().id());
    tried.add(&second);
    let third = lb.choose(&Request::EMPTY.with_tried(&tried)).await.unwrap();
    assert_eq!(third.instance().id(), "0", "it was not tried by this call");
}

#[tokio::test(start_paused = true)]
async fn lbs_ejections_outlive_lists() {
    let live = Live::new(list("0 1 2 3"));
    let chain = chain(live.source());
    let lb = LoadBalancer::builder(chain.build().unwrap())
        .outlier_detection(OutlierDetectionProperties::on())
        .build();
    eject(&lb, "1").await;
    live.set(list("3 2 1 0")).await;
    live.set(list("0 2 3")).await;
    live.set(list("0 1 2 3 4")).await;
    assert_eq!(state(&lb, "1", InstanceState::ejected), Some(EjectionCause::ConsecutiveErrors));
    assert_eq!(count(&picks(&lb, 400).await, "1"), 0);
    // The limit counts it again: no second of five may go.
    for _ in 0..200 {
        call(&lb, |id| if id == "2" { BAD } else { GOOD }).await;
    }
    assert_eq!(ejected(&lb), ["1"]);
}

#[tokio::test(start_paused = true)]
async fn lbs_sweeps_end_when_nothing_fails_any_more() {
    let lb = over_n(5, OutlierDetectionProperties::on(), RoundRobin::default());
    lease(&lb, "1").await.complete(BAD);
    lease(&lb, "1").await.complete(GOOD);
    advance(60.0).await;
    let before = state(&lb, "1", InstanceState::success_rate);
    picks(&lb, 500).await;
    advance(60.0).await;
    assert_eq!(state(&lb, "1", InstanceState::success_rate), before, "nobody looks any more");
}
