//! 3.20 Request factory, interceptors, service groups: cases 252 to 257, and 247.

use evenkeel::ServiceInstance;
use evenkeel::client::{Outgoing, RequestTransformer};
use evenkeel::config::Properties;
use http::{HeaderName, HeaderValue};

use crate::net::{Server, balancers, client, header, ok, over};

/// Adds its name to the header `x-chain`.
#[derive(Debug)]
struct Adds(i32, &'static str);

impl RequestTransformer for Adds {
    fn order(&self) -> i32 {
        self.0
    }
    fn transform(&self, request: &mut Outgoing<'_>, instance: &ServiceInstance) {
        let before = request.headers().get("x-chain").map_or("", |value| value.to_str().unwrap());
        let value = format!("{before}{}({})", self.1, instance.id());
        request.headers_mut().insert("x-chain", HeaderValue::from_str(&value).unwrap());
        request.headers_mut().insert(HeaderName::from_static(self.1), HeaderValue::from_static("set"));
    }
}

#[tokio::test]
async fn scl_252_without_transformers_only_the_address_changes() {
    let server = Server::start(ok("")).await;
    over([server.instance("a")]).get("lb://orders/a%2Fb?c=%20").header("x", "1").send().await.unwrap();
    let head = &server.heads()[0];
    assert!(head.starts_with("GET /a%2Fb?c=%20 HTTP/1.1\r\n"), "{head}");
    assert_eq!(header(head, "host"), Some(&*server.address.to_string()));
    let mut names: Vec<_> =
        head.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.to_lowercase()).collect();
    names.sort();
    assert_eq!(names, ["accept", "host", "x"]);
}

#[tokio::test]
async fn scl_253_each_transformer_sees_what_those_before_it_did_in_their_order() {
    let server = Server::start(ok("")).await;
    let http = over([server.instance("a")]);
    let both = http.with_transformer(Adds(7, "late")).with_transformer(Adds(0, "first"));
    both.get("lb://orders/").send().await.unwrap();
    assert_eq!(header(&server.heads()[0], "x-chain"), Some("first(a)late(a)"));
    assert_eq!(header(&server.heads()[0], "first"), Some("set"));
    assert_eq!(header(&server.heads()[0], "late"), Some("set"));
    http.with_transformer(Adds(0, "one")).get("lb://orders/").send().await.unwrap();
    assert_eq!(header(&server.heads()[1], "x-chain"), Some("one(a)"));
    http.get("lb://orders/").send().await.unwrap();
    assert_eq!(header(&server.heads()[2], "x-chain"), None);
}

#[tokio::test]
async fn scl_247_the_headers_of_two_transformers_are_sent_with_and_without_retries() {
    for retries in [true, false] {
        let server = Server::start(ok("")).await;
        let properties = Properties::default().set("retry.enabled", retries).unwrap();
        let http = client(&balancers([server.instance("a")], properties));
        let both = http.with_transformer(Adds(0, "one")).with_transformer(Adds(0, "two"));
        both.get("lb://orders/").send().await.unwrap();
        let head = &server.heads()[0];
        assert_eq!((header(head, "one"), header(head, "two")), (Some("set"), Some("set")));
    }
}

#[tokio::test]
async fn each_attempt_is_transformed_for_its_own_instance() {
    let (broken, live) = (Server::start(crate::net::Act::Break).await, Server::start(ok("")).await);
    let http = over([broken.instance("a"), live.instance("b")]).with_transformer(Adds(0, "one"));
    for _ in 0..2 {
        http.get("lb://orders/").send().await.unwrap();
    }
    for head in live.heads() {
        assert_eq!(header(&head, "x-chain"), Some("one(b)"));
    }
    assert_eq!((broken.served(), header(&broken.heads()[0], "x-chain")), (1, Some("one(a)")));
}

/// Points each request somewhere else on its instance.
#[derive(Debug)]
struct Elsewhere;

impl RequestTransformer for Elsewhere {
    fn transform(&self, request: &mut Outgoing<'_>, _: &ServiceInstance) {
        assert_eq!((request.method().as_str(), request.logical_url()), ("GET", "lb://orders/x"));
        let url = format!("{}/moved", request.url());
        request.set_url(url);
    }
}

#[tokio::test]
async fn a_transformer_may_change_the_url() {
    let server = Server::start(ok("")).await;
    let http = over([server.instance("a")]).with_transformer(Elsewhere);
    http.get("lb://orders/x").send().await.unwrap();
    assert!(server.heads()[0].starts_with("GET /x/moved "), "{}", server.heads()[0]);
}

#[tokio::test]
async fn scl_254_a_name_that_is_configured_is_balanced() {
    let server = Server::start(ok("")).await;
    let http = over([server.instance("a")]);
    assert_eq!(http.get("http://orders/path").send().await.unwrap().status(), 200);
    assert_eq!(server.served(), 1);
}

#[tokio::test]
async fn scl_255_a_url_with_the_scheme_lb_is_balanced() {
    let server = Server::start(ok("")).await;
    for url in ["lb://orders/path", "LB://orders/path"] {
        over([server.instance("a")]).get(url).send().await.unwrap();
    }
    assert!(server.heads().iter().all(|head| head.starts_with("GET /path ")));
    assert_eq!(server.served(), 2);
}

#[tokio::test]
async fn scl_256_to_257_any_other_address_goes_out_as_it_is() {
    let (listed, other) = (Server::start(ok("")).await, Server::start(ok("")).await);
    let http =
        client(&balancers([listed.instance("a")], Properties::default())).with_transformer(Adds(0, "one"));
    http.get(format!("http://{}/path", other.address)).send().await.unwrap();
    assert_eq!((listed.served(), other.served()), (0, 1));
    assert_eq!(header(&other.heads()[0], "x-chain"), None, "nor is it transformed");
    // The name is known, but the port says that an address is meant.
    let error = http.get("https://orders:1/").send().await.unwrap_err();
    assert!(error.tried().is_empty() && listed.served() == 0, "{error}");
}
