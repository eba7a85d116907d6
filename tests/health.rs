//! Active health checks: verdicts, rounds, refreshes, zones, fail-open, and a prober that rests.

#[path = "health/lists.rs"]
mod lists;
#[allow(dead_code)]
#[path = "reqwest/net.rs"]
mod net;
#[path = "health/servers.rs"]
mod servers;
mod support;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel::health::{HealthCheck, HealthProbe, ProbeError};
use evenkeel::policy::RoundRobin;
use evenkeel::{ChooseErrorKind, LoadBalancer, Reason, Request, ServiceInstance, async_trait};
use support::*;
use tokio::time::Instant;

fn checked(client: impl evenkeel::discovery::DiscoveryClient, check: HealthCheck) -> LoadBalancer {
    over(chain(client).with_health_checks(check), RoundRobin::default())
}

#[tokio::test(start_paused = true)]
async fn case_011_a_zone_counts_only_its_healthy_instances_in_either_order_of_calls() {
    for health_first in [true, false] {
        let probe = Fake::new();
        probe.set("a1", Some(0), false);
        let source = Pull::new(|_| async { Ok(with("zone", "a1=A b1=B b2=B")) });
        let check = HealthCheck::new(probe.clone()).with_interval(Duration::from_secs(10));
        let chain = chain(source);
        let chain = if health_first {
            chain.with_health_checks(check).with_zone_preference("A")
        } else {
            chain.with_zone_preference("A").with_health_checks(check)
        };
        let lb = over(chain, RoundRobin::default());
        let start = Instant::now();
        pick(&lb).await;
        tokio::time::sleep_until(start + Duration::from_secs(1)).await;
        assert_eq!(usable(&lb), "b1b2");
        tokio::time::sleep_until(start + Duration::from_secs(20)).await;
        let picked = picks(&lb, 40).await;
        assert_eq!((count(&picked, "a1"), count(&picked, "b1"), count(&picked, "b2")), (0, 20, 20));
        tokio::time::sleep_until(start + Duration::from_secs(60)).await;
        probe.set("a1", Some(0), true);
        tokio::time::sleep_until(start + Duration::from_secs(75)).await;
        assert!(picks(&lb, 40).await.iter().all(|id| id == "a1"));
    }
}

#[tokio::test(start_paused = true)]
async fn case_015_a_refreshed_list_is_probed_and_the_old_address_is_not() {
    let probe = Fake::new();
    let of = |port: u16| ServiceInstance::builder("127.0.0.1").port(port).id("s").build().unwrap();
    let start = Instant::now();
    let source = Pull::new(move |_| async move {
        Ok(vec![of(if start.elapsed() < Duration::from_secs(40) { 8082 } else { 8083 })])
    });
    let lb = checked(source, HealthCheck::new(probe.clone()));
    let mut moved = None;
    for t in 0..=120 {
        tokio::time::sleep_until(start + Duration::from_secs(t)).await;
        let port = lb.choose(&Request::EMPTY).await.unwrap().instance().port();
        if port == Some(8083) {
            moved.get_or_insert(t);
        } else {
            assert!(moved.is_none(), "it went back at {t} s");
        }
    }
    assert!(moved.is_some_and(|t| t <= 100), "{moved:?}");
    let asked = probe.log();
    let of = |port| asked.iter().filter(move |(_, instance)| instance.port() == Some(port)).map(|(t, _)| *t);
    let last_old = of(8082).fold(0.0, f64::max);
    assert!(last_old <= 72.0, "8082 was probed at {last_old} s");
    assert!(of(8083).count() > 0);
}

#[tokio::test(start_paused = true)]
async fn case_016_a_round_is_published_whole() {
    let probe = Fake::new();
    probe.set("a", Some(10), true);
    probe.set("b", Some(200), true);
    probe.set("c", None, true);
    let check = HealthCheck::new(probe.clone()).with_timeout(Duration::from_secs(1));
    let lb = checked(Pull::always("a b c", Duration::ZERO), check);
    pick(&lb).await;
    let mut seen = vec![usable(&lb)];
    for _ in 0..60_000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        // Somebody calls, or the prober would rest.
        let now = usable(&lb);
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    }
    assert_eq!(seen, ["abc", "ab"]);
    for _ in 0..100 {
        advance(26.0).await;
        pick(&lb).await;
        assert_eq!(usable(&lb), "ab");
    }
    assert!(probe.most() <= 3, "{}", probe.most());
}

