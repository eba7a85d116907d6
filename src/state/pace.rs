//! How fast an instance answers: a peak-sensitive mean of latencies, and the ages of the calls that are in flight.

use std::time::Duration;

use crate::sync::{AtomicU64, Ordering};

/// What latencies are taken for; of the policy, and so of the whole service.
///
/// Ten seconds and one second: the former is Finagle's; the latter is longer than any healthy answer, so that a server which
/// fails fast attracts nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PaceSettings {
    /// How long a peak is remembered: after this it weighs 1/e.
    pub(crate) decay: Duration,
    /// The latency that a failure counts as, at least.
    pub(crate) failure: Duration,
}

/// The decay as a pick needs it: how much of an exponent of 2 a unit of time is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Decay(f32);

impl Decay {
    pub(crate) fn over(time: Duration) -> Self {
        Self(std::f32::consts::LOG2_E * count(1 << UNIT) / (time.as_secs_f32() * 1e9))
    }

    /// The part of a mean that is left after so many units: e^(-t/decay). A decay of nothing forgets at once.
    #[inline]
    fn left(self, units: u32) -> f32 {
        if units == 0 { 1.0 } else { half_to_the(count(units) * self.0) }
    }

    pub(crate) fn to_bits(self) -> u32 {
        self.0.to_bits()
    }

    pub(crate) fn from_bits(bits: u32) -> Self {
        Self(f32::from_bits(bits))
    }
}

/// `2^-x` for an x of at least 0, within four millionths of it: the exponent by its bits, the rest by a polynomial through
/// Chebyshev's points, since a pick computes it twice.
#[inline]
fn half_to_the(x: f32) -> f32 {
    // Beyond this it is as good as nothing; it also takes an infinity.
    let x = x.min(126.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // from 0 to 126
    let whole = x as u32;
    let part = x - count(whole);
    let least = 0.006_835_155_f32;
    let curve =
        (((least * part - 0.053_213_12) * part + 0.239_430_6) * part - 0.693_048_94) * part + 0.999_998_04;
    f32::from_bits((127 - whole) << 23) * curve
}

impl Default for PaceSettings {
    fn default() -> Self {
        Self { decay: Duration::from_secs(10), failure: Duration::from_secs(1) }
    }
}

/// The pace of one instance, in nanoseconds on the service's clock.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    latency: PeakEwma,
    /// The sum of the starts of all calls in flight; it wraps, and so does what is taken off it.
    starts: AtomicU64,
    /// Since when starts are summed: calls that began before are in flight, and not in the sum.
    since: AtomicU64,
}

impl Pace {
    /// From now on calls tell when they begin.
    pub(crate) fn begin(&self, now: u64) {
        self.since.store(now, Ordering::Relaxed);
    }

    /// A call begins.
    #[inline]
    pub(crate) fn enter(&self, now: u64) {
        self.starts.fetch_add(now, Ordering::Relaxed);
    }

    /// It ends, without a word on the instance.
    #[inline]
    pub(crate) fn leave(&self, started: u64) {
        self.starts.fetch_sub(started, Ordering::Relaxed);
    }

    /// An answer, or a failure, took so long.
    pub(crate) fn observe(&self, now: u64, took: u64, decay: Decay) {
        self.latency.observe(now, took, decay);
    }

    /// What an answer takes: the decayed peak mean, but at least the mean age of the calls in flight, so that a server which
    /// hangs is seen before it answers. `None` when nothing is known yet.
    #[inline]
    pub(crate) fn latency(&self, now: u64, in_flight: u32, decay: Decay) -> Option<f32> {
        let known = self.latency.read(now, decay);
        // Counted one after the other, so they may not fit together for a moment; an age is never below zero, nor can it
        // be above that of the service.
        #[allow(clippy::cast_possible_wrap)]
        let ages =
            now.wrapping_mul(u64::from(in_flight)).wrapping_sub(self.starts.load(Ordering::Relaxed)) as i64;
        let age =
            if in_flight == 0 || ages <= 0 { 0.0 } else { nanos(ages.unsigned_abs()) / count(in_flight) };
        match known {
            Some(known) if age <= known => Some(known),
            _ => {
                // One that began before starts were summed seems to be as old as the service; of it only this much is known.
                let most = nanos(now.saturating_sub(self.since.load(Ordering::Relaxed)));
                let age = age.min(most).max(known.unwrap_or_default());
                (age > 0.0).then_some(age)
            }
        }
    }
}

