//! Every bar of the crate that is a ratio, measured and judged: `cargo bench --bench ratios`.
//!
//! One line per bar: `name  value  limit  ok|short`. Values are multiples of the **floor** (see `support/mod.rs`) unless
//! the name says of what; floor and subject alternate in rounds, and the value is the median of the rounds' ratios. The
//! lease is taken and dropped in every pick. A bar that falls short is measured again, and counts as short when it is so
//! three times in a row; then the process ends with an error. Words behind `--` select bars by what their names contain:
//! `cargo bench --bench ratios -- publish`.

mod support;

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel::policy::{DubboConsistentHash, Policy, RoundRobin};
use evenkeel::{
    HttpView, LoadBalancer, ReactiveLoadBalancer, Request, ServiceInstance, SupplierBuilder, Tried,
};
use tokio::runtime::Runtime;

use support::bars::Bars;
use support::bars::Limit::AtMost;
use support::floor::Floor;
use support::publisher::Publisher;
use support::recorder::Counted;
use support::subjects::{self, Kind, Needs, chooses, completes, tries, tries_in_turn};
use support::{SIZES, lists, runtime, timing, zero};

#[global_allocator]
static ALLOCATOR: support::counting::Counting = support::counting::Counting;

fn main() -> ExitCode {
    let (runtime, mut bars) = (runtime(), Bars::from_args());
    allocations(&mut bars, &runtime);
    a_pick(&mut bars, &runtime);
    a_narrowed_pick(&mut bars, &runtime);
    every_stage(&mut bars, &runtime);
    a_later_attempt(&mut bars, &runtime);
    measured(&mut bars, &runtime);
    others(&mut bars, &runtime);
    hashes(&mut bars, &runtime);
    growth(&mut bars, &runtime);
    two_threads(&mut bars, &runtime);
    publish(&mut bars, &runtime);
    beside_publishing(&mut bars, &runtime);
    bars.exit()
}

fn allocations(bars: &mut Bars, runtime: &Runtime) {
    if !bars.wants("allocations") {
        return;
    }
    for (name, made) in zero::rows(runtime) {
        let made = u32::try_from(made).map_or(f64::INFINITY, f64::from);
        bars.exact(&format!("allocations: {name}"), AtMost(0.0), || made);
    }
}

fn a_pick(bars: &mut Bars, runtime: &Runtime) {
    let empty = Request::EMPTY;
    for n in SIZES {
        let floor = Floor::new(n);
        let balancer = subjects::simple(runtime, Kind::RoundRobin, n);
        let dynamic: &dyn ReactiveLoadBalancer = &balancer;
        bars.noisy(&format!("try_choose, round robin, n = {n}"), AtMost(4.5), || {
            timing::picks(|count| floor.run(count), |count| tries(&balancer, &empty, count))
        });
        let mut choose = |name: &str, limit: f64, balancer: &dyn Fn(usize)| {
            bars.noisy(&format!("choose().await, {name}, n = {n}"), AtMost(limit), || {
                timing::picks(|count| floor.run(count), balancer)
            });
        };
        choose("round robin", 6.5, &|count| runtime.block_on(chooses(&balancer, &empty, count)));
        choose("round robin, dyn", 6.5, &|count| runtime.block_on(chooses(dynamic, &empty, count)));
        let balancer = subjects::weighted(runtime, Kind::RoundRobin, n);
        choose("weighted round robin", 7.0, &|count| runtime.block_on(chooses(&balancer, &empty, count)));
        let balancer = subjects::simple(runtime, Kind::P2c, n);
        choose("P2C", 7.0, &|count| runtime.block_on(chooses(&balancer, &empty, count)));
    }
}

fn a_narrowed_pick(bars: &mut Bars, runtime: &Runtime) {
    let http = subjects::http_request();
    let view = HttpView::of(&http);
    let (blue, both) = (Request::EMPTY.with_hint("blue"), Request::of(&view).with_hint("blue"));
    for n in SIZES {
        let floor = Floor::new(n);
        let balancer = subjects::hinted(runtime, Kind::RoundRobin, n);
        bars.noisy(&format!("choose().await, hint group, n = {n}"), AtMost(10.0), || {
            timing::picks(
                |count| floor.run(count),
                |count| runtime.block_on(chooses(&balancer, &blue, count)),
            )
        });
        let balancer = subjects::routed(runtime, Kind::RoundRobin, n);
        bars.noisy(&format!("choose().await, two request stages, n = {n}"), AtMost(15.0), || {
            timing::picks(
                |count| floor.run(count),
                |count| runtime.block_on(chooses(&balancer, &both, count)),
            )
        });
    }
}

