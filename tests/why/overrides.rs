use super::*;
use crate::support::{Pull, advance, chain, instance, list, settle};
use evenkeel::config::{Format, LiveProperties, Override, Preset, Properties};
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::observe::InstanceCondition;
use evenkeel::{LoadBalancers, LoadBalancersBuilder, ServiceInstance};

fn zoned(id: &str, zone: &str) -> ServiceInstance {
    instance(id).to_builder().zone(zone).build().unwrap()
}

fn all() -> [ServiceInstance; 4] {
    [zoned("a", "eu-1a"), zoned("b", "eu-1b"), zoned("c", "eu-1b"), zoned("d", "eu-1c")]
}

fn many(live: &LiveProperties) -> LoadBalancersBuilder {
    let registry = SimpleDiscovery::new()
        .with_instances("orders", all())
        .and_then(|registry| registry.with_instances("users", all()))
        .unwrap();
    LoadBalancers::builder(registry).live(live.clone()).wall_clock(wall())
}

fn yaml(text: &str) -> Properties {
    Properties::parse(text, Format::Yaml, "application.yml").unwrap()
}

/// Whom 24 picks reach, by id.
async fn reached(lb: &LoadBalancer) -> String {
    let mut ids = Vec::new();
    for _ in 0..24 {
        let choice = lb.choose(&Request::EMPTY).await.unwrap();
        ids.push(choice.instance().id().to_owned());
        choice.complete(Outcome::Success);
    }
    ids.sort();
    ids.dedup();
    ids.concat()
}

#[tokio::test(start_paused = true)]
async fn a_drain_of_an_instance_a_host_or_a_zone_ends_by_itself_and_to_the_millisecond() {
    let minute = Duration::from_secs(60);
    for (drain, left) in [
        (Override::drain_instance("b"), "acd"),
        (Override::drain_instance("B.test:8080"), "acd"),
        (Override::drain_host("C.TEST"), "abd"),
        (Override::drain_zone("EU-1B"), "ad"),
        (Override::drain_zone("eu"), "abcd"),
    ] {
        let lb = LoadBalancer::builder(chain(Pull::new(|_| async { Ok(all().to_vec()) })).build().unwrap())
            .build();
        lb.ready().await.unwrap();
        let held = lb.choose(&Request::EMPTY).await.unwrap();
        let id = lb.override_with(drain.clone().lasting(minute).because("OPS-17: disk")).unwrap();
        assert_eq!(reached(&lb).await, left, "{drain}");
        assert_eq!(lb.in_flight(), 1, "running calls go on");
        drop(held);
        advance(59.999).await;
        settle().await;
        assert_eq!(reached(&lb).await, left, "{drain}");
        assert_eq!(lb.status().overrides[0].left_ms, 1);
        advance(0.001).await;
        settle().await;
        assert_eq!(reached(&lb).await, "abcd", "{drain}");
        assert!(lb.status().overrides.is_empty() && !lb.end_override(id));
    }
}

#[tokio::test(start_paused = true)]
async fn reports_and_the_log_of_changes_tell_who_drains_why_and_how_long() {
    let supplier = chain(Pull::new(|_| async { Ok(all().to_vec()) })).build().unwrap();
    let lb = LoadBalancer::builder(supplier).wall_clock(wall()).build();
    lb.ready().await.unwrap();
    let until = evening() + Duration::from_secs(1_800);
    let id = lb.override_with(Override::drain_zone("eu-1b").until(until).because("OPS-17: power")).unwrap();
    advance(300.0).await;
    let status = lb.status();
    let [over] = status.overrides.as_slice() else { panic!("{status}") };
    assert_eq!((over.what.as_str(), over.reason.as_str()), ("drain zone eu-1b", "OPS-17: power"));
    assert_eq!((over.until.as_str(), over.left_ms), ("2026-11-30T20:30:00.000Z", 1_500_000));
    assert_eq!((over.configured, over.matches), (false, Some(2)));
    let b = status.instances.iter().find(|one| one.id == "b").unwrap();
    assert_eq!((b.state, b.status.as_str()), (InstanceCondition::Draining, "draining"));
    assert_eq!(b.reason.as_deref(), Some("drain zone eu-1b until 2026-11-30T20:30:00.000Z: OPS-17: power"));
    assert!(
        status.to_string().contains(
            "OVERRIDE  drain zone eu-1b, until 2026-11-30T20:30:00.000Z (25 min 00 s left), by code"
        )
    );
    let why = lb.explain(&Request::EMPTY);
    assert_eq!(why.overrides.len(), 1);
    let b = why.candidates.iter().find(|one| one.status.id == "b").unwrap();
    assert!(b.status.reason.as_ref().unwrap().contains("OPS-17"), "{why}");
    assert!(lb.end_override(id));
    let changes = lb.change_log();
    let told: Vec<_> = changes[1..].iter().map(|change| (change.kind, change.detail.as_str())).collect();
    let word = "drain zone eu-1b until 2026-11-30T20:30:00.000Z: OPS-17: power";
    let taken_back = format!("it was taken back: {word}");
    assert_eq!(told, [(ChangeKind::OverrideSet, word), (ChangeKind::OverrideEnded, taken_back.as_str())]);
}

