//! What properties say of each service, and readiness.

use std::time::Duration;

use super::*;
use evenkeel::config::{CacheProperties, Format, Properties};

#[tokio::test(start_paused = true)]
async fn case_053_each_service_has_its_own_ttl() {
    let registry = Registry::new(Duration::ZERO);
    let properties = Properties::default().set_for("billing", "cache.ttl", "5s").unwrap();
    let balancers = LoadBalancers::from_properties(properties, registry.clone()).unwrap();
    for _ in 0..3_600 {
        pick(&balancers, "billing").await;
        pick(&balancers, "orders").await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let seconds =
        |service: &str| registry.asked(service).iter().map(Duration::as_secs).take(3).collect::<Vec<_>>();
    assert_eq!(seconds("billing"), [0, 5, 10]);
    assert_eq!(seconds("orders"), [0, 35]);
}

#[tokio::test(start_paused = true)]
async fn case_053_code_for_the_service_wins_over_its_file_over_code_for_all() {
    let text = "evenkeel: {cache.ttl: 20s, clients: {billing: {cache.ttl: 5s}}}";
    let file = Properties::parse(text, Format::Yaml, "application.yml").unwrap();
    let ttl = |properties: Properties, service: &str| {
        let balancers = LoadBalancers::from_properties(properties, Registry::new(Duration::ZERO)).unwrap();
        balancers.properties(&id(service)).cache.ttl.as_secs()
    };
    assert_eq!((ttl(file.clone(), "BILLING"), ttl(file.clone(), "orders")), (5, 20));
    let code = file.set("cache.ttl", "10s").unwrap();
    assert_eq!((ttl(code.clone(), "billing"), ttl(code.clone(), "orders")), (5, 10));
    let own = code.set_for("Billing", "cache.ttl", "3s").unwrap();
    assert_eq!((ttl(own.clone(), "billing"), ttl(own.clone(), "orders")), (3, 10));
    assert!(own.clone().set_for("billing", "cache.tll", "3s").is_err(), "an unknown key");

    // The chain that the code shapes has the last word.
    let registry = Registry::new(Duration::ZERO);
    let balancers = LoadBalancers::builder(registry.clone())
        .properties(own)
        .service("billing", |service| {
            let cache = CacheProperties::default().with_ttl(Duration::from_secs(1));
            service.chain(move |chain| chain.with_caching(cache.clone()))
        })
        .build()
        .unwrap();
    for _ in 0..250 {
        pick(&balancers, "billing").await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(registry.asked("billing").iter().map(Duration::as_secs).collect::<Vec<_>>(), [0, 1, 2]);
}

#[tokio::test]
async fn a_chain_that_cannot_work_is_found_when_it_is_built() {
    let build = |text: &str| {
        let properties = Properties::parse(text, Format::Yaml, "application.yml").unwrap();
        LoadBalancers::from_properties(properties, Registry::new(Duration::ZERO))
    };
    let error = build(&format!("evenkeel: {{clients: {{orders: {{{TWICE}}}}}}}")).unwrap_err();
    assert!(error.to_string().contains("\"orders\"") && error.reason().contains("version"), "{error}");
    let error = build(&format!("evenkeel: {{{TWICE}}}")).unwrap_err();
    assert!(error.reason().contains("version"), "no service is named, and none could ever work: {error}");
    assert!(build(&format!("evenkeel: {{enabled: false, {TWICE}}}")).is_ok(), "nothing is built");
    let balancers = build("evenkeel: {choose-timeout: 0}").unwrap();
    let error = balancers.get(HUNG).unwrap().choose(&Request::EMPTY).await.unwrap_err();
    assert!(matches!(error.kind(), evenkeel::ChooseErrorKind::Timeout { .. }), "0 does not wait: {error}");
}

#[tokio::test(start_paused = true)]
async fn services_of_eager_load_are_looked_up_before_anybody_asks() {
    let registry = Registry::new(Duration::ZERO);
    let properties = Properties::default()
        .set("eager-load.clients", "orders, billing, off")
        .and_then(|properties| properties.set_for("off", "enabled", false))
        .unwrap();
    let balancers = LoadBalancers::from_properties(properties, registry.clone()).unwrap();
    support::settle().await;
    assert_eq!((registry.asked("orders").len(), registry.asked("billing").len()), (1, 1));
    assert_eq!(registry.look_ups(), 2);
    assert!(balancers.get("orders").unwrap().try_choose(&Request::EMPTY).is_ok(), "without a wait");
    assert!(balancers.is_known("orders") && !balancers.is_known("off"));
}

#[tokio::test(start_paused = true)]
async fn ready_names_who_is_missing_and_why_within_its_limit() {
    let balancers = LoadBalancers::builder(Registry::new(Duration::from_millis(100))).build().unwrap();
    let start = Instant::now();
    balancers.ready(["orders", "billing"], Duration::from_secs(5)).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_millis(100), "no longer than it takes");

    let start = Instant::now();
    let limit = Duration::from_secs(2);
    let error = balancers.ready(["orders", EMPTY, REFUSED, HUNG, "bad id"], limit).await.unwrap_err();
    assert!(start.elapsed() <= limit, "{:?}", start.elapsed());
    let missing: Vec<_> = error.missing().map(|(service, _)| service).collect();
    assert_eq!(missing, [EMPTY, REFUSED, HUNG, "bad id"]);
    for ((_, why), part) in error.missing().zip(["lists none", "connection refused", "no answer", "blank"]) {
        assert!(why.contains(part), "{why}");
        assert!(error.to_string().contains(why), "{error}");
    }
    // A limit that no clock can hold.
    balancers.ready(["orders"], Duration::MAX).await.unwrap();
}

#[tokio::test]
async fn fixed_lists_need_no_registry() {
    let balancers = LoadBalancers::fixed([("orders", support::list("a")), ("users", Vec::new())]).unwrap();
    assert_eq!(pick(&balancers, "ORDERS.").await, "a");
    let error = balancers.get("users").unwrap().choose(&Request::EMPTY).await.unwrap_err();
    assert!(matches!(error.kind(), evenkeel::ChooseErrorKind::NoInstances { .. }), "{error}");
    assert!(balancers.is_known("users") && !balancers.is_known("others"));
    assert!(LoadBalancers::fixed([("bad id", Vec::new())]).is_err());
}
