//! How a pick grows with the list: `cargo bench --bench choose`.
//!
//! A curve per policy and kind of request over lists of 10 to 10 000, beside the floor (see `support/mod.rs`); criterion
//! keeps the last run and tells what changed since. The times are those of this machine at this moment: what is demanded of
//! a pick is told as ratios, in `ratios.rs`.

mod support;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion};
use evenkeel::{HttpView, LoadBalancer, Request};
use tokio::runtime::Runtime;

use support::floor::Floor;
use support::subjects::{self, Kind};

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let runtime = support::runtime();
    curves(&mut criterion, &runtime);
    criterion.final_summary();
}

fn curves(criterion: &mut Criterion, runtime: &Runtime) {
    let http = subjects::http_request();
    let view = HttpView::of(&http);
    let hint = Request::EMPTY.with_hint("blue");
    let both = Request::of(&view).with_hint("blue");
    let mut group = criterion.benchmark_group("choose");
    for n in SIZES {
        let floor = Floor::new(n);
        group.bench_function(BenchmarkId::new("floor", n), |bencher| bencher.iter(|| floor.pick()));
        let mut curve = |name: String, balancer: &LoadBalancer, request: &Request<'_>| {
            group.bench_function(BenchmarkId::new(name, n), |bencher| {
                bencher.iter(|| balancer.try_choose(black_box(request)));
            });
        };
        for kind in [Kind::RoundRobin, Kind::Random, Kind::P2c] {
            curve(format!("{kind}"), &subjects::simple(runtime, kind, n), &Request::EMPTY);
            let weighted = subjects::weighted(runtime, kind, n);
            curve(format!("{kind}, weighted"), &weighted, &Request::EMPTY);
        }
        curve("hint".to_owned(), &subjects::hinted(runtime, Kind::RoundRobin, n), &hint);
        curve("hint and version".to_owned(), &subjects::routed(runtime, Kind::RoundRobin, n), &both);
    }
    group.finish();
}
