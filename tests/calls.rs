//! What holds for every call, however it goes: one end for each start, nothing left in flight, and no more attempts than
//! are allowed.

mod support;

use std::sync::Arc;
use std::time::Duration;

use evenkeel::call::call;
use evenkeel::config::{RetryBackoffProperties, RetryProperties};
use evenkeel::{Choice, Failure, HttpView, Outcome, Request};
use proptest::prelude::*;
use support::calls::{End, Heard, Reply, balancer_with, judge};

/// How an attempt goes.
#[derive(Clone, Copy, Debug)]
enum Step {
    Status(u16),
    Fail(Failure),
    /// It takes so long before it ends with 200.
    Slow(u64),
    /// It cannot be sent again.
    Spent,
    /// The caller's own code panics.
    Panic,
}

/// What the caller does with the response.
#[derive(Clone, Copy, Debug)]
enum Finish {
    Complete,
    Drop,
    Track,
    TrackAndDrop,
}

fn step() -> impl Strategy<Value = Step> {
    let failure = prop_oneof![
        Just(Failure::Connect),
        Just(Failure::Timeout),
        Just(Failure::Reset),
        Just(Failure::Other)
    ];
    prop_oneof![
        prop::sample::select(vec![200, 404, 500, 503]).prop_map(Step::Status),
        failure.prop_map(Step::Fail),
        (1..100_u64).prop_map(Step::Slow),
        Just(Step::Spent),
        Just(Step::Panic),
    ]
}

fn retry() -> impl Strategy<Value = RetryProperties> {
    (0..3_u32, 0..4_u32, any::<[bool; 5]>()).prop_map(|(same, next, [on, all, any, avoid, pause])| {
        RetryProperties::default()
            .with_enabled(on)
            .with_max_retries_on_same_service_instance(same)
            .with_max_retries_on_next_service_instance(next)
            .with_retry_on_all_operations(all)
            .with_retry_on_all_exceptions(any)
            .with_avoid_previous_instance(avoid)
            .with_retryable_status_codes([404, 503])
            .with_backoff(RetryBackoffProperties::default().with_enabled(pause))
    })
}

/// One call as given, cut off after `patience` milliseconds; the number of attempts that were made.
async fn run(
    ids: &str,
    retry: RetryProperties,
    method: &str,
    steps: &[Step],
    finish: Finish,
    patience: u64,
    limit: Option<u64>,
) -> (u32, Vec<String>, u32) {
    let heard = Arc::new(Heard::default());
    let lb = balancer_with(ids, |builder| builder.retry(retry).lifecycle_arc(heard.clone()));
    let request = http::Request::builder().method(method).uri("lb://orders/").body(()).unwrap();
    let mut attempts = 0;
    let end = limit.map(|limit| tokio::time::Instant::now() + Duration::from_millis(limit));
    let work = {
        let (lb, attempts) = (lb.clone(), &mut attempts);
        async move {
            let view = HttpView::of(&request);
            let send = |_: &Choice, attempt: u32| {
                let step = steps[(attempt as usize - 1) % steps.len()];
                if matches!(step, Step::Spent) {
                    return None;
                }
                *attempts += 1;
                if attempt > 1 {
                    // The panic is the caller's own, but then there is an attempt of which nobody hears.
                    assert!(end.is_none_or(|end| tokio::time::Instant::now() < end), "its time is up");
                }
                Some(async move {
                    match step {
                        Step::Status(status) => Ok(Reply { status, attempt }),
                        Step::Fail(failure) => Err(error(failure)),
                        Step::Slow(millis) => {
                            tokio::time::sleep(Duration::from_millis(millis)).await;
                            Ok(Reply { status: 200, attempt })
                        }
                        Step::Spent | Step::Panic => panic!("on purpose"),
                    }
                })
            };
            let (request, until) = (Request::of(&view), Until(end));
            let Ok(answered) = evenkeel::call::call_with(&lb, &request, &until, send).await else { return };
            let body =
                || http::Response::new(http_body_util::Full::new(hyper::body::Bytes::from_static(b"x")));
            match finish {
                Finish::Complete => answered.lease.complete(Outcome::Status(answered.response.status)),
                Finish::Drop => drop(answered),
                Finish::Track => {
                    let tracked = answered.lease.track(body());
                    http_body_util::BodyExt::collect(tracked.into_body()).await.unwrap();
                }
                Finish::TrackAndDrop => drop(answered.lease.track(body())),
            }
        }
    };
    let guarded = futures_util::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(work));
    let _ = tokio::time::timeout(Duration::from_millis(patience), guarded).await;
    (attempts, heard.take(), lb.in_flight())
}

