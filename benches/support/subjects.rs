//! Balancers to measure, and loops of picks.

use std::fmt;
use std::hint::black_box;

use evenkeel::config::StatsProperties;
use evenkeel::policy::{LeastRequest, RandomPick, RoundRobin};
use evenkeel::supplier::MetadataRoute;
use evenkeel::{ChooseExt, LoadBalancer, Outcome, ReactiveLoadBalancer, Request, SupplierBuilder};
use tokio::runtime::Runtime;

use super::{chain, lists, warm};

/// A policy by its name.
#[derive(Clone, Copy)]
pub enum Kind {
    RoundRobin,
    Random,
    P2c,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RoundRobin => "round robin",
            Self::Random => "random",
            Self::P2c => "P2C",
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
    };
    drop(pins);
    balancer
}

/// Nothing but what is always on.
pub fn simple(runtime: &Runtime, kind: Kind, n: usize) -> LoadBalancer {
    scattered(runtime, kind, n, || chain(lists::plain(n)))
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
        choice.complete(black_box(Outcome::Status(200)));
    }
}

/// Zones, weights, hints and versions: every stage there is.
pub fn full_chain(chain: SupplierBuilder) -> SupplierBuilder {
    routes(chain).with_zone_preference("eu-1a").with_weights()
}

fn routes(chain: SupplierBuilder) -> SupplierBuilder {
    chain.with_hints().with_metadata_route(MetadataRoute::by("version").header("X-Version"))
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

/// `count` picks that do not wait, each lease dropped.
pub fn tries<L: ReactiveLoadBalancer + ?Sized>(balancer: &L, request: &Request<'_>, count: usize) {
    for _ in 0..count {
        let choice = balancer.try_choose(black_box(request));
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
