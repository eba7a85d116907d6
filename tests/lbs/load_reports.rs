//! Reports of load, from a reply to the shares of a client-side weighted round robin.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel::call::{Protocol, call_with};
use evenkeel::policy::{Candidates, ClientSideWeightedRoundRobin, Needs, PickCx, Picker, Policy};
use evenkeel::{Choice, InstanceState, LoadBalancer, LoadReport, Outcome, Request, SupplierBuilder, Tried};
use http::HeaderMap;
use http_body::Frame;
use http_body_util::BodyExt;

use crate::support::*;

fn report(qps: f64, cpu: f64) -> LoadReport {
    LoadReport::default().with_qps(qps).with_cpu_utilization(cpu)
}

/// A lease on the instance with this id, however the policy picks.
async fn lease(lb: &LoadBalancer, id: &str) -> Choice {
    let mut tried = Tried::new();
    loop {
        let choice = lb.choose(&Request::EMPTY.with_tried(&tried)).await.unwrap();
        if choice.instance().id() == id {
            return choice;
        }
        tried.add(&choice);
    }
}

async fn tell(lb: &LoadBalancer, id: &str, report: &LoadReport) {
    let choice = lease(lb, id).await;
    choice.report(report);
    choice.complete(Outcome::Success);
}

/// The shares in so many picks, per thousand, after the weights had a turn to be made.
async fn shares(lb: &LoadBalancer, ids: &str) -> Vec<usize> {
    picks(lb, 32).await;
    let all = picks(lb, 6_000).await;
    ids.split_whitespace().map(|id| count(&all, id) / 6).collect()
}

fn near(found: &[usize], expected: &[usize]) -> bool {
    found.iter().zip(expected).all(|(a, b)| a.abs_diff(*b) <= 2)
}

#[tokio::test(start_paused = true)]
async fn lbs_weights_by_reports_are_used_after_the_blackout_and_until_they_expire() {
    let lb = fixed(list("a b c"), |chain| chain, ClientSideWeightedRoundRobin::default());
    assert_eq!(shares(&lb, "a b c").await, [333, 333, 333]);
    // 100 / 0.5 = 200, 400 and 600.
    for (id, cpu) in [("a", 0.5), ("b", 0.25), ("c", 1.0 / 6.0)] {
        tell(&lb, id, &report(100.0, cpu)).await;
    }
    advance(9.9).await;
    assert_eq!(shares(&lb, "a b c").await, [333, 333, 333], "9.9 s after the first report");
    advance(1.1).await;
    let found = shares(&lb, "a b c").await;
    assert!(near(&found, &[166, 333, 500]), "{found:?}");
    // Two go on telling; the third counts as their mean 180 s after its last report.
    advance(100.0).await;
    for id in ["a", "b"] {
        tell(&lb, id, &report(100.0, 0.5)).await;
    }
    let found = shares(&lb, "a b c").await;
    advance(1.1).await;
    let later = shares(&lb, "a b c").await;
    assert!(near(&later, &[200, 200, 600]), "{found:?}, then {later:?}");
    advance(69.0).await;
    assert_eq!(shares(&lb, "a b c").await, [333, 333, 333], "180 s of silence");
    // What comes after a gap waits for its blackout.
    tell(&lb, "c", &report(100.0, 0.1)).await;
    advance(2.0).await;
    assert_eq!(shares(&lb, "a b c").await, [333, 333, 333]);
    advance(9.0).await;
    let found = shares(&lb, "a b c").await;
    assert!(near(&found, &[142, 142, 714]), "1 000 beside 200 and 200: {found:?}");
}

