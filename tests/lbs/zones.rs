//! Zones in proportion, weights of zones, and both together with everything else that narrows a list.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel::config::{Format, LiveProperties, LoadBalancerProperties, Preset, Properties, ZoneMode};
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::policy::{
    HashKey, LeastRequest, Maglev, PeakEwma, Policy, RandomPick, Rendezvous, RingHash, RoundRobin,
};
use evenkeel::supplier::{OwnFleet, Subset, WeightsStage, ZoneOff, ZonePreference, ZoneUse};
use evenkeel::{LoadBalancer, LoadBalancers, Request, RequestView, ServiceInstance, SupplierBuilder};

use crate::support::*;

/// So many instances of each of the zones a, b and c: `a0`, `a1` and so on.
pub fn zoned(counts: &[usize]) -> Vec<ServiceInstance> {
    let of = |(zone, count): (&str, &usize)| {
        (0..*count)
            .map(|n| instance(&format!("{zone}{n}")).to_builder().zone(zone.to_uppercase()).build().unwrap())
            .collect::<Vec<_>>()
    };
    ["a", "b", "c"].into_iter().zip(counts).flat_map(of).collect()
}

fn fleet(counts: &[u64]) -> OwnFleet {
    OwnFleet::fixed(["a", "b", "c"].into_iter().zip(counts.iter().copied()))
}

fn in_proportion(zone: &str, clients: &[u64]) -> impl Fn(SupplierBuilder) -> SupplierBuilder {
    let (zone, fleet) = (ZonePreference::new(zone).with_mode(ZoneMode::Proportional), fleet(clients));
    move |chain| chain.with_zone_preference(zone.clone()).with_own_fleet(fleet.clone())
}

/// What the first letters of the ids are in a hundred.
#[allow(clippy::cast_precision_loss)]
fn by_zone(picked: &[String]) -> BTreeMap<char, f64> {
    let mut all = BTreeMap::new();
    for id in picked {
        *all.entry(id.chars().next().unwrap()).or_default() += 100.0 / picked.len() as f64;
    }
    all
}

#[track_caller]
fn close(is: &BTreeMap<char, f64>, expected: &[f64], within: f64) {
    for (zone, expected) in ['a', 'b', 'c'].iter().zip(expected) {
        let is = is.get(zone).copied().unwrap_or_default();
        assert!((is - expected).abs() <= within, "{zone}: {is}, not {expected}");
        assert!(*expected > 0.0 || is == 0.0, "{zone} gets {is}");
    }
}

fn reason(lb: &LoadBalancer) -> Option<ZoneOff> {
    lb.snapshot().unwrap().distribution().unwrap().zones_off().cloned()
}

