#![allow(clippy::cast_precision_loss)] // counts of a test are small

use std::time::Duration;

use super::{
    Antagonists, Cause, Demand, Discipline, Fault, Network, Report, Server, SimError, Simulation, What,
};
use crate::Outcome;
use crate::balancer::LoadBalancer;
use crate::policy::{HashKey, LeastRequest, Maglev, PeakEwma, RandomPick, RoundRobin};

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

/// A short run of servers with equal work and as many cores as anybody needs: each answer takes 10 ms.
fn easy(servers: impl IntoIterator<Item = Server>) -> Simulation {
    let servers = servers.into_iter().map(|server| server.with_allocation(1e3));
    Simulation::new(servers)
        .with_demand(Demand::deterministic(10 * MS))
        .with_rate(200.0)
        .with_warm_up(S)
        .with_duration(4 * S)
}

fn round_robin(simulation: &Simulation) -> Report {
    let report = simulation.run(RoundRobin::default).unwrap();
    assert!(report.is_balanced(), "{report}");
    report
}

fn message(simulation: &Simulation) -> String {
    simulation.run(RoundRobin::default).unwrap_err().to_string()
}

#[test]
fn what_has_no_meaning_is_an_error_that_names_it() {
    let one = || Simulation::new(Server::many(1));
    for (simulation, words) in [
        (Simulation::new([]), "number of servers is 0; it must be from 1"),
        (one().with_clients(0), "number of clients is 0"),
        (one().with_clients(usize::MAX), "number of clients is"),
        (one().with_load(0.0), "load is 0; it must be above 0 and finite"),
        (one().with_load(-1.0), "load is -1"),
        (one().with_load(f64::NAN), "load is NaN"),
        (one().with_rate(f64::INFINITY), "rate of requests is inf"),
        (one().with_rate(1e300), "must be above 0 to 100000000"),
        (one().with_load(1e300), "rate of requests is"),
        (one().with_demand(Demand::exponential(Duration::ZERO)), "mean demand is 0"),
        (one().with_discipline(Discipline::fifo(0)), "number of workers is 0"),
        (one().with_discipline(Discipline::fifo(1).with_limit(0)), "limit of requests is 0"),
        (one().with_antagonists(Antagonists::default().with_burst(0.5)), "burst of a server is 0.5"),
        (one().with_antagonists(Antagonists::default().with_share(f64::NAN)), "share of contended"),
        (one().with_antagonists(Antagonists::default().with_dwell(Duration::ZERO)), "dwell"),
        (one().with_deadline(Duration::ZERO), "deadline is 0"),
        (one().with_duration(Duration::ZERO), "measured time is 0"),
        (one().with_duration(Duration::MAX), "measured time is"),
        (one().with_warm_up(Duration::MAX), "warm-up is"),
        (one().with_fault(1, Fault::Refuse, ..), "number of a server in the script is 1; it must be below 1"),
        (one().with_server_removed(S, 7), "number of a server in the script is 7"),
        (one().with_fault(0, Fault::Slow(0.0), ..), "slowness"),
        (one().with_fault(0, Fault::Grey(2.0), ..), "error rate of a server is 2"),
        (one().with_fault(0, Fault::Flapping { down: Duration::ZERO, up: Duration::ZERO }, ..), "period"),
        (Simulation::new([Server::new().with_speed(f64::NAN)]), "speed of a server is NaN"),
        (Simulation::new([Server::new().with_allocation(0.0)]), "allocation of a server is 0"),
        (Simulation::new([Server::new().with_weight(-1.0)]), "weight of a server is -1"),
        (one().with_server_added(S, Server::new().with_speed(-1.0)), "speed of a server is -1"),
    ] {
        let message = message(&simulation);
        assert!(message.starts_with("simulation: ") && message.contains(words), "{message}");
    }
}

