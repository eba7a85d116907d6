//! 3.18 Retry, blocking: cases 209 to 230. Those of the pure plan (209 to 211) stand beside it, in `src/call/plan.rs`.

use std::sync::Arc;
use std::time::Duration;

use evenkeel::config::{RetryBackoffProperties, RetryProperties, RetryableError};
use evenkeel::{Failure, Outcome};
use tokio::time::Instant;

use crate::support::calls::{End, Heard, balancer_with, retrying, scripted};

const RESET: End = End::Fail(Failure::Reset);

fn retry(same: u32, next: u32) -> RetryProperties {
    RetryProperties::default()
        .with_max_retries_on_same_service_instance(same)
        .with_max_retries_on_next_service_instance(next)
}

#[tokio::test]
async fn scl_212_the_first_attempt_is_always_allowed() {
    for retry in [retry(0, 0), retry(0, 1).with_enabled(false)] {
        let (answer, sent) = scripted(&retrying("a b", retry), "POST", &[End::Status(200)]).await;
        assert_eq!((answer.unwrap().attempts, sent), (1, vec!["a".to_owned()]));
    }
}

#[tokio::test]
async fn scl_213_a_next_instance_only_if_the_policy_allows_one() {
    let (_, sent) = scripted(&retrying("a b", retry(0, 1)), "GET", &[RESET]).await;
    assert_eq!(sent, ["a", "b"]);
    let (_, sent) = scripted(&retrying("a b", retry(0, 0)), "GET", &[RESET]).await;
    assert_eq!(sent, ["a"]);
}

#[tokio::test]
async fn scl_214_a_failure_that_is_not_retryable_is_refused_at_once() {
    let (answer, sent) = scripted(&retrying("a b", retry(3, 3)), "GET", &[End::Fail(Failure::Other)]).await;
    assert_eq!(sent, ["a"]);
    assert_eq!(answer.unwrap_err().call_error().unwrap().to_string(), "attempt 1 failed");
}

#[tokio::test]
async fn scl_215_what_failed_is_known_to_the_attempt_and_to_the_call() {
    let heard = Arc::new(Heard::default());
    let lb = balancer_with("a b", |builder| builder.retry(retry(0, 1)).lifecycle_arc(heard.clone()));
    let (answer, _) = scripted(&lb, "GET", &[RESET, End::Fail(Failure::Timeout)]).await;
    answer.unwrap_err();
    assert_eq!(
        heard.take(),
        [
            "start GET -",
            "request 1 a -",
            "attempt 1 a connection reset",
            "request 2 b -",
            "attempt 2 b timed out",
            "complete failed b - GET attempt 2 failed",
        ]
    );
}

#[test]
fn scl_216_policies_of_equal_parts_are_equal() {
    let one = retry(1, 2).with_retryable_status_codes([502]);
    assert_eq!(one, retry(1, 2).with_retryable_status_codes([502]));
    assert_ne!(one, retry(2, 2).with_retryable_status_codes([502]));
    assert_ne!(one, retry(1, 2));
}

#[tokio::test]
async fn scl_217_a_new_instance_makes_the_old_one_the_previous() {
    let (answer, sent) = scripted(&retrying("a b c d e f", retry(0, 5)), "GET", &[RESET]).await;
    // Each one was avoided from then on, not only the one just before.
    assert_eq!(sent.iter().collect::<std::collections::BTreeSet<_>>().len(), 6);
    let error = answer.unwrap_err();
    let tried: Vec<_> = error.tried().iter().map(|instance| instance.id().to_owned()).collect();
    assert_eq!(tried, sent);
    // With nobody left it is one of those again.
    let (_, sent) = scripted(&retrying("a b", retry(0, 3)), "GET", &[RESET]).await;
    assert_eq!((&*sent[0], &*sent[1], sent.len()), ("a", "b", 4));
    // Without the wish to avoid them, a retry goes on in its own rotation.
    let free = retry(0, 19).with_avoid_previous_instance(false);
    let (_, sent) = scripted(&retrying("a b", free), "GET", &[RESET]).await;
    assert_eq!((sent.len(), crate::support::count(&sent, "a").abs_diff(10) <= 1), (20, true), "{sent:?}");
}

