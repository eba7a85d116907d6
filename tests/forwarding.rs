//! A request reaches every stage that wants it, whatever else the chain holds and in whatever order it was built.

mod support;

use std::time::Duration;

use evenkeel::config::CacheProperties;
use evenkeel::health::HealthCheck;
use evenkeel::policy::{LeastRequest, Policy, RandomPick, RoundRobin};
use evenkeel::supplier::{ListStage, MetadataRoute, Rank, StageCx, StickySession};
use evenkeel::{HttpView, LoadBalancer, Request, ServiceInstance, SupplierBuilder};
use support::*;

/// Four blue and four green instances, all alike in the rest.
fn coloured() -> Vec<ServiceInstance> {
    let of = |id: &str, hint: &str| {
        let builder = instance(id).to_builder().zone("z1").with_metadata("hint", hint);
        builder.with_metadata("weight", "2").with_metadata("version", "1").build().unwrap()
    };
    let colour = |hint: &'static str| (1..=4).map(move |n| of(&format!("{}{n}", &hint[..1]), hint));
    colour("blue").chain(colour("green")).collect()
}

#[derive(Debug)]
struct Reverses;

impl ListStage for Reverses {
    fn name(&self) -> &'static str {
        "reverses"
    }
    fn rank(&self) -> Rank {
        Rank::Filter(0)
    }
    fn apply(&self, list: &mut Vec<ServiceInstance>, _: &StageCx<'_>) {
        list.reverse();
    }
}

type Stage = (&'static str, fn(SupplierBuilder) -> SupplierBuilder);

/// Every stage there is beside the hints; a new one is a line here.
const STAGES: [Stage; 9] = [
    ("cache", |chain| chain.with_caching(CacheProperties::default())),
    ("short cache", |chain| {
        chain.with_caching(CacheProperties::default().with_ttl(Duration::from_millis(10)))
    }),
    ("no cache", SupplierBuilder::without_caching),
    ("health", |chain| chain.with_health_checks(HealthCheck::new(Fake::new()))),
    ("zone", |chain| chain.with_zone_preference("z1")),
    ("weights", SupplierBuilder::with_weights),
    ("route", |chain| chain.with_metadata_route(MetadataRoute::by("version").header("x-version"))),
    ("sticky", |chain| chain.with_sticky_session(StickySession::default())),
    ("own list stage", |chain| chain.with_list_stage(Reverses)),
];

fn hints(chain: SupplierBuilder) -> SupplierBuilder {
    chain.with_hints()
}

fn asked() -> SupplierBuilder {
    chain(Pull::new(|_| async { Ok(coloured()) }))
}

/// 100 requests, blue and green in turn, 1 ms apart; how often each instance was picked.
async fn alternating(lb: &LoadBalancer, name: &str) -> Vec<String> {
    let request = |hint: &str| http::Request::builder().header("X-SC-LB-Hint", hint).body(()).unwrap();
    let (blue, green) = (request("blue"), request("green"));
    let mut all = Vec::new();
    for n in 0..100 {
        let view = HttpView::of([&blue, &green][n % 2]);
        let id = pick_for(lb, &Request::of(&view)).await;
        assert!(id.starts_with(['b', 'g'][n % 2]), "{name}: request {n} went to {id}");
        all.push(id);
        advance(0.001).await;
    }
    all
}

const ALL: &str = "b1 b2 b3 b4 g1 g2 g3 g4";

#[tokio::test(start_paused = true)]
async fn case_068_hints_and_any_other_stage_in_either_order() {
    for (name, stage) in STAGES {
        for shaped in [stage(hints(asked())), hints(stage(asked()))] {
            let lb = over(shaped, RoundRobin::default());
            even(&alternating(&lb, name).await, ALL, 12, 1);
            // What one request asked for is in no list that another one sees.
            even(&picks(&lb, 80).await, ALL, 10, 1);
            let unknown = Request::EMPTY.with_hint("red");
            let mut seen = Vec::new();
            for _ in 0..80 {
                seen.push(pick_for(&lb, &unknown).await);
            }
            even(&seen, ALL, 10, 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn case_068_hints_and_all_other_stages_at_once_under_every_policy() {
    let stages = || STAGES.into_iter().filter(|(name, _)| *name != "no cache").map(|(_, stage)| stage);
    let policies: [fn() -> std::sync::Arc<dyn Policy>; 3] = [
        || std::sync::Arc::new(RoundRobin::default()),
        || std::sync::Arc::new(RandomPick),
        || std::sync::Arc::new(LeastRequest),
    ];
    for policy in policies {
        let before = stages().fold(hints(asked()), |chain, stage| stage(chain));
        let behind = hints(stages().fold(asked(), |chain, stage| stage(chain)));
        for shaped in [before, behind] {
            let lb = LoadBalancer::builder(shaped.build().unwrap()).policy_arc(policy()).build();
            let all = alternating(&lb, "all").await;
            assert_eq!(tally(&all).len(), 8, "each has its share: {:?}", tally(&all));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn case_068_a_sticky_session_beside_any_other_stage_in_either_order() {
    let sticky = |chain: SupplierBuilder| chain.with_sticky_session(StickySession::default());
    let http = http::Request::builder().header("cookie", "sc-lb-instance-id=g3").body(()).unwrap();
    let view = HttpView::of(&http);
    for (name, stage) in STAGES.into_iter().filter(|(name, _)| *name != "sticky") {
        for shaped in [stage(sticky(asked())), sticky(stage(asked()))] {
            let lb = over(shaped, RoundRobin::default());
            for _ in 0..20 {
                assert_eq!(pick_for(&lb, &Request::of(&view)).await, "g3", "{name}");
                advance(0.001).await;
            }
            // The rest is balanced.
            even(&picks(&lb, 80).await, ALL, 10, 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn case_068_the_same_instance_is_preferred_beside_any_other_stage_in_either_order() {
    let same = SupplierBuilder::with_same_instance_preference;
    for (name, stage) in STAGES {
        for shaped in [stage(same(asked())), same(stage(asked()))] {
            let lb = over(shaped, RoundRobin::default());
            let first = pick(&lb).await;
            for _ in 0..50 {
                assert_eq!(pick(&lb).await, first, "{name}");
                advance(0.001).await;
            }
        }
        // A hint is stronger: it never lets a request leave its colour.
        let lb = over(hints(stage(same(asked()))), RoundRobin::default());
        alternating(&lb, name).await;
    }
}
