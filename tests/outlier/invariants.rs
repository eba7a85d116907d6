//! What holds whatever the calls do.

use std::time::Duration;

use evenkeel::config::{
    FailurePercentageProperties, OutlierDetectionProperties, SlowStartProperties, SuccessRateProperties,
};
use evenkeel::policy::{PeakEwma, RoundRobin};
use evenkeel::{Choice, Failure, InstanceState, LoadBalancer, Outcome, Request};
use proptest::prelude::*;

use super::ejection::{over_n, state};
use crate::support::{Live, advance, chain, list, pick};

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A call begins, with this cost.
    Begin(u16),
    /// The oldest call of those that run ends so.
    End(Outcome),
    Wait(u64),
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        3 => Just(Outcome::Status(200)),
        4 => Just(Outcome::Status(500)),
        1 => Just(Outcome::Status(503)),
        1 => Just(Outcome::answered(429, Some("20"))),
        2 => Just(Outcome::Failure(Failure::Timeout)),
        1 => Just(Outcome::Failure(Failure::Reset)),
        1 => Just(Outcome::Cancelled),
        1 => Just(Outcome::Grpc(14)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0_u16..40).prop_map(Step::Begin),
        5 => outcome().prop_map(Step::End),
        1 => (1_u64..70_000).prop_map(Step::Wait),
    ]
}

/// Small numbers, so that every detector has something to say.
fn eager() -> OutlierDetectionProperties {
    OutlierDetectionProperties::on()
        .with_consecutive_errors(2)
        .with_consecutive_gateway_errors(1)
        .with_consecutive_local_errors(2)
        .with_max_ejection_time_jitter(Duration::from_secs(2))
        .with_success_rate(SuccessRateProperties::default().with_minimum_hosts(2).with_request_volume(2))
        .with_failure_percentage(
            FailurePercentageProperties::default().with_minimum_hosts(1).with_request_volume(2),
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The limits hold at every moment, half of the list stays in use, counts return to zero, and everybody comes back.
    #[test]
    fn ejections_keep_their_limits_and_everybody_comes_back(
        n in 1_usize..13,
        percent in prop_oneof![Just(0_u32), Just(10), Just(34), Just(100)],
        steps in prop::collection::vec(step(), 1..250),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async move {
            let lb = over_n(n, eager().with_max_ejection_percent(percent), RoundRobin::default());
            let mut running: Vec<Choice> = Vec::new();
            let mut cost = 0;
            for step in steps {
                match step {
                    Step::Begin(each) => {
                        running.push(lb.choose(&Request::EMPTY.with_cost(each)).await.unwrap());
                        cost += u32::from(each.max(1));
                        prop_assert_eq!(lb.in_flight(), cost);
                    }
                    Step::End(outcome) if !running.is_empty() => {
                        running.remove(0).complete(outcome);
                        cost = lb.in_flight();
                    }
                    Step::End(_) => {}
                    Step::Wait(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                }
                let Some(snapshot) = lb.snapshot() else { continue };
                let out = snapshot.all_instances().filter(|state| state.ejected().is_some()).count();
                let allowed = (n * percent as usize / 100).max(usize::from(percent > 0)).min(n / 2);
                prop_assert!(out <= allowed, "{} of {} are out, {} may be", out, n, allowed);
            }
            for choice in running {
                choice.complete(Outcome::Success);
            }
            prop_assert_eq!(lb.in_flight(), 0);
            // Longer than the longest ejection: one good answer each brings everybody back.
            tokio::time::sleep(Duration::from_secs(400)).await;
            for _ in 0..4 * n {
                lb.choose(&Request::EMPTY).await.unwrap().complete(Outcome::Status(200));
            }
            for id in 0..n {
                prop_assert!(!state(&lb, &id.to_string(), InstanceState::is_skipped), "{} stays out", id);
            }
            // And nothing is remembered for ever.
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            for id in 0..n {
                prop_assert_eq!(state(&lb, &id.to_string(), InstanceState::ejections), 0);
            }
            Ok(())
        })?;
    }
}

/// Case 055 with latencies, ejections and slow starts on: a thousand rounds in each of which all instances are replaced, and of
/// which some fail.
#[tokio::test(start_paused = true)]
async fn case_055_states_of_instances_that_are_gone_are_forgotten_with_everything_on() {
    let live = Live::new(list("first"));
    let lb = LoadBalancer::builder(chain(live.source()).build().unwrap())
        .policy(PeakEwma::default())
        .outlier_detection(OutlierDetectionProperties::on().with_consecutive_errors(1))
        .slow_start(SlowStartProperties::default().with_window(Duration::from_secs(30)))
        .build();
    pick(&lb).await;
    let mut ejected = 0;
    for round in 0..1_000 {
        let ids: Vec<String> = (0..10).map(|n| format!("i{round}-{n}")).collect();
        live.set(list(&ids.join(" "))).await;
        for at in 0..100 {
            let choice = lb.choose(&Request::EMPTY).await.unwrap();
            let bad = choice.instance().id().ends_with("-3");
            if at % 10 == 0 {
                advance(0.01).await;
            }
            choice.complete(if bad { Outcome::Status(500) } else { Outcome::Status(200) });
        }
        ejected += lb.snapshot().unwrap().all_instances().filter(|state| state.ejected().is_some()).count();
        assert!(lb.tracked() <= 30, "round {round}: {} are tracked", lb.tracked());
        advance(60.0).await;
    }
    assert!(ejected > 100, "{ejected} of 1000 rounds ejected somebody");
    assert_eq!(lb.in_flight(), 0);
}
