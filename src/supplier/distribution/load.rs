//! How the traffic is divided among priorities, and which of them are in panic.
//!
//! The integer arithmetic of Envoy's `LoadBalancerBase` (`recalculatePerPriorityState` and what it calls), so that a
//! fleet of both agrees to the percent.

/// The instances of one priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// All that are listed, those that may not be called included.
    pub(super) listed: u64,
    /// Those that may be called if need be: not down.
    pub(super) callable: u64,
    pub(super) healthy: u64,
    pub(super) degraded: u64,
}

/// What one priority gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// How much of the whole traffic it could take, in percent.
    pub(super) health: u64,
    /// What its healthy instances get: parts of the sum over all priorities.
    pub(super) healthy: u64,
    /// What its degraded ones get.
    pub(super) degraded: u64,
    /// All of its instances are used.
    pub(super) panic: bool,
}

/// What all of them get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Loads {
    pub(super) of: Vec<Load>,
    /// All are in panic: the parts are numbers of instances.
    pub(super) total_panic: bool,
}

/// `factor` is how much more than its fair part a priority's instances can take, in percent; `threshold` the share of
/// usable instances, in percent, below which a priority is in panic, where 0 is never.
///
/// health = min(100, factor * usable / listed), rounded down; load = 100 * health / sum of healths, rounded down, as far as
/// there is any left, degraded instances after all healthy ones; what rounding leaves goes to the first priority that has
/// anybody.
pub(super) fn loads(counts: &[Counts], factor: u64, threshold: u64) -> Loads {
    let health = |usable: u64, listed: u64| {
        (factor.saturating_mul(usable)).checked_div(listed).unwrap_or_default().min(100)
    };
    let healthy: Vec<u64> = counts.iter().map(|of| health(of.healthy, of.listed)).collect();
    let degraded: Vec<u64> = counts.iter().map(|of| health(of.degraded, of.listed)).collect();
    let total = healthy.iter().chain(&degraded).sum::<u64>().min(100);
    let mut of: Vec<Load> = counts
        .iter()
        .zip(healthy.iter().zip(&degraded))
        .map(|(of, (healthy, degraded))| {
            // In hundredths of a percent of all, as whole numbers: usable / listed < threshold / 100.
            let few = (of.healthy + of.degraded).saturating_mul(100) < threshold.saturating_mul(of.listed);
            let panic = total < 100 && few;
            Load { health: (healthy + degraded).min(100), healthy: 0, degraded: 0, panic }
        })
        .collect();
    if !of.is_empty() && of.iter().all(|load| load.panic) {
        for (load, counts) in of.iter_mut().zip(counts) {
            load.healthy = counts.callable;
        }
        return Loads { of, total_panic: true };
    }
    let mut rest = 100;
    let mut share = |health: u64| {
        let load = (100 * health).checked_div(total).unwrap_or_default().min(rest);
        rest -= load;
        load
    };
    for (load, health) in of.iter_mut().zip(&healthy) {
        load.healthy = share(*health);
    }
    for (load, health) in of.iter_mut().zip(&degraded) {
        load.degraded = share(*health);
    }
    // A health that was rounded down to nothing is still somebody, if there is nobody else.
    let first = |health: &[u64], usable: fn(&Counts) -> u64| {
        let with = |at: &usize| if total > 0 { health[*at] > 0 } else { usable(&counts[*at]) > 0 };
        (0..counts.len()).find(with)
    };
    if let Some(at) = first(&healthy, |of| of.healthy) {
        of[at].healthy += rest;
    } else if let Some(at) = first(&degraded, |of| of.degraded) {
        of[at].degraded += rest;
    }
    Loads { of, total_panic: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// So many percent healthy, and so many degraded, of 100.
    fn of(percents: &[(u64, u64)]) -> Vec<Counts> {
        let one = |&(healthy, degraded)| Counts { listed: 100, callable: 100, healthy, degraded };
        percents.iter().map(one).collect()
    }

    /// Healths, loads of healthy and of degraded ones, panics.
    type Row = (Vec<u64>, Vec<u64>, Vec<u64>, Vec<bool>);

    fn row(counts: &[Counts], threshold: u64) -> Row {
        let of = loads(counts, 140, threshold).of;
        (
            of.iter().map(|load| load.health).collect(),
            of.iter().map(|load| load.healthy).collect(),
            of.iter().map(|load| load.degraded).collect(),
            of.iter().map(|load| load.panic).collect(),
        )
    }

    #[test]
    fn lbs_the_table_of_priorities() {
        const NO: bool = false;
        const YES: bool = true;
        for (healthy, health, load, panic) in [
            (&[72, 100][..], &[100, 100][..], &[100, 0][..], &[NO, NO][..]),
            (&[71, 100], &[99, 100], &[99, 1], &[NO, NO]),
            (&[50, 100], &[70, 100], &[70, 30], &[NO, NO]),
            (&[25, 100], &[35, 100], &[35, 65], &[NO, NO]),
            (&[0, 100], &[0, 100], &[0, 100], &[NO, NO]),
            (&[50, 60], &[70, 84], &[70, 30], &[NO, NO]),
            // In total panic the parts are numbers of instances: 100 of each.
            (&[25, 25], &[35, 35], &[100, 100], &[YES, YES]),
            (&[5, 65], &[7, 91], &[8, 92], &[YES, NO]),
            (&[25, 25, 100], &[35, 35, 100], &[35, 35, 30], &[NO, NO, NO]),
            (&[25, 25, 20], &[35, 35, 28], &[100, 100, 100], &[YES, YES, YES]),
        ] {
            let counts = of(&healthy.iter().map(|healthy| (*healthy, 0)).collect::<Vec<_>>());
            let (is_health, is_load, _, is_panic) = row(&counts, 50);
            assert_eq!((&*is_health, &*is_load, &*is_panic), (health, load, panic), "{healthy:?}");
        }
        // The same without panic: what rounding leaves goes to the first.
        let counts = of(&[(25, 0), (25, 0), (20, 0)]);
        assert_eq!(row(&counts, 0), (vec![35, 35, 28], vec![37, 35, 28], vec![0; 3], vec![NO; 3]));
    }

    #[test]
    fn lbs_degraded_ones_come_after_all_healthy_ones() {
        for (given, healthy, degraded) in [
            (&[(100, 0), (100, 0)][..], &[100, 0][..], &[0, 0][..]),
            (&[(50, 50)], &[70], &[30]),
            (&[(20, 80), (50, 0)], &[28, 70], &[2, 0]),
            (&[(0, 100), (100, 0)], &[0, 100], &[0, 0]),
            (&[(0, 40)], &[0], &[100]),
            (&[(0, 20), (0, 20)], &[0, 0], &[50, 50]),
        ] {
            let (_, is_healthy, is_degraded, _) = row(&of(given), 0);
            assert_eq!((&*is_healthy, &*is_degraded), (healthy, degraded), "{given:?}");
        }
    }

    #[test]
    fn lbs_the_edges_of_panic() {
        // 49 of 100 are below the threshold of 50, 50 are not; with enough elsewhere nobody panics.
        assert_eq!(row(&of(&[(50, 0)]), 50).3, [false]);
        assert_eq!(row(&of(&[(49, 0)]), 50).3, [true]);
        assert_eq!(row(&of(&[(49, 0), (50, 0)]), 50).3, [false, false]);
        assert_eq!(row(&of(&[(30, 19)]), 50).3, [true]);
        assert_eq!(row(&of(&[(30, 20)]), 50).3, [false]);
        // Nobody is usable: everybody is used, unless that is switched off.
        assert_eq!(row(&of(&[(0, 0)]), 1).3, [true]);
        assert_eq!(row(&of(&[(0, 0)]), 0), (vec![0], vec![0], vec![0], vec![false]));
        // The part of a priority in total panic is that of those that may be called at all.
        let few = [Counts { listed: 10, callable: 4, healthy: 0, degraded: 0 }];
        assert_eq!(loads(&few, 140, 50).of[0].healthy, 4);
        assert_eq!(loads(&[], 140, 50), Loads::default());
        // 7 of 1000 are a health of 0, rounded down, and take all there is when nobody else can.
        let one = |healthy, degraded| Counts { listed: 1_000, callable: 1_000, healthy, degraded };
        assert_eq!(row(&[one(0, 7), one(7, 0)], 0).1, [0, 100]);
        assert_eq!(row(&[one(0, 7), one(0, 0)], 0).2, [100, 0]);
    }

    proptest! {
        #[test]
        fn every_percent_goes_somewhere(
            given in proptest::collection::vec((0_u64..=u64::MAX, 0_u64..=60, 0_u64..=60), 0..8),
            factor in 100_u64..=10_000,
            threshold in 0_u64..=100,
        ) {
            let counts: Vec<Counts> = given
                .iter()
                .map(|&(more, healthy, degraded)| {
                    let listed = (healthy + degraded).saturating_add(more % 200);
                    Counts { listed, callable: listed, healthy, degraded }
                })
                .collect();
            let loads = loads(&counts, factor, threshold);
            prop_assert_eq!(loads.of.len(), counts.len());
            let usable = counts.iter().any(|of| of.healthy + of.degraded > 0);
            let sum: u64 = loads.of.iter().map(|load| load.healthy + load.degraded).sum();
            if !loads.total_panic {
                prop_assert_eq!(sum, if usable { 100 } else { 0 });
                for (load, of) in loads.of.iter().zip(&counts) {
                    prop_assert!(of.healthy > 0 || load.healthy == 0);
                    prop_assert!(of.degraded > 0 || load.degraded == 0);
                }
            }
        }
    }
}
