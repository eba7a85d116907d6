use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Parts of the window: one sixtieth of what is known is forgotten at a time.
const SLOTS: usize = 60;

/// Throttling by the client itself: a call is refused, before anything is sent, with a chance that grows as the service
/// accepts fewer of them.
///
/// The chance is `max(0, (requests - K x accepts) / (requests + 1))` over the window, as in "Handling Overload" of Google's
/// book on site reliability engineering; those refused here count as requests. So calls are refused once fewer than one in K
/// is accepted, and a service that is asked for X times what it can do gets about K times that, whatever X is.
///
/// Defaults: K = 2, a window of 2 min, a floor of 0.05. **The floor** is the part of the calls that is sent in any case: without
/// it a service that is back would hardly be asked. With 0.05 the refusals end in the third window after it is back, with 0.4
/// in the first.
///
/// Clones share the counts; one is meant for one service. It is off unless a strategy is [wrapped](crate::call::Throttled) in it, or
/// `retry.adaptive-throttle.enabled` says so for the calls of [`call`](crate::call::call()) and the clients.
#[derive(Clone, Debug)]
pub struct AdaptiveThrottle {
    k: f64,
    floor: f64,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug)]
struct Counts {
    base: Instant,
    width: Duration,
    /// The slot of the last look, counted from `base`.
    at: u128,
    slots: [(u32, u32); SLOTS],
    requests: u64,
    accepts: u64,
}

impl Default for AdaptiveThrottle {
    fn default() -> Self {
        let counts = Arc::new(Mutex::new(Counts::over(Duration::from_secs(120))));
        Self { k: 2.0, floor: 0.05, counts }
    }
}

impl AdaptiveThrottle {
    /// K = 2, 2 min, a floor of 0.05.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets K, how many calls are sent for one that is accepted; at least 1, below which it would refuse calls of a sound
    /// service. Default: 2.
    #[must_use]
    pub fn with_k(mut self, k: f64) -> Self {
        self.k = if k.is_nan() { 2.0 } else { k.max(1.0) };
        self
    }

    /// Sets how long calls are counted, at least a second; the counts begin anew. Default: 2 min.
    #[must_use]
    pub fn with_window(mut self, window: Duration) -> Self {
        self.counts = Arc::new(Mutex::new(Counts::over(window.max(Duration::from_secs(1)))));
        self
    }

    /// Sets the part of the calls that is sent in any case, 0 to 1. Default: 0.05.
    #[must_use]
    pub fn with_floor(mut self, floor: f64) -> Self {
        self.floor = if floor.is_nan() { 0.05 } else { floor.clamp(0.0, 1.0) };
        self
    }

    /// The chance with which the next call is refused.
    pub fn chance(&self) -> f64 {
        let mut counts = self.counts.lock();
        counts.turn();
        self.chance_of(&counts)
    }

    #[allow(clippy::cast_precision_loss)] // 2^53 calls in a window are enough
    fn chance_of(&self, counts: &Counts) -> f64 {
        let (requests, accepts) = (counts.requests as f64, counts.accepts as f64);
        let refused = (requests - self.k * accepts) / (requests + 1.0);
        refused.clamp(0.0, 1.0 - self.floor)
    }

    /// Whether a call may be sent; `random` is any number, each alike. One that may not is counted.
    pub fn admits(&self, random: u64) -> bool {
        let mut counts = self.counts.lock();
        counts.turn();
        #[allow(clippy::cast_precision_loss)] // a chance needs no more than 53 bits
        let drawn = random as f64 / u64::MAX as f64;
        let chance = self.chance_of(&counts);
        let admitted = chance <= 0.0 || drawn >= chance;
        if !admitted {
            counts.add(false);
        }
        admitted
    }

    /// A call that was sent is over; the service did its work, or it did not.
    pub fn ended(&self, accepted: bool) {
        let mut counts = self.counts.lock();
        counts.turn();
        counts.add(accepted);
    }
}

impl Counts {
    fn over(window: Duration) -> Self {
        let width = window / 60;
        Self { base: Instant::now(), width, at: 0, slots: [(0, 0); SLOTS], requests: 0, accepts: 0 }
    }

    /// Forgets what is too old.
    fn turn(&mut self) {
        let now =
            Instant::now().saturating_duration_since(self.base).as_nanos() / self.width.as_nanos().max(1);
        let passed = now.saturating_sub(self.at).min(SLOTS as u128);
        for _ in 0..passed {
            self.at += 1;
            let (requests, accepts) = std::mem::take(self.slot());
            self.requests -= u64::from(requests);
            self.accepts -= u64::from(accepts);
        }
        // After a long rest all slots are empty.
        if self.at < now {
            let behind = now - self.at;
            self.base += self.width * u32::try_from(behind).unwrap_or(u32::MAX);
        }
    }

