use std::time::Duration;

use serde_json::Value;

use crate::common::{Reply, ask, front, get, one_route};
use crate::net::{Act, Refusing, Server, eventually, status};

/// The attributes of an error, as Spring has them.
fn error(reply: &Reply) -> (u64, String, String) {
    assert_eq!(reply.header("content-type"), Some("application/json"), "{reply:?}");
    let body: Value = serde_json::from_str(&reply.body).unwrap();
    assert!(body["timestamp"].as_str().unwrap().ends_with('Z'), "{body}");
    assert_eq!(body["status"], reply.status);
    let text = |name: &str| body[name].as_str().unwrap().to_owned();
    (body["status"].as_u64().unwrap(), text("error"), text("path"))
}

#[tokio::test]
async fn no_route_is_404() {
    let yaml = "evenkeel.gateway.routes: [{id: r, uri: 'lb://orders', predicates: ['Path=/x']}]";
    let front = front(yaml, &[]).await;
    let reply = get(front.address, "/no/\"such\"?q=1").await;
    assert_eq!(error(&reply), (404, "Not Found".to_owned(), "/no/\"such\"".to_owned()));
}

#[tokio::test]
async fn scl_282_a_service_without_an_instance_is_503_or_404_if_that_is_wanted() {
    for (more, wanted) in [
        ("", (503, "Service Unavailable")),
        ("evenkeel.gateway.loadbalancer.use404: true\n", (404, "Not Found")),
        ("spring.cloud.gateway.server.webflux.loadbalancer.use404: true\n", (404, "Not Found")),
    ] {
        let yaml = format!("{more}evenkeel.gateway.routes: [{{id: r, uri: 'lb://orders'}}]\n");
        let front = front(&yaml, &[("orders", vec![])]).await;
        let reply = get(front.address, "/x").await;
        assert_eq!(error(&reply), (wanted.0, wanted.1.to_owned(), "/x".to_owned()), "{more}");
    }
    // A service that is not balanced has no balancer.
    let yaml = "
evenkeel.clients.orders.enabled: false
evenkeel.gateway.routes: [{id: r, uri: 'lb://orders'}]
";
    let front = front(yaml, &[("orders", vec![])]).await;
    assert_eq!(error(&get(front.address, "/x").await).0, 503);
}

#[tokio::test]
async fn an_instance_that_refuses_or_breaks_off_is_502() {
    let refusing = Refusing::new();
    let front = one_route(vec![refusing.instance("a")]).await;
    assert_eq!(error(&get(front.address, "/x").await), (502, "Bad Gateway".to_owned(), "/x".to_owned()));
    for act in [Act::Break, Act::Answer("nonsense\r\n\r\n".to_owned())] {
        let server = Server::start(act).await;
        let front = one_route(vec![server.instance("a")]).await;
        assert_eq!(error(&get(front.address, "/x").await).0, 502);
    }
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_504() {
    for yaml in [
        "evenkeel.gateway.routes: [{id: r, uri: 'lb://orders', metadata: {response-timeout: 50}}]",
        "spring.cloud.gateway: {httpclient.response-timeout: 50ms, routes: [{id: r, uri: 'lb://orders'}]}",
        "evenkeel: {retry.per-try-timeout: 50ms, gateway.routes: [{id: r, uri: 'lb://orders'}]}",
    ] {
        let server = Server::start(Act::Hang).await;
        let front = front(yaml, &[("orders", vec![server.instance("a")])]).await;
        assert_eq!(
            error(&get(front.address, "/x").await),
            (504, "Gateway Timeout".to_owned(), "/x".to_owned())
        );
        eventually("the end of the lease", || front.balancers.in_flight() == 0).await;
    }
    // A route without a limit, where the gateway has one.
    let server = Server::start(Act::Hang).await;
    let yaml = "evenkeel.gateway: {httpclient.response-timeout: 1ms, routes: [{id: r, uri: 'lb://orders', metadata: {response-timeout: -1}}]}";
    let front = front(yaml, &[("orders", vec![server.instance("a")])]).await;
    let waits = tokio::time::timeout(Duration::from_millis(300), get(front.address, "/x")).await;
    assert!(waits.is_err(), "{waits:?}");
}

#[tokio::test]
async fn a_connection_that_is_not_made_in_time_is_504() {
    // A listener whose queue is full lets nobody in, and refuses nobody.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) =
        tokio::time::timeout(Duration::from_millis(500), tokio::net::TcpStream::connect(address)).await
    {
        waiting.push(stream.unwrap());
        assert!(waiting.len() < 100, "the queue is never full");
    }
    let yaml = "evenkeel.gateway.routes: [{id: r, uri: 'lb://orders', metadata: {connect-timeout: 100}}]";
    let front = front(yaml, &[("orders", vec![crate::net::at(address, "a")])]).await;
    assert_eq!(error(&get(front.address, "/x").await).0, 504);
}

#[tokio::test]
async fn an_answer_of_an_instance_is_its_own_whatever_its_status() {
    for code in [404, 500, 503] {
        let server = Server::start(status(code, "mine")).await;
        let front = one_route(vec![server.instance("a")]).await;
        let reply = get(front.address, "/x").await;
        assert_eq!(
            (reply.status, reply.body.as_str(), reply.header("x-from")),
            (code, "mine", Some("server"))
        );
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_breaks_off_for_the_client_too() {
    let gate = std::sync::Arc::new(tokio::sync::Notify::new());
    gate.notify_one();
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf";
    let server = Server::start(Act::Parts(half, gate, "")).await;
    let front = one_route(vec![server.instance("a")]).await;
    let request = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n";
    let reply = ask(front.address, request).await;
    assert_eq!((reply.status, reply.body.as_str()), (200, "half"));
    eventually("the end of the lease", || front.balancers.in_flight() == 0).await;
}

#[tokio::test]
async fn a_refusal_of_a_head_has_no_body() {
    let front = front("evenkeel.gateway.routes: []", &[]).await;
    let reply = ask(front.address, "HEAD /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").await;
    assert_eq!((reply.status, reply.body.as_str()), (404, ""));
}
