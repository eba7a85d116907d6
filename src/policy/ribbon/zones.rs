//! Which zones are fit to be picked from: Ribbon's rule, as a pure function.

/// What is known of a zone at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ZoneSnapshot {
    pub(super) instances: u32,
    /// Of those, out of use.
    pub(super) tripped: u32,
    /// Calls in flight to the others.
    pub(super) active: u32,
}

/// What comes of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing is picked from it.
    Dropped,
    Kept,
    /// Kept, but none is loaded more: one of these may be left out.
    Worst,
}

/// When a zone is left out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds {
    /// From this load per instance on, one of the zones with the most is.
    pub(super) triggering_load: f64,
    /// From this part of its instances out of use on, it is.
    pub(super) blackout: f64,
    /// Whether one of the worst is left out, whatever its load, when another was dropped.
    pub(super) exact: bool,
}

/// Loads that differ by less are alike.
const ALIKE: f64 = 1e-6;

impl ZoneSnapshot {
    /// Calls in flight per instance in use; `None` when none is.
    pub(super) fn load(self) -> Option<f64> {
        let usable = self.instances.saturating_sub(self.tripped);
        (usable > 0).then(|| f64::from(self.active) / f64::from(usable))
    }

    /// Its load, if it is not dropped.
    fn kept(self, thresholds: Thresholds) -> Option<f64> {
        let out = f64::from(self.tripped) / f64::from(self.instances.max(1));
        self.load().filter(|_| out < thresholds.blackout)
    }
}

/// The verdict on each zone, and whether one of the worst is to be left out.
pub(super) fn judge(
    zones: impl ExactSizeIterator<Item = ZoneSnapshot> + Clone,
    thresholds: Thresholds,
    mut verdict: impl FnMut(usize, Verdict),
) -> bool {
    if zones.len() <= 1 {
        // The only zone is the one to pick from, however it is.
        (0..zones.len()).for_each(|at| verdict(at, Verdict::Kept));
        return false;
    }
    let (mut most, mut kept) = (0.0_f64, 0);
    let all = zones.len();
    for load in zones.clone().filter_map(|zone| zone.kept(thresholds)) {
        (most, kept) = (most.max(load), kept + 1);
    }
    for (at, zone) in zones.enumerate() {
        verdict(
            at,
            match zone.kept(thresholds) {
                None => Verdict::Dropped,
                Some(load) if most - load < ALIKE => Verdict::Worst,
                Some(_) => Verdict::Kept,
            },
        );
    }
    if thresholds.exact {
        most >= thresholds.triggering_load || kept < all
    } else {
        // The last one stays, however loaded.
        most >= thresholds.triggering_load && kept > 1
    }
}

/// Which of the worst zones is left out: each in proportion to its instances. `random` is one draw.
pub(super) fn draw(worst: impl Iterator<Item = (usize, u32)> + Clone, random: u64) -> Option<usize> {
    let sum: u64 = worst.clone().map(|(_, instances)| u64::from(instances)).sum();
    let mut left = (u128::from(random) * u128::from(sum)) >> 64;
    worst.into_iter().find_map(|(zone, instances)| match left.checked_sub(u128::from(instances)) {
        Some(less) => {
            left = less;
            None
        }
        None => Some(zone),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Dropped, Kept, Worst};

    fn of(zones: &[(u32, u32, u32)], exact: bool) -> (Vec<Verdict>, bool) {
        let thresholds = Thresholds { triggering_load: 0.2, blackout: 0.99999, exact };
        let zones: Vec<_> = zones
            .iter()
            .map(|(instances, tripped, active)| ZoneSnapshot {
                instances: *instances,
                tripped: *tripped,
                active: *active,
            })
            .collect();
        let mut verdicts = vec![Kept; zones.len()];
        let remove = judge(zones.iter().copied(), thresholds, |at, verdict| verdicts[at] = verdict);
        (verdicts, remove)
    }

    #[test]
    fn ribbon_037_the_most_loaded_zone_is_left_out() {
        assert_eq!(of(&[(3, 0, 0), (4, 0, 8), (3, 0, 3)], true), (vec![Kept, Worst, Kept], true));
    }

    #[test]
    fn ribbon_044_a_dropped_zone_takes_another_along_in_ribbon_alone() {
        let zones = [(2, 2, 0), (2, 0, 0), (2, 0, 0)];
        assert_eq!(of(&zones, true), (vec![Dropped, Worst, Worst], true));
        assert_eq!(of(&zones, false), (vec![Dropped, Worst, Worst], false));
    }

    #[test]
    fn the_last_zone_is_not_left_out_for_its_load() {
        let zones = [(2, 2, 0), (2, 0, 4)];
        assert_eq!(of(&zones, false), (vec![Dropped, Worst], false));
        assert_eq!(of(&zones, true), (vec![Dropped, Worst], true));
    }

    #[test]
    fn ribbon_047_a_zone_is_dropped_when_all_of_it_is_out() {
        assert_eq!(of(&[(3, 3, 0), (3, 2, 0), (3, 0, 0)], false).0, [Dropped, Worst, Worst]);
        assert_eq!(of(&[(0, 0, 0), (3, 0, 0)], false).0, [Dropped, Worst], "an empty one, too");
    }

    #[test]
    fn ribbon_048_the_load_is_per_instance_in_use() {
        assert_eq!(ZoneSnapshot { instances: 4, tripped: 1, active: 3 }.load(), Some(1.0));
        assert_eq!(ZoneSnapshot { instances: 4, tripped: 4, active: 0 }.load(), None);
    }

    #[test]
    fn ribbon_049_the_only_zone_is_used_however_it_is() {
        assert_eq!(of(&[(3, 3, 9)], true), (vec![Kept], false));
        assert_eq!(of(&[], true), (vec![], false));
    }

    #[test]
    fn ribbon_050_of_equally_loaded_zones_the_larger_is_left_out_more_often() {
        let worst = [(1, 2), (2, 6)];
        let draws = (0..8_u64).map(|eighth| draw(worst.into_iter(), (eighth << 61) + 7));
        let larger = draws.filter(|zone| *zone == Some(2)).count();
        assert_eq!(larger, 6);
        assert_eq!(draw([].into_iter(), 5), None);
        assert_eq!(draw([(4, 1)].into_iter(), u64::MAX), Some(4));
    }
}
