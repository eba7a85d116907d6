//! Health checks by `grpc.health.v1`.

use std::time::Duration;

use super::net::*;
use evenkeel::client::tonic::GrpcProbe;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::health::{HealthCheck, HealthProbe};
use evenkeel::{LoadBalancer, SupplierBuilder};
use tonic_health::ServingStatus;

#[tokio::test]
async fn an_instance_that_is_not_serving_is_down_and_back_when_it_is() {
    let (a, b) = (Server::start("a", Act::Answer).await, Server::start("b", Act::Answer).await);
    let registry = SimpleDiscovery::new().with_instances("orders", [a.instance(), b.instance()]).unwrap();
    let check = HealthCheck::new(GrpcProbe::new()).with_interval(Duration::from_secs(1));
    let chain = SupplierBuilder::new("orders").with_discovery_client(registry).with_health_checks(check);
    let balancer = LoadBalancer::builder(chain.build().unwrap()).build();
    let mut client = EchoClient::new(balancer.tonic());
    client.say(word("x")).await.unwrap();
    let listed = |id: &str| {
        balancer.snapshot().is_some_and(|list| list.instances().any(|state| state.instance().id() == id))
    };
    a.health.set_service_status("", ServingStatus::NotServing).await;
    eventually("a goes", || !listed("a")).await;
    let before = a.served();
    for _ in 0..10 {
        assert_eq!(via(&client.say(word("x")).await.unwrap()).0, "b");
    }
    assert_eq!(a.served(), before);
    a.health.set_service_status("", ServingStatus::Serving).await;
    eventually("a is back", || listed("a")).await;
    for _ in 0..4 {
        client.say(word("x")).await.unwrap();
    }
    assert_eq!(a.served(), before + 2);
}

#[test]
fn a_probe_goes_on_when_the_runtime_of_its_connection_is_gone() {
    let start =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let servers = start();
    let server = servers.block_on(Server::start("a", Act::Answer));
    let probe = GrpcProbe::new();
    for _ in 0..3 {
        let runtime = start();
        runtime.block_on(probe.check(&server.instance())).unwrap();
        drop(runtime);
    }
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn a_probe_asks_for_one_service_and_says_what_is_wrong() {
    let server = Server::start("a", Act::Answer).await;
    server.health.set_service_status("shop.Orders", ServingStatus::Serving).await;
    let dead = Refusing::new();
    let probe = GrpcProbe::new().with_service("shop.Orders");
    probe.check(&server.instance()).await.unwrap();
    probe.check(&server.instance()).await.unwrap();
    assert_eq!(server.connections(), 1, "the connection is kept");
    server.health.set_service_status("shop.Orders", ServingStatus::NotServing).await;
    assert_eq!(probe.check(&server.instance()).await.unwrap_err().to_string(), "NOT_SERVING");
    let unknown = GrpcProbe::new().with_service("shop.Users").check(&server.instance()).await.unwrap_err();
    assert_eq!(unknown.to_string(), "service \"shop.Users\" is unknown to it");
    let refused = probe.check(&dead.instance("d")).await.unwrap_err().to_string();
    assert!(refused.starts_with("Unavailable: ") && refused.contains("refused"), "{refused}");
    let elsewhere = GrpcProbe::new().with_port(server.address.port());
    elsewhere.check(&dead.instance("d")).await.unwrap();
}
