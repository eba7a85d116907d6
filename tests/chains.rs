//! Chains of stages: zones, hints, routes, and the stages and policies of third parties.
#![allow(clippy::unnecessary_literal_bound)] // as the trait writes it, and as its implementors do

mod support;

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::config::CacheProperties;
use evenkeel::discovery::{Lists, SupplyErrorKind};
use evenkeel::policy::{Candidates, LeastRequest, Needs, PickCx, Picker, Policy, RandomPick, RoundRobin};
use evenkeel::supplier::{
    FixedSupplier, Groups, ListStage, MetadataRoute, Rank, RequestStage, Selection,
    ServiceInstanceListSupplier, Source, StageCx, ZonePreference,
};
use evenkeel::{
    ChooseErrorKind, Failure, HttpView, InstanceState, LoadBalancer, Outcome, Reason, Request, RequestView,
    ServiceId, ServiceInstance, SupplierBuilder, Weight,
};
use support::*;

/// A request with headers, cookies and a query, as `"hint=blue"`, `"cookie:v=1"`, `"?v=1"`.
struct Parts(Vec<&'static str>);

impl Parts {
    fn value(&self, prefix: &str, name: &str) -> Option<&str> {
        self.0
            .iter()
            .filter_map(|part| part.strip_prefix(prefix)?.split_once('='))
            .find(|p| p.0 == name)
            .map(|p| p.1)
    }
}

impl RequestView for Parts {
    fn header(&self, name: &str) -> Option<&str> {
        self.value("", name)
    }
    fn cookie(&self, name: &str) -> Option<&str> {
        self.value("cookie:", name)
    }
    fn query(&self, name: &str) -> Option<Cow<'_, str>> {
        self.value("?", name).map(Cow::Borrowed)
    }
    fn attribute(&self, name: &str) -> Option<&str> {
        self.value("@", name)
    }
}

