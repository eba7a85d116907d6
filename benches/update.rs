//! How taking a new list grows with its length: `cargo bench --bench update`.
//!
//! A curve per kind of change over lists of 10 to 10 000, a list per iteration: what passes between the source giving it
//! and the balancer having published it. Every list is made anew before it is timed, as an answer of a registry is. What is
//! demanded is told as ratios, in `ratios.rs`.

mod support;

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use evenkeel::policy::{LeastRequest, RoundRobin};
use evenkeel::{ServiceInstance, SupplierBuilder};
use tokio::runtime::Runtime;

use support::publisher::Publisher;
use support::{lists, subjects};

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let runtime = support::runtime();
    curves(&mut criterion, &runtime);
    criterion.final_summary();
}

fn curves(criterion: &mut Criterion, runtime: &Runtime) {
    type Make = fn(usize) -> Vec<ServiceInstance>;
    let plain = |chain: SupplierBuilder| chain;
    let mut group = criterion.benchmark_group("update");
    group.sample_size(20);
    for n in SIZES {
        group.throughput(Throughput::Elements(n as u64));
        let mut curve = |name: &str, publisher: &Publisher, makes: [Make; 2]| {
            let mut turn = 0;
            group.bench_function(BenchmarkId::new(name, n), |bencher| {
                bencher.iter_custom(|count| {
                    let one = |_| {
                        turn += 1;
                        publisher.publish(makes[turn % 2](n))
                    };
                    (0..count).map(one).sum::<Duration>()
                });
            });
        };
        let round_robin = Publisher::new(runtime, lists::plain(n), plain, RoundRobin::default());
        curve("equal list", &round_robin, [lists::plain, lists::plain]);
        curve("reversed list", &round_robin, [lists::plain, reversed]);
        curve("one changed", &round_robin, [lists::plain, lists::plain_replaced]);
        let p2c = Publisher::new(runtime, lists::plain(n), plain, LeastRequest);
        curve("one changed, P2C", &p2c, [lists::plain, lists::plain_replaced]);
        let full = Publisher::new(runtime, lists::tagged(n), subjects::full_chain, RoundRobin::default());
        let zoned = Publisher::new(runtime, lists::tagged(n), subjects::zones, RoundRobin::default());
        curve("one changed, zones in proportion", &zoned, [lists::tagged, lists::tagged_replaced]);
        curve("one changed, full chain", &full, [lists::tagged, lists::tagged_replaced]);
    }
    group.finish();
}

fn reversed(n: usize) -> Vec<ServiceInstance> {
    let mut list = lists::plain(n);
    list.reverse();
    list
}
