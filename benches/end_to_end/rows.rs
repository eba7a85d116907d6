//! The rows: each client with evenkeel and without.

use std::net::SocketAddr;

use bytes::Bytes;
use evenkeel::client::tonic::BalancedChannel;
use evenkeel::client::tower::{Balance, HyperClient};
use evenkeel::{LoadBalancers, ServiceInstance};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower::{Layer, Service};

use crate::pairs::{Bars, Client, Table};
use crate::servers::Servers;

/// What is asked for, and by whom.
const PATH: &str = "/api/orders/42";
const LOGICAL: &str = "lb://orders/api/orders/42";

/// Balancers that know the servers as the instances of `orders`.
fn balancers(addresses: &[SocketAddr]) -> LoadBalancers {
    let instance = |address: &SocketAddr| {
        ServiceInstance::new(address.ip().to_string(), address.port()).expect("an instance")
    };
    let list: Vec<_> = addresses.iter().map(instance).collect();
    LoadBalancers::fixed([("orders", list)]).expect("balancers")
}

/// The servers that are called: the one that is called without evenkeel, so that both sides have the same connections and what
/// differs is what evenkeel does; and all three of them, which is more connections with less to do each.
const ONE: usize = 1;
const THREE: usize = 3;

/// A GET and its body.
pub fn reqwest(table: &mut Table) {
    let servers = Servers::start("http");
    let bare = || Plain {
        client: reqwest::Client::builder().build().expect("a client"),
        url: format!("http://{}{PATH}", servers.addresses[0]),
    };
    let ours = |instances: usize| {
        let balancers = balancers(&servers.addresses[..instances]);
        Balanced(balancers.reqwest(|_| reqwest::Client::builder()).expect("a client"))
    };
    let bars = Bars { rate: 0.95, p99: Some(1.2), allocations: None };
    table.row("reqwest / bare reqwest", Some(bars), bare, || ours(ONE));
    table.row("reqwest, 3 instances / bare reqwest", None, bare, || ours(THREE));
}

struct Plain {
    client: reqwest::Client,
    url: String,
}

impl Client for Plain {
    async fn call(&self) -> bool {
        match self.client.get(&self.url).send().await {
            Ok(response) => response.bytes().await.is_ok_and(|body| !body.is_empty()),
            Err(_) => false,
        }
    }
}

struct Balanced(evenkeel::client::reqwest::Client);

impl Client for Balanced {
    async fn call(&self) -> bool {
        match self.0.get(LOGICAL).send().await {
            Ok(response) => response.bytes().await.is_ok_and(|body| !body.is_empty()),
            Err(_) => false,
        }
    }
}

/// A GET and its body: by a layer over a client of hyper, which tells its instance or does not; and by the client of hyper over
/// balancers, which repeats calls too.
pub fn tower(table: &mut Table) {
    let servers = Servers::start("http");
    let url = format!("http://{}{PATH}", servers.addresses[0]);
    let layered = |instances: usize, via: bool| {
        let layer = balancers(&servers.addresses[..instances]).balance_layer().via(via);
        Layered {
            service: layer.layer(legacy::Client::builder(TokioExecutor::new()).build_http()),
            url: logical(),
        }
    };
    let bare = || Bare::to(&url);
    let bars = |allocations| Some(Bars { rate: 0.97, p99: None, allocations: Some(allocations) });
    table.row("tower layer / bare hyper client", bars(1.0), bare, || layered(ONE, false));
    table.row("tower layer that tells / bare hyper client", bars(4.0), bare, || layered(ONE, true));
    table.row("tower layer, 3 instances / bare hyper client", None, bare, || layered(THREE, false));
    let ours = || Hyper { client: balancers(&servers.addresses[..ONE]).hyper(), url: logical() };
    table.row("hyper client / bare hyper client", None, bare, ours);
}

fn logical() -> http::Uri {
    LOGICAL.parse().expect("a URI")
}

struct Bare {
    client: legacy::Client<HttpConnector, Empty<Bytes>>,
    url: http::Uri,
}

impl Bare {
    fn to(url: &str) -> Self {
        let client = legacy::Client::builder(TokioExecutor::new()).build_http();
        Self { client, url: url.parse().expect("a URI") }
    }
}

impl Client for Bare {
    async fn call(&self) -> bool {
        let request = http::Request::get(self.url.clone()).body(Empty::new()).expect("a request");
        match self.client.request(request).await {
            Ok(response) => {
                let well = response.status().is_success();
                well && response.into_body().collect().await.is_ok()
            }
            Err(_) => false,
        }
    }
}

struct Layered {
    service: Balance<legacy::Client<HttpConnector, Empty<Bytes>>>,
    url: http::Uri,
}

impl Client for Layered {
    async fn call(&self) -> bool {
        let request = http::Request::get(self.url.clone()).body(Empty::new()).expect("a request");
        match self.service.clone().call(request).await {
            Ok(response) => {
                let well = response.status().is_success();
                well && response.into_body().collect().await.is_ok()
            }
            Err(_) => false,
        }
    }
}

struct Hyper {
    client: HyperClient<Empty<Bytes>>,
    url: http::Uri,
}

impl Client for Hyper {
    async fn call(&self) -> bool {
        let request = http::Request::get(self.url.clone()).body(Empty::new()).expect("a request");
        match self.client.request(request).await {
            Ok(response) => {
                let well = response.status().is_success();
                well && response.into_body().collect().await.is_ok()
            }
            Err(_) => false,
        }
    }
}

/// A unary call of gRPC; beside it, tonic's own balancing over the same servers.
pub fn tonic(table: &mut Table) {
    let servers = Servers::start("grpc");
    let endpoint =
        |address: &SocketAddr| Endpoint::from_shared(format!("http://{address}")).expect("an endpoint");
    let bare = || Grpc(endpoint(&servers.addresses[0]).connect_lazy());
    let ours = |instances: usize| BalancedGrpc(balancers(&servers.addresses[..instances]).tonic("orders"));
    let own =
        |instances: usize| Grpc(Channel::balance_list(servers.addresses[..instances].iter().map(endpoint)));
    let bars = Bars { rate: 0.95, p99: None, allocations: None };
    table.row("tonic / one bare channel", Some(bars), bare, || ours(ONE));
    table.row("tonic's balance_list / one bare channel", None, bare, || own(ONE));
    table.row("tonic, 3 instances / one bare channel", None, bare, || ours(THREE));
    table.row("balance_list, 3 instances / one bare channel", None, bare, || own(THREE));
}

struct Grpc(Channel);

impl Client for Grpc {
    async fn call(&self) -> bool {
        HealthClient::new(self.0.clone()).check(HealthCheckRequest::default()).await.is_ok()
    }
}

struct BalancedGrpc(BalancedChannel);

impl Client for BalancedGrpc {
    async fn call(&self) -> bool {
        HealthClient::new(self.0.clone()).check(HealthCheckRequest::default()).await.is_ok()
    }
}

/// Two proxies in a process, called by the same client: one of hyper and nothing else, and the gateway, before the same server.
pub fn gateway(table: &mut Table) {
    let servers = Servers::start("http");
    let proxies = Servers::start(&format!("proxies {}", servers.addresses[0]));
    let url = |at: usize| format!("http://{}{PATH}", proxies.addresses[at]);
    let bars = Bars { rate: 0.92, p99: None, allocations: None };
    table.row("gateway / bare proxy of hyper", Some(bars), || Bare::to(&url(0)), || Bare::to(&url(1)));
}
