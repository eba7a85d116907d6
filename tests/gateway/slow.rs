use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::common::{ask, one_route, read_until};
use crate::net::{Server, ok};

/// How long a connection stays on which these bytes came, and nothing after them.
async fn stays(address: SocketAddr, bytes: &[u8]) -> Duration {
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(bytes).await.unwrap();
    let start = Instant::now();
    let end = async { while !matches!(client.read(&mut [0; 1024]).await, Ok(0) | Err(_)) {} };
    timeout(Duration::from_secs(300), end).await.expect("the connection ends");
    start.elapsed()
}

// Each limit of the gateway is the only thing that the paused clock can run to.
#[tokio::test(start_paused = true)]
async fn who_does_not_say_what_he_speaks_is_let_go() {
    let front = one_route(vec![]).await;
    for bytes in ["", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r"] {
        let stayed = stays(front.address, bytes.as_bytes()).await;
        assert!((30..40).contains(&stayed.as_secs()), "{bytes:?}: {stayed:?}");
    }
    for bytes in ["G", "GET /x HTTP/1.1\r\nHost: h\r\n", "POS"] {
        let stayed = stays(front.address, bytes.as_bytes()).await;
        assert!((30..70).contains(&stayed.as_secs()), "{bytes:?}: {stayed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_ends_before_he_has_said_it_is_let_go_at_once() {
    let front = one_route(vec![]).await;
    for bytes in ["", "P", "PRI * HTTP/2.0\r\n"] {
        let mut client = TcpStream::connect(front.address).await.unwrap();
        client.write_all(bytes.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let start = Instant::now();
        assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0, "{bytes:?}: no reset");
        assert!(start.elapsed() < Duration::from_secs(1), "{bytes:?}: {:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_preface_may_come_in_parts() {
    let front = one_route(vec![]).await;
    let mut client = TcpStream::connect(front.address).await.unwrap();
    for part in ["P", "RI * HTTP/2.0\r\n", "\r\nSM\r\n\r\n"] {
        client.write_all(part.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    client.write_all(b"\0\0\0\x04\0\0\0\0\0").await.unwrap();
    // The settings of the server come first (RFC 9113, 3.4).
    let mut head = [0; 9];
    client.read_exact(&mut head).await.unwrap();
    assert_eq!(head[3], 4, "{head:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_of_http2_that_is_gone_is_let_go() {
    let front = one_route(vec![]).await;
    // Its settings, and no word after them.
    let settings = b"\0\0\0\x04\0\0\0\0\0";
    let stayed = stays(front.address, &[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], settings].concat()).await;
    assert!((20..90).contains(&stayed.as_secs()), "{stayed:?}");
}

#[tokio::test]
async fn a_request_may_come_byte_by_byte() {
    let server = Server::start(ok("hello")).await;
    let front = one_route(vec![server.instance("a")]).await;
    let mut client = TcpStream::connect(front.address).await.unwrap();
    client.set_nodelay(true).unwrap();
    for byte in b"PUT /x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab" {
        client.write_all(&[*byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    read_until(&mut client, "hello").await;
    assert_eq!(server.bodies(), ["ab"]);
    // A word that begins as that of HTTP/2 does.
    let request = "PRI /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    assert_eq!(ask(front.address, request).await.body, "hello");
}
