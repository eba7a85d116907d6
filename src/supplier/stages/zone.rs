use std::net::IpAddr;
use std::sync::Arc;

use super::super::{ListStage, Rank, StageCx};
use crate::ServiceInstance;
use crate::config::ZoneMode;
use crate::limit::Limit;

/// Keeps the instances of the client's own zone, if there are any; else all. Zones are compared without case.
///
/// The mode **proportional** keeps only what is the own zone's fair part, and sends the rest to zones that have room; the
/// guide has the rule ([`zones`](crate::guide::zones)). It needs to know the [own fleet](super::super::OwnFleet).
///
/// By default as Spring: one local instance is enough, and then it takes all traffic of the local clients, however many
/// they are (three instances, one of them local, two clients local: 668 of 1002 requests). Two guards against that, both
/// off by default: a least number of local instances, and a limit of the share that a local instance would get over the
/// share that it would get if all were used.
///
/// ```
/// use evenkeel::supplier::ZonePreference;
///
/// let stage = ZonePreference::new("eu-1a").with_min_local_instances(2).with_max_share(3.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ZonePreference {
    zone: Option<String>,
    min_local: usize,
    max_share: Option<f64>,
    mode: ZoneMode,
    min_cluster_size: usize,
    addresses: Option<Arc<[IpAddr]>>,
    told: Told,
}

/// How often it may be said that all are used; no part of what a preference is.
#[derive(Clone, Debug)]
struct Told(Arc<Limit>);

impl PartialEq for Told {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl ZonePreference {
    /// The client's own zone; a blank one switches the preference off.
    pub fn new(zone: impl Into<String>) -> Self {
        let zone = zone.into().trim().to_owned();
        Self {
            zone: (!zone.is_empty()).then_some(zone),
            min_local: 1,
            max_share: None,
            mode: ZoneMode::AllOrNothing,
            min_cluster_size: 6,
            addresses: None,
            told: Told(Arc::new(Limit::faults())),
        }
    }

    /// With fewer local instances than this, all are used (default 1).
    #[must_use]
    pub fn with_min_local_instances(mut self, at_least: usize) -> Self {
        self.min_local = at_least;
        self
    }

    /// When a local instance would get more than this many times its even share of this client's traffic, all are used
    /// (default: no limit). With one local instance of three it would get 3 times its share.
    #[must_use]
    pub fn with_max_share(mut self, times: f64) -> Self {
        self.max_share = Some(times);
        self
    }

    /// In proportion to the clients and the usable instances of each zone; the own zone as [`proportional`](Self::proportional)
    /// says it, else all or nothing (the default).
    #[must_use]
    pub fn with_mode(mut self, mode: ZoneMode) -> Self {
        self.mode = mode;
        self
    }

    /// Zones in proportion, the own one found by the address of this host: in the list of the own fleet, else in that of
    /// the service.
    ///
    /// ```
    /// use evenkeel::supplier::{OwnFleet, ZonePreference};
    /// use evenkeel::{ServiceInstance, SupplierBuilder};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let list = (1..=6).map(|n| ServiceInstance::builder("10.0.0.1").port(n).zone("eu-1a").build());
    /// let supplier = SupplierBuilder::new("orders")
    ///     .with_instances(list.collect::<Result<Vec<_>, _>>()?)
    ///     .with_zone_preference(ZonePreference::proportional())
    ///     .with_own_fleet(OwnFleet::fixed([("eu-1a", 4), ("eu-1b", 2)]))
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn proportional() -> Self {
        Self::new("").with_mode(ZoneMode::Proportional)
    }

    /// With fewer usable instances than this, zones are not used in proportion (default 6, as in Envoy): one instance more
    /// or less would move too much. Once they are, a sixth fewer is still enough.
    #[must_use]
    pub fn with_min_cluster_size(mut self, at_least: usize) -> Self {
        self.min_cluster_size = at_least;
        self
    }

    /// The addresses by which the own zone is found, where none is told (default: those from which packets leave this host).
    #[must_use]
    pub fn with_local_addresses(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.addresses = Some(addresses.into_iter().map(|ip| ip.to_canonical()).collect());
        self
    }

    /// How the own zone is preferred.
    pub fn mode(&self) -> ZoneMode {
        self.mode
    }

    pub(crate) fn min_cluster_size(&self) -> usize {
        self.min_cluster_size
    }

    pub(crate) fn local_addresses(&self) -> Option<Arc<[IpAddr]>> {
        self.addresses.clone()
    }

