//! The first chain, from configuration: properties with Spring's names, per-service overrides, and what they come to.
//!
//! `cargo run --example config`

use std::time::Duration;

use evenkeel::config::{Format, Properties};
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::{LoadBalancers, Outcome, Request, ServiceInstance};

const APPLICATION: &str = "\
spring.cloud.loadbalancer:
  configurations: zone-preference
  zone: eu-1a
  cache.ttl: 35s
  clients:
    billing:
      cache.ttl: 5s
      policy: least-request
";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // An application reads a file and the environment: Properties::load("application.yml").
    let properties = Properties::parse(APPLICATION, Format::Yaml, "application.yml")?;

    let at = |host: &str, zone: &str| ServiceInstance::builder(host).port(8080).zone(zone).build();
    let registry = SimpleDiscovery::new()
        .with_instances("orders", [at("10.0.0.1", "eu-1a")?, at("10.1.0.1", "eu-1b")?])?
        .with_instances("billing", [at("10.0.0.7", "eu-1a")?, at("10.0.0.8", "eu-1a")?])?;

    let balancers = LoadBalancers::from_properties(properties, registry)?;
    balancers.ready(["orders", "billing"], Duration::from_secs(5)).await?;

    for service in ["orders", "billing"] {
        let balancer = balancers.get(service)?;
        let effective = balancers.properties(balancer.service_id());
        println!(
            "{service}: policy {}, cache {:?}, zone {:?}",
            effective.policy, effective.cache.ttl, effective.zone
        );
        for _ in 0..4 {
            let choice = balancer.choose(&Request::EMPTY).await?;
            println!("  {}", choice.url("/")?);
            choice.complete(Outcome::Success);
        }
    }
    balancers.shutdown().await;
    Ok(())
}