#[tokio::test(start_paused = true)]
async fn lbs_one_without_a_report_counts_as_the_mean_and_one_report_alone_changes_nothing() {
    let policy = || ClientSideWeightedRoundRobin::default().with_blackout(Duration::ZERO);
    let lb = fixed(list("a b c"), |chain| chain, policy());
    tell(&lb, "a", &report(100.0, 1.0)).await;
    advance(1.1).await;
    assert_eq!(shares(&lb, "a b c").await, [333, 333, 333], "one weight");
    tell(&lb, "c", &report(300.0, 1.0)).await;
    advance(1.1).await;
    let found = shares(&lb, "a b c").await;
    assert!(near(&found, &[166, 333, 500]), "{found:?}");
    // One that says nothing changes nothing.
    tell(&lb, "c", &LoadReport::default()).await;
    advance(1.1).await;
    assert_eq!(shares(&lb, "a b c").await, found);
}

#[tokio::test(start_paused = true)]
async fn the_order_goes_on_and_weights_stay_over_changes_of_the_list() {
    let policy = ClientSideWeightedRoundRobin::default().with_blackout(Duration::ZERO).starting_at(0);
    let live = Live::new(list("a b c"));
    let lb = over(chain(live.source()), policy);
    for (id, qps) in [("a", 1.0), ("b", 2.0), ("c", 3.0)] {
        tell(&lb, id, &report(qps, 1.0)).await;
    }
    advance(1.1).await;
    assert!(near(&shares(&lb, "a b c").await, &[166, 333, 500]));
    live.set(list("a b c d")).await;
    // The newcomer counts as the mean: 1, 2, 3 and 2, at once.
    let all = picks(&lb, 8_000).await;
    for (id, share) in [("a", 1_000), ("b", 2_000), ("c", 3_000), ("d", 2_000)] {
        assert!(count(&all, id).abs_diff(share) <= 20, "{:?}", tally(&all));
    }
    // Sequence and weights survive a list in which nothing that matters changed: the order of the ones before goes on.
    let before: Vec<String> = picks(&lb, 8).await;
    live.set(list("d c b a")).await;
    let after: Vec<String> = picks(&lb, 8).await;
    let turns: Vec<String> = before.into_iter().chain(after).collect();
    assert!(tally(&turns).values().all(|n| (2..=6).contains(n)), "{turns:?}");
}

#[tokio::test(start_paused = true)]
async fn weights_of_the_chain_multiply_those_of_reports() {
    let list = with("weight", "a=1 b=3");
    let policy = ClientSideWeightedRoundRobin::default().with_blackout(Duration::ZERO);
    let lb = fixed(list, SupplierBuilder::with_weights, policy);
    assert!(
        near(&shares(&lb, "a b").await, &[250, 750]),
        "without reports they are the weights of the chain"
    );
    tell(&lb, "a", &report(300.0, 1.0)).await;
    tell(&lb, "b", &report(100.0, 1.0)).await;
    advance(1.1).await;
    assert_eq!(shares(&lb, "a b").await, [500, 500]);
}

#[tokio::test(start_paused = true)]
async fn one_that_was_out_of_use_begins_its_blackout_anew() {
    let lb = fixed(list("a b c"), |chain| chain, ClientSideWeightedRoundRobin::default());
    for (id, qps) in [("a", 1.0), ("b", 2.0), ("c", 3.0)] {
        tell(&lb, id, &report(qps, 1.0)).await;
    }
    advance(11.0).await;
    assert!(near(&shares(&lb, "a b c").await, &[166, 333, 500]));
    lease(&lb, "c").await.complete(Outcome::Failure(evenkeel::Failure::Connect));
    advance(0.9).await;
    picks(&lb, 32).await;
    advance(1.1).await;
    // Back, by its probing call, which brings a report.
    tell(&lb, "c", &report(9.0, 1.0)).await;
    advance(1.1).await;
    let found = shares(&lb, "a b c").await;
    assert!(near(&found, &[222, 444, 333]), "c counts as the mean, 1.5: {found:?}");
    advance(10.0).await;
    let found = shares(&lb, "a b c").await;
    assert!(near(&found, &[83, 166, 750]), "{found:?}");
}

/// Remembers what it hears.
#[derive(Clone, Debug, Default)]
struct Listens(std::sync::Arc<std::sync::Mutex<Vec<f64>>>);

