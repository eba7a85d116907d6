//! The meters of our own, through a recorder that keeps what it is told.
#![allow(clippy::float_cmp)] // gauges hold whole numbers

mod support;

use std::borrow::Cow;
use std::time::Duration;

use evenkeel::call::call;
use evenkeel::config::{LiveProperties, Properties, RetryBudgetProperties, RetryProperties, StatsProperties};
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::health::{HealthCheck, HealthProbe, ProbeError};
use evenkeel::policy::RoundRobin;
use evenkeel::supplier::FixedSupplier;
use evenkeel::{
    Failure, LoadBalancer, LoadBalancers, Outcome, Request, RequestView, ServiceInstance, Status,
    SupplierBuilder, async_trait,
};
use support::*;

fn on() -> StatsProperties {
    StatsProperties::default().with_enabled(true)
}

fn measured(chain: SupplierBuilder) -> LoadBalancer {
    LoadBalancer::builder(chain.build().unwrap()).policy(RoundRobin::default()).stats(on()).build()
}

fn publish(balancer: &LoadBalancer) {
    assert!(balancer.collector().publish());
}

/// One of our own meters of the service.
fn own(name: &str) -> String {
    format!("evenkeel.{name}{{service=orders}}")
}

fn by(name: &str, label: &str, value: &str) -> String {
    format!("evenkeel.{name}{{{}}}", {
        let mut labels = [format!("{label}={value}"), "service=orders".to_owned()];
        labels.sort();
        labels.join(", ")
    })
}

fn state(recorder: &Recorder, state: &str) -> f64 {
    recorder.gauge(&by("instances", "state", state))
}

// -------------------------------------------------------------------------------------------------------------- lists

