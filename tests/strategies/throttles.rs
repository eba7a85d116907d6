//! The throttles of the properties, over `call` and over strategies.

use std::time::Duration;

use evenkeel::call::{Failover, Strategy, call};
use evenkeel::config::{AdaptiveThrottleProperties, RetryProperties, RetryThrottleProperties};
use evenkeel::{Choice, Failure, LoadBalancer, Outcome, Request};

use super::common::{Bad, Does, Script, balancer_with, classify};

fn retrying(retry: RetryProperties) -> LoadBalancer {
    balancer_with("a b", |builder| builder.retry(retry.with_retry_on_all_operations(true)))
}

/// One call by the properties; its attempts, and whether it was refused here.
async fn once(lb: &LoadBalancer, outcome: Outcome) -> (u32, bool) {
    let mut attempts = 0;
    let send = |_: &Choice, _| {
        attempts += 1;
        let good = outcome == Outcome::Success;
        Some(async move { if good { Ok(outcome) } else { Err(Bad(outcome)) } })
    };
    match call(lb, &Request::EMPTY, classify, send).await {
        Ok(answer) => {
            answer.lease.complete(Outcome::Success);
            (attempts, false)
        }
        Err(error) => (attempts, error.is_throttled()),
    }
}

const RESET: Outcome = Outcome::Failure(Failure::Reset);

#[tokio::test(start_paused = true)]
async fn retries_stop_when_half_of_the_tokens_are_gone_whoever_took_them() {
    let throttle = RetryThrottleProperties::default().with_enabled(true);
    let lb = retrying(RetryProperties::default().with_throttle(throttle));
    let mut attempts = Vec::new();
    for _ in 0..4 {
        attempts.push(once(&lb, RESET).await.0);
    }
    assert_eq!(attempts, [2, 2, 1, 1]);
    // A strategy shares the tokens of its service.
    let send = |_: &Choice, _| Some(async { Err::<Outcome, _>(Bad(RESET)) });
    let error = Failover::default().run(&lb, &Request::EMPTY, classify, send).await.unwrap_err();
    assert_eq!(error.tried().len(), 1);
    // What was never sent takes none, and goes on.
    assert_eq!(once(&lb, Outcome::Failure(Failure::Connect)).await.0, 2);
    for _ in 0..40 {
        once(&lb, Outcome::Success).await;
    }
    assert_eq!(once(&lb, RESET).await.0, 2);
    // It is off unless somebody asks for it.
    let lb = retrying(RetryProperties::default());
    for _ in 0..9 {
        assert_eq!(once(&lb, RESET).await.0, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn calls_are_refused_here_while_the_service_accepts_too_few() {
    let adaptive = AdaptiveThrottleProperties::default()
        .with_enabled(true)
        .with_window(Duration::from_secs(60))
        .with_floor(0.1);
    let retry = RetryProperties::default().with_max_retries_on_next_service_instance(0);
    let lb = retrying(retry.clone().with_adaptive_throttle(adaptive));
    for _ in 0..100 {
        assert_eq!(once(&lb, Outcome::Success).await, (1, false));
    }
    // Requests are more than twice the accepts only after a hundred failures.
    for _ in 0..100 {
        assert_eq!(once(&lb, RESET).await, (1, false));
    }
    let mut refused = 0;
    for _ in 0..1_000 {
        let (attempts, here) = once(&lb, RESET).await;
        assert_eq!(attempts, u32::from(!here));
        refused += u32::from(here);
    }
    assert!((400..900).contains(&refused), "{refused}");
    // A call that is the caller's own fault, or found nobody, is none against the service; and a window forgets.
    tokio::time::advance(Duration::from_secs(61)).await;
    for _ in 0..100 {
        assert_eq!(once(&lb, Outcome::Status(404)).await, (1, false));
    }
    let lb = retrying(retry);
    for _ in 0..300 {
        assert_eq!(once(&lb, RESET).await, (1, false), "off by default");
    }
}

#[tokio::test(start_paused = true)]
async fn call_leaves_alone_who_asks_to_come_later() {
    let later = |seconds| Outcome::RetryAfter(evenkeel::RetryAfter::new(503, seconds).unwrap());
    for (ids, seconds, same, next, times) in [
        ("a b", 3, 0, 1, vec![0, 0]),
        ("a", 3, 0, 1, vec![0, 3_000]),
        // Another one is asked though there are more attempts on this one, and however long it wants to be left alone.
        ("a b", 3, 1, 1, vec![0, 0]),
        ("a b", 60, 1, 1, vec![0, 0]),
        ("a", 3, 1, 1, vec![0, 3_000]),
        ("a b", 3, 1, 0, vec![0, 3_000]),
        ("a b", 60, 1, 0, vec![0]),
        ("a", 10, 0, 1, vec![0, 10_000]),
        ("a", 11, 0, 1, vec![0]),
    ] {
        let retry = RetryProperties::default()
            .with_retryable_status_codes([503])
            .with_retry_on_all_operations(true)
            .with_max_retries_on_same_service_instance(same)
            .with_max_retries_on_next_service_instance(next);
        let lb = balancer_with(ids, |builder| builder.retry(retry));
        let start = tokio::time::Instant::now();
        let mut called = Vec::new();
        let send = |_: &Choice, attempt| {
            called.push(start.elapsed().as_millis());
            let outcome = if attempt == 1 { later(seconds) } else { Outcome::Success };
            Some(async move { Ok::<_, Bad>(outcome) })
        };
        let answer = call(&lb, &Request::EMPTY, classify, send).await.unwrap();
        let wanted = if times.len() == 1 { later(seconds) } else { Outcome::Success };
        assert_eq!((answer.response, called), (wanted, times), "{ids} {seconds} s, {same} more on the same");
        answer.lease.complete(Outcome::Success);
        assert_eq!(lb.in_flight(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn call_returns_to_one_that_failed_rather_than_to_one_that_wants_to_be_left_alone() {
    for avoid in [true, false] {
        let retry = RetryProperties::default()
            .with_retryable_status_codes([503])
            .with_retry_on_all_operations(true)
            .with_avoid_previous_instance(avoid)
            .with_max_retries_on_next_service_instance(3);
        let heard = std::sync::Arc::new(super::common::Heard::default());
        let lb = balancer_with("a b", |builder| builder.retry(retry).lifecycle_arc(heard.clone()));
        let script = Script::new(&[
            ("a", &[Does::Later(8)]),
            ("b", &[Does::Status(503, 0), Does::Status(503, 0), Does::Ok(0)]),
        ]);
        let send = |choice: &Choice, _| script.go(choice);
        let answer = call(&lb, &Request::EMPTY, classify, send).await.unwrap();
        assert_eq!((script.order().as_str(), script.times()), ("a b b b", vec![0; 4]), "{avoid}");
        drop(answer);
        // An instance that was only looked at was no attempt.
        let heard = heard.take();
        assert_eq!(
            (heard.iter().filter(|event| event.starts_with("lease")).count(), lb.in_flight()),
            (0, 0),
            "{heard:?}"
        );
    }
}