fn error(failure: Failure) -> std::io::Error {
    use std::io::ErrorKind;
    std::io::Error::from(match failure {
        Failure::Connect => ErrorKind::ConnectionRefused,
        Failure::Timeout => ErrorKind::TimedOut,
        Failure::Reset => ErrorKind::ConnectionReset,
        _ => ErrorKind::Other,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn every_call_and_every_attempt_has_one_start_and_one_end(
        ids in prop::sample::select(vec!["", "a", "a b", "a b c d"]),
        retry in retry(),
        method in prop::sample::select(vec!["GET", "POST", "HEAD"]),
        steps in prop::collection::vec(step(), 1..6),
        finish in prop::sample::select(vec![Finish::Complete, Finish::Drop, Finish::Track, Finish::TrackAndDrop]),
        patience in 0..300_u64,
        limit in prop::option::of(1..100_u64),
    ) {
        // A panic that the script asks for says nothing of a fault.
        std::panic::set_hook(Box::new(|_| {}));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let most = retry.most_attempts();
        let (attempts, events, in_flight) =
            runtime.block_on(run(ids, retry, method, &steps, finish, patience, limit));
        let _ = std::panic::take_hook();
        let count = |word: &str| events.iter().filter(|event| event.starts_with(word)).count();
        prop_assert_eq!(in_flight, 0);
        prop_assert_eq!(count("start "), 1, "{:?}", events);
        prop_assert_eq!(count("complete "), 1, "{:?}", events);
        prop_assert!(events.last().unwrap().starts_with("complete "), "{events:?}");
        prop_assert_eq!(count("lease "), 0, "{:?}", events);
        // What a test sends is what is told; a caller who gives up may do so between two polls of one attempt.
        prop_assert_eq!(count("request "), count("attempt "), "{:?}", events);
        prop_assert_eq!(count("request "), attempts as usize, "{:?}", events);
        // One more than the properties say, for a call that was never sent.
        prop_assert!(u64::from(attempts) <= most.max(1) * 2 + 1, "{attempts} of {most}");
        // An attempt that another one follows was not given up.
        for pair in events.windows(2).filter(|pair| pair[1].starts_with("request ")) {
            prop_assert!(!pair[0].ends_with("cancelled"), "{events:?}");
        }
        // Every attempt ends before the next one starts.
        let mut open = 0;
        for event in &events {
            open += i32::from(event.starts_with("request "));
            open -= i32::from(event.starts_with("attempt "));
            prop_assert!((0..=1).contains(&open), "{events:?}");
        }
        let nobody = ["complete discard", "complete cancelled"].iter().any(|end| events[1].starts_with(end));
        prop_assert!(!ids.is_empty() || nobody, "{events:?}");
    }
}

#[tokio::test]
async fn what_a_panicking_processor_sees_at_the_end_of_a_lease_disturbs_nothing() {
    #[derive(Debug)]
    struct Panics;
    impl evenkeel::observe::Lifecycle for Panics {
        fn on_attempt(&self, _: &evenkeel::observe::AttemptEnd<'_>) {
            panic!("on purpose");
        }
    }
    let heard = Arc::new(Heard::default());
    let lb = balancer_with("a", |builder| builder.lifecycle(Panics).lifecycle_arc(heard.clone()));
    lb.choose(&Request::EMPTY).await.unwrap().complete(Outcome::Success);
    // Also while its caller panics: a second panic would end the process.
    let caller = tokio::spawn({
        let lb = lb.clone();
        async move {
            let _choice = lb.choose(&Request::EMPTY).await.unwrap();
            panic!("the caller's own");
        }
    });
    assert!(caller.await.unwrap_err().is_panic());
    assert_eq!(heard.take(), ["lease 1 a success", "lease 1 a cancelled"]);
    assert_eq!(lb.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn attempts_and_calls_know_how_long_they_took() {
    use std::sync::Mutex;
    #[derive(Debug, Default)]
    struct Took(Mutex<Vec<u128>>);
    impl evenkeel::observe::Lifecycle for Took {
        fn on_attempt(&self, attempt: &evenkeel::observe::AttemptEnd<'_>) {
            self.0.lock().unwrap().push(attempt.elapsed.as_millis());
        }
        fn on_complete(&self, call: &evenkeel::observe::Completion<'_>) {
            self.0.lock().unwrap().push(call.elapsed.as_millis());
        }
    }
    let took = Arc::new(Took::default());
    let backoff = RetryBackoffProperties::default()
        .with_enabled(true)
        .with_jitter(0.0)
        .with_min_backoff(Duration::from_millis(500));
    let retry = RetryProperties::default().with_backoff(backoff);
    let lb = balancer_with("a b", |builder| builder.retry(retry).lifecycle_arc(took.clone()));
    let request = http::Request::get("lb://orders/").body(()).unwrap();
    let view = HttpView::of(&request);
    let send = |_: &Choice, attempt: u32| {
        Some(async move {
            tokio::time::sleep(Duration::from_millis(u64::from(attempt) * 30)).await;
            if attempt == 1 { Err(error(Failure::Reset)) } else { Ok(Reply { status: 200, attempt }) }
        })
    };
    let answered = call(&lb, &Request::of(&view), judge, send).await.unwrap();
    // The body takes its time, too.
    support::advance(0.1).await;
    answered.lease.complete(Outcome::Status(200));
    assert_eq!(*took.0.lock().unwrap(), [30, 60 + 100, 30 + 500 + 60 + 100]);
}

#[tokio::test]
async fn an_attempt_whose_status_is_repeated_ends_with_that_status_whatever_it_is() {
    for status in [200, 404, 429, 503] {
        let retry = RetryProperties::default().with_retryable_status_codes([status]);
        let heard = Arc::new(Heard::default());
        let lb = balancer_with("a b", |builder| builder.retry(retry).lifecycle_arc(heard.clone()));
        let script = [End::Status(status), End::Status(201)];
        let answer = support::calls::scripted(&lb, "GET", &script).await.0.unwrap();
        assert_eq!((answer.attempts, lb.in_flight()), (2, 1));
        drop(answer);
        let heard = heard.take();
        assert_eq!((lb.in_flight(), heard.len()), (0, 6));
        assert_eq!(heard[2], format!("attempt 1 a status {status}"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_whose_probing_call_is_answered_with_a_status_that_is_repeated_is_back_in_use() {
    let retry = RetryProperties::default().with_retryable_status_codes([404]);
    let lb = support::calls::retrying("a b", retry);
    let refused = [End::Fail(Failure::Connect), End::Status(200)];
    support::calls::scripted(&lb, "GET", &refused).await.0.unwrap();
    let list = lb.snapshot().unwrap();
    let skipped = || list.instances().filter(|state| state.is_skipped()).count();
    assert_eq!(skipped(), 1);
    support::advance(1.1).await;
    for _ in 0..2 {
        support::calls::scripted(&lb, "GET", &[End::Status(404)]).await.0.unwrap();
    }
    assert_eq!(skipped(), 0, "it answered");
}

#[tokio::test]
async fn an_instance_that_answers_when_it_is_tried_again_is_back_in_use() {
    let retry = RetryProperties::default().with_max_retries_on_same_service_instance(1);
    let lb = support::calls::retrying("a b", retry);
    let (answer, sent) =
        support::calls::scripted(&lb, "GET", &[End::Fail(Failure::Connect), End::Status(200)]).await;
    answer.unwrap().lease.complete(Outcome::Status(200));
    assert_eq!(sent, ["a", "a"]);
    assert!(lb.snapshot().unwrap().instances().all(|state| !state.is_skipped()));
    assert_eq!(lb.in_flight(), 0);
}

#[tokio::test]
async fn when_the_last_instance_is_not_reached_the_retries_that_are_left_go_to_those_that_were() {
    let retry = RetryProperties::default()
        .with_max_retries_on_next_service_instance(7)
        .with_retryable_status_codes([503]);
    for n in 1..6 {
        let lb = support::calls::retrying(&["a", "b", "c", "d", "e", "f"][..=n].join(" "), retry.clone());
        let mut script = vec![End::Fail(Failure::Connect); n + 2];
        (script[0], script[n + 1]) = (End::Status(503), End::Status(200));
        let (answer, sent) = support::calls::scripted(&lb, "GET", &script).await;
        assert_eq!((sent.len(), &*sent[n + 1]), (n + 2, "a"), "{sent:?}");
        assert_eq!(answer.unwrap().response.status, 200);
    }
    // Nobody was reached: each once.
    let refused = RetryProperties::default().with_max_retries_on_next_service_instance(u32::MAX);
    let ids: Vec<String> = (0..300).map(|n| format!("n{n}")).collect();
    let lb = support::calls::retrying(&ids.join(" "), refused);
    let (answer, sent) = support::calls::scripted(&lb, "GET", &[End::Fail(Failure::Connect)]).await;
    assert_eq!((answer.unwrap_err().tried().len(), sent.len()), (300, 300));
    assert_eq!(lb.in_flight(), 0);
}

#[tokio::test]
async fn what_the_caller_says_was_tried_is_avoided_too() {
    for avoid in [true, false] {
        let lb =
            support::calls::retrying("a b", RetryProperties::default().with_avoid_previous_instance(avoid));
        let mut mine = evenkeel::Tried::new();
        let mut sent = Vec::new();
        mine.add(&lb.choose(&Request::EMPTY).await.unwrap());
        for _ in 0..3 {
            let send = |choice: &Choice, attempt: u32| {
                sent.push(choice.instance().id().to_owned());
                Some(async move { Ok(Reply { status: 200, attempt }) })
            };
            call(&lb, &Request::EMPTY.with_tried(&mine), judge, send).await.unwrap();
        }
        assert_eq!(sent, ["b", "b", "b"], "{avoid}");
    }
}

/// A protocol whose calls have so long.
struct Until(Option<tokio::time::Instant>);

impl evenkeel::call::Protocol<Reply, std::io::Error> for Until {
    fn outcome(&self, result: Result<&Reply, &std::io::Error>) -> Outcome {
        judge(result)
    }
    fn deadline(&self) -> Option<tokio::time::Instant> {
        self.0
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_time_is_up_before_the_pause_ends_gets_what_there_is() {
    let backoff = RetryBackoffProperties::default()
        .with_enabled(true)
        .with_jitter(0.0)
        .with_min_backoff(Duration::from_secs(5));
    let retry = RetryProperties::default().with_backoff(backoff).with_retryable_status_codes([503]);
    for (limit, attempts, took) in [(4, 1, 0), (5, 1, 0), (6, 2, 5)] {
        let lb = support::calls::retrying("a b", retry.clone());
        let request = http::Request::get("lb://orders/").body(()).unwrap();
        let view = HttpView::of(&request);
        let send = |_: &Choice, attempt: u32| Some(async move { Ok(Reply { status: 503, attempt }) });
        let start = tokio::time::Instant::now();
        let until = Until(Some(start + Duration::from_secs(limit)));
        let answer = evenkeel::call::call_with(&lb, &Request::of(&view), &until, send).await.unwrap();
        assert_eq!((answer.attempts, start.elapsed().as_secs()), (attempts, took));
        drop(answer);
        assert_eq!(lb.in_flight(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_probing_call_that_is_answered_brings_its_instance_back_whatever_becomes_of_the_lease() {
    let lb = support::calls::retrying("a", RetryProperties::default());
    let skipped = || lb.snapshot().unwrap().instances().any(|state| state.is_skipped());
    for wait in [0.0, 2.1] {
        support::calls::scripted(&lb, "GET", &[End::Fail(Failure::Connect)]).await.0.unwrap_err();
        assert!(skipped());
        support::advance(wait).await;
        let answered = support::calls::scripted(&lb, "GET", &[End::Status(200)]).await.0.unwrap();
        assert!(!skipped(), "before its body ends");
        drop(answered);
        assert!(!skipped() && lb.in_flight() == 0);
    }
}

#[test]
fn a_runtime_that_ends_in_the_middle_of_a_call_ends_it_and_the_next_one_goes_on() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let heard = Arc::new(Heard::default());
    let lb = balancer_with("a b", |builder| builder.lifecycle_arc(heard.clone()));
    let first = runtime();
    let (sent, began) = std::sync::mpsc::channel();
    first.spawn({
        let lb = lb.clone();
        async move {
            let send = |_: &Choice, attempt: u32| {
                let sent = sent.clone();
                Some(async move {
                    if attempt == 2 {
                        sent.send(()).unwrap();
                        std::future::pending::<()>().await;
                    }
                    Err::<Reply, _>(error(Failure::Connect))
                })
            };
            call(&lb, &Request::EMPTY, judge, send).await.map(drop)
        }
    });
    began.recv().unwrap();
    assert_eq!(lb.in_flight(), 1);
    first.shutdown_timeout(Duration::from_secs(10));
    assert_eq!(lb.in_flight(), 0);
    let events = heard.take();
    assert_eq!(events.len(), 6, "{events:?}");
    assert_eq!(events[4], "attempt 2 b cancelled");
    assert!(events[5].starts_with("complete cancelled b"), "{events:?}");
    // The back-off of a began on the runtime that is gone; that of b begins on the next one.
    runtime().block_on(async {
        let script = [End::Fail(Failure::Connect)];
        support::calls::scripted(&lb, "POST", &script).await.0.unwrap_err();
        let list = lb.snapshot().unwrap();
        let start = std::time::Instant::now();
        while list.instances().any(|state| state.is_skipped()) {
            assert!(start.elapsed() < Duration::from_secs(20), "{:?}", list.instances().collect::<Vec<_>>());
            support::calls::scripted(&lb, "POST", &[End::Status(200)]).await.0.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}

#[tokio::test]
async fn each_attempt_runs_in_a_span_with_the_names_of_open_telemetry() {
    let log = support::Log::default();
    let captured = log.capture();
    let lb = support::calls::retrying("a b", RetryProperties::default());
    let request = http::Request::get("lb://orders/").body(()).unwrap();
    let view = HttpView::of(&request);
    for wanted in [Request::of(&view), Request::EMPTY] {
        let send = |_: &Choice, attempt: u32| {
            Some(async move {
                tracing::info!("attempt {attempt} is sent");
                if attempt == 1 { Err(error(Failure::Connect)) } else { Ok(Reply { status: 200, attempt }) }
            })
        };
        call(&lb, &wanted, judge, send).await.unwrap().lease.complete(Outcome::Success);
        support::advance(0.0).await;
    }
    drop(captured);
    let text = log.text();
    let line = |what: &str| text.lines().find(|line| line.contains(what)).unwrap().to_owned();
    let (first, second) = (line("attempt 1 is sent"), line("attempt 2 is sent"));
    for (line, host) in [(&first, "a.test"), (&second, "b.test")] {
        for field in [
            "attempt{otel.kind=\"client\"",
            "server.address=orders",
            &format!("network.peer.address=\"{host}\""),
            "network.peer.port=8080",
            "http.request.method=\"GET\"",
        ] {
            assert!(line.contains(field), "{field}: {line}");
        }
    }
    assert!(!first.contains("resend_count") && second.contains("http.request.resend_count=1"), "{text}");
    let unknown =
        text.lines().rfind(|line| line.contains("attempt 1 is sent") || line.contains("attempt 2 is sent"));
    assert!(!unknown.unwrap().contains("http.request.method"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_time_is_up_takes_nothing_from_the_budget() {
    let budget = evenkeel::config::RetryBudgetProperties::default().with_percent(0).with_min_per_second(1);
    let lb = support::calls::retrying("a b", RetryProperties::default().with_budget(budget));
    let request = http::Request::get("lb://orders/").body(()).unwrap();
    let view = HttpView::of(&request);
    let end = tokio::time::Instant::now() + Duration::from_secs(1);
    let calls = (0..100).map(|_| async {
        let send = |_: &Choice, _| {
            Some(async {
                tokio::time::sleep_until(end).await;
                Err::<Reply, _>(error(Failure::Timeout))
            })
        };
        let error = evenkeel::call::call_with(&lb, &Request::of(&view), &Until(Some(end)), send).await;
        assert_eq!(error.unwrap_err().tried().len(), 1);
    });
    futures_util::future::join_all(calls).await;
    let script = [End::Fail(Failure::Reset), End::Status(200)];
    for _ in 0..10 {
        support::calls::scripted(&lb, "GET", &script).await.0.unwrap();
    }
    support::calls::scripted(&lb, "GET", &script).await.0.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_cannot_be_sent_is_given_back_to_the_budget() {
    let budget = evenkeel::config::RetryBudgetProperties::default().with_percent(0).with_min_per_second(1);
    let lb = support::calls::retrying("a b", RetryProperties::default().with_budget(budget));
    let request = http::Request::get("lb://orders/").body(()).unwrap();
    let view = HttpView::of(&request);
    for _ in 0..100 {
        // A body that is a stream.
        let send = |_: &Choice, attempt: u32| {
            (attempt == 1).then_some(async { Err::<Reply, _>(error(Failure::Reset)) })
        };
        call(&lb, &Request::of(&view), judge, send).await.unwrap_err();
    }
    let script = [End::Fail(Failure::Reset), End::Status(200)];
    for _ in 0..10 {
        support::calls::scripted(&lb, "GET", &script).await.0.unwrap();
    }
    support::calls::scripted(&lb, "GET", &script).await.0.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_exceeds_its_own_limit_is_a_time_out_of_its_instance() {
    let retry = RetryProperties::default().with_per_try_timeout(Duration::from_secs(2));
    for (method, attempts, seconds) in [("GET", 2, 2), ("POST", 1, 2)] {
        let heard = Arc::new(Heard::default());
        let lb = balancer_with("a b", |builder| builder.retry(retry.clone()).lifecycle_arc(heard.clone()));
        let request = http::Request::builder().method(method).uri("lb://orders/").body(()).unwrap();
        let view = HttpView::of(&request);
        let send = |_: &Choice, attempt: u32| {
            Some(async move {
                if attempt == 1 {
                    std::future::pending::<()>().await;
                }
                // Just in time.
                tokio::time::sleep(Duration::from_millis(1_999)).await;
                Ok::<_, std::io::Error>(Reply { status: 200, attempt })
            })
        };
        let start = tokio::time::Instant::now();
        match call(&lb, &Request::of(&view), judge, send).await {
            Ok(answer) => assert_eq!((answer.attempts, answer.instance.id()), (attempts, "b")),
            Err(error) => {
                assert_eq!((error.tried().len(), attempts), (1, 1));
                assert!(error.is_timeout() && error.call_error().is_none(), "{error}");
                let text = error.to_string();
                assert!(text.contains("(tried a (a.test:8080)): its time was up"), "{text}");
            }
        }
        assert_eq!(start.elapsed().as_secs() - u64::from(attempts == 2), seconds);
        let events = heard.take();
        assert_eq!((&*events[2], lb.in_flight()), ("attempt 1 a timed out", 0), "{events:?}");
    }
    // All attempts too late: the caller hears of the last.
    let lb = support::calls::retrying("a b", retry.with_retry_on_all_operations(true));
    let send = |_: &Choice, _| Some(std::future::pending::<Result<Reply, std::io::Error>>());
    let error = call(&lb, &Request::EMPTY, judge, send).await.unwrap_err();
    assert!(error.is_timeout());
    assert_eq!(error.tried().iter().map(evenkeel::ServiceInstance::id).collect::<Vec<_>>(), ["a", "b"]);
}

/// A protocol whose server says this of further attempts.
struct Says(evenkeel::call::PushBack, Option<tokio::time::Instant>);

impl evenkeel::call::Protocol<Reply, std::io::Error> for Says {
    fn outcome(&self, result: Result<&Reply, &std::io::Error>) -> Outcome {
        judge(result)
    }
    fn push_back(&self, result: Result<&Reply, &std::io::Error>) -> evenkeel::call::PushBack {
        match result {
            Ok(reply) if reply.status == 200 => evenkeel::call::PushBack::None,
            _ => self.0,
        }
    }
    fn deadline(&self) -> Option<tokio::time::Instant> {
        self.1
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_server_says_of_further_attempts_comes_before_the_properties() {
    use evenkeel::call::PushBack;
    let backoff = RetryBackoffProperties::default()
        .with_enabled(true)
        .with_jitter(0.0)
        .with_min_backoff(Duration::from_secs(1));
    let retry = RetryProperties::default().with_backoff(backoff).with_retryable_status_codes([503]);
    let after = |seconds| PushBack::After(Duration::from_secs(seconds));
    for (says, limit, attempts, took) in [
        (PushBack::None, None, 2, 1),
        (after(3), None, 2, 3),
        (after(0), None, 2, 0),
        (after(10), None, 2, 10),
        (after(11), None, 1, 0),
        (PushBack::Never, None, 1, 0),
        // It would be too late, and nobody waits for that.
        (after(3), Some(3), 1, 0),
        (after(3), Some(4), 2, 3),
    ] {
        for fails in [End::Status(503), End::Fail(Failure::Reset)] {
            let lb = support::calls::retrying("a b", retry.clone());
            let request = http::Request::get("lb://orders/").body(()).unwrap();
            let view = HttpView::of(&request);
            let send = |_: &Choice, attempt: u32| {
                Some(async move {
                    match fails {
                        _ if attempt == 2 => Ok(Reply { status: 200, attempt }),
                        End::Status(status) => Ok(Reply { status, attempt }),
                        End::Fail(failure) => Err(error(failure)),
                    }
                })
            };
            let start = tokio::time::Instant::now();
            let says = Says(says, limit.map(|seconds| start + Duration::from_secs(seconds)));
            let answer = evenkeel::call::call_with(&lb, &Request::of(&view), &says, send).await;
            let made = match &answer {
                Ok(answer) => answer.attempts,
                Err(error) => u32::try_from(error.tried().len()).unwrap(),
            };
            assert_eq!((made, start.elapsed().as_secs()), (attempts, took), "{:?} {fails:?}", says.0);
            drop(answer);
            assert_eq!(lb.in_flight(), 0);
        }
    }
}
