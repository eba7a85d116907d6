use std::borrow::Cow;

use super::HashKey;
use super::member::members;
use super::picker::{Ranking, in_order};
use crate::policy::{Candidates, PickCx, Picker, Policy, Scores};

/// A key goes to the instance that draws highest for it: rendezvous hashing, or highest random weight.
///
/// When an instance leaves, its keys alone move, each to the one that is second for it; when one joins, it takes exactly
/// the keys that it has from then on. Shares follow weights exactly (`w / -ln(u)`; Thaler and Ravishankar, 1998; Schindelhauer
/// and Schomaker, 2005). There is no table, and every pick goes through the list: for lists of up to some hundred.
///
/// ```
/// use evenkeel::policy::{HashKey, Rendezvous};
///
/// let policy = Rendezvous::new(HashKey::query("user"));
/// ```
#[derive(Clone, Debug)]
pub struct Rendezvous {
    key: HashKey,
}

impl Rendezvous {
    /// By this key.
    pub fn new(key: HashKey) -> Self {
        Self { key }
    }
}

impl Policy for Rendezvous {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("rendezvous")
    }

    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        let members = members(set);
        Box::new(ByRanking { key: self.key.clone(), ranking: Ranking::of(&members, set.weights().is_some()) })
    }
}

struct ByRanking {
    key: HashKey,
    ranking: Ranking,
}

impl Picker for ByRanking {
    fn rehearses(&self) -> bool {
        true
    }

    fn scores(&self, cx: &mut PickCx<'_>) -> Option<Scores> {
        Some(in_order(cx, self.key.hash(cx.request()), |hash, takes| self.ranking.best(hash, takes)))
    }

    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        if cx.len() == 1 {
            return cx.fits(0).then_some(0);
        }
        let hash = self.key.hash(cx.request()).unwrap_or_else(|| cx.random());
        self.ranking.first(hash, cx)
    }
}