#[allow(clippy::cast_precision_loss)] // a latency needs no more than 24 bits
fn nanos(value: u64) -> f32 {
    value as f32
}

#[allow(clippy::cast_precision_loss)]
fn count(value: u32) -> f32 {
    value as f32
}

/// A mean that jumps to every peak at once and forgets it slowly: Finagle's peak EWMA.
///
/// One word, so that a pick reads it whole: the mean in nanoseconds as a float above, the time of the last observation in
/// units of 2^20 ns (1.05 ms) below. That wraps after 52 days; an observation that seems to come from the future is of this
/// moment. No mean is the word 0: a mean is never 0.
#[derive(Debug, Default)]
pub(crate) struct PeakEwma(AtomicU64);

const UNIT: u32 = 20;

impl PeakEwma {
    /// The mean, decayed to `now`.
    #[inline]
    pub(crate) fn read(&self, now: u64, decay: Decay) -> Option<f32> {
        let word = self.0.load(Ordering::Relaxed);
        (word != 0).then(|| {
            let (mean, at) = unpack(word);
            mean * decay.left(since(at, now))
        })
    }

    /// One more latency.
    pub(crate) fn observe(&self, now: u64, took: u64, decay: Decay) {
        // Not 0, which would be no mean.
        let took = nanos(took.max(1));
        let next = |word: u64| {
            let (mean, at) = unpack(word);
            if word == 0 || took >= mean {
                return Some(pack(took, stamp(now)));
            }
            let units = since(at, now);
            let rest = decay.left(units);
            // Within a unit of time nothing is forgotten, so that nothing changes, and nothing need be written.
            (units != 0).then(|| pack((mean * rest + took * (1.0 - rest)).max(1.0), stamp(now)))
        };
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

#[allow(clippy::cast_possible_truncation)] // it wraps
fn stamp(now: u64) -> u32 {
    (now >> UNIT) as u32
}

fn pack(mean: f32, at: u32) -> u64 {
    u64::from(mean.to_bits()) << 32 | u64::from(at)
}

#[allow(clippy::cast_possible_truncation)] // the halves
fn unpack(word: u64) -> (f32, u32) {
    (f32::from_bits((word >> 32) as u32), word as u32)
}

/// Units from `at` to now; none if it seems to be ahead.
fn since(at: u32, now: u64) -> u32 {
    let passed = stamp(now).wrapping_sub(at);
    if passed > u32::MAX / 2 { 0 } else { passed }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    /// Ten seconds: 2^20 ns / 10 s, by log2(e).
    const TAU: Decay = Decay(1.512_775_4e-4);

    #[test]
    fn the_exponential_is_near_enough() {
        for step in 0..200_000_u32 {
            #[allow(clippy::cast_precision_loss)]
            let x = step as f32 / 1_500.0;
            let (got, right) = (f64::from(half_to_the(x)), 2.0_f64.powf(-f64::from(x.min(126.0))));
            assert!((got / right - 1.0).abs() < 5e-6, "2^-{x}: {got} for {right}");
        }
        assert!(half_to_the(f32::INFINITY) < 1e-37 && half_to_the(0.0) > 0.999_99);
    }

    fn ms(milliseconds: f64) -> u64 {
        Duration::from_secs_f64(milliseconds / 1e3).as_nanos().try_into().unwrap()
    }

    fn read(cell: &PeakEwma, at: f64) -> f64 {
        f64::from(cell.read(ms(at), TAU).unwrap()) / 1e6
    }

    #[test]
    fn lbs_peak_ewma_decays_by_its_formula() {
        let decay = Decay::over(Duration::from_secs(10));
        assert!((decay.0 - TAU.0).abs() < 1e-9 && Decay::from_bits(decay.to_bits()) == decay);
        let cell = PeakEwma::default();
        assert_eq!(cell.read(ms(5.0), TAU), None);
        cell.observe(0, ms(100.0), TAU);
        for (seconds, left) in
            [(0.0, 100.0), (1.0, 90.5), (5.0, 60.7), (6.931, 50.0), (10.0, 36.8), (30.0, 5.0)]
        {
            let read = read(&cell, seconds * 1e3);
            assert!((read - left).abs() < 0.06, "{seconds} s: {read}");
        }
        // After a second, a sample of 10 ms: 100 e^-0.1 + 10 (1 - e^-0.1).
        cell.observe(ms(1_000.0), ms(10.0), TAU);
        assert!((read(&cell, 1_000.0) - 91.44).abs() < 0.02);
        // A peak is taken at once, and whole.
        cell.observe(ms(1_001.0), ms(250.0), TAU);
        assert!((read(&cell, 1_001.0) - 250.0).abs() < 0.1);
    }

    #[test]
    fn time_that_goes_back_or_wraps_and_latencies_of_nothing_do_no_harm() {
        let cell = PeakEwma::default();
        cell.observe(ms(5_000.0), 0, TAU);
        assert_eq!(cell.read(ms(5_000.0), TAU), Some(1.0));
        cell.observe(ms(5_000.0), ms(7.0), TAU);
        // A reading from before is one of now.
        assert!((read(&cell, 1_000.0) - 7.0).abs() < 0.01);
        cell.observe(ms(1_000.0), ms(3.0), TAU);
        assert!((read(&cell, 1_000.0) - 7.0).abs() < 0.01);
        // The stamp wraps after 52 days.
        let days = |days: u64| days * 86_400 * 1_000_000_000;
        let cell = PeakEwma::default();
        cell.observe((1_u64 << 52) - 1, ms(7.0), TAU);
        let read = cell.read((1_u64 << 52) + ms(10_000.0), TAU).unwrap();
        assert!((read / 1e6 - 7.0 / std::f32::consts::E).abs() < 0.01, "{read}");
        assert!(cell.read(days(60), TAU).unwrap() < 1.0);
        cell.observe(u64::MAX, u64::MAX, Decay::over(Duration::ZERO));
        assert!(cell.read(u64::MAX, Decay::over(Duration::ZERO)).unwrap().is_finite());
        assert_eq!(cell.read(0, Decay::over(Duration::MAX)).map(f32::is_finite), Some(true));
    }

    #[test]
    fn ages_of_calls_in_flight_stand_in_for_answers_that_do_not_come() {
        let pace = Pace::default();
        assert_eq!(pace.latency(5, 0, TAU), None);
        pace.observe(ms(1.0), ms(10.0), TAU);
        pace.enter(ms(100.0));
        pace.enter(ms(200.0));
        let at = |now: f64, in_flight| pace.latency(ms(now), in_flight, TAU).unwrap() / 1e6;
        assert!((at(210.0, 2) - 60.0).abs() < 0.1, "the mean of 110 and 10 ms");
        assert!((at(1_150.0, 2) - 1_000.0).abs() < 0.1);
        pace.leave(ms(100.0));
        assert!((at(203.0, 1) - 9.8).abs() < 0.1, "an age below the mean says nothing");
        pace.leave(ms(200.0));
        assert!((at(203.0, 0) - 9.8).abs() < 0.1);
        // Who began before starts were summed has no age but that of the sum.
        pace.begin(ms(5_000.0));
        assert!((at(5_200.0, 1) - 200.0).abs() < 0.1);
        // Counts that do not fit together for a moment.
        assert!(pace.latency(0, 7, TAU).unwrap().is_finite());
        pace.enter(u64::MAX);
        assert!(pace.latency(3, 1, TAU).unwrap().is_finite());
    }
}
