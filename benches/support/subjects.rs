//! Balancers to measure, and loops of picks.

use std::fmt;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::config::{ApiVersionMatch, StatsProperties, ZoneMode};
use evenkeel::health::{HealthCheck, HealthProbe, ProbeError};
use evenkeel::policy::{
    Adaptive, AvailabilityFiltering, BestAvailable, ClientSideWeightedRoundRobin, DubboConsistentHash,
    HashKey, LeastActive, LeastRequest, Maglev, PeakEwma, Policy, RandomPick, Rendezvous, RingHash,
    RoundRobin, ShortestResponse, SmoothRoundRobin, WeightedResponseTime, ZoneAvoidance,
};
use evenkeel::supplier::{
    ApiVersion, MetadataRoute, OwnFleet, Source, StickySession, Subset, ZonePreference,
};
use evenkeel::{
    ChooseExt, LoadBalancer, Outcome, ReactiveLoadBalancer, Request, ServiceInstance, SupplierBuilder,
    async_trait,
};
use tokio::runtime::Runtime;

use super::{chain, lists, warm};

/// A policy by its name.
#[derive(Clone, Copy)]
pub enum Kind {
    RoundRobin,
    Random,
    P2c,
    PeakEwma,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RoundRobin => "round robin",
            Self::Random => "random",
            Self::P2c => "P2C",
            Self::PeakEwma => "peak EWMA",
        })
    }
}

/// A balancer whose instances lie scattered.
fn scattered(
    runtime: &Runtime,
    kind: Kind,
    n: usize,
    chain: impl FnOnce() -> SupplierBuilder,
) -> LoadBalancer {
    let pins = lists::scatter(n);
    let chain = chain();
    let balancer = match kind {
        Kind::RoundRobin => warm(runtime, chain, RoundRobin::default()),
        Kind::Random => warm(runtime, chain, RandomPick),
        Kind::P2c => warm(runtime, chain, LeastRequest),
        Kind::PeakEwma => warm(runtime, chain, PeakEwma::default()),
    };
    drop(pins);
    balancer
}

/// Nothing but what is always on.
pub fn simple(runtime: &Runtime, kind: Kind, n: usize) -> LoadBalancer {
    scattered(runtime, kind, n, || chain(lists::plain(n)))
}

/// The key of hashes in the benches: one header.
pub fn user() -> HashKey {
    HashKey::header("x-user")
}

/// The policies that go by a key, by name.
pub fn hashes() -> [(&'static str, Arc<dyn Policy>); 7] {
    [
        ("ring hash", Arc::new(RingHash::new(user()))),
        ("ring hash of a given size", Arc::new(RingHash::new(user()).with_ring_size(RingHash::ENVOY))),
        ("Maglev", Arc::new(Maglev::new(user()))),
        ("Dubbo's consistent hash", Arc::new(DubboConsistentHash::new(user()))),
        ("rendezvous", Arc::new(Rendezvous::new(user()))),
        ("ring hash, bounded", Arc::new(RingHash::new(user()).with_balance_factor(125))),
        ("Maglev, bounded", Arc::new(Maglev::new(user()).with_balance_factor(125))),
    ]
}

/// What a pick of a policy needs beside its list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing, or the state of a few instances.
    Little,
    /// The clock: at its beginning, and at the end of its call.
    Clock,
    /// The state of all instances.
    All,
    /// That, and the clock.
    AllAndClock,
}