#[tokio::test(start_paused = true)]
async fn case_016_before_the_first_round_all_are_used() {
    let probe = Fake::new();
    probe.set("c", Some(0), false);
    let check = HealthCheck::new(probe.clone()).with_initial_delay(Duration::from_secs(10));
    let lb = checked(Pull::always("a b c", Duration::ZERO), check);
    pick(&lb).await;
    advance(1.0).await;
    assert_eq!((usable(&lb), probe.asked("a")), ("abc".to_owned(), 0));
    advance(10.0).await;
    assert_eq!(usable(&lb), "ab");
}

#[tokio::test(start_paused = true)]
async fn case_014_when_none_passes_all_are_used_or_the_error_says_why() {
    for fail_open in [true, false] {
        let probe = Fake::new();
        for id in ["a", "b", "c"] {
            probe.set(id, Some(0), false);
        }
        let check = HealthCheck::new(probe.clone()).with_fail_open(fail_open);
        let lb = checked(Pull::always("a b c", Duration::ZERO), check);
        drop(lb.choose(&Request::EMPTY).await);
        advance(1.0).await;
        if fail_open {
            let picked = picks(&lb, 30).await;
            assert_eq!(["a", "b", "c"].map(|id| count(&picked, id)), [10; 3]);
        } else {
            let error = lb.choose(&Request::EMPTY).await.unwrap_err();
            assert!(matches!(
                error.kind(),
                ChooseErrorKind::NoInstances { reason: Reason::AllUnhealthy, .. }
            ));
            assert!(error.to_string().contains("none passes its health check: 3 with status 500"), "{error}");
        }
        probe.set("b", Some(0), true);
        advance(40.0).await;
        assert!(picks(&lb, 10).await.iter().all(|id| id == "b"));
    }
}

#[tokio::test(start_paused = true)]
async fn rise_and_fall_count_checks_in_a_row() {
    let probe = Fake::new();
    let second = Duration::from_secs(1);
    let check = HealthCheck::new(probe.clone()).with_interval(second).with_rise(3).with_fall(2);
    let lb = checked(Pull::always("a b", Duration::ZERO), check);
    pick(&lb).await;
    advance(0.5).await;
    let mut story = Vec::new();
    // One letter a round: what the check of `a` says.
    for alive in "+-+--+-+++".chars().map(|c| c == '+') {
        probe.set("a", Some(0), alive);
        let before = probe.asked("a");
        while probe.asked("a") == before {
            advance(0.05).await;
        }
        advance(0.3).await;
        let _ = pick(&lb).await;
        story.push(if usable(&lb) == "ab" { 'u' } else { 'd' });
    }
    assert_eq!(story.iter().collect::<String>(), "uuuudddddu");
}

#[tokio::test(start_paused = true)]
async fn verdicts_survive_refreshes_and_new_instances_do_not_wait_for_the_next_round() {
    let probe = Fake::new();
    probe.set("b", Some(0), false);
    probe.set("c", Some(0), false);
    let source = Push::new(vec![(0.0, Ok(list("a b"))), (5.0, Ok(list("a b c"))), (6.0, Ok(list("c b a")))]);
    let lb = checked(source, HealthCheck::new(probe.clone()));
    pick(&lb).await;
    advance(1.0).await;
    assert_eq!(usable(&lb), "a");
    advance(4.001).await;
    settle().await;
    assert!(!usable(&lb).contains('b'), "a verdict is not forgotten by a refresh");
    advance(0.5).await;
    assert_eq!(usable(&lb), "a", "c was probed when it came");
    assert_eq!((probe.asked("a"), probe.asked("c")), (1, 1));
    advance(1.0).await;
    assert_eq!(usable(&lb), "a");
}

#[tokio::test(start_paused = true)]
async fn probing_rests_without_callers_and_goes_on_with_the_next() {
    let probe = Fake::new();
    let source = Pull::always("a b", Duration::ZERO);
    let handle = tokio::runtime::Handle::current();
    let before = handle.metrics().num_alive_tasks();
    let lb = checked(source.clone(), HealthCheck::new(probe.clone()));
    pick(&lb).await;
    for _ in 0..40 {
        advance(60.0).await;
        pick(&lb).await;
    }
    assert!(probe.asked("a") > 80, "with a caller it goes on: {}", probe.asked("a"));
    advance(3_600.0).await;
    assert_eq!(handle.metrics().num_alive_tasks(), before, "it rests");
    let rested = probe.asked("a");
    advance(36_000.0).await;
    assert_eq!(probe.asked("a"), rested);
    probe.set("b", Some(0), false);
    pick(&lb).await;
    advance(1.0).await;
    assert_eq!((usable(&lb), probe.asked("a")), ("a".to_owned(), rested + 1));
    lb.close().await;
    drop(lb);
    settle().await;
    assert_eq!(handle.metrics().num_alive_tasks(), before);
}

