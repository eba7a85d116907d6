//! Policies compared by simulation: a hundred clients, a hundred servers with busy neighbours, more and more load.
//!
//! `cargo run --release --features sim --example policies`
//!
//! `-- --seconds 60` measures longer (default 20 virtual seconds), `-- --out plot.svg` writes the plot elsewhere. The set-up
//! is that of figure 6 in "Load is not what you should balance: introducing Prequal" (NSDI 2024), with servers that are
//! modelled; the figures are of this model, not of anybody's machines.

#[path = "support/plot.rs"]
mod plot;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel::LoadBalancer;
use evenkeel::policy::{
    Adaptive, AvailabilityFiltering, BestAvailable, ClientSideWeightedRoundRobin, DubboConsistentHash,
    HashKey, LeastActive, LeastRequest, Maglev, PeakEwma, Policy, RandomPick, Rendezvous, RingHash,
    RoundRobin, ShortestResponse, SmoothRoundRobin, WeightedResponseTime, ZoneAvoidance,
};
use evenkeel::sim::{Answer, Antagonists, Demand, Fault, Report, Server, Simulation};
use evenkeel::{Choice, LoadReport};

/// A policy to compare.
struct Entry {
    name: &'static str,
    /// Whether it goes by anything that it sees of the servers.
    sees: bool,
    make: fn() -> Arc<dyn Policy>,
}

/// To compare one more, add a line.
const POLICIES: &[Entry] = &[
    Entry { name: "random", sees: false, make: || Arc::new(RandomPick) },
    Entry { name: "round robin", sees: false, make: || Arc::new(RoundRobin::default()) },
    Entry { name: "ring hash", sees: false, make: || Arc::new(RingHash::new(key())) },
    Entry { name: "Maglev", sees: false, make: || Arc::new(Maglev::new(key())) },
    Entry { name: "rendezvous", sees: false, make: || Arc::new(Rendezvous::new(key())) },
    Entry { name: "Dubbo's ring", sees: false, make: || Arc::new(DubboConsistentHash::new(key())) },
    Entry { name: "least request", sees: true, make: || Arc::new(LeastRequest) },
    Entry { name: "peak EWMA", sees: true, make: || Arc::new(PeakEwma::default()) },
    Entry { name: "reports of load", sees: true, make: || Arc::new(ClientSideWeightedRoundRobin::default()) },
    Entry { name: "smooth r. r.", sees: false, make: || Arc::new(SmoothRoundRobin::default()) },
    Entry { name: "least active", sees: true, make: || Arc::new(LeastActive::default()) },
    Entry { name: "l. active, exact", sees: true, make: || Arc::new(LeastActive::exact()) },
    Entry { name: "shortest resp.", sees: true, make: || Arc::new(ShortestResponse::default()) },
    Entry { name: "sh. resp., exact", sees: true, make: || Arc::new(ShortestResponse::exact()) },
    Entry { name: "adaptive", sees: true, make: || Arc::new(Adaptive::default()) },
    Entry { name: "adaptive, exact", sees: true, make: || Arc::new(Adaptive::exact()) },
    Entry { name: "w. resp. time", sees: true, make: || Arc::new(WeightedResponseTime::default()) },
    Entry { name: "w.r.t., exact", sees: true, make: || Arc::new(WeightedResponseTime::exact()) },
    Entry { name: "best available", sees: true, make: || Arc::new(BestAvailable::default()) },
    Entry { name: "best av., exact", sees: true, make: || Arc::new(BestAvailable::exact()) },
    Entry { name: "avail. filter", sees: true, make: || Arc::new(AvailabilityFiltering::default()) },
    Entry { name: "zone avoidance", sees: true, make: || Arc::new(ZoneAvoidance::default()) },
];

/// Those that send a key to one server: 10 000 keys, each as frequent as any.
fn key() -> HashKey {
    HashKey::attribute(Simulation::KEY)
}

/// Of what the servers are allotted.
const LOADS: [f64; 3] = [0.75, 1.03, 1.27];
const DEADLINE: Duration = Duration::from_secs(5);
const WORK: Duration = Duration::from_millis(10);