impl Policy for Listens {
    fn name(&self) -> std::borrow::Cow<'static, str> {
        "listens".into()
    }
    fn needs(&self) -> Needs {
        Needs::REPORTS
    }
    fn picker(&self, _: &Candidates<'_>) -> Box<dyn Picker> {
        struct First;
        impl Picker for First {
            fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
                cx.first_fit(|_| 0)
            }
        }
        Box::new(First)
    }
    fn on_report(&self, _: &InstanceState, report: &LoadReport) {
        self.0.lock().unwrap().push(report.cpu_utilization);
    }
}

impl Listens {
    fn heard(&self) -> Vec<f64> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn metrics(text: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("endpoint-load-metrics", text.parse().unwrap());
    headers
}

/// A body of frames.
struct Frames(VecDeque<Frame<&'static [u8]>>);

impl http_body::Body for Frames {
    type Data = &'static [u8];
    type Error = Infallible;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

fn response(header: Option<&str>, trailer: Option<&str>) -> http::Response<Frames> {
    let mut frames = VecDeque::from([Frame::data(&b"hello"[..])]);
    frames.extend(trailer.map(|text| Frame::trailers(metrics(text))));
    let mut response = http::Response::new(Frames(frames));
    *response.headers_mut() = header.map(metrics).unwrap_or_default();
    response
}

#[tokio::test(start_paused = true)]
async fn a_tracked_reply_tells_what_its_headers_and_trailers_say() {
    let policy = Listens::default();
    let lb = fixed(list("a"), |chain| chain, policy.clone());
    let choose = || async { lb.choose(&Request::EMPTY).await.unwrap() };
    let tracked =
        choose().await.track(response(Some("TEXT cpu_utilization=0.1"), Some("TEXT cpu_utilization=0.2")));
    assert_eq!(policy.heard(), [0.1], "at once");
    let body = tracked.into_body();
    assert_eq!(lb.in_flight(), 1);
    let read = body.collect().await.unwrap();
    assert!(read.trailers().is_some() && lb.in_flight() == 0);
    assert_eq!(policy.heard(), [0.2], "with the trailers");
    // What cannot be read spoils nothing.
    let tracked = choose().await.track(response(Some("TEXT cpu_utilization=high"), Some("what")));
    assert_eq!(tracked.into_body().collect().await.unwrap().to_bytes(), "hello");
    assert!(policy.heard().is_empty());
    // By hand, on a lease.
    let lease = evenkeel::Lease::from(choose().await);
    lease.report(&report(1.0, 0.7));
    lease.complete(Outcome::Success);
    assert_eq!(policy.heard(), [0.7]);
    // A policy that does not ask hears nothing, and nothing is kept.
    let plain = fixed(list("a"), |chain| chain, evenkeel::policy::RoundRobin::default());
    let choice = plain.choose(&Request::EMPTY).await.unwrap();
    choice.report(&report(1.0, 0.7));
    assert!(choice.state().statistics().is_none());
}

/// Replies with headers.
struct Http;

impl Protocol<http::Response<Frames>, std::io::Error> for Http {
    fn outcome(&self, result: Result<&http::Response<Frames>, &std::io::Error>) -> Outcome {
        result.map_or(Outcome::Failure(evenkeel::Failure::Other), |reply| {
            Outcome::Status(reply.status().as_u16())
        })
    }
    fn headers(&self, response: &http::Response<Frames>) -> HeaderMap {
        response.headers().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempt_of_a_call_is_heard_once_whether_or_not_its_reply_is_tracked() {
    let policy = Listens::default();
    let lb = fixed(list("a b"), |chain| chain, policy.clone());
    let send = |_: &Choice, attempt: u32| {
        let cpu = format!("TEXT cpu_utilization=0.{attempt}");
        Some(async move { Ok::<_, std::io::Error>(response(Some(&cpu), None)) })
    };
    let answered = call_with(&lb, &Request::EMPTY, &Http, send).await.unwrap();
    assert_eq!(policy.heard(), [0.1]);
    let tracked = answered.lease.track(answered.response);
    drop(tracked);
    assert!(policy.heard().is_empty(), "its headers were heard already");
}
