//! Points on a ring; a key belongs to the first point at or behind its hash.

use std::fmt::Write as _;

use super::md5::Md5;
use super::member::{Member, by_name, median};
use super::xx::Xx64;

/// The most points that Envoy makes.
pub(super) const MOST_POINTS: u64 = 8_388_608;

/// Points per instance at most on average, when weights differ by more than that: 16 KB of memory.
const MOST_EACH: u64 = 1_024;

/// How many points on the ring to look at before the rest is left to other means: with nine of ten instances unfit, one
/// search in a thousand needs more.
const STEPS: usize = 64;

/// How many points each instance has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Points {
    /// So many for one of the median weight.
    Each(u32),
    /// In groups of four by MD5, as Dubbo makes them, so many for one of the median weight.
    Dubbo(u32),
    /// By the size of the ring, as Envoy and gRPC count: at least, at most.
    Scaled(u64, u64),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) hash: u64,
    pub(super) owner: u32,
}

/// Eight bytes of a point, which is what a search reads: of many points few are in the cache.
#[derive(Clone, Copy, Debug)]
struct Narrow {
    high: u32,
    owner: u32,
}

#[derive(Debug)]
pub(super) struct Ring {
    points: Box<[Narrow]>,
    /// The low halves of the hashes, for a key whose high half is that of a point.
    lows: Box<[u32]>,
    /// By the highest bits of a hash, the first point that may belong to it: the search has a step or two left.
    first: Box<[u32]>,
    shift: u32,
}

impl Points {
    /// About how many there will be.
    pub(super) fn estimate(self, members: &[Member]) -> u64 {
        let n = members.len() as u64;
        match self {
            Self::Each(each) | Self::Dubbo(each) => {
                let total: u128 = members.iter().map(|member| u128::from(member.weight)).sum();
                let points = total * u128::from(each) / u128::from(median(members));
                narrow(points.min(u128::from(most_points(n))))
            }
            Self::Scaled(least, _) => least.max(n),
        }
    }

    /// How many each member has, in the order of the names.
    fn counts(self, members: &[Member], order: &[usize]) -> Vec<u64> {
        let weights = order.iter().map(|at| u128::from(members[*at].weight));
        // Everybody has a point, but who is drained.
        let least = |count: u64, weight: u128, least: u64| if weight == 0 { 0 } else { count.max(least) };
        let n = members.len() as u64;
        let most = u128::from(most_points(n));
        match self {
            Self::Each(each) | Self::Dubbo(each) => {
                let unit = if matches!(self, Self::Dubbo(_)) { 4 } else { 1 };
                let median = u128::from(median(members));
                let of = |weight: u128| (weight * u128::from(each) + median / 2) / median;
                let total: u128 = weights.clone().map(of).sum();
                weights
                    .map(|weight| {
                        let count = if total > most { of(weight) * most / total } else { of(weight) };
                        least(narrow(count / unit * unit), weight, narrow(unit))
                    })
                    .collect()
            }
            Self::Scaled(fewest, most) => {
                let total: u128 = weights.clone().sum::<u128>().max(1);
                let lightest = weights.clone().filter(|weight| *weight > 0).min().unwrap_or(1);
                // A whole number of points for the lightest, and the others by its measure, unless that is too many.
                let (points, of) = ((lightest * u128::from(fewest)).div_ceil(total), lightest);
                let too_many = points * total > u128::from(most) * lightest;
                let (points, of) = if too_many { (u128::from(most), total) } else { (points, of) };
                let (mut sum, mut made) = (0, 0);
                weights
                    .map(|weight| {
                        sum += weight;
                        let target = (sum * points).div_ceil(of).max(made);
                        let count = target - made;
                        made = target;
                        least(narrow(count), weight, 1)
                    })
                    .collect()
            }
        }
    }
}

