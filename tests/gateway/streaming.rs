use std::sync::Arc;

use bytes::Bytes;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::common::{LONG, ask, one_route, read_until};
use crate::net::{Act, Server, at, eventually, ok};

#[tokio::test]
async fn the_first_byte_of_an_answer_passes_before_the_last_is_sent() {
    let gate = Arc::new(Notify::new());
    let first = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n5\r\nfirst\r\n";
    let server =
        Server::start(Act::Parts(first, Arc::clone(&gate), "4\r\nlast\r\n0\r\nx-sum: 7\r\n\r\n")).await;
    let front = one_route(vec![server.instance("a")]).await;
    let mut client = TcpStream::connect(front.address).await.unwrap();
    client.write_all(b"GET /x HTTP/1.1\r\nHost: h\r\nTE: trailers\r\n\r\n").await.unwrap();
    let text = read_until(&mut client, "first").await;
    assert!(!text.contains("last") && crate::net::header(&text, "trailer") == Some("x-sum"), "{text}");
    assert_eq!(front.balancers.in_flight(), 1, "the lease lives as long as the body");
    gate.notify_one();
    read_until(&mut client, "4\r\nlast\r\n0\r\nx-sum: 7\r\n\r\n").await;
    eventually("the end of the lease", || front.balancers.in_flight() == 0).await;
}

#[tokio::test]
async fn the_first_byte_of_a_request_passes_before_the_last_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let front = one_route(vec![at(listener.local_addr().unwrap(), "a")]).await;
    let mut client = TcpStream::connect(front.address).await.unwrap();
    client
        .write_all(b"POST /x HTTP/1.1\r\nHost: h\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n5\r\nfirst\r\n")
        .await
        .unwrap();
    let (mut instance, _) = listener.accept().await.unwrap();
    let seen = read_until(&mut instance, "first").await;
    assert!(!seen.contains("last"), "{seen}");
    client.write_all(b"4\r\nlast\r\n0\r\nx-sum: 7\r\n\r\n").await.unwrap();
    read_until(&mut instance, "4\r\nlast\r\n0\r\nx-sum: 7\r\n\r\n").await;
    instance.write_all(b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
    let answer = read_until(&mut client, "\r\n\r\nok").await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
}

#[tokio::test]
async fn a_length_stays_one_and_a_head_has_no_body() {
    let server = Server::start(ok("12345")).await;
    let front = one_route(vec![server.instance("a")]).await;
    let request = "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc";
    let reply = ask(front.address, request).await;
    assert_eq!((reply.header("content-length"), reply.body.as_str()), (Some("5"), "12345"));
    assert_eq!(crate::net::header(&server.heads()[0], "content-length"), Some("3"));

    let server = Server::start(Act::Answer("HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n".to_owned())).await;
    let front = one_route(vec![server.instance("a")]).await;
    let reply = ask(front.address, "HEAD /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").await;
    assert_eq!((reply.status, reply.header("content-length"), reply.body.as_str()), (200, Some("7"), ""));
}

/// A client of HTTP/2 at a gateway.
async fn http2<B>(address: std::net::SocketAddr) -> hyper::client::conn::http2::SendRequest<B>
where
    B: http_body::Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + Unpin
        + 'static,
{
    let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    sender
}

#[tokio::test]
async fn a_get_of_unknown_length_keeps_its_body() {
    let server = Server::start(ok("")).await;
    let front = one_route(vec![server.instance("a")]).await;
    for method in ["GET", "HEAD", "DELETE"] {
        let request = format!(
            "{method} /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        );
        assert_eq!(ask(front.address, &request).await.status, 200, "{method}");
    }
    // By HTTP/2 there is no length either unless the client says one.
    let mut sender = http2(front.address).await;
    let parts = futures_util::stream::iter([Ok::<_, std::io::Error>(Frame::data(Bytes::from("hello")))]);
    let request = http::Request::get("http://h/x").body(StreamBody::new(parts)).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
    assert_eq!(server.bodies(), ["hello"; 4]);
    // One without a body has none.
    assert_eq!(crate::common::get(front.address, "/x").await.status, 200);
    let head = server.heads().pop().unwrap();
    for name in ["transfer-encoding", "content-length"] {
        assert_eq!(crate::net::header(&head, name), None, "{head}");
    }
}

#[tokio::test]
async fn a_request_of_http2_without_a_body_is_not_given_up_while_its_answer_is_awaited() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let front = one_route(vec![at(listener.local_addr().unwrap(), "a")]).await;
    let mut sender = http2(front.address).await;
    let request = http::Request::get("http://h/x").body(http_body_util::Empty::<Bytes>::new()).unwrap();
    let answer = tokio::spawn(sender.send_request(request));
    let (mut instance, _) = listener.accept().await.unwrap();
    read_until(&mut instance, "\r\n\r\n").await;
    // Time for a reset to arrive, if there were one.
    let other = http::Request::get("http://h/%2e%2e").body(http_body_util::Empty::<Bytes>::new()).unwrap();
    assert_eq!(sender.send_request(other).await.unwrap().status(), 400);
    assert!(!answer.is_finished());
    instance.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nfirst").await.unwrap();
    let response = answer.await.unwrap().unwrap();
    instance.write_all(b"last").await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "firstlast");
    eventually("the end of the lease", || front.balancers.in_flight() == 0).await;
}

#[tokio::test]
async fn cookies_of_many_fields_arrive_as_one() {
    let server = Server::start(ok("")).await;
    let front = one_route(vec![server.instance("a")]).await;
    let mut sender = http2(front.address).await;
    let request = http::Request::get("http://h/x").header("cookie", "a=1").header("cookie", "b=2");
    let request = request.body(http_body_util::Empty::<Bytes>::new()).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
    let head = server.heads().pop().unwrap();
    let cookies: Vec<_> =
        head.lines().filter(|line| line.to_ascii_lowercase().starts_with("cookie")).collect();
    assert_eq!(cookies, ["cookie: a=1; b=2"], "{head}");
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_the_instance_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let front = one_route(vec![at(listener.local_addr().unwrap(), "a")]).await;
    let mut client = TcpStream::connect(front.address).await.unwrap();
    client.write_all(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
    let (mut instance, _) = listener.accept().await.unwrap();
    read_until(&mut instance, "\r\n\r\n").await;
    // Far more than the buffers of three sockets and the gateway.
    let total: usize = 256 << 20;
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {total}\r\n\r\n");
    instance.write_all(head.as_bytes()).await.unwrap();
    let block = vec![b'x'; 1 << 20];
    let mut sent = 0;
    // It stalls when all buffers are full.
    while let Ok(written) =
        tokio::time::timeout(std::time::Duration::from_secs(1), instance.write(&block)).await
    {
        sent += written.unwrap();
        assert!(sent < total / 2, "nobody holds it back");
    }
    // And goes on when the client reads.
    let reading = tokio::spawn(async move {
        let mut read = 0;
        let mut buffer = vec![0; 1 << 20];
        while read < total {
            let count = client.read(&mut buffer).await.unwrap();
            assert!(count > 0);
            read += count;
        }
    });
    while sent < total {
        let most = block.len().min(total - sent);
        sent += tokio::time::timeout(LONG, instance.write(&block[..most])).await.unwrap().unwrap();
    }
    tokio::time::timeout(LONG, reading).await.unwrap().unwrap();
}