#[tokio::test(start_paused = true)]
async fn when_everybody_drains_everybody_is_used_and_that_is_said() {
    let lb = LoadBalancer::builder(chain(Pull::always("a b", Duration::ZERO)).build().unwrap()).build();
    lb.ready().await.unwrap();
    let minute = Duration::from_secs(60);
    for id in ["a", "b"] {
        lb.override_with(Override::drain_instance(id).lasting(minute).because("both")).unwrap();
    }
    assert_eq!(reached(&lb).await, "ab");
    let status = lb.status();
    assert_eq!(status.counts.draining, 2);
    for one in &status.instances {
        assert_eq!(one.state, InstanceCondition::Draining);
        assert!(one.reason.as_ref().unwrap().starts_with("used, since nothing else is left; drain instance"));
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_no_reason_no_end_or_no_sense_is_refused() {
    let lb = LoadBalancer::builder(chain(Pull::always("a b", Duration::ZERO)).build().unwrap())
        .wall_clock(wall())
        .build();
    let minute = Duration::from_secs(60);
    let drain = || Override::drain_host("a.test");
    for (over, part) in [
        (drain().lasting(minute), "needs a reason"),
        (drain().lasting(minute).because(" "), "needs a reason"),
        (drain().because("x"), "needs an end"),
        (drain().until(evening()).because("x"), "2026-11-30T20:00:00.000Z, which has passed"),
        (drain().lasting(Duration::ZERO).because("x"), "which has passed"),
        (Override::drain_host(" ").lasting(minute).because("x"), "needs the name"),
        (drain().of_service("users").lasting(minute).because("x"), "it is for service \"users\""),
        (Override::preset(Preset::Spring).lasting(minute).because("x"), "has no preset"),
    ] {
        let error = lb.override_with(over).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert!(lb.status().overrides.is_empty());
    lb.override_with(drain().of_service("ORDERS").lasting(Duration::MAX).because("x")).unwrap();
}

#[tokio::test(start_paused = true)]
async fn properties_override_all_services_or_one_and_end_without_a_reload() {
    let live = LiveProperties::new(yaml(
        "evenkeel.overrides:
  - drain: {zone: eu-1b}
    until: 2026-11-30T20:10:00Z
    reason: OPS-17
  - service: USERS
    drain.host: a.test
    until: 2026-11-30T21:05:00+01:00
    reason: OPS-18
  - drain.host: d.test
    until: 2026-11-30T19:59:59Z
    reason: over already
",
    ));
    let balancers = many(&live).build().unwrap();
    let (orders, users) = (balancers.get("orders").unwrap(), balancers.get("users").unwrap());
    assert_eq!((reached(&orders).await, reached(&users).await), ("ad".into(), "d".into()));
    advance(300.0).await;
    settle().await;
    assert_eq!((reached(&orders).await, reached(&users).await), ("ad".into(), "ad".into()));
    // A reload does not prolong it, and who is not concerned does not notice.
    live.replace((*live.current()).clone().set("cache.ttl", "20s").unwrap());
    settle().await;
    let kinds_of = |name: &str| kinds(&balancers.change_log(name).unwrap());
    let set = kinds_of("orders").iter().filter(|kind| **kind == ChangeKind::OverrideSet).count();
    assert_eq!(set, 1);
    advance(300.0).await;
    settle().await;
    assert_eq!((reached(&orders).await, reached(&users).await), ("abcd".into(), "abcd".into()));
    assert!(kinds_of("users").iter().filter(|kind| **kind == ChangeKind::OverrideEnded).count() == 2);
    // An entry that is taken out ends it at once.
    let until = "2026-12-01T00:00:00Z";
    live.replace(yaml(&format!("evenkeel.overrides: [{{drain.host: a.test, until: '{until}', reason: x}}]")));
    settle().await;
    assert_eq!(reached(&orders).await, "bcd");
    live.replace(Properties::default());
    settle().await;
    assert_eq!(reached(&orders).await, "abcd");
}

#[tokio::test(start_paused = true)]
async fn a_pinned_preset_holds_until_its_end_and_what_is_set_still_wins() {
    let live = LiveProperties::new(yaml("evenkeel: {preset: kubernetes, clients.users.policy: random}"));
    let balancers = many(&live).build().unwrap();
    let orders = balancers.get("orders").unwrap();
    orders.ready().await.unwrap();
    balancers.get("users").unwrap().ready().await.unwrap();
    let held = orders.choose(&Request::EMPTY).await.unwrap();
    let policy = |name: &str| balancers.status(name).unwrap().policy;
    assert_eq!((policy("orders"), policy("users")), ("least-request".into(), "random".into()));
    let pin = Override::preset(Preset::Spring).lasting(Duration::from_secs(60)).because("OPS-19: herd");
    let id = balancers.override_with(pin.clone()).unwrap();
    assert_eq!((policy("orders"), policy("users")), ("round-robin".into(), "random".into()));
    assert_eq!(balancers.properties(orders.service_id()).preset, Preset::Spring);
    assert_eq!(orders.in_flight(), 1, "states stay");
    advance(60.0).await;
    settle().await;
    assert_eq!(policy("orders"), "least-request");
    assert_eq!(balancers.properties(orders.service_id()).preset, Preset::Kubernetes);
    assert!(!balancers.end_override(id));
    // The same from a file, for a service that is made later, and taken back by code over it.
    let text = "evenkeel: {preset: kubernetes, overrides: [{preset: modern, until: '2026-11-30T22:00:00Z', reason: x}]}";
    live.replace(yaml(text));
    settle().await;
    assert_eq!(policy("orders"), "peak-ewma");
    balancers.get("later").unwrap();
    assert_eq!(policy("later"), "peak-ewma");
    let id = balancers.override_with(pin).unwrap();
    assert_eq!(policy("later"), "round-robin");
    assert!(balancers.end_override(id));
    assert_eq!((policy("later"), policy("users")), ("peak-ewma".into(), "peak-ewma".into()));
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn overrides_of_the_code_reach_services_that_come_later_and_only_those_they_name() {
    let live = LiveProperties::new(Properties::default());
    let balancers = many(&live).build().unwrap();
    let hour = Duration::from_secs(3_600);
    let drain = Override::drain_instance("a").of_service("Users").lasting(hour).because("OPS-20");
    let id = balancers.override_with(drain).unwrap();
    assert_eq!(reached(&balancers.get("users").unwrap()).await, "bcd");
    assert_eq!(reached(&balancers.get("orders").unwrap()).await, "abcd");
    balancers.override_with(Override::ejection_off().lasting(hour).because("OPS-21")).unwrap();
    let status = balancers.status("orders").unwrap();
    assert_eq!((status.overrides[0].what.as_str(), status.overrides[0].matches), ("ejection off", None));
    assert!(balancers.end_override(id));
    assert_eq!(reached(&balancers.get("users").unwrap()).await, "abcd");
    let bad =
        balancers.override_with(Override::drain_host("a").of_service("a b/c").lasting(hour).because("x"));
    assert!(bad.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_override_before_the_first_look_up_waits_for_a_runtime_and_ends_all_the_same() {
    let lb = LoadBalancer::builder(chain(Pull::always("a b", Duration::ZERO)).build().unwrap()).build();
    lb.override_with(Override::drain_instance("a").lasting(Duration::from_secs(30)).because("x")).unwrap();
    assert_eq!(reached(&lb).await, "b");
    advance(30.0).await;
    settle().await;
    assert_eq!(reached(&lb).await, "ab");
    // Nobody drains who is down, and a new list is marked too.
    let lb = LoadBalancer::builder(
        chain(Pull::timed(|at| Ok(list(if at < 10.0 { "a b" } else { "a b c" })))).build().unwrap(),
    )
    .build();
    lb.override_with(Override::drain_instance("c").lasting(Duration::from_secs(300)).because("x")).unwrap();
    assert_eq!(reached(&lb).await, "ab");
    advance(40.0).await;
    assert_eq!(reached(&lb).await, "ab");
    settle().await;
    assert_eq!((reached(&lb).await, lb.snapshot().unwrap().known()), ("ab".into(), 3));
}
