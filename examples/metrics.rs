//! What a scrape would read: calls over two servers on loopback, one of which is killed.
//!
//! `cargo run --example metrics` - prints Prometheus' text and ends by itself.

mod support;

use std::time::Duration;

use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::{LoadBalancers, ServiceId, ServiceInstance};
use metrics_exporter_prometheus::PrometheusBuilder;
use support::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // First of all: what is measured before goes nowhere. With `recommended_naming` units and `_total` are in the names; an
    // application's exporter would also get an `idle_timeout`, of five minutes or more.
    let exporter = PrometheusBuilder::new().with_recommended_naming(true).install_recorder()?;

    let (north, south) = (Server::start("north").await?, Server::start("south").await?);
    let instance = |server: &Server, zone| {
        ServiceInstance::builder("127.0.0.1").port(server.address.port()).id(&*server.name).zone(zone).build()
    };
    let registry = SimpleDiscovery::new();
    registry.set(&ServiceId::new("orders")?, [instance(&north, "eu-1a")?, instance(&south, "eu-1b")?]);
    let properties = Properties::default().set("stats.enabled", true)?.set("zone", "eu-1a")?;
    let balancers = LoadBalancers::from_properties(properties, registry)?;
    let http = balancers.reqwest(|_instance| reqwest::Client::builder())?;

    let call = async |n: u32| -> Result<(), Box<dyn std::error::Error>> {
        let url = format!("lb://orders/api/{n}");
        http.get(&url).template("/api/{id}").send().await?.text().await?;
        Ok(())
    };
    for n in 0..100 {
        call(n).await?;
    }
    south.kill();
    for n in 100..110 {
        call(n).await?;
    }

    // Before each scrape; or `tokio::spawn(balancers.collector().run(Duration::from_secs(5)))` once.
    balancers.collector().publish();
    print!("{}", exporter.render());
    balancers.drain(Duration::from_secs(1)).await;
    Ok(())
}
