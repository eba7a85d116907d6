//! The instructions of a pick, which repeat exactly: `cargo bench --bench instructions`.
//!
//! It needs valgrind and the runner of gungraun in the version of `Cargo.lock`
//! (`cargo install gungraun-runner --version 0.20.0 --locked`). Every subject runs once under callgrind, over a list of
//! 1 000; the second table has the instructions of one pick, lease taken and dropped. The first table has a line per bar,
//! `name  value  limit  ok|short`: the ratio of two of them. The process ends with an error when a bar is short.

mod support;

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

use support::bars::Bars;
use support::bars::Limit::AtMost;

/// Set for the process that hands the subjects to the runner.
const MEASURE: &str = "EVENKEEL_MEASURE";

fn main() -> ExitCode {
    let is_subject = std::env::args().nth(1).is_some_and(|argument| argument.starts_with("--gungraun"));
    if is_subject || std::env::var_os(MEASURE).is_some() {
        measured::run();
        return ExitCode::SUCCESS;
    }
    let counts = match counts() {
        Ok(counts) => counts,
        Err(why) => {
            eprintln!("no instructions were counted: {why}");
            return ExitCode::FAILURE;
        }
    };
    let mut bars = Bars::from_args();
    for (name, subject, base, limit) in [
        ("try_choose / floor", "try_choose", "floor", 10.0),
        ("choose().await / floor", "choose", "floor", 14.0),
        ("choose().await, dyn / static", "choose_dyn", "choose", 1.15),
        ("try_choose, hint group / floor", "hint", "floor", 20.0),
        ("try_choose, unknown hint / no hint", "hint_unknown", "hint_none", 1.3),
        ("status + zone + weights + cache / plain", "chain_of_stages", "try_choose", 1.3),
        ("with the test of the TTL / without", "try_choose", "untested", 1.1),
        ("ejection and slow start, idle / off", "watched", "completed", 1.1),
    ] {
        let of = |name: &str| counts.get(name).copied().unwrap_or(f64::NAN);
        bars.exact(name, AtMost(limit), || of(subject) / of(base));
    }
    println!("\n{:<58} {:>8}", "instructions of", "one pick");
    for (name, count) in &counts {
        println!("{name:<58} {count:>8.1}");
    }
    bars.exit()
}

/// The instructions of a pick by subject.
fn counts() -> Result<BTreeMap<String, f64>, String> {
    let itself = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(itself)
        .arg("--bench")
        .env(MEASURE, "1")
        .env("GUNGRAUN_OUTPUT_FORMAT", "json")
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("{}\n{text}", String::from_utf8_lossy(&output.stderr)));
    }
    text.lines().filter(|line| line.starts_with('{')).map(one).collect()
}

/// A line of the runner's report.
fn one(line: &str) -> Result<(String, f64), String> {
    let report: serde_json::Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let name = report["function_name"].as_str();
    let count = report["profiles"][0]["data"]["total"]["metrics"]["Ir"]["values"]["new"].as_u64();
    let (Some(name), Some(count)) = (name, count.and_then(|count| u32::try_from(count).ok())) else {
        return Err(format!("a report of another form: {line}"));
    };
    Ok((name.to_owned(), f64::from(count) / f64::from(measured::PICKS)))
}

mod measured {
    use std::hint::black_box;

    use evenkeel::config::{OutlierDetectionProperties, SlowStartProperties};
    use evenkeel::policy::RoundRobin;
    use evenkeel::{LoadBalancer, Outcome, ReactiveLoadBalancer, Request, SupplierBuilder};
    use futures_util::FutureExt;
    use gungraun::{library_benchmark, library_benchmark_group, main};
    use tokio::runtime::Runtime;

    use super::support::floor::Floor;
    use super::support::{chain, lists, runtime, subjects, warm};

    const N: usize = 1_000;
    /// Of a subject.
    pub const PICKS: u32 = 1_000;
    const TIMES: usize = PICKS as usize;

    pub fn run() {
        main();
    }

    type Subject = (Runtime, LoadBalancer);