/// What came of a policy: at each load, and beside a broken server.
struct Row {
    entry: &'static Entry,
    at: Vec<Report>,
    broken: f64,
}

fn crowd(load: f64, measured: Duration) -> Simulation {
    Simulation::new(Server::many(100))
        .with_clients(100)
        .with_load(load)
        .with_demand(Demand::truncated_normal(WORK))
        .with_antagonists(Antagonists::default())
        .with_deadline(DEADLINE)
        .with_keys(10_000)
        .with_warm_up(if cfg!(debug_assertions) { Duration::from_secs(1) } else { DEADLINE })
        .with_duration(measured)
        .with_seed(1)
}

/// Ten clients and ten servers, one of which answers 500 after 0.2 ms.
fn broken() -> Simulation {
    Simulation::new(Server::many(10))
        .with_clients(10)
        .with_demand(Demand::truncated_normal(WORK))
        .with_keys(10_000)
        .with_fault(0, Fault::FailFast(Duration::from_micros(200)), ..)
        .with_warm_up(Duration::from_secs(2))
        .with_duration(Duration::from_secs(10))
        .with_seed(1)
}

/// Every answer tells how busy its server is, as ORCA's headers would.
fn report(choice: &Choice, answer: &Answer) {
    let failures = if answer.outcome.is_failure() { answer.requests_per_second } else { 0.0 };
    let report = LoadReport::default()
        .with_application_utilization(answer.utilization)
        .with_qps(answer.requests_per_second)
        .with_eps(failures);
    choice.report(&report);
}

fn run(simulation: &Simulation, entry: &Entry) -> Report {
    let balancer = |client: &evenkeel::sim::Client| {
        Ok(LoadBalancer::builder(client.chain().build()?).policy_arc((entry.make)()).build())
    };
    simulation.clone().with_answers(report).run_with(balancer).expect("a simulation with sound parameters")
}

/// All runs of a policy, side by side: each has a thread and a clock of its own.
fn compare(entry: &'static Entry, measured: Duration) -> Row {
    std::thread::scope(|scope| {
        let runs = LOADS.map(|load| scope.spawn(move || run(&crowd(load, measured), entry)));
        let broken = run(&broken(), entry).share_after(0, Duration::from_secs(2));
        let at = runs.into_iter().map(|run| run.join().expect("a run that ends")).collect();
        Row { entry, at, broken }
    })
}

fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 100.0 { format!("{ms:.1}") } else { format!("{ms:.0}") }
}

fn percent(share: f64) -> String {
    match share {
        0.0 => "0".to_owned(),
        _ if share < 0.0001 => "<0.01 %".to_owned(),
        _ => format!("{:.2} %", 100.0 * share),
    }
}

fn print(rows: &[Row]) {
    let bar = "-".repeat(15);
    print!("{:15}", "");
    for load in LOADS {
        print!(" | {:^34}", format!("load {load} of the allocation"));
    }
    println!(" | broken");
    print!("{:15}", "policy");
    for _ in LOADS {
        print!(" | {:>7} {:>8} {:>8} {:>8}", "p50 ms", "p99", "p99.9", "errors");
    }
    println!(" | server");
    println!("{bar}{}-|--------", format!("-|-{}", "-".repeat(34)).repeat(LOADS.len()));
    for row in rows {
        print!("{:15}", row.entry.name);
        for report in &row.at {
            let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|of| ms(report.latency().quantile(of)));
            print!(" | {p50:>7} {p99:>8} {p999:>8} {:>8}", percent(report.error_rate()));
        }
        println!(" | {:>7}", percent(row.broken));
    }
    println!(
        "\nA failed request counts as the deadline, {} s. Broken server: its share of the calls when it fails fast,\n\
         one of ten, from the third second on; 10 % is what a rule gives it that does not see it.",
        DEADLINE.as_secs()
    );
}

