//! Ways to look for an instance: at all of them for the least loaded one, turn by turn for one that is well.

use super::{Candidates, PickCx, Picker, Scores};
use crate::random::{below, mix};

/// Who has the pick among those that are equally little loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ties {
    /// The first in the list.
    First,
    /// Any, by weight.
    ByWeight,
}

/// The weights of a set, in thousandths; `None` when all are alike.
#[derive(Debug)]
pub(super) struct Weights(Option<Box<[u64]>>);

impl Weights {
    pub(super) fn of(set: &Candidates<'_>) -> Self {
        Self(set.thousandths().map(Vec::into_boxed_slice))
    }

    #[cfg(test)]
    pub(super) const fn even() -> Self {
        Self(None)
    }

    /// In thousandths.
    #[inline]
    pub(super) fn at(&self, index: usize) -> u64 {
        self.0.as_ref().map_or(1_000, |weights| weights[index])
    }

    /// 1 is the weight of an instance without one.
    #[inline]
    #[allow(clippy::cast_precision_loss)] // below 2^42
    pub(super) fn real(&self, index: usize) -> f64 {
        self.at(index) as f64 / 1e3
    }

    pub(super) fn is_even(&self) -> bool {
        self.0.is_none()
    }
}

/// The least loaded that fits. `load` is never NaN.
///
/// One pass, without memory: of equals the next one takes the place of the ones before with the chance that its part of their
/// weight is. Whether one fits is asked only of who would win. Who warms up counts as more loaded, and among equals as lighter,
/// by the part of its share that it gets.
#[inline]
pub(super) fn least(
    cx: &mut PickCx<'_>,
    weights: &Weights,
    ties: Ties,
    mut load: impl FnMut(&mut PickCx<'_>, usize) -> f64,
) -> Option<usize> {
    let chance = cx.random();
    let (mut best, mut least, mut total) = (None, f64::INFINITY, 0_u64);
    for at in 0..cx.len() {
        let mut weight = weights.at(at);
        let mut load = load(cx, at);
        if (load > least && best.is_some()) || weight == 0 || !cx.fits(at) {
            continue;
        }
        if cx.state(at).is_warming() {
            (load, weight) = cold(cx, at, load, weight);
            if load > least && best.is_some() {
                continue;
            }
        }
        if load < least || best.is_none() {
            (best, least, total) = (Some(at), load, weight);
        } else if ties == Ties::ByWeight {
            total = total.saturating_add(weight);
            let draw = (u128::from(mix(chance ^ at as u64)) * u128::from(total)) >> 64;
            if draw < u128::from(weight) {
                best = Some(at);
            }
        }
    }
    best
}

/// Load and weight of one that warms up.
#[cold]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // weights below 2^42
fn cold(cx: &mut PickCx<'_>, at: usize, load: f64, weight: u64) -> (f64, u64) {
    let part = f64::from(cx.part(at));
    (load / part, ((weight as f64 * part) as u64).max(1))
}

/// How many turns are taken for an instance that is well; see the turns of a rotation.
const TURNS: usize = 16;

/// Draws with `draw` until an instance fits that `accepts`, at most 16 times; one that warms up is passed over more often. If there
/// is none, and `all`, as many are drawn by chance, and then everybody is asked. Else it is one of those that fitted, by chance: the
/// wheel took as many turns for each pick, and a number of instances that divides them would send every call to one.
#[inline]
pub(super) fn preferring(
    cx: &mut PickCx<'_>,
    all: bool,
    mut draw: impl FnMut(&mut PickCx<'_>) -> usize,
    accepts: impl Fn(&PickCx<'_>, usize) -> bool,
) -> Option<usize> {
    let first = draw(cx);
    if cx.rule.is_none() && cx.state(first).is_plain() && accepts(cx, first) {
        // Nearly every pick ends here.
        return Some(first);
    }
    let (mut any, mut fitted) = (None, 0);
    let mut at = first;
    for turn in 0..TURNS {
        if turn > 0 {
            at = draw(cx);
        }
        if !cx.fits(at) || !cx.is_warm(at) {
            continue;
        }
        if accepts(cx, at) {
            return Some(at);
        }
        fitted += 1;
        if below(cx.random(), fitted) == 0 {
            any = Some(at);
        }
    }
    if all {
        // By chance first, which is nearly always enough.
        let n = cx.len();
        for _ in 0..TURNS {
            let at = below(cx.random(), n);
            if cx.fits(at) && cx.is_warm(at) && accepts(cx, at) {
                return Some(at);
            }
        }
        let found = cx.any(&accepts);
        if found.is_some() {
            return found;
        }
    }
    any.or_else(|| cx.first_fit(draw))
}

/// Who has the fewest calls in flight of all: by load and weight, or by the bare count.
pub(super) struct FewestCalls {
    exact: bool,
    weights: Weights,
    ties: Ties,
}

impl FewestCalls {
    pub(super) fn of(set: &Candidates<'_>, exact: bool, ties: Ties) -> Self {
        Self { exact, weights: Weights::of(set), ties }
    }

    #[inline]
    fn load(&self, cx: &PickCx<'_>, at: usize) -> f64 {
        if self.exact {
            f64::from(cx.state(at).in_flight())
        } else {
            // The quotient of equal ratios is the same number, so equals are found.
            f64::from(cx.state(at).load()) / self.weights.real(at)
        }
    }
}

impl Picker for FewestCalls {
    fn rehearses(&self) -> bool {
        true
    }

    fn scores(&self, cx: &mut PickCx<'_>) -> Option<Scores> {
        let of = (0..cx.len()).map(|at| Some(self.load(cx, at))).collect();
        Some(Scores::new("calls in flight, per weight unless exact; the fewest of all are taken", of))
    }

    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        least(cx, &self.weights, self.ties, |cx, at| self.load(cx, at))
    }
}
