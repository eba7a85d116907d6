use std::borrow::Cow;
use std::hint::select_unpredictable;

use super::cx::unit;
use super::tables::Alias;
use super::{Candidates, PickCx, Picker, Policy, Scores};
use crate::Weight;
use crate::random::below;

/// Of two different instances drawn at random, the one with the smaller load: fewer calls in flight.
///
/// A failure counts as load for a while ([`InstanceState::load`](crate::InstanceState::load)): a server that fails fast has
/// few calls in flight, and would attract all others.
///
/// The power of two choices (Mitzenmacher, 2001): nearly as even as looking at all instances, at the cost of two
/// looks, and no herd runs to the one that is least loaded. Weighted, both draws go by weight and the loads are compared
/// per weight. It counts the calls of this process only.
///
/// ```
/// use evenkeel::policy::LeastRequest;
///
/// let policy = LeastRequest::default();
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LeastRequest;

impl Policy for LeastRequest {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("least-request")
    }

    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        let alias = set.thousandths().as_deref().and_then(Alias::new);
        match (alias, set.weights()) {
            (Some(alias), Some(weights)) => Box::new(Weighted { alias, weights: weights.into() }),
            _ => Box::new(Plain),
        }
    }
}

/// How often two draws are taken before the set is searched; see the turns of a rotation.
const DRAWS: u32 = 16;

/// The better of two draws that fits.
#[inline]
pub(super) fn better(
    cx: &mut PickCx<'_>,
    mut draw: impl FnMut(&mut PickCx<'_>) -> (usize, usize),
    less_loaded: impl Fn(&mut PickCx<'_>, usize, usize) -> bool,
) -> Option<usize> {
    if cx.len() == 1 {
        return cx.fits(0).then_some(0);
    }
    let (a, b) = draw(cx);
    if cx.rule.is_none() && cx.state(a).is_plain() && cx.state(b).is_plain() {
        // Nearly every pick ends here.
        return Some(select_unpredictable(less_loaded(cx, b, a), b, a));
    }
    better_with_care(cx, (a, b), draw, less_loaded)
}

#[inline(never)]
fn better_with_care(
    cx: &mut PickCx<'_>,
    drawn: (usize, usize),
    mut draw: impl FnMut(&mut PickCx<'_>) -> (usize, usize),
    less_loaded: impl Fn(&mut PickCx<'_>, usize, usize) -> bool,
) -> Option<usize> {
    let mut drawn = Some(drawn);
    for _ in 0..DRAWS {
        let (a, b) = drawn.take().unwrap_or_else(|| draw(cx));
        match (cx.fits(a), cx.fits(b)) {
            (true, true) if cx.state(a).is_warming() || cx.state(b).is_warming() => {
                return Some(warmer(cx, a, b));
            }
            (true, true) => return Some(if less_loaded(cx, b, a) { b } else { a }),
            (true, false) if cx.is_warm(a) => return Some(a),
            (false, true) if cx.is_warm(b) => return Some(b),
            _ => {}
        }
    }
    cx.first_fit(|cx| below(cx.random(), cx.len()))
}

/// Of two of which at least one warms up, the one with fewer calls in flight for the part of its share that it has reached;
/// of two with equal calls, one by chance, each in proportion to that part, so that an idle newcomer neither gets everything
/// nor nothing. What answers take says little of one that is new.
#[cold]
fn warmer(cx: &mut PickCx<'_>, a: usize, b: usize) -> usize {
    let (part_a, part_b) = (cx.warmth(a), cx.warmth(b));
    let (load_a, load_b) = (cx.state(a).load(), cx.state(b).load());
    let second = if load_a == load_b {
        unit(cx.random()) * (part_a + part_b) < part_b
    } else {
        #[allow(clippy::cast_precision_loss)] // a load needs no more than 24 bits
        let load = |calls: u32, part: f32| (calls as f32 + 1.0) / part;
        load(load_b, part_b) < load(load_a, part_a)
    };
    if second { b } else { a }
}

/// Two different instances, each as likely as any.
#[inline]
pub(super) fn distinct(cx: &mut PickCx<'_>) -> (usize, usize) {
    // One number gives both draws: its halves are independent.
    let (random, n) = (cx.random(), cx.len());
    let a = below(random, n);
    let b = below(random << 32, n - 1);
    (a, if b >= a { b + 1 } else { b })
}

/// Two different instances, each as likely as its weight says.
#[inline]
pub(super) fn two_by_weight(alias: &Alias, cx: &mut PickCx<'_>) -> (usize, usize) {
    // As in `distinct`: the upper half decides the first draw but for 2^-32 of a list, the lower half the second one.
    let random = cx.random();
    let (a, b) = (alias.at(random), alias.at(random << 32));
    if a == b { (a, another(alias, cx, a)) } else { (a, b) }
}

/// A heavy instance may be drawn again and again; then its neighbour is looked at, so that the two differ.
#[inline(never)]
fn another(alias: &Alias, cx: &mut PickCx<'_>, a: usize) -> usize {
    let drawn = (0..3).map(|_| alias.at(cx.random())).find(|b| *b != a);
    drawn.unwrap_or((a + 1) % cx.len())
}

struct Plain;

impl Picker for Plain {
    fn rehearses(&self) -> bool {
        true
    }

    fn scores(&self, cx: &mut PickCx<'_>) -> Option<Scores> {
        let load = |at| f64::from(cx.state(at).load());
        let of = (0..cx.len()).map(|at| Some(load(at))).collect();
        Some(Scores::new("calls in flight, failures included; of two drawn by chance the fewer", of))
    }

    #[inline]
    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        better(cx, distinct, |cx, b, a| cx.state(b).load() < cx.state(a).load())
    }
}

struct Weighted {
    alias: Alias,
    weights: Box<[Weight]>,
}

impl Picker for Weighted {
    fn rehearses(&self) -> bool {
        true
    }

    fn scores(&self, cx: &mut PickCx<'_>) -> Option<Scores> {
        #[allow(clippy::cast_precision_loss)] // a report needs no more than 53 bits
        let load = |at: usize| f64::from(cx.state(at).load()) * 1e3 / self.weights[at].thousandths() as f64;
        let of = (0..cx.len()).map(|at| Some(load(at))).collect();
        Some(Scores::new(
            "calls in flight per weight, failures included; of two drawn by weight the fewer",
            of,
        ))
    }

    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        better(
            cx,
            |cx| two_by_weight(&self.alias, cx),
            |cx, b, a| {
                let load = |i: usize, of: usize| {
                    u128::from(cx.state(i).load()) * u128::from(self.weights[of].thousandths())
                };
                load(b, a) < load(a, b)
            },
        )
    }
}