/// The ids that 40 requests with these parts see, sorted.
async fn seen(lb: &LoadBalancer, parts: &[&'static str]) -> String {
    let parts = Parts(parts.to_vec());
    let mut ids = Vec::new();
    for _ in 0..40 {
        match lb.choose(&Request::of(&parts)).await {
            Ok(choice) => ids.push(choice.instance().id().to_owned()),
            Err(error) => match error.kind() {
                ChooseErrorKind::NoInstances { reason, .. } => ids.push(format!("{reason:?}")),
                _ => panic!("{error}"),
            },
        }
    }
    ids.sort_unstable();
    ids.dedup();
    ids.join(" ")
}

// ---------------------------------------------------------------------------------------------------- zones: 010, 012

#[tokio::test(start_paused = true)]
async fn case_010_a_zone_that_is_unset_or_spelled_otherwise() {
    let zone = |id: &str, zone: &str| instance(id).to_builder().with_metadata("zone", zone).build().unwrap();
    let instances = vec![
        zone("a", "us-east-1a"),
        zone("b", "US-EAST-1A"),
        instance("c").to_builder().with_metadata("rack", "7").build().unwrap(),
        zone("d", "eu-1"),
        instance("e"),
    ];
    for (own, expected, notes) in [
        (None, "a b c d e", 0),
        (Some("us-east-1a"), "a b", 0),
        (Some(" us-east-1a "), "a b", 0),
        (Some("ap-9"), "a b c d e", 1),
        (Some(""), "a b c d e", 0),
    ] {
        let log = Log::default();
        let _guard = log.capture();
        let chain = |chain: SupplierBuilder| match own {
            Some(own) => chain.with_zone_preference(own),
            None => chain,
        };
        let lb = fixed(instances.clone(), chain, RoundRobin::default());
        let all = picks(&lb, 500).await;
        even(&all, expected, 500 / expected.split(' ').count(), 0);
        assert_eq!(log.count("no instance is in it"), notes, "{own:?}: {}", log.text());
    }
}

/// Two clients in `az1` and one in `az2`, 334 calls each, against one instance in `az1` and two in `az2`.
async fn three_clients(shape: impl Fn(ZonePreference) -> ZonePreference) -> [usize; 3] {
    let instances = with("zone", "x1=az1 y1=az2 y2=az2");
    let mut all = Vec::new();
    for own in ["az1", "az1", "az2"] {
        let zone = shape(ZonePreference::new(own));
        let chain = |chain: SupplierBuilder| chain.with_zone_preference(zone);
        all.extend(picks(&fixed(instances.clone(), chain, RoundRobin::default()), 334).await);
    }
    ["x1", "y1", "y2"].map(|id| count(&all, id))
}

#[tokio::test(start_paused = true)]
async fn case_012_without_a_guard_the_only_local_instance_takes_all() {
    assert_eq!(three_clients(|zone| zone).await, [668, 167, 167]);
}

#[tokio::test(start_paused = true)]
async fn case_012_a_guard_spreads_the_load_of_a_small_zone() {
    for counts in [
        three_clients(|zone| zone.with_min_local_instances(2)).await,
        three_clients(|zone| zone.with_max_share(2.0)).await,
    ] {
        assert!(counts[0].abs_diff(223) <= 15, "{counts:?}");
        assert!(counts.iter().all(|n| *n * 10 <= 1_002 * 4), "one gets more than 40 %: {counts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn case_012_the_client_returns_to_its_zone_when_that_has_grown() {
    let live = Live::new(with("zone", "x1=az1 y1=az2 y2=az2"));
    let zone = ZonePreference::new("az1").with_min_local_instances(2);
    let lb = over(chain(live.source()).with_zone_preference(zone), RoundRobin::default());
    even(&picks(&lb, 300).await, "x1 y1 y2", 100, 0);
    live.set(with("zone", "x1=az1 y1=az2 y2=az2 x2=az1")).await;
    even(&picks(&lb, 300).await, "x1 x2", 150, 0);
}

// -------------------------------------------------------------------------------------------------- hints: 068

fn coloured() -> Vec<ServiceInstance> {
    with("hint", "b1=blue b2=blue b3=blue b4=blue g1=green g2=green g3=green g4=green")
}

const BLUE: &str = "X-SC-LB-Hint=blue";
const GREEN: &str = "X-SC-LB-Hint=green";

/// 100 requests, blue and green in turn, 1 ms apart.
async fn alternating(lb: &LoadBalancer) {
    let (blue, green) = (Parts(vec![BLUE]), Parts(vec![GREEN]));
    let mut all = [Vec::new(), Vec::new()];
    for n in 0..100 {
        let id = pick_for(lb, &Request::of([&blue, &green][n % 2])).await;
        assert!(id.starts_with(['b', 'g'][n % 2]), "request {n} went to {id}");
        all[n % 2].push(id);
        advance(0.001).await;
    }
    even(&all[0], "b1 b2 b3 b4", 12, 1);
    even(&all[1], "g1 g2 g3 g4", 12, 1);
}

#[tokio::test(start_paused = true)]
async fn case_068_a_request_reaches_the_hint_with_any_cache() {
    let asks = || Pull::new(|_| async { Ok(coloured()) });
    let short = CacheProperties::default().with_ttl(Duration::from_millis(10));
    for chain in [
        chain(asks()).with_hints(),
        chain(asks()).with_caching(CacheProperties::default()).with_hints(),
        chain(asks()).with_hints().with_caching(CacheProperties::default()),
        chain(asks()).with_hints().with_caching(short),
        chain(asks()).without_caching().with_hints(),
        chain(Live::new(coloured()).source()).with_hints(),
    ] {
        let lb = over(chain, RoundRobin::default());
        alternating(&lb).await;
        // What one request asked for is in no list that another one sees.
        even(&picks(&lb, 80).await, "b1 b2 b3 b4 g1 g2 g3 g4", 10, 1);
        assert_eq!(seen(&lb, &["X-SC-LB-Hint=red"]).await, "b1 b2 b3 b4 g1 g2 g3 g4", "an unknown hint: all");
        assert_eq!(seen(&lb, &["X-SC-LB-Hint= "]).await, "b1 b2 b3 b4 g1 g2 g3 g4");
        alternating(&lb).await;
        assert_eq!(lb.snapshot().unwrap().version(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn case_068_the_header_comes_before_the_callers_hint_before_the_configured_one() {
    let stage = evenkeel::supplier::HintStage::default().with_header("x-colour").with_default("green");
    let lb = fixed(coloured(), |chain| chain.with_hint_stage(stage), RoundRobin::default());
    assert!(pick(&lb).await.starts_with('g'));
    assert!(pick_for(&lb, &Request::EMPTY.with_hint("blue")).await.starts_with('b'));
    let view = Parts(vec!["x-colour=blue", GREEN]);
    assert!(pick_for(&lb, &Request::of(&view).with_hint("green")).await.starts_with('b'));
}

/// Two colours in two zones with weights 1 and 3 each.
fn everything() -> Vec<ServiceInstance> {
    let mut all = Vec::new();
    for hint in ["blue", "green"] {
        for zone in ["z1", "z2"] {
            for weight in ["1", "3"] {
                let id = format!("{hint}-{zone}-{weight}");
                let builder = instance(&id).to_builder().zone(zone).with_metadata("hint", hint);
                all.push(builder.with_metadata("weight", weight).build().unwrap());
            }
        }
    }
    all
}

#[tokio::test(start_paused = true)]
async fn case_068_hint_zone_and_weights_at_once() {
    let shape = |chain: SupplierBuilder| chain.with_hints().with_zone_preference("z1").with_weights();
    let lb = fixed(everything(), shape, RoundRobin::default());
    let mut all = [Vec::new(), Vec::new(), Vec::new()];
    let (blue, green, none) = (Parts(vec![BLUE]), Parts(vec![GREEN]), Parts(vec![]));
    for _ in 0..400 {
        for (picks, view) in all.iter_mut().zip([&blue, &green, &none]) {
            picks.push(pick_for(&lb, &Request::of(view)).await);
        }
    }
    let shares = |n: usize| tally(&all[n]).into_iter().collect::<Vec<_>>();
    let of = |pairs: &[(&str, usize)]| pairs.iter().map(|(id, n)| ((*id).to_owned(), *n)).collect::<Vec<_>>();
    assert_eq!(shares(0), of(&[("blue-z1-1", 100), ("blue-z1-3", 300)]));
    assert_eq!(shares(1), of(&[("green-z1-1", 100), ("green-z1-3", 300)]));
    assert_eq!(
        shares(2),
        of(&[("blue-z1-1", 50), ("blue-z1-3", 150), ("green-z1-1", 50), ("green-z1-3", 150)])
    );
    // The zone applies inside the colour: a colour that has nobody in the zone is served from the other.
    let away: Vec<_> = everything().into_iter().filter(|i| !i.id().starts_with("blue-z1")).collect();
    let lb = fixed(away, shape, RoundRobin::default());
    assert_eq!(seen(&lb, &[BLUE]).await, "blue-z2-1 blue-z2-3");
    assert_eq!(seen(&lb, &[GREEN]).await, "green-z1-1 green-z1-3");
}

#[tokio::test(start_paused = true)]
async fn case_068_two_request_stages_narrow_one_inside_the_other() {
    let with_version = |id: &str, hint: &str, version: &str| {
        let builder = instance(id).to_builder().with_metadata("hint", hint);
        builder.with_metadata("version", version).build().unwrap()
    };
    let instances = vec![
        with_version("b1", "blue", "1"),
        with_version("b2", "blue", "2"),
        with_version("g1", "green", "1"),
        with_version("g3", "green", "3"),
    ];
    let shape = |chain: SupplierBuilder| {
        chain.with_metadata_route(MetadataRoute::by("version").header("v")).with_hints()
    };
    let lb = fixed(instances.clone(), shape, RoundRobin::default());
    for (parts, expected) in [
        (&[BLUE, "v=2"][..], "b2"),
        (&[GREEN, "v=1"], "g1"),
        (&[BLUE], "b1 b2"),
        (&["v=1"], "b1 g1"),
        (&["v=3"], "g3"),
        // Nobody is blue and of version 3: the second stage leaves what the first one left.
        (&[BLUE, "v=3"], "b1 b2"),
        (&["X-SC-LB-Hint=red", "v=3"], "g3"),
        (&[], "b1 b2 g1 g3"),
    ] {
        assert_eq!(seen(&lb, parts).await, expected, "{parts:?}");
    }
    let strict = |chain: SupplierBuilder| {
        chain.with_metadata_route(MetadataRoute::by("version").header("v").or_nothing(true)).with_hints()
    };
    let lb = fixed(instances, strict, RoundRobin::default());
    assert_eq!(seen(&lb, &[BLUE, "v=3"]).await, "NoGroup");
    assert_eq!(seen(&lb, &[GREEN, "v=3"]).await, "g3");
}

#[tokio::test(start_paused = true)]
async fn a_route_finds_its_value_in_a_header_a_cookie_the_query_or_an_attribute() {
    let route = MetadataRoute::by("version").header("v").cookie("ver").query("version");
    let route = route.source(Source::Attribute("tenant-version".to_owned()));
    let instances = with("version", "one=1 two=2 stable=stable");
    let plain = fixed(instances.clone(), |c| c.with_metadata_route(route.clone()), RoundRobin::default());
    let fallback = route.clone().with_fallback(["none", "stable"]);
    let fallback = fixed(instances.clone(), |c| c.with_metadata_route(fallback), RoundRobin::default());
    let strict = route.clone().or_nothing(true);
    let strict = fixed(instances.clone(), |c| c.with_metadata_route(strict), RoundRobin::default());
    let both = route.or_nothing(true).with_fallback(["9", "stable"]);
    let both = fixed(instances, |c| c.with_metadata_route(both), RoundRobin::default());
    for (parts, without, with_fallback, or_nothing, with_both) in [
        (&["v=1"][..], "one", "one", "one", "one"),
        (&["v= 2 "], "two", "two", "two", "two"),
        (&["cookie:ver=2"], "two", "two", "two", "two"),
        (&["?version=2"], "two", "two", "two", "two"),
        (&["@tenant-version=2"], "two", "two", "two", "two"),
        // The first place that holds text counts, be it known or not.
        (&["v=1", "cookie:ver=2"], "one", "one", "one", "one"),
        (&["v=", "cookie:ver=2"], "two", "two", "two", "two"),
        (&["v=9", "cookie:ver=2"], "one stable two", "stable", "NoGroup", "stable"),
        (&[], "one stable two", "stable", "one stable two", "stable"),
    ] {
        assert_eq!(seen(&plain, parts).await, without, "{parts:?}");
        assert_eq!(seen(&fallback, parts).await, with_fallback, "{parts:?} with a fallback");
        assert_eq!(seen(&strict, parts).await, or_nothing, "{parts:?} or nothing");
        assert_eq!(seen(&both, parts).await, with_both, "{parts:?} with a fallback or nothing");
    }
    let parts = Parts(vec!["v=9"]);
    let error = strict.choose(&Request::of(&parts)).await.unwrap_err();
    assert!(
        error.to_string().contains("no instance has version=\"9\", which the request asks for (3 known"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn hostile_values_of_requests_leave_nothing_behind() {
    let live = Live::new(with("version", "a=1 b=1"));
    let lb = over(
        chain(live.source()).with_hints().with_metadata_route(MetadataRoute::by("version").header("v")),
        RoundRobin::default(),
    );
    pick(&lb).await;
    let before = format!("{:?}", lb.snapshot());
    for n in 0..1_000 {
        let http = http::Request::builder().header("v", format!("{n}\u{7f}").trim_end_matches('\u{7f}'));
        let http = http.header("x-sc-lb-hint", "x".repeat(n)).body(()).unwrap();
        let view = HttpView::of(&http);
        let id = pick_for(&lb, &Request::of(&view).with_hint("\u{0}\u{1}version=1\u{0}")).await;
        assert!(n == 1 || ["a", "b"].contains(&&*id));
    }
    assert_eq!((format!("{:?}", lb.snapshot()), lb.tracked()), (before, 2));
}

// ------------------------------------------------------------------------------------------------ what build refuses

#[derive(Debug)]
struct Named(&'static str, Rank);

impl ListStage for Named {
    fn name(&self) -> &str {
        self.0
    }
    fn rank(&self) -> Rank {
        self.1
    }
    fn apply(&self, _: &mut Vec<ServiceInstance>, _: &StageCx<'_>) {}
}

#[derive(Debug)]
struct NamedRequest(&'static str);

impl RequestStage for NamedRequest {
    fn name(&self) -> &str {
        self.0
    }
    fn groups(&self, _: &ServiceInstance, _: &mut dyn FnMut(&str)) {}
    fn select(&self, _: &Request<'_>, _: &Groups) -> Selection {
        Selection::All
    }
}

#[test]
fn a_chain_that_cannot_work_is_refused_with_its_reason() {
    let base = || FixedSupplier::new(orders(), list("a"));
    let good = || SupplierBuilder::new("orders").with_base(base());
    let route = || MetadataRoute::by("version");
    let zero = Duration::ZERO;
    let second = Duration::from_secs(1);
    for (builder, reason) in [
        (SupplierBuilder::new("orders"), "it has no base: where do the lists come from?"),
        (good().with_base(base()), "2 bases are given, but lists come from one place"),
        (
            SupplierBuilder::new("orders")
                .with_base(FixedSupplier::new(ServiceId::new("users").unwrap(), [])),
            "its base supplies service \"users\"",
        ),
        (SupplierBuilder::new("bad id").with_base(base()), "\"bad id\" is no service id: it holds a blank"),
        (SupplierBuilder::new("").with_base(base()), "\"\" is no service id: it is empty"),
        (
            good().with_zone_preference(ZonePreference::new("z").with_max_share(0.5)),
            "zone preference: max-share is 0.5, but a local share is never below 1 time the even one",
        ),
        (
            good().with_zone_preference(ZonePreference::new("z").with_max_share(f64::NAN)),
            "zone preference: max-share is NaN, but a local share is never below 1 time the even one",
        ),
        (
            good().with_metadata_route(route()),
            "metadata route \"version\": it names neither a header, cookie or query parameter nor a fallback value or \
             percentage",
        ),
        (
            good().with_metadata_route(MetadataRoute::by(" ").header("v")),
            "metadata route \" \": its metadata key is empty",
        ),
        (
            good().with_metadata_route(route().cookie(" ")),
            "metadata route \"version\": a header, cookie, query parameter or attribute has no name",
        ),
        (
            good().with_metadata_route(route().header("a")).with_metadata_route(route().header("b")),
            "two request stages are called \"version\"",
        ),
        (
            good().with_hints().with_request_stage(NamedRequest("hint")),
            "two request stages are called \"hint\"",
        ),
        (
            good().with_look_up_timeout(zero),
            "service-discovery.timeout is zero, so that no look-up could ever succeed",
        ),
        (good().with_back_off(zero, second), "backoff.min is zero, so that no look-up could ever succeed"),
        (
            good().with_list_stage(Named("mine", Rank::Duplicates)),
            "stage \"mine\" takes the rank of a built-in one",
        ),
        (
            good().with_list_stage(Named("mine", Rank::Status)),
            "stage \"mine\" takes the rank of a built-in one",
        ),
    ] {
        let error = builder.build().unwrap_err();
        assert_eq!(error.reason(), reason);
        let text = error.to_string();
        assert!(text.starts_with("the chain of service ") && text.ends_with(reason), "{text}");
    }
    // What looks alike and works: every rank of one's own, a route with a fallback only, a hard age below the TTL, which
    // is taken for the TTL.
    let short = CacheProperties::default().with_ttl(second).with_hard_age(zero);
    let ranks = [Rank::Health, Rank::Filter(0), Rank::Zone, Rank::Subset, Rank::Custom(9)];
    let all = ranks.into_iter().fold(good(), |chain, rank| chain.with_list_stage(Named("mine", rank)));
    let all =
        all.with_metadata_route(route().with_fallback(["1"])).with_request_stage(NamedRequest("tenant"));
    all.with_caching(short).with_hints().build().unwrap();
}

// ---------------------------------------------------------------------------------------- the order of builder calls

/// Keeps what does not say `protocol: 1`.
#[derive(Debug)]
struct Protocol;

impl ListStage for Protocol {
    fn name(&self) -> &str {
        "protocol"
    }
    fn rank(&self) -> Rank {
        Rank::Filter(0)
    }
    fn apply(&self, list: &mut Vec<ServiceInstance>, _: &StageCx<'_>) {
        list.retain(|instance| instance.metadata().get("protocol") != Some("1"));
    }
}

fn permutations(n: usize) -> Vec<Vec<usize>> {
    let Some(last) = n.checked_sub(1) else { return vec![Vec::new()] };
    let shorter = permutations(last);
    let insert = |p: &Vec<usize>, at: usize| [&p[..at], &[last], &p[at..]].concat();
    shorter.iter().flat_map(|p| (0..=last).map(move |at| insert(p, at))).collect()
}

#[tokio::test(start_paused = true)]
async fn the_order_of_builder_calls_does_not_count() {
    type Call = fn(SupplierBuilder) -> SupplierBuilder;
    let calls: [Call; 7] = [
        |chain| {
            let mut list = everything();
            let old = list[2].to_builder().id("old").with_metadata("protocol", "1").build().unwrap();
            list.push(old);
            chain.with_base(FixedSupplier::new(orders(), list))
        },
        |chain| chain.with_zone_preference("z1"),
        SupplierBuilder::with_weights,
        SupplierBuilder::with_hints,
        |chain| chain.with_metadata_route(MetadataRoute::by("weight").header("w")),
        |chain| chain.with_list_stage(Protocol),
        |chain| chain.with_seed(42).with_caching(CacheProperties::default()),
    ];
    let requests = [vec![], vec![BLUE], vec!["w=3"], vec![GREEN, "w=1"], vec![]].map(Parts);
    for policy in [Arc::new(RoundRobin::default()) as Arc<dyn Policy>, Arc::new(RandomPick)] {
        let mut expected = String::new();
        for order in permutations(calls.len()) {
            let chain = order.iter().fold(SupplierBuilder::new("orders"), |chain, at| calls[*at](chain));
            let lb = LoadBalancer::builder(chain.build().unwrap()).policy_arc(Arc::clone(&policy)).build();
            let mut ids = String::new();
            for request in requests.iter().cycle().take(15) {
                ids += &pick_for(&lb, &Request::of(request)).await;
                ids.push(' ');
            }
            if expected.is_empty() {
                expected.clone_from(&ids);
            }
            assert_eq!(ids, expected, "builder calls in the order {order:?}");
        }
        assert!(!expected.contains("old") && expected.contains("blue-z1-3"), "{expected}");
    }
}

// ----------------------------------------------------------------------------------------------- parts of third parties

/// A policy of one's own: the request's hint is the id that it wants; outcomes are written down.
#[derive(Clone, Debug, Default)]
struct ByHint(Arc<Mutex<Vec<Heard>>>);

type Heard = (String, Outcome, Option<Duration>);

impl Policy for ByHint {
    fn name(&self) -> Cow<'static, str> {
        "by-hint".into()
    }
    fn needs(&self) -> Needs {
        Needs::CLOCK
    }
    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        struct Ids(Vec<String>);
        impl Picker for Ids {
            fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
                let wanted = cx.request().hint().and_then(|hint| self.0.iter().position(|id| id == hint));
                wanted.filter(|at| cx.fits(*at)).or_else(|| (0..cx.len()).find(|at| cx.fits(*at)))
            }
        }
        Box::new(Ids((0..set.len()).map(|at| set.instance(at).id().to_owned()).collect()))
    }
    fn on_outcome(&self, instance: &InstanceState, outcome: Outcome, took: Option<Duration>) {
        self.0.lock().unwrap().push((instance.instance().id().to_owned(), outcome, took));
    }
}

#[tokio::test(start_paused = true)]
async fn scl_011_a_policy_of_ones_own_reads_the_hint_of_the_request() {
    let lb = fixed(list("test1 test2 test3"), |chain| chain, ByHint::default());
    assert_eq!(pick_for(&lb, &Request::EMPTY.with_hint("test2")).await, "test2");
    assert_eq!(pick(&lb).await, "test1");
}

#[tokio::test(start_paused = true)]
async fn a_policy_of_ones_own_hears_every_outcome_and_how_long_it_took() {
    let policy = ByHint::default();
    let lb = fixed(list("a b"), |chain| chain, policy.clone());
    advance(1.0).await;
    for (id, outcome) in [("a", Outcome::Status(200)), ("b", Outcome::Status(503))] {
        let choice = lb.choose(&Request::EMPTY.with_hint(id)).await.unwrap();
        advance(0.25).await;
        choice.complete(outcome);
    }
    drop(lb.choose(&Request::EMPTY).await.unwrap());
    let heard = policy.0.lock().unwrap().clone();
    let quarter = Some(Duration::from_millis(250));
    let expected = [
        ("a", Outcome::Status(200), quarter),
        ("b", Outcome::Status(503), quarter),
        ("a", Outcome::Cancelled, Some(Duration::ZERO)),
    ];
    assert_eq!(heard, expected.map(|(id, outcome, took)| (id.to_owned(), outcome, took)));
}

/// A policy that listens, and blocks or panics on purpose.
#[derive(Debug)]
struct Listens {
    /// Waits for it at the first list of two, and says so before.
    gate: Option<(Arc<AtomicUsize>, Mutex<std::sync::mpsc::Receiver<()>>)>,
    heard: Arc<AtomicUsize>,
}

impl Policy for Listens {
    fn name(&self) -> Cow<'static, str> {
        "listens".into()
    }
    fn needs(&self) -> Needs {
        Needs::OUTCOMES
    }
    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        if let Some((lists, gate)) = &self.gate
            && set.len() == 2
            && lists.fetch_add(1, Ordering::SeqCst) == 0
        {
            gate.lock().unwrap().recv().unwrap();
        }
        RoundRobin::default().picker(set)
    }
    fn on_outcome(&self, _: &InstanceState, _: Outcome, took: Option<Duration>) {
        assert!(took.is_none(), "nobody asked for the clock");
        self.heard.fetch_add(1, Ordering::SeqCst);
        assert!(self.gate.is_some(), "on purpose");
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_panics_at_the_end_of_a_call_harms_nobody() {
    let heard = Arc::new(AtomicUsize::new(0));
    let lb = fixed(list("a"), |chain| chain, Listens { gate: None, heard: Arc::clone(&heard) });
    let caller = lb.clone();
    let calls = tokio::spawn(async move {
        let _first = caller.choose(&Request::EMPTY).await.unwrap();
        let _second = caller.choose(&Request::EMPTY).await.unwrap();
        panic!("with two leases, whose ends panic too");
    });
    assert!(calls.await.unwrap_err().is_panic());
    lb.choose(&Request::EMPTY).await.unwrap().complete(Outcome::Success);
    assert_eq!(heard.load(Ordering::SeqCst), 3);
    assert_eq!(lb.snapshot().unwrap().instances().next().unwrap().in_flight(), 0);
}

#[test]
fn a_list_that_takes_long_to_build_holds_up_no_call() {
    let (open, gate) = std::sync::mpsc::channel();
    let (heard, reached) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let policy = Listens { gate: Some((Arc::clone(&reached), Mutex::new(gate))), heard: Arc::clone(&heard) };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let live = Live::new(list("a"));
    let lb = runtime.block_on(async {
        let lb = over(chain(live.source()), policy);
        pick(&lb).await;
        lb
    });
    // The second list is being built, for as long as the gate is shut.
    live.source().set(&orders(), list("a b"));
    while reached.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    let (done, calls) = std::sync::mpsc::channel();
    let caller = lb.clone();
    std::thread::spawn(move || {
        for _ in 0..100 {
            caller.try_choose(&Request::EMPTY).unwrap().complete(Outcome::Status(200));
        }
        done.send(()).unwrap();
    });
    let free = calls.recv_timeout(Duration::from_secs(10));
    open.send(()).unwrap();
    free.expect("calls waited for the list");
    assert_eq!(heard.load(Ordering::SeqCst), 101);
}

/// What tenants an instance serves (`"acme,globex"`); hears what was picked.
#[derive(Clone, Debug, Default)]
struct Tenants {
    picked: Arc<Mutex<Vec<String>>>,
}

impl RequestStage for Tenants {
    fn name(&self) -> &str {
        "tenant"
    }
    fn groups(&self, instance: &ServiceInstance, emit: &mut dyn FnMut(&str)) {
        // Some say a tenant twice.
        instance.metadata().get("tenants").into_iter().flat_map(|all| all.split(',')).for_each(emit);
    }
    fn select(&self, request: &Request<'_>, groups: &Groups) -> Selection {
        request.attribute("tenant").and_then(|tenant| groups.find(tenant)).into()
    }
    fn wants_picks(&self) -> bool {
        true
    }
    fn on_pick(&self, request: &Request<'_>, instance: &ServiceInstance) {
        let tenant = request.attribute("tenant").unwrap_or("nobody");
        self.picked.lock().unwrap().push(format!("{tenant}: {}", instance.id()));
    }
}

#[tokio::test(start_paused = true)]
async fn scl_006_a_request_stage_of_ones_own_narrows_and_is_told_each_pick_once() {
    let instances = with("tenants", "a=acme,acme b=acme,globex c=globex d=");
    let stage = Tenants::default();
    // Inside the groups of the built-in hints, with a cache above and a zone preference below.
    let shape = |chain: SupplierBuilder| {
        chain.with_request_stage(stage.clone()).with_hints().with_zone_preference("z")
    };
    let lb = fixed(instances, shape, RoundRobin::default());
    assert_eq!(seen(&lb, &["@tenant=acme"]).await, "a b");
    assert_eq!(seen(&lb, &["@tenant=globex"]).await, "b c");
    assert_eq!(seen(&lb, &["@tenant=other"]).await, "a b c d");
    let told = stage.picked.lock().unwrap().clone();
    assert_eq!(told.len(), 120, "once for each pick");
    assert_eq!(["acme: a", "acme: b", "globex: c"].map(|line| count(&told, line)), [20, 20, 20]);
}

/// Panics when it is told a pick, if it is armed.
#[derive(Clone, Debug, Default)]
struct Brittle(Arc<AtomicBool>);

impl RequestStage for Brittle {
    fn name(&self) -> &str {
        "brittle"
    }
    fn groups(&self, _: &ServiceInstance, emit: &mut dyn FnMut(&str)) {
        emit("everybody");
    }
    fn select(&self, _: &Request<'_>, _: &Groups) -> Selection {
        Selection::All
    }
    fn wants_picks(&self) -> bool {
        true
    }
    fn on_pick(&self, _: &Request<'_>, instance: &ServiceInstance) {
        assert!(!self.0.load(Ordering::SeqCst) || instance.id() != "a", "armed");
    }
}

/// The call that was to probe the instance never came to be: the next one does.
#[tokio::test(start_paused = true)]
async fn a_stage_that_panics_at_a_pick_leaves_the_instance_to_the_next_call() {
    let stage = Brittle::default();
    let lb = fixed(list("a b"), |chain| chain.with_request_stage(stage.clone()), RoundRobin::default());
    let a = loop {
        let choice = lb.choose(&Request::EMPTY).await.unwrap();
        if choice.instance().id() == "a" {
            break choice;
        }
    };
    a.complete(Outcome::Failure(Failure::Connect));
    tokio::time::sleep(Duration::from_secs(20)).await;
    stage.0.store(true, Ordering::SeqCst);
    let picked = || std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lb.try_choose(&Request::EMPTY)));
    assert!((0..4).any(|_| picked().is_err()), "its turn comes");
    assert_eq!(lb.in_flight(), 0);
    stage.0.store(false, Ordering::SeqCst);
    let mut again = (0..4).map(|_| lb.try_choose(&Request::EMPTY).unwrap());
    assert!(again.any(|choice| choice.instance().id() == "a"), "its turn comes again");
}

/// A list stage that does one odd thing.
#[derive(Clone, Copy, Debug)]
struct Odd(Rank, fn(&mut Vec<ServiceInstance>));

impl ListStage for Odd {
    fn name(&self) -> &str {
        "odd"
    }
    fn rank(&self) -> Rank {
        self.0
    }
    fn apply(&self, list: &mut Vec<ServiceInstance>, _: &StageCx<'_>) {
        (self.1)(list);
    }
}

fn repeats(list: &mut Vec<ServiceInstance>) {
    list.reverse();
    let first = list[0].clone();
    list.extend([first.clone(), first]);
}

fn drains_a(list: &mut Vec<ServiceInstance>) {
    for instance in list {
        if instance.id() == "a" {
            *instance = instance.to_builder().weight(Weight::ZERO).build().unwrap();
        }
    }
}

fn drains_all(list: &mut Vec<ServiceInstance>) {
    for instance in list {
        *instance = instance.to_builder().weight(Weight::ZERO).build().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_stage_of_ones_own_may_do_odd_things_at_every_rank() {
    for rank in [Rank::Health, Rank::Filter(7), Rank::Zone, Rank::Subset, Rank::Custom(3)] {
        for weights in [false, true] {
            let shape = |act: fn(&mut Vec<ServiceInstance>)| {
                let shape = move |chain: SupplierBuilder| {
                    let chain = chain.with_list_stage(Odd(rank, act));
                    if weights { chain.with_weights() } else { chain }
                };
                fixed(list("a b c"), shape, RoundRobin::default())
            };
            let say = format!("{rank:?}, weights {weights}");
            let lb = shape(repeats);
            even(&picks(&lb, 300).await, "a b c", 100, 0);
            let lb = shape(drains_a);
            assert_eq!(count(&picks(&lb, 300).await, "a"), 0, "{say}: a is drained");
            even(&picks(&lb, 300).await, "b c", 150, 0);
            let lb = shape(|list| list.retain(|instance| instance.id() != "b"));
            even(&picks(&lb, 300).await, "a c", 150, 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_stage_that_leaves_nothing_is_an_error_before_the_groups_and_passed_over_inside() {
    for (act, reason) in
        [(Vec::clear as fn(&mut Vec<ServiceInstance>), Reason::Filtered), (drains_all, Reason::AllDrained)]
    {
        let lb = fixed(list("a b"), |c| c.with_list_stage(Odd(Rank::Filter(0), act)), RoundRobin::default());
        let error = lb.choose(&Request::EMPTY).await.unwrap_err();
        let ChooseErrorKind::NoInstances { reason: got, known: 2, .. } = error.kind() else {
            panic!("{error}")
        };
        assert_eq!(*got, reason, "{error}");
        let lb = fixed(list("a b"), |c| c.with_list_stage(Odd(Rank::Custom(0), act)), RoundRobin::default());
        even(&picks(&lb, 100).await, "a b", 50, 0);
    }
    let lb = fixed(list("a"), |c| c.with_list_stage(Odd(Rank::Filter(0), Vec::clear)), RoundRobin::default());
    let text = lb.choose(&Request::EMPTY).await.unwrap_err().to_string();
    assert!(text.contains("a stage of the chain left none (1 known"), "{text}");
}

/// What a picker of one's own may get wrong.
#[derive(Clone, Copy, Debug)]
struct Wrong(fn(&mut PickCx<'_>) -> Option<usize>);

impl Policy for Wrong {
    fn name(&self) -> Cow<'static, str> {
        "wrong".into()
    }
    fn picker(&self, _: &Candidates<'_>) -> Box<dyn Picker> {
        Box::new(*self)
    }
}

impl Picker for Wrong {
    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        (self.0)(cx)
    }
}

#[tokio::test(start_paused = true)]
async fn a_picker_that_is_wrong_is_an_error_and_no_panic() {
    for act in [
        |_: &mut PickCx<'_>| None,
        |cx: &mut PickCx<'_>| Some(cx.len()),
        |_: &mut PickCx<'_>| Some(usize::MAX),
    ] {
        let lb = fixed(list("a b"), SupplierBuilder::with_hints, Wrong(act));
        let error = lb.choose(&Request::EMPTY.with_hint("x")).await.unwrap_err();
        let ChooseErrorKind::NoInstances { reason, known: 2, .. } = error.kind() else { panic!("{error}") };
        assert_eq!(*reason, Reason::NotPicked, "{error}");
        assert!(error.to_string().contains("the policy picked none (2 known"), "{error}");
    }
    // One that does not ask who fits gets what it insists on.
    let lb = fixed(list("a b"), |chain| chain, Wrong(|_| Some(0)));
    lb.choose(&Request::EMPTY).await.unwrap().complete(Outcome::Failure(evenkeel::Failure::Connect));
    assert_eq!(picks(&lb, 3).await, ["a", "a", "a"]);
}

/// A stage, a request stage and a policy that panic once, when they see this id (or metadata entry `build`) first.
#[derive(Clone, Debug)]
struct Panics(Arc<AtomicUsize>, &'static str);

impl Panics {
    fn at(id: &'static str) -> Self {
        Self(Arc::default(), id)
    }
    fn see(&self, instance: &ServiceInstance) {
        let seen = instance.id() == self.1 || instance.metadata().get("build") == Some(self.1);
        assert!(!seen || self.0.fetch_add(1, Ordering::SeqCst) > 0, "on purpose");
    }
}

impl ListStage for Panics {
    fn name(&self) -> &str {
        "panics"
    }
    fn rank(&self) -> Rank {
        Rank::Filter(0)
    }
    fn apply(&self, list: &mut Vec<ServiceInstance>, _: &StageCx<'_>) {
        for instance in list.iter() {
            self.see(instance);
        }
    }
}

impl RequestStage for Panics {
    fn name(&self) -> &str {
        "panics"
    }
    fn groups(&self, instance: &ServiceInstance, _: &mut dyn FnMut(&str)) {
        self.see(instance);
    }
    fn select(&self, _: &Request<'_>, _: &Groups) -> Selection {
        Selection::All
    }
}

impl Policy for Panics {
    fn name(&self) -> Cow<'static, str> {
        "panics".into()
    }
    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        (0..set.len()).for_each(|at| self.see(&set.instance(at)));
        RoundRobin::default().picker(set)
    }
}

/// Balancers over one instance per list (of a service that they name themselves, as registries do): `a`, then `b`.
fn panicking(id: &'static str) -> Vec<(&'static str, LoadBalancer, Pull)> {
    let source = || {
        Pull::new(|n| async move {
            let of_service = |i: ServiceInstance| i.to_builder().service_id(orders()).build().unwrap();
            Ok(list(if n == 0 { "a" } else { "b" }).into_iter().map(of_service).collect())
        })
    };
    let (list, request, policy) = (source(), source(), source());
    vec![
        (
            "list stage",
            over(chain(list.clone()).with_list_stage(Panics::at(id)), RoundRobin::default()),
            list,
        ),
        (
            "request stage",
            over(chain(request.clone()).with_request_stage(Panics::at(id)), RoundRobin::default()),
            request,
        ),
        ("policy", over(chain(policy.clone()), Panics::at(id)), policy),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_part_that_panics_at_the_first_list_is_a_typed_error_and_tried_again_after_a_back_off() {
    for (part, lb, source) in panicking("a") {
        for _ in 0..10 {
            let error = lb.choose(&Request::EMPTY).await.unwrap_err();
            let ChooseErrorKind::Supply(cause) = error.kind() else { panic!("{part}: {error}") };
            assert_eq!(cause.kind(), SupplyErrorKind::Panicked, "{part}: {error}");
            assert!(error.to_string().contains("on purpose"), "{part}: {error}");
        }
        assert_eq!(source.calls(), 1, "{part}: one look-up, then back-off");
        advance(1.1).await;
        assert_eq!(pick(&lb).await, "b", "{part}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_that_panics_at_a_later_list_leaves_the_last_one_at_hand() {
    for (part, lb, source) in panicking("b") {
        assert_eq!(pick(&lb).await, "a", "{part}");
        advance(36.0).await;
        assert_eq!(pick(&lb).await, "a", "{part}");
        settle().await;
        assert_eq!(source.calls(), 2, "{part}");
        assert_eq!(lb.snapshot().unwrap().origin(), evenkeel::Origin::Stale, "{part}");
        assert_eq!(lb.last_error().unwrap().kind(), SupplyErrorKind::Panicked, "{part}");
        assert_eq!(pick(&lb).await, "a", "{part}");
        advance(2.0).await;
        pick(&lb).await;
        settle().await;
        assert_eq!((source.calls(), &*pick(&lb).await), (3, "b"), "{part}: the same list again is taken");
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_that_came_with_a_panic_are_in_the_next_snapshot() {
    let source = Pull::new(|n| async move { Ok(with("build", if n == 0 { "a=1 b=1" } else { "a=2 b=1" })) });
    let route = MetadataRoute::by("build").header("build");
    let lb = over(chain(source.clone()).with_metadata_route(route), Panics::at("2"));
    pick(&lb).await;
    for look_up in 2..=3 {
        advance(36.0).await;
        pick(&lb).await;
        settle().await;
        assert!(source.calls() >= look_up);
    }
    assert_eq!(seen(&lb, &["build=2"]).await, "a");
    assert_eq!(lb.snapshot().unwrap().origin(), evenkeel::Origin::Pull);
}

/// A supplier of one's own that pushes, for the same with a watch.
#[derive(Debug)]
struct Ticks(ServiceId);

impl ServiceInstanceListSupplier for Ticks {
    fn service_id(&self) -> &ServiceId {
        &self.0
    }
    fn get(&self) -> Lists {
        Box::pin(futures_util::stream::unfold(0_usize, |n| async move {
            if n > 0 {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Some((Ok(list(&format!("a i{n}"))), n + 1))
        }))
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_behind_a_watch_opens_it_again() {
    let chain =
        SupplierBuilder::new("orders").with_base(Ticks(ServiceId::new("ORDERS").unwrap())).with_seed(7);
    let lb = over(chain.with_list_stage(Panics::at("i2")), LeastRequest);
    assert_eq!(lb.service_id().as_str(), "ORDERS", "the spelling of the base");
    pick(&lb).await;
    advance(1.5).await;
    assert_eq!(lb.snapshot().unwrap().origin(), evenkeel::Origin::Push);
    advance(0.51).await;
    assert_eq!(lb.snapshot().unwrap().origin(), evenkeel::Origin::Stale);
    assert_eq!(lb.last_error().unwrap().kind(), SupplyErrorKind::Panicked);
    for _ in 0..20 {
        pick(&lb).await;
        advance(0.5).await;
    }
    assert_eq!(lb.snapshot().unwrap().origin(), evenkeel::Origin::Push);
    assert!(lb.last_error().is_none());
}
