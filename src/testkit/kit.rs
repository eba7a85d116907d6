use std::ops::RangeInclusive;
use std::time::Duration;

use super::bench::{Bench, Key, Trouble, counts, equals, instance};
use super::finding::Measured;
use super::statistics::{chi_square, chi_square_bound, run_bound, window_bound};
use super::{Check, Finding, Passed};
use crate::policy::Policy;
use crate::random::mix;
use crate::sim::{Demand, Fault, Server, Simulation, What, on_own_thread};
use crate::{Failure, Outcome, Request};

/// How many instances a check has, unless it says otherwise.
const INSTANCES: usize = 10;
/// How many calls; a share of a tenth is then known to a fiftieth of itself.
const CALLS: usize = 20_000;
/// How many calls a window has, in which bursts are counted.
const WINDOW: usize = 100;

/// The checks, and their seed.
///
/// Each check makes a policy or several with the function that it is given, and runs on a thread and a paused clock of its own.
/// See the [module](super) for an overview, and `examples/custom_policy.rs` for a policy of one's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kit {
    seed: u64,
}

/// What came of a check.
struct Verdict {
    good: bool,
    got: String,
    bound: String,
}

impl Verdict {
    fn new(good: bool, got: impl Into<String>, bound: impl Into<String>) -> Self {
        Self { good, got: got.into(), bound: bound.into() }
    }

    /// Counts against shares.
    fn shares(counts: &[u64], shares: &[f64], of_what: &str) -> Self {
        let (statistic, bound) = (chi_square(counts, shares), chi_square_bound(shares.len()));
        let got = format!("{of_what} {counts:?}, chi-square {statistic:.1}");
        Self::new(statistic <= bound, got, format!("{bound:.1}"))
    }
}

impl Kit {
    /// The attribute that has the key of a request, in [`keys`](Self::keys).
    pub const KEY: &'static str = Simulation::KEY;

    /// The kit with the seed 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Another seed.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Ten equal instances get equal shares of 20 000 calls, each of which works.
    ///
    /// Bound: chi-square, one in a million.
    ///
    /// # Errors
    /// [`Finding`].
    pub fn shares<P: Policy>(&self, make: impl FnMut() -> P + Send) -> Result<Passed, Finding> {
        self.on_bench(Check::Shares, make, async |policy, seed| {
            let bench = Bench::new(policy, equals(0..INSTANCES)?, seed).await?;
            let calls = bench.calls(CALLS).await?;
            Ok(Verdict::shares(&counts(&calls, INSTANCES), &even(INSTANCES), "calls"))
        })
    }

    /// Four instances of the weights 1, 2, 3 and 4 get a tenth, two, three and four tenths of 20 000 calls, one after the
    /// other.
    ///
    /// Bound: chi-square, one in a million. A policy that goes by load and weight may rightly differ while nothing is
    /// loaded.
    ///
    /// # Errors
    /// [`Finding`].
    pub fn weights<P: Policy>(&self, make: impl FnMut() -> P + Send) -> Result<Passed, Finding> {
        self.on_bench(Check::Weights, make, async |policy, seed| {
            let list = (0..4).zip(1..).map(|(id, weight)| instance(id, Some(weight)));
            let bench = Bench::new(policy, list.collect::<Result<_, _>>()?, seed).await?;
            let calls = bench.calls(CALLS).await?;
            Ok(Verdict::shares(&counts(&calls, 4), &[0.1, 0.2, 0.3, 0.4], "calls"))
        })
    }

    /// Nobody is called often in a row, or often within 100 calls: among ten equal instances, and among five of weight 30
    /// and five of weight 1.
    ///
    /// Bound: what draws by chance exceed once in a million times: of a tenth, or of a quarter for a heavy instance, which
    /// is more than its weight, since a policy may prefer it while nothing is loaded.
    ///
    /// # Errors
    /// [`Finding`].
    pub fn bursts<P: Policy>(&self, mut make: impl FnMut() -> P + Send) -> Result<Passed, Finding> {
        self.on_bench(Check::Bursts, &mut make, async |policy, seed| {
            let bench = Bench::new(policy, equals(0..INSTANCES)?, seed).await?;
            Ok(burst(&bench.calls(CALLS).await?, 0.1, "equal"))
        })?;
        self.on_bench(Check::Bursts, make, async |policy, seed| {
            let list = (0..INSTANCES).map(|id| instance(id, Some(if id < 5 { 30 } else { 1 })));
            let bench = Bench::new(policy, list.collect::<Result<_, _>>()?, seed).await?;
            Ok(burst(&bench.calls(CALLS).await?, 0.25, "weighted"))
        })
    }

    /// An instance comes and goes 1 000 times, with one call after each change; the ten others get equal shares.
    ///
    /// Bound: chi-square, one in a million.
    ///
    /// # Errors
    /// [`Finding`].
    pub fn turns<P: Policy>(&self, make: impl FnMut() -> P + Send) -> Result<Passed, Finding> {
        self.on_bench(Check::Turns, make, async |policy, seed| {
            let bench = Bench::new(policy, equals(0..INSTANCES)?, seed).await?;
            let mut calls = Vec::new();
            for _ in 0..1_000 {
                bench.list(equals(0..=INSTANCES)?).await;
                calls.push(bench.call().await?);
                bench.list(equals(0..INSTANCES)?).await;
                calls.push(bench.call().await?);
            }
            let counts = counts(&calls, INSTANCES);
            Ok(Verdict::shares(&counts, &even(INSTANCES), "calls after a change each"))
        })
    }

