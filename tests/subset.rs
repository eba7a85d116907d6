//! Subsets in a balancer: inside groups and zones, behind health checks, and whom the prober asks.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::config::{Properties, SubsetAlgorithm};
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::health::{HealthCheck, HealthProbe, ProbeError};
use evenkeel::policy::RoundRobin;
use evenkeel::supplier::{
    Groups, MetadataRoute, RequestStage, Selection, StickySession, Subset, ZonePreference,
};
use evenkeel::{
    Failure, HttpView, LoadBalancer, LoadBalancers, Outcome, Request, ServiceInstance, SupplierBuilder,
    Tried, async_trait,
};
use support::*;

/// In so many seconds everybody is probed: the pause of 10 s, and a quarter of it over which a round is spread.
const ROUND: f64 = 13.0;

fn numbered(n: usize) -> Vec<ServiceInstance> {
    (0..n).map(|at| instance(&format!("i{at:03}"))).collect()
}

fn tagged(n: usize, key: &str, values: &[&str]) -> Vec<ServiceInstance> {
    let tag = |(at, instance): (usize, ServiceInstance)| {
        instance.to_builder().with_metadata(key, values[at % values.len()]).build().unwrap()
    };
    numbered(n).into_iter().enumerate().map(tag).collect()
}

fn members(lb: &LoadBalancer) -> BTreeSet<String> {
    lb.snapshot().unwrap().instances().map(|state| state.instance().id().to_owned()).collect()
}

/// Notes whom it asks; who is in `dead` fails.
#[derive(Clone, Debug, Default)]
struct Probe {
    asked: Arc<Mutex<BTreeMap<String, usize>>>,
    dead: Arc<Mutex<BTreeSet<String>>>,
}

impl Probe {
    fn kill<'a>(&self, ids: impl IntoIterator<Item = &'a String>) {
        self.dead.lock().unwrap().extend(ids.into_iter().cloned());
    }
    fn revive(&self) {
        self.dead.lock().unwrap().clear();
    }
    /// Who was asked since the last time.
    fn asked(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.asked.lock().unwrap()).into_keys().collect()
    }
    fn check(&self) -> HealthCheck {
        HealthCheck::new(self.clone()).with_interval(Duration::from_secs(10))
    }
}

#[async_trait]
impl HealthProbe for Probe {
    async fn check(&self, instance: &ServiceInstance) -> Result<(), ProbeError> {
        *self.asked.lock().unwrap().entry(instance.id().to_owned()).or_default() += 1;
        if self.dead.lock().unwrap().contains(instance.id()) { Err(ProbeError::new("dead")) } else { Ok(()) }
    }
}

fn subsets() -> [Subset; 3] {
    let named = Subset::of_size(5).with_client("client-1");
    [named.clone(), Subset::of_size(5).with_ordinal(3), named.with_algorithm(SubsetAlgorithm::Spring)]
}

