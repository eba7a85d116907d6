//! 3.15 Builder and predefined configurations: cases 175 to 188.
//!
//! `a` and `b` are in the zone z1, `c` is in z2; `b` has the weight 3. A layer shows by what it does; that there is a cache
//! below it, by one look-up for all picks.
#![allow(clippy::unnecessary_literal_bound)] // as the trait writes it, and as its implementors do

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel::config::{CacheProperties, Format, Properties};
use evenkeel::discovery::{Blocking, BlockingDiscoveryClient, DiscoveryClient, SupplyError};
use evenkeel::health::HealthCheck;
use evenkeel::policy::RoundRobin;
use evenkeel::{
    HttpView, LoadBalancer, LoadBalancers, Request, ServiceId, ServiceInstance, SupplierBuilder, Tried,
};

use crate::support::*;

fn three() -> Vec<ServiceInstance> {
    let of = |id: &str, zone: &str, weight: &str| {
        let builder = instance(id).to_builder().with_metadata("zone", zone);
        builder.with_metadata("weight", weight).build().unwrap()
    };
    vec![of("a", "z1", "1"), of("b", "z1", "3"), of("c", "z2", "1")]
}

fn reactive() -> Pull {
    Pull::new(|_| async { Ok(three()) })
}

/// A registry whose client blocks; it gives always the same.
#[derive(Clone, Debug)]
struct Blocks(Vec<ServiceInstance>, Arc<AtomicUsize>);

impl Blocks {
    fn new(list: Vec<ServiceInstance>) -> Self {
        Self(list, Arc::default())
    }
    fn calls(&self) -> usize {
        self.1.load(Ordering::SeqCst)
    }
}

impl BlockingDiscoveryClient for Blocks {
    fn name(&self) -> &str {
        "blocks"
    }
    fn instances(&self, _: &ServiceId) -> Answer {
        self.1.fetch_add(1, Ordering::SeqCst);
        Ok(self.0.clone())
    }
    fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        Ok(Vec::new())
    }
}

/// The service `orders` as this text below `evenkeel` says.
fn configured(text: &str, client: impl DiscoveryClient) -> LoadBalancer {
    let properties =
        Properties::parse(format!("evenkeel: {{{text}}}"), Format::Yaml, "application.yml").unwrap();
    LoadBalancers::from_properties(properties, client).unwrap().get("orders").unwrap()
}

async fn shares(lb: &LoadBalancer, n: usize) -> [usize; 3] {
    let all = picks(lb, n).await;
    ["a", "b", "c"].map(|id| count(&all, id))
}

#[tokio::test(start_paused = true)]
async fn scl_175_weights_hold_among_those_that_are_healthy_in_either_order_of_calls() {
    for health_first in [true, false] {
        let probe = Fake::new();
        probe.set("c", Some(0), false);
        let check = HealthCheck::new(probe).with_initial_delay(Duration::from_secs(1));
        let chain = chain(reactive());
        let chain = if health_first {
            chain.with_health_checks(check).with_weights()
        } else {
            chain.with_weights().with_health_checks(check)
        };
        let lb = over(chain, RoundRobin::default());
        assert_eq!(shares(&lb, 50).await, [10, 30, 10], "before the first round");
        advance(1.5).await;
        assert_eq!(shares(&lb, 40).await, [10, 30, 0]);
    }
}

#[test]
fn scl_176_stages_without_a_base_are_refused() {
    let error = SupplierBuilder::new("orders").with_weights().with_zone_preference("z1").build().unwrap_err();
    assert_eq!(error.reason(), "it has no base: where do the lists come from?");
}

#[tokio::test(start_paused = true)]
async fn scl_177_with_the_cache_switched_off_the_other_stages_are_there() {
    let (source, probe) = (reactive(), Fake::new());
    probe.set("c", Some(0), false);
    let off = CacheProperties::default().with_enabled(false);
    let chain = chain(source.clone()).with_caching(off).with_health_checks(HealthCheck::new(probe));
    let lb = over(chain, RoundRobin::default());
    pick(&lb).await;
    advance(1.0).await;
    assert_eq!(shares(&lb, 10).await, [5, 5, 0]);
    assert_eq!(source.calls(), 11);
}