#[tokio::test(start_paused = true)]
async fn sizes_by_state_and_zone_are_set_when_the_list_changes() {
    let recorder = Recorder::default();
    let _here = metrics::set_default_local_recorder(&recorder);
    let one = |id: &str, status, zone: &str| {
        instance(id).to_builder().status(status).with_metadata("zone", zone).build().unwrap()
    };
    let registry = Live::new(vec![
        one("a", Status::Up, "eu-1"),
        one("b", Status::Up, "eu-2"),
        one("c", Status::Unknown, "eu-2"),
        one("d", Status::Degraded, "eu-2"),
        one("e", Status::Down, "eu-3"),
        one("f", Status::Down, "eu-3"),
    ]);
    let balancer = measured(chain(registry.source()));
    balancer.ready().await.unwrap();
    let states = ["up", "unknown", "degraded", "draining", "skipped", "down", "unused"];
    let sizes = |recorder: &Recorder| states.map(|word| state(recorder, word));
    assert_eq!(sizes(&recorder), [2.0, 1.0, 0.0, 0.0, 0.0, 2.0, 1.0], "without anybody who publishes");
    let zones = || ["eu-1", "eu-2", "eu-3"].map(|zone| recorder.all(&by("zone.instances", "zone", zone)));
    let zones = || zones().map(|all| all.values().next().map(|series| series.gauge));
    assert_eq!(zones(), [Some(1.0), Some(2.0), None]);

    registry.set(vec![one("d", Status::Degraded, "eu-3")]).await;
    assert_eq!(sizes(&recorder), [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(zones(), [Some(0.0), Some(0.0), Some(1.0)]);

    // A call that is never sent has the instance skipped.
    balancer.choose(&Request::EMPTY).await.unwrap().complete(Outcome::Failure(Failure::Connect));
    publish(&balancer);
    assert_eq!(sizes(&recorder), [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
}

#[tokio::test(start_paused = true)]
async fn age_and_hash_tell_how_old_a_list_is_and_whether_two_clients_have_the_same() {
    let gauges = async |ids: &'static str, wait: f64| {
        let recorder = Recorder::default();
        let here = metrics::set_default_local_recorder(&recorder);
        let balancer = measured(chain(Pull::always(ids, Duration::ZERO)));
        balancer.ready().await.unwrap();
        advance(wait).await;
        publish(&balancer);
        drop(here);
        (recorder.gauge(&own("list.age")), recorder.gauge(&own("list.hash")))
    };
    let (first, second) = (gauges("a b c", 0.0).await, gauges("c a b", 12.5).await);
    assert_eq!(first.0, 0.0);
    assert!((second.0 - 12.5).abs() < 0.01, "{second:?}");
    assert_eq!(first.1, second.1);
    assert!(first.1 > 0.0 && first.1 < 2_f64.powi(52) && first.1.fract() == 0.0);
    assert_ne!(gauges("a b", 0.0).await.1, first.1);
}

#[tokio::test(start_paused = true)]
async fn look_ups_hits_waits_and_stale_picks_over_an_outage() {
    let recorder = Recorder::default();
    let _here = metrics::set_default_local_recorder(&recorder);
    let registry = Pull::new(|n| async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        if n == 0 { Ok(list("a b")) } else { Err(refused()) }
    });
    let balancer = measured(chain(registry));
    // Three callers wait for the first list, one of them gives up; then a thousand picks are hits.
    let request = Request::EMPTY;
    let given_up = tokio::time::timeout(Duration::from_millis(50), balancer.choose(&request)).await;
    assert!(given_up.is_err());
    let (one, two) = tokio::join!(balancer.choose(&request), balancer.choose(&request));
    drop((one.unwrap(), two.unwrap()));
    picks(&balancer, 1_000).await;
    publish(&balancer);
    assert_eq!(recorder.count(&own("cache.hits")), 1_000);
    let waits = |result| recorder.get(&by("choose.wait", "result", result)).values;
    assert_eq!(waits("served").len(), 2);
    assert!(waits("served").iter().all(|seconds| (seconds - 0.15).abs() < 0.01), "{:?}", waits("served"));
    assert_eq!(waits("cancelled").len(), 1);
    assert_eq!(recorder.count(&by("lookups", "result", "list")), 1);
    assert_eq!((recorder.gauge(&own("list.stale")), recorder.count(&own("picks.stale"))), (0.0, 0));

    // The registry goes away; the list is served, and every pick from it is counted.
    advance(36.0).await;
    pick(&balancer).await;
    advance(1.0).await;
    picks(&balancer, 7).await;
    publish(&balancer);
    assert_eq!(recorder.count(&by("lookups", "result", "failed")), 1);
    assert_eq!((recorder.gauge(&own("list.stale")), recorder.count(&own("picks.stale"))), (1.0, 7));
    assert_eq!(recorder.count(&own("cache.hits")), 1_008);
    // Nothing is counted twice.
    publish(&balancer);
    assert_eq!(recorder.count(&own("cache.hits")), 1_008);
}

#[tokio::test(start_paused = true)]
async fn the_empty_guard_is_seen_while_it_holds() {
    let recorder = Recorder::default();
    let _here = metrics::set_default_local_recorder(&recorder);
    let registry = Pull::timed(|at| if at < 10.0 { Ok(list("a")) } else { Ok(Vec::new()) });
    let balancer = measured(chain(registry));
    pick(&balancer).await;
    advance(36.0).await;
    pick(&balancer).await;
    settle().await;
    publish(&balancer);
    assert_eq!((recorder.gauge(&own("list.guarded")), recorder.gauge(&own("list.stale"))), (1.0, 0.0));
    assert_eq!(recorder.count(&by("lookups", "result", "empty")), 1);
    for _ in 0..40 {
        advance(1.0).await;
        let _ = balancer.choose(&Request::EMPTY).await;
    }
    publish(&balancer);
    assert_eq!((recorder.gauge(&own("list.guarded")), state(&recorder, "unknown")), (0.0, 0.0));
}

#[derive(Debug)]
struct Failing;

#[async_trait]
impl HealthProbe for Failing {
    async fn check(&self, _: &ServiceInstance) -> Result<(), ProbeError> {
        Err(ProbeError::new("broken"))
    }
}

#[tokio::test(start_paused = true)]
async fn fail_open_is_seen_while_all_fail_their_checks() {
    let recorder = Recorder::default();
    let _here = metrics::set_default_local_recorder(&recorder);
    let registry = Live::new(list("a b"));
    let balancer = measured(chain(registry.source()).with_health_checks(HealthCheck::new(Failing)));
    balancer.ready().await.unwrap();
    assert_eq!(recorder.gauge(&own("list.fail_open")), 0.0);
    advance(60.0).await;
    publish(&balancer);
    assert_eq!((recorder.gauge(&own("list.fail_open")), state(&recorder, "unknown")), (1.0, 2.0));
}

#[tokio::test(start_paused = true)]
async fn picks_of_another_zone_are_counted_also_without_a_preference() {
    let recorder = Recorder::default();
    let _here = metrics::set_default_local_recorder(&recorder);
    // One in the own zone, one in another, one that says nothing.
    let mut zoned = with("zone", "a=eu-1 b=eu-2");
    zoned.push(instance("c"));
    let properties = Properties::default().set("zone", "EU-1").unwrap().set("stats.enabled", true).unwrap();
    let registry = Live::new(zoned);
    let balancers = LoadBalancers::from_properties(properties, registry.source()).unwrap();
    let balancer = balancers.get("orders").unwrap();
    balancer.ready().await.unwrap();
    picks(&balancer, 30).await;
    balancers.collector().publish();
    assert_eq!((recorder.count(&own("picks.cross_zone")), recorder.count(&own("cache.hits"))), (10, 30));
}

// -------------------------------------------------------------------------------------------------------------- calls

#[tokio::test(start_paused = true)]
async fn retries_and_those_that_the_budget_refuses() {
    let recorder = Recorder::default();
    let _here = metrics::set_default_local_recorder(&recorder);
    let budget = RetryBudgetProperties::default().with_percent(0).with_min_per_second(1);
    let retry = RetryProperties::default()
        .with_retry_on_all_operations(true)
        .with_max_retries_on_same_service_instance(1)
        .with_budget(budget);
    let base = FixedSupplier::new(orders(), list("a b c"));
    let chain = SupplierBuilder::new("orders").with_base(base).with_seed(7).build().unwrap();
    let balancer = LoadBalancer::builder(chain).stats(on()).retry(retry).build();
    for _ in 0..5 {
        let broken = |_: Result<&(), &&str>| Outcome::Failure(Failure::Reset);
        let send = |_: &evenkeel::Choice, _| Some(async { Err::<(), _>("broken") });
        assert!(call(&balancer, &Request::EMPTY, broken, send).await.is_err());
    }
    publish(&balancer);
    let retries = |to| recorder.count(&by("retries", "to", to));
    // Ten in ten seconds: three calls have three each, the fourth has one.
    assert_eq!((retries("same"), retries("next")), (7, 3));
    assert_eq!(recorder.count(&own("retries.refused")), 2);
    let failed: usize = recorder.all("loadbalancer.requests.failed").values().map(|s| s.values.len()).sum();
    assert_eq!(failed, 15, "each attempt is measured");
}

struct Hostile(String, String);

impl RequestView for Hostile {
    fn method(&self) -> Option<&str> {
        Some(&self.0)
    }
    fn url(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(&self.1))
    }
}

async fn answered(balancer: &LoadBalancer, view: &Hostile) {
    let request = Request::of(view);
    let answer = call(
        balancer,
        &request,
        |_: Result<&(), &std::convert::Infallible>| Outcome::Status(200),
        |_, _| Some(async { Ok(()) }),
    );
    if let Ok(answer) = answer.await {
        answer.lease.complete(Outcome::Status(200));
    }
}

#[tokio::test(start_paused = true)]
async fn no_raw_path_and_no_invented_method_becomes_a_label() {
    let recorder = Recorder::default();
    let _here = metrics::set_default_local_recorder(&recorder);
    for ids in ["a", ""] {
        let base = FixedSupplier::new(orders(), list(ids));
        let balancer = measured(SupplierBuilder::new("orders").with_base(base));
        for n in 0..1_000 {
            let view = Hostile(format!("METHOD-{n}"), format!("lb://orders/secret/{n}?token={n}"));
            answered(&balancer, &view).await;
        }
        publish(&balancer);
    }
    let all = recorder.names("");
    assert!(all.iter().all(|name| !name.contains("secret") && !name.contains("METHOD")), "{all:#?}");
    let of_calls = recorder.names("loadbalancer.");
    assert_eq!(of_calls.len(), 3, "active, success, discard: {of_calls:#?}");
    assert_eq!(
        recorder.count("loadbalancer.requests.discard{method=_OTHER, serviceId=orders, uri=UNKNOWN}"),
        1_000
    );
}

#[tokio::test(start_paused = true)]
async fn include_path_makes_a_series_for_each_path_without_query_and_keeps_few_handles() {
    let recorder = Recorder::default();
    let _here = metrics::set_default_local_recorder(&recorder);
    let base = FixedSupplier::new(orders(), list("a"));
    let chain = SupplierBuilder::new("orders").with_base(base).build().unwrap();
    let balancer = LoadBalancer::builder(chain).stats(on().with_include_path(true)).build();
    for n in 0..300 {
        answered(&balancer, &Hostile("GET".into(), format!("lb://orders/{n}?token={n}"))).await;
    }
    let paths = recorder.names("loadbalancer.requests.success");
    assert_eq!(paths.len(), 300);
    assert!(paths.iter().all(|name| !name.contains("token")));
    assert_eq!(recorder.held(), 256);
}

// -------------------------------------------------------------------------------------------------- the end of series

/// On a thread of its own, which holds on to the last snapshot that it picked from.
#[test]
fn case_055_the_series_of_an_instance_end_with_it_and_nothing_of_ours_holds_on() {
    let recorder = Recorder::default();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
            runtime.unwrap().block_on(come_and_go(&recorder));
        });
        thread.join().unwrap();
    });
    assert_eq!(recorder.held(), 0);
}

