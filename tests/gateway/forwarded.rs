use crate::common::{ask, filtered, front, get_with};
use crate::net::{Server, header, ok};

#[tokio::test]
async fn an_instance_is_told_who_asked_for_what() {
    let server = Server::start(ok("")).await;
    let front = filtered(&["StripPrefix=1"], vec![server.instance("a")]).await;
    let lines = "X-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nX-Forwarded-Host: first.test\r\n";
    assert_eq!(get_with(front.address, "/api/orders", lines).await.status, 200);
    let head = server.heads().pop().unwrap();
    let of = |name: &str| header(&head, name).unwrap_or_default().to_owned();
    assert_eq!(of("x-forwarded-for"), "1.2.3.4, 127.0.0.1");
    assert_eq!(of("x-forwarded-host"), "first.test, shop.test");
    assert_eq!((of("x-forwarded-proto"), of("x-forwarded-port")), ("http".into(), "80".into()));
    assert_eq!(of("x-forwarded-prefix"), "/api");
    let forwarded = of("forwarded");
    assert!(
        forwarded.starts_with("for=1.2.3.4, proto=http;host=\"shop.test\";for=\"127.0.0.1:"),
        "{forwarded}"
    );
}

#[tokio::test]
async fn who_is_not_trusted_says_nothing_of_others() {
    for (trusted, wanted) in [("10\\..*", "127.0.0.1"), ("127\\..*", "1.2.3.4, 127.0.0.1")] {
        let server = Server::start(ok("")).await;
        let yaml = format!(
            "evenkeel.gateway: {{trusted-proxies: '{trusted}', forwarded.enabled: false, routes: [{{id: r, uri: 'lb://orders'}}]}}"
        );
        let front = front(&yaml, &[("orders", vec![server.instance("a")])]).await;
        let lines = "X-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\n";
        assert_eq!(get_with(front.address, "/", lines).await.status, 200);
        let head = server.heads().pop().unwrap();
        assert_eq!(header(&head, "x-forwarded-for"), Some(wanted));
        assert_eq!(header(&head, "forwarded"), (trusted.starts_with("127")).then_some("for=1.2.3.4"));
    }
}

#[tokio::test]
async fn the_scheme_is_that_of_the_connection_and_not_what_the_client_writes() {
    let server = Server::start(ok("")).await;
    let yaml = "
evenkeel:
  configurations: request-based-sticky-session
  sticky-session.add-service-instance-cookie: true
  gateway: {trusted-proxies: '10\\..*', routes: [{id: r, uri: 'lb://orders'}]}
";
    let front = front(yaml, &[("orders", vec![server.instance("a")])]).await;
    let lines = "Host: shop.test\r\nX-Forwarded-Proto: https\r\nConnection: close\r\n";
    let reply = ask(front.address, &format!("GET https://shop.test/x HTTP/1.1\r\n{lines}\r\n")).await;
    assert_eq!(reply.status, 200);
    assert!(!reply.header("set-cookie").unwrap().contains("Secure"), "{reply:?}");
    // HTTP/2 has a field for it.
    let stream = tokio::net::TcpStream::connect(front.address).await.unwrap();
    let (executor, io) = (hyper_util::rt::TokioExecutor::new(), hyper_util::rt::TokioIo::new(stream));
    let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    tokio::spawn(connection);
    let request =
        http::Request::get("https://shop.test/x").body(http_body_util::Empty::<bytes::Bytes>::new());
    let response = sender.send_request(request.unwrap()).await.unwrap();
    assert!(!response.headers()["set-cookie"].to_str().unwrap().contains("Secure"));
    let heads = server.heads();
    assert_eq!(heads.len(), 2);
    for head in heads {
        assert_eq!(header(&head, "x-forwarded-proto"), Some("http"), "{head}");
        assert_eq!(header(&head, "x-forwarded-port"), Some("80"), "{head}");
        assert!(header(&head, "forwarded").unwrap().starts_with("proto=http;"), "{head}");
    }
}
