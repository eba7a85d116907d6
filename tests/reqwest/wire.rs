//! The bytes on the wire: nothing but scheme and authority is replaced.

use super::net::*;
use evenkeel::client::reqwest::Via;
use evenkeel::{LoadBalancer, Request, ServiceInstance};

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
            http.get(format!("{scheme}://orders{target}")).send().await.unwrap();
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
        // A round robin: the dead one is the first choice of one of two calls.
        for _ in 0..2 {
            let response = http.get(format!("http://orders{target}")).send().await.unwrap();
            attempts.push(response.extensions().get::<Via>().unwrap().attempts());
        }
        attempts.sort_unstable();
        assert_eq!(attempts, [1, 2]);
        assert_eq!(request_lines(&server)[before..], [(); 2].map(|()| format!("GET {target} HTTP/1.1")));
    }
}

#[tokio::test]
async fn case_049_user_info_is_no_host_and_a_fragment_stays_here() {
    let server = Server::start(ok("")).await;
    let http = over([server.instance("a")]);
    let url = "http://me:secret@orders/x?y=1#top";
    http.get(url).send().await.unwrap();
    http.get("lb://me:secret@orders?y=2#top").send().await.unwrap();
    // A finished request keeps its user info, which reqwest's builder would have made into a header.
    http.execute(reqwest::Request::new(reqwest::Method::GET, url.parse().unwrap())).await.unwrap();
    let lines = ["GET /x?y=1 HTTP/1.1", "GET /?y=2 HTTP/1.1", "GET /x?y=1 HTTP/1.1"];
    assert_eq!(request_lines(&server), lines);
    for head in server.heads() {
        assert_eq!(header(&head, "host"), Some(&*server.address.to_string()));
        assert!(!head.contains("secret") && !head.contains("top"), "{head}");
    }
    let authorized = server.heads().iter().filter(|head| header(head, "authorization").is_some()).count();
    assert_eq!(authorized, 2, "as reqwest does it");
}

#[tokio::test]
async fn case_046_a_request_to_an_ipv6_address_has_brackets() {
    let Ok(server) = Server::at("[::1]:0", ok("six")).await else {
        eprintln!("skipped: this machine has no IPv6 loopback");
        return;
    };
    let port = server.address.port();
    for host in ["::1", "[::1]"] {
        let http = over([ServiceInstance::new(host, port).unwrap()]);
        assert_eq!(http.get("lb://orders/x").send().await.unwrap().text().await.unwrap(), "six");
    }
    for head in server.heads() {
        assert_eq!(header(&head, "host"), Some(&*format!("[::1]:{port}")));
    }
}

fn p_s_u() -> [(ServiceInstance, [&'static str; 5]); 3] {
    let at = |port: u16| ServiceInstance::builder("h.test").port(port);
    // By the scheme of the request: http, https, lb, ws, none.
    [
        (at(8080).secure(false).build().unwrap(), ["http", "http", "http", "ws", "http"]),
        (at(8443).secure(true).build().unwrap(), ["https", "https", "https", "wss", "https"]),
        (at(9000).build().unwrap(), ["http", "https", "http", "ws", "http"]),
    ]
}

#[tokio::test]
async fn case_050_the_scheme_of_every_instance_and_request() {
    for (instance, schemes) in p_s_u() {
        let port = instance.port().unwrap();
        for downgrade in [false, true] {
            let base = evenkeel::supplier::FixedSupplier::new(
                evenkeel::ServiceId::new("orders").unwrap(),
                [instance.clone()],
            );
            let supplier = evenkeel::SupplierBuilder::new("orders").with_base(base).build().unwrap();
            let lb = LoadBalancer::builder(supplier).allow_downgrade(downgrade).build();
            let choice = lb.choose(&Request::EMPTY).await.unwrap();
            let requested = [Some("http"), Some("https"), Some("lb"), Some("ws"), None];
            for (scheme, expected) in requested.into_iter().zip(schemes) {
                let target = choice.target(scheme);
                if instance.secure() == Some(false) && scheme == Some("https") && !downgrade {
                    let error = target.unwrap_err();
                    assert_eq!(error.instance(), &choice.instance());
                    assert!(error.to_string().contains("h.test:8080"), "{error}");
                } else {
                    assert_eq!(target.unwrap().url("/x"), format!("{expected}://h.test:{port}/x"));
                }
            }
        }
    }
    let own = ServiceInstance::builder("h.test").port(1).secure(false).scheme("https").build().unwrap();
    let lb = LoadBalancer::fixed("orders", [own]).unwrap();
    let choice = lb.choose(&Request::EMPTY).await.unwrap();
    assert_eq!(choice.target(Some("http")).unwrap().scheme(), "https", "its own scheme wins over the flag");
}

#[tokio::test]
async fn case_050_a_downgrade_is_a_typed_error_until_it_is_allowed() {
    let server = Server::start(ok("plain")).await;
    let instance = server.instance("p").to_builder().secure(false).build().unwrap();
    let refusing = over([instance.clone()]);
    let error = refusing.get("https://orders/x").send().await.unwrap_err();
    assert_eq!(error.target_error().unwrap().instance().id(), "p");
    assert!(error.to_string().contains("allow-downgrade"), "{error}");
    assert_eq!(server.connections(), 0);

    let properties = evenkeel::config::Properties::default().set("allow-downgrade", true).unwrap();
    let http = client(&balancers([instance], properties));
    assert_eq!(http.get("https://orders/x").send().await.unwrap().text().await.unwrap(), "plain");
}
