//! Instances that come, go, fail and return; what is kept of them, and what ends with the balancer.
#![allow(clippy::unnecessary_literal_bound)] // as the trait writes it, and as its implementors do

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel::discovery::{
    Blocking, BlockingDiscoveryClient, DiscoveryClient, Lists, SupplyError, SupplyErrorKind,
};
use evenkeel::policy::{LeastRequest, Policy, RandomPick, RoundRobin};
use evenkeel::supplier::ServiceInstanceListSupplier;
use evenkeel::{
    Choice, ChooseErrorKind, Failure, LoadBalancer, Origin, Outcome, Reason, Request, ServiceId,
    ServiceInstance, Status, SupplierBuilder, async_trait,
};
use futures_util::{FutureExt, StreamExt};
use support::*;
use tokio::runtime::Handle;
use tokio::time::Instant;

fn alive_tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// The next choice of `id`; the others on the way are dropped at once.
async fn choice_of(lb: &LoadBalancer, id: &str) -> Choice {
    for _ in 0..1_000 {
        let choice = lb.choose(&Request::EMPTY).await.unwrap();
        if choice.instance().id() == id {
            return choice;
        }
    }
    panic!("{id} is never picked")
}

/// A call to `id` that could not be sent.
async fn refuse(lb: &LoadBalancer, id: &str) {
    choice_of(lb, id).await.complete(Outcome::Failure(Failure::Connect));
}

// ---------------------------------------------------------------------------------------------------- flapping: 044

async fn flap(policy: impl Policy, within: usize) {
    let live = Live::new(list("1 2 3"));
    let lb = over(chain(live.source()), policy);
    pick(&lb).await;
    settle().await;
    let tasks = alive_tasks();
    for cycle in 0..50 {
        advance(19.0).await;
        let call = choice_of(&lb, "3").await;
        advance(1.0).await;
        live.set(list("1 2")).await;
        advance(2.0).await;
        assert_eq!(call.state().in_flight(), 1, "cycle {cycle}: the call goes on");
        even(&picks(&lb, 100).await, "1 2", 50, 30);
        advance(3.0).await;
        let state = lb.snapshot().unwrap().all_instances().map(|state| state.uid()).collect::<Vec<_>>();
        assert!(!state.contains(&call.state().uid()), "cycle {cycle}: it is not listed");
        let uid = call.state().uid();
        call.complete(Outcome::Success);
        advance(5.0).await;
        live.set(list("1 2 3")).await;
        even(&picks(&lb, 300).await, "1 2 3", 100, within);
        let snapshot = lb.snapshot().unwrap();
        assert_eq!(snapshot.len(), 3, "cycle {cycle}: it appears once");
        let back = snapshot.instances().find(|state| state.uid() == uid).expect("the same one is back");
        assert_eq!((back.in_flight(), back.instance().id()), (0, "3"));
        assert_eq!((lb.tracked(), alive_tasks()), (3, tasks), "cycle {cycle}: nothing grows");
    }
}

#[tokio::test(start_paused = true)]
async fn case_044_one_that_flaps_is_the_same_one_under_round_robin() {
    flap(RoundRobin::default(), 5).await;
}

#[tokio::test(start_paused = true)]
async fn case_044_one_that_flaps_is_the_same_one_under_least_request() {
    flap(LeastRequest, 30).await;
}

#[tokio::test(start_paused = true)]
async fn case_044_calls_in_flight_are_found_again_when_it_returns() {
    let live = Live::new(list("1 2 3"));
    let lb = over(chain(live.source()), LeastRequest);
    let held = choice_of(&lb, "3").await;
    live.set(list("1 2")).await;
    // Far longer than the state of one that left is kept, but a lease is held.
    advance(500.0).await;
    live.set(list("1 2 4")).await;
    live.set(list("1 2 3")).await;
    let snapshot = lb.snapshot().unwrap();
    let three = snapshot.instances().find(|state| state.instance().id() == "3").unwrap();
    assert_eq!((three.in_flight(), three.uid()), (1, held.state().uid()));
    drop(held);
    assert_eq!(three.in_flight(), 0);
}

