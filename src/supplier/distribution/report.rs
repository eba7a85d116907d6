//! What was decided, and why, to be read by people.

use std::fmt;

/// How the traffic to the whole list is divided, as it was decided when the list last changed.
///
/// From [`Snapshot::distribution`](crate::Snapshot::distribution); groups that requests name are divided by the same rules,
/// each by its own instances.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DistributionReport {
    pub(super) priorities: Vec<PriorityReport>,
    pub(super) total_panic: bool,
}

impl DistributionReport {
    /// Priority by priority, the first one first. One, when priorities are off.
    pub fn priorities(&self) -> &[PriorityReport] {
        &self.priorities
    }

    /// Whether any of them is in panic.
    pub fn is_panic(&self) -> bool {
        self.priorities.iter().any(|of| of.panic)
    }

    /// Whether all are, so that the traffic is divided by numbers of instances.
    pub fn is_total_panic(&self) -> bool {
        self.total_panic
    }

    /// Why zones are not used in proportion, if they should be and are not: of the first priority with traffic.
    pub fn zones_off(&self) -> Option<&ZoneOff> {
        self.priorities.iter().filter(|of| of.load > 0.0).find_map(|of| match &of.zones {
            ZoneUse::Off(why) => Some(why),
            _ => None,
        })
    }
}

/// What one priority gets.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PriorityReport {
    /// The priority; 0 is the first.
    pub priority: u32,
    /// Its instances, those that may not be called included; draining and drained ones are not counted.
    pub listed: usize,
    /// Those that are usable: neither down, nor degraded, and their health check passes.
    pub healthy: usize,
    /// Those that are degraded, and pass it.
    pub degraded: usize,
    /// How much of the whole traffic it could take, in percent.
    pub health: u32,
    /// What it gets of the traffic, from 0 to 1.
    pub load: f64,
    /// Whether too few are usable, so that all are used that are not down.
    pub panic: bool,
    /// How its traffic is divided among zones.
    pub zones: ZoneUse,
}

/// How traffic is divided among zones.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ZoneUse {
    /// Zones do not count.
    Plain,
    /// They should, and do not: every instance is used, by its own weight.
    Off(ZoneOff),
    /// In proportion to room, for a client of this zone.
    Proportional {
        /// The own zone, folded to lower case.
        own: String,
        /// What each zone gets.
        shares: Vec<ZoneShare>,
    },
    /// By the weights of zones.
    Weighted(Vec<ZoneShare>),
}

/// What a zone gets of the traffic of its priority.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ZoneShare {
    /// The zone, folded to lower case; blank for instances without one.
    pub zone: String,
    /// From 0 to 1.
    pub share: f64,
    /// Its usable instances.
    pub instances: usize,
    /// Its clients, where that is known.
    pub clients: Option<u64>,
}

/// Why zones that should be used in proportion are not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ZoneOff {
    /// Nobody says who the clients are: no fleet is given, nor an `own-service-id` with a registry to look it up in.
    NoOwnFleet,
    /// The own fleet is not known yet; what its look-up said.
    OwnFleetUnknown(String),
    /// No zone is told, and no listed instance has an address of this host.
    OwnZoneUnknown,
    /// No client is listed in the own zone, this one among them.
    NoClientInOwnZone,
    /// The clients name fewer than two zones.
    ClientsInOneZone,
    /// The usable instances name fewer than two zones.
    ServersInOneZone,
    /// So few usable instances that a share of them says nothing.
    TooFewServers {
        /// The usable ones.
        usable: usize,
        /// `zone-preference.min-cluster-size`.
        least: usize,
    },
    /// Too few instances are usable at all, so that all are used.
    Panic,
}

impl fmt::Display for ZoneOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoOwnFleet => f.write_str(
                "nobody says who the clients are: own-service-id names a service of the registry, or code gives a fleet",
            ),
            Self::OwnFleetUnknown(why) => write!(f, "the own fleet is not known: {why}"),
            Self::OwnZoneUnknown => f.write_str(
                "the own zone is not known: no property zone, and no listed instance has an address of this host",
            ),
            Self::NoClientInOwnZone => f.write_str("the own fleet lists no client in the own zone"),
            Self::ClientsInOneZone => f.write_str("the own fleet is in fewer than two zones"),
            Self::ServersInOneZone => f.write_str("the usable instances are in fewer than two zones"),
            Self::TooFewServers { usable, least } => {
                write!(f, "only {usable} instances are usable, of at least {least}")
            }
            Self::Panic => f.write_str("too few instances are usable, and all are used"),
        }
    }
}
