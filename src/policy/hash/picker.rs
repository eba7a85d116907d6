//! A pick by a hash: the instance at home for it, else another one that is the key's own as well.

use std::any::Any;
use std::sync::Arc;

use super::HashKey;
use super::bound::{Factor, Load};
use super::held::Held;
use super::member::{Member, members};
use super::table::Plan;
use crate::Request;
use crate::policy::{Candidates, PickCx, Picker, Scores};
use crate::random::mix;

/// How a key becomes a hash.
pub(super) type Digest = fn(&HashKey, &Request<'_>) -> Option<u64>;

/// A picker with a table.
pub(super) struct ByTable {
    key: HashKey,
    digest: Digest,
    held: Held,
    ranking: Ranking,
    factor: Option<Factor>,
}

/// For each key an order of all instances, in which each is as likely to be first as its weight says: rendezvous hashing.
pub(super) struct Ranking {
    hashes: Box<[u64]>,
    /// In thousandths; `None` when all are alike.
    weights: Option<Box<[u64]>>,
}

impl ByTable {
    pub(super) fn new(
        set: &Candidates<'_>,
        (key, digest): (&HashKey, Digest),
        plan: Plan,
        factor: Option<Factor>,
    ) -> Self {
        let members = members(set);
        let ranking = Ranking::of(&members, set.weights().is_some());
        Self { key: key.clone(), digest, held: Held::new(set, plan, members), ranking, factor }
    }

    /// Where the key is at home, past what does not fit.
    #[inline]
    fn home(&self, hash: u64, cx: &PickCx<'_>) -> Option<usize> {
        self.held.find(hash, |at| cx.takes(at, hash)).or_else(|| self.ranking.first(hash, cx))
    }

    /// At home while there is room; else the first in an order of the key's own that has some, so that what overflows does
    /// not fill up one neighbour after the other; else the one that is the least above its share.
    fn bounded(&self, hash: u64, factor: Factor, cx: &PickCx<'_>) -> Option<usize> {
        let home = self.home(hash, cx)?;
        let active = |at: usize| cx.state(at).in_flight();
        // Everybody may have one: most picks from a set with little to do end here, without a look at the others.
        if active(home) == 0 {
            return Some(home);
        }
        let weight = |at: usize| self.ranking.weight(at);
        let mut load = Load::default();
        (0..cx.len()).filter(|at| cx.fits(*at)).for_each(|at| load.add(active(at), weight(at)));
        let slots = |at: usize| load.slots(factor, weight(at));
        let has_room = |at: usize| u64::from(active(at)) < slots(at);
        if has_room(home) {
            return Some(home);
        }
        self.ranking.best(hash, |at| cx.takes(at, hash) && has_room(at)).or_else(|| {
            // a / s < b / t
            let above = |at: &usize| u128::from(active(*at));
            let less = |a: &usize, b: &usize| {
                (above(a) * u128::from(slots(*b))).cmp(&(above(b) * u128::from(slots(*a))))
            };
            (0..cx.len()).filter(|at| cx.fits(*at)).min_by(less).or(Some(home))
        })
    }
}

impl Picker for ByTable {
    fn rehearses(&self) -> bool {
        true
    }

    fn scores(&self, cx: &mut PickCx<'_>) -> Option<Scores> {
        Some(in_order(cx, (self.digest)(&self.key, cx.request()), |hash, takes| {
            self.held.find(hash, takes).or_else(|| self.ranking.best(hash, takes))
        }))
    }

    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        if cx.len() == 1 {
            return cx.fits(0).then_some(0);
        }
        let hash = (self.digest)(&self.key, cx.request()).unwrap_or_else(|| cx.random());
        match self.factor {
            None => self.home(hash, cx),
            Some(factor) => self.bounded(hash, factor, cx),
        }
    }

    fn legacy(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(self.held.lineage())
    }
}

/// How many places in the order of a key a report shows.
const SHOWN: usize = 5;

/// Scores of a key: the places of the first few in its order, those that are out of use passed over.
pub(super) fn in_order(
    cx: &PickCx<'_>,
    hash: Option<u64>,
    best: impl Fn(u64, &dyn Fn(usize) -> bool) -> Option<usize>,
) -> Scores {
    let mut of = vec![None; cx.len()];
    let Some(hash) = hash else {
        return Scores::new("none: the request has no key, so chance picks", of);
    };
    for place in 1..=SHOWN.min(cx.len()) {
        let next = best(hash, &|at| of[at].is_none() && cx.fits(at));
        let Some(at) = next else { break };
        #[allow(clippy::cast_precision_loss)] // a few
        of[at].replace(place as f64);
    }
    Scores::new("place in the order of the request's key, 1 is at home", of)
}

impl Ranking {
    pub(super) fn of(members: &[Member], weighted: bool) -> Self {
        let hashes = members.iter().map(|member| member.hash).collect();
        Self { hashes, weights: weighted.then(|| members.iter().map(|member| member.weight).collect()) }
    }

    fn weight(&self, at: usize) -> u64 {
        self.weights.as_ref().map_or(1, |weights| weights[at])
    }

    /// The first in the order of `hash` that may be picked for it, else, when all that could are warming up, the first that fits.
    pub(super) fn first(&self, hash: u64, cx: &PickCx<'_>) -> Option<usize> {
        self.best(hash, |at| cx.takes(at, hash)).or_else(|| self.best(hash, |at| cx.fits(at)))
    }

    /// The first in the order of `hash` that `takes`.
    pub(super) fn best(&self, hash: u64, takes: impl Fn(usize) -> bool) -> Option<usize> {
        let draws = self.hashes.iter().map(|member| mix(hash ^ member)).enumerate();
        let mut best = None;
        match &self.weights {
            None => {
                let mut most = 0;
                for (at, draw) in draws {
                    // Whether it fits is looked at only for who would win: a few in a list of any length.
                    if (draw > most || best.is_none()) && takes(at) {
                        (most, best) = (draw, Some(at));
                    }
                }
            }
            Some(weights) => {
                let mut most = 0.0;
                for (at, draw) in draws {
                    let score = score(draw, weights[at]);
                    if (score > most || best.is_none()) && takes(at) {
                        (most, best) = (score, Some(at));
                    }
                }
            }
        }
        best
    }
}

/// `w / -ln(u)`: the largest of these falls to each in proportion to its weight.
#[expect(clippy::cast_precision_loss, reason = "52 bits, and weights below 2^42")]
fn score(draw: u64, weight: u64) -> f64 {
    // Above 0 and below 1.
    let unit = ((draw >> 12) as f64 + 0.5) / (1_u64 << 52) as f64;
    weight as f64 / -unit.ln()
}
