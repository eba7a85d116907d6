//! How long an instance is held, and what ends that.

use evenkeel::config::{OutlierDetectionProperties, SlowStartProperties};
use evenkeel::{Failure, LoadBalancer, Outcome, Request};

use super::fake::*;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_new_instance_gets_calls_once_it_is_connected() {
    let (live, fake) = (Live::new(list("a b")), Scripted::new());
    let lb = started(&live, &fake, on()).await;
    assert_eq!((fake.asked(), connecting(&lb).as_str()), (0, ""), "the first list is what there is");
    fake.set("c", Try::After(250));
    live.set(list("a b c")).await;
    let begun = fake.now();
    // It is listed, so that pools have it, and gets nothing.
    assert_eq!(lb.snapshot().unwrap().len(), 3);
    assert!(state(&lb, "c", |state| state.is_connecting() && state.is_skipped()));
    even(&picks(&lb, 100).await, "a b", 50, 0);
    to(&fake, begun + 249).await;
    even(&picks(&lb, 100).await, "a b", 50, 0);
    to(&fake, begun + 250).await;
    assert_eq!(connecting(&lb), "");
    even(&picks(&lb, 300).await, "a b c", 100, 0);
    assert_eq!((fake.times("c"), fake.asked()), (vec![begun], 1));
    // No lease was taken, and nothing was counted.
    assert_eq!((lb.in_flight(), state(&lb, "c", evenkeel::InstanceState::consecutive_failures)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn off_by_default_nobody_is_held_and_nothing_connected() {
    let (live, fake) = (Live::new(list("a")), Scripted::new());
    let lb = started(&live, &fake, evenkeel::config::PreConnectionProperties::default()).await;
    fake.set("b", Try::Hangs);
    live.set(list("a b")).await;
    even(&picks(&lb, 100).await, "a b", 50, 0);
    assert_eq!((fake.asked(), connecting(&lb).as_str()), (0, ""));
}

#[tokio::test(start_paused = true)]
async fn tries_that_fail_are_repeated_with_pauses_that_grow_and_the_last_lets_it_in() {
    let (live, fake) = (Live::new(list("a")), Scripted::new());
    let lb = started(&live, &fake, on()).await;
    fake.set("b", Try::Refused(0));
    live.set(list("a b")).await;
    let begun = fake.now();
    // Ten tries, (n + 1) * 100 ms between them: the last one 4.5 s after the first.
    to(&fake, begun + 4_499).await;
    assert_eq!((fake.times("b").len(), connecting(&lb).as_str()), (9, "b"));
    to(&fake, begun + 4_500).await;
    let since: Vec<u64> = fake.times("b").into_iter().map(|at| at - begun).collect();
    assert_eq!(since, [0, 100, 300, 600, 1_000, 1_500, 2_100, 2_800, 3_600, 4_500]);
    even(&picks(&lb, 100).await, "a b", 50, 0);
    // It was never connected; back-off deals with that.
    let lease = loop {
        let lease = lb.choose(&Request::EMPTY).await.unwrap();
        if lease.instance().id() == "b" {
            break lease;
        }
    };
    lease.complete(Outcome::Failure(Failure::Connect));
    even(&picks(&lb, 20).await, "a", 20, 0);
    to(&fake, begun + 60_000).await;
    assert_eq!(fake.times("b").len(), 10);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_comes_up_late_is_connected_by_a_later_try() {
    let (live, fake) = (Live::new(list("a")), Scripted::new());
    let lb = started(&live, &fake, on()).await;
    fake.set("b", Try::RefusedTimes(3));
    live.set(list("a b")).await;
    let begun = fake.now();
    to(&fake, begun + 599).await;
    assert_eq!(connecting(&lb), "b");
    to(&fake, begun + 600).await;
    assert_eq!(connecting(&lb), "");
    assert_eq!(lb.change_log().last().unwrap().detail, "1 of 1 connected after 600 ms");
}

#[tokio::test(start_paused = true)]
async fn a_try_ends_after_its_own_limit_and_a_panic_is_a_try_that_failed() {
    let (live, fake) = (Live::new(list("a")), Scripted::new());
    let lb = started(&live, &fake, on().with_max_retries(1).with_connect_timeout(MS(700))).await;
    fake.set("b", Try::Hangs);
    fake.set("c", Try::Panics);
    live.set(list("a b c")).await;
    let begun = fake.now();
    to(&fake, begun + 150).await;
    assert_eq!(connecting(&lb), "b", "two tries of c panicked");
    to(&fake, begun + 1_499).await;
    assert_eq!((connecting(&lb).as_str(), fake.times("b")), ("b", vec![begun, begun + 800]));
    to(&fake, begun + 1_500).await;
    assert_eq!((connecting(&lb).as_str(), fake.running()), ("", 0));
}

#[tokio::test(start_paused = true)]
async fn with_the_ratio_all_that_came_together_get_calls() {
    let (live, fake) = (Live::new(list("a")), Scripted::new());
    // floor(5 * 0.5) = 2.
    let lb = started(&live, &fake, on().with_ratio(0.5)).await;
    fake.set("b", Try::After(100));
    fake.set("c", Try::After(300));
    fake.set("d e f", Try::After(1_500));
    live.set(list("a b c d e f")).await;
    let begun = fake.now();
    to(&fake, begun + 299).await;
    assert_eq!(connecting(&lb), "cdef", "each is in use once it is connected itself");
    to(&fake, begun + 300).await;
    assert_eq!(connecting(&lb), "");
    even(&picks(&lb, 600).await, "a b c d e f", 100, 0);
    // The others are connected all the same, behind the calls.
    assert_eq!(fake.running(), 3);
    to(&fake, begun + 1_500).await;
    assert_eq!(fake.running(), 0);
    assert_eq!(lb.change_log().last().unwrap().detail, "5 of 5 connected after 1500 ms");
}

#[tokio::test(start_paused = true)]
async fn a_ratio_of_nothing_holds_nobody() {
    let (live, fake) = (Live::new(list("a")), Scripted::new());
    let lb = started(&live, &fake, on().with_ratio(0.4)).await;
    fake.set("b c", Try::After(100));
    // floor(2 * 0.4) = 0.
    live.set(list("a b c")).await;
    assert_eq!((connecting(&lb).as_str(), fake.asked()), ("", 2));
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_lets_everybody_in_and_ends_the_tries() {
    let (live, fake) = (Live::new(list("a")), Scripted::new());
    let lb = started(&live, &fake, on().with_timeout(MS(3_000))).await;
    fake.set("b c", Try::Hangs);
    live.set(list("a b c")).await;
    let begun = fake.now();
    to(&fake, begun + 2_999).await;
    assert_eq!(connecting(&lb), "bc");
    to(&fake, begun + 3_000).await;
    even(&picks(&lb, 300).await, "a b c", 100, 0);
    assert_eq!((fake.running(), fake.times("b").len()), (0, 2));
    let told = lb.change_log().last().unwrap().detail.clone();
    assert!(
        told.starts_with(
            "0 of 2 connected after 3000 ms; b (b.test:8080) is not: no connection within 2000 ms"
        ),
        "{told}"
    );
}

#[tokio::test(start_paused = true)]
async fn no_more_than_five_are_tried_at_the_same_time_and_pauses_take_no_turn() {
    let (live, fake) = (Live::new(list("a")), Scripted::new());
    let lb = started(&live, &fake, on()).await;
    let dead: Vec<String> = (0..5).map(|n| format!("dead{n}")).collect();
    let well: Vec<String> = (0..40).map(|n| format!("well{n}")).collect();
    fake.set(&dead.join(" "), Try::Refused(10));
    fake.set(&well.join(" "), Try::After(10));
    live.set(list(&format!("a {} {}", dead.join(" "), well.join(" ")))).await;
    let begun = fake.now();
    // 45 tries of 10 ms, five at a time: those that fail do not keep the others waiting.
    to(&fake, begun + 150).await;
    assert!(well.iter().all(|id| !state(&lb, id, evenkeel::InstanceState::is_connecting)));
    assert!(dead.iter().all(|id| state(&lb, id, evenkeel::InstanceState::is_connecting)));
    assert_eq!(fake.most(), 5);
}

/// The last one that is in use goes out: those that are held come in, though nothing is open.
#[tokio::test(start_paused = true)]
async fn when_nobody_else_is_usable_they_are_used() {
    let (live, fake) = (Live::new(list("a b")), Scripted::new());
    let lb = started(&live, &fake, on()).await;
    fake.set("c d", Try::After(1_500));
    live.set(list("a b c d")).await;
    let begun = fake.now();
    lb.choose(&Request::EMPTY).await.unwrap().complete(Outcome::Failure(Failure::Connect));
    assert_eq!(connecting(&lb), "cd");
    lb.choose(&Request::EMPTY).await.unwrap().complete(Outcome::Failure(Failure::Connect));
    assert_eq!((connecting(&lb).as_str(), fake.now()), ("", begun));
    even(&picks(&lb, 40).await, "c d", 20, 1);
    to(&fake, begun + 1_500).await;
    assert_eq!(lb.change_log().last().unwrap().detail, "2 of 2 connected after 1500 ms");
}

/// A call for a group whose instances are all held goes to one of them anyway, and its answer brings that one in.
#[tokio::test(start_paused = true)]
async fn a_call_that_goes_to_one_anyway_brings_it_in_with_its_answer() {
    let (live, fake) = (Live::new(with("API_VERSION", "a=1")), Scripted::new());
    let version = evenkeel::supplier::ApiVersion::default().with_default("1").with_header("v");
    let chain = chain(live.source()).with_api_version(version);
    let lb = LoadBalancer::builder(chain.build().unwrap())
        .pre_connection(on())
        .pre_connect(fake.clone())
        .slow_start(SlowStartProperties::default().with_window(MS(10_000)))
        .build();
    pick(&lb).await;
    fake.set("b c", Try::Hangs);
    live.set(with("API_VERSION", "a=1 b=2 c=2")).await;
    let begun = fake.now();
    let headers = [("v", "2")].map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    let headers: http::HeaderMap = headers.into_iter().collect();
    let view = evenkeel::HttpView::with_text(&http::Method::GET, "/", &headers);
    let request = Request::of(&view);
    // Given up, or not sent: that says nothing of an instance that is being tried anyway.
    for end in [Outcome::Cancelled, Outcome::Failure(Failure::Connect)] {
        lb.choose(&request).await.unwrap().complete(end);
        assert_eq!((connecting(&lb).as_str(), fake.now()), ("bc", begun));
    }
    let lease = lb.choose(&request).await.unwrap();
    let id = lease.instance().id().to_owned();
    assert!(!state(&lb, &id, evenkeel::InstanceState::is_warming));
    lease.complete(Outcome::Status(500));
    let reached = |state: &evenkeel::InstanceState| !state.is_skipped() && state.is_warming();
    assert!(state(&lb, &id, reached), "it is reached, whatever it says; its slow start begins");
    let last = lb.change_log().into_iter().rev().find(|change| change.kind.as_str() == "connected").unwrap();
    assert_eq!(last.detail, "it answered");
    let tries = fake.times(&id).len();
    to(&fake, begun + 10_000).await;
    assert_eq!(fake.times(&id).len(), tries, "there is nothing left to try");
}

#[tokio::test(start_paused = true)]
async fn slow_start_begins_when_it_comes_into_use() {
    let (live, fake) = (Live::new(list("a b c")), Scripted::new());
    let chain = chain(live.source());
    let lb = LoadBalancer::builder(chain.build().unwrap())
        .pre_connection(on())
        .pre_connect(fake.clone())
        .slow_start(SlowStartProperties::default().with_window(MS(10_000)))
        .build();
    pick(&lb).await;
    fake.set("d", Try::Hangs);
    live.set(list("a b c d")).await;
    let begun = fake.now();
    // Held for longer than the whole slow start takes; reports that look at it meanwhile change nothing.
    let came = begun + 10 * 2_000 + 4_500;
    for at in [begun + 1_000, begun + 12_000, came - 1] {
        to(&fake, at).await;
        assert_eq!(lb.status().counts.connecting, 1);
    }
    to(&fake, came).await;
    assert!(state(&lb, "d", evenkeel::InstanceState::is_warming));
    to(&fake, came + 5_000).await;
    let seen = picks(&lb, 7_000).await;
    // Half of its share: 1 of 7.
    assert!((850..1_150).contains(&count(&seen, "d")), "{:?}", tally(&seen));
    to(&fake, came + 10_001).await;
    pick(&lb).await;
    even(&picks(&lb, 400).await, "a b c d", 100, 1);
}

/// Who is held counts as one that is out of use, where some have to stay in use.
#[tokio::test(start_paused = true)]
async fn those_that_are_held_count_as_out_for_the_outlier_detection() {
    let (live, fake) = (Live::new(list("a b")), Scripted::new());
    let chain = chain(live.source());
    let lb = LoadBalancer::builder(chain.build().unwrap())
        .pre_connection(on())
        .pre_connect(fake.clone())
        .outlier_detection(OutlierDetectionProperties::on())
        .build();
    pick(&lb).await;
    fake.set("c d", Try::After(500));
    live.set(list("a b c d")).await;
    let begun = fake.now();
    let fail_a = || async {
        for _ in 0..30 {
            let lease = lb.choose(&Request::EMPTY).await.unwrap();
            let status = if lease.instance().id() == "a" { 500 } else { 200 };
            lease.complete(Outcome::Status(status));
        }
        state(&lb, "a", |state| state.ejected().is_some())
    };
    assert!(!fail_a().await, "half of the list has to stay in use, and two are not yet");
    to(&fake, begun + 500).await;
    assert!(fail_a().await, "now one may go");
}