#[tokio::test]
async fn scl_219_with_retries_off_a_failed_call_has_one_attempt_and_its_own_error() {
    let off = retry(3, 3).with_enabled(false);
    for method in ["GET", "POST"] {
        let (answer, sent) = scripted(&retrying("a b", off.clone()), method, &[RESET]).await;
        let error = answer.unwrap_err().into_call_error().unwrap();
        assert_eq!((sent.len(), error.kind()), (1, std::io::ErrorKind::ConnectionReset));
    }
}

#[tokio::test]
async fn scl_221_without_a_policy_there_is_one_attempt() {
    let (answer, sent) = scripted(&retrying("a b", retry(0, 0)), "GET", &[End::Status(200)]).await;
    assert_eq!((answer.unwrap().response.status, sent.len()), (200, 1));
}

#[tokio::test]
async fn scl_222_what_succeeds_at_once_is_passed_through() {
    let (answer, sent) = scripted(&retrying("a b", retry(2, 2)), "GET", &[End::Status(200)]).await;
    let answer = answer.unwrap();
    assert_eq!((answer.response.attempt, answer.attempts, answer.instance.id()), (1, 1, "a"));
    assert_eq!(sent, ["a"]);
}

#[tokio::test]
async fn scl_223_a_listed_status_is_repeated_and_its_response_given_up_once() {
    use std::sync::atomic::{AtomicU32, Ordering};
    struct Body(Arc<AtomicU32>, u16);
    impl Drop for Body {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let lb = retrying("a b", retry(0, 1).with_retryable_status_codes([404]));
    let closed = Arc::new(AtomicU32::new(0));
    let request = http::Request::get("lb://orders/").body(()).unwrap();
    let view = evenkeel::HttpView::of(&request);
    let judge = |result: Result<&Body, &std::io::Error>| Outcome::Status(result.unwrap().1);
    let send = |_: &evenkeel::Choice, attempt: u32| {
        // The response before is given up when the next request goes out, and not earlier.
        assert_eq!(closed.load(Ordering::SeqCst), 0);
        let body = Body(Arc::clone(&closed), if attempt == 1 { 404 } else { 200 });
        Some(async move { Ok(body) })
    };
    let answer = evenkeel::call::call(&lb, &evenkeel::Request::of(&view), judge, send).await.unwrap();
    assert_eq!((answer.attempts, answer.response.1, closed.load(Ordering::SeqCst)), (2, 200, 1));
}

#[tokio::test]
async fn scl_224_the_last_response_is_the_callers() {
    let lb = retrying("a b", retry(0, 0).with_retryable_status_codes([404]));
    let (answer, sent) = scripted(&lb, "GET", &[End::Status(404)]).await;
    let answer = answer.unwrap();
    assert_eq!((answer.response.status, sent.len()), (404, 1));
    assert_eq!(lb.in_flight(), 1, "its lease is open, so that its body can be read");
    answer.lease.complete(Outcome::Status(404));
    assert_eq!(lb.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn scl_225_a_failure_then_success_with_one_pause() {
    let backoff = RetryBackoffProperties::default()
        .with_enabled(true)
        .with_min_backoff(Duration::from_millis(700))
        .with_jitter(0.0);
    let lb = retrying("a b", retry(0, 1).with_backoff(backoff));
    let start = Instant::now();
    let (answer, sent) = scripted(&lb, "GET", &[RESET, End::Status(200)]).await;
    assert_eq!((answer.unwrap().response.attempt, sent), (2, vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(start.elapsed(), Duration::from_millis(700));
}

#[tokio::test]
async fn scl_226_a_failure_that_may_not_be_repeated_is_the_callers() {
    let (answer, sent) = scripted(&retrying("a b", retry(0, 0)), "GET", &[RESET]).await;
    let error = answer.unwrap_err();
    assert_eq!((sent.len(), error.call_error().unwrap().to_string()), (1, "attempt 1 failed".to_owned()));
    assert!(error.to_string().contains("a.test:8080"), "{error}");
}

#[tokio::test]
async fn scl_227_a_listener_hears_one_failure_of_a_call_that_then_succeeds() {
    let heard = Arc::new(Heard::default());
    let lb = balancer_with("a b", |builder| builder.lifecycle_arc(heard.clone()));
    let (answer, _) = scripted(&lb, "GET", &[RESET, End::Status(200)]).await;
    answer.unwrap().lease.complete(Outcome::Status(200));
    let events = heard.take();
    assert_eq!(events.iter().filter(|event| event.contains("connection reset")).count(), 1, "{events:?}");
    assert_eq!(events.last().unwrap(), "complete success b 200 GET -");
}

#[tokio::test]
async fn scl_228_no_event_comes_twice() {
    let heard = Arc::new(Heard::default());
    let lb = balancer_with("a b", |builder| builder.lifecycle_arc(heard.clone()));
    let (answer, _) = scripted(&lb, "GET", &[End::Status(200)]).await;
    assert_eq!(heard.take(), ["start GET -", "request 1 a -"]);
    answer.unwrap().lease.complete(Outcome::Status(200));
    assert_eq!(heard.take(), ["attempt 1 a status 200", "complete success a 200 GET -"]);
}

#[tokio::test(start_paused = true)]
async fn scl_229_there_is_no_pause_by_default() {
    assert!(!RetryProperties::default().backoff.enabled);
    let start = Instant::now();
    let (_, sent) = scripted(&retrying("a b", retry(1, 1)), "GET", &[RESET]).await;
    assert_eq!((sent.len(), start.elapsed()), (4, Duration::ZERO));
}

#[tokio::test]
async fn scl_230_a_call_without_an_instance_is_discarded_and_not_repeated() {
    let heard = Arc::new(Heard::default());
    let lb = balancer_with("", |builder| builder.retry(retry(3, 3)).lifecycle_arc(heard.clone()));
    let (answer, sent) = scripted(&lb, "GET", &[End::Status(200)]).await;
    let error = answer.unwrap_err();
    assert!(sent.is_empty() && error.choose_error().is_some() && error.tried().is_empty());
    let events = heard.take();
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events[1].starts_with("complete discard - - GET") && events[1].contains("orders"), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn the_budget_of_a_service_stops_retries_but_not_what_was_never_sent() {
    let lb = retrying("a b c", retry(0, 1));
    let mut attempts = 0;
    for _ in 0..1_000 {
        attempts += scripted(&lb, "GET", &[RESET]).await.1.len();
    }
    // 20 % of the calls, and ten a second for ten seconds.
    assert_eq!(attempts, 1_000 + 200 + 100);
    let (answer, sent) = scripted(&lb, "POST", &[End::Fail(Failure::Connect), End::Status(200)]).await;
    assert_eq!((answer.unwrap().attempts, sent.len()), (2, 2));
    crate::support::advance(10.0).await;
    assert_eq!(scripted(&lb, "GET", &[RESET]).await.1.len(), 2, "calls of long ago pay for nothing");
}

#[test]
fn the_words_of_kinds_and_the_classes_of_java() {
    let of = |words: &str| {
        let properties = evenkeel::config::Properties::default().set("retry.retryable-exceptions", words);
        properties.map(|properties| properties.effective("orders").retry.retryable_exceptions)
    };
    assert_eq!(of("reset, other").unwrap(), [RetryableError::Reset, RetryableError::Other]);
    assert_eq!(
        of("java.io.IOException,java.util.concurrent.TimeoutException").unwrap(),
        RetryProperties::default().retryable_exceptions
    );
    assert_eq!(of("java.net.ConnectException").unwrap(), [RetryableError::Connect]);
    assert_eq!(of("").unwrap(), []);
    assert!(of("sometimes").unwrap_err().to_string().contains("connect, timeout, reset"), "named words");
}
