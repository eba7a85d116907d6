//! Ratios that stand on a noisy machine: floor and subject alternate in short rounds, and the median of the ratios of the
//! rounds is taken, so that a neighbour that wakes up meets both.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Picks in a round: with a floor of some ten nanoseconds a round is over before the scheduler looks round for another
/// process, and the longest list is still gone round twice.
pub const PICKS: usize = 20_000;
/// The same for two threads, which the scheduler has to leave alone both at once.
const PICKS_TOGETHER: usize = 5_000;
/// Rounds of a bar: odd, so that there is one in the middle.
const ROUNDS: usize = 101;
/// Two threads count as running at once when this part of the longer run had both.
const AT_ONCE: f64 = 0.9;
/// How often two threads are sent off until they do.
const TRIES: usize = 20;

/// The median of the ratios of subject to floor.
pub fn ratio(mut floor: impl FnMut() -> Duration, mut subject: impl FnMut() -> Duration) -> f64 {
    // The first of each warms the caches and the predictors.
    floor();
    subject();
    let ratios = (0..ROUNDS).map(|round| {
        let (below, above) = if round % 2 == 0 {
            let below = floor();
            (below, subject())
        } else {
            let above = subject();
            (floor(), above)
        };
        above.as_secs_f64() / below.as_secs_f64()
    });
    median(ratios.collect())
}

/// The same for loops that run a number of picks.
pub fn picks(floor: impl Fn(usize), subject: impl Fn(usize)) -> f64 {
    ratio(|| time(|| floor(PICKS)), || time(|| subject(PICKS)))
}

/// The same with two threads at once in either loop.
pub fn two_threads(floor: impl Fn(usize) + Sync, subject: impl Fn(usize) + Sync) -> f64 {
    ratio(|| together(&floor), || together(&subject))
}

/// How long `work` takes.
pub fn time(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}

/// The value in the middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The mean time of two threads that run at once. When the machine gives them one after the other a processor, they
/// meet no contention: such a run does not count, unless there is no better.
fn together(work: &(impl Fn(usize) + Sync)) -> Duration {
    let mut best = (-1.0, Duration::ZERO);
    for _ in 0..TRIES {
        let run = at_once(work);
        if run.0 > best.0 {
            best = run;
        }
        if best.0 >= AT_ONCE {
            break;
        }
    }
    best.1
}

/// The part of the longer run of two threads that had both, and the mean time.
fn at_once(work: &(impl Fn(usize) + Sync)) -> (f64, Duration) {
    let waiting = AtomicU32::new(2);
    let one = || {
        waiting.fetch_sub(1, Ordering::AcqRel);
        while waiting.load(Ordering::Acquire) > 0 {
            std::hint::spin_loop();
        }
        let started = Instant::now();
        work(PICKS_TOGETHER);
        (started, Instant::now())
    };
    let ((a, a_end), (b, b_end)) = std::thread::scope(|scope| {
        let other = scope.spawn(one);
        (one(), other.join().expect("a loop that does not panic"))
    });
    let both = a_end.min(b_end).saturating_duration_since(a.max(b));
    let longer = (a_end - a).max(b_end - b);
    (both.as_secs_f64() / longer.as_secs_f64(), ((a_end - a) + (b_end - b)) / 2)
}