#[test]
fn times_without_end_do_no_harm() {
    let forever = Duration::MAX;
    let simulation = easy(Server::many(5))
        .with_network(Network::new(Duration::ZERO, forever))
        .with_deadline(forever)
        .with_discovery_delay(forever)
        .with_fault(0, Fault::FailFast(forever), ..)
        .with_fault(1, Fault::Flapping { down: forever, up: forever }, ..)
        .with_fault(2, Fault::Slow(1e9), ..forever)
        .with_server_added(S, Server::new())
        .with_server_removed(forever, 3)
        .with_duration(S);
    // Nothing comes back from those two; the deadline never comes, so that the run must not wait for it.
    let report = simulation.run(RoundRobin::default).unwrap();
    assert!(report.is_balanced() && report.unfinished() > 0, "{report}");
}

#[test]
fn a_balancer_that_cannot_be_built_or_knows_other_servers_is_an_error() {
    let one = Simulation::new(Server::many(2)).with_clients(3);
    let error = one.run_with(|client| match client.index() {
        2 => Err("no such file".into()),
        _ => Ok(client.balancer(RandomPick)),
    });
    assert_eq!(
        error.unwrap_err().to_string(),
        "simulation: the balancer of client 2 cannot be built: no such file"
    );
    let elsewhere = |_: &super::Client| {
        let instance = crate::ServiceInstance::new("10.0.0.1", 80)?;
        Ok(LoadBalancer::fixed("elsewhere", [instance])?)
    };
    let error = one.run_with(elsewhere).unwrap_err();
    assert!(matches!(error, SimError::Stranger { .. }), "{error}");
    assert!(error.to_string().contains("10.0.0.1"), "{error}");
}

#[test]
fn without_load_an_answer_takes_its_work_and_its_way() {
    let report = round_robin(&easy(Server::many(4)));
    assert_eq!(report.latency().mean(), 10 * MS);
    assert!((report.share(2) - 0.25).abs() < 0.01, "{}", report.share(2));
    // Two of three servers are in the other zone; there and back.
    let report = round_robin(
        &easy(Server::in_zones(3, ["a", "b", "c"])).with_clients(3).with_network(Network::new(MS, 4 * MS)),
    );
    let third = |of: f64| (report.latency().quantile(of).as_secs_f64() * 1e3).round();
    assert_eq!((third(0.1), third(0.5)), (12.0, 18.0));
    assert!((report.cross_zone_share() - 2.0 / 3.0).abs() < 0.05, "{}", report.cross_zone_share());
    // A slow one, and a fast one.
    let servers = [Server::new().with_speed(0.5), Server::new().with_speed(2.0)];
    let report = round_robin(&easy(servers));
    assert_eq!(report.latency().max().as_millis(), 20);
    assert_eq!(report.latency().quantile(0.2).as_millis(), 5);
}

#[test]
fn cores_are_shared_and_one_request_uses_one_at_most() {
    // 150 requests of 10 ms a second on one core; alone they take 10 ms each.
    let narrow = Simulation::new([Server::new().with_allocation(1.5)])
        .with_demand(Demand::deterministic(10 * MS))
        .with_rate(135.0);
    let shared = round_robin(&narrow);
    assert!((shared.utilization() - 0.9).abs() < 0.03, "{}", shared.utilization());
    assert!(shared.latency().quantile(0.01) >= 10 * MS);
    // The same with a queue and two workers on those cores: the same work, in another order.
    let queued = round_robin(&narrow.clone().with_discipline(Discipline::fifo(2)));
    assert!((queued.utilization() - 0.9).abs() < 0.03, "{}", queued.utilization());
    // Room for four: the others hear 503 at once.
    let full = round_robin(&narrow.with_rate(300.0).with_discipline(Discipline::fifo(2).with_limit(4)));
    assert!(full.errors().of(Cause::Overloaded) > 1_000, "{}", full.errors());
    assert_eq!((full.max_in_flight(), full.errors().total()), (4, full.errors().of(Cause::Overloaded)));
}

