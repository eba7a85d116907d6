//! 3.4 Zone preference: cases 40 to 47.

use evenkeel::config::{LiveProperties, Properties};
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::policy::RoundRobin;
use evenkeel::{LoadBalancers, Request, ServiceInstance, ServiceInstanceListSupplier, SupplierBuilder};
use futures_util::StreamExt;

use crate::support::*;

/// 1 and 2 in zone1, 3 in zone2, 4 in zone3, 5 without one; 2 is what a request of the hint "with" does not see.
fn five() -> Vec<ServiceInstance> {
    let of = |id: &str, zone: Option<&str>, hint: &str| {
        let builder = instance(id).to_builder().with_metadata("hint", hint);
        match zone {
            Some(zone) => builder.with_metadata("zone", zone).build().unwrap(),
            None => builder.build().unwrap(),
        }
    };
    vec![
        of("1", Some("zone1"), "with"),
        of("2", Some("zone1"), "without"),
        of("3", Some("zone2"), "with"),
        of("4", Some("zone3"), "with"),
        of("5", None, "with"),
    ]
}

/// The ids that the chain leaves of a list, in order.
async fn left(zone: &str, instances: Vec<ServiceInstance>) -> String {
    let base = evenkeel::supplier::FixedSupplier::new(orders(), instances);
    let chain = SupplierBuilder::new("orders").with_base(base).with_zone_preference(zone).build().unwrap();
    let list = chain.get().next().await.unwrap().unwrap();
    list.iter().map(ServiceInstance::id).collect::<Vec<_>>().join(" ")
}

#[tokio::test(start_paused = true)]
async fn scl_040_only_the_instances_of_the_own_zone() {
    assert_eq!(left("zone1", five()).await, "1 2");
    let lb = fixed(five(), |chain| chain.with_zone_preference("zone1"), RoundRobin::starting_at(-1));
    assert_eq!(picks(&lb, 4).await.concat(), "1212");
}

#[tokio::test(start_paused = true)]
async fn scl_041_the_zone_holds_inside_what_the_request_asks_for() {
    let shape = |chain: SupplierBuilder| chain.with_zone_preference("zone1").with_hints();
    let lb = fixed(five(), shape, RoundRobin::default());
    for _ in 0..5 {
        assert_eq!(pick_for(&lb, &Request::EMPTY.with_hint("with")).await, "1");
    }
}

#[tokio::test(start_paused = true)]
async fn scl_042_without_an_instance_in_the_own_zone_all_are_used() {
    assert_eq!(left("zone1", with("zone", "3=zone2 4=zone3")).await, "3 4");
}

#[tokio::test(start_paused = true)]
async fn scl_043_an_instance_without_metadata_is_no_failure() {
    assert_eq!(left("zone1", list("1")).await, "1");
}

#[tokio::test(start_paused = true)]
async fn scl_044_without_an_own_zone_all_are_used() {
    assert_eq!(left("", five()).await, "1 2 3 4 5");
    let properties = Properties::default().set("configurations", "zone-preference").unwrap();
    let registry = SimpleDiscovery::new().with_instances("orders", five()).unwrap();
    let balancers = LoadBalancers::from_properties(properties, registry).unwrap();
    even(&picks(&balancers.get("orders").unwrap(), 10).await, "1 2 3 4 5", 2, 0);
}

#[tokio::test(start_paused = true)]
async fn scl_045_zones_are_compared_without_case() {
    assert_eq!(left("ZONE1", five()).await, "1 2");
}

#[tokio::test(start_paused = true)]
async fn scl_046_a_zone_that_is_changed_later_is_in_force_at_once() {
    let of = |zone: &str| {
        let properties = Properties::default().set("configurations", "zone-preference");
        properties.and_then(|properties| properties.set("zone", zone)).unwrap()
    };
    let live = LiveProperties::new(of("zone1"));
    let registry = SimpleDiscovery::new().with_instances("orders", five()).unwrap();
    let balancers = LoadBalancers::builder(registry).live(live.clone()).build().unwrap();
    let lb = balancers.get("orders").unwrap();
    even(&picks(&lb, 10).await, "1 2", 5, 0);
    live.replace(of("zone2"));
    settle().await;
    assert_eq!(picks(&lb, 5).await.concat(), "33333");
}

#[tokio::test(start_paused = true)]
async fn scl_047_an_empty_list_stays_empty() {
    assert_eq!(left("zone1", Vec::new()).await, "");
}