/// Every policy that goes by no key, by name.
pub fn others() -> [(&'static str, Arc<dyn Policy>, Needs); 12] {
    [
        ("random", Arc::new(RandomPick), Needs::Little),
        ("least request", Arc::new(LeastRequest), Needs::Little),
        ("smooth round robin", Arc::new(SmoothRoundRobin::default()), Needs::Little),
        ("availability filtering", Arc::new(AvailabilityFiltering::default()), Needs::Little),
        ("client-side weighted", Arc::new(ClientSideWeightedRoundRobin::default()), Needs::Little),
        ("peak EWMA", Arc::new(PeakEwma::default()), Needs::Clock),
        ("adaptive", Arc::new(Adaptive::default()), Needs::Clock),
        ("weighted response time", Arc::new(WeightedResponseTime::default()), Needs::Clock),
        ("zone avoidance", Arc::new(ZoneAvoidance::default()), Needs::All),
        ("least active", Arc::new(LeastActive::default()), Needs::All),
        ("best available", Arc::new(BestAvailable::default()), Needs::All),
        ("shortest response", Arc::new(ShortestResponse::default()), Needs::AllAndClock),
    ]
}

/// With this policy, over weights from 1 to 100, or over none.
pub fn heavy(runtime: &Runtime, policy: &Arc<dyn Policy>, n: usize, weighted: bool) -> LoadBalancer {
    let pins = lists::scatter(n);
    let list = chain(lists::heavy(n));
    let list = if weighted { list.with_weights() } else { list };
    let supplier = list.build().expect("a chain that works");
    let balancer = LoadBalancer::builder(supplier).policy_arc(Arc::clone(policy)).build();
    runtime.block_on(balancer.ready()).expect("a fixed list is at hand");
    drop(pins);
    balancer
}

/// With a policy that goes by a key; it has the table of its list.
pub fn hashed(runtime: &Runtime, policy: &Arc<dyn Policy>, n: usize, weighted: bool) -> LoadBalancer {
    let pins = lists::scatter(n);
    let chain = if weighted { chain(lists::tagged(n)).with_weights() } else { chain(lists::plain(n)) };
    let supplier = chain.build().expect("a chain that works");
    let balancer = LoadBalancer::builder(supplier).policy_arc(Arc::clone(policy)).build();
    runtime.block_on(balancer.ready()).expect("a fixed list is at hand");
    // A large table is made behind the first picks; nothing tells when it is there.
    std::thread::sleep(Duration::from_millis(if n > 100 { 500 } else { 0 }));
    drop(pins);
    balancer
}

/// Requests of different users, 256 of them.
pub fn users() -> Vec<http::Request<()>> {
    let one = |user: usize| {
        let mut request = http_request();
        let value = format!("user-{user:04}").parse().expect("a valid header");
        request.headers_mut().insert("x-user", value);
        request
    };
    (0..256).map(one).collect()
}

/// With weights from 1 to 5.
pub fn weighted(runtime: &Runtime, kind: Kind, n: usize) -> LoadBalancer {
    scattered(runtime, kind, n, || chain(lists::tagged(n)).with_weights())
}

/// With hints.
pub fn hinted(runtime: &Runtime, kind: Kind, n: usize) -> LoadBalancer {
    scattered(runtime, kind, n, || chain(lists::tagged(n)).with_hints())
}

/// With hints, and versions by a header.
pub fn routed(runtime: &Runtime, kind: Kind, n: usize) -> LoadBalancer {
    scattered(runtime, kind, n, || routes(chain(lists::tagged(n))))
}

/// Measured, and warm: every instance has the handle that it keeps.
pub fn measured(runtime: &Runtime, n: usize) -> LoadBalancer {
    let pins = lists::scatter(n);
    let supplier = chain(lists::plain(n)).with_zone_preference("eu-1a").build().expect("a chain that works");
    let stats = StatsProperties::default().with_enabled(true);
    let balancer = LoadBalancer::builder(supplier).stats(stats).build();
    runtime.block_on(balancer.ready()).expect("a fixed list is at hand");
    drop(pins);
    completes(&balancer, 2 * n);
    balancer
}

/// `count` picks whose leases end with a status.
pub fn completes(balancer: &LoadBalancer, count: usize) {
    for _ in 0..count {
        let choice = balancer.try_choose(black_box(&Request::EMPTY)).expect("an instance");
        // The number alone is hidden: an outcome that is hidden as a whole is written in pieces and read back in one, for which a
        // processor waits, as it does for no caller who has a status at hand.
        choice.complete(Outcome::Status(black_box(200)));
    }
}

/// Zones, weights, hints and versions: every stage there is.
pub fn full_chain(chain: SupplierBuilder) -> SupplierBuilder {
    routes(chain).with_zone_preference("eu-1a").with_weights()
}

/// Zones in proportion, where the own one spills over, priorities and the panic threshold, over weights.
pub fn zones(chain: SupplierBuilder) -> SupplierBuilder {
    let zone = ZonePreference::new("eu-1a").with_mode(ZoneMode::Proportional);
    let fleet = OwnFleet::fixed([("eu-1a", 20), ("eu-1b", 10), ("eu-1c", 10)]);
    let chain = chain.with_zone_preference(zone).with_own_fleet(fleet).with_weights();
    chain.with_priorities().with_panic_threshold(50)
}

fn routes(chain: SupplierBuilder) -> SupplierBuilder {
    chain.with_hints().with_metadata_route(MetadataRoute::by("version").header("X-Version"))
}

/// Everybody is well.
#[derive(Debug)]
struct Well;

#[async_trait]
impl HealthProbe for Well {
    async fn check(&self, _: &ServiceInstance) -> Result<(), ProbeError> {
        Ok(())
    }
}

/// API versions by the header `X-Api-Version`, and any instance for a request without one.
pub fn versions(matching: ApiVersionMatch) -> ApiVersion {
    ApiVersion::default().with_header("X-Api-Version").with_matching(matching).with_fallback(true)
}

/// Status, health, API versions, hints, a sticky cookie, the own zone, a subset and weights that are alike.
pub fn every_stage(runtime: &Runtime, kind: Kind, n: usize) -> LoadBalancer {
    scattered(runtime, kind, n, || {
        chain(lists::versioned(n))
            .with_health_checks(HealthCheck::new(Well).with_interval(Duration::from_secs(3_600)))
            .with_api_version(versions(ApiVersionMatch::Exact))
            .with_hints()
            .with_sticky_session(StickySession::default())
            .with_zone_preference("eu-1a")
            .with_subset(Subset::of_size(100).with_client("bench"))
            .with_weights()
    })
}

/// API versions, matched so.
pub fn by_version(runtime: &Runtime, kind: Kind, n: usize, matching: ApiVersionMatch) -> LoadBalancer {
    scattered(runtime, kind, n, || {
        let stage = versions(matching).with_query_parameter("v").with_path_segment(3);
        chain(lists::versioned(n))
            .with_api_version(stage.with_media_type_parameter("application/json", "version"))
    })
}

/// A share of the requests goes to a canary, by a header or by chance.
pub fn canary(runtime: &Runtime, kind: Kind, n: usize, hash: Option<Source>) -> LoadBalancer {
    let route = MetadataRoute::by("version").cookie("version").with_percent("canary", 5.0);
    let route = match hash {
        Some(hash) => route.with_hash(hash),
        None => route,
    };
    scattered(runtime, kind, n, || chain(lists::versioned(n)).with_metadata_route(route))
}

/// A request of an ordinary client, with a version.
pub fn http_request() -> http::Request<()> {
    http::Request::builder()
        .header("accept", "application/json")
        .header("user-agent", "bench")
        .header("x-version", "v2")
        .body(())
        .expect("a valid request")
}

/// The same with a cookie that names an instance of the lists, with a place in it.
pub fn session(at: usize) -> http::Request<()> {
    let mut request = http_request();
    let cookie = format!("theme=dark; sc-lb-instance-id=i-{at:05}");
    request.headers_mut().insert("cookie", cookie.parse().expect("a valid header"));
    request
}

/// `count` picks that do not wait, each lease dropped.
pub fn tries<L: ReactiveLoadBalancer + ?Sized>(balancer: &L, request: &Request<'_>, count: usize) {
    for _ in 0..count {
        let choice = balancer.try_choose(black_box(request));
        black_box(&choice);
    }
}

/// `count` picks that do not wait, for each of `requests` in turn.
pub fn tries_in_turn(balancer: &LoadBalancer, requests: &[Request<'_>], count: usize) {
    for turn in 0..count {
        let choice = balancer.try_choose(black_box(&requests[turn % requests.len()]));
        black_box(&choice);
    }
}

/// `count` picks that would wait if there were no list, each lease dropped.
pub async fn chooses<L: ReactiveLoadBalancer + ?Sized>(balancer: &L, request: &Request<'_>, count: usize) {
    for _ in 0..count {
        let choice = balancer.choose(black_box(request)).await;
        black_box(&choice);
    }
}
