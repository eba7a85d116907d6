//! The pages, over a real connection.

use super::*;
use crate::support::{instance, list};
use evenkeel::LoadBalancers;
use evenkeel::config::Properties;
use evenkeel::debug::axum08::debug_router;
use evenkeel::discovery::SimpleDiscovery;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

struct Server {
    address: std::net::SocketAddr,
    balancers: LoadBalancers,
}

impl Server {
    async fn start() -> Self {
        let blue =
            instance("b").to_builder().with_metadata("hint", "blue").with_metadata("token", "hush").build();
        let registry = SimpleDiscovery::new()
            .with_instances("orders", [instance("a"), blue.unwrap()])
            .and_then(|registry| registry.with_instances("users", list("u")))
            .unwrap();
        let properties = Properties::default()
            .set("configurations", "hint")
            .and_then(|properties| properties.set_for("Billing", "cache.ttl", "5s"))
            .and_then(|properties| properties.set_for("orders", "sticky-session.secret", "hush"))
            .unwrap();
        let balancers = LoadBalancers::from_properties(properties, registry).unwrap();
        balancers.ready(["orders"], Duration::from_secs(5)).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = axum::Router::new().nest("/lb", debug_router(&balancers));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, balancers }
    }

    /// The status, the head and the page.
    async fn ask(&self, method: &str, path: &str) -> (u16, String, Value) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let text = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(!answer.contains("hush"), "{answer}");
        (status, head.to_ascii_lowercase(), serde_json::from_str(body).unwrap_or(Value::Null))
    }

    async fn get(&self, path: &str) -> Value {
        let (status, head, page) = self.ask("GET", path).await;
        assert_eq!(status, 200, "{path}: {page}");
        assert!(
            head.contains("content-type: application/json") && head.contains("cache-control: no-store"),
            "{head}"
        );
        page
    }
}

#[tokio::test]
async fn each_page_says_what_the_method_of_its_name_says() {
    let server = Server::start().await;
    let page = server.get("/lb").await;
    assert_eq!(page["services"][0]["service"], "orders");
    assert_eq!((&page["services"][0]["known"], &page["never-called"][0]), (&2.into(), &"Billing".into()));
    refuse(&server.balancers.get("orders").unwrap(), "a").await;
    let page = server.get("/lb/orders").await;
    assert_eq!((&page["counts"]["skipped"], &page["instances"][0]["state"]), (&1.into(), &"skipped".into()));
    let page = server.get("/lb/ORDERS?offset=1&limit=1").await;
    assert_eq!((page["instances"].as_array().unwrap().len(), &page["before"]), (1, &1.into()));
    let page =
        server.get("/lb/orders/explain?path=/api/42&method=get&header=X-SC-LB-Hint:blue&picks=7").await;
    assert_eq!((&page["request"]["method"], &page["request"]["path"]), (&"GET".into(), &"/api/42".into()));
    assert_eq!((&page["narrowed"][0]["name"], &page["dry-run"]["picks"]), (&"blue".into(), &7.into()));
    assert_eq!(page["answer"]["instance"], "b (b.test:8080)");
    let page = server.get("/lb/orders/explain?hint=green").await;
    assert_eq!(page["narrowed"][0]["decision"], "all");
    let page = server.get("/lb/orders/changes").await;
    let kinds: Vec<_> =
        page["changes"].as_array().unwrap().iter().map(|change| change["kind"].clone()).collect();
    assert_eq!(kinds, ["listed", "skipped"]);
}

#[tokio::test]
async fn an_unknown_service_is_404_and_gets_no_balancer_and_what_cannot_be_read_is_400() {
    let server = Server::start().await;
    for path in
        ["/lb/nobody", "/lb/nobody/explain", "/lb/nobody/changes", "/lb/users", "/lb/a%20b", "/lb/%2e%2e%2f"]
    {
        let (status, _, page) = server.ask("GET", path).await;
        assert_eq!(status, 404, "{path}");
        assert!(page["error"].as_str().unwrap().contains("has no balancer"), "{path}: {page}");
    }
    let (status, _, page) = server.ask("GET", "/lb/billing").await;
    assert!(status == 404 && page["error"].as_str().unwrap().ends_with("and it is configured"), "{page}");
    assert_eq!(server.balancers.services().len(), 1, "nobody is called by being asked for");
    for path in ["/lb/orders?limit=many", "/lb/orders/explain?header=x", "/lb/orders/explain?patj=/"] {
        let (status, _, page) = server.ask("GET", path).await;
        assert!(status == 400 && page["error"].is_string(), "{path}: {status} {page}");
    }
    assert_eq!(server.ask("POST", "/lb/orders").await.0, 405);
    assert_eq!(server.ask("DELETE", "/lb/orders").await.0, 405);
}