    /// If a key goes to one instance: when one of ten instances goes, only its own keys move, and when it is back, they
    /// return. 1 000 requests have keys of their own as the attribute [`KEY`](Self::KEY).
    ///
    /// Bound: 2 % of the keys may move without need, since tables are not perfect. A policy that binds no key passes.
    ///
    /// # Errors
    /// [`Finding`].
    pub fn keys<P: Policy>(&self, make: impl FnMut() -> P + Send) -> Result<Passed, Finding> {
        self.on_bench(Check::Keys, make, async |policy, seed| {
            let bench = Bench::new(policy, equals(0..INSTANCES)?, seed).await?;
            let keys: Vec<Key> = (0..1_000).map(|key| Key(format!("key-{key}"))).collect();
            let owners = || -> Result<Vec<usize>, Trouble> {
                keys.iter().map(|key| Ok(bench.choose(&Request::of(key))?.0)).collect()
            };
            let before = owners()?;
            // In another order, so that a rotation of the right length is not taken for a key.
            let again: Result<Vec<usize>, Trouble> =
                keys.iter().rev().map(|key| Ok(bench.choose(&Request::of(key))?.0)).collect();
            let again: Vec<usize> = again?.into_iter().rev().collect();
            if before != again || before.iter().all(|owner| *owner == before[0]) {
                return Ok(Verdict::new(true, "it binds no key to an instance", "2 % of them"));
            }
            let gone = before[0];
            bench.list(equals((0..INSTANCES).filter(|id| *id != gone))?).await;
            // Tables may be made behind the list.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let without = owners()?;
            bench.list(equals(0..INSTANCES)?).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let after = owners()?;
            let needless = |now: &[usize]| {
                before.iter().zip(now).filter(|(old, new)| old != new && **old != gone).count()
            };
            let astray = after.iter().zip(&before).filter(|(new, old)| new != old).count();
            let moved = needless(&without);
            let got = format!("{moved} of 1000 keys moved without need, {astray} did not return");
            Ok(Verdict::new(moved <= 20 && astray <= 20, got, "20 each"))
        })
    }

    /// To three servers, which answer in 100 ms each, comes a fourth, under 400 requests a second: of the first 100 calls after
    /// that it gets 1 to 38. Five runs.
    ///
    /// # Errors
    /// [`Finding`].
    pub fn herd<P: Policy>(&self, make: impl FnMut() -> P + Send) -> Result<Passed, Finding> {
        const BOUND: RangeInclusive<usize> = 1..=38;
        self.in_simulation(Check::Herd, make, |kit, make| {
            let mut all = Vec::new();
            for run in 0..5 {
                // So many cores that nobody waits.
                let simulation = Simulation::new(Server::many(3).map(|server| server.with_allocation(1e3)))
                    .with_demand(Demand::deterministic(Duration::from_millis(100)))
                    .with_rate(400.0)
                    .with_server_added(Duration::from_secs(2), Server::new().with_allocation(1e3))
                    .with_warm_up(Duration::from_secs(2))
                    .with_duration(Duration::from_secs(1))
                    .with_trace()
                    .with_seed(mix(kit.seed ^ run));
                let report = simulation.run(&mut *make)?;
                let picks = report.trace().iter().filter(|event| event.what == What::Picked);
                let after = picks.skip_while(|event| event.at < Duration::from_secs(2)).take(100);
                all.push(after.filter(|event| event.server == 3).count());
            }
            let got = format!("of its first 100 calls a newcomer got {all:?}");
            Ok(Verdict::new(all.iter().all(|got| BOUND.contains(got)), got, "1 to 38"))
        })
    }

    /// One of ten servers answers each call with 500 after 0.2 ms; ten clients, a load of 0.7, ten virtual seconds. After
    /// the first two it gets 1 % of the calls at most, with nothing but the policy to keep them away.
    ///
    /// # Errors
    /// [`Finding`].
    pub fn broken_server<P: Policy>(&self, make: impl FnMut() -> P + Send) -> Result<Passed, Finding> {
        self.in_simulation(Check::BrokenServer, make, |kit, make| {
            let report = Simulation::new(Server::many(10))
                .with_clients(10)
                .with_fault(0, Fault::FailFast(Duration::from_micros(200)), ..)
                .with_warm_up(Duration::from_secs(2))
                .with_duration(Duration::from_secs(8))
                .with_seed(kit.seed)
                .run(make)?;
            let share = report.share_after(0, Duration::from_secs(2));
            let got = format!("a server that fails fast got {:.2} % of the calls", 100.0 * share);
            Ok(Verdict::new(share <= 0.01, got, "1 %"))
        })
    }