#[tokio::test(start_paused = true)]
#[allow(clippy::cast_precision_loss)]
async fn lbs_the_table_of_zones_pick_by_pick() {
    let table: [(&[u64], &[usize], f64, f64); 6] = [
        (&[4, 4, 2], &[5, 10, 5], 15.0, 65.0),
        (&[6, 3, 1], &[3, 3, 4], 30.0, 69.0),
        (&[4, 1, 1], &[1, 4, 1], 50.0, 75.0),
        (&[5, 5, 0], &[4, 4, 2], 20.0, 60.0),
        (&[20, 10, 10], &[10, 10, 10], 16.667, 66.667),
        (&[4, 1], &[1, 4], 60.0, 68.0),
    ];
    for (clients, servers, across, plain) in table {
        let all: usize = servers.iter().sum();
        let total: u64 = clients.iter().sum();
        // A whole number of periods of every table here.
        let n = 2_400;
        let mut load: BTreeMap<String, f64> = BTreeMap::new();
        let (mut crossing, mut crossing_plain) = (0.0, 0.0);
        for (zone, count) in ["a", "b", "c"].into_iter().zip(clients).filter(|(_, count)| **count > 0) {
            let part = *count as f64 / total as f64;
            let min = ZonePreference::new(zone).with_mode(ZoneMode::Proportional).with_min_cluster_size(5);
            let chain =
                |chain: SupplierBuilder| chain.with_zone_preference(min).with_own_fleet(fleet(clients));
            let lb = fixed(zoned(servers), chain, RoundRobin::default());
            let picked = picks(&lb, n).await;
            for (id, count) in tally(&picked) {
                *load.entry(id).or_default() += part * count as f64 / n as f64;
            }
            let elsewhere =
                |picked: &[String]| picked.iter().filter(|id| !id.starts_with(zone)).count() as f64;
            crossing += part * elsewhere(&picked) * 100.0 / n as f64;
            let picked = picks(&fixed(zoned(servers), |chain| chain, RoundRobin::default()), n).await;
            crossing_plain += part * elsewhere(&picked) * 100.0 / n as f64;
        }
        assert!((crossing - across).abs() < 0.1, "{clients:?} {servers:?}: {crossing}");
        assert!((crossing_plain - plain).abs() < 0.1, "{clients:?} {servers:?}: {crossing_plain}");
        assert_eq!(load.len(), all);
        for (id, load) in load {
            assert!((load * all as f64 - 1.0).abs() < 0.001, "{clients:?} {servers:?}: {id} has {load}");
        }
    }
    // All or nothing, in the first row: 40 % of the traffic goes to a quarter of the servers.
    let chain = |chain: SupplierBuilder| chain.with_zone_preference("a");
    let picked = picks(&fixed(zoned(&[5, 10, 5]), chain, RoundRobin::default()), 100).await;
    close(&by_zone(&picked), &[100.0, 0.0, 0.0], 0.0);
}

#[tokio::test(start_paused = true)]
async fn lbs_every_policy_honours_the_parts_of_zones() {
    let policies: [(Arc<dyn Policy>, f64); 5] = [
        (Arc::new(RoundRobin::default()), 0.1),
        (Arc::new(RandomPick), 2.0),
        (Arc::new(RingHash::new(HashKey::attribute("user"))), 8.0),
        (Arc::new(Maglev::new(HashKey::attribute("user"))), 2.0),
        (Arc::new(Rendezvous::new(HashKey::attribute("user"))), 2.0),
    ];
    for (policy, within) in policies {
        let chain = in_proportion("a", &[20, 10, 10])(chain(Live::new(zoned(&[10, 10, 10])).source()));
        let lb = LoadBalancer::builder(chain.build().unwrap()).policy_arc(Arc::clone(&policy)).build();
        let mut picked = Vec::new();
        for user in 0..6_000 {
            picked.push(pick_for(&lb, &Request::of(&User(user.to_string()))).await);
        }
        close(&by_zone(&picked), &[66.667, 16.667, 16.667], within);
        assert_eq!(tally(&picked).len(), 30, "{}", policy.name());
    }
    // Of two draws the less loaded one per weight: while nothing is in flight the draws decide.
    for policy in [Arc::new(LeastRequest) as Arc<dyn Policy>, Arc::new(PeakEwma::default())] {
        let chain = in_proportion("a", &[20, 10, 10])(chain(Live::new(zoned(&[10, 10, 10])).source()));
        let lb = LoadBalancer::builder(chain.build().unwrap()).policy_arc(policy).build();
        // All stay in flight, so that loads over weights must even out.
        let mut held = Vec::new();
        for _ in 0..3_000 {
            held.push(lb.choose(&Request::EMPTY).await.unwrap());
        }
        let ids: Vec<String> = held.iter().map(|choice| choice.instance().id().to_owned()).collect();
        close(&by_zone(&ids), &[66.667, 16.667, 16.667], 4.0);
    }
}

struct User(String);

