//! Limits of time: of a connection, of a call, of an answer that asks to come later.

use std::time::Duration;

use super::net::*;
use super::support::{Client, client, get, over, request, send, text, via};
use evenkeel::client::tower::CallOptions;
use evenkeel::config::Properties;
use evenkeel::{Failure, ServiceInstance};
use http::Method;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// A port that takes no more connections: its queue is full, so that the system drops every attempt.
async fn blackhole() -> (TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(stream) = tokio::time::timeout(Duration::from_millis(500), TcpStream::connect(address)).await
    {
        queued.push(stream.unwrap());
        assert!(queued.len() < 64, "the queue of the listener never fills");
    }
    (listener, queued)
}

#[tokio::test]
async fn a_connection_that_is_not_made_in_time_was_never_sent() {
    let (hole, _queued) = blackhole().await;
    let live = Server::start(ok("")).await;
    let properties = Properties::default().set("connect-timeout", "500ms").unwrap();
    let hole = at(hole.local_addr().unwrap(), "a");
    let http = client(&balancers([hole.clone(), live.instance("b")], properties.clone()));
    let mut attempts = 0;
    for _ in 0..4 {
        attempts += send(&http, Method::POST).await.unwrap().attempts();
    }
    assert_eq!((attempts, live.served()), (5, 4));
    let alone = client(&balancers([hole], properties));
    let error = send(&alone, Method::POST).await.unwrap_err();
    assert_eq!(error.failure(), Some(Failure::Connect));
    assert!(error.to_string().contains("connect-timeout (500ms)"), "{error}");
}

#[tokio::test]
async fn case_026_a_post_that_may_have_been_processed_is_not_repeated() {
    let (silent, live) = (Server::start(Act::Hang).await, Server::start(ok("")).await);
    let all = balancers([silent.instance("c"), live.instance("b")], Properties::default());
    let http: Client = all.hyper_builder().timeout(Duration::from_millis(800)).build();
    let mut errors = Vec::new();
    for _ in 0..2 {
        errors.extend(send(&http, Method::POST).await.err());
    }
    assert_eq!((silent.served(), live.served()), (1, 1), "each got one of the two");
    let [error] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!(error.tried().iter().map(ServiceInstance::id).collect::<Vec<_>>(), ["c"]);
    assert!(error.is_timeout());
    assert!(error.to_string().contains(&silent.instance("c").to_string()), "{error}");
    assert_eq!(all.in_flight(), 0);
}

#[tokio::test]
async fn a_call_may_have_a_limit_of_its_own() {
    let silent = Server::start(Act::Hang).await;
    let http = over([silent.instance("c")]);
    let mut request = get("lb://orders/x");
    request.extensions_mut().insert(CallOptions::default().with_timeout(Duration::from_millis(300)));
    let error = http.request(request).await.unwrap_err();
    assert!(error.is_timeout() && error.tried().len() == 1, "{error}");
    let mut plain = get(&format!("http://{}/x", silent.address));
    plain.extensions_mut().insert(CallOptions::default().with_timeout(Duration::from_millis(300)));
    assert!(http.request(plain).await.unwrap_err().is_timeout());
}

#[tokio::test]
async fn slow_headers_are_waited_for() {
    let slow = super::support::Hyper::start(|_| (200, "late", Duration::from_millis(400))).await;
    let http = over([slow.instance("a")]);
    assert_eq!(text(http.request(get("lb://orders/x")).await.unwrap()).await, "late");
}

#[tokio::test]
async fn an_answer_that_asks_to_come_later_sends_the_call_elsewhere_at_once() {
    let busy = Act::Answer("HTTP/1.1 503 Busy\r\nretry-after: 7\r\ncontent-length: 4\r\n\r\nbusy".to_owned());
    let (busy, live) = (Server::start(busy).await, Server::start(ok("")).await);
    let properties = Properties::default().set("retry.retryable-status-codes", 503).unwrap();
    let http = client(&balancers([busy.instance("a"), live.instance("b")], properties));
    let mut attempts = 0;
    for _ in 0..4 {
        let response = http.request(get("lb://orders/x")).await.unwrap();
        assert_eq!((response.status().as_u16(), via(&response).instance().id()), (200, "b"));
        attempts += via(&response).attempts();
    }
    assert_eq!((attempts, live.served()), (4 + u32::try_from(busy.served()).unwrap(), 4));
    assert!(busy.served() >= 1);
    // A POST is not repeated: its caller gets the answer as it is.
    let alone = over([busy.instance("a")]);
    let response = alone.request(request(Method::POST, "lb://orders/x", "once")).await.unwrap();
    assert_eq!((response.status().as_u16(), response.headers()["retry-after"].to_str().unwrap()), (503, "7"));
    assert_eq!(text(response).await, "busy");
}
