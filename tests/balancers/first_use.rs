//! First use: services do not wait for each other.

use std::time::{Duration, Instant};

use super::*;
use evenkeel::config::{Format, Properties};

const SERVICES: usize = 2_000;
/// Look-ups overlap, so that all are done within 2 s; ten times that, for a machine that is busy.
const LIMIT: Duration = Duration::from_secs(20);

async fn all_at_once(balancers: LoadBalancers) {
    let start = Instant::now();
    let tasks: Vec<_> = (0..SERVICES)
        .map(|n| {
            let balancers = balancers.clone();
            tokio::spawn(async move { pick(&balancers, &format!("service-{n}")).await })
        })
        .collect();
    for task in tasks {
        assert!(["a", "b", "c"].contains(&&*task.await.unwrap()));
    }
    println!("{SERVICES} services at first use: {:?}", start.elapsed());
    assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
    balancers.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_066_two_thousand_names_that_nobody_configured() {
    let registry = Registry::new(Duration::from_millis(50));
    all_at_once(LoadBalancers::builder(registry.clone()).build().unwrap()).await;
    assert_eq!(registry.look_ups(), SERVICES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_066_two_thousand_configured_services() {
    let clients: Vec<String> = (0..SERVICES).map(|n| format!("service-{n}: {{cache.ttl: 20s}}")).collect();
    let text = format!("evenkeel: {{clients: {{{}}}}}", clients.join(", "));
    let properties = Properties::parse(&text, Format::Yaml, "application.yml").unwrap();
    let registry = Registry::new(Duration::from_millis(50));
    all_at_once(LoadBalancers::from_properties(properties, registry.clone()).unwrap()).await;
    assert_eq!(registry.look_ups(), SERVICES);
}

#[test]
fn case_066_two_thousand_on_one_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let registry = Registry::new(Duration::from_millis(50));
        all_at_once(LoadBalancers::builder(registry.clone()).build().unwrap()).await;
        assert_eq!(registry.look_ups(), SERVICES);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_service_at_first_use_by_many_is_made_once() {
    let registry = Registry::new(Duration::from_millis(20));
    let balancers = LoadBalancers::builder(registry.clone()).build().unwrap();
    let tasks: Vec<_> = (0..200)
        .map(|n| {
            let balancers = balancers.clone();
            tokio::spawn(async move { pick(&balancers, ["orders", "ORDERS", "Orders."][n % 3]).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!((registry.look_ups(), balancers.services().len()), (1, 1));
}
