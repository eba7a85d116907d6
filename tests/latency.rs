//! Policies that feel how servers do: on a virtual clock, with modelled servers behind a real balancer.

mod support;

use std::time::Duration;

use evenkeel::policy::{
    Adaptive, AvailabilityFiltering, BestAvailable, ClientSideWeightedRoundRobin, LeastActive, LeastRequest,
    PeakEwma, Policy, RandomPick, RoundRobin, ShortestResponse, WeightedResponseTime, ZoneAvoidance,
};
use evenkeel::{LoadBalancer, Outcome, Request};
use support::simulation::{Run, Server, simulate};
use support::{advance, fixed, instance, list, pick};

const MS: Duration = Duration::from_millis(1);

/// A balancer over as many instances as there are servers.
fn balancer(servers: usize, policy: impl Policy) -> LoadBalancer {
    let ids: Vec<String> = (0..servers).map(|n| n.to_string()).collect();
    let all = ids.iter().map(|id| instance(id)).collect();
    fixed(all, |chain| chain, policy)
}

/// Ten servers that work 10 ms on a call, at seven tenths of what they can do, but for the first one, which does as it is
/// given. From the third second on, for twenty.
async fn with_one(first: Server, policy: impl Policy) -> Run {
    let mut servers = vec![Server::Works(10 * MS); 10];
    servers[0] = first;
    let balancer = balancer(10, policy);
    simulate(&balancer, &servers, 630.0, [2_000 * MS, 20_000 * MS], 7).await
}

#[tokio::test(start_paused = true)]
async fn lbs_v1_the_model_is_a_queue_as_theory_has_it() {
    // Random over FIFO servers, exponential work: each is an M/M/1 queue, whose mean is S / (1 - rho).
    let servers = vec![Server::Works(10 * MS); 10];
    let run = simulate(&balancer(10, RandomPick), &servers, 700.0, [5_000 * MS, 300_000 * MS], 3).await;
    let mean = run.mean().as_secs_f64() / 0.010;
    assert!((mean - 1.0 / 0.3).abs() < 0.03 / 0.3, "{mean}");
    let p99 = run.quantile(990).as_secs_f64() / 0.010;
    assert!((p99 - 100.0_f64.ln() / 0.3).abs() < 0.05 * 15.35, "{p99}");
    // The power of two choices: 1.615 in theory, with many servers; ten are a little slower.
    let run = simulate(&balancer(10, LeastRequest), &servers, 700.0, [5_000 * MS, 300_000 * MS], 3).await;
    let mean = run.mean().as_secs_f64() / 0.010;
    assert!((1.6..1.8).contains(&mean), "{mean}");
}

#[tokio::test(start_paused = true)]
async fn lbs_a_server_that_fails_fast_attracts_nothing() {
    let fails = Server::Fails(Duration::from_micros(200));
    let round_robin = with_one(fails, RoundRobin::default()).await.share(0);
    assert!((round_robin - 0.1).abs() < 0.002, "{round_robin}");
    for (name, share) in [
        ("least request", with_one(fails, LeastRequest).await.share(0)),
        ("peak EWMA", with_one(fails, PeakEwma::default()).await.share(0)),
        ("least active", with_one(fails, LeastActive::default()).await.share(0)),
        // It is tried again when its window ends.
        (
            "shortest response",
            with_one(fails, ShortestResponse::default().with_window(Duration::from_secs(10))).await.share(0),
        ),
        ("adaptive", with_one(fails, Adaptive::default()).await.share(0)),
        ("weighted response time", with_one(fails, WeightedResponseTime::default()).await.share(0)),
        ("best available", with_one(fails, BestAvailable::default()).await.share(0)),
        ("availability filtering", with_one(fails, AvailabilityFiltering::default()).await.share(0)),
        ("zone avoidance", with_one(fails, ZoneAvoidance::default()).await.share(0)),
        ("client-side weighted", with_one(fails, ClientSideWeightedRoundRobin::default()).await.share(0)),
    ] {
        assert!(share <= 0.01, "{name}: {share}");
        assert!(share > 0.0, "{name}: it is tried again now and then");
    }
}