    /// The zone, trimmed; `None` when the preference is off.
    pub fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.mode == ZoneMode::Proportional && (self.max_share.is_some() || self.min_local > 1) {
            return Err("min-local-instances and max-share are guards of all or nothing: zones in proportion never give \
                        the own one more than its part"
                .to_owned());
        }
        if self.min_cluster_size == 0 {
            return Err("min-cluster-size is 0: at least 1 is expected".to_owned());
        }
        match self.max_share {
            Some(times) if !times.is_finite() || times < 1.0 => {
                Err(format!("max-share is {times}, but a local share is never below 1 time the even one"))
            }
            _ => Ok(()),
        }
    }
}

impl ListStage for ZonePreference {
    fn name(&self) -> &'static str {
        "zone-preference"
    }

    fn rank(&self) -> Rank {
        Rank::Zone
    }

    fn why_left_out(&self, instance: &ServiceInstance, _: &StageCx<'_>) -> Option<String> {
        let own = self.zone.as_deref()?;
        Some(match instance.zone() {
            Some(zone) => format!("zone {zone}, and this client is in {own}"),
            None => format!("no zone, and this client is in {own}"),
        })
    }

    fn apply(&self, list: &mut Vec<ServiceInstance>, cx: &StageCx<'_>) {
        let Some(own) = self.zone.as_deref() else { return };
        let is_local =
            |instance: &ServiceInstance| instance.zone().is_some_and(|zone| zone.eq_ignore_ascii_case(own));
        let local = list.iter().filter(|instance| is_local(instance)).count();
        if local == list.len() {
            return;
        }
        let why = if local == 0 {
            "no instance is in it"
        } else if local < self.min_local {
            "too few instances are in it"
        } else if self.max_share.is_some_and(|times| share_over_even(list.len(), local) > times) {
            "its instances would get too large a share"
        } else {
            list.retain(is_local);
            return;
        };
        cx.switched_off(why);
        if cx.is_rehearsal() {
            return;
        }
        if let Some(passed) = self.told.0.pass() {
            tracing::info!(
                service = %cx.service(), group = cx.group(), zone = own, local, all = list.len(), why,
                suppressed = passed.suppressed(), "the zone preference is off: all instances are used"
            );
        }
    }
}

#[allow(clippy::cast_precision_loss)] // a list has fewer than 2^52 entries
fn share_over_even(all: usize, local: usize) -> f64 {
    all as f64 / local as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServiceId;

    fn left(stage: &ZonePreference, zones: &[Option<&str>]) -> Vec<usize> {
        let build = |(n, zone): (usize, Option<&str>)| {
            let builder = ServiceInstance::builder("h").port(i64::try_from(n).unwrap() + 1);
            match zone {
                Some(zone) => builder.with_metadata("zone", zone).build().unwrap(),
                None => builder.build().unwrap(),
            }
        };
        let mut list: Vec<_> = zones.iter().copied().enumerate().map(build).collect();
        stage.apply(&mut list, &StageCx::new(&ServiceId::new("s").unwrap(), None));
        list.iter().map(|i| usize::from(i.port().unwrap()) - 1).collect()
    }

    #[test]
    fn case_010_missing_blank_and_case() {
        let zones = [Some("us-east-1a"), Some("US-EAST-1A"), None, Some("eu-1"), Some(" ")];
        for (own, expected) in [
            ("", &[0, 1, 2, 3, 4][..]),
            ("us-east-1a", &[0, 1]),
            (" us-east-1a ", &[0, 1]),
            ("ap-9", &[0, 1, 2, 3, 4]),
        ] {
            assert_eq!(left(&ZonePreference::new(own), &zones), expected, "{own:?}");
        }
        assert!(left(&ZonePreference::new("a"), &[]).is_empty());
    }

    #[test]
    fn case_012_both_guards() {
        let zones = [Some("az1"), Some("az2"), Some("az2")];
        assert_eq!(left(&ZonePreference::new("az1"), &zones), [0]);
        assert_eq!(left(&ZonePreference::new("az1").with_min_local_instances(2), &zones), [0, 1, 2]);
        assert_eq!(left(&ZonePreference::new("az1").with_max_share(2.9), &zones), [0, 1, 2]);
        assert_eq!(left(&ZonePreference::new("az1").with_max_share(3.0), &zones), [0]);
        assert!(ZonePreference::new("z").with_max_share(f64::NAN).check().is_err());
        assert!(ZonePreference::new("z").with_max_share(0.5).check().is_err());
    }
}
