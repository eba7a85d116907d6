//! Lists over time: TTL, single flight, outages, empty answers, watches, runtimes that die.

mod support;

use std::sync::Arc;
use std::time::Duration;

use evenkeel::config::{CacheProperties, Refresh, Staleness};
use evenkeel::discovery::SupplyErrorKind;
use evenkeel::{ChooseErrorKind, Origin, Reason, Request};
use support::*;
use tokio::time::Instant;

fn wait() -> CacheProperties {
    CacheProperties::default().with_refresh(Refresh::Wait)
}

/// Starts `n` chooses at once; each one's id and virtual wait.
async fn herd(lb: &evenkeel::LoadBalancer, n: usize) -> Vec<(String, Duration)> {
    let tasks: Vec<_> = (0..n)
        .map(|_| {
            let lb = lb.clone();
            tokio::spawn(async move {
                let start = Instant::now();
                (pick(&lb).await, start.elapsed())
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.push(task.await.unwrap());
    }
    all
}

fn even(picks: &[(String, Duration)]) {
    for id in ["a", "b", "c"] {
        let got = picks.iter().filter(|(picked, _)| picked == id).count();
        assert!((33..=34).contains(&got), "{id}: {got} of {}", picks.len());
    }
}

#[tokio::test(start_paused = true)]
async fn case_001_cold_herd_shares_one_look_up() {
    let source = Pull::always("a b c", Duration::from_millis(200));
    let lb = balancer(source.clone());
    let picks = herd(&lb, 100).await;
    assert_eq!(source.calls(), 1);
    assert!(picks.iter().all(|(_, waited)| *waited == Duration::from_millis(200)));
    even(&picks);
}

#[tokio::test(start_paused = true)]
async fn case_001_warm_herd_is_served_while_one_look_up_runs() {
    let source = Pull::always("a b c", Duration::from_millis(200));
    let lb = balancer(source.clone());
    pick(&lb).await;
    advance(36.0).await;
    let picks = herd(&lb, 100).await;
    assert!(picks.iter().all(|(_, waited)| waited.is_zero()));
    even(&picks);
    advance(1.0).await;
    assert_eq!(source.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn case_001_with_refresh_wait_all_wait_for_the_one_answer() {
    let source = Pull::always("a b c", Duration::from_millis(200));
    let lb = over(chain(source.clone()).with_caching(wait()), evenkeel::policy::RoundRobin::default());
    pick(&lb).await;
    advance(36.0).await;
    let picks = herd(&lb, 100).await;
    assert!(picks.iter().all(|(_, waited)| *waited == Duration::from_millis(200)));
    even(&picks);
    assert_eq!(source.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn case_002_age_counts_from_the_write_and_not_from_the_last_read() {
    for refresh in [Refresh::Behind, Refresh::Wait] {
        let source = Pull::timed(|t| Ok(list(if t < 10.0 { "b1 b2" } else { "b1" })));
        let cache = CacheProperties::default().with_refresh(refresh);
        let lb = over(chain(source.clone()).with_caching(cache), evenkeel::policy::RoundRobin::default());
        let start = Instant::now();
        let mut late = Vec::new();
        for t in 0..=120 {
            tokio::time::sleep_until(start + Duration::from_secs(t)).await;
            let id = pick(&lb).await;
            if t >= 37 {
                late.push(id);
            }
            match t {
                34 => assert_eq!(source.calls(), 1),
                37 => assert_eq!(source.calls(), 2),
                110 => assert_eq!(source.calls(), 4),
                _ => {}
            }
        }
        assert!(late.iter().all(|id| id == "b1"), "{refresh:?}: {late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn case_002_the_boundary_is_exact() {
    for (at, calls) in [(34.999, 1), (35.001, 2)] {
        let source = Pull::always("a", Duration::ZERO);
        let lb = balancer(source.clone());
        pick(&lb).await;
        tokio::time::advance(Duration::from_secs_f64(at)).await;
        pick(&lb).await;
        settle().await;
        assert_eq!(source.calls(), calls, "age {at} s");
    }
}

#[tokio::test(start_paused = true)]
async fn case_003_a_push_beats_the_ttl() {
    let source = Push::new(vec![(0.0, Ok(list("p1 p2"))), (5.0, Ok(list("p1")))]);
    let lb = balancer(source.clone());
    pick(&lb).await;
    advance(4.9).await;
    let mut held = lb.choose(&Request::EMPTY).await.unwrap();
    while held.instance().id() != "p2" {
        held = lb.choose(&Request::EMPTY).await.unwrap();
    }
    advance(0.101).await;
    assert!(picks(&lb, 50).await.iter().all(|id| id == "p1"));
    advance(100.0).await;
    assert!(picks(&lb, 50).await.iter().all(|id| id == "p1"));
    assert_eq!(source.watches.load(std::sync::atomic::Ordering::SeqCst), 1, "no poll beside the watch");
    assert_eq!(source.asked.load(std::sync::atomic::Ordering::SeqCst), 0);
    assert_eq!(held.instance().id(), "p2", "the call that runs on p2 goes on");
    assert_eq!(lb.snapshot().unwrap().age(), Duration::ZERO, "an open watch confirms its list");
    assert_eq!(lb.snapshot().unwrap().origin(), Origin::Push);
}

#[tokio::test(start_paused = true)]
async fn case_004_an_empty_answer_lives_a_second() {
    let source = Pull::timed(|t| Ok(if t < 3.0 { vec![] } else { list("x") }));
    let lb = balancer(source.clone());
    let start = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..200 {
        let lb = lb.clone();
        tasks.push(tokio::spawn(async move { lb.choose(&Request::EMPTY).await.map(drop) }));
    }
    for task in tasks {
        let error = task.await.unwrap().unwrap_err();
        assert!(
            matches!(error.kind(), ChooseErrorKind::NoInstances { reason: Reason::Empty, .. }),
            "{error}"
        );
    }
    assert_eq!(source.calls(), 1);
    advance(0.1).await;
    assert!(lb.choose(&Request::EMPTY).await.is_err());
    assert_eq!(source.calls(), 1);
    for t in [4, 5] {
        tokio::time::sleep_until(start + Duration::from_secs(t)).await;
        assert_eq!(pick(&lb).await, "x");
    }
}

#[tokio::test(start_paused = true)]
async fn case_039_the_first_call_waits_for_the_first_answer() {
    let lb = balancer(Pull::always("a", Duration::from_secs(2)));
    let start = Instant::now();
    assert_eq!(pick(&lb).await, "a");
    assert_eq!(start.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn case_039_a_late_answer_is_kept_though_its_caller_gave_up() {
    let source = Pull::always("a", Duration::from_secs(8));
    let lb = balancer(source.clone());
    let start = Instant::now();
    let error = lb.choose(&Request::EMPTY).await.unwrap_err();
    assert!(matches!(error.kind(), ChooseErrorKind::Timeout { .. }), "{error}");
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    tokio::time::sleep_until(start + Duration::from_secs(9)).await;
    assert_eq!(pick(&lb).await, "a");
    assert_eq!(start.elapsed(), Duration::from_secs(9));
    assert_eq!(source.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn case_039_a_caller_that_is_cancelled_leaves_the_look_up_to_the_next() {
    let source = Pull::always("a", Duration::from_secs(2));
    let lb = balancer(source.clone());
    assert!(tokio::time::timeout(Duration::from_millis(10), lb.choose(&Request::EMPTY)).await.is_err());
    advance(10.0).await;
    let start = Instant::now();
    pick(&lb).await;
    assert_eq!((start.elapsed(), source.calls()), (Duration::ZERO, 1));
}

#[tokio::test(start_paused = true)]
async fn case_039_an_empty_answer_is_an_error_at_once_and_ready_warms_up() {
    let lb = balancer(Pull::always("", Duration::ZERO));
    let start = Instant::now();
    let error = lb.choose(&Request::EMPTY).await.unwrap_err();
    assert!(matches!(error.kind(), ChooseErrorKind::NoInstances { .. }));
    assert_eq!(start.elapsed(), Duration::ZERO);
    let warm = balancer(Pull::always("a", Duration::from_secs(1)));
    assert!(matches!(warm.try_choose(&Request::EMPTY).unwrap_err().kind(), ChooseErrorKind::NotReady));
    warm.ready().await.unwrap();
    assert!(warm.try_choose(&Request::EMPTY).is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_first_instance_can_be_waited_for() {
    let source = Pull::timed(|t| Ok(if t < 3.0 { vec![] } else { list("x") }));
    let wait = Duration::from_secs(10);
    let lb =
        over(chain(source.clone()).with_wait_for_instances(wait), evenkeel::policy::RoundRobin::default());
    let start = Instant::now();
    assert_eq!(pick(&lb).await, "x");
    assert!((3.0..=4.1).contains(&start.elapsed().as_secs_f64()), "{:?}", start.elapsed());
    assert!(source.calls() <= 5);

    let never = over(
        chain(Pull::always("", Duration::ZERO)).with_wait_for_instances(Duration::from_secs(2)),
        evenkeel::policy::RoundRobin::default(),
    );
    let start = Instant::now();
    let error = never.choose(&Request::EMPTY).await.unwrap_err();
    assert!(matches!(error.kind(), ChooseErrorKind::NoInstances { .. }), "{error}");
    assert_eq!(start.elapsed(), Duration::from_secs(2));
}

/// Case 041: picks and waits of one choose every 10 s from t = 40 to 600, and the look-ups of the outage.
async fn outage(hangs: bool) {
    let start = Instant::now();
    let source = Pull::new(move |_| async move {
        match start.elapsed().as_secs_f64() {
            t if t < 30.0 => Ok(list("a b")),
            t if t < 600.0 && hangs => std::future::pending().await,
            t if t < 600.0 => Err(refused()),
            _ => Ok(list("c")),
        }
    });
    let lb = balancer(source.clone());
    pick(&lb).await;
    let mut waited = 0;
    for t in (40..600).step_by(10) {
        tokio::time::sleep_until(start + Duration::from_secs(t)).await;
        let before = Instant::now();
        assert!(["a", "b"].contains(&&*pick(&lb).await));
        waited += usize::from(!before.elapsed().is_zero());
    }
    assert!(source.calls() <= 60, "{} look-ups", source.calls());
    assert!(waited <= usize::from(hangs), "{waited} calls waited");
    let list = lb.snapshot().unwrap();
    assert_eq!(list.origin(), Origin::Stale);
    assert!(list.age() >= Duration::from_secs(550), "{:?}", list.age());
    let health = lb.source_health();
    assert_eq!(health.state, evenkeel::discovery::SourceState::Failing);
    assert!(health.failures > 1, "{health:?}");
    assert!(health.last_ok.unwrap().elapsed() >= Duration::from_secs(550), "{health:?}");
    for t in [600, 610, 620, 630, 640, 650, 659] {
        tokio::time::sleep_until(start + Duration::from_secs(t)).await;
        pick(&lb).await;
    }
    advance(1.0).await;
    assert!(picks(&lb, 10).await.iter().all(|id| id == "c"));
    assert_eq!(lb.snapshot().unwrap().origin(), Origin::Pull);
}

#[tokio::test(start_paused = true)]
async fn case_041_an_outage_serves_the_last_list_without_waiting() {
    outage(false).await;
}

#[tokio::test(start_paused = true)]
async fn case_041_a_registry_that_hangs_costs_at_most_one_wait() {
    outage(true).await;
}

#[tokio::test(start_paused = true)]
async fn case_041_a_service_never_seen_fails_fast_with_the_error_of_the_registry() {
    let source = Pull::new(|_| async { Err(refused()) });
    let lb = balancer(source.clone());
    let start = Instant::now();
    for _ in 0..100 {
        let error = lb.choose(&Request::EMPTY).await.unwrap_err();
        let ChooseErrorKind::Supply(cause) = error.kind() else { panic!("{error}") };
        assert_eq!(cause.kind(), SupplyErrorKind::Io);
        assert!(error.to_string().contains("connection refused"), "{error}");
    }
    assert_eq!((start.elapsed(), source.calls()), (Duration::ZERO, 1), "one look-up, then back-off");
    advance(1.1).await;
    assert!(lb.choose(&Request::EMPTY).await.is_err());
    assert_eq!(source.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn case_041_a_bound_of_staleness_ends_in_an_error() {
    let source = Pull::timed(|t| if t < 30.0 { Ok(list("a")) } else { Err(refused()) });
    let bounded = chain(source).with_stale_if_error(Staleness::For(Duration::from_secs(120)));
    let lb = over(bounded, evenkeel::policy::RoundRobin::default());
    let start = Instant::now();
    for t in 0..=200 {
        tokio::time::sleep_until(start + Duration::from_secs(t)).await;
        let got = lb.choose(&Request::EMPTY).await;
        if t < 120 {
            assert!(got.is_ok(), "t = {t}: {got:?}");
        } else if t > 121 {
            assert!(matches!(got.unwrap_err().kind(), ChooseErrorKind::Supply(_)), "t = {t}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn case_042_a_passing_empty_push_is_not_believed() {
    let source = Push::new(vec![(0.0, Ok(list("a b c"))), (20.0, Ok(vec![])), (23.0, Ok(list("a b c")))]);
    let lb = balancer(source);
    pick(&lb).await;
    advance(20.0).await;
    for _ in 0..100 {
        pick(&lb).await;
        advance(0.029).await;
    }
    advance(0.2).await;
    assert_eq!(lb.snapshot().unwrap().origin(), Origin::Push);
    assert_eq!(lb.snapshot().unwrap().version(), 1, "the same list");
}

#[tokio::test(start_paused = true)]
async fn case_042_a_lasting_one_is_believed_after_30_s() {
    let source = Push::new(vec![(0.0, Ok(list("a b c"))), (20.0, Ok(vec![]))]);
    let lb = balancer(source);
    let start = Instant::now();
    for t in 0..60 {
        tokio::time::sleep_until(start + Duration::from_secs(t)).await;
        let got = lb.choose(&Request::EMPTY).await;
        if t == 25 {
            assert_eq!(lb.snapshot().unwrap().origin(), Origin::Guarded);
        }
        if t < 50 {
            assert!(got.is_ok(), "t = {t}");
        } else if t > 50 {
            let error = got.unwrap_err();
            assert!(
                matches!(error.kind(), ChooseErrorKind::NoInstances { reason: Reason::Empty, .. }),
                "t = {t}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn case_042_the_guard_holds_for_a_source_that_is_asked_and_can_be_off() {
    let empty_from_20 = || Pull::timed(|t| Ok(if t < 20.0 { list("a") } else { vec![] }));
    let source = empty_from_20();
    let lb = balancer(source.clone());
    let start = Instant::now();
    let mut errors = Vec::new();
    for t in 0..100 {
        tokio::time::sleep_until(start + Duration::from_secs(t)).await;
        if lb.choose(&Request::EMPTY).await.is_err() {
            errors.push(t);
        }
    }
    // The first empty answer comes at 35 or 36 s; it is confirmed 30 s later.
    assert!((65..=67).contains(&errors[0]), "{errors:?}");
    assert_eq!(errors.len(), usize::try_from(100 - errors[0]).unwrap());

    let off = over(
        chain(empty_from_20()).with_empty_guard(Duration::ZERO),
        evenkeel::policy::RoundRobin::default(),
    );
    pick(&off).await;
    advance(36.0).await;
    pick(&off).await;
    settle().await;
    assert!(off.choose(&Request::EMPTY).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn past_the_hard_age_callers_wait_for_the_look_up() {
    let source = Pull::always("a", Duration::from_secs(1));
    let lb = balancer(source.clone());
    pick(&lb).await;
    advance(69.0).await;
    let start = Instant::now();
    pick(&lb).await;
    assert_eq!(start.elapsed(), Duration::ZERO, "within the hard age nobody waits");
    advance(75.0).await;
    let start = Instant::now();
    pick(&lb).await;
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    assert_eq!(source.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_with_a_list_at_hand_serves_it_and_nobody_waits_again() {
    let source =
        Pull::new(|n| async move { if n == 0 { Ok(list("a")) } else { std::future::pending().await } });
    let lb = balancer(source.clone());
    pick(&lb).await;
    advance(200.0).await;
    let start = Instant::now();
    pick(&lb).await;
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    pick(&lb).await;
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert_eq!(source.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn without_a_cache_every_choose_asks_and_concurrent_ones_share() {
    let source = Pull::always("a b c", Duration::from_millis(200));
    let lb = over(chain(source.clone()).without_caching(), evenkeel::policy::RoundRobin::default());
    for calls in 1..=3 {
        pick(&lb).await;
        assert_eq!(source.calls(), calls);
    }
    even(&herd(&lb, 100).await);
    assert_eq!(source.calls(), 4);
    // After a failure the last list is served all the same.
    let broken = Pull::new(|n| async move { if n == 0 { Ok(list("a")) } else { Err(refused()) } });
    let lb = over(chain(broken).without_caching(), evenkeel::policy::RoundRobin::default());
    assert_eq!(picks(&lb, 5).await, ["a"; 5]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_source_is_an_error_and_the_next_attempt_works() {
    let source = Pull::new(|n| async move {
        assert!(n > 0, "broken on purpose");
        Ok(list("a"))
    });
    let lb = balancer(source);
    let error = lb.choose(&Request::EMPTY).await.unwrap_err();
    let ChooseErrorKind::Supply(cause) = error.kind() else { panic!("{error}") };
    assert_eq!(cause.kind(), SupplyErrorKind::Panicked);
    advance(1.1).await;
    assert_eq!(pick(&lb).await, "a");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_ages_and_is_opened_again_with_back_off() {
    let source = Push::ending(vec![(0.0, Some(Ok(list("a")))), (10.0, None)]);
    let lb = balancer(source.clone());
    pick(&lb).await;
    advance(9.9).await;
    assert_eq!(lb.snapshot().unwrap().origin(), Origin::Push);
    advance(0.2).await;
    let list = lb.snapshot().unwrap();
    assert_eq!(list.origin(), Origin::Stale);
    assert!(list.age() <= Duration::from_millis(200), "age starts when the watch breaks: {:?}", list.age());
    for _ in 0..60 {
        advance(1.0).await;
        assert_eq!(pick(&lb).await, "a");
    }
    let watches = source.watches.load(std::sync::atomic::Ordering::SeqCst);
    assert!((2..=12).contains(&watches), "{watches} watches in 60 s");
}

#[tokio::test(start_paused = true)]
async fn a_watch_nobody_calls_is_closed_and_an_idle_source_is_not_asked() {
    let source = Push::new(vec![(0.0, Ok(list("a")))]);
    let pull = Pull::always("a", Duration::ZERO);
    let (watching, asking) = (balancer(source.clone()), balancer(pull.clone()));
    let handle = tokio::runtime::Handle::current();
    let before = handle.metrics().num_alive_tasks();
    pick(&watching).await;
    pick(&asking).await;
    settle().await;
    assert!(handle.metrics().num_alive_tasks() > before);
    advance(36_000.0).await;
    settle().await;
    assert_eq!(handle.metrics().num_alive_tasks(), before);
    assert_eq!(pull.calls(), 1);
    assert_eq!(pick(&watching).await, "a");
    assert_eq!(source.watches.load(std::sync::atomic::Ordering::SeqCst), 2);
}

/// One watch that gives a list and stays open; every later one is refused.
#[derive(Debug, Default)]
struct Once(std::sync::atomic::AtomicUsize);

#[evenkeel::async_trait]
impl evenkeel::discovery::DiscoveryClient for Once {
    fn name(&self) -> &str {
        "once"
    }
    async fn instances(&self, _: &evenkeel::ServiceId) -> Answer {
        Err(refused())
    }
    fn watch(&self, _: &evenkeel::ServiceId) -> Option<evenkeel::discovery::Lists> {
        use futures_util::{StreamExt, stream};
        Some(match self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => stream::once(async { Ok(list("a")) }).chain(stream::pending()).boxed(),
            _ => stream::once(async { Err(refused()) }).boxed(),
        })
    }
    async fn services(&self) -> Result<Vec<evenkeel::ServiceId>, evenkeel::discovery::SupplyError> {
        Ok(Vec::new())
    }
}

#[tokio::test(start_paused = true)]
async fn a_bound_of_staleness_counts_from_the_end_of_the_watch_and_not_from_its_last_list() {
    let bounded = chain(Once::default()).with_stale_if_error(Staleness::For(Duration::from_secs(120)));
    let lb = over(bounded, evenkeel::policy::RoundRobin::default());
    for _ in 0..60 {
        assert_eq!(pick(&lb).await, "a");
        advance(60.0).await;
    }
    // Nobody calls: the watch is closed. Until then it confirmed the list.
    while lb.snapshot().unwrap().origin() == Origin::Push {
        advance(1.0).await;
    }
    assert!(lb.source_health().last_ok.unwrap().elapsed() < Duration::from_secs(2));
    for second in 1..110 {
        advance(1.0).await;
        assert!(lb.choose(&Request::EMPTY).await.is_ok(), "{second} s after the watch was closed");
    }
    advance(60.0).await;
    assert!(lb.choose(&Request::EMPTY).await.is_err());
}

#[test]
fn a_bound_of_staleness_counts_from_the_death_of_the_runtime_of_a_watch() {
    let bounded = chain(Once::default()).with_stale_if_error(Staleness::For(Duration::from_secs(2)));
    let lb = over(bounded, evenkeel::policy::RoundRobin::default());
    let (first, second) = (runtime(), runtime());
    first.block_on(pick(&lb));
    std::thread::sleep(Duration::from_millis(2_100));
    drop(first);
    second.block_on(async {
        while lb.last_error().is_none_or(|error| error.kind() == SupplyErrorKind::Aborted) {
            assert_eq!(pick(&lb).await, "a");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(pick(&lb).await, "a", "the list was confirmed a moment ago");
    });
}

/// A watch that gives a list and then nothing but errors, one a millisecond.
#[derive(Debug)]
struct Restless(std::sync::Arc<std::sync::atomic::AtomicUsize>);
#[evenkeel::async_trait]
impl evenkeel::discovery::DiscoveryClient for Restless {
    fn name(&self) -> &str {
        "restless"
    }
    async fn instances(&self, _: &evenkeel::ServiceId) -> Answer {
        Err(refused())
    }
    fn watch(&self, _: &evenkeel::ServiceId) -> Option<evenkeel::discovery::Lists> {
        let tries = std::sync::Arc::clone(&self.0);
        Some(Box::pin(futures_util::stream::unfold(tries, |tries| async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let first = tries.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
            Some((if first { Ok(list("a")) } else { Err(refused()) }, tries))
        })))
    }
    async fn services(&self) -> Result<Vec<evenkeel::ServiceId>, evenkeel::discovery::SupplyError> {
        Ok(Vec::new())
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_errs_again_and_again_gets_a_pause() {
    let tries = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let lb = balancer(Restless(std::sync::Arc::clone(&tries)));
    for _ in 0..60 {
        assert_eq!(pick(&lb).await, "a");
        advance(1.0).await;
    }
    let tries = tries.load(std::sync::atomic::Ordering::SeqCst);
    assert!((4..=40).contains(&tries), "{tries} in a minute");
}

/// A runtime that can be shut down under a look-up.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn a_runtime_that_dies_under_a_look_up_hands_over_to_the_next_caller() {
    let source =
        Pull::new(|n| async move { if n == 0 { std::future::pending().await } else { Ok(list("a")) } });
    let lb = balancer(source.clone());
    let (first, second) = (runtime(), runtime());
    let starter = lb.clone();
    first.spawn(async move { starter.choose(&Request::EMPTY).await.map(drop) });
    while source.calls() == 0 {
        std::thread::yield_now();
    }
    let waiter = lb.clone();
    let waiting = second.spawn(async move { pick(&waiter).await });
    first.shutdown_background();
    assert_eq!(second.block_on(waiting).unwrap(), "a");
    assert_eq!(source.calls(), 2);
}

#[test]
fn a_runtime_that_dies_under_a_watch_does_not_leave_the_list_fresh_for_ever() {
    let (first, second) = (runtime(), runtime());
    let source = first.block_on(async { Push::new(vec![(0.0, Ok(list("a")))]) });
    let lb = balancer(source.clone());
    first.block_on(pick(&lb));
    assert_eq!(lb.snapshot().unwrap().origin(), Origin::Push);
    drop(first);
    assert_eq!(lb.snapshot().unwrap().origin(), Origin::Stale);
    second.block_on(async {
        pick(&lb).await;
        let opened = async {
            while lb.snapshot().unwrap().origin() != Origin::Push {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), opened).await.unwrap();
    });
    assert_eq!(source.watches.load(std::sync::atomic::Ordering::SeqCst), 2);
}

#[test]
fn without_a_runtime_a_cold_choose_says_so_and_a_handle_can_be_injected() {
    let lb = balancer(Pull::always("a", Duration::ZERO));
    let error = lb.try_choose(&Request::EMPTY).unwrap_err();
    assert!(matches!(error.kind(), ChooseErrorKind::NoRuntime), "{error}");
    let background = runtime();
    let injected = chain(Pull::always("a", Duration::ZERO)).with_runtime(background.handle().clone());
    let lb = over(injected, evenkeel::policy::RoundRobin::default());
    // Driven by nothing but a plain executor.
    assert_eq!(futures_util::FutureExt::now_or_never(async {}), Some(()));
    let picked = futures_executor(async move { pick(&lb).await });
    assert_eq!(picked, "a");
}

#[tokio::test]
async fn an_injected_runtime_that_is_gone_is_an_error_and_not_a_hang() {
    let gone = runtime();
    let handle = gone.handle().clone();
    gone.shutdown_background();
    let lb = over(
        chain(Pull::always("a", Duration::ZERO)).with_runtime(handle),
        evenkeel::policy::RoundRobin::default(),
    );
    let limit = Duration::from_secs(20);
    let error = tokio::time::timeout(limit, lb.choose(&Request::EMPTY)).await.unwrap().unwrap_err();
    let ChooseErrorKind::Supply(cause) = error.kind() else { panic!("{error}") };
    assert_eq!(cause.kind(), SupplyErrorKind::Aborted);
}

/// Panics when the list holds `bad`.
#[derive(Debug)]
struct Fragile;

impl evenkeel::supplier::ListStage for Fragile {
    fn name(&self) -> &str {
        "fragile"
    }
    fn rank(&self) -> evenkeel::supplier::Rank {
        evenkeel::supplier::Rank::Filter(0)
    }
    fn apply(&self, list: &mut Vec<evenkeel::ServiceInstance>, _: &evenkeel::supplier::StageCx<'_>) {
        assert!(list.iter().all(|instance| instance.id() != "bad"), "broken on purpose");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_panics_leaves_the_last_list_and_is_told() {
    let source = Push::new(vec![(0.0, Ok(list("a"))), (5.0, Ok(list("bad"))), (60.0, Ok(list("b")))]);
    let lb = over(chain(source).with_list_stage(Fragile), evenkeel::policy::RoundRobin::default());
    assert_eq!(pick(&lb).await, "a");
    advance(6.0).await;
    assert_eq!(pick(&lb).await, "a");
    assert_eq!(lb.last_error().unwrap().kind(), SupplyErrorKind::Panicked);
    for _ in 0..90 {
        advance(1.0).await;
        pick(&lb).await;
    }
    assert_eq!(pick(&lb).await, "b");
    assert!(lb.last_error().is_none());
}

#[tokio::test(start_paused = true)]
async fn endless_and_empty_durations_are_ordinary_input() {
    let endless = CacheProperties::default().with_ttl(Duration::MAX);
    let forever = chain(Pull::timed(|t| Ok(if t < 5.0 { list("a") } else { vec![] })))
        .with_caching(endless)
        .with_empty_guard(Duration::MAX)
        .with_choose_timeout(Duration::MAX)
        .with_look_up_timeout(Duration::MAX)
        .with_back_off(Duration::MAX, Duration::MAX)
        .with_stale_if_error(Staleness::For(Duration::MAX));
    let lb = over(forever, evenkeel::policy::RoundRobin::default());
    assert_eq!(pick(&lb).await, "a");
    advance(10.0).await;
    lb.refresh();
    advance(1.0).await;
    assert_eq!(pick(&lb).await, "a");
    assert_eq!(lb.snapshot().unwrap().origin(), Origin::Guarded);

    // No time at all: every choose asks, and none of them asks without end.
    let source = Pull::always("", Duration::ZERO);
    let zero = evenkeel::config::LoadBalancerProperties::default().with_empty_life(Duration::ZERO);
    let lb = over(chain(source.clone()).with_properties(&zero), evenkeel::policy::RoundRobin::default());
    for calls in 1..=3 {
        assert!(lb.choose(&Request::EMPTY).await.is_err());
        assert_eq!(source.calls(), calls);
    }
    let source = Pull::always("a", Duration::ZERO);
    let cache = CacheProperties::default().with_ttl(Duration::ZERO);
    let lb = over(chain(source.clone()).with_caching(cache), evenkeel::policy::RoundRobin::default());
    for _ in 0..5 {
        pick(&lb).await;
        settle().await;
    }
    assert!(source.calls() <= 6, "{}", source.calls());
}

/// Polls on this thread, parked in between; no runtime of tokio around.
fn futures_executor<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::task::Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            std::task::Poll::Ready(value) => return value,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

/// The three programs of section 1c of the prototype's report: a caller that keeps the only thread to itself.
mod one_thread {
    use super::*;

    fn ttl(refresh: Refresh) -> CacheProperties {
        CacheProperties::default().with_ttl(Duration::from_millis(50)).with_refresh(refresh)
    }

    fn look_ups(refresh: Refresh) -> usize {
        let source = Pull::always("a", Duration::ZERO);
        let lb =
            over(chain(source.clone()).with_caching(ttl(refresh)), evenkeel::policy::RoundRobin::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for _ in 0..20 {
            runtime.block_on(pick(&lb));
            // The program sleeps, not the runtime: nothing drives its timers.
            std::thread::sleep(Duration::from_millis(100));
        }
        source.calls()
    }

    #[test]
    fn block_on_again_and_again_refreshes_every_second_pick() {
        let calls = look_ups(Refresh::Behind);
        assert!((9..=20).contains(&calls), "{calls} look-ups in 20 picks");
    }

    #[test]
    fn block_on_again_and_again_with_refresh_wait_asks_every_time() {
        let calls = look_ups(Refresh::Wait);
        assert!((19..=20).contains(&calls), "{calls} look-ups in 20 picks");
    }

    #[test]
    fn a_loop_of_chooses_refreshes_once_per_ttl() {
        let source = Pull::always("a", Duration::ZERO);
        let lb = over(
            chain(source.clone()).with_caching(ttl(Refresh::Behind)),
            evenkeel::policy::RoundRobin::default(),
        );
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let start = std::time::Instant::now();
            while start.elapsed() < Duration::from_millis(500) {
                pick(&lb).await;
            }
        });
        let calls = source.calls();
        assert!((8..=11).contains(&calls), "{calls} look-ups in 500 ms at a TTL of 50 ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_with_an_error_at_its_heels_confirms_nothing() {
    /// A source whose watch begins with its last good list and says at once that this is what it is.
    #[derive(Debug)]
    struct Broken(Instant);
    #[evenkeel::async_trait]
    impl evenkeel::discovery::DiscoveryClient for Broken {
        fn name(&self) -> &str {
            "broken"
        }
        async fn instances(&self, _: &evenkeel::ServiceId) -> Answer {
            Ok(list("a"))
        }
        fn watch(&self, _: &evenkeel::ServiceId) -> Option<evenkeel::discovery::Lists> {
            use futures_util::StreamExt;
            let first = self.0.elapsed() < Duration::from_secs(1);
            let items = if first { vec![Ok(list("a"))] } else { vec![Ok(list("a")), Err(refused())] };
            let broken = futures_util::stream::once(async {
                tokio::time::sleep(Duration::from_secs(10)).await;
                Err(refused())
            });
            Some(Box::pin(
                futures_util::stream::iter(items).chain(broken).chain(futures_util::stream::pending()),
            ))
        }
        async fn services(&self) -> Result<Vec<evenkeel::ServiceId>, evenkeel::discovery::SupplyError> {
            Ok(Vec::new())
        }
    }
    let bounded = chain(Broken(Instant::now())).with_stale_if_error(Staleness::For(Duration::from_secs(120)));
    let lb = over(bounded, evenkeel::policy::RoundRobin::default());
    pick(&lb).await;
    let mut ended = None;
    for t in 1..=400 {
        advance(1.0).await;
        if lb.choose(&Request::EMPTY).await.is_err() {
            ended.get_or_insert(t);
        }
    }
    // Confirmed for 10 s, then 120 s more, and at most one more pause of the back-off.
    assert!(ended.is_some_and(|t| (130..=165).contains(&t)), "{ended:?}");
}