#[tokio::test(start_paused = true)]
async fn as_the_originals_have_it_a_server_that_fails_fast_attracts_calls() {
    // Why the defaults differ: this is what a share of a tenth becomes.
    let fails = Server::Fails(Duration::from_micros(200));
    for (name, share) in [
        ("least active", with_one(fails, LeastActive::exact()).await.share(0)),
        ("shortest response", with_one(fails, ShortestResponse::exact()).await.share(0)),
        ("best available", with_one(fails, BestAvailable::exact()).await.share(0)),
    ] {
        assert!(share > 0.1, "{name}: {share}");
    }
}

#[tokio::test(start_paused = true)]
async fn lbs_a_server_that_hangs_is_avoided_before_it_answers() {
    let hangs = Server::Hangs(Duration::from_secs(30));
    let share = with_one(hangs, PeakEwma::default()).await.share(0);
    assert!(share <= 0.002, "{share}");
    // By their number alone, calls that hang keep a server away, too.
    let share = with_one(hangs, LeastRequest).await.share(0);
    assert!(share <= 0.02, "{share}");
}

#[tokio::test(start_paused = true)]
async fn lbs_f12_a_server_that_is_five_times_as_slow_gets_little() {
    let slow = Server::Works(50 * MS);
    let servers = [slow, Server::Works(10 * MS), Server::Works(10 * MS)];
    let balancer = balancer(3, PeakEwma::default());
    let run = simulate(&balancer, &servers, 120.0, [2_000 * MS, 60_000 * MS], 5).await;
    assert!(run.share(0) <= 0.12, "{}", run.share(0));
    assert!((run.share(1) - run.share(2)).abs() < 0.05, "{run:?}", run = run.calls);
}

#[tokio::test(start_paused = true)]
async fn one_whose_latency_is_unknown_gets_one_call_and_waits_for_its_answer() {
    let lb = fixed(list("a b"), |chain| chain, PeakEwma::default());
    let first = lb.choose(&Request::EMPTY).await.unwrap();
    let second = lb.choose(&Request::EMPTY).await.unwrap();
    assert_ne!(first.instance().id(), second.instance().id());
    let quick = second.instance().id().to_owned();
    advance(0.01).await;
    second.complete(Outcome::Success);
    // The other one has not answered yet.
    for _ in 0..20 {
        assert_eq!(pick(&lb).await, quick);
    }
    first.complete(Outcome::Success);
}

#[tokio::test(start_paused = true)]
async fn failures_count_as_load_for_a_while_and_a_good_answer_ends_it() {
    let lb = fixed(list("a b"), |chain| chain, LeastRequest);
    let load = |id: &str| {
        let list = lb.snapshot().unwrap();
        list.instances().find(|state| state.instance().id() == id).unwrap().load()
    };
    let call = |id: &'static str, outcome| {
        let lb = lb.clone();
        async move {
            // Least request takes the other one now and then: drawn until it is the one.
            loop {
                let choice = lb.choose(&Request::EMPTY).await.unwrap();
                if choice.instance().id() == id {
                    return choice.complete(outcome);
                }
                // Kept, so that the loads are told apart.
                std::mem::forget(choice);
            }
        }
    };
    call("a", Outcome::Status(503)).await;
    assert_eq!(load("a") - in_flight(&lb, "a"), 16);
    // A burst is one failure.
    advance(0.5).await;
    assert_eq!(load("a") - in_flight(&lb, "a"), 16);
    advance(0.6).await;
    assert_eq!(load("a"), in_flight(&lb, "a"), "after a second it gets another chance");
    call("a", Outcome::Failure(evenkeel::Failure::Timeout)).await;
    assert_eq!(load("a") - in_flight(&lb, "a"), 32);
    advance(1.5).await;
    assert_eq!(load("a") - in_flight(&lb, "a"), 32, "the second row lasts two seconds");
    advance(0.6).await;
    call("a", Outcome::Status(404)).await;
    call("a", Outcome::Status(500)).await;
    assert_eq!(load("a") - in_flight(&lb, "a"), 16, "a good answer begins anew");
    call("a", Outcome::Cancelled).await;
    assert_eq!(load("a") - in_flight(&lb, "a"), 16, "who gives up says nothing");
}

fn in_flight(lb: &LoadBalancer, id: &str) -> u32 {
    let list = lb.snapshot().unwrap();
    list.instances().find(|state| state.instance().id() == id).unwrap().in_flight()
}
