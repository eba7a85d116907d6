//! The rows: each client with evenkeel and without.

use evenkeel::{LoadBalancers, ServiceInstance};

use crate::pairs::{Bars, Client, Table};
use crate::servers::Servers;

/// Balancers that know the servers as the instances of `orders`.
fn balancers(servers: &Servers) -> LoadBalancers {
    let instance = |address: &std::net::SocketAddr| {
        ServiceInstance::new(address.ip().to_string(), address.port()).expect("an instance")
    };
    let list: Vec<_> = servers.addresses.iter().map(instance).collect();
    LoadBalancers::fixed([("orders", list)]).expect("balancers")
}

/// reqwest: a GET and its body.
pub fn reqwest(table: &mut Table) {
    let servers = Servers::start("http");
    let bars = Bars { rate: 0.95, p99: Some(1.2), allocations: None };
    let bare = || Plain {
        client: reqwest::Client::builder().build().expect("a client"),
        url: format!("http://{}/api/orders/42", servers.addresses[0]),
    };
    let ours = || Balanced(balancers(&servers).reqwest(|_| reqwest::Client::builder()).expect("a client"));
    table.row("reqwest / bare reqwest", Some(bars), bare, ours);
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
        match self.0.get("lb://orders/api/orders/42").send().await {
            Ok(response) => response.bytes().await.is_ok_and(|body| !body.is_empty()),
            Err(_) => false,
        }
    }
}
