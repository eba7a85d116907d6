//! The end: a shutdown, and handles that are dropped.

use std::time::Duration;

use super::*;
use evenkeel::ChooseErrorKind;
use evenkeel::config::{LiveProperties, Properties};
use evenkeel::discovery::SimpleDiscovery;

const NAMES: [&str; 5] = ["s1", "s2", "s3", "s4", HUNG];

fn is_closed(balancers: &LoadBalancers, service: &str) -> bool {
    let error = balancers.get(service).unwrap().try_choose(&Request::EMPTY).unwrap_err();
    matches!(error.kind(), ChooseErrorKind::Closed)
}

#[tokio::test(start_paused = true)]
async fn case_058_a_shutdown_ends_everything_although_a_look_up_hangs() {
    let baseline = alive();
    let registry = Registry::new(Duration::from_millis(10));
    let live = LiveProperties::new(Properties::default());
    let balancers = LoadBalancers::builder(registry.clone()).live(live.clone()).build().unwrap();
    let callers: Vec<_> = (0..3)
        .map(|_| {
            let balancers = balancers.clone();
            tokio::spawn(async move {
                loop {
                    for name in &NAMES[..4] {
                        match balancers.get(name).unwrap().choose(&Request::EMPTY).await {
                            Ok(choice) => drop(choice),
                            Err(error) => return error,
                        }
                    }
                    support::advance(1.0).await;
                }
            })
        })
        .collect();
    let hung = balancers.get(HUNG).unwrap();
    let waiter = tokio::spawn(async move { hung.choose(&Request::EMPTY).await.map(drop).unwrap_err() });
    let lease = call(&balancers, "s1").await;
    support::advance(3.0).await;

    let start = Instant::now();
    balancers.shutdown().await;
    assert!(start.elapsed() <= Duration::from_secs(1), "{:?}", start.elapsed());
    balancers.shutdown().await;
    assert!(start.elapsed() <= Duration::from_secs(1), "{:?}", start.elapsed());
    for name in NAMES.into_iter().chain(["never seen before"].into_iter().filter(|_| false)) {
        assert!(is_closed(&balancers, name), "{name}");
    }
    assert!(is_closed(&balancers, "new"), "a service that is new after the end");
    assert!(balancers.ready(["s1", "new"], Duration::from_secs(1)).await.is_err());
    for caller in callers {
        assert!(matches!(caller.await.unwrap().kind(), ChooseErrorKind::Closed));
    }
    assert!(matches!(waiter.await.unwrap().kind(), ChooseErrorKind::Closed));

    let look_ups = registry.look_ups();
    support::advance(600.0).await;
    assert_eq!((registry.look_ups(), alive()), (look_ups, baseline));
    assert_eq!((lease.state().in_flight(), balancers.in_flight()), (1, 1), "calls in flight go on");
    let start = Instant::now();
    assert_eq!(balancers.drain(Duration::from_secs(2)).await, 1);
    assert!(start.elapsed() >= Duration::from_secs(2));
    drop(lease);
    assert_eq!(balancers.drain(Duration::MAX).await, 0);
}

#[tokio::test(start_paused = true)]
async fn case_058_the_last_handle_that_is_dropped_ends_everything() {
    let baseline = alive();
    let pushed = SimpleDiscovery::new();
    for name in NAMES {
        pushed.set(&id(name), support::list("a b"));
    }
    let asked = Registry::new(Duration::from_millis(10));
    let (one, two) = (asked.clone(), LiveProperties::new(Properties::default()));
    let balancers = LoadBalancers::builder(pushed)
        .live(two.clone())
        .service("asked", |service| service.discovery(one))
        .build()
        .unwrap();
    let (second, third) = (balancers.clone(), balancers.clone());
    for name in NAMES.into_iter().chain(["asked"]) {
        pick(&balancers, name).await;
    }
    let running = alive();
    assert_eq!(running, baseline + NAMES.len() + 1, "a watch each, and one task that follows the properties");
    drop(second);
    support::settle().await;
    assert_eq!(alive(), running, "one of three stops nothing");
    support::advance(36.0).await;
    pick(&third, "asked").await;
    support::advance(1.0).await;
    assert_eq!(asked.look_ups(), 2);
    drop(balancers);
    drop(third);
    support::settle().await;
    assert_eq!(alive(), baseline);
    support::advance(600.0).await;
    assert_eq!(asked.look_ups(), 2);
    assert!(two.replace(Properties::default().set("zone", "z").unwrap()), "nobody follows it, which is fine");
}

#[tokio::test(start_paused = true)]
async fn a_call_to_an_instance_that_left_the_list_is_drained_too() {
    let registry = SimpleDiscovery::new().with_instances("orders", support::list("a")).unwrap();
    let balancers = LoadBalancers::builder(registry.clone()).build().unwrap();
    let lease = call(&balancers, "orders").await;
    registry.set(&id("orders"), support::list("b"));
    support::settle().await;
    assert_eq!(pick(&balancers, "orders").await, "b");
    assert_eq!(balancers.in_flight(), 1);
    let draining = tokio::spawn({
        let balancers = balancers.clone();
        async move { balancers.drain(Duration::from_secs(60)).await }
    });
    support::advance(5.0).await;
    assert!(!draining.is_finished());
    drop(lease);
    assert_eq!(draining.await.unwrap(), 0);
}
