//! What is known of the answers of one instance, and what it says of itself, for policies that go by that.

use std::time::Duration;

use crate::choice::Outcome;
use crate::report::LoadReport;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// What is known of the answers of one instance, and what it says of itself.
///
/// Kept while a policy asks for it by [`Needs::STATISTICS`](crate::policy::Needs::STATISTICS) or
/// [`Needs::REPORTS`](crate::policy::Needs::REPORTS), without a lock: numbers that are read while a call ends may miss it by
/// half.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Statistics {
    // First, and in a cache line of its own, what a pick that looks at two instances reads of each, and what a good answer
    // writes.
    good: AtomicU64,
    good_nanos: AtomicU64,
    bad: AtomicU64,
    cpu: Number,
    /// By its own word, in milliseconds.
    latency: Number,
    /// When a picker took it last, on the service's clock; 0 if none did.
    picked: AtomicU64,
    window: AtomicU64,
    /// The root of what an answer takes, in milliseconds, over the window, as a float; not a number before its first answer.
    root: Root,
    /// What a failure counts as there, at least, in microseconds: as whoever looked last says.
    failure: AtomicU32,
    // What is seldom written or read.
    bad_nanos: AtomicU64,
    before: Before,
    /// When it said last how it is, on its own clock.
    said: AtomicU64,
    weight: Reported,
}

/// What the sums were when the window began, so that the window is what came since.
#[derive(Debug, Default)]
struct Before {
    counts: [AtomicU64; 2],
    nanos: [AtomicU64; 2],
}

/// A weight that follows from reports.
#[derive(Debug, Default)]
struct Reported {
    weight: Number,
    /// When it was told last, on the service's clock; 0 if never.
    at: AtomicU64,
    /// Since when it has been told without a gap; 0 when there is one.
    since: AtomicU64,
}

/// A number that may be unknown.
#[derive(Debug)]
struct Number(AtomicU64);

impl Default for Number {
    fn default() -> Self {
        Self(AtomicU64::new(f64::NAN.to_bits()))
    }
}

impl Number {
    fn get(&self) -> Option<f64> {
        Some(f64::from_bits(self.0.load(Ordering::Relaxed))).filter(|value| !value.is_nan())
    }

    fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }
}

/// A root that may be unknown; in single precision it takes half the time and half the room, and a load needs no more.
#[derive(Debug)]
struct Root(AtomicU32);

impl Default for Root {
    fn default() -> Self {
        Self(AtomicU32::new(f32::NAN.to_bits()))
    }
}

impl Root {
    fn get(&self) -> Option<f32> {
        Some(f32::from_bits(self.0.load(Ordering::Relaxed))).filter(|value| !value.is_nan())
    }

    fn set(&self, value: Option<f32>) {
        self.0.store(value.unwrap_or(f32::NAN).to_bits(), Ordering::Relaxed);
    }
}

/// So many calls took so many nanoseconds in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Took {
    pub(crate) count: u64,
    pub(crate) nanos: u64,
}

impl Took {
    fn since(self, before: Self) -> Self {
        // The sums wrap, and so do their differences; a count and its time are written one after the other.
        let count = self.count.wrapping_sub(before.count);
        Self { count, nanos: if count == 0 { 0 } else { self.nanos.saturating_sub(before.nanos) } }
    }

    /// In nanoseconds.
    pub(crate) fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| real(self.nanos) / real(self.count))
    }
}

/// Answers of some time: good ones, and failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) good: Took,
    pub(crate) bad: Took,
}

impl Answers {
    /// What an answer took on average, in nanoseconds, where a failure counts as `failure` nanoseconds at least.
    pub(crate) fn mean(self, failure: u64) -> Option<f64> {
        let count = self.good.count + self.bad.count;
        let bad = self.bad.nanos.max(self.bad.count.saturating_mul(failure));
        (count > 0).then(|| (real(self.good.nanos) + real(bad)) / real(count))
    }
}

