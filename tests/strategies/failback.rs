//! Failback on virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use evenkeel::call::Failback;
use evenkeel::config::{RetryBudgetProperties, RetryProperties};
use evenkeel::{Choice, Failure, LoadBalancer, Outcome, Request};

use super::common::{Bad, balancer, balancer_with, classify, with_budget};
use crate::support::Log;

const SECOND: Duration = Duration::from_secs(1);

/// A call of which each attempt is counted, and so many fail.
async fn call(
    failback: &Failback,
    lb: &LoadBalancer,
    sent: &Arc<AtomicU32>,
    fail: u32,
    how: Outcome,
) -> bool {
    let (sent, mut attempts) = (sent.clone(), 0);
    let send = move |_: &Choice, _| {
        sent.fetch_add(1, Ordering::Relaxed);
        attempts += 1;
        let good = attempts > fail;
        Some(async move { if good { Ok(Outcome::Success) } else { Err(Bad(how)) } })
    };
    failback.run(lb, &Request::EMPTY, classify, send).await.is_some()
}

const RESET: Outcome = Outcome::Failure(Failure::Reset);

#[tokio::test(start_paused = true)]
async fn dubbo_060_so_many_retries_for_so_many_calls() {
    let (lb, sent) = (balancer("a b"), Arc::new(AtomicU32::new(0)));
    let failback = Failback::default().with_retries(2).with_tasks(2);
    for _ in 0..3 {
        assert!(!call(&failback, &lb, &sent, 9, RESET).await);
    }
    // The third is one too many.
    assert_eq!((failback.pending(), sent.load(Ordering::Relaxed)), (2, 3));
    tokio::time::sleep(SECOND * 3).await;
    assert_eq!(sent.load(Ordering::Relaxed), 3, "not before its time");
    tokio::time::sleep(SECOND * 20).await;
    assert_eq!((failback.pending(), sent.load(Ordering::Relaxed), lb.in_flight()), (0, 3 + 4, 0));
    // One that succeeds is its caller's.
    assert!(call(&failback, &lb, &sent, 0, RESET).await && failback.pending() == 0);
}

