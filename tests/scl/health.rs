//! 3.13 Health check: cases 137 to 165; 165 is in `tests/config/health.rs`, and a story of 141 and 142 in `tests/health.rs`.
//!
//! The interval is 25 s and the initial delay 1 s unless a test says otherwise. Where Spring's stream is silent before its
//! first round, a chain here serves all instances at once: one that was not probed yet counts as up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel::config::{CacheProperties, Format, Properties};
use evenkeel::discovery::{DiscoveryClient, SimpleDiscovery};
use evenkeel::health::{HealthCheck, HealthProbe, ProbeError, TcpProbe};
use evenkeel::policy::RoundRobin;
use evenkeel::{
    ChooseErrorKind, LoadBalancer, Reason, Request, ServiceInstance, ServiceInstanceListSupplier,
    SupplierBuilder, async_trait,
};
use futures_util::StreamExt;

use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);

fn check(probe: impl HealthProbe) -> HealthCheck {
    HealthCheck::new(probe).with_initial_delay(SECOND)
}

fn checked(client: impl DiscoveryClient, check: HealthCheck) -> LoadBalancer {
    over(chain(client).with_health_checks(check), RoundRobin::default())
}

/// What requests are spread over for so many seconds from the first on, looked at every millisecond: the tenth of a second
/// of each change, and the ids.
async fn story(lb: &LoadBalancer, seconds: u64, at: impl AsyncFn(u64)) -> Vec<(u64, String)> {
    drop(lb.choose(&Request::EMPTY).await);
    let mut seen = vec![(0, usable(lb))];
    for ms in 1..=seconds * 1_000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        if ms % 1_000 == 0 {
            at(ms / 1_000).await;
        }
        let now = usable(lb);
        if seen.last().is_none_or(|(_, last)| *last != now) {
            seen.push(((ms + 50) / 100, now));
        }
    }
    seen
}

async fn quiet(_: u64) {}

fn expected(story: &[(u64, &str)]) -> Vec<(u64, String)> {
    story.iter().map(|(tenth, ids)| (*tenth, (*ids).to_owned())).collect()
}

/// Tenths of seconds.
#[allow(clippy::cast_possible_truncation)] // a few
fn tenths(times: &[f64]) -> Vec<i64> {
    times.iter().map(|seconds| (seconds * 10.0).round() as i64).collect()
}

// ------------------------------------------------------------------------------------------------- probes by HTTP and TCP

#[cfg(feature = "reqwest")]
mod probes {
    use evenkeel::LoadBalancers;
    use evenkeel::health::HttpProbe;

    use super::*;
    use crate::net::{Act, Refusing, Server, eventually, ok};

    fn status(status: u16) -> Act {
        Act::Answer(format!("HTTP/1.1 {status} -\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n"))
    }

    fn properties(text: &str) -> Properties {
        let text =
            format!("evenkeel: {{configurations: health-check, health-check: {{fail-open: false, {text}}}}}");
        Properties::parse(&text, Format::Yaml, "application.yml").unwrap()
    }

    /// The service `orders` of these instances, of which `dead` is left out once the first round is over.
    async fn after_a_round(text: &str, instances: Vec<ServiceInstance>) -> LoadBalancer {
        let registry = SimpleDiscovery::new().with_instances("orders", instances).unwrap();
        let lb = LoadBalancers::from_properties(properties(text), registry).unwrap().get("orders").unwrap();
        pick(&lb).await;
        eventually("the first round", || lb.snapshot().unwrap().version() >= 2).await;
        lb
    }

