//! The allocations of a pick, for every policy, kind of request and way to call.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::config::ApiVersionMatch;
use evenkeel::policy::{
    AvailabilityFiltering, ClientSideWeightedRoundRobin, DubboConsistentHash, HashKey, Maglev, Policy,
    RingHash, RoundRobin, WeightedResponseTime, ZoneAvoidance,
};
use evenkeel::supplier::Source;
use evenkeel::{
    ChooseExt, HttpView, LoadBalancer, LoadReport, Outcome, ReactiveLoadBalancer, Request, Tried, Weight,
};
use futures_util::FutureExt;
use tokio::runtime::Runtime;

use super::counting::allocations;
use super::recorder::Counted;
use super::subjects::{self, Kind};
use super::{chain, lists, warm};

const KINDS: [Kind; 4] = [Kind::RoundRobin, Kind::Random, Kind::P2c, Kind::PeakEwma];
const N: usize = 100;
/// Enough for the turns of a wheel that meets the tried ones.
const PICKS: usize = 300;

/// Every row by its name, with its allocations in all.
pub fn rows(runtime: &Runtime) -> Vec<(String, u64)> {
    let mut rows = Vec::new();
    for kind in KINDS {
        rows.push((format!("{kind}"), of(&subjects::simple(runtime, kind, N))));
        rows.push((format!("{kind}, weighted"), of(&subjects::weighted(runtime, kind, N))));
        rows.push((format!("{kind}, hints"), of(&subjects::hinted(runtime, kind, N))));
        rows.push((format!("{kind}, hints and versions"), of(&subjects::routed(runtime, kind, N))));
    }
    rows.push(("round robin, weighted beyond a table".to_owned(), of(&stride(runtime))));
    let kind = Kind::RoundRobin;
    let versions = [ApiVersionMatch::Exact, ApiVersionMatch::Range, ApiVersionMatch::NewestCompatible];
    for matching in versions {
        let balancer = subjects::by_version(runtime, kind, N, matching);
        rows.push((format!("API versions, {matching}"), of(&balancer) + of_versions(&balancer)));
    }
    let by_user = Some(Source::Header("user-agent".to_owned()));
    rows.push(("canary by hash".to_owned(), of(&subjects::canary(runtime, kind, N, by_user))));
    rows.push(("canary by chance".to_owned(), of(&subjects::canary(runtime, kind, N, None))));
    let every = subjects::every_stage(runtime, kind, N);
    let session = subjects::session(7);
    let view = HttpView::of(&session);
    let sticky = allocations(|| every_way(&every, &Request::of(&view)));
    for (name, policy) in subjects::hashes() {
        for (kind, weighted) in [("", false), (", weighted", true)] {
            let balancer = subjects::hashed(runtime, &policy, N, weighted);
            let users = subjects::users();
            let made = users.iter().take(16).map(|user| {
                let view = HttpView::of(user);
                allocations(|| every_way(&balancer, &Request::of(&view)))
            });
            rows.push((format!("{name}{kind}"), of(&balancer) + made.sum::<u64>()));
        }
    }
    for (name, policy, ..) in subjects::others() {
        for (kind, weighted) in [("", false), (", weighted", true)] {
            let balancer = subjects::hashed(runtime, &policy, N, weighted);
            let ended = allocations(|| subjects::completes(&balancer, PICKS));
            rows.push((format!("{name}{kind}"), of(&balancer) + ended + reported(&balancer)));
        }
    }
    rows.push(("weights by response time, made for each pick".to_owned(), weights(runtime)));
    rows.push(("everybody fails, or is busy".to_owned(), all_busy(runtime)));
    rows.push(("keys from everywhere".to_owned(), of_keys(runtime)));
    rows.push(("every stage".to_owned(), of(&every) + of_versions(&every) + sticky));
    rows.push(("round robin, measured, with its completion".to_owned(), measured(runtime)));
    rows
}

/// Leases that hand over a report of load.
fn reported(balancer: &LoadBalancer) -> u64 {
    let report = LoadReport::default().with_qps(100.0).with_cpu_utilization(0.5);
    allocations(|| {
        for _ in 0..PICKS {
            let choice = balancer.try_choose(&Request::EMPTY).expect("an instance");
            choice.report(black_box(&report));
            choice.complete(Outcome::Status(200));
        }
    })
}

/// The one pick in a while that makes the weights.
fn weights(runtime: &Runtime) -> u64 {
    let policy: Arc<dyn Policy> = Arc::new(WeightedResponseTime::default().with_interval(Duration::ZERO));
    let balancer = subjects::hashed(runtime, &policy, N, true);
    subjects::completes(&balancer, PICKS);
    of(&balancer) + allocations(|| subjects::completes(&balancer, PICKS))
}

/// Picks that pass by everybody and look at all.
fn all_busy(runtime: &Runtime) -> u64 {
    let policies: [Arc<dyn Policy>; 3] = [
        Arc::new(AvailabilityFiltering::default().with_active_limit(1)),
        Arc::new(ZoneAvoidance::default().with_active_limit(1)),
        Arc::new(ClientSideWeightedRoundRobin::default()),
    ];
    let of = |policy: &Arc<dyn Policy>| {
        let balancer = subjects::hashed(runtime, policy, N, true);
        let held: Vec<_> = (0..2 * N).map(|_| balancer.try_choose(&Request::EMPTY)).collect();
        let made = allocations(|| every_way(&balancer, &Request::EMPTY));
        for choice in held.into_iter().flatten() {
            choice.complete(Outcome::Status(503));
        }
        made + allocations(|| every_way(&balancer, &Request::EMPTY))
    };
    policies.iter().map(of).sum()
}

