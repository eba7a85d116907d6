//! Hedging on virtual time.

use std::time::Duration;

use evenkeel::call::{Available, Failfast, Failover, Forking, Hedging, Protocol, PushBack, Strategy};
use evenkeel::policy::RoundRobin;
use evenkeel::{Choice, Failure, Outcome, Request};

use super::attempts::Pushing;
use super::common::{Bad, Does, REFUSED, RESET, Script, balancer, balancer_with, classify, with_budget};

const MS: fn(u64) -> Duration = Duration::from_millis;

#[tokio::test(start_paused = true)]
async fn lbs_grpc_hedging_sends_attempt_k_after_k_delays() {
    let lb = balancer("a b c d e");
    let hang: &[Does] = &[Does::Hang];
    let script = Script::new(&[("a", hang), ("b", hang), ("c", hang), ("d", hang), ("e", hang)]);
    let strategy =
        Hedging::default().with_attempts(4).with_delay(MS(500)).with_timeout(Duration::from_secs(5));
    let error = script.run(&strategy, &lb).await.unwrap_err();
    assert_eq!(script.times(), [0, 500, 1_000, 1_500]);
    assert!(error.is_timeout() && error.tried().len() == 4, "{error}");
    let ids: std::collections::BTreeSet<_> = error.tried().iter().map(|one| one.id().to_owned()).collect();
    assert_eq!((ids.len(), lb.in_flight()), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn lbs_grpc_hedging_goes_on_at_once_after_a_failure_and_ends_at_a_fatal_error() {
    let lb = balancer("a b c");
    let fail: &[Does] = &[Does::Fail(Failure::Reset, 20)];
    let script = Script::new(&[("a", fail), ("b", fail), ("c", &[Does::Ok(5)])]);
    let strategy = Hedging::default().with_attempts(3).with_delay(MS(500));
    let answer = script.run(&strategy, &lb).await.unwrap();
    assert_eq!((script.times(), answer.attempts, lb.in_flight()), (vec![0, 20, 40], 3, 1));
    drop(answer);
    // The error of the second one is the call's own: the first one is cancelled.
    let lb = balancer("a b c");
    let script = Script::new(&[("a", &[Does::Hang]), ("b", &[Does::Business(10)]), ("c", &[Does::Ok(0)])]);
    let error = script.run(&strategy, &lb).await.unwrap_err();
    assert_eq!((script.times(), error.is_business(), lb.in_flight()), (vec![0, 500], true, 0));
}

#[tokio::test(start_paused = true)]
async fn a_push_back_beyond_the_time_of_the_call_is_not_waited_for() {
    for (timeout, times, took) in [(5_000, vec![0, 250], 250), (250, vec![0], 0), (200, vec![0], 0)] {
        let lb = balancer("a b c");
        let script = Script::new(&[("a", &[RESET]), ("b", &[RESET]), ("c", &[RESET])]);
        let send = |choice: &Choice, attempt| script.send(choice, attempt);
        let strategy = Hedging::default().with_delay(MS(50)).with_timeout(MS(timeout));
        let begun = tokio::time::Instant::now();
        let pushing = Pushing(PushBack::After(MS(250)));
        let error = strategy.run_with(&lb, &Request::EMPTY, &pushing, send).await.unwrap_err();
        assert_eq!((script.times(), begun.elapsed(), lb.in_flight()), (times, MS(took), 0), "{timeout} ms");
        // The caller gets what the instance said, not that the time is up.
        assert_eq!(error.call_error(), Some(&Bad(Outcome::Failure(Failure::Reset))));
    }
}

/// Who takes too long asks for a pause.
struct Pausing;

impl Protocol<Outcome, Bad> for Pausing {
    fn outcome(&self, result: Result<&Outcome, &Bad>) -> Outcome {
        classify(result)
    }
    fn push_back(&self, result: Result<&Outcome, &Bad>) -> PushBack {
        match result {
            Err(Bad(Outcome::Failure(Failure::Timeout))) => PushBack::After(MS(400)),
            _ => PushBack::None,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_push_back_holds_though_another_attempt_fails_behind_it() {
    let lb = balancer("a b c");
    let script = Script::new(&[
        ("a", &[Does::Fail(Failure::Timeout, 60)]),
        ("b", &[Does::Fail(Failure::Reset, 30)]),
        ("c", &[Does::Ok(5)]),
    ]);
    let send = |choice: &Choice, attempt| script.send(choice, attempt);
    let strategy = Hedging::default().with_attempts(3).with_delay(MS(50));
    let answer = strategy.run_with(&lb, &Request::EMPTY, &Pausing, send).await.unwrap();
    assert_eq!((script.times(), answer.attempts), (vec![0, 50, 460], 3));
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_time_is_up_begins_no_attempt() {
    nobody_is_called(&Failover::default().with_timeout(MS(0))).await;
    nobody_is_called(&Failfast::default().with_timeout(MS(0))).await;
    nobody_is_called(&Forking::default().with_timeout(MS(0))).await;
    nobody_is_called(&Hedging::default().with_timeout(MS(0))).await;
    nobody_is_called(&Available::default().with_timeout(MS(0))).await;
}

async fn nobody_is_called(strategy: &impl Strategy) {
    let (lb, script) = (balancer("a b"), Script::new(&[("a", &[Does::Ok(0)]), ("b", &[Does::Ok(0)])]));
    let error = script.run(strategy, &lb).await.unwrap_err();
    assert!(error.is_timeout() && error.tried().is_empty(), "{error}");
    assert_eq!((script.order().as_str(), lb.in_flight()), ("", 0));
}

#[tokio::test(start_paused = true)]
async fn hedges_take_from_the_budget_and_never_go_to_one_instance_twice() {
    let script = || Script::new(&[("a", &[Does::Ok(300)]), ("b", &[Does::Ok(300)])]);
    let strategy = Hedging::default().with_delay(MS(1));
    let (all, lb) = (script(), with_budget("a b", 1));
    for _ in 0..15 {
        all.run(&strategy, &lb).await.unwrap();
    }
    assert_eq!(all.order().split(' ').count(), 15 + 10);
    // Nobody else is there.
    let (one, lb) = (script(), balancer("a"));
    let answer = one.run(&strategy, &lb).await.unwrap();
    assert_eq!((one.order().as_str(), answer.attempts), ("a", 1));
    // What was never sent costs nothing.
    let free = Script::new(&[("a", &[REFUSED]), ("b", &[Does::Ok(0)])]);
    let answer = free.run(&strategy, &with_budget("a b", 0)).await.unwrap();
    assert_eq!((free.order().as_str(), answer.attempts), ("a b", 2));
}

/// Calls of which one in a hundred takes a second, and the others 10 ms; the share that took above 100 ms, and the attempts
/// for one call.
async fn tail(strategy: &Hedging, calls: u32) -> (f64, f64) {
    let lb = balancer_with("a b c", |builder| builder.policy(RoundRobin::starting_at(-1)));
    let (mut slow, mut sent) = (0, 0);
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..calls {
        let begun = tokio::time::Instant::now();
        let send = |_: &Choice, _| {
            sent += 1;
            let takes = MS(if random.u32(..100) == 0 { 1_000 } else { 10 });
            Some(async move {
                tokio::time::sleep(takes).await;
                Ok::<_, Bad>(Outcome::Success)
            })
        };
        let answer = strategy.run(&lb, &Request::EMPTY, classify, send).await.unwrap();
        slow += u32::from(begun.elapsed() > MS(100));
        answer.lease.complete(Outcome::Success);
    }
    assert_eq!(lb.in_flight(), 0);
    (f64::from(slow) / f64::from(calls), f64::from(sent) / f64::from(calls))
}

#[tokio::test(start_paused = true)]
async fn lbs_hedging_takes_the_tail_of_a_mixture_for_one_percent_more() {
    let calls = 20_000;
    let (alone, once) = tail(&Hedging::default().with_attempts(1), calls).await;
    assert!((alone - 0.01).abs() < 0.003 && once <= 1.0, "{alone} {once}");
    let (hedged, sent) = tail(&Hedging::default().with_delay(MS(20)), calls).await;
    // Both are slow in one of ten thousand.
    assert!(hedged < 0.000_5 && sent < 1.013, "{hedged} {sent}");
}

#[tokio::test(start_paused = true)]
async fn the_percentile_is_learnt_and_bounds_what_is_sent_twice() {
    let strategy = Hedging::default();
    assert_eq!(strategy.delay(), MS(100));
    let (slow, sent) = tail(&strategy, 5_000).await;
    let delay = strategy.delay();
    assert!(delay >= MS(10) && delay <= MS(12), "{delay:?}");
    assert!(slow < 0.001 && sent < 1.05, "{slow} {sent}");
    // Clones share what they learn; another percentile begins anew.
    assert_eq!(strategy.clone().delay(), delay);
    assert_eq!(strategy.with_percentile(99.0, MS(7)).delay(), MS(7));
}
