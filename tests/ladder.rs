//! The simulator against queueing theory, before any policy is compared by it: what must hold first.
//!
//! The runs are long, since means must be right within a few percent; without optimization they take minutes. So most are
//! ignored in debug builds: `cargo test --release --features sim --test ladder -- --include-ignored`.

use std::time::Duration;

use evenkeel::policy::{LeastRequest, PeakEwma, Policy, RandomPick, RoundRobin};
use evenkeel::sim::{
    Antagonists, Demand, Discipline, Fault, Network, Report, Server, ServerReport, Simulation,
};

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);
/// The mean work of a request.
const WORK: Duration = Duration::from_millis(10);

/// A hundred servers with one core, one client: it sees every request that a server has.
fn hundred(load: f64, measured: u64) -> Simulation {
    Simulation::new(Server::many(100))
        .with_load(load)
        .with_demand(Demand::exponential(WORK))
        .with_discipline(Discipline::fifo(1))
        .with_warm_up(20 * S)
        .with_duration(Duration::from_secs(measured))
        .with_seed(1)
}

/// A thousand of them, which is nearly what theory means by many.
fn thousand(load: f64) -> Simulation {
    Simulation::new(Server::many(1_000))
        .with_load(load)
        .with_demand(Demand::exponential(WORK))
        .with_discipline(Discipline::fifo(1))
        .with_warm_up(5 * S)
        .with_duration(35 * S)
        .with_seed(1)
}

/// The mean, in units of the mean work.
fn mean(report: &Report) -> f64 {
    report.latency().mean().as_secs_f64() / WORK.as_secs_f64()
}

#[track_caller]
fn near(what: &str, got: f64, expected: f64, within: f64) {
    let off = (got - expected).abs() / expected;
    println!("{what}: {got:.4}, expected {expected:.4}, off by {:.2} %", 100.0 * off);
    assert!(off <= within, "{what}: {got}, expected {expected} within {within}");
}

fn run<P: Policy>(simulation: &Simulation, policy: impl FnMut() -> P + Send) -> Report {
    let report = simulation.run(policy).unwrap();
    assert!(report.is_balanced() && report.unfinished() == 0);
    report
}

#[test]
#[cfg_attr(debug_assertions, ignore = "6 million requests; minutes without optimization")]
fn lbs_v1_random_over_fifo_with_exponential_work_is_a_row_of_m_m_1_queues() {
    for (load, measured) in [(0.7, 200), (0.9, 500)] {
        let report = run(&hundred(load, measured), || RandomPick);
        near(&format!("mean at {load}"), mean(&report), 1.0 / (1.0 - load), 0.03);
        let p99 = report.latency().quantile(0.99).as_secs_f64() / WORK.as_secs_f64();
        near(&format!("p99 at {load}"), p99, 100_f64.ln() / (1.0 - load), 0.03);
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "3 million requests; minutes without optimization")]
fn lbs_v2_with_equal_work_it_is_a_row_of_m_d_1_queues() {
    for (load, expected) in [(0.7, 2.167), (0.9, 5.5)] {
        let report = run(&hundred(load, 200).with_demand(Demand::deterministic(WORK)), || RandomPick);
        near(&format!("mean at {load}"), mean(&report), expected, 0.03);
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "6 million requests; minutes without optimization")]
fn lbs_v3_under_processor_sharing_the_shape_of_the_work_does_not_matter() {
    for demand in [
        Demand::deterministic(WORK),
        Demand::exponential(WORK),
        Demand::truncated_normal(WORK),
        Demand::bimodal(WORK, 0.05, 20.0),
        Demand::log_normal(WORK, 1.0),
    ] {
        let simulation =
            hundred(0.8, 150).with_demand(demand).with_discipline(Discipline::processor_sharing());
        near(&format!("{demand:?}"), mean(&run(&simulation, || RandomPick)), 5.0, 0.03);
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "3 million requests; minutes without optimization")]
fn lbs_v4_two_choices_with_fresh_counts_are_the_supermarket_model() {
    for (load, expected) in [(0.7, 1.615), (0.9, 2.614)] {
        let report = run(&hundred(load, 200), || LeastRequest);
        near(&format!("mean at {load}"), mean(&report), expected, 0.03);
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "6 million requests; minutes without optimization")]
fn lbs_v5_with_a_thousand_servers_they_are_within_one_percent_of_it() {
    for (load, expected) in [(0.7, 1.615), (0.9, 2.614)] {
        let report = run(&thousand(load), || LeastRequest);
        near(&format!("mean at {load}"), mean(&report), expected, 0.01);
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "4 million requests; minutes without optimization")]
fn lbs_v6_the_tails_of_their_queues_are_those_of_the_model() {
    // A share of rho^(2^i - 1) of the queues has i requests or more; longer ones are too few.
    let report = run(&thousand(0.9), || LeastRequest);
    for (requests, expected) in [(1, 0.9), (2, 0.729), (3, 0.4783), (4, 0.2059)] {
        near(&format!("{requests} or more"), report.in_flight_at_least(requests), expected, 0.03);
    }
}