#[tokio::test(start_paused = true)]
async fn dubbo_061_how_many_retries() {
    for (failback, attempts) in [
        (Failback::default().with_retries(0), 1),
        (Failback::default().with_retries(2), 3),
        (Failback::default(), 4),
        (Failback::default().with_tasks(0), 4),
    ] {
        let (lb, sent) = (balancer("a"), Arc::new(AtomicU32::new(0)));
        call(&failback, &lb, &sent, 9, RESET).await;
        tokio::time::sleep(SECOND * 60).await;
        assert_eq!((failback.pending(), sent.load(Ordering::Relaxed)), (0, attempts), "{failback:?}");
    }
    // It ends with the first good answer, and does not begin after a business error.
    for (fail, how, attempts) in [(2, RESET, 3), (9, Outcome::Status(404), 1)] {
        let (failback, lb, sent) = (Failback::default(), balancer("a"), Arc::new(AtomicU32::new(0)));
        call(&failback, &lb, &sent, fail, how).await;
        tokio::time::sleep(SECOND * 60).await;
        assert_eq!(sent.load(Ordering::Relaxed), attempts);
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_makes_what_waits_at_once_and_tells_what_is_lost() {
    let (lb, sent) = (balancer("a b"), Arc::new(AtomicU32::new(0)));
    let failback = Failback::default();
    for fail in [1, 2, 9] {
        call(&failback, &lb, &sent, fail, RESET).await;
    }
    let begun = tokio::time::Instant::now();
    assert_eq!((failback.shutdown(SECOND).await, failback.pending()), (1, 0));
    assert!(begun.elapsed() < SECOND && sent.load(Ordering::Relaxed) == 3 + 1 + 2 + 3);
    // Nothing waits after it.
    call(&failback, &lb, &sent, 9, RESET).await;
    assert_eq!((failback.pending(), lb.in_flight()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_hangs_is_given_up_at_the_limit_and_with_the_last_clone() {
    let lb = balancer("a");
    let hanging = async |failback: &Failback| {
        let mut attempts = 0;
        let send = move |_: &Choice, _| {
            attempts += 1;
            let first = attempts == 1;
            Some(async move {
                if !first {
                    std::future::pending::<()>().await;
                }
                Err::<Outcome, _>(Bad(RESET))
            })
        };
        assert!(failback.run(&lb, &Request::EMPTY, classify, send).await.is_none());
        tokio::time::sleep(SECOND * 7).await;
        assert_eq!((lb.in_flight(), failback.pending()), (1, 1));
    };
    let failback = Failback::default();
    hanging(&failback).await;
    assert_eq!(failback.shutdown(SECOND * 2).await, 1);
    tokio::task::yield_now().await;
    assert_eq!(lb.in_flight(), 0);
    let failback = Failback::default();
    hanging(&failback).await;
    drop(failback);
    tokio::task::yield_now().await;
    assert_eq!(lb.in_flight(), 0);
}

const GIVEN_UP: &str = "a call that failed is given up, and nobody waits for it";

#[tokio::test(start_paused = true)]
async fn attempts_behind_the_caller_are_paid_for_and_put_off_until_they_are() {
    // Ten in ten seconds, for twenty calls that arrive with their second attempt.
    let (failback, lb, sent) = (Failback::default(), with_budget("a", 1), Arc::new(AtomicU32::new(0)));
    for _ in 0..20 {
        call(&failback, &lb, &sent, 1, RESET).await;
    }
    tokio::time::sleep(SECOND * 7).await;
    assert_eq!((sent.load(Ordering::Relaxed), failback.pending()), (20 + 10, 10));
    tokio::time::sleep(SECOND * 60).await;
    assert_eq!((sent.load(Ordering::Relaxed), failback.pending()), (20 + 20, 0));
    // They are no calls that pay for others: one call paid for one attempt.
    let budget = RetryBudgetProperties::default().with_percent(100).with_min_per_second(0);
    let lb = balancer_with("a", |builder| builder.retry(RetryProperties::default().with_budget(budget)));
    let (failback, sent) = (Failback::default().with_delay(SECOND), Arc::new(AtomicU32::new(0)));
    call(&failback, &lb, &sent, 9, RESET).await;
    tokio::time::sleep(SECOND * 60).await;
    assert_eq!(sent.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_budget_without_anything_in_it_keeps_no_call_for_ever() {
    let (log, lb, sent) = (Log::default(), with_budget("a", 0), Arc::new(AtomicU32::new(0)));
    let _captured = log.capture();
    let failback = Failback::default();
    call(&failback, &lb, &sent, 9, RESET).await;
    tokio::time::sleep(SECOND * 14).await;
    assert_eq!((failback.pending(), log.count(GIVEN_UP)), (1, 0));
    tokio::time::sleep(SECOND * 20).await;
    assert_eq!((failback.pending(), log.count(GIVEN_UP), sent.load(Ordering::Relaxed)), (0, 1, 1));
    // Nor does it hold up a shutdown.
    call(&failback, &lb, &sent, 9, RESET).await;
    let begun = tokio::time::Instant::now();
    assert_eq!((failback.shutdown(SECOND).await, begun.elapsed()), (1, Duration::ZERO));
    // What was never sent costs nothing.
    let (failback, sent) = (Failback::default(), Arc::new(AtomicU32::new(0)));
    call(&failback, &lb, &sent, 9, Outcome::Failure(Failure::Connect)).await;
    tokio::time::sleep(SECOND * 60).await;
    assert_eq!(sent.load(Ordering::Relaxed), 4);
}

/// A call whose second attempt panics.
async fn panicking(failback: &Failback, lb: &LoadBalancer) {
    let mut attempts = 0;
    let send = move |_: &Choice, _| {
        attempts += 1;
        assert!(attempts < 2, "on purpose");
        Some(async { Err::<Outcome, _>(Bad(RESET)) })
    };
    assert!(failback.run(lb, &Request::EMPTY, classify, send).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn whatever_ends_a_call_it_is_not_lost_without_a_word() {
    let log = Log::default();
    let _captured = log.capture();
    let said = |attempts: u32| {
        let text = log.text();
        text.lines()
            .filter(|line| line.contains(GIVEN_UP))
            .filter(|line| line.contains(&format!("attempts={attempts} ")))
            .count()
    };
    let sent = Arc::new(AtomicU32::new(0));
    // A panic.
    let (failback, lb) = (Failback::default(), balancer("a"));
    panicking(&failback, &lb).await;
    tokio::time::sleep(SECOND * 10).await;
    assert_eq!((said(2), failback.pending(), lb.in_flight()), (1, 0, 0), "{}", log.text());
    assert!(log.text().contains("an attempt was cut off"), "{}", log.text());
    // The last clone.
    let (failback, lb) = (Failback::default(), balancer("a"));
    call(&failback, &lb, &sent, 9, RESET).await;
    drop(failback);
    tokio::task::yield_now().await;
    assert_eq!(said(1), 1);
    // One too many; a limit that is reached.
    let (failback, lb) = (Failback::default().with_tasks(1), balancer("a"));
    call(&failback, &lb, &sent, 9, RESET).await;
    call(&failback, &balancer("b"), &sent, 9, RESET).await;
    assert_eq!(said(1), 2);
    assert_eq!(failback.shutdown(Duration::ZERO).await, 1);
    tokio::task::yield_now().await;
    assert_eq!(log.count(GIVEN_UP), 4, "{}", log.text());
    // One that arrives is not given up.
    let (failback, lb) = (Failback::default(), balancer("a"));
    call(&failback, &lb, &sent, 1, RESET).await;
    tokio::time::sleep(SECOND * 10).await;
    assert_eq!((failback.pending(), log.count(GIVEN_UP)), (0, 4));
}

#[test]
fn a_runtime_that_ends_gives_up_what_waits() {
    let log = Log::default();
    let _captured = log.capture();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let failback = Failback::default();
    runtime.block_on(async {
        let sent = Arc::new(AtomicU32::new(0));
        call(&failback, &balancer("a"), &sent, 9, RESET).await;
    });
    assert_eq!(log.count(GIVEN_UP), 0);
    drop(runtime);
    assert_eq!((log.count(GIVEN_UP), failback.pending()), (1, 0));
}
