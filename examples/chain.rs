//! The first chain, in code: zone preference, weights, caching and round robin over a registry in code.
//!
//! `cargo run --example chain`

use evenkeel::config::CacheProperties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::policy::RoundRobin;
use evenkeel::{LoadBalancer, Outcome, Request, ServiceInstance, SupplierBuilder};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let here =
        ServiceInstance::builder("10.0.0.1").port(8080).zone("eu-1a").with_metadata("weight", "3").build()?;
    let also = ServiceInstance::builder("10.0.0.2").port(8080).zone("eu-1a").build()?;
    let far = ServiceInstance::builder("10.1.0.1").port(8080).zone("eu-1b").build()?;

    let supplier = SupplierBuilder::new("orders")
        .with_discovery_client(SimpleDiscovery::new().with_instances("orders", [here, also, far])?)
        .with_zone_preference("eu-1a")
        .with_weights()
        .with_caching(CacheProperties::default()) // 35 s, refreshed behind the callers
        .build()?;
    let orders = LoadBalancer::builder(supplier).policy(RoundRobin::default()).build();

    for _ in 0..8 {
        let choice = orders.choose(&Request::EMPTY).await?;
        println!("{}", choice.url("/api/42")?);
        choice.complete(Outcome::Status(200)); // the lease ends; a dropped one counts as cancelled
    }
    Ok(())
}
