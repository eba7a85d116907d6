//! 3.12 Caching: cases 117 to 136. Where Spring has a manager of caches, a chain here has properties of its cache.

use std::time::Duration;

use evenkeel::config::{CacheProperties, Properties, Refresh};
use evenkeel::discovery::{Lists, SupplyErrorKind};
use evenkeel::health::{HealthCheck, TcpProbe};
use evenkeel::policy::RoundRobin;
use evenkeel::{
    ChooseErrorKind, LoadBalancer, LoadBalancers, Origin, Reason, Request, ServiceId,
    ServiceInstanceListSupplier, SupplierBuilder,
};
use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use crate::support::*;

/// As Spring counts them.
const FIVE_MINUTES: u128 = 300_000;

fn ttl(ttl: Duration) -> CacheProperties {
    CacheProperties::default().with_ttl(ttl)
}

fn cached(source: &Pull, cache: CacheProperties) -> LoadBalancer {
    over(chain(source.clone()).with_caching(cache), RoundRobin::default())
}

/// Over `source`, which is asked for every service, as these properties say.
fn all(source: &Pull, pairs: &[(&str, &str)]) -> LoadBalancers {
    let set = |properties: Properties, (key, value): &(&str, &str)| properties.set(key, *value).unwrap();
    let properties = pairs.iter().fold(Properties::default(), set);
    LoadBalancers::from_properties(properties, source.clone()).unwrap()
}

fn three() -> Pull {
    Pull::always("a b c", Duration::ZERO)
}

