use futures_util::{SinkExt, StreamExt};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::common::{ask, front, read_until};
use crate::net::{Server, at, eventually, ok};

/// A server that echoes the messages of websockets.
async fn echo() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
                while let Some(Ok(message)) = socket.next().await {
                    if message.is_close() || socket.send(message).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    address
}

const YAML: &str = "
evenkeel.gateway.routes:
  - {id: plain, uri: 'lb://chat', predicates: ['Path=/chat/**'], filters: ['StripPrefix=1']}
  - {id: ws, uri: 'lb:ws://chat', predicates: ['Path=/ws']}
";

#[tokio::test]
async fn a_websocket_goes_both_ways_and_holds_its_lease_to_the_end() {
    let front = front(YAML, &[("chat", vec![at(echo().await, "a")])]).await;
    for path in ["/chat/room", "/ws"] {
        let stream = TcpStream::connect(front.address).await.unwrap();
        let request = format!("ws://{}{path}", front.address).into_client_request().unwrap();
        let (mut socket, response) = tokio_tungstenite::client_async(request, stream).await.unwrap();
        assert_eq!(response.status(), 101);
        for text in ["one", "two"] {
            socket.send(Message::text(text)).await.unwrap();
            assert_eq!(socket.next().await.unwrap().unwrap(), Message::text(text));
        }
        let large = Message::binary(vec![7; 1 << 20]);
        socket.send(large.clone()).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), large);
        assert_eq!(front.balancers.in_flight(), 1);
        drop(socket);
        eventually("the end of the lease", || front.balancers.in_flight() == 0).await;
    }
}

#[tokio::test]
async fn when_the_instance_ends_a_websocket_the_client_sees_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let front = front(YAML, &[("chat", vec![at(listener.local_addr().unwrap(), "a")])]).await;
    let mut client = TcpStream::connect(front.address).await.unwrap();
    let ask = b"GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n";
    client.write_all(ask).await.unwrap();
    let (mut instance, _) = listener.accept().await.unwrap();
    let head = read_until(&mut instance, "\r\n\r\n").await.to_ascii_lowercase();
    for line in ["connection: upgrade", "upgrade: websocket", "sec-websocket-key: x"] {
        assert!(head.contains(line), "{line}: {head}");
    }
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: y\r\n\r\nhello";
    instance.write_all(switch).await.unwrap();
    let answer = read_until(&mut client, "hello").await.to_ascii_lowercase();
    assert!(
        answer.contains("101")
            && answer.contains("sec-websocket-accept: y")
            && answer.contains("upgrade: websocket")
    );
    drop(instance);
    let mut rest = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut client, &mut rest);
    assert_eq!(tokio::time::timeout(crate::common::LONG, read).await.unwrap().unwrap(), 0);
    drop(client);
    eventually("the end of the lease", || front.balancers.in_flight() == 0).await;
}

#[tokio::test]
async fn a_server_without_websockets_answers_as_it_does() {
    let server = Server::start(ok("plain")).await;
    let front = front(YAML, &[("chat", vec![server.instance("a")])]).await;
    let upgrade = |protocol: &str| {
        format!("GET /ws HTTP/1.1\r\nHost: h\r\nConnection: upgrade, close\r\nUpgrade: {protocol}\r\n\r\n")
    };
    let reply = ask(front.address, &upgrade("websocket")).await;
    assert_eq!((reply.status, reply.body.as_str()), (200, "plain"));
    // Another protocol is not asked for.
    let reply = ask(front.address, &upgrade("h2c")).await;
    assert_eq!((reply.status, reply.body.as_str()), (200, "plain"));
    let heads = server.heads();
    assert!(
        heads[0].contains("upgrade: websocket") && !heads[1].to_ascii_lowercase().contains("upgrade"),
        "{heads:?}"
    );
}

#[tokio::test]
async fn one_with_a_body_is_refused_and_leaves_nothing_for_the_next_request() {
    let server = Server::start(ok("")).await;
    let front = front(YAML, &[("chat", vec![server.instance("a")])]).await;
    let hidden = "GET /hidden HTTP/1.1\r\nHost: h\r\n\r\n";
    for (lines, body) in [
        (format!("Content-Length: {}\r\n", hidden.len()), hidden.to_owned()),
        ("Content-Length: 40\r\n".to_owned(), String::new()),
        ("Transfer-Encoding: chunked\r\n".to_owned(), format!("{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len())),
    ] {
        let mut client = TcpStream::connect(front.address).await.unwrap();
        let head = "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
        client.write_all(format!("{head}{lines}\r\n{body}").as_bytes()).await.unwrap();
        let answer = read_until(&mut client, "\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{lines}: {answer}");
    }
    assert_eq!(server.served(), 0);
    // A length of nothing is no body.
    let lines = "Connection: Upgrade, close\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n";
    let reply = ask(front.address, &format!("GET /ws HTTP/1.1\r\nHost: h\r\n{lines}")).await;
    assert_eq!(reply.status, 200);
    for path in ["/ws", "/chat/next"] {
        assert_eq!(crate::common::get(front.address, path).await.status, 200);
    }
    assert_eq!(server.lines(), ["GET /ws", "GET /ws", "GET /next"]);
}

#[tokio::test]
async fn a_switch_that_nobody_asked_for_is_a_broken_instance() {
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let server = Server::start(crate::net::Act::Answer(switch.to_owned())).await;
    let front = front(YAML, &[("chat", vec![server.instance("a")])]).await;
    let reply = crate::common::get(front.address, "/ws").await;
    assert_eq!(reply.status, 502);
    eventually("the end of the lease", || front.balancers.in_flight() == 0).await;
    let snapshot = front.balancers.get("chat").unwrap().snapshot().unwrap();
    assert!(snapshot.all_instances().all(|state| state.load() > 0), "it counts as a failure");
}