/// Picks that are counted, and attempts that are recorded.
fn measured(runtime: &Runtime) -> u64 {
    let recorder = Counted::install().expect("the recorder of this process");
    let balancer = subjects::measured(runtime, N);
    let before = recorder.values();
    let made = allocations(|| subjects::completes(&balancer, PICKS)) + of(&balancer);
    assert_eq!(recorder.values() - before, PICKS as u64, "each attempt was recorded");
    made
}

/// Weights without a common period that could be written out.
fn stride(runtime: &Runtime) -> LoadBalancer {
    let list = (1_u32..).zip(lists::plain(N)).map(|(at, instance)| {
        let weight = Weight::new(f64::from(at) * 997.001).expect("a valid weight");
        instance.to_builder().weight(weight).build().expect("a valid instance")
    });
    warm(runtime, chain(list.collect()).with_weights(), RoundRobin::default())
}

/// Static and `dyn`, waiting and not, with none to four tried; without a hint, with one, with one that nobody has.
fn of(balancer: &LoadBalancer) -> u64 {
    let http = subjects::http_request();
    let view = HttpView::of(&http);
    let mut made = 0;
    let mut tried = Tried::new();
    for _ in 0..=4 {
        let bare = Request::EMPTY.with_tried(&tried);
        let told = Request::of(&view).with_tried(&tried);
        for base in [bare, told] {
            for request in [base, base.with_hint("blue"), base.with_hint("nobody")] {
                made += allocations(|| every_way(balancer, &request));
                made += allocations(|| every_way::<dyn ReactiveLoadBalancer>(balancer, &request));
            }
        }
        let next = balancer.try_choose(&bare).expect("an instance");
        tried.add(&next);
    }
    made
}

/// A version in every place, of every kind: one, a range, a text that is none, one that nobody has.
fn of_versions(balancer: &LoadBalancer) -> u64 {
    let mut made = 0;
    for version in ["2.0", "v2", "1.x || >=2 <3", "^1", "nonsense", "9", ""] {
        for at in 0..4 {
            let mut request = subjects::http_request();
            let header = |name: &'static str, value: String| {
                (http::HeaderName::from_static(name), value.parse().expect("a valid value"))
            };
            let (name, value) = match at {
                0 => header("x-api-version", version.to_owned()),
                1 => header("content-type", format!("application/json;version=\"{version}\"")),
                _ => header("x-other", version.to_owned()),
            };
            request.headers_mut().insert(name, value);
            let method = http::Method::GET;
            let url = match at {
                2 => format!("http://orders/a?w=1&v={version}"),
                3 => format!("http://orders/a/b/c/{version}"),
                _ => "http://orders/".to_owned(),
            };
            let view = HttpView::with_text(&method, &url, request.headers());
            made += allocations(|| every_way(balancer, &Request::of(&view)));
        }
    }
    made
}

/// A key of every part there is, several values of a header among them, with calls in flight above the bound.
fn of_keys(runtime: &Runtime) -> u64 {
    let function = |request: &Request<'_>| request.header("accept").map(HashKey::hash_of);
    let key = [
        HashKey::header("x-user"),
        HashKey::cookie("theme"),
        HashKey::query("v"),
        HashKey::attribute("tenant"),
        HashKey::path(),
        HashKey::source(),
        HashKey::function(function),
    ];
    let key = key.into_iter().fold(HashKey::default(), HashKey::and);
    let mut request = subjects::session(3);
    for user in ["a", "b", "a user whose name is longer than a block of the hash is"] {
        request.headers_mut().append("x-user", user.parse().expect("a valid header"));
    }
    let method = http::Method::GET;
    let view = HttpView::with_text(&method, "http://orders/a/b?w=1&v=2", request.headers());
    let request = Request::of(&view);
    let policies: [Arc<dyn Policy>; 3] = [
        Arc::new(Maglev::new(key.clone()).with_balance_factor(100)),
        Arc::new(RingHash::new(key.clone()).with_balance_factor(100)),
        Arc::new(DubboConsistentHash::new(key)),
    ];
    let of = |policy: &Arc<dyn Policy>| {
        let balancer = subjects::hashed(runtime, policy, N, true);
        let held: Vec<_> = (0..2 * N).map(|_| balancer.try_choose(&request)).collect();
        let made = allocations(|| every_way(&balancer, &request));
        drop(held);
        made
    };
    policies.iter().map(of).sum()
}

fn every_way<L: ReactiveLoadBalancer + ?Sized>(balancer: &L, request: &Request<'_>) {
    for _ in 0..PICKS {
        assert!(black_box(balancer.try_choose(request)).is_ok());
        assert!(black_box(balancer.choose(request).now_or_never()).is_some_and(|choice| choice.is_ok()));
    }
}
