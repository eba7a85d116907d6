//! Failback on virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use evenkeel::call::Failback;
use evenkeel::{Choice, Failure, LoadBalancer, Outcome, Request};

use super::common::{Bad, balancer, classify};

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
