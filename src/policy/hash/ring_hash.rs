use std::borrow::Cow;

use super::HashKey;
use super::bound::Factor;
use super::picker::ByTable;
use super::ring::{MOST_POINTS, Points};
use super::table::Plan;
use crate::policy::{Candidates, Picker, Policy};

/// A key goes to the instance whose point on a ring comes next: the ring of gRPC and Envoy.
///
/// When an instance leaves, its keys alone move, and they spread over all others. An instance has 160 points of its own
/// name, or as many as its weight is of the median weight; so that this holds, their number does not depend on that of the
/// instances. With [`with_ring_size`](Self::with_ring_size) they are counted as Envoy and gRPC count them.
///
/// Defaults: 160 points, no bound on the load.
///
/// ```
/// use evenkeel::policy::{HashKey, RingHash};
///
/// let policy = RingHash::new(HashKey::header("x-user"));
/// let bounded = RingHash::new(HashKey::header("x-user")).with_balance_factor(125);
/// ```
#[derive(Clone, Debug)]
pub struct RingHash {
    key: HashKey,
    points: Points,
    factor: Option<Factor>,
}

impl RingHash {
    /// The default sizes of Envoy's ring, for [`with_ring_size`](Self::with_ring_size).
    pub const ENVOY: (u64, u64) = (1_024, MOST_POINTS);
    /// Those of gRPC's.
    pub const GRPC: (u64, u64) = (1_024, 4_096);

    /// By this key.
    pub fn new(key: HashKey) -> Self {
        Self { key, points: Points::Each(160), factor: None }
    }

    /// How many points an instance of the median weight has (default: 160; at least 1). The shares of equal instances
    /// differ by about one part in the root of it.
    #[must_use]
    pub fn with_nodes(self, nodes: u32) -> Self {
        Self { points: Points::Each(nodes.max(1)), ..self }
    }

    /// At least and at most how many points there are on the ring: the instances share them by weight, such that the lightest
    /// has a whole number. Envoy's and gRPC's way ([`ENVOY`](Self::ENVOY), [`GRPC`](Self::GRPC)), for clients that must agree
    /// with one of theirs. Since each instance then has more points the fewer there are, a change of the list also moves
    /// keys between those that stay.
    ///
    /// Sizes count as 1 to 8 388 608, the least as no more than the most, and every instance has a point.
    #[must_use]
    pub fn with_ring_size(self, (least, most): (u64, u64)) -> Self {
        let most = most.clamp(1, MOST_POINTS);
        Self { points: Points::Scaled(least.clamp(1, most), most), ..self }
    }

    /// The most that an instance may have in flight, in percent of its share (default: no bound; at least 100, 120 to 200
    /// are usual): consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam, 2018). What is above goes to others
    /// in an order of each key's own, and returns home once there is room. A pick whose home has calls in flight looks at
    /// the counts of all instances.
    #[must_use]
    pub fn with_balance_factor(self, percent: u32) -> Self {
        Self { factor: Some(Factor::percent(percent)), ..self }
    }
}

impl Policy for RingHash {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("ring-hash")
    }

    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        let key = (&self.key, HashKey::hash as _);
        Box::new(ByTable::new(set, key, Plan::Ring(self.points), self.factor))
    }
}
