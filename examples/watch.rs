//! The stream of lists by itself, without a balancer: what a connection pool or a dashboard follows.
//!
//! `cargo run --example watch`

use evenkeel::discovery::SimpleDiscovery;
use evenkeel::{ServiceId, ServiceInstance, ServiceInstanceListSupplier, Status, SupplierBuilder};
use futures_util::StreamExt;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let orders = ServiceId::new("orders")?;
    let registry = SimpleDiscovery::new();
    let supplier = SupplierBuilder::new(&orders).with_discovery_client(registry.clone()).build()?;
    let mut lists = supplier.get();

    let one = ServiceInstance::new("10.0.0.1", 8080)?;
    let two = ServiceInstance::new("10.0.0.2", 8080)?;
    let draining = two.to_builder().status(Status::Draining).build()?;
    for (what, list) in [
        ("one instance registers", vec![one.clone()]),
        ("another one registers", vec![one.clone(), two]),
        ("the other one is about to leave", vec![one.clone(), draining]),
        ("it is gone; the list of usable instances is the same", vec![one]),
    ] {
        registry.set(&orders, list);
        println!("{what}");
        // The last change changes nothing for a caller, so there is no item.
        match tokio::time::timeout(std::time::Duration::from_millis(200), lists.next()).await {
            Ok(Some(list)) => {
                let usable: Vec<_> = list?.iter().map(ToString::to_string).collect();
                println!("  usable: {}", usable.join(", "));
            }
            Ok(None) => break,
            Err(_) => println!("  no change"),
        }
    }
    Ok(())
}
