//! The lease of an instance ends with the body of its response, however that ends.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::net::*;
use evenkeel::client::reqwest::{Client, Via};
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::policy::{Candidates, Needs, Picker, Policy, RoundRobin};
use evenkeel::{Failure, InstanceState, LoadBalancers, Outcome, Request};
use reqwest::Response;
use tokio::sync::Notify;

const HALF: &str = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello";

struct Half {
    server: Server,
    gate: Arc<Notify>,
    balancers: LoadBalancers,
    http: Client,
}

/// A server that sends half of a body, and `rest` when it is let go on.
async fn half(rest: &'static str) -> (Half, Response) {
    let gate = Arc::new(Notify::new());
    let server = Server::start(Act::Parts(HALF, Arc::clone(&gate), rest)).await;
    let balancers = balancers([server.instance("a")], Properties::default());
    let http = client(&balancers);
    let response = http.get("lb://orders/x?y=1").send().await.unwrap();
    (Half { server, gate, balancers, http }, response)
}

#[tokio::test]
async fn case_035_the_lease_lives_as_long_as_the_body_streams() {
    let (half, mut response) = half("world").await;
    assert_eq!(half.balancers.in_flight(), 1);
    assert_eq!(response.content_length(), Some(10));
    assert_eq!(response.url().as_str(), format!("http://{}/x?y=1", half.server.address));
    assert_eq!(response.remote_addr(), Some(half.server.address));
    let via = response.extensions().get::<Via>().unwrap();
    assert_eq!((via.instance().id(), via.attempts()), ("a", 1));
    assert_eq!(response.chunk().await.unwrap().unwrap(), "hello");
    assert_eq!(half.balancers.in_flight(), 1);
    half.gate.notify_one();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "world");
    assert_eq!(half.balancers.in_flight(), 0, "at the last byte, although the response is still held");
    assert!(response.chunk().await.unwrap().is_none());
}

#[tokio::test]
async fn case_035_a_body_that_is_dropped_or_breaks_ends_the_lease() {
    let (half_1, mut response) = half("world").await;
    response.chunk().await.unwrap();
    drop(response);
    assert_eq!(half_1.balancers.in_flight(), 0, "dropped in the middle");

    let (half_2, response) = half("wor").await;
    half_2.gate.notify_one();
    let error = response.bytes().await.unwrap_err();
    assert!(error.is_body() || error.is_decode(), "{error:?}");
    assert_eq!(half_2.balancers.in_flight(), 0, "broken off");
}

#[tokio::test]
async fn case_035_a_caller_that_panics_or_is_cancelled_ends_the_lease() {
    let (half, response) = half("world").await;
    let caller = tokio::spawn(async move {
        assert_eq!(response.status(), 418, "a caller that panics while it holds the response");
    });
    assert!(caller.await.unwrap_err().is_panic());
    assert_eq!(half.balancers.in_flight(), 0);

    let silent = Server::start(Act::Hang).await;
    let balancers = balancers([silent.instance("a")], Properties::default());
    let http = client(&balancers);
    let caller = tokio::spawn(async move { http.get("lb://orders/x").send().await.map(drop) });
    eventually("the request", || silent.served() == 1).await;
    assert_eq!(balancers.in_flight(), 1);
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    assert_eq!(balancers.in_flight(), 0, "cancelled before the head came");
}

#[tokio::test]
async fn an_answer_without_a_body_ends_the_lease_at_once() {
    for answer in ["HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n"] {
        let server = Server::start(Act::Answer(answer.to_owned())).await;
        let balancers = balancers([server.instance("a")], Properties::default());
        let response = client(&balancers).get("lb://orders/x").send().await.unwrap();
        assert_eq!(balancers.in_flight(), 0);
        drop(response);
        assert_eq!(balancers.in_flight(), 0, "once");
    }
}

#[tokio::test]
async fn track_does_the_same_for_a_choice_of_ones_own() {
    let gate = Arc::new(Notify::new());
    let server = Server::start(Act::Parts(HALF, Arc::clone(&gate), "world")).await;
    let balancers = balancers([server.instance("a")], Properties::default());
    let orders = balancers.get("orders").unwrap();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let choice = orders.choose(&Request::EMPTY).await.unwrap();
    let sent = http.get(choice.url("/x").unwrap()).send();
    let mut response = choice.run(sent, evenkeel::client::reqwest::failure_of).await.unwrap();
    assert_eq!(orders.in_flight(), 1);
    assert_eq!(response.extensions().get::<Via>().unwrap().instance().id(), "a");
    response.chunk().await.unwrap();
    gate.notify_one();
    response.chunk().await.unwrap();
    assert_eq!(orders.in_flight(), 0);
}

#[tokio::test]
async fn the_limit_of_a_call_ends_a_body_that_hangs() {
    let (half, response) = half("world").await;
    drop(response);
    let response = half.http.get("lb://orders/x").timeout(Duration::from_millis(800)).send().await.unwrap();
    assert_eq!(half.balancers.in_flight(), 1);
    let error = response.bytes().await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(half.balancers.in_flight(), 0);
}

/// A round robin that keeps what it hears.
#[derive(Clone, Debug, Default)]
struct Hears(Arc<Mutex<Vec<Outcome>>>);

impl Policy for Hears {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("hears")
    }
    fn needs(&self) -> Needs {
        Needs::OUTCOMES
    }
    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        RoundRobin::default().picker(set)
    }
    fn on_outcome(&self, _: &InstanceState, outcome: Outcome, _: Option<Duration>) {
        self.0.lock().unwrap().push(outcome);
    }
}

/// What a policy hears of one call whose response is read, or dropped.
async fn heard(act: Act, read: bool) -> Vec<Outcome> {
    let server = Server::start(act).await;
    let registry = SimpleDiscovery::new().with_instances("orders", [server.instance("a")]).unwrap();
    let policy = Hears::default();
    let kept = policy.clone();
    let builder = LoadBalancers::builder(registry).service("orders", |service| service.policy(policy));
    let http = client(&builder.build().unwrap());
    let sent = http.post("lb://orders/x").timeout(Duration::from_millis(800)).send().await;
    if let (Ok(response), true) = (sent, read) {
        let _ = response.bytes().await;
    }
    kept.0.lock().unwrap().clone()
}

#[tokio::test]
async fn a_policy_hears_how_each_call_ended() {
    let broken_off = || {
        let gate = Arc::new(Notify::new());
        gate.notify_one();
        Act::Parts(HALF, gate, "")
    };
    let busy = Act::Answer("HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy".to_owned());
    for (act, read, outcome) in [
        (ok("body"), true, Outcome::Status(200)),
        (ok("body"), false, Outcome::Cancelled),
        (ok(""), false, Outcome::Status(200)),
        (busy.clone(), true, Outcome::Status(503)),
        (busy, false, Outcome::Status(503)),
        (Act::Hang, false, Outcome::Failure(Failure::Timeout)),
        (Act::Break, false, Outcome::Failure(Failure::Reset)),
        (broken_off(), true, Outcome::Failure(Failure::Reset)),
        (broken_off(), false, Outcome::Cancelled),
        (Act::Parts(HALF, Arc::default(), ""), true, Outcome::Failure(Failure::Timeout)),
    ] {
        assert_eq!(heard(act, read).await, [outcome], "read: {read}");
    }
}