    fn request_line(server: &Server) -> String {
        server.heads().first().and_then(|head| head.lines().next()).unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn scl_137_the_path_of_the_service_is_asked() {
        let (server, dead) = (Server::start(ok("")).await, Refusing::new());
        let all = vec![server.instance("a"), dead.instance("dead")];
        let lb = after_a_round("path: {orders: /health}", all).await;
        assert_eq!((usable(&lb), request_line(&server)), ("a".to_owned(), "GET /health HTTP/1.1".to_owned()));
    }

    #[tokio::test]
    async fn scl_138_a_null_path_is_none_so_that_the_default_is_asked() {
        let (server, dead) = (Server::start(ok("")).await, Refusing::new());
        let all = vec![server.instance("a"), dead.instance("dead")];
        let lb = after_a_round("path: {orders: null}", all).await;
        let line = "GET /actuator/health HTTP/1.1".to_owned();
        assert_eq!((usable(&lb), request_line(&server)), ("a".to_owned(), line));
    }

    #[tokio::test(start_paused = true)]
    async fn scl_139_an_empty_path_asks_nobody_and_all_are_alive() {
        for (path, probes) in [("''", false), ("' '", false), ("/health", true)] {
            let effective = properties(&format!("path: {{orders: {path}}}")).effective("orders");
            // Nobody listens there.
            let registry = SimpleDiscovery::new().with_instances("orders", list("a b")).unwrap();
            let supplier = chain(registry).with_properties(&effective).build().unwrap();
            assert_eq!(format!("{supplier:?}").contains("HealthStage"), probes, "{path}");
            if !probes {
                let lb = LoadBalancer::builder(supplier).build();
                pick(&lb).await;
                advance(300.0).await;
                even(&picks(&lb, 10).await, "a b", 5, 0);
            }
        }
    }

    /// A probe of one's own, which asks nobody.
    #[derive(Debug)]
    struct Trusts;

    #[async_trait]
    impl HealthProbe for Trusts {
        async fn check(&self, _: &ServiceInstance) -> Result<(), ProbeError> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn scl_140_every_kind_of_probe_says_the_same_of_who_is_alive() {
        let server = Server::start(ok("")).await;
        let own = reqwest::Client::builder().no_proxy().build().unwrap();
        let probes: [Arc<dyn HealthProbe>; 4] = [
            Arc::new(HttpProbe::new("/health").unwrap()),
            Arc::new(HttpProbe::new("/health").unwrap().with_client(own)),
            Arc::new(TcpProbe::default()),
            Arc::new(Trusts),
        ];
        for probe in probes {
            assert_eq!(probe.check(&server.instance("a")).await, Ok(()), "{probe:?}");
        }
        assert_eq!(server.served(), 2);
    }

    #[tokio::test]
    async fn scl_141_a_path_that_is_not_there_is_not_alive_with_every_client() {
        let server = Server::start(status(404)).await;
        let own = reqwest::Client::builder().no_proxy().build().unwrap();
        for probe in [HttpProbe::new("/no").unwrap(), HttpProbe::new("/no").unwrap().with_client(own)] {
            assert_eq!(probe.check(&server.instance("a")).await, Err(ProbeError::new("status 404")));
        }
    }

    #[tokio::test]
    async fn scl_142_a_query_goes_out_as_it_is() {
        let (server, dead) = (Server::start(ok("")).await, Refusing::new());
        let all = vec![server.instance("a"), dead.instance("dead")];
        let lb = after_a_round("path: {orders: '/health?someparam=somevalue&x=%20'}", all).await;
        assert_eq!(usable(&lb), "a");
        assert_eq!(request_line(&server), "GET /health?someparam=somevalue&x=%20 HTTP/1.1");
    }

    #[tokio::test]
    async fn scl_143_the_port_that_is_set_is_asked_instead_of_the_instances_own() {
        let (server, dead) = (Server::start(ok("")).await, Refusing::new());
        let port = server.address.port();
        assert_ne!(dead.instance("a").port(), Some(port));
        for (probe, asked) in [("http", 1), ("tcp", 0)] {
            let text = format!("probe: {probe}, path: /health, port: {port}");
            // Of one, nothing listens at its host either.
            let away = ServiceInstance::builder("127.77.0.1").port(1).id("away").build().unwrap();
            let before = (server.served(), server.connections());
            let lb = after_a_round(&text, vec![dead.instance("a"), away]).await;
            assert_eq!(usable(&lb), "a");
            assert_eq!((server.served() - before.0, server.connections() - before.1), (asked, 1));
        }
        assert_eq!(crate::net::header(&server.heads()[0], "host"), Some(&*format!("127.0.0.1:{port}")));
    }

    #[tokio::test]
    async fn scl_164_no_content_and_a_redirect_are_not_alive() {
        for code in [204, 302, 500] {
            let server = Server::start(status(code)).await;
            let probe = HttpProbe::new("/health").unwrap();
            let why = ProbeError::new(format!("status {code}"));
            assert_eq!(probe.check(&server.instance("a")).await, Err(why));
            assert_eq!(server.served(), 1, "a redirect is not followed");
            assert_eq!(probe.with_statuses([code]).check(&server.instance("a")).await, Ok(()));
        }
    }
}

// ------------------------------------------------------------------------------------------------------- rounds

#[tokio::test(start_paused = true)]
async fn scl_144_a_dead_one_is_left_out_after_the_first_round() {
    let probe = Fake::new();
    probe.set("2", Some(0), false);
    let lb = checked(Pull::always("1 2", Duration::ZERO), check(probe.clone()));
    assert_eq!(story(&lb, 25, quiet).await, expected(&[(0, "12"), (10, "1")]));
    assert_eq!((tenths(&probe.times("1")), tenths(&probe.times("2"))), (vec![10], vec![10]));
}

#[tokio::test(start_paused = true)]
async fn scl_145_two_that_are_alive_are_never_one() {
    let probe = Fake::new();
    probe.set("1", Some(10), true);
    probe.set("2", Some(200), true);
    let lb = checked(Pull::always("1 2", Duration::ZERO), check(probe.clone()));
    assert_eq!(story(&lb, 60, quiet).await, expected(&[(0, "12")]));
    assert_eq!((probe.asked("1"), probe.asked("2")), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn scl_146_two_that_are_alive_are_one_list_that_stays() {
    let probe = Fake::new();
    let lb = checked(Pull::always("1 2", Duration::ZERO), check(probe.clone()));
    assert_eq!(story(&lb, 25, quiet).await, expected(&[(0, "12")]));
    assert_eq!((lb.snapshot().unwrap().version(), probe.asked("1"), probe.asked("2")), (1, 1, 1));
}

/// Asks another probe, and panics for the instance 2.
#[derive(Debug)]
struct BreaksAtTwo(Fake);

#[async_trait]
impl HealthProbe for BreaksAtTwo {
    async fn check(&self, instance: &ServiceInstance) -> Result<(), ProbeError> {
        assert_ne!(instance.id(), "2", "on purpose");
        self.0.check(instance).await
    }
}

#[tokio::test(start_paused = true)]
async fn scl_147_a_probe_that_breaks_is_one_dead_instance_and_probing_goes_on() {
    let probe = Fake::new();
    let lb = checked(Pull::always("1 2", Duration::ZERO), check(BreaksAtTwo(probe.clone())));
    assert_eq!(story(&lb, 60, quiet).await, expected(&[(0, "12"), (10, "1")]));
    assert_eq!(probe.asked("1"), 3);
}

#[tokio::test(start_paused = true)]
async fn scl_148_when_all_are_dead_all_are_used_or_there_is_a_typed_error() {
    for fail_open in [true, false] {
        let probe = Fake::new();
        probe.set("1", Some(0), false);
        let check = check(BreaksAtTwo(probe)).with_fail_open(fail_open);
        let lb = checked(Pull::always("1 2", Duration::ZERO), check);
        if fail_open {
            assert_eq!(story(&lb, 25, quiet).await, expected(&[(0, "12")]));
            even(&picks(&lb, 10).await, "1 2", 5, 0);
        } else {
            assert_eq!(story(&lb, 25, quiet).await, expected(&[(0, "12"), (10, "")]));
            let error = lb.choose(&Request::EMPTY).await.unwrap_err();
            let ChooseErrorKind::NoInstances { reason, known, .. } = error.kind() else { panic!("{error}") };
            assert_eq!((*reason, *known), (Reason::AllUnhealthy, 2));
            assert!(error.to_string().contains("1 with a panic of the probe, 1 with status 500"), "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn scl_149_who_warms_up_first_does_not_wait_for_the_initial_delay_twice() {
    let probe = Fake::new();
    probe.set("2", Some(0), false);
    let lb = checked(Pull::always("1 2", Duration::ZERO), check(probe.clone()));
    lb.ready().await.unwrap();
    advance(0.5).await;
    assert_eq!(story(&lb, 20, quiet).await, expected(&[(0, "12"), (5, "1")]));
    assert_eq!(tenths(&probe.times("1")), [10]);
}

#[tokio::test(start_paused = true)]
async fn scl_150_one_that_recovers_is_used_from_the_next_round_on() {
    let probe = Fake::new();
    for id in ["1", "2"] {
        probe.set(id, Some(0), false);
    }
    let closed = check(probe.clone()).with_fail_open(false);
    let lb = checked(Pull::always("1 2", Duration::ZERO), closed);
    let recovers = async |second| {
        if second == 2 {
            probe.set("1", Some(0), true);
        }
    };
    // The probes of a later round are spread, and a round is published whole: a quarter of the interval at most.
    let story = story(&lb, 100, recovers).await;
    let sets: Vec<&str> = story.iter().map(|(_, ids)| ids.as_str()).collect();
    assert_eq!(sets, ["12", "", "1"]);
    assert_eq!(story[1].0, 10);
    assert!((260..=260 + 63).contains(&story[2].0), "{story:?}");
}

#[tokio::test(start_paused = true)]
async fn scl_151_an_answer_that_does_not_come_ends_the_round_and_the_interval_counts_from_there() {
    let probe = Fake::new();
    probe.set("1", None, true);
    let closed = check(probe.clone()).with_fail_open(false).with_timeout(Duration::from_secs(25));
    let lb = checked(Pull::always("1", Duration::ZERO), closed);
    let answers = async |second| {
        if second == 30 {
            probe.set("1", Some(0), true);
        }
    };
    assert_eq!(story(&lb, 100, answers).await, expected(&[(0, "1"), (260, ""), (510, "1")]));
    assert_eq!(tenths(&probe.times("1")), [10, 510, 760]);
}

fn half_an_interval_later() -> Push {
    Push::new(vec![(0.0, Ok(list("1"))), (12.5, Ok(list("1 2")))])
}

#[tokio::test(start_paused = true)]
async fn scl_152_a_new_list_has_its_newcomer_probed_and_disturbs_no_round() {
    let probe = Fake::new();
    let lb = checked(half_an_interval_later(), check(probe.clone()));
    assert_eq!(story(&lb, 40, quiet).await, expected(&[(0, "1"), (125, "12")]));
    // The second round: spread over a quarter of the interval.
    assert_eq!((tenths(&probe.times("1")), tenths(&probe.times("2"))), (vec![10, 260], vec![125, 291]));
}

#[tokio::test(start_paused = true)]
async fn scl_153_a_new_list_is_one_list() {
    let lb = checked(half_an_interval_later(), check(Fake::new()));
    assert_eq!(story(&lb, 60, quiet).await, expected(&[(0, "1"), (125, "12")]));
    assert_eq!(lb.snapshot().unwrap().version(), 2);
}

/// A registry that gives 1 and from the second look-up on 2; lists are looked up again after a second.
async fn refetched(repeat: bool) {
    let source = Pull::new(|n| async move { Ok(list(if n == 0 { "1" } else { "2" })) });
    let probe = Fake::new();
    let check = HealthCheck::new(probe.clone()).with_repeat(repeat);
    let chain =
        chain(source).with_health_checks(check).with_caching(CacheProperties::default().with_ttl(SECOND));
    let lb = over(chain, RoundRobin::default());
    let calls = async |_| drop(lb.choose(&Request::EMPTY).await);
    let story = story(&lb, 30, calls).await;
    assert_eq!(story, expected(&[(0, "1"), (10, "2")]), "repeat {repeat}");
    assert_eq!((tenths(&probe.times("1")), tenths(&probe.times("2"))[0]), (vec![0], 10));
}

#[tokio::test(start_paused = true)]
async fn scl_154_lists_are_fetched_again_without_repeated_checks() {
    refetched(false).await;
}

#[tokio::test(start_paused = true)]
async fn scl_155_repeated_checks_hold_up_no_look_up() {
    refetched(true).await;
}

#[tokio::test(start_paused = true)]
async fn scl_156_two_readers_of_a_chain_share_one_round() {
    let (probe, source) = (Fake::new(), Pull::always("1", Duration::ZERO));
    let supplier = chain(source.clone()).with_health_checks(check(probe.clone())).build().unwrap();
    let mut kept = supplier.get();
    kept.next().await.unwrap().unwrap();
    for _ in 0..2 {
        advance(2.0).await;
        let lists = supplier.get().take(1).collect::<Vec<_>>().await;
        let [Ok(list)] = &lists[..] else { panic!("{lists:?}") };
        assert_eq!(list.iter().map(ServiceInstance::id).collect::<Vec<_>>(), ["1"]);
    }
    assert_eq!((probe.asked("1"), source.calls()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn scl_157_a_close_ends_a_look_up_that_never_answers_exactly_once() {
    struct Ends(Arc<AtomicUsize>);
    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let ended = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ended);
    let source = Pull::new(move |_| {
        let ends = Ends(Arc::clone(&counted));
        async move {
            let _ends = ends;
            std::future::pending().await
        }
    });
    let probe = Fake::new();
    let lb = checked(source.clone(), check(probe.clone()));
    let waiting = lb.clone();
    let caller = tokio::spawn(async move { waiting.ready().await });
    advance(0.5).await;
    assert_eq!((source.calls(), ended.load(Ordering::SeqCst)), (1, 0));
    lb.close().await;
    assert!(caller.await.unwrap().is_err());
    advance(600.0).await;
    assert_eq!((source.calls(), ended.load(Ordering::SeqCst), probe.log().len()), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn scl_158_an_empty_list_stays_empty() {
    for fail_open in [true, false] {
        let probe = Fake::new();
        let check = check(probe.clone()).with_fail_open(fail_open);
        let lb = checked(Live::new(Vec::new()).source(), check);
        for _ in 0..40 {
            let error = lb.choose(&Request::EMPTY).await.unwrap_err();
            assert!(
                matches!(error.kind(), ChooseErrorKind::NoInstances { reason: Reason::Empty, .. }),
                "{error}"
            );
            advance(1.0).await;
        }
        assert_eq!(probe.log().len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn scl_159_a_round_never_takes_out_those_that_answer_late() {
    let probe = Fake::new();
    for (id, after) in [("a", 10), ("b", 60), ("c", 120)] {
        probe.set(id, Some(after), true);
    }
    let check = HealthCheck::new(probe.clone()).with_interval(Duration::from_millis(300));
    let lb = checked(Pull::always("a b c", Duration::ZERO), check);
    assert_eq!(story(&lb, 5, quiet).await, expected(&[(0, "abc")]));
    assert!(probe.asked("c") >= 8, "{:?}", probe.times("c"));
}

#[tokio::test(start_paused = true)]
async fn scl_160_one_that_hangs_holds_up_no_list() {
    let probe = Fake::new();
    probe.set("c", None, true);
    let check = HealthCheck::new(probe.clone()).with_interval(Duration::from_millis(300));
    let lb = checked(Pull::always("a b c", Duration::ZERO), check);
    // Its time-out is the interval.
    assert_eq!(story(&lb, 5, quiet).await, expected(&[(0, "abc"), (3, "ab")]));
}

#[tokio::test(start_paused = true)]
async fn scl_161_of_a_thousand_instances_64_are_probed_at_the_same_time() {
    let probe = Fake::new();
    let instances: Vec<ServiceInstance> = (0..1_000).map(|n| instance(&format!("i{n}"))).collect();
    for instance in &instances {
        probe.set(instance.id(), Some(100), true);
    }
    let lb = checked(Live::new(instances.clone()).source(), HealthCheck::new(probe.clone()));
    pick(&lb).await;
    advance(3.0).await;
    assert!(instances.iter().all(|instance| probe.asked(instance.id()) == 1));
    assert_eq!(probe.most(), 64);
}

#[tokio::test(start_paused = true)]
async fn scl_162_a_stream_that_fails_once_is_subscribed_again_and_its_new_list_is_probed() {
    let source = Push::ending(vec![
        (0.0, Some(Ok(list("a b")))),
        (5.0, Some(Err(refused()))),
        (6.0, None),
        (10.0, Some(Ok(list("c d")))),
    ]);
    let probe = Fake::new();
    probe.set("d", Some(200), false);
    let lb = checked(source.clone(), check(probe.clone()));
    let calls = async |_| drop(lb.choose(&Request::EMPTY).await);
    let story = story(&lb, 30, calls).await;
    let sets: Vec<&str> = story.iter().map(|(_, ids)| ids.as_str()).collect();
    assert_eq!(sets, ["ab", "cd", "c"], "the last list is kept meanwhile: {story:?}");
    assert!(source.watches.load(Ordering::SeqCst) >= 2);
}

#[tokio::test(start_paused = true)]
async fn scl_163_each_is_probed_once_and_the_list_is_looked_up_again_all_the_same() {
    let source = Pull::new(|n| async move { Ok(list(if n < 2 { "1 2" } else { "1 2 3" })) });
    let probe = Fake::new();
    probe.set("2", Some(0), false);
    let lb = checked(source.clone(), check(probe.clone()).with_repeat(false));
    let calls = async |_| drop(lb.choose(&Request::EMPTY).await);
    let story = story(&lb, 120, calls).await;
    let sets: Vec<&str> = story.iter().map(|(_, ids)| ids.as_str()).collect();
    assert_eq!(sets, ["12", "1", "13"], "{story:?}");
    assert_eq!(["1", "2", "3"].map(|id| probe.asked(id)), [1, 1, 1]);
    assert!(source.calls() >= 3);

    // A list that is good for ever is Spring's case: neither is asked again.
    let (source, probe) = (Pull::always("1", Duration::ZERO), Fake::new());
    let forever = CacheProperties::default().with_ttl(Duration::MAX);
    let chain: SupplierBuilder = chain(source.clone()).with_caching(forever);
    let lb = over(chain.with_health_checks(check(probe.clone()).with_repeat(false)), RoundRobin::default());
    for _ in 0..100 {
        assert_eq!(pick(&lb).await, "1");
        advance(30.0).await;
    }
    assert_eq!((source.calls(), probe.asked("1")), (1, 1));
}
