//! Events: what changed in how traffic is divided.

use super::{Distribution, DistributionReport, PriorityReport, Told, ZoneOff};
use std::borrow::Cow;

use crate::ServiceId;
use crate::limit::Limit;
use crate::state::ChangeKind;

/// What changed, and how.
pub(crate) type Change = (ChangeKind, Cow<'static, str>);

/// How often what may be told.
#[derive(Debug)]
pub(super) struct Logs {
    zones: Limit,
    zone: Limit,
    panic: Limit,
}

impl Default for Logs {
    fn default() -> Self {
        Self { zones: Limit::changes(), zone: Limit::faults(), panic: Limit::changes() }
    }
}

impl Distribution {
    /// Tells what changed since it was last told, of the whole list; and hands it back for who keeps a log of changes.
    pub(crate) fn tell(&self, service: &ServiceId, report: &DistributionReport) -> Vec<Change> {
        let mut changes = Vec::new();
        let off = report.zones_off();
        let now = off.cloned().map_or(Told::On, Told::Off);
        let (changed, panicked) = {
            let mut memory = self.memory.lock();
            let changed = self.settings.proportional.is_some() && memory.zones != now;
            let first = memory.zones == Told::Nothing;
            memory.zones = now;
            let panicked = std::mem::replace(&mut memory.panic, report.is_panic()) != report.is_panic();
            // Before the first look-up of the fleet has ended there is nothing to say.
            (changed && !(first && matches!(off, Some(ZoneOff::OwnFleetUnknown(_)))), panicked)
        };
        if changed {
            let detail = off.map_or_else(
                || "zones are used in proportion".to_owned(),
                |why| format!("zones are not used in proportion: {why}"),
            );
            changes.push((ChangeKind::ZoneMode, Cow::Owned(detail)));
            self.tell_zones(service, off);
        }
        if panicked {
            let (kind, detail) = if report.is_panic() {
                (ChangeKind::PanicOn, "too few instances are usable: all are used")
            } else {
                (ChangeKind::PanicOff, "enough instances are usable")
            };
            changes.push((kind, Cow::Borrowed(detail)));
        }
        if panicked && let Some(passed) = self.logs.panic.pass() {
            let suppressed = passed.suppressed();
            let sum = |of: fn(&PriorityReport) -> usize| report.priorities().iter().map(of).sum::<usize>();
            let (usable, listed) = (sum(|of| of.healthy + of.degraded), sum(|of| of.listed));
            let threshold = self.settings.threshold;
            if report.is_panic() {
                tracing::warn!(
                    %service, usable, listed, threshold, total = report.is_total_panic(), suppressed,
                    "panic: too few instances are usable, and all are used"
                );
            } else {
                tracing::info!(%service, usable, listed, threshold, suppressed, "the panic is over: enough instances are usable");
            }
        }
        changes
    }

    fn tell_zones(&self, service: &ServiceId, off: Option<&ZoneOff>) {
        match off {
            Some(ZoneOff::OwnZoneUnknown) => {
                if let Some(passed) = self.logs.zone.pass() {
                    tracing::warn!(
                        %service, addresses = ?self.whereabouts.addresses(), suppressed = passed.suppressed(),
                        "the own zone is not known: zones are not used in proportion"
                    );
                }
            }
            Some(why) => {
                if let Some(passed) = self.logs.zones.pass() {
                    tracing::info!(
                        %service, %why, suppressed = passed.suppressed(),
                        "zones are not used in proportion: every instance is used by its weight"
                    );
                }
            }
            None => {
                if let Some(passed) = self.logs.zones.pass() {
                    let zone = self.whereabouts.zone();
                    tracing::info!(
                        %service, zone = zone.as_deref(), suppressed = passed.suppressed(),
                        "zones are used in proportion"
                    );
                }
            }
        }
    }
}