impl Ring {
    pub(super) fn new(points: Points, members: &[Member]) -> Self {
        let order = by_name(members);
        let counts = points.counts(members, &order);
        let total: u64 = counts.iter().sum();
        let mut all: Vec<Point> = Vec::with_capacity(usize::try_from(total).unwrap_or_default());
        let mut text = String::new();
        // Owners are places in the order of the names until all are sorted: of two points at one place the first name wins.
        for ((count, at), owner) in counts.iter().zip(&order).zip(0..) {
            let name = &members[*at].name;
            if matches!(points, Points::Dubbo(_)) {
                let quads = (0..count / 4).flat_map(|number| quad(entry(&mut text, name, "", number)));
                all.extend(quads.map(|hash| Point { hash, owner }));
            } else {
                let hashes = (0..*count).map(|number| Xx64::of(entry(&mut text, name, "_", number)));
                all.extend(hashes.map(|hash| Point { hash, owner }));
            }
        }
        all.sort_unstable_by_key(|point| (point.hash, point.owner));
        for point in &mut all {
            point.owner = u32::try_from(order[point.owner as usize]).unwrap_or_default();
        }
        Self::of(&all)
    }

    fn of(points: &[Point]) -> Self {
        let bits = points.len().max(2).ilog2();
        let shift = 64 - bits;
        let mut first = Vec::with_capacity(1 << bits);
        let mut at = 0;
        for bucket in 0..1_u64 << bits {
            while points.get(at).is_some_and(|point| point.hash >> shift < bucket) {
                at += 1;
            }
            first.push(u32::try_from(at).unwrap_or_default());
        }
        let narrow = |point: &Point| Narrow { high: high(point.hash), owner: point.owner };
        let lows = points.iter().map(|point| low(point.hash)).collect();
        Self { points: points.iter().map(narrow).collect(), lows, first: first.into(), shift }
    }

    /// The place of the point that a hash belongs to.
    #[inline]
    pub(super) fn place(&self, hash: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "an index of `first`")]
        let mut at = self.first[(hash >> self.shift) as usize] as usize;
        let mine = high(hash);
        while let Some(point) = self.points.get(at)
            && (point.high < mine || point.high == mine && self.lows[at] < low(hash))
        {
            at += 1;
        }
        if at == self.points.len() { 0 } else { at }
    }

    /// From the point of `hash` on, the first owner that `take` takes: of an instance that is out, each point's keys go to
    /// the one behind it there, so that they spread over all.
    #[inline]
    pub(super) fn walk(&self, hash: u64, mut take: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.place(hash);
        for _ in 0..STEPS.min(self.points.len()) {
            let owner = self.points[at].owner;
            if take(owner) {
                return Some(owner);
            }
            at += 1;
            if at == self.points.len() {
                at = 0;
            }
        }
        None
    }

    #[cfg(test)]
    pub(super) fn points(&self) -> Vec<Point> {
        let whole = |(point, low): (&Narrow, &u32)| Point {
            hash: u64::from(point.high) << 32 | u64::from(*low),
            owner: point.owner,
        };
        self.points.iter().zip(&self.lows).map(whole).collect()
    }
}

/// What a point is the hash of.
fn entry<'a>(text: &'a mut String, name: &str, separator: &str, number: u64) -> &'a [u8] {
    text.clear();
    // Writing into a text does not fail.
    let _ = write!(text, "{name}{separator}{number}");
    text.as_bytes()
}

/// The four points of one digest, as the high halves of hashes, so that their order stays.
fn quad(text: &[u8]) -> [u64; 4] {
    let digest = Md5::of(text);
    let mut points = [0; 4];
    for (point, bytes) in points.iter_mut().zip(digest.as_chunks::<4>().0) {
        *point = u64::from(u32::from_le_bytes(*bytes)) << 32;
    }
    points
}

fn high(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[expect(clippy::cast_possible_truncation, reason = "the half that is wanted")]
fn low(hash: u64) -> u32 {
    hash as u32
}

/// How many points `n` instances have at most, where the number of each is given.
fn most_points(n: u64) -> u64 {
    MOST_POINTS.min(n.saturating_mul(MOST_EACH)).max(n)
}

fn narrow(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
