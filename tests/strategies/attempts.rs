//! Failover, failfast, forking, available and fallback: who is called, and what the caller gets.

use std::time::Duration;

use evenkeel::call::{
    Available, Broadcast, CallError, Failfast, Failover, Failsafe, Fallback, Forking, Strategy,
};
use evenkeel::call::{Protocol, PushBack, Reply, RetryThrottle};
use evenkeel::config::{RetryBackoffProperties, RetryProperties};
use evenkeel::{Choice, Failure, Outcome, Request};

use super::common::{
    Bad, Does, Heard, REFUSED, RESET, Script, balancer, balancer_with, classify, with_budget,
};

const MS: fn(u64) -> Duration = Duration::from_millis;

#[tokio::test(start_paused = true)]
async fn failover_goes_to_each_instance_once_before_it_returns_to_one() {
    let lb = balancer("a b c");
    let script = Script::new(&[("a", &[RESET]), ("b", &[RESET]), ("c", &[RESET])]);
    let error = script.run(&Failover::default().with_retries(5), &lb).await.unwrap_err();
    let order = script.order();
    let mut first: Vec<_> = order.split(' ').take(3).collect();
    first.sort_unstable();
    assert_eq!((first, order.split(' ').count()), (vec!["a", "b", "c"], 6), "{order}");
    assert_eq!((error.tried().len(), error.outcomes()), (6, &[Outcome::Failure(Failure::Reset); 6][..]));
    let text = error.to_string();
    assert!(text.matches("connection reset").count() >= 6 && text.contains(", then "), "{text}");
    assert_eq!(lb.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn failover_returns_to_one_that_was_reached_rather_than_to_one_that_was_not() {
    let lb = balancer("a b c");
    let script = Script::new(&[("a", &[REFUSED]), ("b", &[RESET]), ("c", &[REFUSED])]);
    script.run(&Failover::default().with_retries(5), &lb).await.unwrap_err();
    assert_eq!(script.order(), "a b c b b b");
}

#[tokio::test(start_paused = true)]
async fn failover_does_not_return_to_whom_nothing_could_be_sent() {
    let lb = with_budget("a b", 0);
    let script = Script::new(&[("a", &[REFUSED]), ("b", &[REFUSED])]);
    let error = script.run(&Failover::default().with_retries(9), &lb).await.unwrap_err();
    // And it cost the budget nothing, which has nothing to give.
    assert_eq!((script.order().as_str(), error.tried().len()), ("a b", 2));
}

#[tokio::test(start_paused = true)]
async fn the_budget_of_the_service_holds_and_what_did_not_begin_is_given_back() {
    let lb = with_budget("a b c", 1);
    let script = Script::new(&[("a", &[RESET]), ("b", &[RESET]), ("c", &[RESET])]);
    for _ in 0..20 {
        script.run(&Failover::default(), &lb).await.unwrap_err();
    }
    // Ten in ten seconds.
    assert_eq!(script.order().split(' ').count(), 20 + 10);
    // The caller gives up in the pause before a retry: that one is not spent.
    let backoff = RetryBackoffProperties::default().with_enabled(true).with_min_backoff(MS(500));
    let budget = evenkeel::config::RetryBudgetProperties::default().with_percent(0).with_min_per_second(1);
    let retry = RetryProperties::default().with_backoff(backoff).with_budget(budget);
    let lb = balancer_with("a b", |builder| builder.retry(retry));
    let script = Script::new(&[("a", &[RESET]), ("b", &[RESET])]);
    for _ in 0..30 {
        let given_up = tokio::time::timeout(MS(1), script.run(&Failover::default(), &lb)).await;
        assert!(given_up.is_err());
    }
    let error = script.run(&Failover::default().with_retries(1), &lb).await.unwrap_err();
    assert_eq!((error.tried().len(), lb.in_flight()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn time_limits_of_an_attempt_and_of_the_call() {
    let lb = balancer("a b c");
    let script = Script::new(&[("a", &[Does::Hang]), ("b", &[Does::Hang]), ("c", &[Does::Ok(10)])]);
    let strategy = Failover::default().with_per_try_timeout(MS(100));
    let answer = script.run(&strategy, &lb).await.unwrap();
    assert_eq!((script.times(), answer.attempts), (vec![0, 100, 200], 3));
    drop(answer);
    let script = Script::new(&[("a", &[Does::Hang]), ("b", &[Does::Hang]), ("c", &[Does::Hang])]);
    let begun = tokio::time::Instant::now();
    let error = script.run(&strategy.with_timeout(MS(150)), &lb).await.unwrap_err();
    assert_eq!((begun.elapsed(), error.tried().len()), (MS(150), 2));
    assert!(error.is_timeout() && error.call_error().is_none() && !error.is_business(), "{error:?}");
    assert!(error.to_string().ends_with("its time was up"), "{error}");
    // An attempt is told how long it has.
    let mut told = Vec::new();
    let send = |_: &Choice, attempt: evenkeel::call::Attempt| {
        told.push((attempt.number(), attempt.time_left()));
        Some(async { Err::<Outcome, _>(Bad(Outcome::Failure(Failure::Reset))) })
    };
    let strategy = Failover::default().with_retries(1).with_per_try_timeout(MS(70)).with_timeout(MS(50));
    strategy.run(&lb, &Request::EMPTY, classify, send).await.unwrap_err();
    assert_eq!(told, [(1, Some(MS(50))), (2, Some(MS(50)))]);
    assert_eq!(lb.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_asks_to_come_later_is_left_alone_and_another_one_asked_at_once() {
    let lb = balancer("a b");
    let script = Script::new(&[("a", &[Does::Later(3), Does::Ok(0)]), ("b", &[RESET])]);
    // First a, then b at once, and b again: a is not asked before its three seconds are over.
    script.run(&Failover::default(), &lb).await.unwrap_err();
    assert_eq!((script.order().as_str(), script.times()), ("a b b", vec![0, 0, 0]));
    // Where nobody else is left, it is waited for; only its first answer is kept, in case that no better one comes.
    let lb = balancer("a");
    let script = Script::new(&[("a", &[Does::Later(3), Does::Ok(0)])]);
    let strategy = Failover::default();
    let (answer, in_flight) = tokio::join!(script.run(&strategy, &lb), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        lb.in_flight()
    });
    assert_eq!((script.times(), in_flight), (vec![0, 3_000], 1));
    answer.unwrap().lease.complete(Outcome::Success);
    // However long it wants to be left alone: that is its own affair as long as another one is there.
    for strategy in [Failover::default(), Failover::default().with_timeout(Duration::from_secs(2))] {
        let lb = balancer("a b");
        let script = Script::new(&[("a", &[Does::Later(60)]), ("b", &[RESET, Does::Ok(0)])]);
        let answer = script.run(&strategy, &lb).await.unwrap();
        assert_eq!((script.order().as_str(), script.times(), answer.attempts), ("a b b", vec![0; 3], 3));
    }
    // Longer than the caller wants to wait: it gets the answer at hand.
    for strategy in [
        Failover::default().with_timeout(Duration::from_secs(2)),
        Failover::default().with_max_push_back(Duration::from_secs(2)),
    ] {
        let lb = balancer("a");
        let script = Script::new(&[("a", &[Does::Later(3), Does::Ok(0)])]);
        let answer = script.run(&strategy, &lb).await.unwrap();
        assert!(matches!(answer.response, Outcome::RetryAfter(_)), "{answer:?}");
        assert_eq!((script.times(), lb.in_flight()), (vec![0], 1));
    }
}

pub struct Pushing(pub PushBack);

impl Protocol<Outcome, Bad> for Pushing {
    fn outcome(&self, result: Result<&Outcome, &Bad>) -> Outcome {
        classify(result)
    }
    fn push_back(&self, _: Result<&Outcome, &Bad>) -> PushBack {
        self.0
    }
}

#[tokio::test(start_paused = true)]
async fn push_back_holds_for_every_instance() {
    for (push_back, times) in [
        (PushBack::None, vec![0, 0, 0]),
        (PushBack::After(MS(250)), vec![0, 250, 500]),
        (PushBack::Never, vec![0]),
        (PushBack::After(Duration::from_secs(11)), vec![0]),
    ] {
        let lb = balancer("a b c");
        let script = Script::new(&[("a", &[RESET]), ("b", &[RESET]), ("c", &[RESET])]);
        let send = |choice: &Choice, attempt| script.send(choice, attempt);
        let answer = Failover::default().run_with(&lb, &Request::EMPTY, &Pushing(push_back), send).await;
        assert!(answer.is_err());
        assert_eq!(script.times(), times, "{push_back:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn grpcs_throttle_ends_retries_and_lets_them_begin_again() {
    let lb = balancer("a b");
    let throttle = RetryThrottle::default();
    let strategy = Failover::default().with_retries(1).with_retry_throttle(throttle.clone());
    let script = Script::new(&[("a", &[RESET]), ("b", &[RESET])]);
    let mut attempts = Vec::new();
    for _ in 0..5 {
        attempts.push(script.run(&strategy, &lb).await.unwrap_err().tried().len());
    }
    // Failures 1 to 4 are retried or follow a retry, the fifth is not.
    assert_eq!(attempts, [2, 2, 1, 1, 1]);
    let good = Script::new(&[("a", &[Does::Ok(0)]), ("b", &[Does::Ok(0)])]);
    for _ in 0..40 {
        good.run(&strategy, &lb).await.unwrap();
    }
    assert_eq!(script.run(&strategy, &lb).await.unwrap_err().tried().len(), 2);
    assert!(throttle.tokens() < 10.0);
}

#[tokio::test(start_paused = true)]
async fn forking_takes_the_first_good_answer_and_ends_the_others() {
    let lb = balancer("a b c d");
    let script = Script::new(&[
        ("a", &[Does::Ok(50)]),
        ("b", &[Does::Fail(Failure::Reset, 10)]),
        ("c", &[Does::Ok(20)]),
        ("d", &[Does::Ok(1)]),
    ]);
    let answer = script.run(&Forking::default().with_forks(3), &lb).await.unwrap();
    assert_eq!((script.times(), answer.instance.id()), (vec![0; 3], "c"));
    assert_eq!(lb.in_flight(), 1);
    drop(answer);
    assert_eq!(lb.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn forking_ends_at_the_calls_own_error_whatever_the_others_bring() {
    let business = |other| Script::new(&[("a", &[Does::Business(10)]), ("b", &[other])]);
    for other in [Does::Hang, Does::Fail(Failure::Reset, 20), Does::Ok(20), Does::Fail(Failure::Reset, 5)] {
        let (lb, script) = (balancer("a b"), business(other));
        let begun = tokio::time::Instant::now();
        let error = script.run(&Forking::default().with_timeout(MS(500)), &lb).await.unwrap_err();
        assert!(error.is_business(), "{other:?}: {error}");
        assert_eq!((begun.elapsed(), lb.in_flight()), (MS(10), 0));
    }
    // That there must be no further attempts says nothing of those that are on their way.
    let (lb, script) = (balancer("a b"), Script::new(&[("a", &[RESET]), ("b", &[Does::Ok(20)])]));
    let send = |choice: &Choice, attempt| script.send(choice, attempt);
    let answer =
        Forking::default().run_with(&lb, &Request::EMPTY, &Pushing(PushBack::Never), send).await.unwrap();
    assert_eq!(answer.instance.id(), "b");
}

#[tokio::test(start_paused = true)]
async fn a_broadcast_whose_time_is_up_calls_nobody_else() {
    let lb = balancer("a b c");
    for (strategy, does, called, took) in [
        // In the middle of an attempt, and between two of them.
        (Broadcast::default().with_timeout(MS(15)), Does::Ok(10), 2, 15),
        (Broadcast::default().with_timeout(MS(20)), Does::Ok(10), 2, 20),
        (Broadcast::default().with_timeout(MS(20)), Does::Fail(Failure::Reset, 10), 2, 20),
        (Broadcast::default().with_timeout(MS(0)), Does::Ok(0), 0, 0),
    ] {
        let script = Script::new(&[("a", &[does]), ("b", &[does]), ("c", &[does])]);
        let send = |choice: &Choice, attempt| script.send(choice, attempt);
        let begun = tokio::time::Instant::now();
        let error = strategy.run(&lb, &Request::EMPTY, classify, send).await.unwrap_err();
        assert_eq!((begun.elapsed(), error.tried().len(), script.times().len()), (MS(took), called, called));
        assert!(error.is_timeout() && lb.in_flight() == 0, "{error}");
    }
    // Time enough for all of them.
    let script = Script::new(&[("a", &[Does::Ok(10)]), ("b", &[Does::Ok(10)]), ("c", &[Does::Ok(10)])]);
    let send = |choice: &Choice, attempt| script.send(choice, attempt);
    let strategy = Broadcast::default().with_timeout(MS(31));
    assert_eq!(strategy.run(&lb, &Request::EMPTY, classify, send).await.unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn available_takes_the_first_that_is_in_use() {
    let lb = balancer("a b");
    let script = Script::new(&[("a", &[REFUSED]), ("b", &[Does::Ok(0)])]);
    script.run(&Available::default(), &lb).await.unwrap_err();
    for _ in 0..3 {
        script.run(&Available::default(), &lb).await.unwrap();
    }
    assert_eq!(script.order(), "a b b b");
}

#[tokio::test(start_paused = true)]
async fn a_fallback_stands_in_for_a_failure_and_not_for_an_answer() {
    let lb = balancer("a");
    let value = |error: Option<&CallError<Bad>>| Outcome::Status(if error.is_some() { 1 } else { 2 });
    let run = async |fallback: &Fallback<Failfast>, does: Does| {
        let script = Script::new(&[("a", &[does])]);
        let send = |choice: &Choice, attempt| script.send(choice, attempt);
        let reply = fallback.run(&lb, &Request::EMPTY, classify, send, value).await;
        (reply.map(Reply::into_response).map_err(|error| error.is_business()), script.order())
    };
    let fallback = Fallback::new(Failfast::default());
    assert_eq!(run(&fallback, Does::Ok(0)).await, (Ok(Outcome::Success), "a".to_owned()));
    assert_eq!(run(&fallback, RESET).await, (Ok(Outcome::Status(1)), "a".to_owned()));
    assert_eq!(run(&fallback, Does::Business(0)).await, (Err(true), "a".to_owned()));
    assert_eq!(run(&fallback.with_forced(true), RESET).await, (Ok(Outcome::Status(2)), String::new()));
    assert_eq!(lb.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_reply_ends_with_what_the_answer_says() {
    for (does, outcome) in
        [(Does::Status(503, 0), "status 503"), (Does::Status(404, 0), "status 404"), (Does::Ok(0), "success")]
    {
        let heard = std::sync::Arc::new(Heard::default());
        let lb = balancer_with("a", |builder| builder.lifecycle_arc(heard.clone()));
        let script = Script::new(&[("a", &[does])]);
        let send = |choice: &Choice, attempt| script.send(choice, attempt);
        let value = |_: Option<&CallError<Bad>>| Outcome::Cancelled;
        let fallback = Fallback::new(Failfast::default());
        let reply = fallback.run(&lb, &Request::EMPTY, classify, send, value).await.unwrap();
        assert!(!reply.is_fallback());
        reply.into_response();
        assert!(heard.take().contains(&format!("attempt 1 a {outcome}")), "{outcome}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_to_choose_and_nothing_to_send() {
    let lb = balancer("");
    let script = Script::new(&[]);
    for error in [
        script.run(&Failover::default(), &lb).await.unwrap_err(),
        script.run(&Failfast::default(), &lb).await.unwrap_err(),
        script.run(&Forking::default(), &lb).await.unwrap_err(),
        script.run(&Available::default(), &lb).await.unwrap_err(),
        script.run(&evenkeel::call::Hedging::default(), &lb).await.unwrap_err(),
        Broadcast::default()
            .run(&lb, &Request::EMPTY, classify, |choice: &Choice, attempt| script.send(choice, attempt))
            .await
            .unwrap_err(),
    ] {
        assert!(error.choose_error().is_some() && error.tried().is_empty(), "{error}");
    }
    let send = |_: &Choice, _| None::<std::future::Ready<Result<Outcome, Bad>>>;
    let lb = balancer("a b");
    let none = Failsafe::new(Failover::default()).run(&lb, &Request::EMPTY, classify, send).await;
    assert!(none.is_none() && lb.in_flight() == 0);
}