/// Everything that the model has, at once.
fn busy() -> Simulation {
    Simulation::new(Server::in_zones(12, ["a", "b", "c"]).map(|server| server.with_weight(2.0)))
        .with_clients(9)
        .with_load(1.1)
        .with_antagonists(Antagonists::default().with_dwell(S))
        .with_network(Network::new(MS / 10, MS / 2))
        .with_deadline(500 * MS)
        .with_fault(0, Fault::FailFast(MS), 2 * S..4 * S)
        .with_fault(1, Fault::BlackHole, 3 * S..5 * S)
        .with_fault(2, Fault::Slow(5.0), S..)
        .with_fault(3, Fault::Grey(0.05), ..)
        .with_fault(4, Fault::Flapping { down: S / 5, up: S / 5 }, S..)
        .with_fault(5, Fault::Refuse, 4 * S..5 * S)
        .with_fault(6, Fault::Pause, 2 * S..3 * S)
        .with_server_added(3 * S, Server::new().with_zone("a").with_speed(2.0))
        .with_server_removed(4 * S, 7)
        .with_discovery_delay(500 * MS)
        .with_warm_up(S)
        .with_duration(6 * S)
}

#[test]
fn lbs_v8_the_same_seed_gives_the_same_run_event_by_event() {
    let hash = |seed: u64| {
        let simulation = busy().with_seed(seed);
        [
            run_hash(&simulation, RoundRobin::default),
            run_hash(&simulation, || RandomPick),
            run_hash(&simulation, || LeastRequest),
            run_hash(&simulation, PeakEwma::default),
        ]
    };
    let (first, second, other) = (hash(7), hash(7), hash(8));
    assert_eq!(first, second);
    for (a, b) in first.iter().zip(&other) {
        assert_ne!(a, b);
    }
    let mut distinct = first.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 4, "policies differ");
}

fn run_hash<P: Policy>(simulation: &Simulation, policy: impl FnMut() -> P + Send) -> u64 {
    simulation.run(policy).unwrap().trace_hash()
}

#[test]
fn lbs_v9_nothing_is_lost_and_littles_law_holds() {
    let report = busy().with_seed(3).run(PeakEwma::default).unwrap();
    assert!(report.is_balanced() && report.unfinished() == 0, "{report}");
    let latencies = report.latency().count();
    assert_eq!(latencies, report.requests(), "each request has an end");
    assert_eq!(latencies, report.answers().count() + report.errors().total());
    assert_eq!(report.servers().iter().map(ServerReport::calls).sum::<u64>(), report.requests());
    // A steady run, so that the edges weigh little.
    for load in [0.5, 0.9] {
        let steady = Simulation::new(Server::many(20)).with_load(load).with_seed(5);
        let report = run(&steady, || LeastRequest);
        let little = report.little();
        assert!(little.error() < 0.01, "{little:?}");
        assert!((report.utilization() / load - 1.0).abs() < 0.03, "{}", report.utilization());
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "a measurement of speed, for optimized builds")]
fn a_million_requests_take_seconds() {
    let simulation = Simulation::new(Server::many(100))
        .with_clients(100)
        .with_load(1.27)
        .with_antagonists(Antagonists::default())
        .with_deadline(5 * S)
        .with_duration(95 * S);
    let begun = std::time::Instant::now();
    let report = run(&simulation, PeakEwma::default);
    let took = begun.elapsed();
    println!("{} requests in {took:.1?}", report.requests());
    assert!(report.requests() > 1_190_000);
    // A few seconds of one core; many times that is a fault, and not only a busy machine.
    assert!(took < 90 * S, "{took:?}");
}