#[test]
fn a_prober_whose_runtime_dies_goes_on_with_the_next_caller() {
    let build =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (first, second) = (build(), build());
    let probe = Fake::new();
    let check = HealthCheck::new(probe.clone()).with_interval(Duration::from_millis(20));
    // The list never changes.
    let lb = checked(Pull::always("a b", Duration::ZERO), check);
    let asked_again = async |after: usize| {
        while probe.asked("a") <= after {
            pick(&lb).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let asked_again = async |after| tokio::time::timeout(Duration::from_secs(10), asked_again(after)).await;
    first.block_on(asked_again(1)).unwrap();
    drop(first);
    let asked = probe.asked("a");
    second.block_on(asked_again(asked + 2)).expect("probing goes on");
}

#[tokio::test(start_paused = true)]
async fn many_instances_are_probed_a_few_at_a_time_and_a_panic_is_a_failure() {
    #[derive(Debug)]
    struct Panics;
    #[async_trait]
    impl HealthProbe for Panics {
        async fn check(&self, instance: &ServiceInstance) -> Result<(), ProbeError> {
            assert!(instance.id() != "b", "broken on purpose");
            Ok(())
        }
    }
    let lb = checked(Pull::always("a b", Duration::ZERO), HealthCheck::new(Panics));
    pick(&lb).await;
    advance(1.0).await;
    assert_eq!(usable(&lb), "a");

    let probe = Fake::new();
    let many = || (0..1_000).map(|n| instance(&format!("i{n}"))).collect::<Vec<_>>();
    for n in 0..1_000 {
        probe.set(&format!("i{n}"), Some(100), true);
    }
    let lb = checked(
        Pull::new(move |_| async move { Ok(many()) }),
        HealthCheck::new(probe.clone()).with_concurrency(16),
    );
    pick(&lb).await;
    advance(10.0).await;
    assert_eq!((probe.asked("i0"), probe.most()), (1, 16));
}

/// A server on loopback that answers every request so, and counts them.
async fn server(status: u16, location: Option<String>) -> (u16, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let hits = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&hits);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (count, location) = (Arc::clone(&count), location.clone());
            let service =
                hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                    count.fetch_add(1, Ordering::SeqCst);
                    let mut answer = hyper::Response::builder().status(status);
                    if let Some(location) = &location {
                        answer = answer.header("location", location);
                    }
                    if request.uri() == "/health?deep=1" && status == 404 {
                        answer = hyper::Response::builder().status(200);
                    }
                    let answer = answer.body(http_body_util::Full::new(hyper::body::Bytes::new())).unwrap();
                    async move { Ok::<_, Infallible>(answer) }
                });
            let http = hyper::server::conn::http1::Builder::new();
            tokio::spawn(http.serve_connection(hyper_util::rt::TokioIo::new(stream), service));
        }
    });
    (port, hits)
}

fn at(id: &str, port: u16) -> ServiceInstance {
    ServiceInstance::builder("127.0.0.1").port(port).id(id).build().unwrap()
}

/// Waits until the prober has published, as the version of the list tells.
async fn version(lb: &LoadBalancer, at_least: u64) {
    let mut changes = lb.changes();
    let reached = async { changes.wait_for(|version| *version >= at_least).await.map(|_| ()) };
    tokio::time::timeout(Duration::from_secs(10), reached).await.unwrap().unwrap();
}

