//! The lease of an instance ends with the body of its response, however that ends (case 035).

use std::sync::Arc;
use std::time::Duration;

use super::net::*;
use super::support::{Client, client, get, over};
use evenkeel::config::Properties;
use evenkeel::discovery::{DiscoveryClient, SupplyError};
use evenkeel::{LoadBalancers, ServiceId, ServiceInstance, async_trait};
use http::Response;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::sync::Notify;
use tower::{Layer, Service};

const HALF: &str = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello";

/// A server that sends half of a body, and `rest` when it is let go on.
async fn half(rest: &'static str) -> (Arc<Notify>, Server, LoadBalancers) {
    let gate = Arc::new(Notify::new());
    let server = Server::start(Act::Parts(HALF, Arc::clone(&gate), rest)).await;
    let balancers = balancers([server.instance("a")], Properties::default());
    (gate, server, balancers)
}

async fn read_to_the_end<B>(mut response: Response<B>, gate: &Notify, balancers: &LoadBalancers)
where
    B: Body<Data = hyper::body::Bytes, Error: std::fmt::Debug> + Unpin,
{
    assert_eq!(balancers.in_flight(), 1);
    let first = response.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(first.into_data().unwrap(), "hello");
    assert_eq!(balancers.in_flight(), 1);
    gate.notify_one();
    let last = response.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(last.into_data().unwrap(), "world");
    assert_eq!(balancers.in_flight(), 0, "at the last byte, although the response is still held");
}

/// A client of hyper below the layer.
fn layered(
    balancers: &LoadBalancers,
) -> impl Service<
    http::Request<http_body_util::Full<hyper::body::Bytes>>,
    Response = Response<evenkeel::TrackedBody<Incoming>>,
    Error = evenkeel::client::tower::Error,
    Future: Send,
> {
    let hyper = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new());
    balancers.balance_layer().layer(hyper.build_http())
}

#[tokio::test]
async fn case_035_the_lease_lives_as_long_as_the_body_streams() {
    let (gate, _server, balancers) = half("world").await;
    let response = client(&balancers).request(get("lb://orders/x")).await.unwrap();
    read_to_the_end(response, &gate, &balancers).await;
    let (gate, _server, balancers) = half("world").await;
    let response = layered(&balancers).call(get("lb://orders/x")).await.unwrap();
    read_to_the_end(response, &gate, &balancers).await;
}

#[tokio::test]
async fn case_035_a_body_that_is_dropped_or_breaks_ends_the_lease() {
    let (_gate, _server, balancers) = half("world").await;
    let mut response = client(&balancers).request(get("lb://orders/x")).await.unwrap();
    response.body_mut().frame().await.unwrap().unwrap();
    drop(response);
    assert_eq!(balancers.in_flight(), 0, "dropped in the middle");

    let (gate, _server, balancers) = half("wor").await;
    let response = client(&balancers).request(get("lb://orders/x")).await.unwrap();
    gate.notify_one();
    assert!(response.into_body().collect().await.is_err());
    assert_eq!(balancers.in_flight(), 0, "broken off");
}

#[tokio::test]
async fn case_035_calls_that_are_dropped_or_cannot_connect_leave_nothing() {
    let (silent, other) = (Server::start(Act::Hang).await, Server::start(Act::Hang).await);
    let http = over([silent.instance("a"), other.instance("b")]);
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let http = http.clone();
            tokio::spawn(async move { http.request(get("lb://orders/x")).await.map(drop) })
        })
        .collect();
    eventually("the requests", || silent.served() + other.served() == 50).await;
    assert_eq!(http.balancers().in_flight(), 50);
    for call in calls {
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    }
    assert_eq!(http.balancers().in_flight(), 0, "cancelled before the head came");

    let (dead, gone) = (Refusing::new(), Refusing::new());
    let http = over([dead.instance("a"), gone.instance("b")]);
    for _ in 0..10 {
        http.request(get("lb://orders/x")).await.unwrap_err();
    }
    assert_eq!(http.balancers().in_flight(), 0);
}

#[tokio::test]
async fn case_035_a_caller_that_panics_ends_the_lease() {
    let (_gate, _server, balancers) = half("world").await;
    let response = client(&balancers).request(get("lb://orders/x")).await.unwrap();
    let caller = tokio::spawn(async move {
        assert_eq!(response.status(), 418, "a caller that panics while it holds the response");
    });
    assert!(caller.await.unwrap_err().is_panic());
    assert_eq!(balancers.in_flight(), 0);
}

#[tokio::test]
async fn a_call_through_the_layer_that_was_not_polled_gives_its_lease_back() {
    let server = Server::start(Act::Hang).await;
    let balancers = balancers([server.instance("a")], Properties::default());
    balancers.ready(["orders"], Duration::from_secs(10)).await.unwrap();
    let mut service = layered(&balancers);
    let call = service.call(get("lb://orders/x"));
    assert_eq!(balancers.in_flight(), 1, "chosen at once: a list was at hand");
    drop(call);
    assert_eq!(balancers.in_flight(), 0);
    assert_eq!(server.connections(), 0);
    // Being ready reserves nothing.
    std::future::poll_fn(|cx| service.poll_ready(cx)).await.unwrap();
    assert_eq!(balancers.in_flight(), 0);
}

/// A registry that never answers.
#[derive(Debug)]
struct Silent;

#[async_trait]
impl DiscoveryClient for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }
    async fn instances(&self, _: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError> {
        std::future::pending().await
    }
    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn a_call_that_waits_for_a_list_can_be_dropped() {
    let balancers = LoadBalancers::builder(Silent).build().unwrap();
    let mut service = layered(&balancers);
    let http: Client = client(&balancers);
    for _ in 0..2 {
        let call = tokio::time::timeout(Duration::from_millis(50), service.call(get("lb://orders/x"))).await;
        assert!(call.is_err());
        let call = tokio::time::timeout(Duration::from_millis(50), http.request(get("lb://orders/x"))).await;
        assert!(call.is_err());
    }
    assert_eq!(balancers.in_flight(), 0);
    let properties = Properties::default().set("choose-timeout", "50ms").unwrap();
    let balancers = LoadBalancers::from_properties(properties, Silent).unwrap();
    let error = layered(&balancers).call(get("lb://orders/x")).await.unwrap_err();
    assert!(error.choose_error().is_some() && error.to_string().contains("orders"), "{error}");
}