#[test]
fn antagonists_take_turns_and_others_may_burst() {
    // Alone, a server at 1.2 times its allocation is lost; with a burst of 3 for nine in ten of the time it is not.
    let busy = Simulation::new(Server::many(10)).with_load(1.2).with_deadline(2 * S).with_duration(20 * S);
    let alone = busy.run(|| RandomPick).unwrap();
    assert!(alone.error_rate() > 0.1, "{alone}");
    let bursting = busy.clone().with_antagonists(Antagonists::default().with_share(0.1).with_dwell(S));
    let bursting = bursting.run(|| LeastRequest).unwrap();
    assert!(bursting.error_rate() < 0.001, "{bursting}");
    assert!((bursting.utilization() - 1.2).abs() < 0.05, "{}", bursting.utilization());
    // All of them, all the time: nobody bursts.
    let contended = busy.with_antagonists(Antagonists::default().with_share(1.0));
    assert!(contended.run(|| RandomPick).unwrap().error_rate() > 0.1);
}

#[test]
fn each_fault_ends_calls_in_its_way() {
    let with = |fault| round_robin(&easy(Server::many(4)).with_deadline(S).with_fault(0, fault, ..));
    let one_in_four = |report: &Report, cause| {
        let rate = report.errors().of(cause) as f64 / report.requests() as f64;
        assert!((rate - 0.25).abs() < 0.02, "{report}");
        assert_eq!(report.errors().total(), report.errors().of(cause));
    };
    one_in_four(&with(Fault::FailFast(MS)), Cause::Failed);
    let holes = with(Fault::BlackHole);
    one_in_four(&holes, Cause::Timeout);
    // A failure counts as the deadline; a good answer is as fast as ever.
    assert_eq!((holes.latency().max().as_millis(), holes.answers().max().as_millis()), (1_000, 10));
    // Both of them hang, the one for good; what it had is dropped at the deadline.
    one_in_four(&with(Fault::Pause), Cause::Timeout);
    let grey = with(Fault::Grey(0.5));
    let rate = grey.errors().of(Cause::Failed) as f64 / grey.servers()[0].calls() as f64;
    assert!((rate - 0.5).abs() < 0.1, "{grey}");
    assert_eq!(with(Fault::Slow(5.0)).latency().max().as_millis(), 50);
    // It is refused, and the balancer skips it from then on.
    let refused = with(Fault::Refuse);
    assert!((1..10).contains(&refused.errors().of(Cause::Refused)), "{refused}");
    assert!(refused.share(0) < 0.02);
}

#[test]
fn faults_begin_and_end_and_a_later_one_takes_the_place() {
    let report = round_robin(
        &easy(Server::many(1))
            .with_fault(0, Fault::Slow(2.0), ..2 * S)
            .with_fault(0, Fault::Slow(3.0), 3 * S..5 * S)
            .with_fault(0, Fault::FailFast(MS), 4 * S..)
            .with_trace(),
    );
    let mut seen = std::collections::BTreeMap::<u64, Vec<Outcome>>::new();
    for event in report.trace() {
        if let What::Ended(outcome) = event.what {
            seen.entry(event.at.as_secs()).or_default().push(outcome);
        }
    }
    assert!(seen[&3].iter().all(|outcome| *outcome == Outcome::Status(200)));
    let failed = seen[&4].iter().filter(|outcome| outcome.is_failure()).count();
    assert!(failed * 10 > seen[&4].len() * 9, "{failed} of {}", seen[&4].len());
    // The end of the slow time at 5 s does not end the fault that took its place.
    assert!(report.errors().of(Cause::Failed) > 150, "{report}");
    let took: Vec<u128> = [0.1, 0.9].map(|of| report.answers().quantile(of).as_millis()).to_vec();
    assert_eq!(took, [10, 30]);
}

#[test]
fn a_server_that_flaps_is_down_by_turns() {
    let flapping = Fault::Flapping { down: S / 2, up: S / 2 };
    let report = round_robin(&easy(Server::many(1)).with_fault(0, flapping, ..).with_trace());
    for event in report.trace() {
        if event.what == What::Ended(Outcome::Failure(crate::Failure::Connect)) {
            assert!(event.at.subsec_millis() < 500, "{event:?}");
        }
    }
    let rate = report.error_rate();
    assert!((rate - 0.5).abs() < 0.05, "{rate}");
}

