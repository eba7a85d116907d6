use crate::common::{ask, front, get, one_route};
use crate::net::{Server, header, ok};

#[tokio::test]
async fn a_target_with_a_host_decides_nothing_but_the_host() {
    let (server, trap) = (Server::start(ok("mine")).await, Server::start(ok("trap")).await);
    let front = one_route(vec![server.instance("a")]).await;
    let request =
        format!("GET http://{}/x?y HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n\r\n", trap.address);
    let reply = ask(front.address, &request).await;
    assert_eq!((reply.status, reply.body.as_str(), trap.connections()), (200, "mine", 0));
    let head = &server.heads()[0];
    assert!(head.starts_with("GET /x?y HTTP/1.1\r\n"), "{head}");
    assert_eq!(header(head, "x-forwarded-host"), Some(&*trap.address.to_string()));
}

#[tokio::test]
async fn requests_that_no_route_could_be_right_for_are_refused() {
    let server = Server::start(ok("")).await;
    let yaml = "evenkeel.gateway.routes: [{id: r, uri: 'lb://orders', predicates: ['Path=/public/**']}]";
    let front = front(yaml, &[("orders", vec![server.instance("a")])]).await;
    let host = "Host: shop.test\r\n";
    for (line, lines, status) in [
        ("GET /public/../private HTTP/1.1", host, 400),
        ("GET /public/%2e%2E/private HTTP/1.1", host, 400),
        ("GET /public/..%2fprivate HTTP/1.1", host, 400),
        ("CONNECT shop.test:443 HTTP/1.1", host, 405),
        ("OPTIONS * HTTP/1.1", host, 400),
        ("GET /public/x HTTP/1.1", "", 400),
        ("GET /public/x HTTP/1.1", "Host: a.test\r\nHost: b.test\r\n", 400),
        ("GET /public/x HTTP/1.1", "Host: a@b.test\r\n", 400),
        ("GET /private HTTP/1.1", host, 404),
    ] {
        let reply = ask(front.address, &format!("{line}\r\n{lines}Connection: close\r\n\r\n")).await;
        assert_eq!(reply.status, status, "{line} {lines:?}: {reply:?}");
    }
    assert_eq!(server.served(), 0);
    assert_eq!(get(front.address, "/public/a..b").await.status, 200);
}

#[tokio::test]
async fn dots_that_a_filter_makes_are_refused_too() {
    let server = Server::start(ok("")).await;
    let yaml = "
evenkeel.gateway.routes:
  - {id: set, uri: 'lb://orders', predicates: ['Path=/json/{name}.json'], filters: ['SetPath=/public/{name}']}
  - {id: cut, uri: 'lb://orders', predicates: ['Path=/cut/**'], filters: ['RewritePath=/cut/x(?<rest>.*), /$\\{rest}']}
  - {id: join, uri: 'lb://orders', predicates: ['Path=/join/**'], filters: ['RewritePath=-, ']}
";
    let front = front(yaml, &[("orders", vec![server.instance("a")])]).await;
    for (target, status) in [
        ("/json/...json", 400),
        ("/json/%2e%2e.json", 400),
        ("/json/..%2fa.json", 400),
        ("/json/..%5ca.json", 400),
        ("/cut/x../private", 400),
        ("/cut/x%2e%2E/private", 400),
        ("/cut/x..", 400),
        ("/join/.-./private", 400),
        ("/join/%2-e./private", 400),
        ("/json/a.json", 200),
        ("/json/..a.json", 200),
        ("/cut/xa..b/c", 200),
    ] {
        assert_eq!(get(front.address, target).await.status, status, "{target}");
    }
    assert_eq!(server.lines(), ["GET /public/a", "GET /public/..a", "GET /a..b/c"]);
}

#[tokio::test]
async fn a_request_with_two_ends_never_arrives_as_two() {
    let server = Server::start(ok("")).await;
    let front = one_route(vec![server.instance("a")]).await;
    for lines in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Transfer-Encoding: identity, x\r\n",
        "Content-Length: +5\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    ] {
        let request = format!(
            "POST /x HTTP/1.1\r\nHost: h\r\n{lines}Connection: close\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
        );
        ask(front.address, &request).await;
    }
    // The server reads no chunks: the last one of a body is a head to it.
    let heads: Vec<_> = server.heads().into_iter().filter(|head| head != "0\r\n\r\n").collect();
    assert!(heads.iter().all(|head| head.starts_with("POST /x ")), "{heads:?}");
    for head in &heads {
        let both = header(head, "content-length").is_some() && header(head, "transfer-encoding").is_some();
        assert!(!both, "{head}");
    }
}

#[tokio::test]
async fn what_the_connection_names_does_not_go_on() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: keep-alive, x-inner\r\nx-inner: 1\r\nkeep-alive: timeout=5\r\nx-kept: 1\r\n\r\n";
    let server = Server::start(crate::net::Act::Answer(answer.to_owned())).await;
    let front = one_route(vec![server.instance("a")]).await;
    let request = "GET /x HTTP/1.1\r\nHost: h\r\nConnection: close, x-secret, X-Forwarded-For\r\nx-secret: 1\r\nTE: trailers, gzip\r\nKeep-Alive: 5\r\nProxy-Authorization: x\r\nx-kept: 1\r\n\r\n";
    let reply = ask(front.address, request).await;
    assert_eq!(
        (reply.header("x-inner"), reply.header("keep-alive"), reply.header("x-kept")),
        (None, None, Some("1"))
    );
    let head = server.heads().pop().unwrap();
    for gone in ["x-secret", "keep-alive", "proxy-authorization", "connection"] {
        assert_eq!(header(&head, gone), None, "{gone}: {head}");
    }
    assert_eq!((header(&head, "te"), header(&head, "x-kept")), (Some("trailers"), Some("1")));
    assert_eq!(header(&head, "x-forwarded-for"), Some("127.0.0.1"), "ours is added behind");
}

#[tokio::test]
async fn bytes_that_are_no_request_do_no_harm() {
    let server = Server::start(ok("")).await;
    let front = one_route(vec![server.instance("a")]).await;
    for bytes in [
        "\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "GET /x HTTP/9.9\r\n\r\n",
        "\0\0\0\0\r\n\r\n",
        "GET /\u{7f} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    ] {
        let mut stream = tokio::net::TcpStream::connect(front.address).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, bytes.as_bytes()).await.unwrap();
    }
    assert_eq!(get(front.address, "/x").await.status, 200);
}