/// In units of the plain chain.
fn every_stage(bars: &mut Bars, runtime: &Runtime) {
    const N: usize = 1_000;
    let plain = subjects::simple(runtime, Kind::RoundRobin, N);
    let every = subjects::every_stage(runtime, Kind::RoundRobin, N);
    let (bare, session) = (subjects::http_request(), subjects::session(3));
    let (bare, session) = (HttpView::of(&bare), HttpView::of(&session));
    let (bare, session) = (Request::of(&bare), Request::of(&session));
    assert_eq!(every.try_choose(&session).expect("an instance").instance().id(), "i-00003");
    for (name, limit, request) in [
        ("no cookie, no hint", 1.5, &bare),
        ("no request", 1.5, &Request::EMPTY),
        ("a sticky cookie", 2.0, &session),
    ] {
        bars.noisy(&format!("every stage / none, {name}, n = {N}"), AtMost(limit), || {
            timing::picks(
                |count| runtime.block_on(chooses(&plain, &bare, count)),
                |count| runtime.block_on(chooses(&every, request, count)),
            )
        });
    }
}

/// In units of a pick with nothing tried.
fn a_later_attempt(bars: &mut Bars, runtime: &Runtime) {
    const N: usize = 1_000;
    let empty = Request::EMPTY;
    for kind in [Kind::RoundRobin, Kind::P2c] {
        let balancer = subjects::simple(runtime, kind, N);
        let mut tried = Tried::new();
        for attempt in 1..=6 {
            let choice = balancer.try_choose(&empty.with_tried(&tried)).expect("an instance");
            tried.add(&choice);
            drop(choice);
            let again = empty.with_tried(&tried);
            bars.noisy(&format!("{attempt} tried / none, {kind}, n = {N}"), AtMost(1.5), || {
                timing::picks(
                    |count| tries(&balancer, &empty, count),
                    |count| tries(&balancer, &again, count),
                )
            });
        }
    }
}

/// Picks, each between two readings of the clock.
fn tries_between_clocks(balancer: &LoadBalancer, count: usize) {
    for _ in 0..count {
        black_box(Instant::now());
        tries(balancer, &Request::EMPTY, 1);
        black_box(Instant::now());
    }
}

/// In units of a pick that is not measured, and two readings of the clock.
fn measured(bars: &mut Bars, runtime: &Runtime) {
    // Installed by the rows of allocations, unless those were not asked for.
    let _ = Counted::install();
    for n in SIZES {
        let plain = subjects::simple(runtime, Kind::RoundRobin, n);
        let balancer = subjects::measured(runtime, n);
        bars.noisy(&format!("measured pick and completion / pick + 2 clocks, n = {n}"), AtMost(1.5), || {
            timing::picks(|count| tries_between_clocks(&plain, count), |count| completes(&balancer, count))
        });
    }
}

/// In units of a round robin pick over the same list, with weights from 1 to 100 on both sides, or on none; with two readings of
/// the clock where the policy needs them. Where a pick looks at the state of all instances the value is told and not judged.
fn others(bars: &mut Bars, runtime: &Runtime) {
    let plain: Arc<dyn Policy> = Arc::new(RoundRobin::default());
    for weighted in [true, false] {
        for n in [10, 1_000, 10_000] {
            let mut round_robin = None;
            for (name, policy, needs) in subjects::others() {
                let scans = matches!(needs, Needs::All | Needs::AllAndClock);
                let timed = matches!(needs, Needs::Clock | Needs::AllAndClock);
                // The scans of a thousand say enough, and all others are judged where it is hardest.
                if n == if scans { 10_000 } else { 1_000 } || scans && !weighted {
                    continue;
                }
                let of = if weighted { ", weighted" } else { "" };
                let row =
                    format!("{name}{of} / round robin{}, n = {n}", if timed { " + 2 clocks" } else { "" });
                if !bars.wants(&row) {
                    continue;
                }
                let plain = round_robin.get_or_insert_with(|| subjects::heavy(runtime, &plain, n, weighted));
                let balancer = subjects::heavy(runtime, &policy, n, weighted);
                completes(&balancer, 2 * n);
                let mut measure = || {
                    timing::picks(
                        |count| {
                            if timed {
                                tries_between_clocks(plain, count);
                            } else {
                                tries(plain, &Request::EMPTY, count);
                            }
                        },
                        |count| {
                            if timed {
                                completes(&balancer, count);
                            } else {
                                tries(&balancer, &Request::EMPTY, count);
                            }
                        },
                    )
                };
                // Judged over weights; without, a rotation over ten thousand costs so little that two looks at random are more.
                if scans || timed && !weighted {
                    bars.printed(&row, measure);
                } else {
                    bars.noisy(&row, AtMost(1.6), &mut measure);
                }
            }
        }
    }
}