#[tokio::test(start_paused = true)]
async fn scl_117_an_endless_stream_holds_up_no_choose() {
    let source = Push::new(vec![(0.0, Ok(list("a b")))]);
    let check = HealthCheck::new(TcpProbe::default()).with_initial_delay(Duration::from_secs(10));
    let lb = over(chain(source).with_health_checks(check), RoundRobin::default());
    let start = Instant::now();
    pick(&lb).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn scl_118_two_reads_within_the_ttl_are_one_look_up() {
    let source = three();
    let lb = cached(&source, CacheProperties::default());
    picks(&lb, 2).await;
    advance(34.9).await;
    pick(&lb).await;
    assert_eq!(source.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn scl_119_a_read_behind_the_ttl_is_the_second_look_up() {
    for refresh in [Refresh::Behind, Refresh::Wait] {
        let source = three();
        let lb = cached(&source, ttl(Duration::from_secs(3)).with_refresh(refresh));
        pick(&lb).await;
        assert_eq!(source.calls(), 1);
        pick(&lb).await;
        settle().await;
        assert_eq!(source.calls(), 1);
        advance(4.0).await;
        pick(&lb).await;
        settle().await;
        assert_eq!(source.calls(), 2, "{refresh:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn scl_120_a_ttl_of_five_minutes_is_300_000_ms() {
    let source = three();
    let balancers = all(&source, &[("cache.ttl", "5m")]);
    assert_eq!(balancers.properties(&orders()).cache.ttl.as_millis(), FIVE_MINUTES);
    let lb = balancers.get("orders").unwrap();
    for (at, calls) in [(0, 1), (299_998, 1), (3, 2)] {
        tokio::time::advance(Duration::from_millis(at)).await;
        pick(&lb).await;
        settle().await;
        assert_eq!(source.calls(), calls);
    }
}

#[tokio::test(start_paused = true)]
async fn scl_121_two_spellings_of_a_service_share_one_list() {
    let source = three();
    let balancers = all(&source, &[]);
    for name in ["orders", "ORDERS", "Orders."] {
        pick(&balancers.get(name).unwrap()).await;
    }
    assert_eq!((source.calls(), balancers.services().len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn scl_123_a_ttl_of_0_looks_up_with_every_choose_and_a_long_one_never_again() {
    let source = three();
    let lb = cached(&source, ttl(Duration::ZERO));
    for calls in 1..=4 {
        pick(&lb).await;
        settle().await;
        assert_eq!(source.calls(), calls);
        advance(0.01).await;
    }
    let source = three();
    let lb = cached(&source, ttl(Duration::MAX));
    for _ in 0..10 {
        pick(&lb).await;
        advance(1e6).await;
    }
    assert_eq!(source.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn scl_124_a_ttl_of_50_ms_is_kept_to_the_millisecond() {
    for (at, calls) in [(49, 1), (51, 2)] {
        let source = three();
        let balancers = all(&source, &[("cache.ttl", "50ms")]);
        assert_eq!(balancers.properties(&orders()).cache.ttl, Duration::from_millis(50));
        let lb = balancers.get("orders").unwrap();
        pick(&lb).await;
        tokio::time::advance(Duration::from_millis(at)).await;
        pick(&lb).await;
        settle().await;
        assert_eq!(source.calls(), calls, "after {at} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn scl_125_a_cache_is_there_without_any_setting() {
    let source = three();
    let balancers = all(&source, &[]);
    let cache = balancers.properties(&orders()).cache;
    assert_eq!((cache.enabled, cache.ttl, cache.capacity), (true, Duration::from_secs(35), 256));
    even(&picks(&balancers.get("orders").unwrap(), 30).await, "a b c", 10, 0);
    assert_eq!(source.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn scl_126_one_set_of_balancers_without_a_cache_leaves_another_set_its_own() {
    let (without, with) = (three(), three());
    let (off, on) = (all(&without, &[("cache.enabled", "false")]), all(&with, &[]));
    for _ in 0..5 {
        pick(&off.get("orders").unwrap()).await;
        pick(&on.get("orders").unwrap()).await;
    }
    assert_eq!((without.calls(), with.calls()), (5, 1));
}

#[tokio::test(start_paused = true)]
async fn scl_127_two_sets_of_balancers_share_no_list() {
    let (one, two) = (Pull::always("a", Duration::ZERO), Pull::always("b", Duration::ZERO));
    let (first, second) = (all(&one, &[("cache.ttl", "5s")]), all(&two, &[("cache.ttl", "1h")]));
    for _ in 0..20 {
        assert_eq!(pick(&first.get("orders").unwrap()).await, "a");
        assert_eq!(pick(&second.get("orders").unwrap()).await, "b");
        advance(1.0).await;
    }
    assert_eq!((one.calls(), two.calls()), (4, 1));
}

#[tokio::test(start_paused = true)]
async fn scl_128_with_the_cache_off_every_choose_asks() {
    let source = three();
    let lb = all(&source, &[("cache.enabled", "false")]).get("orders").unwrap();
    for calls in 1..=5 {
        pick(&lb).await;
        assert_eq!(source.calls(), calls);
    }
}

#[tokio::test(start_paused = true)]
async fn scl_130_with_balancing_off_nothing_is_kept_and_nobody_is_asked() {
    let source = three();
    let balancers = all(&source, &[("enabled", "false")]);
    let error = balancers.get("orders").unwrap_err();
    assert!(error.reason().contains("enabled: false"), "{error}");
    advance(60.0).await;
    assert_eq!((source.calls(), balancers.services().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn scl_131_a_thousand_callers_of_a_cold_service_share_one_look_up() {
    let source = Pull::always("a b c", Duration::from_millis(200));
    let lb = balancer(source.clone());
    let callers: Vec<_> = (0..1_000)
        .map(|_| {
            let lb = lb.clone();
            tokio::spawn(async move { pick(&lb).await })
        })
        .collect();
    let mut all = Vec::new();
    for caller in callers {
        all.push(caller.await.unwrap());
    }
    assert_eq!(source.calls(), 1);
    even(&all, "a b c", 333, 1);
}

/// The same from 64 threads, on the real clock, since there is one virtual clock per thread.
#[test]
fn scl_131_64_threads_share_one_look_up_of_a_cold_service() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let source = Pull::always("a b c", Duration::from_millis(200));
    let lb = balancer(source.clone());
    let together = std::sync::Barrier::new(64);
    std::thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                together.wait();
                runtime.block_on(pick(&lb))
            });
        }
    });
    assert_eq!(source.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn scl_132_an_empty_answer_is_kept_for_a_second() {
    let source = Pull::always("", Duration::ZERO);
    let lb = balancer(source.clone());
    for _ in 0..5 {
        let error = lb.choose(&Request::EMPTY).await.unwrap_err();
        assert!(
            matches!(error.kind(), ChooseErrorKind::NoInstances { reason: Reason::Empty, .. }),
            "{error}"
        );
    }
    assert_eq!(source.calls(), 1);
    advance(1.1).await;
    assert!(lb.choose(&Request::EMPTY).await.is_err());
    assert_eq!(source.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn scl_133_an_error_leaves_the_last_list_and_is_tried_again_behind_the_callers() {
    let source = Pull::timed(|t| if (10.0..=70.0).contains(&t) { Err(refused()) } else { Ok(list("a b c")) });
    let lb = balancer(source.clone());
    pick(&lb).await;
    advance(36.0).await;
    for _ in 0..3 {
        let start = Instant::now();
        pick(&lb).await;
        settle().await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
    assert_eq!((source.calls(), lb.snapshot().unwrap().origin()), (2, Origin::Stale));
    for _ in 0..70 {
        advance(1.0).await;
        pick(&lb).await;
    }
    assert_eq!(lb.snapshot().unwrap().origin(), Origin::Pull, "it found its way back by itself");

    // Without a list from before: the error for each, after one call, and then a pause.
    let source = Pull::new(|_| async { Err(refused()) });
    let lb = balancer(source.clone());
    for _ in 0..3 {
        let error = lb.choose(&Request::EMPTY).await.unwrap_err();
        let ChooseErrorKind::Supply(why) = error.kind() else { panic!("{error}") };
        assert_eq!(why.kind(), SupplyErrorKind::Io);
    }
    assert_eq!(source.calls(), 1);
}

/// Two lists in one stream, which then ends, or stays open.
#[derive(Debug)]
struct Two {
    service: ServiceId,
    ends: bool,
}

impl ServiceInstanceListSupplier for Two {
    fn service_id(&self) -> &ServiceId {
        &self.service
    }
    fn get(&self) -> Lists {
        let both = stream::iter([Ok(list("a1 a2")), Ok(list("b1 b2"))]);
        if self.ends { Box::pin(both) } else { Box::pin(both.chain(stream::pending())) }
    }
}

#[tokio::test(start_paused = true)]
async fn scl_134_of_two_lists_of_one_stream_the_newer_counts() {
    for ends in [true, false] {
        let base = Two { service: orders(), ends };
        let lb = over(SupplierBuilder::new("orders").with_base(base), RoundRobin::default());
        pick(&lb).await;
        settle().await;
        even(&picks(&lb, 10).await, "b1 b2", 5, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn scl_135_an_empty_answer_behind_the_ttl_is_not_believed_at_once() {
    let source = Pull::timed(|t| Ok(list(if t < 10.0 { "a b" } else { "" })));
    let lb = balancer(source);
    let start = Instant::now();
    pick(&lb).await;
    tokio::time::sleep_until(start + Duration::from_secs(36)).await;
    pick(&lb).await;
    settle().await;
    assert_eq!(lb.snapshot().unwrap().origin(), Origin::Guarded);
    // 30 s from the first empty answer on.
    for t in 37..66 {
        tokio::time::sleep_until(start + Duration::from_secs(t)).await;
        pick(&lb).await;
    }
    let mut ended = None;
    for t in 66..75 {
        tokio::time::sleep_until(start + Duration::from_secs(t)).await;
        if lb.choose(&Request::EMPTY).await.is_err() {
            ended.get_or_insert(t);
        }
    }
    assert!(ended.is_some_and(|t| t <= 72), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn scl_136_without_a_place_to_keep_lists_they_are_still_delivered() {
    let source = three();
    let lb = over(chain(source.clone()).without_caching(), RoundRobin::default());
    picks(&lb, 3).await;
    assert_eq!(source.calls(), 3);
    let supplier = chain(source.clone()).without_caching().build().unwrap();
    assert_eq!(supplier.get().next().await.unwrap().unwrap().len(), 3);
}

/// The place where lists outlast the process cannot be used: a file is where the directory should be.
#[tokio::test]
async fn scl_136_without_a_directory_to_keep_lists_they_are_still_delivered() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let source = three();
    let lb = cached(&source, CacheProperties::default().with_warm_start(file.path().join("lists")));
    picks(&lb, 3).await;
    assert_eq!(source.calls(), 1);
}
