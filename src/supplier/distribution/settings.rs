//! What can be said of how traffic is divided.

use std::net::IpAddr;
use std::sync::Arc;

use super::OwnFleet;
use super::zones::{PerZone, folded};

/// The rules of one chain; everything off is no rule.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) priorities: bool,
    /// In percent.
    pub(crate) factor: u64,
    /// In percent; 0 is never.
    pub(crate) threshold: u64,
    pub(crate) zone_weights: Option<PerZone>,
    pub(crate) proportional: Option<Proportional>,
}

/// The inputs of proportional zones.
#[derive(Clone, Debug)]
pub(crate) struct Proportional {
    pub(crate) own: Option<String>,
    pub(crate) addresses: Option<Arc<[IpAddr]>>,
    pub(crate) min_cluster_size: usize,
    pub(crate) fleet: Option<OwnFleet>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { priorities: false, factor: 140, threshold: 0, zone_weights: None, proportional: None }
    }
}

impl Settings {
    pub(crate) fn is_on(&self) -> bool {
        self.priorities || self.threshold > 0 || self.zone_weights.is_some() || self.proportional.is_some()
    }

    /// The weights of zones; a zone said twice has the last.
    pub(crate) fn weigh_zones(&mut self, weights: impl IntoIterator<Item = (String, u32)>) {
        let weights = weights.into_iter().map(|(zone, weight)| (folded(Some(&zone)), u64::from(weight)));
        self.zone_weights = Some(weights.collect());
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.threshold > 100 {
            return Err(format!("panic-threshold is {} percent: 0 to 100 are expected", self.threshold));
        }
        if !(100..=10_000).contains(&self.factor) {
            return Err(format!(
                "overprovisioning-factor is {} percent: 100 to 10000, which is a factor of 1 to 100, are expected",
                self.factor
            ));
        }
        let Some(weights) = &self.zone_weights else { return Ok(()) };
        if weights.contains_key("") {
            return Err("zone weights: a weight is given to a zone without a name".to_owned());
        }
        if weights.values().all(|weight| *weight == 0) {
            return Err("zone weights: none is above 0, so that no zone would get anything".to_owned());
        }
        if self.proportional.is_some() {
            return Err(
                "zone weights and proportional zones both say what a zone gets: one of them is expected"
                    .to_owned(),
            );
        }
        Ok(())
    }
}