/// In units of a round robin of the same list, and what the hash of the key costs by itself is taken off. Where every pick
/// goes through the list - rendezvous above a hundred, a bound that is near - the value is told and not judged.
fn hashes(bars: &mut Bars, runtime: &Runtime) {
    let http = subjects::users();
    let views: Vec<_> = http.iter().map(HttpView::of).collect();
    let users: Vec<_> = views.iter().map(|view| Request::of(view)).collect();
    let (key, dubbo) = (subjects::user(), DubboConsistentHash::new(subjects::user()));
    let in_turn = |count: usize, hash: &dyn Fn(&Request<'_>)| {
        (0..count).for_each(|turn| hash(black_box(&users[turn % users.len()])));
    };
    let key_alone = |name: &str, count: usize| {
        if name.starts_with("Dubbo") {
            in_turn(count, &|user| _ = black_box(dubbo.hash(user)));
        } else {
            in_turn(count, &|user| _ = black_box(key.hash(user)));
        }
    };
    for n in [10, 1_000] {
        let names = |name: &str| format!("{name} / round robin, without the key's hash, n = {n}");
        let all = subjects::hashes();
        let mut round_robin = None;
        for (name, policy) in all.iter().filter(|(name, _)| bars.wants(&names(name))).collect::<Vec<_>>() {
            let plain = round_robin.get_or_insert_with(|| subjects::simple(runtime, Kind::RoundRobin, n));
            let balancer = subjects::hashed(runtime, policy, n, false);
            let judged = n <= 100 || *name != "rendezvous";
            let limit = AtMost(if judged { 3.0 } else { f64::INFINITY });
            bars.noisy(&names(name), limit, || {
                let floor = || timing::time(|| tries_in_turn(plain, &users, timing::PICKS));
                timing::ratio(floor, || {
                    let key = timing::time(|| key_alone(name, timing::PICKS));
                    let whole = timing::time(|| tries_in_turn(&balancer, &users, timing::PICKS));
                    whole.saturating_sub(key)
                })
            });
        }
    }
    // Everybody has calls in flight: a pick counts them all.
    for n in [10, 1_000] {
        let name = format!("Maglev, bounded, all busy / round robin, n = {n}");
        if !bars.wants(&name) {
            continue;
        }
        let plain = subjects::simple(runtime, Kind::RoundRobin, n);
        let all = subjects::hashes();
        let balancer = subjects::hashed(runtime, &all[6].1, n, false);
        let held: Vec<_> = (0..4 * n).map(|_| balancer.try_choose(&Request::EMPTY)).collect();
        bars.noisy(&name, AtMost(f64::INFINITY), || {
            timing::ratio(
                || timing::time(|| tries_in_turn(&plain, &users, 2_000)),
                || timing::time(|| tries_in_turn(&balancer, &users, 2_000)),
            )
        });
        drop(held);
    }
}

/// In units of a pick from ten.
fn growth(bars: &mut Bars, runtime: &Runtime) {
    for (kind, limit) in [(Kind::RoundRobin, 1.6), (Kind::P2c, 2.0)] {
        let small = subjects::simple(runtime, kind, 10);
        let large = subjects::simple(runtime, kind, 10_000);
        bars.noisy(&format!("growth, n = 10 000 / n = 10, {kind}"), AtMost(limit), || {
            let run = |balancer: &LoadBalancer, count| tries(balancer, &Request::EMPTY, count);
            timing::picks(|count| run(&small, count), |count| run(&large, count))
        });
    }
}

