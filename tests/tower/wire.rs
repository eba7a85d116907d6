//! The bytes on the wire: nothing but scheme and authority is replaced, by the client and by the layer.

use super::net::*;
use super::support::{client, get, over, text, via};
use evenkeel::config::Properties;
use evenkeel::{LoadBalancers, ServiceInstance};
use http::{Request, Response, Uri};
use http_body_util::Empty;
use hyper::body::Bytes;
use std::sync::{Arc, Mutex};
use tower::{Layer, Service, ServiceExt, service_fn};

const TARGETS: [&str; 10] = [
    "/q?ids=%3CHello=World@mail.example%3E",
    "/?foo=%7C",
    "/a%2Fb",
    "/test%3Cscript%3E",
    "/a//b/",
    "/m;v=1/x",
    "/s?x=a+b&y=%20&z=",
    "/e?",
    "/p%c3%a9?%e9",
    "/100%25",
];

fn request_lines(server: &Server) -> Vec<String> {
    server.heads().iter().map(|head| head.lines().next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn case_049_the_request_target_stays_byte_for_byte() {
    let server = Server::start(ok("")).await;
    let http = over([server.instance("a")]);
    for scheme in ["http", "lb"] {
        for target in TARGETS {
            http.request(get(&format!("{scheme}://orders{target}"))).await.unwrap();
        }
    }
    let expected: Vec<String> = TARGETS.iter().map(|target| format!("GET {target} HTTP/1.1")).collect();
    assert_eq!(request_lines(&server), [expected.clone(), expected].concat());
}

#[tokio::test]
async fn case_049_a_second_attempt_gives_the_same_bytes() {
    let server = Server::start(ok("")).await;
    for target in TARGETS {
        let dead = Refusing::new();
        let http = over([dead.instance("dead"), server.instance("b")]);
        let before = server.served();
        let mut attempts = Vec::new();
        for _ in 0..2 {
            let response = http.request(get(&format!("http://orders{target}"))).await.unwrap();
            attempts.push(via(&response).attempts());
        }
        attempts.sort_unstable();
        assert_eq!(attempts, [1, 2]);
        assert_eq!(request_lines(&server)[before..], [(); 2].map(|()| format!("GET {target} HTTP/1.1")));
    }
}

#[tokio::test]
async fn case_049_user_info_is_no_host() {
    let server = Server::start(ok("")).await;
    let http = over([server.instance("a")]);
    http.request(get("http://me:secret@orders/x?y=1")).await.unwrap();
    http.request(get("lb://me:secret@orders?y=2")).await.unwrap();
    assert_eq!(request_lines(&server), ["GET /x?y=1 HTTP/1.1", "GET /?y=2 HTTP/1.1"]);
    for head in server.heads() {
        assert_eq!(header(&head, "host"), Some(&*server.address.to_string()));
        assert!(!head.contains("secret"), "{head}");
    }
}

/// The URIs that the service below the layer gets.
async fn below(balancers: &LoadBalancers, uri: &str) -> Result<Uri, evenkeel::client::tower::Error> {
    let seen = Arc::new(Mutex::new(Uri::default()));
    let kept = Arc::clone(&seen);
    let inner = service_fn(move |request: Request<Empty<Bytes>>| {
        *kept.lock().unwrap() = request.uri().clone();
        async { Ok::<_, std::io::Error>(Response::new(Empty::<Bytes>::new())) }
    });
    let service = balancers.balance_layer().layer(inner);
    service.oneshot(Request::get(uri).body(Empty::new()).unwrap()).await?;
    let uri = seen.lock().unwrap().clone();
    Ok(uri)
}

#[tokio::test]
async fn case_049_the_layer_replaces_scheme_and_authority_alone() {
    let balancers = balancers([ServiceInstance::new("h.test", 81).unwrap()], Properties::default());
    for target in TARGETS {
        let uri = below(&balancers, &format!("lb://u:p@orders{target}")).await.unwrap();
        assert_eq!(uri.to_string(), format!("http://h.test:81{target}"));
    }
    assert_eq!(below(&balancers, "lb://orders").await.unwrap(), "http://h.test:81/");
    for plain in ["http://orders:80/x", "http://other.test/x", "ftp://orders/x"] {
        assert_eq!(below(&balancers, plain).await.unwrap(), plain, "not balanced");
    }
    let six = super::net::balancers([ServiceInstance::new("::1", 82).unwrap()], Properties::default());
    assert_eq!(below(&six, "lb://orders/x").await.unwrap(), "http://[::1]:82/x");
    let none =
        super::net::balancers([ServiceInstance::builder("h.test").build().unwrap()], Properties::default());
    assert_eq!(below(&none, "lb://orders/x").await.unwrap(), "http://h.test/x");
}

#[tokio::test]
async fn case_050_the_scheme_of_every_instance_and_request() {
    let at = |port: u16| ServiceInstance::builder("h.test").port(port);
    for (instance, schemes) in [
        (at(8080).secure(false).build().unwrap(), ["http", "", "http", "ws"]),
        (at(8443).secure(true).build().unwrap(), ["https", "https", "https", "wss"]),
        (at(9000).build().unwrap(), ["http", "https", "http", "ws"]),
        (at(1).secure(false).scheme("https").build().unwrap(), ["https", "https", "https", "https"]),
    ] {
        let port = instance.port().unwrap();
        let balancers = balancers([instance], Properties::default());
        for (scheme, expected) in ["http", "https", "lb", "ws"].into_iter().zip(schemes) {
            let uri = below(&balancers, &format!("{scheme}://orders/x")).await;
            if expected.is_empty() {
                let error = uri.unwrap_err();
                assert_eq!(error.target_error().unwrap().instance().port(), Some(port));
                assert!(error.to_string().contains("allow-downgrade"), "{error}");
                assert_eq!((error.tried().len(), error.failure()), (1, None));
            } else {
                assert_eq!(uri.unwrap().to_string(), format!("{expected}://h.test:{port}/x"), "{scheme}");
            }
        }
    }
}

#[tokio::test]
async fn case_050_a_downgrade_is_a_typed_error_until_it_is_allowed() {
    let server = Server::start(ok("plain")).await;
    let instance = server.instance("p").to_builder().secure(false).build().unwrap();
    let error = over([instance.clone()]).request(get("https://orders/x")).await.unwrap_err();
    assert_eq!(error.target_error().unwrap().instance().id(), "p");
    assert!(error.to_string().contains("allow-downgrade"), "{error}");
    assert_eq!(server.connections(), 0);

    let properties = Properties::default().set("allow-downgrade", true).unwrap();
    let http = client(&balancers([instance], properties));
    assert_eq!(text(http.request(get("https://orders/x")).await.unwrap()).await, "plain");
    assert_eq!(text(http.request(get("ws://orders/x")).await.unwrap()).await, "plain");
}

#[tokio::test]
async fn the_host_header_names_the_instance_or_the_service() {
    let server = Server::start(ok("")).await;
    let address = server.address.to_string();
    for (word, name) in [("instance", &*address), ("service", "orders")] {
        let properties = Properties::default().set("host-header", word).unwrap();
        let balancers = balancers([server.instance("a")], properties);
        client(&balancers).request(get("lb://me@orders/x")).await.unwrap();
        let reqwest = balancers.reqwest(|_| reqwest::Client::builder()).unwrap();
        reqwest.get("lb://orders/x").send().await.unwrap();
        let hyper = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new());
        let mut layered = balancers.balance_layer().layer(hyper.build_http());
        layered.call(get("lb://orders/x")).await.unwrap();
        let heads = server.heads();
        for head in &heads[heads.len() - 3..] {
            assert_eq!(header(head, "host"), Some(name), "{word}: {head}");
        }
        // One of the caller's own stays.
        let mut request = get("lb://orders/x");
        request.headers_mut().insert("host", "shop.test".parse().unwrap());
        client(&balancers).request(request).await.unwrap();
        assert_eq!(header(server.heads().last().unwrap(), "host"), Some("shop.test"));
    }
    let error = Properties::default().set_for("orders", "host-header", "both").unwrap_err().to_string();
    assert!(error.contains("host-header") && error.contains("both") && error.contains("orders"), "{error}");
}

#[tokio::test]
async fn what_cannot_be_called_is_told_by_name() {
    let http = over([ServiceInstance::new("h.test", 81).unwrap()]);
    let off = Properties::default().set_for("orders", "enabled", false).unwrap();
    let registry = evenkeel::discovery::SimpleDiscovery::new();
    let off = client(&LoadBalancers::from_properties(off, registry).unwrap());
    let error = off.request(get("lb://orders/x")).await.unwrap_err();
    assert!(error.build_error().is_some() && error.to_string().contains("enabled: false"), "{error}");
    let error = http.request(get("lb://nobody/x")).await.unwrap_err();
    assert!(error.choose_error().is_some() && error.to_string().contains("nobody"), "{error}");
    assert_eq!((error.tried().len(), error.failure()), (0, None));
    let error = http.request(get("/x")).await.unwrap_err();
    assert!(!error.to_string().is_empty());
}