    fn with(stages: impl FnOnce(SupplierBuilder) -> SupplierBuilder) -> Subject {
        let runtime = runtime();
        let stages = stages(chain(lists::tagged(N)).with_seed(1));
        let balancer = warm(&runtime, stages, RoundRobin::starting_at(0));
        // What a thread does once is done.
        subjects::tries(&balancer, &Request::EMPTY, 1);
        (runtime, balancer)
    }

    fn plain() -> Subject {
        with(|chain| chain)
    }

    fn hints() -> Subject {
        with(SupplierBuilder::with_hints)
    }

    fn zone_and_weights() -> Subject {
        with(|chain| chain.with_zone_preference("eu-1a").with_weights())
    }

    fn floor_of_n() -> Floor {
        Floor::new(N)
    }

    #[library_benchmark]
    #[bench::of(setup = floor_of_n)]
    fn floor(floor: Floor) -> Floor {
        floor.run(TIMES);
        floor
    }

    #[library_benchmark]
    #[bench::of(setup = plain)]
    fn try_choose(subject: Subject) -> Subject {
        subjects::tries(&subject.1, &Request::EMPTY, TIMES);
        subject
    }

    #[library_benchmark]
    #[bench::of(setup = plain)]
    fn untested(subject: Subject) -> Subject {
        for _ in 0..TIMES {
            black_box(&subject.1.pick_untested(black_box(&Request::EMPTY)));
        }
        subject
    }

    #[library_benchmark]
    #[bench::of(setup = plain)]
    fn choose(subject: Subject) -> Subject {
        subjects::chooses(&subject.1, &Request::EMPTY, TIMES).now_or_never();
        subject
    }

    #[library_benchmark]
    #[bench::of(setup = plain)]
    fn choose_dyn(subject: Subject) -> Subject {
        let balancer: &dyn ReactiveLoadBalancer = black_box(&subject.1);
        subjects::chooses(balancer, &Request::EMPTY, TIMES).now_or_never();
        subject
    }

    #[library_benchmark]
    #[bench::of(setup = hints)]
    fn hint_none(subject: Subject) -> Subject {
        subjects::tries(&subject.1, &Request::EMPTY, TIMES);
        subject
    }

    #[library_benchmark]
    #[bench::of(setup = hints)]
    fn hint(subject: Subject) -> Subject {
        subjects::tries(&subject.1, &Request::EMPTY.with_hint("blue"), TIMES);
        subject
    }

    #[library_benchmark]
    #[bench::of(setup = hints)]
    fn hint_unknown(subject: Subject) -> Subject {
        subjects::tries(&subject.1, &Request::EMPTY.with_hint("nobody"), TIMES);
        subject
    }

    #[library_benchmark]
    #[bench::of(setup = zone_and_weights)]
    fn chain_of_stages(subject: Subject) -> Subject {
        subjects::tries(&subject.1, &Request::EMPTY, TIMES);
        subject
    }

    /// Calls that are answered well.
    fn answered(balancer: &LoadBalancer) {
        for _ in 0..TIMES {
            if let Ok(choice) = black_box(balancer.try_choose(black_box(&Request::EMPTY))) {
                choice.complete(black_box(Outcome::Status(200)));
            }
        }
    }

    fn watched_and_warm() -> Subject {
        let runtime = runtime();
        let supplier = chain(lists::tagged(N)).with_seed(1).build().expect("a chain that works");
        let balancer = LoadBalancer::builder(supplier)
            .policy(RoundRobin::starting_at(0))
            .outlier_detection(OutlierDetectionProperties::on())
            .slow_start(SlowStartProperties::default().with_window(std::time::Duration::from_secs(60)))
            .build();
        runtime.block_on(balancer.ready()).expect("a list");
        answered(&balancer);
        (runtime, balancer)
    }

    #[library_benchmark]
    #[bench::of(setup = plain)]
    fn completed(subject: Subject) -> Subject {
        answered(&subject.1);
        subject
    }

    #[library_benchmark]
    #[bench::of(setup = watched_and_warm)]
    fn watched(subject: Subject) -> Subject {
        answered(&subject.1);
        subject
    }

    library_benchmark_group!(
        name = picks,
        benchmarks = [
            floor,
            try_choose,
            untested,
            choose,
            choose_dyn,
            hint_none,
            hint,
            hint_unknown,
            chain_of_stages,
            completed,
            watched
        ]
    );

    main!(library_benchmark_groups = picks);
}
