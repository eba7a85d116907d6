//! Policies that feel how servers do: on a virtual clock, with modelled servers behind a real balancer.

mod support;

use std::time::Duration;

use evenkeel::policy::{
    Adaptive, AvailabilityFiltering, BestAvailable, ClientSideWeightedRoundRobin, LeastActive, LeastRequest,
    PeakEwma, Policy, RoundRobin, ShortestResponse, WeightedResponseTime, ZoneAvoidance,
};
use evenkeel::sim::{Demand, Discipline, Fault, Report, Server, Simulation, What};
use evenkeel::{LoadBalancer, Outcome, Request};
use support::{advance, count, fixed, list, pick, picks};

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

/// Ten servers that work 10 ms on a call (exponential, one after the other), at seven tenths of what they can do, but for
/// the first one, which has a fault. From the third second on, for twenty.
fn with_one(fault: Fault, clients: usize) -> Simulation {
    Simulation::new(Server::many(10))
        .with_clients(clients)
        .with_rate(630.0)
        .with_demand(Demand::exponential(10 * MS))
        .with_discipline(Discipline::fifo(1))
        .with_fault(0, fault, ..)
        .with_warm_up(2 * S)
        .with_duration(20 * S)
        .with_seed(7)
}

#[allow(clippy::needless_pass_by_value)] // it is cloned for each client
fn share<P: Policy + Clone>(simulation: &Simulation, policy: P) -> f64 {
    simulation.run(|| policy.clone()).unwrap().share(0)
}

#[test]
fn lbs_f1_a_server_that_fails_fast_attracts_nothing() {
    for clients in [1, 10] {
        let fails = with_one(Fault::FailFast(MS / 5), clients);
        let round_robin = share(&fails, RoundRobin::default());
        assert!((round_robin - 0.1).abs() < 0.002, "{round_robin}");
        // After two seconds, in their default form, and before anything is ejected.
        for (name, share) in [
            ("least request", share(&fails, LeastRequest)),
            ("peak EWMA", share(&fails, PeakEwma::default())),
            ("least active", share(&fails, LeastActive::default())),
            // It is tried again when its window ends.
            ("shortest response", share(&fails, ShortestResponse::default().with_window(10 * S))),
            ("adaptive", share(&fails, Adaptive::default())),
            ("weighted response time", share(&fails, WeightedResponseTime::default())),
            ("best available", share(&fails, BestAvailable::default())),
            ("availability filtering", share(&fails, AvailabilityFiltering::default())),
            ("zone avoidance", share(&fails, ZoneAvoidance::default())),
            ("client-side weighted", share(&fails, ClientSideWeightedRoundRobin::default())),
        ] {
            assert!(share <= 0.01, "{name}, {clients} clients: {share}");
            assert!(share > 0.0, "{name}: it is tried again now and then");
        }
    }
}

#[test]
fn lbs_a_server_that_hangs_is_avoided_before_it_answers() {
    let hangs = with_one(Fault::BlackHole, 1).with_deadline(30 * S);
    let by_latency = share(&hangs, PeakEwma::default());
    assert!(by_latency <= 0.002, "{by_latency}");
    // By their number alone, calls that hang keep a server away, too.
    let by_count = share(&hangs, LeastRequest);
    assert!(by_count <= 0.02, "{by_count}");
}

#[test]
fn lbs_f12_a_server_that_is_five_times_as_slow_gets_little() {
    let simulation = Simulation::new([0.2, 1.0, 1.0].map(|speed| Server::new().with_speed(speed)))
        .with_rate(120.0)
        .with_demand(Demand::exponential(10 * MS))
        .with_discipline(Discipline::fifo(1))
        .with_warm_up(2 * S)
        .with_duration(60 * S)
        .with_seed(5);
    let run = simulation.run(PeakEwma::default).unwrap();
    assert!(run.share(0) <= 0.12, "{}", run.share(0));
    assert!((run.share(1) - run.share(2)).abs() < 0.05, "{run}");
}

/// The picks of a server among the first 100 from `from` on.
fn first_hundred(report: &Report, from: Duration, server: usize) -> usize {
    let picks = report.trace().iter().filter(|event| event.what == What::Picked && event.at >= from);
    picks.take(100).filter(|event| event.server == server).count()
}