/// Of so many answers each is reckoned with at once; beyond, those that went well are with every few of them, as one more or
/// less of many changes no choice. A failure always is.
const FEW: u64 = 64;
const SOME: u64 = 8;

#[allow(clippy::cast_precision_loss)] // a mean needs no more than 53 bits
fn real(value: u64) -> f64 {
    value as f64
}

/// The root of nanoseconds as milliseconds.
#[inline]
fn root(nanos: f64) -> f32 {
    #[allow(clippy::cast_possible_truncation)]
    let millis = (nanos * 1e-6) as f32;
    millis.sqrt()
}

/// Nanoseconds as microseconds, rounded up; 71 minutes at most.
fn micros(nanos: u64) -> u32 {
    u32::try_from(nanos.div_ceil(1_000)).unwrap_or(u32::MAX)
}

impl Statistics {
    /// A call ended. Who gave up says nothing of the instance.
    pub(crate) fn ended(&self, outcome: Outcome, took: u64) {
        match outcome {
            Outcome::Cancelled => {}
            _ if outcome.is_failure() => {
                self.bad.fetch_add(1, Ordering::Relaxed);
                self.bad_nanos.fetch_add(took, Ordering::Relaxed);
                if self.window.load(Ordering::Relaxed) != 0 {
                    self.root_of(self.since_then());
                }
            }
            _ => self.went_well(took),
        }
    }

    /// A call ended well.
    #[inline]
    pub(crate) fn went_well(&self, took: u64) {
        let before = self.good.fetch_add(1, Ordering::Relaxed);
        self.good_nanos.fetch_add(took, Ordering::Relaxed);
        // Here and not at each look: a call ends once, and a pick looks at two.
        if self.window.load(Ordering::Relaxed) != 0
            && (before < FEW || before.is_multiple_of(SOME) || self.root.get().is_none())
        {
            self.root_of(self.since_then());
        }
    }

    fn root_of(&self, answers: Answers) {
        let failure = u64::from(self.failure.load(Ordering::Relaxed)) * 1_000;
        self.root.set(answers.mean(failure).map(root));
    }

    /// Since the instance was first seen.
    pub(crate) fn lifetime(&self) -> Answers {
        let took = |count: &AtomicU64, nanos: &AtomicU64| Took {
            count: count.load(Ordering::Relaxed),
            nanos: nanos.load(Ordering::Relaxed),
        };
        Answers { good: took(&self.good, &self.good_nanos), bad: took(&self.bad, &self.bad_nanos) }
    }

    /// Since the window began.
    fn since_then(&self) -> Answers {
        let all = self.lifetime();
        let before = |at: usize| Took {
            count: self.before.counts[at].load(Ordering::Relaxed),
            nanos: self.before.nanos[at].load(Ordering::Relaxed),
        };
        Answers { good: all.good.since(before(0)), bad: all.bad.since(before(1)) }
    }

    /// Whether the window goes on, which begins anew when it is older than `period` nanoseconds: then there is nothing in it
    /// until the next answer. A look that is `dry` says the same and begins nothing.
    #[inline]
    fn goes_on(&self, now: u64, period: u64, dry: bool) -> bool {
        let began = self.window.load(Ordering::Relaxed);
        if began != 0 && now.saturating_sub(began) < period {
            return true;
        }
        self.begin(began, now, dry)
    }

