use evenkeel::LoadBalancers;
use evenkeel::client::Via;
use evenkeel::gateway::{Gateway, PeerAddress, PeerScheme, RouteDefinition, Routes};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tower::ServiceExt;

use crate::common::one_route;
use crate::net::{Server, header, ok};

fn gateway(server: &Server) -> Gateway {
    let balancers = LoadBalancers::fixed([("orders", vec![server.instance("a")])]).unwrap();
    let routes =
        Routes::new([RouteDefinition::new("r", "lb://orders").with_predicate("Path=/api/**")]).unwrap();
    Gateway::builder(balancers).routes(routes).build()
}

#[tokio::test]
async fn it_is_a_service_of_tower() {
    let server = Server::start(ok("hello")).await;
    let service = gateway(&server).into_service();
    let request =
        http::Request::post("http://shop.test/api/x").body(Full::new(bytes::Bytes::from("body"))).unwrap();
    let response = service.clone().oneshot(request).await.unwrap();
    assert_eq!(response.extensions().get::<Via>().unwrap().instance().id(), "a");
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "hello");
    let mut request =
        http::Request::get("http://shop.test/api/x").body(Full::new(bytes::Bytes::new())).unwrap();
    request.extensions_mut().insert(PeerAddress("10.1.2.3:4".parse().unwrap()));
    service.oneshot(request).await.unwrap();
    let heads = server.heads();
    assert_eq!(header(&heads[0], "x-forwarded-for"), None);
    assert_eq!(header(&heads[1], "x-forwarded-for"), Some("10.1.2.3"));
}

#[tokio::test]
async fn a_server_of_ones_own_says_whether_it_spoke_tls() {
    let server = Server::start(ok("")).await;
    let service = gateway(&server).into_service();
    for (peer, proto, port) in [
        (None, "http", "80"),
        (Some(PeerScheme::Http), "http", "80"),
        (Some(PeerScheme::Https), "https", "443"),
    ] {
        // Whatever the client writes.
        for scheme in ["http", "https"] {
            let request = http::Request::get(format!("{scheme}://shop.test/api/x"));
            let mut request = request.body(Full::new(bytes::Bytes::new())).unwrap();
            if let Some(peer) = peer {
                request.extensions_mut().insert(peer);
            }
            service.clone().oneshot(request).await.unwrap();
            let head = server.heads().pop().unwrap();
            assert_eq!(header(&head, "x-forwarded-proto"), Some(proto), "{peer:?} {scheme}");
            assert_eq!(header(&head, "x-forwarded-port"), Some(port), "{peer:?} {scheme}");
            let forwarded = header(&head, "forwarded").unwrap();
            assert!(forwarded.starts_with(&format!("proto={proto};")), "{forwarded}");
        }
    }
}

#[tokio::test]
async fn a_length_that_is_not_that_of_the_body_does_not_go_on() {
    let server = Server::start(ok("")).await;
    let service = gateway(&server).into_service();
    // As behind a layer that took the body, or put another one in its place.
    for (length, body) in [("40", ""), ("40", "hello"), ("5", "hello")] {
        let body = Full::new(bytes::Bytes::from(body));
        let request =
            http::Request::put("http://shop.test/api/x").header("content-length", length).body(body);
        let response = service.clone().oneshot(request.unwrap()).await.unwrap();
        assert_eq!(response.status(), 200);
    }
    assert_eq!(server.bodies(), ["", "hello", "hello"]);
}

#[tokio::test]
async fn it_stands_behind_the_routes_of_axum() {
    let server = Server::start(ok("balanced")).await;
    let app = axum::Router::new()
        .route("/own", axum::routing::get(|| async { "own" }))
        .fallback_service(gateway(&server).into_service());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    for (path, wanted) in [("/own", "own"), ("/api/x", "balanced")] {
        assert_eq!(crate::common::get(address, path).await.body, wanted);
    }
    assert_eq!(crate::common::get(address, "/none").await.status, 404);
}

#[tokio::test]
async fn it_speaks_http2_in_front() {
    let server = Server::start(ok("hello")).await;
    let front = one_route(vec![server.instance("a")]).await;
    let stream = tokio::net::TcpStream::connect(front.address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let requests = (0..20).map(|at| {
        let request = http::Request::get(format!("http://shop.test/x/{at}"))
            .body(Full::new(bytes::Bytes::new()))
            .unwrap();
        sender.send_request(request)
    });
    for response in futures_util::future::join_all(requests).await {
        let response = response.unwrap();
        assert_eq!((response.status().as_u16(), response.version()), (200, http::Version::HTTP_2));
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "hello");
    }
    let heads = server.heads();
    assert!(heads.iter().all(|head| header(head, "x-forwarded-host") == Some("shop.test")), "{heads:?}");
    // Its headers hold no name of a connection there; the instance gets HTTP/1.1.
    assert!(heads.iter().all(|head| head.contains(" HTTP/1.1\r\n") && header(head, "cookie").is_none()));
}
