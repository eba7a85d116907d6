//! Names that nobody configured are bounded; what is in use stays.

use std::time::Duration;

use super::*;
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;

fn properties(capacity: u64) -> Properties {
    let named = Properties::default().set_for("named", "cache.ttl", "35s").unwrap();
    named.set("cache.capacity", capacity).unwrap()
}

fn sorted(balancers: &LoadBalancers) -> String {
    let mut names: Vec<String> = balancers.services().iter().map(ToString::to_string).collect();
    names.sort_unstable();
    names.join(" ")
}

fn names(balancers: &LoadBalancers, names: &str) {
    for name in names.split_whitespace() {
        balancers.get(name).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_name_used_longest_ago_goes_and_a_configured_one_never() {
    let balancers = LoadBalancers::builder(Registry::new(Duration::ZERO))
        .properties(properties(3))
        .service("coded", |service| service)
        .build()
        .unwrap();
    names(&balancers, "named coded n1 n2 n3");
    assert_eq!(sorted(&balancers), "coded n1 n2 n3 named", "the capacity counts the others only");
    names(&balancers, "n1 n4");
    assert_eq!(sorted(&balancers), "coded n1 n3 n4 named", "n1 was used again");
    names(&balancers, "n5 n6 n7");
    assert_eq!(sorted(&balancers), "coded n5 n6 n7 named");
}

#[tokio::test(start_paused = true)]
async fn what_goes_is_closed_at_once() {
    let baseline = alive();
    let balancers = LoadBalancers::builder(SimpleDiscovery::new()).properties(properties(2)).build().unwrap();
    for n in 0..20 {
        // Each service has a watch, which is a task.
        balancers.get(format!("n{n}")).unwrap().ready().await.unwrap();
    }
    support::settle().await;
    assert_eq!(alive(), baseline + 2);
    drop(balancers);
    support::settle().await;
    assert_eq!(alive(), baseline);
}

#[tokio::test(start_paused = true)]
async fn one_with_a_call_in_flight_stays_until_it_is_idle() {
    let balancers = LoadBalancers::from_properties(properties(2), Registry::new(Duration::ZERO)).unwrap();
    let lease = call(&balancers, "busy").await;
    names(&balancers, "n1 n2 n3 n4");
    assert_eq!(sorted(&balancers), "busy n3 n4");
    support::advance(1.0).await;
    names(&balancers, "n4");
    assert_eq!(sorted(&balancers), "busy n3 n4");
    drop(lease);
    support::advance(1.0).await;
    // No other name has to come for it to go.
    names(&balancers, "n4");
    assert_eq!(sorted(&balancers), "n3 n4");
}

#[tokio::test(start_paused = true)]
async fn one_with_a_waiter_stays_and_its_look_up_ends_with_it() {
    let balancers = LoadBalancers::from_properties(properties(2), Registry::new(Duration::ZERO)).unwrap();
    let baseline = alive();
    let hung = balancers.get(HUNG).unwrap();
    let waiter = tokio::spawn(async move { hung.choose(&Request::EMPTY).await.map(drop) });
    support::settle().await;
    names(&balancers, "n1 n2 n3");
    assert_eq!(sorted(&balancers), "hung n2 n3");
    assert_eq!(alive(), baseline + 2, "the waiter and the look-up");
    waiter.abort();
    support::settle().await;
    names(&balancers, "n4");
    assert_eq!(sorted(&balancers), "n3 n4");
    support::settle().await;
    assert_eq!(alive(), baseline);
}

#[tokio::test(start_paused = true)]
async fn one_that_was_to_go_and_is_used_again_is_the_youngest() {
    let balancers = LoadBalancers::from_properties(properties(2), Registry::new(Duration::ZERO)).unwrap();
    let lease = call(&balancers, "busy").await;
    names(&balancers, "n1 n2 n3");
    assert_eq!(sorted(&balancers), "busy n2 n3");
    names(&balancers, "busy");
    drop(lease);
    names(&balancers, "n4");
    assert_eq!(sorted(&balancers), "busy n4");
}

#[tokio::test(start_paused = true)]
async fn an_early_eviction_is_warned_of_once() {
    let warned = || logged(&["service=early", "cache.capacity is too small"]);
    assert_eq!(warned(), 0);
    let balancers = LoadBalancers::from_properties(properties(2), Registry::new(Duration::ZERO)).unwrap();
    names(&balancers, "early1 early2");
    support::advance(36.0).await;
    names(&balancers, "early3 early4");
    assert_eq!(warned(), 0, "the first two were older than their TTL");
    names(&balancers, "early5 early6 early7 early8");
    assert_eq!(warned(), 1);
}

#[tokio::test]
async fn a_hundred_thousand_names_fill_nothing() {
    let balancers = LoadBalancers::builder(Registry::new(Duration::ZERO)).build().unwrap();
    let mut most = 0;
    for n in 0_u32..100_000 {
        // Spread over the map as random names would be.
        balancers.get(format!("host-{:x}", n.wrapping_mul(2_654_435_761))).unwrap();
        if n % 1_000 == 0 {
            most = most.max(balancers.services().len());
        }
    }
    assert!((200..=256).contains(&most), "{most}");
    assert_eq!(balancers.services().len(), 256);
}

#[tokio::test]
async fn without_capacity_a_name_lives_as_long_as_it_is_held() {
    let balancers = LoadBalancers::from_properties(properties(0), Registry::new(Duration::ZERO)).unwrap();
    let held = balancers.get("n1").unwrap();
    assert_eq!(support::picks(&held, 3).await.len(), 3);
    assert_eq!(support::pick(&balancers.get("named").unwrap()).await.len(), 1);
    drop(held);
    names(&balancers, "n2");
    assert_eq!(sorted(&balancers), "named");
}
