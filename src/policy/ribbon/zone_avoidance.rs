use std::borrow::Cow;
use std::collections::HashMap;

use super::availability::Available;
use super::zones::{Thresholds, Verdict, ZoneSnapshot, draw, judge};
use crate::policy::round_robin::Weighted;
use crate::policy::scan::preferring;
use crate::policy::{Candidates, PickCx, Picker, Policy, Rotation};
use crate::sync::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// A round robin that leaves out zones which are out of use or loaded most: Ribbon's `ZoneAvoidanceRule`.
///
/// A zone is left out when all of its instances are out of use ([`with_blackout_share`](Self::with_blackout_share)). When the
/// most loaded zone has [`with_triggering_load`](Self::with_triggering_load) calls in flight per instance (default 0.2), it is
/// left out as well; of equally loaded ones one by chance for each pick. Inside the zones that are left it is
/// [`AvailabilityFiltering`](crate::policy::AvailabilityFiltering). If nobody is available there, whoever is available
/// anywhere is picked from, and then whoever is in use. An instance without a zone is in all of them; names of zones are
/// compared without case.
///
/// This one treats all zones alike. To stay in the own zone, use the stage
/// [`with_zone_preference`](crate::SupplierBuilder::with_zone_preference).
///
/// Zones are looked at anew once in so many picks as there are eights of instances, so a pick looks at some eight of them.
///
/// ```
/// use evenkeel::policy::ZoneAvoidance;
///
/// let policy = ZoneAvoidance::default().with_triggering_load(0.5).with_active_limit(100);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ZoneAvoidance {
    triggering_load: f64,
    blackout: f64,
    limit: Option<u32>,
    least: (u32, f64),
    exact: bool,
}

impl Default for ZoneAvoidance {
    fn default() -> Self {
        Self { triggering_load: 0.2, blackout: 0.99999, limit: None, least: (1, 0.0), exact: false }
    }
}

impl ZoneAvoidance {
    /// As Ribbon has it: failures count only when they put an instance out of use; with one zone out of use, another one is
    /// left out even if nothing is loaded; zones are looked at for each pick; and the first pick is the first instance.
    pub fn exact() -> Self {
        Self { exact: true, ..Self::default() }
    }

    /// From how many calls in flight per instance on the most loaded zone is left out (default 0.2).
    #[must_use]
    pub fn with_triggering_load(mut self, load: f64) -> Self {
        self.triggering_load = load;
        self
    }

    /// From what part of its instances out of use on a zone is left out (default 0.99999, so all of them).
    #[must_use]
    pub fn with_blackout_share(mut self, share: f64) -> Self {
        self.blackout = share;
        self
    }

    /// How many calls in flight make an instance busy (default: no limit).
    #[must_use]
    pub fn with_active_limit(mut self, limit: impl Into<Option<u32>>) -> Self {
        self.limit = limit.into();
        self
    }

    /// How many instances must be available in the zones that are left, at least so many and more than this part of all, or
    /// every zone is used (default 1 and 0; Ribbon: `minFilteredServers`, `minFilteredPercentage`).
    #[must_use]
    pub fn with_min_available(mut self, instances: u32, share: f64) -> Self {
        self.least = (instances, share);
        self
    }
}

impl Policy for ZoneAvoidance {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("zone-avoidance")
    }

    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        let available = Available { limit: self.limit.unwrap_or(u32::MAX), exact: self.exact };
        let mut names = HashMap::new();
        let zone_of: Box<[u32]> = (0..set.len())
            .map(|at| {
                let instance = set.instance(at);
                let Some(zone) = instance.zone() else { return NONE };
                let next = u32::try_from(names.len()).unwrap_or(NONE);
                *names.entry(zone.to_ascii_lowercase()).or_insert(next)
            })
            .collect();
        // The last one is for those without a zone.
        let mut zones: Box<[Zone]> = (0..=names.len()).map(|_| Zone::default()).collect();
        let none = names.len();
        for (at, zone) in (0..).zip(&zone_of) {
            zones[(*zone as usize).min(none)].members.push(at);
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let above = (set.len() as f64 * self.least.1) as u32;
        Box::new(Avoiding {
            thresholds: Thresholds {
                triggering_load: self.triggering_load,
                blackout: self.blackout,
                exact: self.exact,
            },
            available,
            least: self.least.0.max(above.saturating_add(1)),
            zone_of,
            seen: Seen { zones, leave_out: AtomicU8::new(0) },
            every: if self.exact { 1 } else { (set.len() as u64 / 8).max(1) },
            picks: AtomicU64::new(0),
            wheel: Weighted::of(set),
        })
    }

    fn start(&self, random: u64) -> u64 {
        if self.exact { 0 } else { random }
    }
}

/// The zone of an instance without one.
const NONE: u32 = u32::MAX;

const DROPPED: u8 = 0;
const KEPT: u8 = 1;
const WORST: u8 = 2;

/// What was seen of a zone last. Written by one pick while others read: each number is right by itself, and what does not fit
/// together is mended by the next look.
#[derive(Default)]
struct Zone {
    members: Vec<u32>,
    tripped: AtomicU32,
    active: AtomicU32,
    /// How many would be picked.
    available: AtomicU32,
    verdict: AtomicU8,
}

