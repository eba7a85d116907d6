//! Bounded loads: no instance has more than its share of the calls in flight times a factor.

/// The share that an instance may have, in percent of the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Factor(u32);

impl Factor {
    /// Below 100 there would be no room for all calls: it counts as 100.
    pub(super) fn percent(percent: u32) -> Self {
        Self(percent.max(100))
    }
}

/// The calls in flight to the instances that may be picked, and their weight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    pub(super) active: u64,
    pub(super) weight: u64,
}

impl Load {
    pub(super) fn add(&mut self, active: u32, weight: u64) {
        self.active += u64::from(active);
        self.weight += weight;
    }

    /// How many calls an instance of this weight may have in flight: its part of all, the one to come included, times the
    /// factor, both rounded up, and at least 1. Envoy's formula; but it is full when it has so many, not one more.
    pub(super) fn slots(self, factor: Factor, weight: u64) -> u64 {
        let total = (u128::from(self.active) + 1).saturating_mul(u128::from(factor.0)).div_ceil(100);
        let slots = total.saturating_mul(u128::from(weight)).div_ceil(u128::from(self.weight.max(1)));
        u64::try_from(slots).unwrap_or(u64::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lbs_slots_of_a_bounded_load() {
        for (active, hosts, factor, slots) in [
            // 101 x 1.25 = 126.25, so 127 in all.
            (100, 10, 125, 13),
            (10, 3, 125, 5),
            (0, 5, 125, 1),
            (0, 1, 100, 1),
            (9, 10, 100, 1),
            (10, 10, 100, 2),
        ] {
            assert_eq!(Load { active, weight: hosts }.slots(Factor::percent(factor), 1), slots, "{active}");
        }
        let load = Load { active: 99, weight: 4 };
        assert_eq!([1, 3].map(|weight| load.slots(Factor::percent(100), weight)), [25, 75]);
        let huge = Load { active: u64::MAX, weight: u64::MAX };
        assert_eq!(huge.slots(Factor::percent(u32::MAX), u64::MAX), u64::MAX, "no overflow");
        assert_eq!(Factor::percent(3), Factor::percent(100));
        assert_eq!(Load::default().slots(Factor::percent(100), 0), 1);
    }
}
