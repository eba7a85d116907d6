//! Headers that are handed on: a canary over two hops, by every client, with real servers.
#![cfg(all(feature = "reqwest", feature = "tower"))]
#![allow(missing_docs)]

#[allow(dead_code)] // each test crate uses a part
#[path = "reqwest/net.rs"]
mod net;

use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use evenkeel::call::call;
use evenkeel::client::reqwest::middleware::{Balance, Retry};
use evenkeel::client::{Propagated, Propagation, PropagationLayer};
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::supplier::HintStage;
use evenkeel::{LoadBalancer, LoadBalancers, Outcome, Request, ServiceInstance, SupplierBuilder};
use http::{HeaderName, HeaderValue};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioExecutor;
use tower::ServiceExt;

use net::{Server, at, header, ok};

async fn serve(app: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

fn hinted(server: &Server, id: &str, hint: &str) -> ServiceInstance {
    server.instance(id).to_builder().with_metadata("hint", hint).build().unwrap()
}

/// Balancers over `orders`, which has these instances, chosen by hints.
fn balancers(instances: Vec<ServiceInstance>) -> LoadBalancers {
    let properties = Properties::default().set("configurations", "hint").unwrap();
    let registry = SimpleDiscovery::new().with_instances("orders", instances).unwrap();
    LoadBalancers::from_properties(properties, registry).unwrap()
}

/// What both instances of the second service are.
struct Second {
    stable: Server,
    canary: Server,
    balancers: LoadBalancers,
}

async fn second() -> Second {
    let (stable, canary) = (Server::start(ok("stable")).await, Server::start(ok("canary")).await);
    let instances = vec![hinted(&stable, "b-stable", "stable"), hinted(&canary, "b-canary", "canary")];
    let balancers = balancers(instances);
    Second { stable, canary, balancers }
}

#[tokio::test]
async fn a_canary_survives_the_second_hop() {
    let second = second().await;
    let http = second.balancers.reqwest(|_| reqwest::Client::builder()).unwrap();
    // Service A balances to B, and knows nothing of hints.
    let handler = |State(http): State<evenkeel::client::reqwest::Client>| async move {
        http.get("lb://orders/b").send().await.unwrap().text().await.unwrap()
    };
    let a =
        serve(Router::new().route("/a", get(handler)).with_state(http).layer(PropagationLayer::default()))
            .await;
    // And the client balances to A.
    let front = balancers(vec![at(a, "a-1"), at(a, "a-2")]).reqwest(|_| reqwest::Client::builder()).unwrap();
    for _ in 0..5 {
        for hint in ["canary", "stable"] {
            let response = front.get("lb://orders/a").header("X-SC-LB-Hint", hint).send().await.unwrap();
            assert_eq!(response.text().await.unwrap(), hint);
        }
    }
    // B is told of it, so that the third hop knows too.
    assert!(second.canary.heads().iter().all(|head| header(head, "x-sc-lb-hint") == Some("canary")));
    // Requests without a hint get both.
    let before = (second.stable.served(), second.canary.served());
    for _ in 0..4 {
        front.get("lb://orders/a").send().await.unwrap();
    }
    assert_eq!((second.stable.served(), second.canary.served()), (before.0 + 2, before.1 + 2));
    assert!(second.stable.heads().iter().skip(before.0).all(|head| header(head, "x-sc-lb-hint").is_none()));
}

fn canary() -> Propagated {
    let named = HeaderName::from_static("x-sc-lb-hint");
    Propagated::default().with(named, HeaderValue::from_static("canary"))
}

#[tokio::test]
async fn every_client_has_it_before_it_chooses_and_on_the_wire() {
    let second = second().await;
    let reqwest = second.balancers.reqwest(|_| reqwest::Client::builder()).unwrap();
    let hyper = second.balancers.hyper();
    for _ in 0..3 {
        let by_reqwest = canary().scope(reqwest.get("lb://orders/x").send()).await.unwrap();
        assert_eq!(by_reqwest.text().await.unwrap(), "canary");
        let request = http::Request::get("lb://orders/x").body(Empty::<&[u8]>::new()).unwrap();
        let by_hyper = canary().scope(hyper.request(request)).await.unwrap();
        assert_eq!(by_hyper.into_body().collect().await.unwrap().to_bytes(), "canary");
    }
    let plain = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build_http();
    let layered = tower::ServiceBuilder::new().layer(second.balancers.balance_layer()).service(plain);
    for _ in 0..3 {
        let request = http::Request::get("lb://orders/x").body(Empty::<&[u8]>::new()).unwrap();
        let by_layer = canary().scope(layered.clone().oneshot(request)).await.unwrap();
        assert_eq!(by_layer.into_body().collect().await.unwrap().to_bytes(), "canary");
    }
    let finished = || reqwest_middleware::ClientBuilder::new(reqwest::Client::new());
    for middleware in [
        finished().with(Balance::new(&second.balancers)).build(),
        finished().with(Retry::new(&second.balancers)).with(Balance::new(&second.balancers)).build(),
    ] {
        for _ in 0..3 {
            let by_middleware = canary().scope(middleware.get("lb://orders/x").send()).await.unwrap();
            assert_eq!(by_middleware.text().await.unwrap(), "canary");
        }
    }
    assert!(second.canary.heads().iter().all(|head| header(head, "x-sc-lb-hint") == Some("canary")));
    assert_eq!((second.canary.served(), second.stable.served()), (15, 0));
    // A request that says so itself is believed.
    let own =
        canary().scope(reqwest.get("lb://orders/x").header("x-sc-lb-hint", "stable").send()).await.unwrap();
    assert_eq!(own.text().await.unwrap(), "stable");
    let heads = second.stable.heads();
    assert_eq!(header(&heads[0], "x-sc-lb-hint"), Some("stable"));
    assert_eq!(heads[0].to_ascii_lowercase().matches("x-sc-lb-hint").count(), 1);
}

#[tokio::test]
async fn calls_by_a_closure_have_it_too() {
    let list = |hint: &str| {
        ServiceInstance::builder(format!("{hint}.test")).port(80).with_metadata("hint", hint).build()
    };
    let discovery = SimpleDiscovery::new()
        .with_instances("orders", [list("stable").unwrap(), list("canary").unwrap()])
        .unwrap();
    let supplier = SupplierBuilder::new("orders")
        .with_discovery_client(discovery)
        .with_request_stage(HintStage::default());
    let orders = LoadBalancer::builder(supplier.build().unwrap()).build();
    let hosts = async || {
        let mut hosts = Vec::new();
        for _ in 0..4 {
            let classify = |_: Result<&String, &std::io::Error>| Outcome::Success;
            let send = |choice: &evenkeel::Choice, _: u32| {
                let host = choice.instance().host().to_owned();
                Some(async move { Ok(host) })
            };
            hosts.push(call(&orders, &Request::EMPTY, classify, send).await.unwrap().response);
        }
        hosts.sort();
        hosts
    };
    assert_eq!(canary().scope(hosts()).await, ["canary.test"; 4]);
    assert_eq!(hosts().await, ["canary.test", "canary.test", "stable.test", "stable.test"]);
}

#[tokio::test]
async fn what_is_not_named_is_not_handed_on_and_hosts_that_are_not_balanced_get_nothing() {
    let (inner, outside) = (Server::start(ok("inner")).await, Server::start(ok("outside")).await);
    let http =
        balancers(vec![inner.instance("a")]).reqwest(|_| reqwest::Client::builder().no_proxy()).unwrap();
    let url = format!("http://{}/x", outside.address);
    let handler = |State((http, url)): State<(evenkeel::client::reqwest::Client, String)>| async move {
        http.get("lb://orders/x").send().await.unwrap();
        let spawned = http.get("lb://orders/spawned");
        tokio::spawn(spawned.send()).await.unwrap().unwrap();
        let carried = http.get("lb://orders/carried");
        tokio::spawn(Propagated::current().scope(carried.send())).await.unwrap().unwrap();
        if std::env::vars().all(|(name, _)| !name.eq_ignore_ascii_case("http_proxy")) {
            http.get(url).send().await.unwrap();
        }
        "done"
    };
    let rules = Propagation::default().with_header(HeaderName::from_static("x-tenant"));
    let app =
        Router::new().route("/a", get(handler)).with_state((http, url)).layer(PropagationLayer::new(rules));
    let a = serve(app).await;
    let plain = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = plain.get(format!("http://{a}/a")).header("x-tenant", "acme").header("x-canary", "yes");
    let request = request.header("authorization", "secret").header("cookie", "a=b").header("x-other", "1");
    assert_eq!(request.send().await.unwrap().text().await.unwrap(), "done");
    let heads = inner.heads();
    for (head, has) in heads.iter().zip([true, false, true]) {
        assert_eq!(header(head, "x-tenant").is_some() && header(head, "x-canary").is_some(), has, "{head}");
        for name in ["authorization", "cookie", "x-other"] {
            assert_eq!(header(head, name), None, "{head}");
        }
    }
    assert_eq!(heads.len(), 3);
    assert!(outside.heads().iter().all(|head| header(head, "x-tenant").is_none()));
}