#[tokio::test(start_paused = true)]
async fn scl_178_by_default_there_is_a_cache_and_no_other_stage() {
    for text in ["", "configurations: default"] {
        let source = reactive();
        let lb = configured(&format!("zone: z1, {text}"), source.clone());
        assert_eq!((shares(&lb, 30).await, source.calls()), ([10, 10, 10], 1), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn scl_179_zone_preference_over_a_cache() {
    let source = reactive();
    let lb = configured("zone: z1, configurations: zone-preference", source.clone());
    assert_eq!((shares(&lb, 30).await, source.calls()), ([15, 15, 0], 1));
}

#[cfg(feature = "reqwest")]
mod health {
    use super::*;
    use crate::net::{Refusing, Server, eventually, ok};

    /// One instance that is alive and one that is not, once the first round is over; and a chain over them.
    async fn checked<C: DiscoveryClient>(
        text: &str,
        client: impl FnOnce(Vec<ServiceInstance>) -> C,
    ) -> (Server, LoadBalancer) {
        let (server, dead) = (Server::start(ok("")).await, Refusing::new());
        let lb = configured(text, client(vec![server.instance("a"), dead.instance("b")]));
        pick(&lb).await;
        eventually("the first round", || lb.snapshot().unwrap().version() >= 2).await;
        (server, lb)
    }

    #[tokio::test]
    async fn scl_180_health_checks_over_a_cache() {
        let mut source = None;
        let client = |instances: Vec<ServiceInstance>| {
            source.insert(Pull::new(move |_| std::future::ready(Ok(instances.clone())))).clone()
        };
        let (_server, lb) = checked("configurations: health-check, health-check.timeout: 2s", client).await;
        assert_eq!(shares(&lb, 30).await, [30, 0, 0]);
        assert_eq!(source.unwrap().calls(), 1);
    }

    #[tokio::test]
    async fn scl_186_health_checks_of_a_blocking_client_by_every_kind_of_probe() {
        for (probe, asked) in [("probe: http", 1), ("probe: tcp", 0), ("path: /health", 1)] {
            let text = format!("configurations: health-check, health-check: {{{probe}}}");
            let (server, lb) = checked(&text, |list| Blocking::new(Blocks::new(list))).await;
            assert_eq!(shares(&lb, 10).await, [10, 0, 0], "{probe}");
            assert_eq!((server.served(), server.connections()), (asked, 1), "{probe}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn scl_181_weights_over_a_cache() {
    let source = reactive();
    let lb = configured("configurations: weighted", source.clone());
    assert_eq!((shares(&lb, 50).await, source.calls()), ([10, 30, 10], 1));
}

#[tokio::test(start_paused = true)]
async fn scl_182_sticky_sessions_over_a_cache() {
    let source = reactive();
    let lb = configured("configurations: request-based-sticky-session", source.clone());
    let http = http::Request::builder().header("cookie", "sc-lb-instance-id=c").body(()).unwrap();
    let view = HttpView::of(&http);
    for _ in 0..10 {
        assert_eq!(pick_for(&lb, &Request::of(&view)).await, "c");
    }
    assert_eq!((shares(&lb, 30).await, source.calls()), ([10, 10, 10], 1));
}

#[tokio::test]
async fn scl_183_a_blocking_client_has_a_cache_and_no_other_stage_by_default() {
    for text in ["", "configurations: default"] {
        let source = Blocks::new(three());
        let lb = configured(text, Blocking::new(source.clone()));
        assert_eq!((shares(&lb, 30).await, source.calls()), ([10, 10, 10], 1), "{text}");
    }
}

#[tokio::test]
async fn scl_184_a_later_attempt_avoids_what_was_tried_over_a_cache() {
    let source = Blocks::new(three());
    let lb = configured("", Blocking::new(source.clone()));
    for _ in 0..9 {
        let mut tried = Tried::new();
        let first = lb.choose(&Request::EMPTY).await.unwrap();
        tried.add(&first);
        let second = lb.choose(&Request::EMPTY.with_tried(&tried)).await.unwrap();
        assert_ne!(first.instance(), second.instance());
    }
    assert_eq!(source.calls(), 1);
}

#[tokio::test]
async fn scl_185_a_call_that_does_not_say_what_it_tried_avoids_nothing() {
    let text = "retry.avoid-previous-instance: false";
    let properties =
        Properties::parse(format!("evenkeel: {{{text}}}"), Format::Yaml, "application.yml").unwrap();
    assert!(!properties.effective("orders").retry.avoid_previous_instance);
    let source = Blocks::new(vec![instance("a")]);
    let lb = configured(text, Blocking::new(source.clone()));
    assert_eq!(picks(&lb, 3).await.concat(), "aaa");
    let source = Blocks::new(three());
    let lb = configured(text, Blocking::new(source.clone()));
    assert_eq!((shares(&lb, 30).await, source.calls()), ([10, 10, 10], 1));
}

#[tokio::test]
async fn scl_187_weights_of_a_blocking_client_over_a_cache() {
    let source = Blocks::new(three());
    let lb = configured("configurations: weighted", Blocking::new(source.clone()));
    assert_eq!((shares(&lb, 50).await, source.calls()), ([10, 30, 10], 1));
}

#[test]
fn scl_188_an_unknown_configuration_is_an_error_that_says_what_is_allowed() {
    let text = "evenkeel.configurations: health-chek";
    let error = Properties::parse(text, Format::Yaml, "application.yml").unwrap_err().to_string();
    for part in ["configurations", "health-chek", "health-check", "zone-preference", "application.yml"] {
        assert!(error.contains(part), "{part}: {error}");
    }
}