impl RequestView for User {
    fn attribute(&self, name: &str) -> Option<&str> {
        (name == "user").then_some(&self.0)
    }
    fn header(&self, name: &str) -> Option<&str> {
        name.eq_ignore_ascii_case("X-SC-LB-Hint").then_some(&self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn lbs_weights_of_zones_with_every_hash() {
    let user = || HashKey::attribute("user");
    let policies: [(Arc<dyn Policy>, f64); 4] = [
        (Arc::new(RoundRobin::default()), 0.1),
        (Arc::new(RingHash::new(user())), 8.0),
        (Arc::new(Maglev::new(user())), 1.5),
        (Arc::new(Rendezvous::new(user())), 1.5),
    ];
    for (policy, within) in policies {
        let live = Live::new(zoned(&[10, 10, 4]));
        let chain = chain(live.source()).with_zone_weights([("A", 1), ("b", 3)]);
        let lb = LoadBalancer::builder(chain.build().unwrap()).policy_arc(policy).build();
        let mut picked = Vec::new();
        for n in 0..6_000 {
            picked.push(pick_for(&lb, &Request::of(&User(n.to_string()))).await);
        }
        close(&by_zone(&picked), &[25.0, 75.0, 0.0], within);
    }
}

#[tokio::test(start_paused = true)]
async fn lbs_the_order_of_builder_calls_does_not_count() {
    type Call = fn(SupplierBuilder) -> SupplierBuilder;
    let calls: [Call; 7] = [
        |chain| chain.with_zone_preference(ZonePreference::new("a").with_mode(ZoneMode::Proportional)),
        |chain| chain.with_own_fleet(OwnFleet::fixed([("a", 20), ("b", 10), ("c", 10)])),
        |chain| chain.with_priorities(),
        |chain| chain.with_panic_threshold(50),
        |chain| chain.with_weights(),
        |chain| chain.with_subset(Subset::of_size(12).with_ordinal(3)),
        |chain| chain.with_hints(),
    ];
    let mut list = zoned(&[10, 10, 10]);
    list[0] = list[0].to_builder().with_metadata("weight", "3").build().unwrap();
    list.push(instance("z").to_builder().zone("c").priority(1).build().unwrap());
    let mut all = Vec::new();
    for turn in 0..calls.len() {
        for back in [false, true] {
            let mut order: Vec<Call> = calls[turn..].iter().chain(&calls[..turn]).copied().collect();
            if back {
                order.reverse();
            }
            let shape = |chain| order.into_iter().fold(chain, |chain, call| call(chain));
            let lb = fixed(list.clone(), shape, RoundRobin::starting_at(0));
            all.push(picks(&lb, 300).await);
        }
    }
    assert!(all.windows(2).all(|two| two[0] == two[1]));
    assert!(tally(&all[0]).len() > 1);
}

#[tokio::test(start_paused = true)]
async fn lbs_pairs_of_stages() {
    let n = 1_200;
    // With weights: a zone's part is divided by them. Zone a has 5 of 15 by weight and half of the clients.
    let mut list = zoned(&[4, 10]);
    list[0] = list[0].to_builder().with_metadata("weight", "2").build().unwrap();
    let shape = |chain: SupplierBuilder| in_proportion("a", &[5, 5])(chain.with_weights());
    let picked = picks(&fixed(list.clone(), shape, RoundRobin::default()), n).await;
    close(&by_zone(&picked), &[66.667, 33.333], 0.1);
    assert_eq!(count(&picked, "a0"), 2 * count(&picked, "a1"));
    // With weights off they do not count, as ever.
    let shape =
        |chain: SupplierBuilder| in_proportion("a", &[5, 5])(chain.with_weights_stage(WeightsStage::off()));
    let picked = picks(&fixed(list, shape, RoundRobin::default()), 1_400).await;
    close(&by_zone(&picked), &[57.143, 42.857], 0.1);
    assert_eq!(count(&picked, "a0"), count(&picked, "a1"));
    // A subset: the parts of the zones go to its members there.
    let shape = |chain: SupplierBuilder| in_proportion("a", &[20, 10, 10])(chain.with_subset(9));
    let lb = fixed(zoned(&[10, 10, 10]), shape, RoundRobin::default());
    let picked = picks(&lb, 3_600).await;
    let (of, members) = (by_zone(&picked), tally(&picked));
    assert_eq!(members.len(), 9);
    let zones: Vec<char> = of.keys().copied().collect();
    let all: f64 = zones.iter().map(|zone| if *zone == 'a' { 4.0 } else { 1.0 }).sum();
    for (zone, percent) in &of {
        let part = if *zone == 'a' { 4.0 } else { 1.0 };
        assert!((percent - part / all * 100.0).abs() < 0.2, "{of:?}");
    }
    // Hints: each group is divided by its own instances. The one of the hint is in zones b and c alone.
    let mut list = zoned(&[6, 6, 6]);
    for one in &mut list[9..15] {
        *one = one.to_builder().with_metadata("hint", "blue").build().unwrap();
    }
    let shape = |chain: SupplierBuilder| in_proportion("a", &[8, 2, 2])(chain.with_hints());
    let lb = fixed(list, shape, RoundRobin::default());
    let blue = User("blue".to_owned());
    let mut picked = Vec::new();
    for _ in 0..n {
        picked.push(pick_for(&lb, &Request::of(&blue)).await);
    }
    close(&by_zone(&picked), &[0.0, 50.0, 50.0], 0.1);
    close(&by_zone(&picks(&lb, n).await), &[50.0, 25.0, 25.0], 0.1);
    // All or nothing with priorities: inside a priority, so that the first one of another zone comes before the second one
    // of the own.
    let list = vec![
        instance("b0").to_builder().zone("b").build().unwrap(),
        instance("c0").to_builder().zone("c").build().unwrap(),
        instance("a0").to_builder().zone("a").priority(1).build().unwrap(),
    ];
    let shape = |chain: SupplierBuilder| chain.with_priorities().with_zone_preference("a");
    let picked = picks(&fixed(list, shape, RoundRobin::default()), 20).await;
    even(&picked, "b0 c0", 10, 0);
}

#[tokio::test(start_paused = true)]
async fn lbs_a_fleet_or_a_list_that_changes_moves_the_parts() {
    let fleet = fleet(&[4, 4, 2]);
    let live = Live::new(zoned(&[5, 10, 5]));
    let zone = ZonePreference::new("a").with_mode(ZoneMode::Proportional);
    let lb = over(
        chain(live.source()).with_zone_preference(zone).with_own_fleet(fleet.clone()),
        RoundRobin::default(),
    );
    close(&by_zone(&picks(&lb, 800).await), &[62.5, 25.0, 12.5], 0.1);
    let version = lb.snapshot().unwrap().version();
    // The same again changes nothing, another fleet does, without a new list.
    fleet.set([("A", 4), ("B", 4), ("C", 2)]);
    settle().await;
    assert_eq!(lb.snapshot().unwrap().version(), version);
    fleet.set([("a", 2), ("b", 4), ("c", 2)]);
    settle().await;
    close(&by_zone(&picks(&lb, 800).await), &[100.0, 0.0, 0.0], 0.0);
    fleet.set([("a", 4), ("b", 4), ("c", 2)]);
    // The same instances in another order are no change; another list is.
    settle().await;
    let version = lb.snapshot().unwrap().version();
    live.set(zoned(&[5, 10, 5]).into_iter().rev().collect()).await;
    assert_eq!(lb.snapshot().unwrap().version(), version);
    live.set(zoned(&[10, 5, 5])).await;
    close(&by_zone(&picks(&lb, 800).await), &[100.0, 0.0, 0.0], 0.0);
    live.set(zoned(&[2, 2, 1])).await;
    assert_eq!(reason(&lb), None, "five of six are enough once it is on");
    live.set(zoned(&[2, 2])).await;
    assert_eq!(reason(&lb), Some(ZoneOff::TooFewServers { usable: 4, least: 6 }));
    close(&by_zone(&picks(&lb, 400).await), &[50.0, 50.0, 0.0], 0.1);
}

#[tokio::test(start_paused = true)]
async fn lbs_when_the_own_zone_is_gone_its_traffic_goes_where_room_is() {
    let live = Live::new(zoned(&[2, 4, 4]));
    let lb = over(in_proportion("a", &[4, 4, 2])(chain(live.source())), RoundRobin::default());
    close(&by_zone(&picks(&lb, 800).await), &[50.0, 0.0, 50.0], 0.1);
    live.set(zoned(&[0, 4, 4])).await;
    close(&by_zone(&picks(&lb, 800).await), &[0.0, 25.0, 75.0], 0.1);
    // An attempt goes on in other zones when the own one does not answer.
    live.set(zoned(&[8, 1, 1])).await;
    let mut tried = evenkeel::Tried::default();
    let mut seen = String::new();
    for _ in 0..10 {
        let choice = lb.choose(&Request::EMPTY.with_tried(&tried)).await.unwrap();
        seen.push_str(&choice.instance().id()[..1]);
        tried.add(&choice);
    }
    assert_eq!((&seen[..8], seen.len()), ("aaaaaaaa", 10));
    assert!(seen.contains('b') && seen.contains('c'));
}

#[tokio::test(start_paused = true)]
async fn lbs_a_group_without_anybody_usable_is_not_there() {
    let probe = Fake::new();
    let check = || evenkeel::health::HealthCheck::new(probe.clone());
    let mut list = zoned(&[3, 3]);
    list[0] = list[0].to_builder().with_metadata("hint", "blue").build().unwrap();
    probe.set("a0", Some(0), false);
    for panic in [0, 50] {
        let chain = chain(Live::new(list.clone()).source());
        let chain =
            chain.with_hints().with_health_checks(check()).with_panic_threshold(panic).with_priorities();
        let lb = over(chain, RoundRobin::default());
        pick(&lb).await;
        advance(1.0).await;
        let mut picked = Vec::new();
        for _ in 0..20 {
            picked.push(pick_for(&lb, &Request::of(&User("blue".to_owned()))).await);
        }
        even(&picked, "a1 a2 b0 b1 b2", 4, 1);
    }
}

#[test]
fn lbs_what_cannot_work_is_refused_with_the_reason() {
    type Call = fn(SupplierBuilder) -> SupplierBuilder;
    for (call, why) in [
        ((|chain| chain.with_panic_threshold(101)) as Call, "panic-threshold is 101 percent"),
        (|chain| chain.with_overprovisioning_factor(0.9), "overprovisioning-factor is 90 percent"),
        (|chain| chain.with_overprovisioning_factor(f64::NAN), "overprovisioning-factor is 0 percent"),
        (|chain| chain.with_zone_weights([("a", 0)]), "none is above 0"),
        (|chain| chain.with_zone_weights([(" ", 1)]), "without a name"),
        (
            |chain| chain.with_zone_weights([("a", 1)]).with_zone_preference(ZonePreference::proportional()),
            "both say what a zone gets",
        ),
        (
            |chain| chain.with_zone_preference(ZonePreference::proportional().with_min_local_instances(2)),
            "guards of all or nothing",
        ),
        (
            |chain| chain.with_zone_preference(ZonePreference::proportional().with_max_share(2.0)),
            "guards of all or nothing",
        ),
        (
            |chain| chain.with_zone_preference(ZonePreference::proportional().with_min_cluster_size(0)),
            "min-cluster-size is 0",
        ),
        (
            |chain| chain.with_own_service_id("a/b").with_zone_preference(ZonePreference::proportional()),
            "own-service-id",
        ),
    ] {
        let error = call(chain(SimpleDiscovery::new())).build().unwrap_err();
        assert!(error.reason().contains(why), "{error}, not {why}");
    }
}

fn yaml(text: &str) -> Properties {
    Properties::parse(text, Format::Yaml, "application.yml").unwrap()
}

#[tokio::test(start_paused = true)]
async fn lbs_zones_by_properties_while_calls_run() {
    let registry = SimpleDiscovery::new().with_instances("orders", zoned(&[10, 10, 10])).unwrap();
    let at = |n: usize, zone: &str| {
        ServiceInstance::builder(format!("10.1.0.{n}"))
            .port(80)
            .id(format!("c{n}"))
            .zone(zone)
            .build()
            .unwrap()
    };
    let clients =
        (0..20).map(|n| at(n, "A")).chain((20..30).map(|n| at(n, "b"))).chain((30..40).map(|n| at(n, "C")));
    registry.set(&evenkeel::ServiceId::new("checkout").unwrap(), clients);
    let properties = yaml(
        "spring.application.name: checkout\nevenkeel: {zone: a, configurations: zone-preference, zone-preference.mode: \
         proportional}",
    );
    assert_eq!(properties.effective("orders").own_service_id.as_deref(), Some("checkout"));
    let live = LiveProperties::new(properties);
    let balancers = LoadBalancers::builder(registry).live(live.clone()).build().unwrap();
    let lb = balancers.get("orders").unwrap();
    pick(&lb).await;
    settle().await;
    assert_eq!(reason(&lb), None);
    close(&by_zone(&picks(&lb, 1_200).await), &[66.667, 16.667, 16.667], 0.1);
    for (key, value, expected) in [
        ("zone-preference.mode", "all-or-nothing", &[100.0, 0.0, 0.0][..]),
        ("zone-preference.mode", "proportional", &[66.667, 16.667, 16.667]),
        ("zone-preference.min-cluster-size", "100", &[33.333, 33.333, 33.333]),
        ("zone-preference.min-cluster-size", "30", &[66.667, 16.667, 16.667]),
        ("own-service-id", "nobody", &[33.333, 33.333, 33.333]),
        ("configurations", "default", &[33.333, 33.333, 33.333]),
        ("zone-preference.weights", "a=1, B=3", &[25.0, 75.0, 0.0]),
    ] {
        live.reload(|now| now.clone().set_for("orders", key, value)).unwrap();
        settle().await;
        close(&by_zone(&picks(&lb, 1_200).await), expected, 0.1);
    }
    // What could not work leaves what is in force.
    let error =
        live.reload(|now| now.clone().set_for("orders", "zone-preference.weights", "a=-1")).unwrap_err();
    assert!(error.to_string().contains("eu-1a=3"), "{error}");
    live.reload(|now| now.clone().set_for("orders", "zone-preference.weights", "a=0")).unwrap();
    settle().await;
    close(&by_zone(&picks(&lb, 1_200).await), &[25.0, 75.0, 0.0], 0.1);
}

#[tokio::test(start_paused = true)]
async fn lbs_the_preset_of_kubernetes_needs_a_name_and_a_zone() {
    let registry = SimpleDiscovery::new().with_instances("orders", zoned(&[10, 10, 10])).unwrap();
    registry.set(&evenkeel::ServiceId::new("checkout").unwrap(), zoned(&[20, 10, 10]));
    let text =
        "spring.application.name: checkout\nevenkeel: {preset: kubernetes, zone: a, policy: round-robin}";
    let balancers = LoadBalancers::from_properties(yaml(text), registry.clone()).unwrap();
    let lb = balancers.get("orders").unwrap();
    pick(&lb).await;
    settle().await;
    close(&by_zone(&picks(&lb, 1_200).await), &[66.667, 16.667, 16.667], 0.1);
    // Without a name every instance is used, and it is said why.
    let text = "evenkeel: {preset: kubernetes, zone: a, policy: round-robin}";
    let balancers = LoadBalancers::from_properties(yaml(text), registry).unwrap();
    let lb = balancers.get("orders").unwrap();
    close(&by_zone(&picks(&lb, 1_200).await), &[33.333, 33.333, 33.333], 0.1);
    assert_eq!(reason(&lb), Some(ZoneOff::NoOwnFleet));
}

#[test]
fn lbs_presets_and_properties() {
    let of = |preset| {
        let p = LoadBalancerProperties::for_preset(preset);
        (p.zone_preference.mode, p.panic_threshold, p.overprovisioning_factor.to_string())
    };
    assert_eq!(of(Preset::Spring), (ZoneMode::AllOrNothing, 0, "1.4".to_owned()));
    assert_eq!(of(Preset::Modern), (ZoneMode::AllOrNothing, 50, "1.4".to_owned()));
    assert_eq!(of(Preset::Kubernetes), (ZoneMode::Proportional, 50, "1.4".to_owned()));
    let map = yaml("evenkeel.zone-preference: {weights: {EU-1a: 3, eu-1b: 1}, min-cluster-size: 9}");
    let list = yaml("evenkeel.zonePreference.weights: eu-1a=3, eu-1b = 1");
    let weights = [("eu-1a".to_owned(), 3), ("eu-1b".to_owned(), 1)].into();
    assert_eq!(map.warnings(), []);
    assert_eq!(map.effective("x").zone_preference.weights, weights);
    assert_eq!(map.effective("x").zone_preference.min_cluster_size, 9);
    assert_eq!(list.effective("x").zone_preference.weights, weights);
    let variables = [("EVENKEEL_ZONEPREFERENCE_WEIGHTS", "eu-1a=3,eu-1b=1")];
    let variables = Properties::default().with_environment(variables).unwrap();
    assert_eq!(variables.effective("x").zone_preference.weights, list.effective("x").zone_preference.weights);
    for properties in [&map, &list] {
        let report = properties.report("x");
        let entry = report.get("zone-preference.weights").unwrap();
        assert_eq!(entry.value, "eu-1a=3, eu-1b=1");
        assert!(entry.origin.to_string().starts_with("application.yml"), "{}", entry.origin);
    }
    for (key, value, allowed) in [
        ("zone-preference.mode", "some", "all-or-nothing or proportional"),
        ("zone-preference.min-cluster-size", "0", "1 or larger"),
        ("zone-preference.weights", "a", "eu-1a=3"),
        ("panic-threshold", "101", "0 to 100"),
        ("panic-threshold", "-1", "0 to 100"),
        ("overprovisioning-factor", "0.5", "1 to 100"),
        ("overprovisioning-factor", "NaN", "1 to 100"),
    ] {
        let error = Properties::default().set_for("orders", key, value).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains(allowed), "{key}: {error}");
    }
    let good = Properties::default().set("panic-threshold", "40%").unwrap();
    assert_eq!(good.effective("x").panic_threshold, 40);
}

#[tokio::test(start_paused = true)]
async fn lbs_the_report_says_who_gets_what() {
    let lb = fixed(zoned(&[10, 10, 10]), in_proportion("A", &[20, 10, 10]), RoundRobin::default());
    pick(&lb).await;
    let snapshot = lb.snapshot().unwrap();
    let [only] = snapshot.distribution().unwrap().priorities() else { panic!("one priority") };
    let ZoneUse::Proportional { own, shares } = &only.zones else { panic!("{only:?}") };
    let of: Vec<_> = shares
        .iter()
        .map(|of| (of.zone.as_str(), of.instances, of.clients, (of.share * 6.0).round()))
        .collect();
    assert_eq!(own, "a");
    assert_eq!(of, [("a", 10, Some(20), 4.0), ("b", 10, Some(10), 1.0), ("c", 10, Some(10), 1.0)]);
    // Without any of it there is nothing to say.
    let lb = fixed(zoned(&[1]), |chain| chain, RoundRobin::default());
    pick(&lb).await;
    assert!(lb.snapshot().unwrap().distribution().is_none());
}