async fn come_and_go(recorder: &Recorder) {
    let _here = metrics::set_default_local_recorder(recorder);
    let registry = Live::new(Vec::new());
    let balancer = measured(chain(registry.source()).with_empty_guard(Duration::ZERO));
    // Ten thousand instances come and go, ten at a time, each called once.
    for round in 0..1_000_u32 {
        let batch = (0..10).map(|n| {
            ServiceInstance::builder(format!("10.{}.{}.{n}", round / 250, round % 250))
                .port(80)
                .build()
                .unwrap()
        });
        registry.set(batch.collect()).await;
        for _ in 0..10 {
            balancer.choose(&Request::EMPTY).await.unwrap().complete(Outcome::Status(200));
        }
        advance(60.0).await;
    }
    assert!(balancer.tracked() <= 40, "{}", balancer.tracked());
    assert!(recorder.held() <= 40, "{} handles are kept", recorder.held());
    let active = recorder.all("loadbalancer.requests.active");
    assert!(active.len() >= 9_900 && active.values().all(|series| series.gauge == 0.0), "{}", active.len());
    let kept = recorder.names("loadbalancer.requests.success").len();
    assert_eq!(kept, 10_000, "each of them was measured");
    drop(balancer);
    settle().await;
    assert_eq!(recorder.held(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_outlives_instance_and_balancer_ends_its_series() {
    let recorder = Recorder::default();
    let _here = metrics::set_default_local_recorder(&recorder);
    let registry = Live::new(list("a"));
    let balancer = measured(chain(registry.source()));
    let lease = balancer.choose(&Request::EMPTY).await.unwrap();
    publish(&balancer);
    let active = recorder.names("loadbalancer.requests.active").remove(0);
    assert_eq!(recorder.gauge(&active), 1.0);
    let collector = balancer.collector();
    drop(balancer);
    settle().await;
    assert!(!collector.publish(), "a collector keeps nothing alive");
    assert!(recorder.gauge(&own("list.age")).is_nan() && state(&recorder, "unknown").is_nan());
    assert_eq!(recorder.gauge(&active), 1.0, "it is still under way");
    drop(lease);
    assert_eq!((recorder.gauge(&active), recorder.held()), (0.0, 0));
    let cancelled = recorder.all("loadbalancer.requests.cancelled");
    assert_eq!(cancelled.values().map(|series| series.count).sum::<u64>(), 1);
}

/// As a thread does that picked once and never again.
#[tokio::test(start_paused = true)]
async fn who_holds_an_old_snapshot_keeps_one_handle_of_an_instance_at_most() {
    let recorder = Recorder::default();
    let _here = metrics::set_default_local_recorder(&recorder);
    let registry = Live::new(list("a"));
    let balancer = measured(chain(registry.source()));
    for status in [200, 404, 500] {
        balancer.choose(&Request::EMPTY).await.unwrap().complete(Outcome::Status(status));
    }
    let old = balancer.snapshot();
    registry.set(list("b")).await;
    assert_eq!(recorder.held(), 3);
    advance(130.0).await;
    registry.set(list("c")).await;
    assert_eq!((balancer.tracked(), recorder.held()), (2, 1));
    drop(old);
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_nobody_used_for_a_minute_is_asked_for_anew() {
    let recorder = Recorder::default();
    let _here = metrics::set_default_local_recorder(&recorder);
    let registry = Live::new(list("a b"));
    let balancer = measured(chain(registry.source()));
    balancer.choose(&Request::EMPTY).await.unwrap().complete(Outcome::Status(200));
    assert_eq!(recorder.held(), 1);
    for _ in 0..8 {
        advance(10.0).await;
        publish(&balancer);
    }
    let asked = recorder.asked();
    for _ in 0..4 {
        balancer.choose(&Request::EMPTY).await.unwrap().complete(Outcome::Status(200));
    }
    let all = recorder.all("loadbalancer.requests.success");
    let values: usize = all.values().map(|series| series.values.len()).sum();
    assert_eq!(
        (values, recorder.asked() - asked),
        (5, 2),
        "one is asked for again, the other for the first time"
    );
}

// ------------------------------------------------------------------------------------------------------------- the rest

#[tokio::test(start_paused = true)]
async fn handles_are_kept_so_that_a_pick_asks_the_recorder_for_nothing() {
    let recorder = Recorder::default();
    let _here = metrics::set_default_local_recorder(&recorder);
    let base = FixedSupplier::new(orders(), list("a b c"));
    let balancer = measured(SupplierBuilder::new("orders").with_base(base));
    let round = || async {
        for _ in 0..300 {
            balancer.choose(&Request::EMPTY).await.unwrap().complete(Outcome::Status(200));
        }
    };
    round().await;
    let asked = recorder.asked();
    round().await;
    assert_eq!(recorder.asked(), asked);
    // Instances that nobody called have no series.
    let base = FixedSupplier::new(orders(), list("x y z"));
    let idle = measured(SupplierBuilder::new("orders").with_base(base));
    idle.ready().await.unwrap();
    publish(&idle);
    assert!(recorder.names("loadbalancer.").iter().all(|name| !name.contains("=x")));
}

#[tokio::test(start_paused = true)]
async fn two_balancers_of_a_service_add_up() {
    let recorder = Recorder::default();
    let _here = metrics::set_default_local_recorder(&recorder);
    for _ in 0..2 {
        let base = FixedSupplier::new(orders(), list("a"));
        let balancer = measured(SupplierBuilder::new("orders").with_base(base));
        balancer.ready().await.unwrap();
        picks(&balancer, 5).await;
        publish(&balancer);
    }
    assert_eq!(recorder.count(&own("cache.hits")), 10);
}

#[tokio::test(start_paused = true)]
async fn a_collector_publishes_by_itself_until_the_balancers_are_gone() {
    let recorder = Recorder::default();
    let _here = metrics::set_default_local_recorder(&recorder);
    let registry = SimpleDiscovery::new().with_instances("orders", list("a")).unwrap();
    let balancers = LoadBalancers::builder(registry).stats(on()).build().unwrap();
    let orders = balancers.get("orders").unwrap();
    let task = tokio::spawn(balancers.collector().run(Duration::from_secs(15)));
    orders.ready().await.unwrap();
    picks(&orders, 3).await;
    advance(15.5).await;
    assert_eq!(recorder.count(&own("cache.hits")), 3);
    drop((orders, balancers));
    advance(15.0).await;
    assert!(task.is_finished());
}

/// A recorder with a fault of its own.
#[derive(Debug)]
struct Broken;

impl metrics::Recorder for Broken {
    fn describe_counter(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {
        panic!("on purpose")
    }
    fn describe_gauge(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {
        panic!("on purpose")
    }
    fn describe_histogram(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {
        panic!("on purpose")
    }
    fn register_counter(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        panic!("on purpose")
    }
    fn register_gauge(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        panic!("on purpose")
    }
    fn register_histogram(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Histogram {
        panic!("on purpose")
    }
}

#[tokio::test(start_paused = true)]
async fn a_recorder_that_panics_harms_no_call_and_no_list() {
    let _here = metrics::set_default_local_recorder(&Broken);
    let registry = Live::new(list("a"));
    let balancer = measured(chain(registry.source()));
    let lease = balancer.choose(&Request::EMPTY).await.unwrap();
    lease.complete(Outcome::Status(200));
    registry.set(list("a b")).await;
    publish(&balancer);
    assert_eq!((balancer.snapshot().unwrap().len(), balancer.in_flight()), (2, 0));
}

/// The guide's table has each meter, and each name in it is one.
#[tokio::test(start_paused = true)]
async fn every_meter_is_described_and_stands_in_the_guide() {
    let recorder = Recorder::default();
    let _here = metrics::set_default_local_recorder(&recorder);
    let base = FixedSupplier::new(orders(), list("a"));
    let balancer = measured(SupplierBuilder::new("orders").with_base(base));
    balancer.ready().await.unwrap();
    let guide = std::fs::read_to_string("src/guide/observing.md").unwrap();
    let rows = guide.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let named: Vec<&str> = rows
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("loadbalancer.") || name.starts_with("evenkeel."))
        .collect();
    assert_eq!(named.len(), 19);
    assert_eq!(
        named.into_iter().map(str::to_owned).collect::<std::collections::BTreeSet<_>>(),
        recorder.described()
    );
}

/// The names of alerts are those that the exporter makes of the meters, by kind and unit.
#[test]
fn the_alerts_of_the_guide_ask_for_meters_that_there_are() {
    let guide = std::fs::read_to_string("src/guide/observing.md").unwrap();
    let mut exported = std::collections::BTreeSet::new();
    for line in guide.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split(" | ").collect();
        let name = cells[0].trim_start_matches("| ").trim_matches('`').replace('.', "_");
        let name = if cells[1].ends_with("seconds") { name + "_seconds" } else { name };
        exported.insert(match cells[1].split(',').next().unwrap() {
            "counter" => name + "_total",
            "histogram" => name + "_count",
            _ => name,
        });
    }
    let (_, alerts) = guide.split_once("```yaml").unwrap();
    let asked: Vec<&str> = alerts
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("evenkeel_") || word.starts_with("loadbalancer_"))
        .collect();
    assert!(asked.len() >= 12, "{asked:?}");
    for name in asked {
        assert!(exported.contains(name), "{name} is none of {exported:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_happens_while_nobody_measures_is_not_counted_later() {
    let recorder = Recorder::default();
    let _here = metrics::set_default_local_recorder(&recorder);
    let registry = Live::new(list("a b"));
    let live = LiveProperties::new(Properties::default());
    let balancers = LoadBalancers::builder(registry.source()).live(live.clone()).build().unwrap();
    let orders = balancers.get("orders").unwrap();
    orders.ready().await.unwrap();
    let mut expected = 0;
    for (on, count) in [(false, 5), (true, 7), (false, 11), (true, 13)] {
        live.replace(Properties::default().set("stats.enabled", on).unwrap());
        settle().await;
        picks(&orders, count).await;
        balancers.collector().publish();
        expected += if on { count as u64 } else { 0 };
        if expected > 0 {
            assert_eq!(recorder.count(&own("cache.hits")), expected, "after {count} with {on}");
        }
    }
}