/// Servers that answer after 100 ms, however many calls they have, at 400 calls a second.
fn answering_in_100_ms(servers: usize, seed: u64) -> Simulation {
    Simulation::new(Server::many(servers).map(|server| server.with_allocation(1e3)))
        .with_demand(Demand::deterministic(100 * MS))
        .with_rate(400.0)
        .with_warm_up(2 * S)
        .with_duration(S)
        .with_trace()
        .with_seed(seed)
}

#[test]
fn case_037_a_newcomer_under_peak_ewma_is_not_flooded() {
    for seed in 1..=20 {
        let joins = answering_in_100_ms(3, seed)
            .with_server_added(2 * S, Server::new().with_allocation(1e3))
            .run(PeakEwma::default)
            .unwrap();
        let got = first_hundred(&joins, 2 * S, 3);
        assert!((5..=38).contains(&got), "seed {seed}: {got}");
        // All of them new.
        let first = answering_in_100_ms(4, seed).run(PeakEwma::default).unwrap();
        let most = (0..4).map(|server| first_hundred(&first, Duration::ZERO, server)).max().unwrap();
        assert!(most <= 40, "seed {seed}: {most}");
    }
}

#[tokio::test(start_paused = true)]
async fn case_037_calls_without_an_answer_count_for_a_newcomer() {
    let ids = ["a", "b", "c", "d"];
    let lb = fixed(list("a b c d"), |chain| chain, PeakEwma::default());
    let mut open: [Vec<evenkeel::Choice>; 4] = [const { Vec::new() }; 4];
    let at = |choice: &evenkeel::Choice| ids.iter().position(|id| *id == choice.instance().id()).unwrap();
    // Of all but d an answer of 100 ms is known.
    while open.iter().any(|open| open.len() < 10) {
        let choice = lb.choose(&Request::EMPTY).await.unwrap();
        let server = at(&choice);
        if open[server].len() < 10 {
            open[server].push(choice);
        }
    }
    advance(0.1).await;
    for (server, open) in open.iter_mut().enumerate().take(3) {
        open.pop().unwrap().complete(Outcome::Success);
        while open.len() < 10 {
            let choice = lb.choose(&Request::EMPTY).await.unwrap();
            if at(&choice) == server {
                open.push(choice);
            }
        }
    }
    let picked = picks(&lb, 100).await;
    // A quarter, and what chance adds to it.
    assert!(count(&picked, "d") <= 38, "{picked:?}");
}

/// What went well before takes nothing off the age of a call that hangs, whatever it cost.
#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_is_seen_behind_many_that_went_well() {
    let lb = fixed(list("a b"), |chain| chain, PeakEwma::default());
    let dear = Request::EMPTY.with_cost(3);
    for _ in 0..20 {
        let choice = lb.choose(&dear).await.unwrap();
        advance(if choice.instance().id() == "a" { 0.01 } else { 0.5 }).await;
        choice.complete(Outcome::Success);
    }
    let hangs = lb.choose(&Request::EMPTY).await.unwrap();
    assert_eq!(hangs.instance().id(), "a");
    // Twice 10 ms are less than 500.
    assert_eq!(picks(&lb, 5).await, ["a"; 5]);
    advance(5.0).await;
    assert_eq!(picks(&lb, 5).await, ["b"; 5]);
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

#[test]
fn balancers_from_properties_can_be_simulated() {
    use evenkeel::LoadBalancers;
    use evenkeel::config::Properties;

    let servers = Server::in_zones(4, ["a", "b"]);
    let simulation = Simulation::new(servers).with_clients(2).with_warm_up(S).with_duration(4 * S);
    let mut kept = Vec::new();
    let mut build = |client: &evenkeel::sim::Client| {
        let properties = Properties::default().with_environment([
            ("EVENKEEL_POLICY", "least-request"),
            ("EVENKEEL_CONFIGURATIONS", "zone-preference"),
            ("EVENKEEL_ZONE", client.zone().unwrap_or_default()),
        ])?;
        let balancers =
            LoadBalancers::builder(client.discovery()).properties(properties).seed(client.seed()).build()?;
        let balancer = balancers.get(evenkeel::sim::SERVICE)?;
        kept.push(balancers);
        Ok(balancer)
    };
    let first = simulation.run_with(&mut build).unwrap();
    let second = simulation.run_with(&mut build).unwrap();
    assert!(first.is_balanced() && first.error_rate() < f64::EPSILON, "{first}");
    assert!(first.cross_zone_share() < f64::EPSILON, "{}", first.cross_zone_share());
    assert_eq!(first.trace_hash(), second.trace_hash());
}