/// In units of the floor with two threads.
fn two_threads(bars: &mut Bars, runtime: &Runtime) {
    for (kind, limit) in [(Kind::RoundRobin, 2.2), (Kind::P2c, 2.8)] {
        for n in SIZES {
            let floor = Floor::new(n);
            let balancer = subjects::simple(runtime, kind, n);
            bars.noisy(&format!("two threads, {kind}, n = {n}"), AtMost(limit), || {
                timing::two_threads(
                    |count| floor.run(count),
                    |count| tries(&balancer, &Request::EMPTY, count),
                )
            });
        }
    }
}

/// Per instance. Every list is made anew before it is timed, as an answer of a registry is.
fn publish(bars: &mut Bars, runtime: &Runtime) {
    type Make = fn(usize) -> Vec<ServiceInstance>;
    type Stages = fn(SupplierBuilder) -> SupplierBuilder;
    let none: Stages = |chain| chain;
    for n in [1_000, 10_000] {
        let rows: [(&str, f64, [Make; 2], Stages); 3] = [
            ("equal list", 50.0, [lists::plain, lists::plain], none),
            ("one changed", 100.0, [lists::plain, lists::plain_replaced], none),
            ("one changed, full chain", 250.0, [lists::tagged, lists::tagged_replaced], subjects::full_chain),
        ];
        for (name, limit, makes, stages) in rows {
            let name = format!("publish, per instance, {name}, n = {n}");
            if !bars.wants(&name) {
                continue;
            }
            let floor = Floor::new(n);
            let publisher = Publisher::new(runtime, makes[0](n), stages, RoundRobin::default());
            let mut turn = 0;
            bars.noisy(&name, AtMost(limit), || {
                let floor = || per(timing::time(|| floor.run(timing::PICKS)), timing::PICKS);
                timing::ratio(floor, || {
                    turn += 1;
                    let list = makes[turn % 2](n);
                    per(publisher.publish(list), n)
                })
            });
        }
    }
}

/// `whole` divided by `count`, a million times as long, so that nothing is lost to the nanosecond.
fn per(whole: Duration, count: usize) -> Duration {
    whole.mul_f64(1e6) / u32::try_from(count).unwrap_or(u32::MAX)
}

/// In units of the median; the time of reading the clock is taken off both.
fn beside_publishing(bars: &mut Bars, runtime: &Runtime) {
    const N: usize = 10_000;
    const PICKS: usize = 300_000;
    let name = format!("picks while lists are published, p99 / p50, n = {N}");
    if !bars.wants(&name) {
        return;
    }
    let mut publisher = Publisher::new(runtime, lists::plain(N), |chain| chain, RoundRobin::default());
    let balancer = publisher.balancer.clone();
    let stop = AtomicBool::new(false);
    bars.noisy(&name, AtMost(20.0), || {
        stop.store(false, Ordering::Relaxed);
        thread::scope(|scope| {
            let source = &mut publisher;
            let stop = &stop;
            let loop_of_lists = scope.spawn(move || {
                let both = [lists::plain(N), lists::plain_replaced(N)];
                let mut turns = 0_u32;
                while !stop.load(Ordering::Relaxed) {
                    source.publish(both[usize::from(turns.is_multiple_of(2))].clone());
                    turns += 1;
                }
                turns
            });
            let clock = sorted(PICKS, || ());
            let picks = sorted(PICKS, || {
                black_box(&balancer.try_choose(&Request::EMPTY));
            });
            stop.store(true, Ordering::Relaxed);
            let taken = loop_of_lists.join().expect("publishing does not panic");
            assert!(taken > 1, "lists were published meanwhile");
            let at = |percent: usize| picks[PICKS / 100 * percent].saturating_sub(clock[PICKS / 2]);
            at(99).as_secs_f64() / at(50).max(Duration::from_nanos(1)).as_secs_f64()
        })
    });
}

fn sorted(count: usize, mut work: impl FnMut()) -> Vec<Duration> {
    let one = |_| {
        let started = Instant::now();
        work();
        started.elapsed()
    };
    let mut all: Vec<Duration> = (0..count).map(one).collect();
    all.sort_unstable();
    all
}