    #[cold]
    fn begin(&self, began: u64, now: u64, dry: bool) -> bool {
        if dry {
            return began == 0;
        }
        let begun = self.window.compare_exchange(began, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if began == 0 {
            // What came before the first look is in the first window.
            self.root_of(self.since_then());
            return true;
        }
        if begun {
            let all = self.lifetime();
            for (at, took) in [all.good, all.bad].into_iter().enumerate() {
                self.before.counts[at].store(took.count, Ordering::Relaxed);
                self.before.nanos[at].store(took.nanos, Ordering::Relaxed);
            }
            self.root.set(None);
            return false;
        }
        // Somebody else begins it.
        true
    }

    /// The answers of a window of `period` nanoseconds.
    pub(crate) fn window(&self, now: u64, period: u64, dry: bool) -> Answers {
        if self.goes_on(now, period, dry) { self.since_then() } else { Answers::default() }
    }

    /// The root of what an answer takes in milliseconds, over a window of `period` nanoseconds in which a failure counts as
    /// `failure` nanoseconds at least; without answers in it, over all of them.
    #[inline]
    pub(crate) fn root(&self, now: u64, period: u64, failure: u64, dry: bool) -> Option<f64> {
        let goes_on = self.goes_on(now, period, dry);
        if self.failure.load(Ordering::Relaxed) == micros(failure)
            && goes_on
            && let Some(root) = self.root.get()
        {
            return Some(f64::from(root));
        }
        self.root_anew(failure, goes_on, dry)
    }

    #[cold]
    fn root_anew(&self, failure: u64, goes_on: bool, dry: bool) -> Option<f64> {
        let seen = if goes_on { self.since_then() } else { Answers::default() };
        let known = micros(failure);
        if !dry && self.failure.swap(known, Ordering::Relaxed) != known {
            self.root_of(seen);
        }
        // As it is kept, so that the next look says the same.
        let failure = u64::from(known) * 1_000;
        let mean = seen.mean(failure).or_else(|| self.lifetime().mean(failure))?;
        Some(f64::from(root(mean)))
    }

    /// A picker took it.
    pub(crate) fn picked(&self, now: u64) {
        self.picked.store(now, Ordering::Relaxed);
    }

    /// When a picker took it last; 0 if none did.
    pub(crate) fn last_picked(&self) -> u64 {
        self.picked.load(Ordering::Relaxed)
    }

    /// The instance tells its processors, and what a call takes it. One that is older than what is known is not heard; a
    /// latency is the mean of what was known and what is told.
    pub(crate) fn told(&self, report: &LoadReport) {
        let newer = |at: u64| (at <= report.server_time).then_some(report.server_time);
        if self.said.fetch_update(Ordering::Relaxed, Ordering::Relaxed, newer).is_err() {
            return;
        }
        self.cpu.set(report.cpu_utilization);
        if let Some(took) = report.response_time {
            let took = took.as_secs_f64() * 1e3;
            self.latency.set(0.5 * self.reported_latency().unwrap_or_default() + 0.5 * took);
        }
    }

    /// A weight follows from a report.
    pub(crate) fn weigh(&self, weight: f64, now: u64, expiration: u64) {
        let Reported { weight: known, at, since } = &self.weight;
        let before = at.swap(now, Ordering::Relaxed);
        if before == 0 || now.saturating_sub(before) >= expiration {
            since.store(0, Ordering::Relaxed);
        }
        let _ = since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        known.set(weight);
    }

    /// The weight that follows from reports, if they have been coming for `blackout` nanoseconds and the last one is not
    /// `expiration` old.
    pub(crate) fn weight(&self, now: u64, blackout: u64, expiration: u64) -> Option<f64> {
        let Reported { weight, at, since } = &self.weight;
        let told = at.load(Ordering::Relaxed);
        if told == 0 || now.saturating_sub(told) >= expiration {
            since.store(0, Ordering::Relaxed);
            return None;
        }
        let since = since.load(Ordering::Relaxed);
        let over = since != 0 && now.saturating_sub(since) >= blackout;
        weight.get().filter(|_| over)
    }

    /// The blackout begins anew with the next report.
    pub(crate) fn forget_weight(&self) {
        self.weight.at.store(0, Ordering::Relaxed);
    }

    /// Calls that ended well since the instance was first seen and its policy asked.
    pub fn successes(&self) -> u64 {
        self.good.load(Ordering::Relaxed)
    }

    /// Calls that failed: no answer, or a 5xx.
    pub fn failures(&self) -> u64 {
        self.bad.load(Ordering::Relaxed)
    }

    /// What a call took on average, failures included; `None` when none has ended.
    pub fn mean_response_time(&self) -> Option<Duration> {
        let nanos = self.lifetime().mean(0)?;
        Some(Duration::from_secs_f64(nanos / 1e9))
    }

    /// The part of its processors in use, as the instance said last to a policy that goes by it.
    pub fn reported_cpu(&self) -> Option<f64> {
        self.cpu.get()
    }

    /// What a call takes the instance by its own word, in milliseconds: half of each value is the one before, the other half
    /// what was told (an exponential mean, from 0 on).
    pub fn reported_latency(&self) -> Option<f64> {
        self.latency.get()
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn of_many_answers_a_good_one_counts_soon_and_a_failure_at_once() {
        let (now, stats) = (S, Statistics::default());
        let root = || stats.root(now, 30 * S, S, false).unwrap();
        assert_eq!(stats.root(now, 30 * S, S, false), None);
        for at in 0..FEW {
            stats.ended(Outcome::Success, (at + 1) * 1_000_000);
            let mean = f64::from(u32::try_from(at + 2).unwrap()) / 2.0;
            assert!((root() - mean.sqrt()).abs() < 1e-5, "{at}");
        }
        // The first behind those is reckoned with, and the next ones with the last of them.
        stats.ended(Outcome::Success, 0);
        let before = root();
        for _ in 1..SOME {
            stats.ended(Outcome::Success, 0);
            assert!((root() - before).abs() < f64::EPSILON);
        }
        stats.ended(Outcome::Success, 0);
        assert!(root() < before);
        let before = root();
        stats.ended(Outcome::Status(503), 0);
        assert!(root() > before);
    }

    #[test]
    fn failures_count_as_slow_and_who_gives_up_counts_as_nothing() {
        let stats = Statistics::default();
        assert_eq!((stats.lifetime().mean(S), stats.mean_response_time()), (None, None));
        stats.ended(Outcome::Cancelled, 9 * S);
        stats.ended(Outcome::Status(200), S / 10);
        stats.ended(Outcome::Status(404), S / 10);
        stats.ended(Outcome::Status(503), S / 1_000);
        stats.ended(Outcome::Failure(crate::Failure::Timeout), 3 * S);
        assert_eq!((stats.successes(), stats.failures()), (2, 2));
        // The failures took 3.001 s, which is more than two seconds.
        assert_eq!(stats.lifetime().mean(S), Some((0.2 + 3.001) * 1e9 / 4.0));
        assert_eq!(stats.lifetime().mean(2 * S), Some((0.2 + 4.0) * 1e9 / 4.0));
        assert_eq!(stats.lifetime().good.mean(), Some(1e8));
    }

    #[test]
    fn a_window_begins_anew_when_it_is_too_old() {
        let stats = Statistics::default();
        let mean = |now| stats.window(now, 30 * S, false).mean(0);
        stats.ended(Outcome::Success, S);
        assert_eq!(mean(1), Some(1e9), "what came before the first look is in the first window");
        stats.ended(Outcome::Success, 3 * S);
        assert_eq!(mean(30 * S), Some(2e9));
        assert_eq!(mean(30 * S + 1), None, "it is 30 s old");
        assert_eq!(mean(31 * S), None);
        stats.ended(Outcome::Success, 5 * S);
        assert_eq!(mean(60 * S), Some(5e9));
        assert_eq!(mean(10 * S), Some(5e9), "a clock that goes back");
        assert_eq!(mean(61 * S), None);
    }

    #[test]
    fn the_root_is_that_of_the_window_at_any_look() {
        let stats = Statistics::default();
        let (failure, period) = (S, 30 * S);
        let root = |now, failure| stats.root(now, period, failure, false);
        assert_eq!(root(1, failure), None);
        stats.ended(Outcome::Success, S / 1_000 * 16);
        assert_eq!(root(2, failure), Some(4.0));
        // Another policy counts failures otherwise, and the next look knows it.
        stats.ended(Outcome::Status(503), 1);
        assert_eq!(root(3, S / 1_000 * 34), Some(5.0));
        assert_eq!(root(3, S / 1_000 * 84), Some(f64::from(50.0_f32.sqrt())));
        assert_eq!(root(3, S / 1_000 * 34), Some(5.0));
        // A report that looks changes nothing, also when the window is over.
        assert_eq!(stats.root(40 * S, period, S / 1_000 * 84, true), Some(f64::from(50.0_f32.sqrt())));
        assert_eq!(root(29 * S, S / 1_000 * 34), Some(5.0));
        // In a new window nothing is known yet, so what was known before holds until the next answer.
        assert_eq!(root(40 * S, S / 1_000 * 34), Some(5.0));
        stats.ended(Outcome::Success, S / 1_000 * 64);
        assert_eq!(root(41 * S, S / 1_000 * 34), Some(8.0));
        assert_eq!(stats.window(41 * S, period, false).mean(0), Some(64e6));
    }

    #[test]
    fn dubbo_042_the_mean_of_what_is_told_halves() {
        let stats = Statistics::default();
        let tell = |millis| {
            stats.told(&LoadReport::default().with_response_time(Duration::from_millis(millis)));
            stats.reported_latency().unwrap()
        };
        let exact = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-9, "{value}");
        exact(tell(100), 50.0);
        exact(tell(10), 30.0);
        for (told, expected) in [(100, 75.0), (5_000, 2_525.0)] {
            stats.latency.set(50.0);
            exact(tell(told), expected);
        }
    }

    #[test]
    fn dubbo_044_a_report_from_before_is_not_heard() {
        let stats = Statistics::default();
        assert_eq!((stats.reported_cpu(), stats.reported_latency()), (None, None));
        let tell =
            |at, cpu| stats.told(&LoadReport::default().with_server_time(at).with_cpu_utilization(cpu));
        tell(5, 0.5);
        tell(4, 0.4);
        assert_eq!(stats.reported_cpu(), Some(0.5));
        tell(5, 0.6);
        assert_eq!(stats.reported_cpu(), Some(0.6));
        tell(0, 0.1);
        assert_eq!(stats.reported_cpu(), Some(0.6), "one without a time is from before, too");
    }

    #[test]
    fn lbs_a_weight_is_used_after_its_blackout_and_until_it_expires() {
        let stats = Statistics::default();
        let read = |now| stats.weight(now, 10 * S, 180 * S);
        assert_eq!(read(S), None);
        stats.weigh(200.0, S, 180 * S);
        assert_eq!(read(S + 9_900_000_000), None, "9.9 s after the first report");
        assert_eq!(read(11 * S), Some(200.0));
        stats.weigh(100.0, 20 * S, 180 * S);
        assert_eq!(read(20 * S), Some(100.0), "the blackout is that of the first report");
        assert_eq!(read(200 * S - 1), Some(100.0));
        assert_eq!(read(200 * S), None, "180 s of silence");
        stats.weigh(50.0, 201 * S, 180 * S);
        assert_eq!((read(201 * S), read(211 * S)), (None, Some(50.0)), "the blackout begins anew");
        stats.weigh(40.0, 400 * S, 180 * S);
        assert_eq!((read(405 * S), read(410 * S)), (None, Some(40.0)), "also when nobody looked meanwhile");
        stats.forget_weight();
        assert_eq!(read(411 * S), None);
        stats.weigh(30.0, 412 * S, 180 * S);
        assert_eq!((read(421 * S), read(422 * S)), (None, Some(30.0)));
    }
}