impl Zone {
    fn snapshot(&self) -> ZoneSnapshot {
        ZoneSnapshot {
            instances: self.instances(),
            tripped: self.tripped.load(Ordering::Relaxed),
            active: self.active.load(Ordering::Relaxed),
        }
    }

    fn instances(&self) -> u32 {
        u32::try_from(self.members.len()).unwrap_or(u32::MAX)
    }

    fn verdict(&self) -> u8 {
        self.verdict.load(Ordering::Relaxed)
    }

    fn available(&self) -> u32 {
        self.available.load(Ordering::Relaxed)
    }
}

/// All zones as they were seen last; the last one is for those without a zone.
struct Seen {
    zones: Box<[Zone]>,
    /// Whether one of the worst zones is left out.
    leave_out: AtomicU8,
}

impl Seen {
    /// Those with a name.
    fn named(&self) -> &[Zone] {
        &self.zones[..self.zones.len() - 1]
    }

    /// The same zones, not looked at yet.
    fn anew(&self) -> Self {
        let zone = |zone: &Zone| Zone { members: zone.members.clone(), ..Zone::default() };
        Self { zones: self.zones.iter().map(zone).collect(), leave_out: AtomicU8::new(0) }
    }

    /// The zone that this pick leaves out beside those that are dropped.
    fn avoided(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        if self.leave_out.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let worst = self.named().iter().enumerate().filter(|(_, zone)| zone.verdict() == WORST);
        draw(worst.map(|(at, zone)| (at, zone.instances())), cx.random())
    }
}

struct Avoiding {
    thresholds: Thresholds,
    available: Available,
    /// How many must be available, or a wider set is taken.
    least: u32,
    zone_of: Box<[u32]>,
    seen: Seen,
    /// A look at all zones once in so many picks.
    every: u64,
    picks: AtomicU64,
    wheel: Weighted,
}

impl Avoiding {
    fn zone_at(&self, at: usize) -> usize {
        (self.zone_of[at] as usize).min(self.seen.zones.len() - 1)
    }

    /// Looks at every instance. Two at once count the same things; one may read what the other has half counted, and the next
    /// look is right again.
    fn look(&self, seen: &Seen, cx: &PickCx<'_>) {
        for zone in &seen.zones {
            let (mut tripped, mut active, mut available) = (0, 0_u32, 0);
            for at in &zone.members {
                let state = cx.state(*at as usize);
                // One whose back-off is over is in use for the call that probes it: else a zone that was out would stay out.
                if !state.fits() {
                    tripped += 1;
                    continue;
                }
                active = active.saturating_add(if self.available.exact {
                    state.in_flight()
                } else {
                    state.load()
                });
                available += u32::from(self.available.accepts(state));
            }
            zone.tripped.store(tripped, Ordering::Relaxed);
            zone.active.store(active, Ordering::Relaxed);
            zone.available.store(available, Ordering::Relaxed);
        }
        let snapshots = seen.named().iter().map(Zone::snapshot);
        let leave_out = judge(snapshots, self.thresholds, |at, verdict| {
            let verdict = match verdict {
                Verdict::Dropped => DROPPED,
                Verdict::Kept => KEPT,
                Verdict::Worst => WORST,
            };
            seen.zones[at].verdict.store(verdict, Ordering::Relaxed);
        });
        seen.leave_out.store(leave_out.into(), Ordering::Relaxed);
    }

    fn pick_by(&self, seen: &Seen, cx: &mut PickCx<'_>) -> Option<usize> {
        let zones = &seen.zones;
        let avoided = seen.avoided(cx);
        let no_zone = zones.len() - 1;
        let is_in =
            |zone: usize| zone == no_zone || (Some(zone) != avoided && zones[zone].verdict() != DROPPED);
        let sum = |of: &dyn Fn(usize) -> bool| {
            let of = zones.iter().enumerate().filter(|(zone, _)| of(*zone));
            of.map(|(_, zone)| zone.available()).fold(0_u32, u32::saturating_add)
        };
        let inside = sum(&is_in) >= self.least;
        let anywhere = inside || sum(&|_| true) >= self.least;
        let turn = |cx: &mut PickCx<'_>| self.wheel.at(cx.turn());
        preferring(cx, anywhere, turn, |cx, at| {
            !anywhere || (self.available.accepts(cx.state(at)) && (!inside || is_in(self.zone_at(at))))
        })
    }
}

impl Picker for Avoiding {
    fn rehearses(&self) -> bool {
        true
    }

    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        if cx.rehearses() {
            // What the calls go by is not made anew: a look of its own, which may be slow.
            let seen = self.seen.anew();
            self.look(&seen, cx);
            return self.pick_by(&seen, cx);
        }
        if self.every == 1 || self.picks.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.every) {
            self.look(&self.seen, cx);
        }
        self.pick_by(&self.seen, cx)
    }

    fn rotation(&self) -> Option<&dyn Rotation> {
        Some(&self.wheel)
    }
}