// -------------------------------------------------------------------------------------------------- duplicates: 045

#[tokio::test(start_paused = true)]
async fn case_045_duplicates_are_removed_from_every_update_under_every_policy() {
    let policies: [(Arc<dyn Policy>, usize); 3] =
        [(Arc::new(RoundRobin::default()), 1), (Arc::new(RandomPick), 50), (Arc::new(LeastRequest), 50)];
    for (policy, within) in policies {
        for weights in [false, true] {
            let weigh = |ids: &str| -> Vec<ServiceInstance> {
                let one = |i: ServiceInstance| i.to_builder().with_metadata("weight", "2").build().unwrap();
                list(ids).into_iter().map(one).collect()
            };
            let live = Live::new(weigh("a b a"));
            let chain = chain(live.source());
            let supplier = if weights { chain.with_weights() } else { chain }.build().unwrap();
            let lb = LoadBalancer::builder(supplier).policy_arc(Arc::clone(&policy)).build();
            even(&picks(&lb, 100).await, "a b", 50, within.min(30));
            live.set(weigh("a b b c")).await;
            even(&picks(&lb, 300).await, "a b c", 100, within);
            let newer = weigh("a")[0].to_builder().with_metadata("build", "2").build().unwrap();
            live.set(vec![weigh("a")[0].clone(), newer, weigh("b")[0].clone()]).await;
            even(&picks(&lb, 100).await, "a b", 50, within.min(30));
            let snapshot = lb.snapshot().unwrap();
            let a = snapshot.instances().find(|state| state.instance().id() == "a").unwrap();
            assert_eq!(a.instance().metadata().get("build"), Some("2"), "the last of equal ones wins");
            assert_eq!((snapshot.len(), snapshot.known()), (2, 3));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn case_045_one_id_on_two_ports_is_two_instances() {
    let at = |port: u16| instance("a").to_builder().port(port).build().unwrap();
    let live = Live::new(vec![at(8081), at(8082), at(8081)]);
    let lb = over(chain(live.source()), RoundRobin::default());
    for _ in 0..2 {
        let mut ports = Vec::new();
        for _ in 0..100 {
            ports.push(lb.choose(&Request::EMPTY).await.unwrap().instance().port().unwrap().to_string());
        }
        even(&ports, "8081 8082", 50, 0);
        live.set(vec![at(8082), at(8082), at(8081)]).await;
    }
}

// ------------------------------------------------------------------------------------------------------- state: 055

/// Resident memory in bytes, where the system tells it.
fn resident() -> Option<usize> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(pages.split_whitespace().nth(1)?.parse::<usize>().ok()? * 4_096)
}

#[tokio::test(start_paused = true)]
async fn case_055_instances_that_are_gone_are_forgotten() {
    let live = Live::new(list("first"));
    let lb = over(chain(live.source()), LeastRequest);
    pick(&lb).await;
    let (mut times, mut memory) = (Vec::new(), 0);
    for round in 0..1_000 {
        let ids: Vec<String> = (0..10).map(|n| format!("i{round}-{n}")).collect();
        live.set(list(&ids.join(" "))).await;
        let mut held = Vec::new();
        let start = std::time::Instant::now();
        for _ in 0..100 {
            held.push(lb.choose(&Request::EMPTY).await.unwrap());
        }
        times.push(start.elapsed());
        let of_this_round = format!("i{round}-");
        assert!(held.iter().all(|choice| choice.instance().id().starts_with(&of_this_round)));
        for choice in held {
            choice.complete(Outcome::Success);
        }
        assert!(lb.tracked() <= 30, "round {round}: {} are tracked", lb.tracked());
        if round == 100 {
            memory = resident().unwrap_or_default();
        }
        advance(60.0).await;
    }
    let grown = resident().unwrap_or_default().saturating_sub(memory);
    assert!(grown < 10 << 20, "{grown} bytes more than in round 100");
    let median = |times: &[Duration]| {
        let mut times = times.to_vec();
        times.sort_unstable();
        times[times.len() / 2]
    };
    let (early, late) = (median(&times[5..25]), median(&times[980..]));
    // Twice, and ten times that for a busy machine.
    assert!(late <= early * 20, "100 picks took {early:?} at first and {late:?} at last");
}

// ----------------------------------------------------------------------------------------------------- shutdown: 058

/// Five services, whose third look-up hangs; three clones of each, called every second.
#[tokio::test(start_paused = true)]
async fn case_058_after_the_close_nothing_runs_and_nothing_hangs() {
    let baseline = alive_tasks();
    let sources: Vec<Pull> = (0..5)
        .map(|_| {
            Pull::new(|n| async move {
                if n >= 2 {
                    std::future::pending::<()>().await;
                }
                Ok(list("a b"))
            })
        })
        .collect();
    let group: Vec<LoadBalancer> = sources.iter().map(|source| balancer(source.clone())).collect();
    let mut callers = Vec::new();
    for lb in group.iter().flat_map(|lb| [lb.clone(), lb.clone(), lb.clone()]) {
        callers.push(tokio::spawn(async move {
            loop {
                if let Err(error) = lb.choose(&Request::EMPTY).await {
                    return error;
                }
                advance(1.0).await;
            }
        }));
    }
    advance(100.5).await;
    assert!(sources.iter().all(|source| source.calls() == 3), "the third look-up of each hangs");
    let lease = group[0].choose(&Request::EMPTY).await.unwrap();
    let start = Instant::now();
    for lb in &group {
        lb.close().await;
        assert!(lb.is_closed());
        lb.close().await;
    }
    assert!(start.elapsed() <= Duration::from_secs(1), "the close took {:?}", start.elapsed());
    for caller in callers {
        let error = caller.await.unwrap();
        assert!(matches!(error.kind(), ChooseErrorKind::Closed), "{error}");
        assert_eq!(error.to_string(), "the balancer of service \"orders\" is closed");
    }
    assert!(matches!(group[0].try_choose(&Request::EMPTY).unwrap_err().kind(), ChooseErrorKind::Closed));
    assert!(group[0].ready().await.is_err());
    settle().await;
    assert_eq!(alive_tasks(), baseline);
    group[0].refresh();
    advance(600.0).await;
    assert_eq!(sources.iter().map(Pull::calls).collect::<Vec<_>>(), [3; 5], "no look-up after the close");
    assert_eq!(alive_tasks(), baseline);
    // A call that was sent is not cut.
    assert_eq!(lease.state().in_flight(), 1);
    let state = lease.instance();
    lease.complete(Outcome::Success);
    assert_eq!(state.service_id().unwrap(), group[0].service_id());
}

#[tokio::test(start_paused = true)]
async fn case_058_dropping_one_of_three_clones_stops_nothing_and_the_last_one_everything() {
    let baseline = alive_tasks();
    let (pull, push) = (Pull::always("a b", Duration::ZERO), Push::new(vec![(0.0, Ok(list("a b")))]));
    let clones: Vec<[LoadBalancer; 2]> =
        (0..3).scan([balancer(pull.clone()), balancer(push.clone())], |both, _| Some(both.clone())).collect();
    let mut leases = Vec::new();
    for (n, clone) in clones.into_iter().enumerate() {
        for lb in &clone {
            pick(lb).await;
            leases.push(lb.choose(&Request::EMPTY).await.unwrap());
        }
        settle().await;
        assert!(alive_tasks() > baseline, "clone {n}: the watch is open");
        advance(40.0).await;
    }
    settle().await;
    assert_eq!(alive_tasks(), baseline, "the last clone is gone");
    let calls = pull.calls();
    assert!(calls >= 2, "{calls}");
    advance(600.0).await;
    assert_eq!((pull.calls(), push.watches.load(Ordering::SeqCst)), (calls, 1));
    for lease in leases {
        lease.complete(Outcome::Failure(Failure::Connect));
    }
    advance(600.0).await;
    assert_eq!(
        (pull.calls(), alive_tasks()),
        (calls, baseline),
        "a lease outlives its balancer and wakes nobody"
    );
}

#[tokio::test(start_paused = true)]
async fn case_058_whoever_waits_hears_of_the_close_at_once() {
    let lb = balancer(Pull::new(|_| std::future::pending()));
    let waiters: Vec<_> = (0..10)
        .map(|_| {
            let lb = lb.clone();
            tokio::spawn(async move { lb.choose(&Request::EMPTY).await.unwrap_err() })
        })
        .collect();
    settle().await;
    let start = Instant::now();
    lb.close().await;
    for waiter in waiters {
        let error = waiter.await.unwrap();
        assert!(matches!(error.kind(), ChooseErrorKind::Closed), "{error}");
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// A watch that says nothing more, of a registry that can be asked but hangs when it is.
#[derive(Clone, Debug, Default)]
struct HungWatch {
    asked: Arc<AtomicUsize>,
}

#[async_trait]
impl DiscoveryClient for HungWatch {
    fn name(&self) -> &str {
        "hung"
    }
    async fn instances(&self, _: &ServiceId) -> Answer {
        self.asked.fetch_add(1, Ordering::SeqCst);
        std::future::pending().await
    }
    fn watch(&self, _: &ServiceId) -> Option<Lists> {
        let first = futures_util::stream::iter([Ok(list("a b"))]);
        Some(Box::pin(first.chain(futures_util::stream::pending())))
    }
    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        Ok(Vec::new())
    }
}

#[tokio::test(start_paused = true)]
async fn case_058_a_registry_that_hangs_when_it_is_told_to_look_piles_nothing_up() {
    let source = HungWatch::default();
    let lb = balancer(source.clone());
    let baseline = alive_tasks();
    let lease = lb.choose(&Request::EMPTY).await.unwrap();
    for _ in 0..60 {
        lb.choose(&Request::EMPTY).await.unwrap().complete(Outcome::Failure(Failure::Connect));
        advance(1.5).await;
    }
    let asked = source.asked.load(Ordering::SeqCst);
    assert!((2..=4).contains(&asked), "asked {asked} times in 90 s, each for at most 30 s");
    assert!(alive_tasks() <= baseline + 2, "the watch, and one question");
    lb.close().await;
    settle().await;
    assert_eq!(alive_tasks(), baseline);
    // Not even by a call that fails after the close.
    lease.complete(Outcome::Failure(Failure::Connect));
    advance(60.0).await;
    assert_eq!((source.asked.load(Ordering::SeqCst), alive_tasks()), (asked, baseline));
}

// ------------------------------------------------------------------------------------------- the first dead server

#[tokio::test(start_paused = true)]
async fn a_dead_server_is_skipped_at_once_and_probed_with_back_off() {
    let lb = balancer(Pull::always("a b c", Duration::ZERO));
    refuse(&lb, "a").await;
    let state = |lb: &LoadBalancer| {
        let snapshot = lb.snapshot().unwrap();
        Arc::clone(snapshot.instances().find(|state| state.instance().id() == "a").unwrap())
    };
    for seconds in [1_u64, 2, 4, 8, 16, 30, 30] {
        assert!(state(&lb).is_skipped());
        assert_eq!(state(&lb).skipped_until(), Some(Instant::now() + Duration::from_secs(seconds)));
        even(&picks(&lb, 100).await, "b c", 50, 0);
        tokio::time::advance(Duration::from_millis(seconds * 1_000 - 1)).await;
        even(&picks(&lb, 100).await, "b c", 50, 0);
        tokio::time::advance(Duration::from_millis(2)).await;
        // One call probes; while it runs, nobody else is sent there.
        let probe = choice_of(&lb, "a").await;
        even(&picks(&lb, 100).await, "b c", 50, 0);
        probe.complete(Outcome::Failure(Failure::Connect));
    }
    advance(31.0).await;
    // Given up by its caller, which says nothing: the next call probes. An answer, be it an error, brings it back.
    drop(choice_of(&lb, "a").await);
    let probe = choice_of(&lb, "a").await;
    assert!(picks(&lb, 10).await.iter().all(|id| id != "a"));
    probe.complete(Outcome::Status(503));
    assert!(!state(&lb).is_skipped() && state(&lb).skipped_until().is_none());
    even(&picks(&lb, 300).await, "a b c", 100, 1);
    // It had been well: the back-off starts anew.
    refuse(&lb, "a").await;
    assert_eq!(state(&lb).skipped_until(), Some(Instant::now() + Duration::from_secs(1)));
}

#[tokio::test(start_paused = true)]
async fn a_probing_call_that_is_answered_brings_the_instance_back_before_its_body_ends() {
    let lb = balancer(Pull::always("a b c", Duration::ZERO));
    refuse(&lb, "a").await;
    advance(1.1).await;
    let probe = choice_of(&lb, "a").await;
    assert!(probe.state().is_skipped());
    // A stream of events may last for hours, and many a caller never reads the body.
    let answer = probe.track(http::Response::new(http_body_util::Full::new(&b"still coming"[..])));
    even(&picks(&lb, 300).await, "a b c", 100, 1);
    drop(answer);
    even(&picks(&lb, 300).await, "a b c", 100, 1);
}

#[tokio::test(start_paused = true)]
async fn a_back_off_without_end_is_ordinary_input() {
    let endless = chain(Pull::always("a b", Duration::ZERO)).with_back_off(Duration::MAX, Duration::MAX);
    let lb = over(endless, evenkeel::policy::RoundRobin::default());
    refuse(&lb, "a").await;
    even(&picks(&lb, 10).await, "b", 10, 0);
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_failures_is_one_back_off_and_other_failures_are_none() {
    let lb = balancer(Pull::always("a", Duration::ZERO));
    let mut burst = Vec::new();
    for _ in 0..50 {
        burst.push(lb.choose(&Request::EMPTY).await.unwrap());
    }
    let state = Arc::clone(lb.snapshot().unwrap().instances().next().unwrap());
    assert_eq!(state.in_flight(), 50);
    for outcome in
        [Outcome::Status(503), Outcome::Failure(Failure::Timeout), Outcome::Failure(Failure::Reset)]
    {
        burst.pop().unwrap().complete(outcome);
        assert!(!state.is_skipped(), "{outcome} says that the instance was reached");
    }
    for call in burst {
        call.complete(Outcome::Failure(Failure::Connect));
    }
    assert_eq!(state.skipped_until(), Some(Instant::now() + Duration::from_secs(1)));
    assert_eq!(state.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn when_all_are_skipped_all_are_used() {
    for policy in
        [Arc::new(RoundRobin::default()) as Arc<dyn Policy>, Arc::new(RandomPick), Arc::new(LeastRequest)]
    {
        let supplier = chain(Pull::always("a b c", Duration::ZERO)).build().unwrap();
        let lb = LoadBalancer::builder(supplier).policy_arc(policy).build();
        for id in ["a", "b", "c"] {
            refuse(&lb, id).await;
        }
        even(&picks(&lb, 300).await, "a b c", 100, 50);
        // The first that answers is used alone until the others are probed.
        choice_of(&lb, "b").await.complete(Outcome::Success);
        even(&picks(&lb, 100).await, "b", 100, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_skipped_stays_so_over_every_refresh() {
    let live = Live::new(list("a b"));
    let lb = over(chain(live.source()), RoundRobin::default());
    refuse(&lb, "a").await;
    live.set(list("b a c")).await;
    even(&picks(&lb, 100).await, "b c", 50, 1);
    live.set(list("b")).await;
    live.set(list("a b")).await;
    even(&picks(&lb, 100).await, "b", 100, 0);
    advance(1.1).await;
    choice_of(&lb, "a").await.complete(Outcome::Success);
    even(&picks(&lb, 100).await, "a b", 50, 1);
}

#[tokio::test(start_paused = true)]
async fn a_dead_server_makes_a_source_that_is_asked_look_again_at_most_once_a_second() {
    let source = Pull::always("a b", Duration::from_millis(1));
    let lb = balancer(source.clone());
    refuse(&lb, "a").await;
    advance(0.1).await;
    assert_eq!(source.calls(), 2, "a look-up starts at once");
    // Both are dead, so that every call fails for the next 10 s.
    for _ in 0..1_000 {
        lb.choose(&Request::EMPTY).await.unwrap().complete(Outcome::Failure(Failure::Connect));
        advance(0.01).await;
    }
    assert!((10..=13).contains(&source.calls()), "{} look-ups in 10 s", source.calls());
}

#[tokio::test(start_paused = true)]
async fn a_dead_server_does_not_cut_the_back_off_of_a_registry_short() {
    let source = Pull::new(|n| async move { if n == 0 { Ok(list("a b")) } else { Err(refused()) } });
    let lb = balancer(source.clone());
    for _ in 0..600 {
        lb.choose(&Request::EMPTY).await.unwrap().complete(Outcome::Failure(Failure::Connect));
        advance(0.1).await;
    }
    // 1 s doubling to 30 s with full jitter: some 6 to 15 attempts in a minute, not one a second.
    assert!(source.calls() <= 20, "{} look-ups in a minute of an outage", source.calls());
    assert_eq!(lb.snapshot().unwrap().origin(), Origin::Stale);
}

#[tokio::test(start_paused = true)]
async fn a_dead_server_makes_an_open_watch_look_at_most_once_a_second() {
    let source = Push::new(vec![(0.0, Ok(list("a b")))]);
    let lb = balancer(source.clone());
    for _ in 0..100 {
        lb.choose(&Request::EMPTY).await.unwrap().complete(Outcome::Failure(Failure::Connect));
        advance(0.1).await;
    }
    let asked = source.asked.load(Ordering::SeqCst);
    assert!((9..=11).contains(&asked), "asked {asked} times in 10 s");
    assert_eq!(source.watches.load(Ordering::SeqCst), 1, "the watch itself stays open");
    // Nor more often for one who insists.
    advance(1.0).await;
    for _ in 0..10 {
        lb.refresh();
        settle().await;
    }
    assert_eq!(source.asked.load(Ordering::SeqCst), asked + 1);
}

// ------------------------------------------------------------------------------------------------ status and drains

fn with_status(pairs: &[(&str, Status)]) -> Vec<ServiceInstance> {
    pairs.iter().map(|(id, status)| instance(id).to_builder().status(*status).build().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_best_status_that_is_there_is_used() {
    use Status::{Degraded, Down, Draining, Unknown, Up};
    let all =
        [("up", Up), ("unknown", Unknown), ("degraded", Degraded), ("draining", Draining), ("down", Down)];
    let live = Live::new(with_status(&all));
    let lb = over(chain(live.source()), RoundRobin::default());
    even(&picks(&lb, 100).await, "up unknown", 50, 0);
    for (left, used) in [(1, "unknown"), (2, "degraded"), (3, "draining")] {
        live.set(with_status(&all[left..])).await;
        even(&picks(&lb, 100).await, used, 100, 0);
    }
    live.set(with_status(&all[4..])).await;
    let error = lb.choose(&Request::EMPTY).await.unwrap_err();
    assert!(matches!(error.kind(), ChooseErrorKind::NoInstances { reason: Reason::AllDown, known: 1, .. }));
    assert!(error.to_string().contains("to choose: all are down (1 known"), "{error}");
    live.set(with_status(&all[..1])).await;
    assert_eq!(pick(&lb).await, "up");
}

#[tokio::test(start_paused = true)]
async fn a_drained_instance_does_not_keep_a_worse_status_from_being_used() {
    let zero = |id: &str, status| {
        instance(id).to_builder().status(status).with_metadata("weight", "0").build().unwrap()
    };
    let live =
        Live::new(vec![zero("up", Status::Up), with_status(&[("degraded", Status::Degraded)])[0].clone()]);
    let lb = over(chain(live.source()), RoundRobin::default());
    assert_eq!(pick(&lb).await, "degraded");
    for (list, reason, text) in [
        (
            vec![zero("a", Status::Up), zero("b", Status::Degraded)],
            Reason::AllDrained,
            "all are drained (weight 0) (2",
        ),
        (
            vec![zero("a", Status::Up), with_status(&[("b", Status::Down)])[0].clone()],
            Reason::AllDrained,
            "(2 known",
        ),
        (vec![zero("a", Status::Down), zero("b", Status::Down)], Reason::AllDown, "all are down (2 known"),
    ] {
        live.set(list).await;
        let error = lb.choose(&Request::EMPTY).await.unwrap_err();
        let ChooseErrorKind::NoInstances { reason: got, known: 2, .. } = error.kind() else {
            panic!("{error}")
        };
        assert_eq!(*got, reason);
        assert!(error.to_string().contains(text), "{error}");
    }
}

// ----------------------------------------------------------------------------------------------- a chain as a stream

fn ids(item: Option<Answer>) -> String {
    match item {
        Some(Ok(list)) => list.iter().map(ServiceInstance::id).collect::<Vec<_>>().join(" "),
        Some(Err(error)) => format!("{:?}", error.kind()),
        None => "end".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_gives_the_usable_list_at_first_and_after_each_change() {
    let zoned = |ids: &str| with("zone", ids);
    let live = Live::new(zoned("a=z1 b=z2 c=z1"));
    let supplier = chain(live.source()).with_zone_preference("z1").build().unwrap();
    assert_eq!(supplier.service_id(), &orders());
    let (mut lists, mut second) = (supplier.get(), supplier.get());
    assert_eq!(ids(lists.next().await), "a c");
    assert_eq!(ids(second.next().await), "a c");
    // Another zone changed: that is no change of this list.
    live.set(zoned("a=z1 b=z2 c=z1 d=z2")).await;
    assert!(lists.next().now_or_never().is_none());
    live.set(zoned("a=z1 b=z2")).await;
    assert_eq!(ids(lists.next().await), "a");
    live.set(zoned("b=z2 c=z3")).await;
    assert_eq!(ids(lists.next().await), "b c", "nobody is left in the zone: all are used");
    assert_eq!(ids(second.next().await), "b c", "a slow reader gets the newest list");
    assert!(second.next().now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stream_tells_of_an_error_once_and_of_the_recovery() {
    let source = Pull::timed(|t| match t {
        t if t < 30.0 => Ok(list("a")),
        t if t < 100.0 => Err(refused()),
        _ => Ok(list("b")),
    });
    let supplier = chain(source.clone()).build().unwrap();
    let mut lists = supplier.get();
    let start = Instant::now();
    assert_eq!(ids(lists.next().await), "a");
    assert_eq!(ids(lists.next().await), "Io");
    assert_eq!(start.elapsed().as_secs(), 35, "the stream is a caller: it looks up when the list is due");
    assert_eq!(ids(lists.next().await), "b", "the error is told once");
    assert!((100..=131).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    // No answer at all comes as an error too, not as an empty list.
    let never = chain(Pull::new(|_| async { Err(refused()) })).build().unwrap();
    assert_eq!(ids(never.get().next().await), "Io");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_dropped_stops_the_look_ups() {
    let baseline = alive_tasks();
    let source = Pull::always("a", Duration::ZERO);
    let supplier = chain(source.clone()).build().unwrap();
    let mut lists = supplier.get();
    lists.next().await;
    assert!(
        tokio::time::timeout(Duration::from_secs(200), lists.next()).await.is_err(),
        "an equal list is no item"
    );
    let calls = source.calls();
    assert!((5..=7).contains(&calls), "{calls} look-ups in 200 s at a TTL of 35 s");
    drop((lists, supplier));
    advance(600.0).await;
    assert_eq!((source.calls(), alive_tasks()), (calls, baseline));
}

#[tokio::test(start_paused = true)]
async fn a_stream_keeps_a_quiet_watch_open() {
    let source = Push::new(vec![(0.0, Ok(list("a"))), (3_610.0, Ok(list("b")))]);
    let supplier = chain(source.clone()).build().unwrap();
    let mut lists = supplier.get();
    let start = Instant::now();
    assert_eq!(ids(lists.next().await), "a");
    assert_eq!(ids(lists.next().await), "b");
    assert_eq!(start.elapsed(), Duration::from_secs(3_610), "the change comes at once");
    assert_eq!(source.watches.load(Ordering::SeqCst), 1, "a reader is there all the time");
}

// --------------------------------------------------------------------------------------------------- first use: 066

/// Blocks its thread until it is told to go on.
#[derive(Debug)]
struct Gated(std::sync::Mutex<std::sync::mpsc::Receiver<()>>);

impl BlockingDiscoveryClient for Gated {
    fn name(&self) -> &str {
        "gated"
    }
    fn instances(&self, _: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError> {
        let gate = self.0.lock().unwrap();
        gate.recv().map_err(|_| SupplyError::new(SupplyErrorKind::Other, "gated", "the gate is gone"))?;
        Ok(list("slow"))
    }
    fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        Ok(Vec::new())
    }
}

/// A balancer over a source that blocks, and the sender that lets it go on.
fn gated() -> (LoadBalancer, std::sync::mpsc::Sender<()>) {
    let (open, gate) = std::sync::mpsc::channel();
    let chain = chain(Blocking::new(Gated(std::sync::Mutex::new(gate))));
    let patient =
        chain.with_look_up_timeout(Duration::from_secs(600)).with_choose_timeout(Duration::from_secs(600));
    (over(patient, RoundRobin::default()), open)
}

/// Phase 1, on the real clock and one thread: the slow source blocks until 300 ticks were seen, so that it is blocked
/// while they happen, however busy the machine is.
#[tokio::test]
async fn case_066_a_source_that_blocks_holds_up_neither_other_services_nor_the_loop() {
    let ((slow, open), fast) = (gated(), balancer(Pull::always("fast", Duration::ZERO)));
    let waiting = tokio::spawn(async move { pick(&slow).await });
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    let (mut seen, mut gap, mut last) = (0, Duration::ZERO, std::time::Instant::now());
    let fast_took = tokio::spawn(async move {
        let start = std::time::Instant::now();
        assert_eq!(pick(&fast).await, "fast");
        start.elapsed()
    });
    while seen < 300 {
        ticks.tick().await;
        seen += 1;
        gap = gap.max(last.elapsed());
        last = std::time::Instant::now();
    }
    let fast_took = fast_took.await.unwrap();
    assert!(fast_took < Duration::from_secs(1), "10 times 100 ms: {fast_took:?}");
    assert!(gap < Duration::from_secs(5), "10 times 500 ms: the loop stood still for {gap:?}");
    assert!(!waiting.is_finished(), "the source is blocked all the while");
    open.send(()).unwrap();
    assert_eq!(waiting.await.unwrap(), "slow");
}

#[tokio::test]
async fn case_058_a_look_up_that_blocks_its_thread_does_not_hold_up_the_close() {
    let (slow, open) = gated();
    let waiter = slow.clone();
    let waiting = tokio::spawn(async move { waiter.choose(&Request::EMPTY).await.map(drop) });
    tokio::task::yield_now().await;
    let start = std::time::Instant::now();
    slow.close().await;
    assert!(start.elapsed() < Duration::from_secs(10), "10 times a second: {:?}", start.elapsed());
    assert!(matches!(waiting.await.unwrap().unwrap_err().kind(), ChooseErrorKind::Closed));
    drop(open);
}

/// Phase 2: the latencies of 2000 services overlap, and no first use waits for another.
#[test]
fn case_066_two_thousand_services_are_used_for_the_first_time_at_once() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let start = std::time::Instant::now();
        let callers: Vec<_> = (0..2_000)
            .map(|n| {
                tokio::spawn(async move {
                    let source = Pull::always("a b", Duration::from_millis(50));
                    let service = ServiceId::new(format!("service-{n}")).unwrap();
                    let supplier =
                        SupplierBuilder::new(&service).with_discovery_client(source.clone()).build().unwrap();
                    let lb = LoadBalancer::builder(supplier).build();
                    let id = pick(&lb).await;
                    (id, source.calls(), lb)
                })
            })
            .collect();
        let mut balancers = Vec::new();
        for caller in callers {
            let (id, calls, lb) = caller.await.unwrap();
            assert!(["a", "b"].contains(&&*id) && calls == 1, "{id} after {calls} look-ups");
            balancers.push(lb);
        }
        // Ten times 2 s; one after another they would take 100 s.
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        let over = async {
            while alive_tasks() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), over).await.expect("an idle service costs no task");
    });
}