    fn slot(&mut self) -> &mut (u32, u32) {
        let at = usize::try_from(self.at % SLOTS as u128).unwrap_or_default();
        &mut self.slots[at]
    }

    fn add(&mut self, accepted: bool) {
        let (requests, accepts) = self.slot();
        if *requests < u32::MAX {
            *requests += 1;
            *accepts += u32::from(accepted);
            self.requests += 1;
            self.accepts += u64::from(accepted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(k: f64, requests: u32, accepts: u32) -> f64 {
        let throttle = AdaptiveThrottle::default().with_k(k).with_floor(0.0);
        (0..requests).for_each(|at| throttle.ended(at < accepts));
        throttle.chance()
    }

    #[tokio::test(start_paused = true)]
    async fn lbs_sre_chances_of_refusal() {
        for (k, requests, accepts, chance) in [
            (2.0, 0, 0, 0.0),
            (2.0, 100, 100, 0.0),
            (2.0, 100, 50, 0.0),
            (2.0, 100, 40, 0.198),
            (2.0, 100, 25, 0.495),
            (2.0, 100, 10, 0.792),
            (2.0, 100, 0, 0.990),
            (2.0, 10, 0, 0.909),
            (1.5, 100, 50, 0.248),
            (1.5, 100, 25, 0.619),
            (1.1, 100, 50, 0.446),
            (f64::NAN, 100, 40, 0.198),
            (0.1, 100, 100, 0.0),
        ] {
            let got = after(k, requests, accepts);
            assert!((got - chance).abs() < 0.000_5, "K {k}, {accepts} of {requests}: {got}");
        }
        let throttle = AdaptiveThrottle::default();
        (0..1_000).for_each(|_| throttle.ended(false));
        assert!((throttle.chance() - 0.95).abs() < 1e-9, "the floor");
        assert!(throttle.admits(u64::MAX) && !throttle.admits(0));
        assert!(throttle.with_floor(1.0).admits(0));
    }

    #[tokio::test(start_paused = true)]
    async fn the_window_forgets() {
        let throttle = AdaptiveThrottle::default().with_window(Duration::from_secs(60)).with_floor(0.0);
        (0..100).for_each(|_| throttle.ended(false));
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(throttle.chance() > 0.9);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(throttle.chance() <= 0.0);
        // A rest of a year is no loop of a year.
        tokio::time::advance(Duration::from_secs(366 * 86_400)).await;
        (0..100).for_each(|_| throttle.ended(false));
        assert!(throttle.chance() > 0.9);
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(throttle.chance() <= 0.0);
    }

    /// A client that offers so much of what a service can do, for so many windows; the parts refused here and served in the last.
    async fn offered(throttle: &AdaptiveThrottle, times: u32, windows: u32) -> (f64, f64) {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut refused, mut served, mut all) = (0, 0, 0);
        for window in 0..windows {
            (refused, served, all) = (0, 0, 0);
            for _tick in 0..600 {
                tokio::time::advance(Duration::from_millis(100)).await;
                // It can do ten a tick.
                let mut room = 10;
                for _ in 0..10 * times {
                    all += 1;
                    if throttle.admits(random.u64(..)) {
                        throttle.ended(room > 0);
                        served += u32::from(room > 0);
                        room = u32::saturating_sub(room, 1);
                    } else {
                        refused += 1;
                    }
                }
            }
            let _ = window;
        }
        (f64::from(refused) / f64::from(all), f64::from(served) / f64::from(all))
    }

    #[tokio::test(start_paused = true)]
    async fn lbs_sre_steady_state_refuses_all_but_k_times_the_capacity() {
        for (times, part) in [(1, 0.0), (3, 0.333), (5, 0.6), (10, 0.8)] {
            let throttle = AdaptiveThrottle::default().with_window(Duration::from_secs(60));
            let (refused, served) = offered(&throttle, times, 4).await;
            assert!((refused - part).abs() < 0.03, "{times} times: {refused} refused");
            // And the service has enough to do.
            assert!(served > 0.97 / f64::from(times), "{times} times: {served} served");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lbs_sre_a_service_that_is_back_is_used_again() {
        for (floor, windows) in [(0.05, 4), (0.4, 2)] {
            let throttle = AdaptiveThrottle::default().with_window(Duration::from_secs(60)).with_floor(floor);
            for _ in 0..600 {
                tokio::time::advance(Duration::from_millis(100)).await;
                (0..10).filter(|at| throttle.admits(u64::MAX / 10 * at)).for_each(|_| throttle.ended(false));
            }
            assert!((throttle.chance() - (1.0 - floor)).abs() < 0.01);
            // The last of the windows is the first without refusals.
            let (refused, served) = offered(&throttle, 1, windows).await;
            assert!(refused < 0.01 && served >= 0.99, "floor {floor}: {refused} refused, {served} served");
        }
    }
}