    /// After 5 000 calls, up to 50 at a time, that end as success, as error, without an answer and by being given up, those
    /// given up at half of the instances only, and ten quiet minutes: no call is in flight, and ten equal instances get
    /// equal shares again.
    ///
    /// Bound: none in flight; chi-square, one in a million.
    ///
    /// # Errors
    /// [`Finding`].
    pub fn conservation<P: Policy>(&self, make: impl FnMut() -> P + Send) -> Result<Passed, Finding> {
        self.on_bench(Check::Conservation, make, async |policy, seed| {
            let bench = Bench::new(policy, equals(0..INSTANCES)?, seed).await?;
            let mut open = Vec::new();
            for step in 0..5_000_u64 {
                open.push(bench.choose(&Request::EMPTY)?);
                let chance = mix(seed ^ step);
                while open.len() > 50 || (chance.is_multiple_of(3) && open.len() > 20) {
                    #[allow(clippy::cast_possible_truncation)]
                    let (id, choice) = open.swap_remove((chance >> 8) as usize % open.len());
                    match chance >> 40 & 7 {
                        // It is dropped: the caller gave up.
                        0..=3 if id < INSTANCES / 2 => drop(choice),
                        4 => choice.complete(Outcome::Status(503)),
                        5 => choice.complete(Outcome::Failure(Failure::Timeout)),
                        6 => choice.complete(Outcome::Failure(Failure::Connect)),
                        _ => choice.complete(Outcome::Success),
                    }
                }
                tokio::time::advance(Duration::from_millis(1)).await;
            }
            open.clear();
            let left = bench.in_flight();
            if left > 0 {
                return Ok(Verdict::new(false, format!("{left} calls are left in flight"), "none"));
            }
            tokio::time::sleep(Duration::from_secs(600)).await;
            // Whoever was out of use is tried again, once.
            bench.calls(CALLS / 10).await?;
            let calls = bench.calls(CALLS).await?;
            Ok(Verdict::shares(&counts(&calls, INSTANCES), &even(INSTANCES), "calls after a mixture of ends"))
        })
    }

    /// The check `which`.
    ///
    /// # Errors
    /// [`Finding`].
    pub fn check<P: Policy>(&self, which: Check, make: impl FnMut() -> P + Send) -> Result<Passed, Finding> {
        match which {
            Check::Shares => self.shares(make),
            Check::Weights => self.weights(make),
            Check::Bursts => self.bursts(make),
            Check::Turns => self.turns(make),
            Check::Keys => self.keys(make),
            Check::Herd => self.herd(make),
            Check::BrokenServer => self.broken_server(make),
            Check::Conservation => self.conservation(make),
        }
    }

    fn on_bench<P: Policy>(
        &self,
        check: Check,
        mut make: impl FnMut() -> P + Send,
        steps: impl AsyncFnOnce(P, u64) -> Result<Verdict, Trouble> + Send,
    ) -> Result<Passed, Finding> {
        let policy = make();
        let name = policy.name().into_owned();
        let seed = self.seed;
        let verdict = on_own_thread(seed, async || steps(policy, seed).await);
        self.verdict(check, name, verdict.unwrap_or_else(|error| Err(error.into())))
    }

    fn in_simulation<P: Policy, M: FnMut() -> P + Send>(
        &self,
        check: Check,
        mut make: M,
        steps: impl FnOnce(&Self, &mut M) -> Result<Verdict, Trouble>,
    ) -> Result<Passed, Finding> {
        let name = make().name().into_owned();
        let verdict = steps(self, &mut make);
        self.verdict(check, name, verdict)
    }

    fn verdict(
        &self,
        check: Check,
        policy: String,
        verdict: Result<Verdict, Trouble>,
    ) -> Result<Passed, Finding> {
        let verdict = verdict.unwrap_or_else(|error| {
            Verdict::new(false, format!("the check could not be made: {error}"), "that it is made")
        });
        let Verdict { good, got, bound } = verdict;
        let measured = Measured { check, policy, got, bound, seed: self.seed };
        if good { Ok(Passed(measured)) } else { Err(Finding(measured)) }
    }
}

#[allow(clippy::cast_precision_loss)]
fn even(n: usize) -> Vec<f64> {
    vec![1.0 / n as f64; n]
}

/// The longest run of one instance, and its most calls within a window.
fn burst(calls: &[usize], share: f64, which: &str) -> Verdict {
    let longest = calls.chunk_by(|a, b| a == b).map(<[usize]>::len).max().unwrap_or(0);
    let mut within = [0_usize; INSTANCES];
    let mut most = 0;
    for (at, id) in calls.iter().enumerate() {
        if at >= WINDOW {
            within[calls[at - WINDOW]] -= 1;
        }
        within[*id] += 1;
        most = most.max(within[*id]);
    }
    let run = run_bound(calls.len(), share);
    let window = window_bound(WINDOW, share, calls.len() * INSTANCES);
    let got = format!("among {which} instances, one had {longest} calls in a row and {most} of {WINDOW}");
    Verdict::new(longest <= run && most <= window, got, format!("{run} in a row and {window} of {WINDOW}"))
}