#[test]
fn servers_come_and_go_and_the_registry_follows_later() {
    let report = round_robin(
        &easy(Server::many(3))
            .with_server_added(2 * S, Server::new())
            .with_server_removed(3 * S, 0)
            .with_discovery_delay(S / 2)
            .with_trace(),
    );
    let picks = |server: usize| -> Vec<Duration> {
        let of = report.trace().iter().filter(|event| event.server == server && event.what == What::Picked);
        of.map(|event| event.at).collect()
    };
    let (added, removed) = (picks(3), picks(0));
    assert!((5 * S / 2..13 * S / 5).contains(&added[0]), "{:?}", added[0]);
    assert!(*removed.last().unwrap() <= 7 * S / 2, "{:?}", removed.last());
    // Between its end and its leaving the list it refuses.
    assert!((1..5).contains(&report.errors().of(Cause::Refused)), "{report}");
    assert!((report.share_after(3, 4 * S) - 1.0 / 3.0).abs() < 0.02, "{}", report.share_after(3, 4 * S));
    assert!(report.share_after(0, 4 * S) < f64::EPSILON);
}

#[test]
fn keys_and_weights_reach_the_policy() {
    let keyed = easy(Server::many(4)).with_keys(8).with_trace();
    let report = keyed.run(|| Maglev::new(HashKey::attribute(Simulation::KEY))).unwrap();
    let shares: Vec<f64> = (0..4).map(|server| report.share(server)).collect();
    // Eighths, by chance of the keys.
    assert!(shares.iter().all(|share| (share * 8.0 - (share * 8.0).round()).abs() < 0.4), "{shares:?}");
    let weighted = easy([1.0, 3.0].map(|weight| Server::new().with_weight(weight)));
    assert!((round_robin(&weighted).share(1) - 0.75).abs() < 0.01);
}

#[test]
fn answers_tell_what_a_server_would_report() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    let (heard, sum, rate) =
        (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let [h, s, r] = [&heard, &sum, &rate].map(Arc::clone);
    let simulation = Simulation::new(Server::many(2)).with_load(0.6).with_answers(move |choice, answer| {
        assert_eq!(choice.instance().id(), answer.server.to_string());
        assert_eq!(answer.outcome, Outcome::Status(200));
        h.fetch_add(1, Ordering::Relaxed);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        s.fetch_add((answer.utilization * 1e3) as u64, Ordering::Relaxed);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        r.fetch_add(answer.requests_per_second as u64, Ordering::Relaxed);
    });
    let report = round_robin(&simulation);
    let n = heard.load(Ordering::Relaxed);
    assert!(n >= report.requests());
    let mean = |of: &AtomicU64| of.load(Ordering::Relaxed) as f64 / n as f64;
    // At an answer, a server is busier than on average.
    assert!((0.5..0.9).contains(&(mean(&sum) / 1e3)), "{}", mean(&sum));
    assert!((50.0..75.0).contains(&mean(&rate)), "{}", mean(&rate));
}

#[test]
fn arrivals_and_demands_are_the_same_for_all_policies_and_a_run_starts_anywhere() {
    let simulation = easy(Server::many(3)).with_trace().with_seed(3);
    let arrivals = |report: Report| -> Vec<Duration> {
        report.trace().iter().filter(|event| event.what == What::Picked).map(|event| event.at).collect()
    };
    let random = arrivals(simulation.run(|| RandomPick).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let inside = runtime.block_on(async { arrivals(simulation.run(PeakEwma::default).unwrap()) });
    assert_eq!(random, inside);
}

#[test]
fn timers_of_production_run_on_the_virtual_clock() {
    // A server that refuses is skipped for 1, 2, 4 seconds: so often it is tried in ten seconds, and no more.
    let simulation =
        easy(Server::many(2)).with_duration(10 * S).with_fault(0, Fault::Refuse, S..).with_trace();
    let report = round_robin(&simulation);
    let tried = report.trace().iter().filter(|event| event.server == 0 && event.at >= S);
    let tried: Vec<u64> =
        tried.filter(|event| event.what == What::Picked).map(|event| event.at.as_secs()).collect();
    assert_eq!(tried, [1, 2, 4, 8]);
}
