//! The own fleet: looked up once for all, while somebody calls, and kept while the registry fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use evenkeel::config::{Properties, ZoneMode};
use evenkeel::discovery::{DiscoveryClient, SupplyError};
use evenkeel::policy::RoundRobin;
use evenkeel::supplier::{OwnFleet, ZoneOff, ZonePreference};
use evenkeel::{LoadBalancer, LoadBalancers, ServiceId, ServiceInstance, SupplierBuilder, async_trait};

use super::zones::zoned;
use crate::support::*;

/// A registry with a fleet `me`, that counts who asks for it.
#[derive(Clone, Debug, Default)]
struct Registry {
    asked: Arc<AtomicUsize>,
    fails: Arc<AtomicBool>,
    moved: Arc<AtomicBool>,
}

impl Registry {
    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl DiscoveryClient for Registry {
    fn name(&self) -> &str {
        "fake"
    }
    async fn instances(&self, service: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError> {
        if service.as_str() != "me" {
            return Ok(zoned(&[10, 10, 10]));
        }
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.fails.load(Ordering::SeqCst) {
            return Err(refused());
        }
        let moved = self.moved.load(Ordering::SeqCst);
        let at = |n: usize| {
            let zone = if n >= 30 {
                "c"
            } else if n >= 20 || moved && n >= 10 {
                "b"
            } else {
                "a"
            };
            ServiceInstance::builder(format!("10.1.0.{n}"))
                .port(80)
                .id(format!("me{n}"))
                .zone(zone)
                .build()
                .unwrap()
        };
        Ok((0..40).map(at).collect())
    }
    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        Ok(Vec::new())
    }
}

fn proportional(chain: SupplierBuilder) -> SupplierBuilder {
    chain.with_zone_preference(ZonePreference::new("a").with_mode(ZoneMode::Proportional))
}

fn reason(lb: &LoadBalancer) -> Option<ZoneOff> {
    lb.snapshot().unwrap().distribution().unwrap().zones_off().cloned()
}

async fn local(lb: &LoadBalancer) -> usize {
    picks(lb, 600).await.iter().filter(|id| id.starts_with('a')).count()
}

#[tokio::test(start_paused = true)]
async fn lbs_the_fleet_is_looked_up_while_somebody_calls_and_no_longer() {
    let registry = Registry::default();
    let lb = over(proportional(chain(registry.clone()).with_own_service_id("me")), RoundRobin::default());
    settle().await;
    assert_eq!(registry.asked(), 0, "nobody has called");
    pick(&lb).await;
    settle().await;
    assert_eq!((registry.asked(), reason(&lb), local(&lb).await), (1, None, 400));
    // A caller a second: a look-up each TTL.
    for _ in 0..350 {
        advance(1.0).await;
        pick(&lb).await;
    }
    let asked = registry.asked();
    assert!((9..=12).contains(&asked), "{asked}");
    // Ten minutes after the last call nothing looks any more; whoever calls then has it started again.
    advance(700.0).await;
    let rested = registry.asked();
    advance(3_000.0).await;
    assert_eq!(registry.asked(), rested);
    pick(&lb).await;
    settle().await;
    advance(1.0).await;
    assert_eq!(registry.asked(), rested + 1);
    assert_eq!(local(&lb).await, 400);
}

#[tokio::test(start_paused = true)]
async fn lbs_the_last_fleet_stands_while_the_registry_fails_and_a_new_one_is_followed() {
    let registry = Registry::default();
    registry.fails.store(true, Ordering::SeqCst);
    let lb = over(proportional(chain(registry.clone()).with_own_service_id("me")), RoundRobin::default());
    pick(&lb).await;
    settle().await;
    let why = reason(&lb).unwrap();
    assert!(matches!(&why, ZoneOff::OwnFleetUnknown(why) if why.contains("refused")), "{why}");
    assert_eq!(local(&lb).await, 200, "as if there were no zones");
    registry.fails.store(false, Ordering::SeqCst);
    advance(10.0).await;
    assert_eq!((reason(&lb), local(&lb).await), (None, 400));
    registry.fails.store(true, Ordering::SeqCst);
    for _ in 0..20 {
        advance(10.0).await;
        pick(&lb).await;
    }
    assert_eq!((reason(&lb), local(&lb).await), (None, 400));
    registry.fails.store(false, Ordering::SeqCst);
    registry.moved.store(true, Ordering::SeqCst);
    for _ in 0..20 {
        advance(10.0).await;
        pick(&lb).await;
    }
    assert_eq!(local(&lb).await, 600, "a quarter of the clients, and a third of the instances");
}

#[tokio::test(start_paused = true)]
async fn lbs_all_services_of_a_set_share_one_fleet_and_it_ends_with_them() {
    let registry = Registry::default();
    let mut properties = Properties::default();
    for (key, value) in [
        ("configurations", "zone-preference"),
        ("zone-preference.mode", "proportional"),
        ("zone", "a"),
        ("own-service-id", "me"),
    ] {
        properties = properties.set(key, value).unwrap();
    }
    let balancers = LoadBalancers::from_properties(properties, registry.clone()).unwrap();
    for name in ["orders", "users", "billing"] {
        let lb = balancers.get(name).unwrap();
        pick(&lb).await;
        settle().await;
        assert_eq!((reason(&lb), local(&lb).await), (None, 400), "{name}");
    }
    assert_eq!(registry.asked(), 1);
    balancers.shutdown().await;
    let asked = registry.asked();
    advance(1_000.0).await;
    assert_eq!(registry.asked(), asked);
}

#[tokio::test(start_paused = true)]
async fn lbs_the_own_zone_is_that_of_the_own_address() {
    for (address, local_picks) in [("10.1.0.5", Some(400)), ("10.1.0.25", Some(0)), ("10.9.9.9", None)] {
        let zone = ZonePreference::proportional().with_local_addresses([address.parse().unwrap()]);
        let chain = chain(Registry::default()).with_own_service_id("me").with_zone_preference(zone);
        let lb = over(chain, RoundRobin::default());
        pick(&lb).await;
        settle().await;
        match local_picks {
            Some(picks) => assert_eq!((reason(&lb), local(&lb).await), (None, picks), "{address}"),
            None => assert_eq!(reason(&lb), Some(ZoneOff::OwnZoneUnknown)),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lbs_a_fleet_of_ones_own_making() {
    let supplier = SupplierBuilder::new("me").with_instances(zoned(&[20, 10, 10])).build().unwrap();
    let fleet = OwnFleet::supplied(supplier);
    assert_eq!((fleet.clients(), fleet.service_id().unwrap().as_str()), (None, "me"));
    let lb =
        over(proportional(chain(Registry::default())).with_own_fleet(fleet.clone()), RoundRobin::default());
    pick(&lb).await;
    settle().await;
    assert_eq!(local(&lb).await, 400);
    let of = |zone: &str, count| (zone.to_owned(), count);
    assert_eq!(fleet.clients(), Some(vec![of("a", 20), of("b", 10), of("c", 10)]));
    assert!(OwnFleet::looked_up("no/name", Arc::new(Registry::default())).is_err());
}
