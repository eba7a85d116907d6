//! Properties that change while calls run.

use std::time::Duration;

use super::*;
use evenkeel::config::{ConfigError, Format, LiveProperties, Properties};
use evenkeel::discovery::SimpleDiscovery;

fn start(properties: Properties) -> (LoadBalancers, LiveProperties, Registry) {
    let live = LiveProperties::new(properties);
    let registry = Registry::new(Duration::ZERO);
    (LoadBalancers::builder(registry.clone()).live(live.clone()).build().unwrap(), live, registry)
}

async fn change(live: &LiveProperties, to: impl FnOnce(Properties) -> Result<Properties, ConfigError>) {
    live.reload(|current| to(current.clone())).unwrap();
    support::settle().await;
}

fn version(balancers: &LoadBalancers, service: &str) -> u64 {
    balancers.get(service).unwrap().snapshot().unwrap().version()
}

fn after(id: &str) -> &'static str {
    match id {
        "a" => "b",
        "b" => "c",
        _ => "a",
    }
}

#[tokio::test(start_paused = true)]
async fn calls_in_flight_and_rotations_survive_and_who_is_not_concerned_does_not_notice() {
    let (balancers, live, registry) = start(Properties::default());
    let held = call(&balancers, "orders").await;
    let mut last = pick(&balancers, "orders").await;
    pick(&balancers, "users").await;
    for ttl in ["10s", "20s", "30s", "5s"] {
        change(&live, |properties| properties.set_for("orders", "cache.ttl", ttl)).await;
        let next = pick(&balancers, "orders").await;
        assert_eq!(next, after(&last), "the rotation goes on");
        last = next;
    }
    assert_eq!(balancers.in_flight(), 1);
    let lb = balancers.get("orders").unwrap();
    let snapshot = lb.snapshot().unwrap();
    let state = snapshot.instances().find(|state| state.instance() == held.instance()).unwrap();
    assert_eq!(state.in_flight(), 1, "the same state");
    assert_eq!(version(&balancers, "users"), 1, "nothing changed for users");
    assert_eq!(registry.look_ups(), 2);
    support::advance(5.1).await;
    pick(&balancers, "orders").await;
    pick(&balancers, "users").await;
    support::settle().await;
    assert_eq!((registry.asked("orders").len(), registry.asked("users").len()), (2, 1), "the new TTL holds");
}

