use parking_lot::Mutex;

use crate::sync::{AtomicU64, Ordering};

/// Seconds over which calls and retries are counted.
///
/// Ten, as in Finagle's retry budget, whose idea this is: long enough that a service with one call a second has an
/// account, short enough that the calls of a good hour do not pay for a storm.
const WINDOW: u32 = 10;

/// How many retries all calls of a service may have: a part of the calls of the last ten seconds, and a few in any case.
///
/// In whole numbers throughout: a call adds `percent`, a retry takes 100. So what was granted in a window is never more than
/// `percent / 100` of its calls and the reserve of ten seconds, for every percentage.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    calls: [Slot; WINDOW as usize],
    retries: [Slot; WINDOW as usize],
    /// Held to take one only: two at once must not take the same.
    taking: Mutex<()>,
}

/// A second's count: the second in the upper half, the count in the lower.
#[derive(Debug, Default)]
struct Slot(AtomicU64);

impl Slot {
    fn add(&self, second: u32) {
        let fresh = u64::from(second) << 32;
        let add = |word: u64| {
            // A caller that was held up between its clock read and this counts in the newer second: it takes nothing away.
            Some(if word >> 32 < u64::from(second) {
                fresh | 1
            } else if word & u64::from(u32::MAX) == u64::from(u32::MAX) {
                word
            } else {
                word + 1
            })
        };
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Takes one away; whether there was one in the window.
    fn remove(&self, now: u32) -> bool {
        let less = |word: u64| (self.count(now) > 0).then(|| word.saturating_sub(1));
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn count(&self, now: u32) -> u64 {
        let word = self.0.load(Ordering::Relaxed);
        let second = word >> 32;
        // A second that is ahead was counted by a caller whose clock read came a moment later.
        let age = u64::from(now).saturating_sub(second);
        if age < u64::from(WINDOW) { word & u64::from(u32::MAX) } else { 0 }
    }
}

impl Budget {
    /// A call began at `second`.
    pub(crate) fn deposit(&self, second: u32) {
        self.calls[(second % WINDOW) as usize].add(second);
    }

    /// Takes a retry, if one is left.
    pub(crate) fn withdraw(&self, second: u32, percent: u32, min_per_second: u32) -> bool {
        let sum = |slots: &[Slot; WINDOW as usize]| slots.iter().map(|slot| slot.count(second)).sum::<u64>();
        let _taking = self.taking.lock();
        let earned = sum(&self.calls).saturating_mul(u64::from(percent));
        let reserve = u64::from(min_per_second) * u64::from(WINDOW) * 100;
        let spent = sum(&self.retries) * 100;
        let left = earned.saturating_add(reserve) >= spent.saturating_add(100);
        if left {
            self.retries[(second % WINDOW) as usize].add(second);
        }
        left
    }

    /// Gives back a retry that was taken a moment ago and did not begin.
    pub(crate) fn give_back(&self, second: u32) {
        let _taking = self.taking.lock();
        let _ = (0..WINDOW).any(|age| {
            let at = second.saturating_sub(age);
            self.retries[(at % WINDOW) as usize].remove(second)
        });
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_quiet_service_has_the_reserve_and_no_more() {
        let budget = Budget::default();
        let granted = |second| (0..1_000).filter(|_| budget.withdraw(second, 20, 10)).count();
        assert_eq!((granted(0), granted(9)), (100, 0));
        // The retries of second 0 are forgotten in second 10.
        assert_eq!(granted(10), 100);
        assert_eq!((0..9).filter(|_| Budget::default().withdraw(0, 0, 0)).count(), 0);
    }

    #[test]
    fn calls_pay_for_retries_as_long_as_they_are_in_the_window() {
        let budget = Budget::default();
        for _ in 0..100 {
            budget.deposit(3);
        }
        assert_eq!((0..100).filter(|_| budget.withdraw(12, 20, 0)).count(), 20);
        assert!(!budget.withdraw(13, 20, 0), "the calls of second 3 are forgotten in second 13");
        assert!(!budget.withdraw(u32::MAX, 20, 0));
    }

    #[test]
    fn what_is_given_back_can_be_taken_again_and_no_more_than_was_taken() {
        let budget = Budget::default();
        let granted = |second| (0..1_000).filter(|_| budget.withdraw(second, 0, 1)).count();
        budget.give_back(0);
        assert_eq!((granted(0), granted(3)), (10, 0));
        // Also when a pause lies between.
        (0..4).for_each(|_| budget.give_back(7));
        assert_eq!(granted(7), 4);
        budget.give_back(40);
        assert_eq!(granted(40), 10);
        (0..99).for_each(|_| budget.give_back(u32::MAX));
        assert_eq!(granted(u32::MAX), 10);
    }

    #[test]
    fn a_caller_that_was_held_up_forgets_no_retry_of_a_newer_second() {
        let budget = Budget::default();
        let granted = |second| (0..1_000).filter(|_| budget.withdraw(second, 20, 10)).count();
        assert_eq!(granted(20), 100);
        // Its clock said 10, in whose slot second 20 counts now.
        assert!(!budget.withdraw(10, 20, 10));
        budget.retries[0].add(10);
        assert_eq!(granted(20), 0);
        budget.deposit(20);
        assert!(budget.withdraw(20, u32::MAX, u32::MAX));
    }

    #[test]
    fn lbs_budget_is_exact_for_every_ratio() {
        for percent in 1..100 {
            let budget = Budget::default();
            (0..1_000).for_each(|at| budget.deposit(at / 100));
            let granted = (0..2_000).filter(|_| budget.withdraw(9, percent, 0)).count();
            assert_eq!(granted, percent as usize * 10, "{percent} %");
        }
    }

    #[test]
    fn lbs_budget_of_a_steady_service_is_its_part_and_the_reserve() {
        let budget = Budget::default();
        let mut granted = Vec::new();
        for second in 0..60_u32 {
            // Every one of a hundred calls a second fails and wants a retry.
            for _ in 0..100 {
                budget.deposit(second);
                granted.extend(budget.withdraw(second, 20, 10).then_some(second));
            }
        }
        for end in 10..=60 {
            let window = granted.iter().filter(|at| (end - 10..end).contains(*at)).count();
            assert_eq!(window, 300, "the ten seconds before {end}");
        }
    }

    proptest! {
        #[test]
        fn no_window_grants_more_than_its_part(
            percent in 1..100_u32,
            reserve in 0..3_u32,
            steps in prop::collection::vec((0..3_u32, prop::bool::ANY), 1..400),
        ) {
            let budget = Budget::default();
            let (mut now, mut calls, mut granted) = (0, Vec::new(), Vec::new());
            for (pass, retry) in steps {
                now += pass;
                if retry {
                    if budget.withdraw(now, percent, reserve) {
                        granted.push(now);
                    }
                } else {
                    budget.deposit(now);
                    calls.push(now);
                }
                let within = |all: &[u32]| all.iter().filter(|at| now - **at < WINDOW).count() as u64;
                let most = within(&calls) * u64::from(percent) + u64::from(reserve) * u64::from(WINDOW) * 100;
                // What was granted against calls that the window has lost since is no new grant.
                if granted.last() == Some(&now) && retry {
                    prop_assert!(within(&granted) * 100 <= most);
                }
            }
        }
    }
}
