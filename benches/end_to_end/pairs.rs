//! Runs in pairs, and the table of them.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::counting::allocations;

/// Callers at the same time.
const CALLERS: usize = 8;
/// Calls of each in one slice of a run: some 25 ms.
const CALLS: usize = 300;
/// Slices of a run, a quarter of a second to one together. Those of a pair take turns, so that what the machine does beside,
/// which comes and goes in seconds, falls on both.
const SLICES: usize = 10;
const PAIRS: usize = 11;
/// How often a row that falls short is measured before it counts as short.
const TRIES: u32 = 3;
/// Calls over which allocations are counted.
const COUNTED: u32 = 500;

/// The bars of a row.
#[derive(Clone, Copy)]
pub struct Bars {
    /// The least share of the calls per second without evenkeel.
    pub rate: f64,
    /// The most of the 99th percentile without it.
    pub p99: Option<f64>,
    /// The most allocations that a call makes more.
    pub allocations: Option<f64>,
}

pub struct Table {
    words: Vec<String>,
    short: u32,
}

/// One run.
#[derive(Default)]
struct Run {
    took: Vec<Duration>,
    elapsed: Duration,
}

impl Run {
    /// Calls per second.
    #[allow(clippy::cast_precision_loss)] // thousands
    fn rate(&self) -> f64 {
        self.took.len() as f64 / self.elapsed.as_secs_f64()
    }

    fn p99(&mut self) -> f64 {
        self.took.sort_unstable();
        self.took[self.took.len() * 99 / 100].as_secs_f64()
    }
}

/// The median, the least and the most of some ratios.
struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self { least: values[0], median: values[values.len() / 2], most: values[values.len() - 1] }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>5.3} ({:.3}..{:.3})", self.median, self.least, self.most)
    }
}

impl Table {
    pub fn from_args() -> Self {
        let words = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
        println!(
            "{:<44} {:>22} {:>6}  {:>22} {:>5}  {:>11} {:>5}",
            "row", "calls/s, of bare", "bar", "p99, of bare", "bar", "allocations", "bar"
        );
        Self { words, short: 0 }
    }

    /// Measures one row, if it is asked for. `client` makes a client; what it makes calls, and says whether that went well.
    pub fn row<A: Client, B: Client>(
        &mut self,
        name: &str,
        bars: Option<Bars>,
        bare: impl Fn() -> A,
        ours: impl Fn() -> B,
    ) {
        if !self.words.is_empty() && !self.words.iter().any(|word| name.contains(word.as_str())) {
            return;
        }
        let tries = if bars.is_some() { TRIES } else { 1 };
        for left in (0..tries).rev() {
            let (rate, p99) = pairs(&bare, &ours);
            let more = made(&ours) - made(&bare);
            let well = bars.is_none_or(|bars| {
                rate.median >= bars.rate
                    && bars.p99.is_none_or(|most| p99.median <= most)
                    && bars.allocations.is_none_or(|most| more <= most)
            });
            if !well && left > 0 {
                continue;
            }
            let verdict = match bars {
                None => "not judged",
                Some(_) if well => "ok",
                Some(_) => "short",
            };
            self.short += u32::from(!well);
            let bar = |bar: Option<f64>| bar.map_or_else(String::new, |bar| format!("{bar:.2}"));
            let rate_bar = bar(bars.map(|bars| bars.rate));
            let [p99_bar, made_bar] =
                [bars.and_then(|bars| bars.p99), bars.and_then(|bars| bars.allocations)].map(bar);
            println!(
                "{name:<44} {rate:>22} {rate_bar:>6}  {p99:>22} {p99_bar:>5}  {more:>+11.2} {made_bar:>5}  {verdict}"
            );
            return;
        }
    }

    pub fn end(self) -> ExitCode {
        if self.short == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// What calls.
pub trait Client: Send + Sync + 'static {
    /// Makes a call and reads its answer to the end; whether that went well.
    fn call(&self) -> impl Future<Output = bool> + Send;
}

/// The ratios of calls per second and of 99th percentiles.
fn pairs<A: Client, B: Client>(bare: &impl Fn() -> A, ours: &impl Fn() -> B) -> (Spread, Spread) {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let (bare, ours) = {
        let _inside = runtime.enter();
        (Arc::new(bare()), Arc::new(ours()))
    };
    // Connections are made, lists are read.
    slice(&runtime, &bare, &mut Run::default());
    slice(&runtime, &ours, &mut Run::default());
    let (mut rates, mut tails) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        let (mut without, mut with) = (Run::default(), Run::default());
        for at in 0..SLICES {
            // Who goes first takes turns, as whatever else the machine does may.
            if at % 2 == 0 {
                slice(&runtime, &bare, &mut without);
                slice(&runtime, &ours, &mut with);
            } else {
                slice(&runtime, &ours, &mut with);
                slice(&runtime, &bare, &mut without);
            }
        }
        rates.push(with.rate() / without.rate());
        tails.push(with.p99() / without.p99());
    }
    (Spread::of(rates), Spread::of(tails))
}

fn slice(runtime: &Runtime, client: &Arc<impl Client>, run: &mut Run) {
    runtime.block_on(async {
        let started = Instant::now();
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let client = Arc::clone(client);
            callers.spawn(async move {
                let mut took = Vec::with_capacity(CALLS);
                for _ in 0..CALLS {
                    let at = Instant::now();
                    assert!(client.call().await, "a call failed");
                    took.push(at.elapsed());
                }
                took
            });
        }
        let took = callers.join_all().await;
        run.elapsed += started.elapsed();
        run.took.extend(took.into_iter().flatten());
    });
}

/// Allocations per call, on a runtime with one thread, which makes all of them.
fn made<C: Client>(client: &impl Fn() -> C) -> f64 {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let client = {
        let _inside = runtime.enter();
        client()
    };
    let calls = async || {
        for _ in 0..COUNTED {
            assert!(client.call().await, "a call failed");
        }
    };
    runtime.block_on(calls());
    let made = allocations(|| runtime.block_on(calls()));
    #[allow(clippy::cast_precision_loss)] // some ten thousand
    (made as f64 / f64::from(COUNTED))
}