#[tokio::test(start_paused = true)]
async fn only_the_members_are_probed_and_one_that_fails_is_replaced_and_comes_back() {
    for subset in subsets() {
        let probe = Probe::default();
        let live = Live::new(numbered(40));
        let chain = chain(live.source()).with_subset(subset.clone()).with_health_checks(probe.check());
        let lb = over(chain, RoundRobin::default());
        pick(&lb).await;
        advance(1.0).await;
        let first = members(&lb);
        assert_eq!((first.len(), probe.asked()), (5, first.clone()), "{subset:?}");
        advance(25.0).await;
        assert_eq!((members(&lb), probe.asked()), (first.clone(), first.clone()), "{subset:?}");
        // One of them dies: another one is in its place and is probed at once; the dead one is asked again.
        let dead: BTreeSet<String> = first.iter().take(1).cloned().collect();
        probe.kill(&dead);
        advance(21.0).await;
        let second = members(&lb);
        assert_eq!((second.len(), second.is_disjoint(&dead)), (5, true), "{subset:?}");
        probe.asked();
        advance(ROUND).await;
        let asked = probe.asked();
        assert!(asked.is_superset(&second) && asked.is_superset(&dead), "{asked:?} of {subset:?}");
        assert!(asked.len() <= 10, "the dead and the members: {asked:?} of {subset:?}");
        probe.revive();
        advance(21.0).await;
        assert_eq!(members(&lb), first, "{subset:?}");
        probe.asked();
        advance(ROUND).await;
        assert_eq!(probe.asked(), first, "{subset:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subset_stays_full_while_many_are_dead_and_all_dead_are_watched_who_would_be_in_it() {
    let probe = Probe::default();
    let live = Live::new(numbered(40));
    let subset = Subset::of_size(3).with_client("client-1");
    let order = |without: &BTreeSet<String>| {
        let list = numbered(40).into_iter().filter(|i| !without.contains(i.id())).collect();
        let lb = fixed(list, |chain| chain.with_subset(subset.clone()), RoundRobin::default());
        async move {
            lb.ready().await.unwrap();
            members(&lb)
        }
    };
    let mut dead = BTreeSet::new();
    for _ in 0..4 {
        dead.extend(order(&dead).await);
    }
    assert_eq!(dead.len(), 12);
    probe.kill(&dead);
    let lb = over(
        chain(live.source()).with_subset(subset.clone()).with_health_checks(probe.check()),
        RoundRobin::default(),
    );
    pick(&lb).await;
    advance(60.0).await;
    let left = members(&lb);
    assert_eq!(left, order(&dead).await);
    probe.asked();
    advance(ROUND).await;
    assert_eq!(probe.asked(), dead.union(&left).cloned().collect());
    // Everybody is dead: then everybody was asked, and all count.
    probe.kill(numbered(40).iter().map(|i| i.id().to_owned()).collect::<Vec<_>>().iter());
    advance(300.0).await;
    pick(&lb).await;
    assert_eq!(members(&lb), order(&BTreeSet::new()).await);
}

#[tokio::test(start_paused = true)]
async fn whoever_serves_is_probed_though_one_who_failed_would_be_no_member_any_more() {
    for (at, subset) in subsets().into_iter().enumerate() {
        for grown in 41..60 {
            let probe = Probe::default();
            let live = Live::new(numbered(40));
            let chain = chain(live.source()).with_subset(subset.clone()).with_health_checks(probe.check());
            let lb = over(chain, RoundRobin::default());
            pick(&lb).await;
            advance(1.0).await;
            let dead: BTreeSet<String> = members(&lb).into_iter().take(2).collect();
            probe.kill(&dead);
            advance(ROUND).await;
            pick(&lb).await;
            // With the newcomers the dead ones may stand outside the subset; they are out of the list all the same.
            live.set(numbered(grown)).await;
            advance(ROUND).await;
            probe.asked();
            advance(ROUND).await;
            let (serving, asked) = (members(&lb), probe.asked());
            assert_eq!(serving.len(), 5);
            assert!(serving.is_subset(&asked), "{serving:?} serve, {asked:?} are asked ({at}, {grown})");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_serves_is_probed_in_whatever_order_the_registry_tells_them() {
    for subset in subsets() {
        let probe = Probe::default();
        let live = Live::new(numbered(40));
        let chain = chain(live.source()).with_subset(subset.clone()).with_health_checks(probe.check());
        let lb = over(chain, RoundRobin::default());
        pick(&lb).await;
        advance(1.0).await;
        let mut list = numbered(43);
        list.reverse();
        live.set(list).await;
        pick(&lb).await;
        advance(ROUND).await;
        probe.asked();
        advance(ROUND).await;
        assert_eq!(probe.asked(), members(&lb), "{subset:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn groups_have_subsets_of_their_own_and_all_of_them_are_probed() {
    let probe = Probe::default();
    let list = tagged(60, "hint", &["blue", "green", ""]).into_iter().enumerate().map(|(at, instance)| {
        instance.to_builder().with_metadata("version", ["1", "2"][at / 3 % 2]).build().unwrap()
    });
    let live = Live::new(list.collect());
    let chain = chain(live.source())
        .with_hints()
        .with_metadata_route(MetadataRoute::by("version").header("v"))
        .with_subset(Subset::of_size(4).with_client("c"));
    let lb = over(chain.with_health_checks(probe.check()), RoundRobin::default());
    let mut seen = BTreeSet::new();
    for hint in [None, Some("blue"), Some("green")] {
        for version in [None, Some("1"), Some("2")] {
            let group = members_of(&lb, hint, version).await;
            assert_eq!(group.len(), 4, "{hint:?} {version:?}: {group:?}");
            seen.extend(group);
        }
    }
    assert!(seen.len() < 36, "a group's members are often the whole list's, too: {}", seen.len());
    probe.asked();
    advance(20.0).await;
    assert_eq!(probe.asked(), seen);
}

/// Names the group of every second instance twice, and in the reverse order.
#[derive(Debug)]
struct Stammering;

impl RequestStage for Stammering {
    fn name(&self) -> &'static str {
        "stammering"
    }
    fn groups(&self, _: &ServiceInstance, emit: &mut dyn FnMut(&str)) {
        emit("all");
    }
    fn groups_of(&self, list: &[&ServiceInstance], emit: &mut dyn FnMut(usize, &str)) {
        for at in (0..list.len()).rev().filter(|at| at % 2 == 0) {
            emit(at, "half");
            emit(at, "half");
        }
    }
    fn select(&self, _: &Request<'_>, groups: &Groups) -> Selection {
        groups.find("half").into()
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_whose_members_are_named_twice_is_probed_whole() {
    for subset in subsets() {
        let probe = Probe::default();
        let live = Live::new(numbered(40));
        let chain = chain(live.source()).with_subset(subset.clone()).with_request_stage(Stammering);
        let lb = over(chain.with_health_checks(probe.check()), RoundRobin::default());
        pick(&lb).await;
        advance(1.0).await;
        let serving = members_of(&lb, None, None).await;
        let asked = probe.asked();
        assert_eq!(serving.len(), 5);
        assert!(serving.is_subset(&asked), "{serving:?} serve, {asked:?} are asked ({subset:?})");
    }
}

/// Whom 60 requests of this hint and version see.
async fn members_of(lb: &LoadBalancer, hint: Option<&str>, version: Option<&str>) -> BTreeSet<String> {
    let mut request = http::Request::builder();
    for (name, value) in [("x-sc-lb-hint", hint), ("v", version)] {
        if let Some(value) = value {
            request = request.header(name, value);
        }
    }
    let request = request.body(()).unwrap();
    let view = HttpView::of(&request);
    let mut seen = BTreeSet::new();
    for _ in 0..60 {
        seen.insert(pick_for(lb, &Request::of(&view)).await);
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn a_subset_is_cut_out_of_the_own_zone_and_other_zones_are_not_probed() {
    let probe = Probe::default();
    let live = Live::new(tagged(40, "zone", &["a", "b"]));
    let chain = chain(live.source())
        .with_zone_preference(ZonePreference::new("a"))
        .with_subset(Subset::of_size(4).with_client("c"));
    let lb = over(chain.with_health_checks(probe.check()), RoundRobin::default());
    pick(&lb).await;
    advance(1.0).await;
    let own = members(&lb);
    assert_eq!((own.len(), probe.asked()), (4, own.clone()));
    let zone_a: Vec<String> = tagged(40, "zone", &["a", "b"])
        .iter()
        .filter(|i| i.zone() == Some("a"))
        .map(|i| i.id().to_owned())
        .collect();
    assert!(own.iter().all(|id| zone_a.contains(id)));
    // The whole zone fails: four of the other one take over, and are probed.
    probe.kill(&zone_a);
    advance(120.0).await;
    let other = members(&lb);
    assert_eq!((other.len(), other.iter().any(|id| zone_a.contains(id))), (4, false));
    probe.asked();
    advance(ROUND).await;
    assert_eq!(probe.asked(), zone_a.into_iter().chain(other).collect());
}

#[tokio::test(start_paused = true)]
async fn when_nobody_of_the_subset_is_left_the_rest_serves() {
    let lb = fixed(
        numbered(6),
        |chain| chain.with_subset(Subset::of_size(2).with_client("c")),
        RoundRobin::default(),
    );
    pick(&lb).await;
    let mine = members(&lb);
    for _ in 0..4 {
        let choice = lb.choose(&Request::EMPTY).await.unwrap();
        choice.complete(Outcome::Failure(Failure::Connect));
    }
    let other = pick(&lb).await;
    assert!(!mine.contains(&other), "{other} of {mine:?}");
    let mut tried = Tried::new();
    let mut all = BTreeSet::new();
    for _ in 0..6 {
        let choice = lb.choose(&Request::EMPTY.with_tried(&tried)).await.unwrap();
        all.insert(choice.instance().id().to_owned());
        tried.add(&choice);
    }
    assert_eq!(all.len(), 6, "nobody twice while another is left");
}

#[tokio::test(start_paused = true)]
async fn case_068_hints_and_sticky_work_in_front_of_a_subset() {
    for size in [4, 8] {
        let shape = |chain: SupplierBuilder| {
            chain
                .with_subset(Subset::of_size(size).with_client("c"))
                .with_sticky_session(StickySession::default())
                .with_hints()
        };
        let lb = fixed(tagged(8, "hint", &["blue", "green"]), shape, RoundRobin::default());
        for at in 0..100 {
            let hint = ["blue", "green"][at % 2];
            let choice = lb.choose(&Request::EMPTY.with_hint(hint)).await.unwrap();
            assert_eq!(choice.instance().metadata().get("hint"), Some(hint));
            advance(0.001).await;
        }
        for session in numbered(8).iter().map(ServiceInstance::id) {
            let request = http::Request::builder()
                .header("cookie", format!("sc-lb-instance-id={session}"))
                .body(())
                .unwrap();
            let view = HttpView::of(&request);
            // Also one outside the subset: its session is there.
            assert_eq!(pick_for(&lb, &Request::of(&view)).await, session);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn case_058_a_closed_balancer_probes_nobody() {
    let probe = Probe::default();
    let live = Live::new(numbered(40));
    let lb =
        over(chain(live.source()).with_subset(5).with_health_checks(probe.check()), RoundRobin::default());
    pick(&lb).await;
    advance(30.0).await;
    let clone = lb.clone();
    drop(clone);
    probe.asked();
    advance(30.0).await;
    assert_eq!(probe.asked().len(), 5, "one of two clones ends nothing");
    lb.close().await;
    probe.asked();
    advance(600.0).await;
    assert!(probe.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn case_055_verdicts_of_who_left_the_subset_are_not_kept_for_ever() {
    let probe = Probe::default();
    let live = Live::new(numbered(10));
    let lb =
        over(chain(live.source()).with_subset(3).with_health_checks(probe.check()), RoundRobin::default());
    for round in 0..50 {
        let list = (0..10).map(|at| instance(&format!("r{round}-{at}"))).collect();
        live.set(list).await;
        pick(&lb).await;
        advance(12.0).await;
        let asked = probe.asked();
        assert_eq!(asked.len(), 3, "{asked:?}");
        assert!(asked.iter().all(|id| id.starts_with(&format!("r{round}-"))), "{asked:?}");
        advance(120.0).await;
        probe.asked();
    }
    assert!(lb.tracked() <= 20, "{}", lb.tracked());
}

#[tokio::test(start_paused = true)]
async fn properties_switch_it_on_and_an_unknown_client_is_told_once() {
    let log = Log::default();
    let _captured = log.capture();
    let properties = Properties::default()
        .set("configurations", "subset")
        .and_then(|p| p.set("subset.size", "3"))
        .and_then(|p| p.set_for("named", "subset.instance-id", "client-1"))
        .and_then(|p| p.set_for("numbered", "subset.ordinal", "7"))
        .and_then(|p| p.set_for("spring", "subset.instance-id", "client-1"))
        .and_then(|p| p.set_for("spring", "subset.algorithm", "spring"))
        .unwrap();
    let mut registry = SimpleDiscovery::new();
    for name in ["named", "numbered", "spring", "nobody", "nobody-else"] {
        registry = registry.with_instances(name, numbered(20)).unwrap();
    }
    let balancers = LoadBalancers::builder(registry).properties(properties).build().unwrap();
    let expected = |subset: Subset| async move {
        let lb = fixed(numbered(20), |chain| chain.with_subset(subset), RoundRobin::default());
        lb.ready().await.unwrap();
        members(&lb)
    };
    let named = Subset::of_size(3).with_client("client-1");
    for (name, subset) in [
        ("named", named.clone()),
        ("numbered", Subset::of_size(3).with_ordinal(7)),
        ("spring", named.with_algorithm(SubsetAlgorithm::Spring)),
    ] {
        let lb = balancers.get(name).unwrap();
        lb.ready().await.unwrap();
        assert_eq!(members(&lb), expected(subset).await, "{name}");
    }
    for name in ["nobody", "nobody-else"] {
        let lb = balancers.get(name).unwrap();
        lb.ready().await.unwrap();
        assert_eq!(members(&lb).len(), 3);
    }
    assert_eq!(log.count("no id of this client is known"), 1, "{}", log.text());
}

#[test]
fn a_subset_of_nobody_is_refused() {
    let error = SupplierBuilder::new("orders").with_instances([]).with_subset(0).build().unwrap_err();
    assert!(error.to_string().contains("\"orders\"") && error.to_string().contains("size is 0"), "{error}");
}