/// What the figures say, beside what was published. Everything here is computed from them.
fn readings(rows: &[Row]) {
    let list = |rows: &[&Row]| {
        let names: Vec<&str> = rows.iter().map(|row| row.entry.name).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let (blind, seeing): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| !row.entry.sees);
    let late = |row: &&Row, at: usize| row.at[at].latency().quantile(0.999) * 10 >= DEADLINE * 9;
    let at_deadline =
        |at: usize| -> Vec<&Row> { blind.iter().copied().filter(|row| late(row, at)).collect() };
    println!(
        "\nPublished: with weighted round robin p99.9 is at the deadline from 1.03 on, and errors grow; Prequal has none up to 1.74."
    );
    for (at, load) in LOADS.iter().enumerate().skip(1) {
        let tails = || blind.iter().map(|row| row.at[at].latency().quantile(0.999));
        let (least, most) = (tails().min().unwrap_or_default(), tails().max().unwrap_or_default());
        println!(
            "Here, at {load}: rules that do not see the servers have a p99.9 of {} to {} ms; at the deadline: {}.",
            ms(least),
            ms(most),
            list(&at_deadline(at))
        );
    }
    let last = LOADS.len() - 1;
    let clean: Vec<&Row> = seeing.iter().copied().filter(|row| row.at[last].errors().total() == 0).collect();
    println!("Here, without an error at {}: {}.", LOADS[last], list(&clean));
    let best = seeing.iter().min_by_key(|row| row.at[last].latency().quantile(0.99));
    if let (Some(best), Some(worst)) =
        (best, blind.iter().map(|row| row.at[last].latency().quantile(0.99)).min())
    {
        let tail = best.at[last].latency().quantile(0.99);
        println!(
            "The best p99 at {}: {}, {} ms, which is {:.0} times as good as the best that sees nothing.",
            LOADS[last],
            best.entry.name,
            ms(tail),
            worst.as_secs_f64() / tail.as_secs_f64().max(1e-9)
        );
    }
    let kept: Vec<&Row> = seeing.iter().copied().filter(|row| row.broken > 0.01).collect();
    println!("More than 1 % to the broken server among those that see: {}.", list(&kept));
    println!(
        "One seed and {} s of a model: differences of a tenth mean nothing, and nothing here punishes memory.",
        rows.first().map_or(0, |_| measured().as_secs())
    );
}

/// What follows `name` on the command line.
fn argument(name: &str) -> Option<String> {
    let mut all = std::env::args().skip_while(|word| word != name);
    all.next().and_then(|_| all.next())
}

fn measured() -> Duration {
    let default = if cfg!(debug_assertions) { 1 } else { 20 };
    let seconds = argument("--seconds").and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(default).max(1))
}

fn main() -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let measured = measured();
    println!(
        "100 clients, 100 servers with one core each, up to 3 where no neighbour is busy (20 % of them have one);\n\
         work of 10 ms (truncated normal), deadline {} s, {} s measured.{}\n",
        DEADLINE.as_secs(),
        measured.as_secs(),
        if cfg!(debug_assertions) { " Too short to mean anything: use --release." } else { "" }
    );
    let rows: Vec<Row> = POLICIES.iter().map(|entry| compare(entry, measured)).collect();
    print(&rows);
    readings(&rows);

    let out = argument("--out").map_or_else(
        || {
            let target =
                std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
            target.join("policies.svg")
        },
        PathBuf::from,
    );
    if let Some(folder) = out.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    let panels: Vec<plot::Panel> = LOADS
        .iter()
        .enumerate()
        .map(|(at, load)| plot::Panel {
            title: format!("load {load}"),
            rows: rows
                .iter()
                .map(|row| {
                    let points =
                        [0.5, 0.99, 0.999].map(|of| row.at[at].latency().quantile(of).as_secs_f64() * 1e3);
                    (row.entry.name.to_owned(), points)
                })
                .collect(),
        })
        .collect();
    std::fs::write(
        &out,
        plot::svg("Latency by policy: p50, p99, p99.9 (ms)", &panels, DEADLINE.as_secs_f64() * 1e3),
    )?;
    let requests: u64 = rows.iter().flat_map(|row| &row.at).map(Report::requests).sum();
    println!(
        "\n{requests} requests in {:.1} s; the plot is {}",
        begun.elapsed().as_secs_f64(),
        out.display()
    );
    Ok(())
}
