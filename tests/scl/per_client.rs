//! 3.16 Per-client properties and contexts: cases 189 to 198.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::config::{Format, LoadBalancerProperties, Properties, StageName};
use evenkeel::discovery::{DiscoveryClient, SimpleDiscovery, SupplyError};
use evenkeel::policy::LeastRequest;
use evenkeel::{ChooseErrorKind, LoadBalancers, Request, ServiceId, ServiceInstance, async_trait};

use crate::support::*;

/// A way to look at one switch.
type Switch = (&'static str, fn(&LoadBalancerProperties) -> bool);

/// Switches of every part of the tree. Those that Spring asks for by name, as "true for the client, or by default", are
/// among them.
const SWITCHES: [Switch; 6] = [
    ("retry.enabled", |properties| properties.retry.enabled),
    ("retry.avoid-previous-instance", |properties| properties.retry.avoid_previous_instance),
    ("retry.retry-on-all-operations", |properties| properties.retry.retry_on_all_operations),
    ("x-forwarded.enabled", |properties| properties.x_forwarded.enabled),
    ("cache.enabled", |properties| properties.cache.enabled),
    ("health-check.repeat-health-check", |properties| properties.health_check.repeat_health_check),
];

fn yaml(text: &str) -> Properties {
    Properties::parse(text, Format::Yaml, "application.yml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The values of `orders`, with these set for all and for it.
fn of_orders(name: &str, global: Option<&str>, client: Option<&str>) -> LoadBalancerProperties {
    let mut text = String::from("other: 1\n");
    for (prefix, value) in [("", global), ("clients.orders.", client)] {
        if let Some(value) = value {
            text.push_str(&format!("spring.cloud.loadbalancer.{prefix}{name}: {value}\n"));
        }
    }
    yaml(&text).effective("orders")
}

#[test]
fn scl_189_a_client_may_say_true_where_all_say_false() {
    for (name, value) in SWITCHES {
        assert!(value(&of_orders(name, Some("false"), Some("true"))), "{name}");
    }
}

#[test]
fn scl_190_a_client_that_says_nothing_gets_what_holds_for_all() {
    for (name, value) in SWITCHES {
        assert!(value(&of_orders(name, Some("true"), None)), "{name}");
        assert!(!value(&of_orders(name, Some("false"), None)), "{name}");
    }
}

#[test]
fn scl_191_a_value_of_a_client_wins_and_the_one_of_all_is_used_without_it() {
    let stages = |global, client| of_orders("configurations", global, client).configurations;
    assert_eq!(stages(Some("zone-preference"), Some("weighted")), [StageName::Weighted]);
    assert_eq!(stages(Some("zone-preference"), None), [StageName::ZonePreference]);
    assert_eq!(stages(None, Some("weighted")), [StageName::Weighted]);
    assert_eq!(stages(None, None), [StageName::Default]);
}

#[test]
fn scl_192_what_nobody_says_is_true_where_that_is_the_default() {
    for (name, value) in SWITCHES {
        let on = !matches!(name, "retry.retry-on-all-operations" | "x-forwarded.enabled");
        assert_eq!(value(&of_orders(name, None, None)), on, "{name}");
    }
}

#[test]
fn scl_193_a_client_may_say_false_where_all_say_true() {
    for (name, value) in SWITCHES {
        assert!(!value(&of_orders(name, Some("true"), Some("false"))), "{name}");
    }
}

#[test]
fn scl_194_the_values_of_a_client_are_laid_over_those_of_all_one_by_one() {
    let properties = yaml(
        "spring.cloud.loadbalancer:\n  health-check.initial-delay: 1s\n  \
         clients.orders.health-check.interval: 30s\n",
    );
    let seconds = |service: &str| {
        let check = properties.effective(service).health_check;
        (check.initial_delay.as_secs(), check.interval.as_secs())
    };
    assert_eq!(seconds("orders"), (1, 30));
    assert_eq!(seconds("users"), (1, 25));
}

/// A registry that lists one instance for every service, its name, and counts who was asked for.
#[derive(Clone, Debug, Default)]
struct Registry(Arc<Mutex<HashMap<String, usize>>>);

impl Registry {
    fn asked(&self, service: &str) -> usize {
        self.0.lock().unwrap().get(service).copied().unwrap_or_default()
    }
}

#[async_trait]
impl DiscoveryClient for Registry {
    fn name(&self) -> &str {
        "counting"
    }
    async fn instances(&self, service: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError> {
        *self.0.lock().unwrap().entry(service.as_str().to_owned()).or_default() += 1;
        Ok(vec![instance("of-all")])
    }
    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        Ok(Vec::new())
    }
}

#[tokio::test(start_paused = true)]
async fn scl_195_an_eager_client_is_there_after_the_start_and_is_not_made_again() {
    let registry = Registry::default();
    let properties = yaml("spring.cloud.loadbalancer.eager-load.clients: orders, users\n");
    let balancers = LoadBalancers::from_properties(properties, registry.clone()).unwrap();
    settle().await;
    assert_eq!((registry.asked("orders"), registry.asked("users"), registry.asked("others")), (1, 1, 0));
    let held = balancers.get("orders").unwrap().try_choose(&Request::EMPTY).unwrap();
    assert_eq!(balancers.in_flight(), 1);
    // The same balancer, whatever the spelling: it knows of the call.
    let again = balancers.get("ORDERS").unwrap();
    let snapshot = again.snapshot().unwrap();
    assert_eq!(snapshot.instances().map(|state| state.in_flight()).sum::<u32>(), 1);
    assert_eq!(held.instance().id(), pick(&again).await);
    settle().await;
    assert_eq!(registry.asked("orders"), 1);
}

#[tokio::test(start_paused = true)]
async fn scl_196_what_a_client_has_of_its_own_is_not_seen_by_another() {
    let own = SimpleDiscovery::new().with_instances("orders", with("zone", "near=eu far=us")).unwrap();
    let shared = Registry::default();
    let balancers = LoadBalancers::builder(shared.clone())
        .properties(yaml("evenkeel: {zone: eu, choose-timeout: 2s}\n"))
        .service("orders", |service| {
            service.discovery(own).policy(LeastRequest).chain(|chain| chain.with_zone_preference("eu"))
        })
        .service("users", |service| service)
        .build()
        .unwrap();
    let orders = balancers.get("orders").unwrap();
    assert_eq!(picks(&orders, 4).await, ["near"; 4]);
    assert_eq!(shared.asked("orders"), 0, "it has a registry of its own");
    // The others share what is there for all, and nothing of orders.
    for service in ["users", "others"] {
        assert_eq!(pick(&balancers.get(service).unwrap()).await, "of-all", "{service}");
        assert_eq!(shared.asked(service), 1);
    }
    for service in ["orders", "users", "others"] {
        let properties = balancers.properties(&ServiceId::new(service).unwrap());
        assert_eq!((properties.zone.as_deref(), properties.choose_timeout.as_secs()), (Some("eu"), 2));
    }
    // What there is not is an error of its own kind.
    let none = LoadBalancers::builder(SimpleDiscovery::new()).build().unwrap();
    assert!(none.get("orders").unwrap().choose(&Request::EMPTY).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn scl_197_the_end_closes_the_balancer_of_every_client() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let registry = SimpleDiscovery::new();
    for service in ["orders", "users"] {
        registry.set(&ServiceId::new(service).unwrap(), list("a b"));
    }
    let balancers = LoadBalancers::builder(registry).build().unwrap();
    let handles = ["orders", "users"].map(|service| balancers.get(service).unwrap());
    for handle in &handles {
        pick(handle).await;
    }
    assert!(tasks() > before, "each follows its list");
    balancers.shutdown().await;
    for handle in &handles {
        let error = handle.choose(&Request::EMPTY).await.unwrap_err();
        assert!(matches!(error.kind(), ChooseErrorKind::Closed), "{error}");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(tasks(), before);
}

#[tokio::test(start_paused = true)]
async fn scl_198_clients_named_in_code_and_by_eager_load_are_known_and_others_start_with_their_first_call() {
    let registry = Registry::default();
    let balancers = LoadBalancers::builder(registry.clone())
        .properties(yaml(
            "evenkeel: {eager-load.clients: [eager-one, eager_two], clients: {by_property: {zone: a}}}\n",
        ))
        .service("by-code_3", |service| service.chain(evenkeel::SupplierBuilder::with_weights))
        .build()
        .unwrap();
    settle().await;
    let late = ["by_property", "by-code_3"];
    for service in ["eager-one", "eager_two"] {
        assert_eq!(registry.asked(service), 1, "{service}");
    }
    for service in late {
        assert!(balancers.is_known(service), "{service}");
        assert_eq!(registry.asked(service), 0, "{service} is not called yet");
    }
    for service in late {
        pick(&balancers.get(service).unwrap()).await;
        pick(&balancers.get(service).unwrap()).await;
        assert_eq!(registry.asked(service), 1, "{service}");
    }
    // What is wrong with one is an error of the start, not of its first call.
    let broken = "evenkeel.clients.late.routing: [{metadata: v, header: A}, {metadata: v, header: B}]\n";
    assert!(LoadBalancers::from_properties(yaml(broken), registry).is_err());
}
