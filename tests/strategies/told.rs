//! What lifecycle processors hear of attempts that run side by side.

use std::sync::Arc;
use std::time::Duration;

use evenkeel::call::{
    AdaptiveThrottle, Broadcast, Failfast, Failover, Forking, Hedging, Strategy, Throttled,
};
use evenkeel::{Choice, Failure, LoadBalancer, Outcome, Request};

use super::common::{Does, Heard, RESET, Script, balancer_with, classify};

fn listening(ids: &str) -> (LoadBalancer, Arc<Heard>) {
    let heard = Arc::new(Heard::default());
    (balancer_with(ids, |builder| builder.lifecycle_arc(heard.clone())), heard)
}

#[tokio::test(start_paused = true)]
async fn losers_are_told_as_cancelled_before_the_call_is_complete() {
    let (lb, heard) = listening("a b");
    let script = Script::new(&[("a", &[Does::Hang]), ("b", &[Does::Status(200, 5)])]);
    let strategy = Hedging::default().with_delay(Duration::from_millis(10));
    script.run(&strategy, &lb).await.unwrap().lease.complete(Outcome::Status(200));
    assert_eq!(
        heard.take(),
        [
            "start - -",
            "request 1 a -",
            "request 2 b -",
            "attempt 1 a cancelled",
            "attempt 2 b status 200",
            "complete success b 200 - -",
        ]
    );
    script.run(&Forking::default(), &lb).await.unwrap().lease.complete(Outcome::Status(200));
    assert_eq!(heard.take().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn failures_and_time_outs_are_told_as_they_come() {
    let (lb, heard) = listening("a b");
    let script = Script::new(&[("a", &[RESET]), ("b", &[Does::Hang])]);
    let strategy = Failover::default().with_retries(1).with_per_try_timeout(Duration::from_millis(10));
    let error = script.run(&strategy, &lb).await.unwrap_err();
    assert_eq!(
        heard.take(),
        [
            "start - -".to_owned(),
            "request 1 a -".to_owned(),
            "attempt 1 a connection reset".to_owned(),
            "request 2 b -".to_owned(),
            "attempt 2 b timed out".to_owned(),
            format!("complete failed b - - {error}"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_broadcast_is_one_call_that_ends_with_its_last_answer() {
    let (lb, heard) = listening("a b");
    let script = Script::new(&[("a", &[Does::Status(200, 0)]), ("b", &[Does::Status(201, 0)])]);
    let send = |choice: &Choice, attempt| script.send(choice, attempt);
    let answers = Broadcast::default().run(&lb, &Request::EMPTY, classify, send).await.unwrap();
    assert_eq!((answers.len(), lb.in_flight()), (2, 2));
    for answer in answers {
        answer.lease.complete(answer.response);
    }
    let heard = heard.take();
    assert_eq!(
        heard[3..],
        ["attempt 1 a status 200", "attempt 2 b status 201", "complete success b 201 - -"]
    );
    assert_eq!(lb.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_refused_here_was_never_sent() {
    let (lb, heard) = listening("a");
    let throttle = AdaptiveThrottle::default().with_floor(0.0);
    (0..100_000).for_each(|_| throttle.ended(false));
    let script = Script::new(&[("a", &[Does::Ok(0)])]);
    let error = script.run(&Throttled::new(Failfast::default(), throttle), &lb).await.unwrap_err();
    assert!(error.is_throttled() && error.to_string().contains("\"orders\""), "{error}");
    assert_eq!(heard.take(), ["start - -".to_owned(), format!("complete discard - - - {error}")]);
    assert_eq!(script.order(), "");
}

#[tokio::test(start_paused = true)]
async fn a_call_can_be_spawned() {
    let (lb, heard) = listening("a b");
    let call = tokio::spawn({
        let lb = lb.clone();
        async move {
            let send = |_: &Choice, _| {
                Some(async {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    Err::<Outcome, _>(super::common::Bad(Outcome::Failure(Failure::Other)))
                })
            };
            let hedging = Hedging::default();
            drop(hedging.run(&lb, &Request::EMPTY, classify, send).await);
        }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(lb.in_flight(), 2);
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    let heard = heard.take();
    assert_eq!((lb.in_flight(), heard.len()), (0, 6));
    assert!(heard[5].starts_with("complete cancelled"), "{heard:?}");
}
