//! Bodies and retries (case 023), and the single instance (case 024).

use std::time::Duration;

use super::net::*;
use super::support::{Client, Hyper, client, get, request, text, via};
use evenkeel::LoadBalancers;
use evenkeel::client::tower::HyperClient;
use evenkeel::config::Properties;
use evenkeel::policy::RoundRobin;
use futures_util::stream;
use http::{Method, Request};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};

const BODY: &str = r#"{"id":42,"text":"0123456789abcdef"}"#;

/// One that answers 503 and one that answers 200, in this order, and what is retried.
async fn two(all_operations: bool) -> (Hyper, Hyper, LoadBalancers) {
    let refuses = Hyper::start(|_| (503, "later", Duration::ZERO)).await;
    let takes = Hyper::ok("taken").await;
    let properties = Properties::default()
        .set("retry.retryable-status-codes", 503)
        .and_then(|properties| properties.set("retry.retry-on-all-operations", all_operations))
        .unwrap();
    let instances = [refuses.instance("a"), takes.instance("b")];
    let registry = evenkeel::discovery::SimpleDiscovery::new().with_instances("orders", instances).unwrap();
    let builder = LoadBalancers::builder(registry).properties(properties);
    let policy = RoundRobin::starting_at(-1);
    let balancers = builder.service("orders", |service| service.policy(policy)).build().unwrap();
    (refuses, takes, balancers)
}

#[tokio::test]
async fn case_023_a_post_is_sent_once_by_default() {
    let (refuses, takes, balancers) = two(false).await;
    let http: Client = balancers.hyper_builder().buffer(1_024).build();
    let response = http.request(request(Method::POST, "lb://orders/x", BODY)).await.unwrap();
    assert_eq!((response.status().as_u16(), response.headers()["x-from"].to_str().unwrap()), (503, "server"));
    assert_eq!(text(response).await, "later");
    assert_eq!((refuses.served(), takes.served()), (1, 0));
}

#[tokio::test]
async fn case_023_a_buffered_body_is_sent_again_with_the_same_bytes_and_length() {
    let (refuses, takes, balancers) = two(true).await;
    let http: Client = balancers.hyper_builder().buffer(1_024).build();
    let response = http.request(request(Method::POST, "lb://orders/x", BODY)).await.unwrap();
    assert_eq!((response.status().as_u16(), via(&response).attempts()), (200, 2));
    let (first, second) = (refuses.seen().remove(0), takes.seen().remove(0));
    assert_eq!((&first.body, &second.body), (&Bytes::from(BODY), &Bytes::from(BODY)));
    for seen in [first, second] {
        assert_eq!(seen.headers["content-length"], BODY.len().to_string());
    }
}

#[tokio::test]
async fn case_023_a_body_above_the_limit_is_a_stream_that_is_sent_once() {
    let (refuses, takes, balancers) = two(true).await;
    let http: Client = balancers.hyper_builder().buffer(BODY.len() - 1).build();
    let response = http.request(request(Method::POST, "lb://orders/x", BODY)).await.unwrap();
    assert_eq!((response.status().as_u16(), text(response).await.as_str()), (503, "later"));
    assert_eq!((refuses.seen()[0].body.as_ref(), takes.served()), (BODY.as_bytes(), 0));

    // A stream of unknown length: kept up to the limit, too.
    let parts = || {
        let frames =
            ["half ", "and half"].map(|part| Ok::<_, std::io::Error>(Frame::data(Bytes::from(part))));
        Request::post("lb://orders/x").body(StreamBody::new(stream::iter(frames))).unwrap()
    };
    for (limit, attempts, body) in [(12, 1, None), (13, 2, Some("half and half"))] {
        let (refuses, takes, balancers) = two(true).await;
        let http: HyperClient<_> = balancers.hyper_builder().buffer(limit).build();
        let response = http.request(parts()).await.unwrap();
        assert_eq!(via(&response).attempts(), attempts, "{limit}");
        assert_eq!(refuses.seen()[0].body, "half and half");
        assert_eq!(takes.seen().first().map(|seen| seen.body.clone()), body.map(Bytes::from));
    }
}

#[tokio::test]
async fn case_023_a_body_that_nobody_read_goes_to_another_instance_whatever_it_is() {
    let (dead, live) = (Refusing::new(), Hyper::ok("taken").await);
    let balancers = balancers([dead.instance("a"), live.instance("b")], Properties::default());
    let http = balancers.hyper();
    for _ in 0..2 {
        let part = Ok::<_, std::io::Error>(Frame::data(Bytes::from("once")));
        let body = StreamBody::new(stream::iter([part]));
        let response = http.request(Request::post("lb://orders/x").body(body).unwrap()).await.unwrap();
        assert_eq!(text(response).await, "taken");
    }
    assert!(live.seen().iter().all(|seen| seen.body == "once"), "{:?}", live.seen());
    assert_eq!(live.served(), 2);
}

#[tokio::test]
async fn a_body_that_fails_says_nothing_of_the_instance() {
    let live = Hyper::ok("").await;
    let balancers = balancers([live.instance("a")], Properties::default());
    let http = balancers.hyper();
    let frames = [Ok(Frame::data(Bytes::from("half"))), Err(std::io::Error::other("the source broke"))];
    // The break comes when the first half is on its way.
    let body =
        StreamBody::new(Box::pin(futures_util::StreamExt::then(stream::iter(frames), |frame| async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            frame
        })));
    let error = http.request(Request::post("lb://orders/x").body(body).unwrap()).await.unwrap_err();
    assert_eq!((error.failure(), error.tried().len()), (None, 1), "{error:?}");
    let list = balancers.get("orders").unwrap().snapshot().unwrap();
    assert!(list.instances().all(|state| !state.is_skipped() && state.in_flight() == 0));
}

/// A server that breaks the first connections, and the properties of a retry.
async fn breaking(breaks: usize, same: u32, next: u32) -> (Server, Client) {
    let act = by(move |number| if number <= breaks { Act::Break } else { ok("well") });
    let server = Server::start(act).await;
    let properties = Properties::default()
        .set("retry.max-retries-on-same-service-instance", same)
        .and_then(|properties| properties.set("retry.max-retries-on-next-service-instance", next))
        .and_then(|properties| properties.set("retry.avoid-previous-instance", true))
        .unwrap();
    let http = client(&balancers([server.instance("a")], properties));
    (server, http)
}

#[tokio::test]
async fn case_024_a_retry_with_a_single_instance_goes_to_it() {
    for (same, next) in [(1, 0), (0, 1)] {
        let (server, http) = breaking(1, same, next).await;
        let response = http.request(get("http://orders/x")).await.unwrap();
        assert_eq!((via(&response).attempts(), text(response).await.as_str()), (2, "well"));
        assert_eq!(server.served(), 2);
    }
    let (server, http) = breaking(usize::MAX, 1, 0).await;
    let error = http.request(get("http://orders/x")).await.unwrap_err();
    assert_eq!((error.tried().len(), server.served()), (2, 2));
    assert_eq!(error.failure(), Some(evenkeel::Failure::Reset), "{error}");
    assert!(error.to_string().contains(&server.instance("a").to_string()), "{error}");
}