/// It has no start on the clock: it counts as a call in flight, and not as one of the age of the service.
#[tokio::test(start_paused = true)]
async fn a_call_from_before_a_policy_asked_for_latencies_has_no_age() {
    let (balancers, live, _registry) = start(Properties::default());
    let old = call(&balancers, "orders").await;
    support::advance(60.0).await;
    change(&live, |properties| properties.set("policy", "peak-ewma")).await;
    let seen = || {
        let status = balancers.status("orders").unwrap();
        let row = status.instances.into_iter().find(|row| row.id == old.instance().id());
        row.map(|row| (row.in_flight, row.latency_ms)).unwrap()
    };
    assert_eq!(seen(), (1, None), "nothing is known of its answers");
    let mut fresh = Vec::new();
    // The one with the old call is the last to get one while nothing is known of the others either.
    while seen().0 < 2 {
        fresh.push(call(&balancers, "orders").await);
    }
    support::advance(0.25).await;
    let (calls, age) = seen();
    assert!(calls == 2 && age.is_some_and(|age| (age - 250.0).abs() < 1.0), "{calls} calls, {age:?} ms");
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_keeps_its_short_life_when_properties_change() {
    let registry = SimpleDiscovery::new();
    let live = LiveProperties::new(Properties::default());
    let balancers = LoadBalancers::builder(registry.clone().polling()).live(live.clone()).build().unwrap();
    let lb = balancers.get("orders").unwrap();
    assert!(lb.choose(&evenkeel::Request::EMPTY).await.is_err());
    change(&live, |properties| properties.set_for("orders", "cache.ttl", "40s")).await;
    registry.set(lb.service_id(), support::list("a"));
    support::advance(1.1).await;
    assert_eq!(support::pick(&lb).await, "a");
}

#[tokio::test(start_paused = true)]
async fn another_policy_and_another_zone_hold_at_once() {
    let registry =
        SimpleDiscovery::new().with_instances("orders", support::with("zone", "a=1 b=2 c=2")).unwrap();
    let live = LiveProperties::new(Properties::default());
    let balancers = LoadBalancers::builder(registry).live(live.clone()).build().unwrap();
    let mut leases = Vec::new();
    for _ in 0..6 {
        leases.push(call(&balancers, "orders").await);
    }
    leases.retain(|lease| lease.instance().id() != "b");
    change(&live, |properties| properties.set("policy", "least-request")).await;
    // Two calls each are in flight to a and c; of two draws the one with fewer calls is taken, so b has most.
    let lb = balancers.get("orders").unwrap();
    let picks = support::picks(&lb, 300).await;
    assert!(support::count(&picks, "b") > 150, "{}", support::count(&picks, "b"));

    change(&live, |properties| {
        properties.set("configurations", "zone-preference").and_then(|properties| properties.set("zone", "1"))
    })
    .await;
    assert!(support::picks(&lb, 20).await.iter().all(|id| id == "a"));
    change(&live, |properties| properties.set("zone", "2")).await;
    assert!(support::picks(&lb, 20).await.iter().all(|id| id != "a"));
    assert_eq!(balancers.in_flight(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_cannot_work_changes_nothing_for_anybody() {
    let refused = || logged(&["not applied", "\"orders\""]);
    assert_eq!(refused(), 0);
    let (balancers, live, registry) = start(Properties::default());
    pick(&balancers, "orders").await;
    // Users could live with it; orders could not.
    let text = format!("evenkeel: {{cache.ttl: 7s, clients: {{orders: {{{TWICE}}}}}}}");
    change(&live, |_| Properties::parse(&text, Format::Yaml, "application.yml")).await;
    assert_eq!(refused(), 1);
    assert_eq!(version(&balancers, "orders"), 1);
    for service in ["orders", "users"] {
        assert_eq!(balancers.properties(&id(service)).cache.ttl.as_secs(), 35);
    }
    assert!(!balancers.is_known("orders"), "nor are its names");
    // A service that is made now is made by what is in force.
    pick(&balancers, "users").await;
    support::advance(8.0).await;
    pick(&balancers, "users").await;
    support::settle().await;
    assert_eq!(registry.asked("users").len(), 1);

    change(&live, |_| {
        Properties::default().set("cache.ttl", "7s").and_then(|all| all.set_for("orders", "zone", "z"))
    })
    .await;
    assert_eq!(balancers.properties(&id("users")).cache.ttl.as_secs(), 7);
    assert!(balancers.is_known("orders"));
    pick(&balancers, "users").await;
    support::settle().await;
    assert_eq!(registry.asked("users").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn balancing_can_be_switched_off_and_on() {
    let off = Properties::default().set_for("billing", "enabled", false).unwrap();
    let (balancers, live, _) = start(off);
    let error = balancers.get("billing").unwrap_err();
    assert!(error.to_string().contains("\"billing\"") && error.to_string().contains("enabled"), "{error}");
    assert!(balancers.get("orders").is_ok());

    let held = call(&balancers, "orders").await;
    change(&live, |properties| properties.set("enabled", false)).await;
    assert!(balancers.get("ORDERS").is_err() && balancers.get("others").is_err());
    change(&live, |properties| properties.set("enabled", true)).await;
    assert_eq!(balancers.get("orders").unwrap().in_flight(), 1, "the same balancer as before");
    drop(held);
    assert!(balancers.get("billing").is_err(), "its own value");
    change(&live, |properties| properties.set_for("billing", "enabled", true)).await;
    assert!(balancers.get("billing").is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_service_that_becomes_configured_stays_and_one_that_does_no_longer_may_go() {
    let capacity = Properties::default().set("cache.capacity", 1).unwrap();
    let mut before = capacity.clone();
    // Several, so that one that goes meets the one that stays in whatever order they are settled.
    for old in 0..6 {
        before = before.set_for(&format!("old{old}"), "cache.ttl", "35s").unwrap();
    }
    let (balancers, live, _) = start(before);
    let names = || {
        let mut names: Vec<_> = balancers.services().iter().map(ToString::to_string).collect();
        names.sort_unstable();
        names.join(" ")
    };
    for old in 0..6 {
        pick(&balancers, &format!("old{old}")).await;
    }
    pick(&balancers, "new").await;
    change(&live, |_| capacity.set_for("new", "cache.ttl", "35s")).await;
    pick(&balancers, "other").await;
    assert_eq!(names(), "new other");
    pick(&balancers, "another").await;
    assert_eq!(names(), "another new");
}

#[tokio::test(start_paused = true)]
async fn instances_that_stand_in_the_properties_follow_them() {
    let of = |ports: &[u16]| {
        let list: Vec<_> = ports.iter().map(|port| format!("{{uri: 'http://10.0.0.1:{port}'}}")).collect();
        let text = format!("spring.cloud.discovery.client.simple.instances.orders: [{}]", list.join(", "));
        Properties::parse(&text, Format::Yaml, "application.yml").unwrap()
    };
    let live = LiveProperties::new(of(&[1, 2]));
    let balancers = LoadBalancers::configured(Properties::default()).live(live.clone()).build().unwrap();
    let ports = async || {
        let mut seen: Vec<String> = Vec::new();
        for _ in 0..4 {
            seen.push(pick(&balancers, "orders").await);
        }
        seen.sort();
        seen.dedup();
        seen
    };
    assert_eq!(ports().await, ["10.0.0.1:1", "10.0.0.1:2"]);
    change(&live, |_| Ok(of(&[2, 3]))).await;
    assert_eq!(ports().await, ["10.0.0.1:2", "10.0.0.1:3"]);
    assert!(balancers.is_known("orders"));
    let fixed = LoadBalancers::configured(of(&[7])).build().unwrap();
    assert_eq!(pick(&fixed, "ORDERS").await, "10.0.0.1:7");
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_code_at_a_change_ends_neither_what_is_in_force_nor_the_changes_to_come() {
    use std::sync::atomic::{AtomicBool, Ordering};
    static BREAKS: AtomicBool = AtomicBool::new(false);
    #[derive(Debug)]
    struct Unordered;
    impl evenkeel::observe::Lifecycle for Unordered {
        fn order(&self) -> i32 {
            assert!(!BREAKS.load(Ordering::SeqCst), "on purpose");
            0
        }
    }
    for broken in ["chain", "order"] {
        BREAKS.store(false, Ordering::SeqCst);
        let live = LiveProperties::new(Properties::default());
        let balancers = LoadBalancers::builder(Registry::new(Duration::ZERO))
            .live(live.clone())
            .lifecycle(Unordered)
            .lifecycle(Unordered)
            .service("orders", move |service| {
                service.chain(move |chain| {
                    assert!(broken != "chain" || !BREAKS.load(Ordering::SeqCst), "on purpose");
                    chain
                })
            })
            .build()
            .unwrap();
        pick(&balancers, "orders").await;
        support::settle().await;
        let in_force = || balancers.properties(&support::orders()).cache.ttl.as_secs();
        BREAKS.store(true, Ordering::SeqCst);
        change(&live, |properties| properties.set("cache.ttl", "7s")).await;
        // A chain that cannot be made changes nothing; who has no order stands at 0.
        let expected = if broken == "chain" { (35, 1) } else { (7, 2) };
        assert_eq!((in_force(), version(&balancers, "orders")), expected, "{broken}");
        pick(&balancers, "orders").await;
        BREAKS.store(false, Ordering::SeqCst);
        change(&live, |properties| properties.set("cache.ttl", "9s")).await;
        assert_eq!(in_force(), 9, "{broken}");
    }
}
