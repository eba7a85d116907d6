//! What the balance layer adds to a call in allocations: at most one, and four with the extension that names the instance.
#![cfg(feature = "tower")]
#![allow(missing_docs)]

#[path = "../benches/support/counting.rs"]
#[allow(missing_docs)]
mod counting;

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel::client::Via;
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::{LoadBalancers, ServiceInstance};
use futures_util::FutureExt;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Bytes;
use tower::{Layer, Service};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

#[derive(Clone)]
struct Trivial;

impl Service<Request<()>> for Trivial {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(Response::new(Full::from(Bytes::from_static(b"well")))))
    }
}

/// Allocations per call, all alike.
fn per_call<S, B>(mut service: S, uri: &str) -> u64
where
    S: Service<Request<()>, Response = Response<B>>,
{
    let request = || Request::get(uri).header("accept", "text/plain").body(()).unwrap();
    let mut requests: Vec<_> = std::iter::repeat_with(request).take(64).collect();
    let mut counts = Vec::with_capacity(requests.len());
    while let Some(request) = requests.pop() {
        counts.push(counting::allocations(|| {
            let response = service.call(request).now_or_never().expect("it is ready").ok();
            assert!(response.is_some());
        }));
    }
    // The first ones may make what is kept.
    let settled = &counts[8..];
    assert!(settled.iter().all(|count| *count == settled[0]), "{counts:?}");
    settled[0]
}

#[tokio::test]
async fn the_layer_adds_at_most_one_allocation_and_four_with_the_extension() {
    assert_eq!(counting::allocations(|| drop(Box::new(1_u8))), 1, "the allocator counts");
    let instance = |port| ServiceInstance::new("10.0.0.1", port).unwrap();
    let registry = SimpleDiscovery::new().with_instances("orders", [1, 2, 3].map(instance)).unwrap();
    let properties = Properties::default().set_for("orders", "enabled", true).unwrap();
    let balancers = LoadBalancers::from_properties(properties, registry).unwrap();
    balancers.ready(["orders"], Duration::from_secs(10)).await.unwrap();
    let bare = per_call(Trivial, "lb://orders/api/42?full");
    for uri in ["lb://orders/api/42?full", "http://orders/api/42?full"] {
        let plain = per_call(balancers.balance_layer().layer(Trivial), uri) - bare;
        let via = per_call(balancers.balance_layer().via(true).layer(Trivial), uri) - bare;
        println!("{uri}: {plain} allocation(s) added, {via} with {}", std::any::type_name::<Via>());
        assert!(plain <= 1 && via <= 4, "{uri}: {plain} {via}");
    }
    assert_eq!(balancers.in_flight(), 0);
}