#[tokio::test]
async fn case_014_a_redirect_is_not_followed_and_is_no_success() {
    let (other, other_hits) = server(200, None).await;
    let (d, _) = server(302, Some(format!("http://127.0.0.1:{other}/login"))).await;
    let (e, _) = server(200, None).await;
    let lb = fixed(
        vec![at("d", d), at("e", e)],
        |chain| chain.with_health_checks(HealthCheck::http("/actuator/health").unwrap()),
        RoundRobin::default(),
    );
    pick(&lb).await;
    version(&lb, 2).await;
    assert!(picks(&lb, 30).await.iter().all(|id| id == "e"));
    assert_eq!(other_hits.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn scl_141_142_a_missing_path_is_not_alive_and_a_query_reaches_the_server() {
    let (wrong, _) = server(404, None).await;
    let (right, _) = server(200, None).await;
    let build = |path: &str| {
        fixed(
            vec![at("wrong", wrong), at("right", right)],
            |chain| chain.with_health_checks(HealthCheck::http(path).unwrap()),
            RoundRobin::default(),
        )
    };
    let lb = build("actuator/health");
    pick(&lb).await;
    version(&lb, 2).await;
    assert!(picks(&lb, 10).await.iter().all(|id| id == "right"));
    let lb = build("/health?deep=1");
    pick(&lb).await;
    // Both pass, so that the list does not change: ask the probe itself.
    let probe = evenkeel::health::HttpProbe::new("/health?deep=1").unwrap();
    assert_eq!(probe.check(&at("wrong", wrong)).await, Ok(()));
    let probe = evenkeel::health::HttpProbe::new("/health").unwrap();
    assert_eq!(probe.check(&at("wrong", wrong)).await, Err(ProbeError::new("status 404")));
    assert_eq!(probe.clone().with_statuses([404]).check(&at("wrong", wrong)).await, Ok(()));
    assert_eq!(probe.with_port(right).check(&at("wrong", wrong)).await, Ok(()));
}

#[tokio::test]
async fn a_tcp_probe_finds_out_who_listens() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let open = listener.local_addr().unwrap().port();
    let closed = {
        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        free.local_addr().unwrap().port()
    };
    let probe = evenkeel::health::TcpProbe::default();
    assert_eq!(probe.check(&at("a", open)).await, Ok(()));
    assert_eq!(probe.check(&at("b", closed)).await, Err(ProbeError::new("connection refused")));
    assert_eq!(probe.with_port(open).check(&at("b", closed)).await, Ok(()));
}

#[tokio::test]
async fn case_053_properties_switch_checks_on_and_a_blank_path_off() {
    use evenkeel::LoadBalancers;
    use evenkeel::config::Properties;

    // Nobody listens on these ports.
    let dead = |id: &str| at(id, 1).to_builder().id(id).build().unwrap();
    let registry = evenkeel::discovery::SimpleDiscovery::new()
        .with_instances("orders", [dead("a"), dead("b")])
        .unwrap()
        .with_instances("quiet", [dead("a")])
        .unwrap();
    let properties = Properties::default()
        .set("configurations", "health-check")
        .and_then(|p| p.set("health-check.fail-open", false))
        .and_then(|p| p.set_for("orders", "health-check.probe", "tcp"))
        .and_then(|p| p.set("health-check.path.quiet", ""))
        .unwrap();
    let balancers = LoadBalancers::from_properties(properties, registry).unwrap();
    let orders = balancers.get("orders").unwrap();
    orders.ready().await.unwrap();
    let mut changes = orders.changes();
    let limit = Duration::from_secs(10);
    tokio::time::timeout(limit, changes.wait_for(|version| *version >= 2)).await.unwrap().unwrap();
    let error = orders.choose(&Request::EMPTY).await.unwrap_err();
    assert!(error.to_string().contains("2 with connection refused"), "{error}");
    let quiet = balancers.get("quiet").unwrap();
    assert_eq!(picks(&quiet, 10).await, ["a"; 10], "a blank path switches the check off");
    assert_eq!(quiet.snapshot().unwrap().version(), 1);
}

#[tokio::test(start_paused = true)]
async fn verdicts_survive_changed_properties() {
    use evenkeel::LoadBalancers;
    use evenkeel::config::{LiveProperties, Properties};

    let probe = Fake::new();
    probe.set("b", Some(0), false);
    let live = LiveProperties::new(Properties::default());
    let shaped = probe.clone();
    let balancers = LoadBalancers::builder(Pull::always("a b", Duration::ZERO))
        .live(live.clone())
        .service("orders", move |service| {
            let probe = shaped.clone();
            service.chain(move |chain| chain.with_health_checks(HealthCheck::new(probe.clone())))
        })
        .build()
        .unwrap();
    let orders = balancers.get("orders").unwrap();
    pick(&orders).await;
    advance(1.0).await;
    assert_eq!(usable(&orders), "a");
    // From now on no probe answers.
    probe.set("a", None, true);
    probe.set("b", None, true);
    live.reload(|properties| properties.clone().set("cache.ttl", "7s")).unwrap();
    settle().await;
    assert_eq!((usable(&orders), orders.snapshot().unwrap().version()), ("a".to_owned(), 3));
    assert!(picks(&orders, 20).await.iter().all(|id| id == "a"));
}
