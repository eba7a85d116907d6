//! Ours beside its peers, in one process: `cargo run --release --manifest-path benches/peers/Cargo.toml`.
//!
//! Per row: the peer's and our nanoseconds for a pick, the allocations of each, and how many times faster ours is. Ours and
//! the peer alternate in rounds; the times are medians of rounds, the ratio is the median of the rounds' ratios. Ours takes
//! and drops its lease in every pick, as `tower` does with its handle; `pingora` has no lease. The subject of ours is
//! `try_choose` with the policy nearest to the peer's: round robin, random, P2C (the count of calls in flight), for ketama the
//! ring, with the same 256 keys in turn; for peak EWMA ours, with the end of the call, as its peer's has. Only times from one run can be compared.
//!
//! A row with a limit ends with `ok` or `short`; one that falls short is measured again, up to three times, and the process
//! ends with an error when it stays so.

#[path = "../../support/counting.rs"]
#[allow(dead_code)] // the crates that include it take their part
mod counting;
#[path = "../../support/lists.rs"]
#[allow(dead_code)]
mod lists;
#[path = "../../support/timing.rs"]
#[allow(dead_code)]
mod timing;

mod pingora;
mod tower_balance;

use std::hint::black_box;
use std::process::ExitCode;

use evenkeel::policy::{HashKey, LeastRequest, PeakEwma, Policy, RandomPick, RingHash, RoundRobin};
use evenkeel::supplier::FixedSupplier;
use evenkeel::{LoadBalancer, Outcome, Request, ServiceId, SupplierBuilder};
use tokio::runtime::Runtime;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const SIZES: [usize; 2] = [10, 1_000];
const RUNS: u32 = 3;
/// Picks in a round: with the slowest peer still over before the scheduler looks round for another process. In longer ones
/// a busy machine interrupts the slower side more often, which would flatter ours.
const PICKS: usize = 2_000;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    println!(
        "{:<38} {:>8} {:>6} {:>8} {:>6} {:>8}  {:>7}",
        "peer", "ns", "alloc", "ours ns", "alloc", "faster", "limit"
    );
    let mut short = 0;
    for n in SIZES {
        let round_robin = ours(&runtime, n, RoundRobin::default());
        let random = ours(&runtime, n, RandomPick);
        let p2c = ours(&runtime, n, LeastRequest);
        let by_latency = ours(&runtime, n, PeakEwma::default());
        let ring = ours(&runtime, n, RingHash::new(HashKey::attribute("key")));
        // A large ring is made behind the first picks; nothing tells when it is there.
        std::thread::sleep(std::time::Duration::from_millis(500));
        let keys: Vec<Key> = (0..=u8::MAX).map(|key| Key(char::from(key).to_string())).collect();
        let requests: Vec<Request<'_>> = keys.iter().map(|key| Request::of(key)).collect();
        let mut row = |name: &str, limit, ours: &LoadBalancer, peer: &mut dyn FnMut(usize)| {
            let asked = if name == "pingora ketama" { &requests[..] } else { &[Request::EMPTY] };
            short += u32::from(!compare(&format!("{name}, n = {n}"), limit, (ours, asked), peer));
        };
        row("pingora round robin", Some(6.0), &round_robin, &mut pingora::round_robin(n));
        row("pingora random", None, &random, &mut pingora::random(n));
        let limit = (n == 1_000).then_some(8.0);
        row("pingora ketama", limit, &ring, &mut pingora::ketama(n));
        row("tower P2C, pending", Some(3.0), &p2c, &mut tower_balance::pending(n));
        row("tower P2C, peak EWMA", Some(3.0), &by_latency, &mut tower_balance::peak_ewma(n));
    }
    if short == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn ours(runtime: &Runtime, n: usize, policy: impl Policy) -> LoadBalancer {
    let pins = lists::scatter(n);
    let service: ServiceId = "orders".parse().expect("a service id");
    let supplier = SupplierBuilder::new("orders")
        .with_base(FixedSupplier::new(service, lists::plain(n)))
        .build()
        .expect("a chain that works");
    let balancer = LoadBalancer::builder(supplier).policy(policy).build();
    runtime.block_on(balancer.ready()).expect("a fixed list is at hand");
    drop(pins);
    balancer
}

/// A request that has a key and nothing else.
struct Key(String);

impl evenkeel::RequestView for Key {
    fn attribute(&self, name: &str) -> Option<&str> {
        (name == "key").then_some(&self.0)
    }
}

fn pick((balancer, requests): (&LoadBalancer, &[Request<'_>]), count: usize) {
    for request in requests.iter().cycle().take(count) {
        // The end of a call that nobody hears of costs no more than its drop.
        if let Ok(choice) = black_box(balancer.try_choose(black_box(request))) {
            choice.complete(Outcome::Success);
        }
    }
}

/// Prints a row; whether it keeps its limit.
fn compare(
    name: &str,
    limit: Option<f64>,
    ours: (&LoadBalancer, &[Request<'_>]),
    peer: &mut dyn FnMut(usize),
) -> bool {
    const COUNT: u32 = 1_000;
    pick(ours, 1);
    peer(1);
    let by_us = counting::allocations(|| pick(ours, COUNT as usize));
    let by_peer_itself = counting::allocations(|| peer(COUNT as usize));
    let each = |made: u64| u32::try_from(made).map_or(f64::INFINITY, f64::from) / f64::from(COUNT);
    for run in 1..=RUNS {
        let (mut own, mut other) = (Vec::new(), Vec::new());
        let ratio =
            timing::ratio(|| noted(&mut own, || pick(ours, PICKS)), || noted(&mut other, || peer(PICKS)));
        let ok = limit.is_none_or(|limit| ratio >= limit);
        if ok || run == RUNS {
            let (own, other) = (timing::median(own), timing::median(other));
            let (limit, word) = match limit {
                Some(limit) => (format!(">= {limit:.1}"), if ok { "ok" } else { "short" }),
                None => (String::new(), ""),
            };
            println!(
                "{name:<38} {other:>8.1} {:>6.2} {own:>8.1} {:>6.2} {ratio:>7.1}x  {limit:>7}  {word}",
                each(by_peer_itself),
                each(by_us),
            );
            return ok;
        }
    }
    false
}

/// Times `work` and notes the nanoseconds of a pick.
fn noted(all: &mut Vec<f64>, work: impl FnOnce()) -> std::time::Duration {
    let took = timing::time(work);
    let picks = u32::try_from(PICKS).map_or(f64::INFINITY, f64::from);
    all.push(took.as_secs_f64() * 1e9 / picks);
    took
}
