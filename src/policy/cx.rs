use std::sync::Arc;

use crate::random::{Random, mix};
use crate::state::{Decay, InstanceState};
use crate::sync::{AtomicU64, Ordering};
use crate::{Request, Tried};

/// Positions of a rotation have 31 bits, as in Spring, whose conformance cases pin what happens at the wrap.
pub(crate) const POSITION_MASK: u64 = 0x7fff_ffff;

/// How many turns are taken for one pick before the set is searched in order.
///
/// With half of the instances unfit, 16 turns fail once in 65 536 picks; more would make a set with one fit instance slow.
const TURNS: u32 = 16;

/// Two wheels of one service and group: first attempts, and all others. It lives as long as the service.
///
/// Alone in two cache lines: the hardware fetches lines in pairs, and this is the one that threads contend for.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Cursor {
    pub(crate) first: AtomicU64,
    pub(crate) retry: AtomicU64,
}

/// Which instances a pick may take, from the best to the last resort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Usable and not tried.
    Fit,
    /// Not tried, though it may be skipped.
    Untried,
    /// Usable, though it was tried: it was reached then.
    Usable,
    /// Anything.
    Any,
}

/// The instances of a view and how far their rotations are.
pub(crate) struct Set {
    pub(crate) states: Box<[Arc<InstanceState>]>,
    pub(crate) cursor: Arc<Cursor>,
    /// Of the wheel of first attempts, and of the other.
    pub(crate) offsets: [u64; 2],
    /// Where the wheels stood when a report copied them, to pick without effect; `None` of a set that calls are picked from.
    pub(crate) rehearsal: Option<[u64; 2]>,
}

/// What makes a pick more than the common one: a first attempt at what is usable.
#[derive(Clone, Copy)]
pub(crate) struct Rule<'a> {
    pub(crate) tried: Option<&'a Tried>,
    pub(crate) level: Level,
}

/// One pick: the set, the request, and the means to turn and to draw.
pub struct PickCx<'a> {
    pub(crate) set: &'a Set,
    pub(crate) request: &'a Request<'a>,
    pub(crate) random: &'a Random,
    /// `None` for the common pick, so that it has one thing to test.
    pub(crate) rule: Option<&'a Rule<'a>>,
    /// On the service's clock; 0 as long as nobody read it.
    pub(crate) now: u64,
}

impl Rule<'_> {
    #[inline(never)]
    fn admits(&self, state: &InstanceState) -> bool {
        let untried = self.tried.is_none_or(|tried| !tried.contains(state.uid()));
        match self.level {
            Level::Fit => untried && state.fits(),
            Level::Untried => untried,
            Level::Usable => state.fits(),
            Level::Any => true,
        }
    }
}

/// A random number from 0 up to 1.
#[allow(clippy::cast_precision_loss)] // 24 bits
pub(crate) fn unit(random: u64) -> f32 {
    (random >> 40) as f32 / (1_u64 << 24) as f32
}

impl<'a> PickCx<'a> {
    /// How many instances there are; never 0.
    #[inline]
    pub fn len(&self) -> usize {
        self.set.states.len()
    }

    /// Whether there is none, which does not happen.
    pub fn is_empty(&self) -> bool {
        self.set.states.is_empty()
    }

    /// The request.
    pub fn request(&self) -> &Request<'a> {
        self.request
    }

    /// The state of the instance at `index`.
    #[inline]
    pub fn state(&self, index: usize) -> &InstanceState {
        &self.set.states[index]
    }

    /// The next turn of the rotation, from 0 to 2^31 - 1. First attempts and later ones turn wheels of their own.
    ///
    /// When nobody is fit, any turn: to find that out took the wheel through some tens of turns, always as many, and a
    /// number of instances that divides them would send every call to one of them.
    #[inline]
    pub fn turn(&mut self) -> u64 {
        match self.wheel() {
            Some((wheel, offset)) => {
                wheel.fetch_add(1, Ordering::Relaxed).wrapping_add(offset) & POSITION_MASK
            }
            None => self.random() & POSITION_MASK,
        }
    }

    /// What `takes` says of the first turn that it takes, from the next one on; those before it are gone with it. However
    /// many there are, it is one locked operation, unless another thread turns the wheel meanwhile.
    #[inline]
    pub(crate) fn turn_until(&mut self, mut takes: impl FnMut(&mut Self, u64) -> Option<usize>) -> usize {
        if let Some((wheel, offset)) = self.wheel() {
            let from = wheel.load(Ordering::Relaxed);
            let mut to = from;
            let taken = loop {
                let turn = to.wrapping_add(offset) & POSITION_MASK;
                to = to.wrapping_add(1);
                if let Some(taken) = takes(self, turn) {
                    break taken;
                }
            };
            if wheel.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return taken;
            }
        }
        loop {
            let turn = self.turn();
            if let Some(taken) = takes(self, turn) {
                return taken;
            }
        }
    }

    /// The wheel of this pick, and where it stood; `None` when nobody is fit.
    #[inline]
    fn wheel(&self) -> Option<(&'a AtomicU64, u64)> {
        let set = self.set;
        match self.rule {
            Some(rule) if rule.level != Level::Fit => None,
            Some(Rule { tried: Some(_), .. }) => Some((&set.cursor.retry, set.offsets[1])),
            _ => Some((&set.cursor.first, set.offsets[0])),
        }
    }

    /// The same on wheels that the policy keeps by itself.
    #[inline]
    pub(crate) fn turn_on(&mut self, wheels: &Cursor) -> u64 {
        let (wheel, which) = match self.rule {
            Some(rule) if rule.level != Level::Fit => return self.random(),
            Some(Rule { tried: Some(_), .. }) => (&wheels.retry, 1),
            _ => (&wheels.first, 0),
        };
        if let Some(stood) = self.set.rehearsal {
            let copy = [&self.set.cursor.first, &self.set.cursor.retry][which];
            let turned = copy.fetch_add(1, Ordering::Relaxed).wrapping_sub(stood[which]);
            return wheel.load(Ordering::Relaxed).wrapping_add(turned);
        }
        wheel.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether no call follows: then a picker notes nothing.
    #[inline]
    pub(crate) fn rehearses(&self) -> bool {
        self.set.rehearsal.is_some()
    }

    /// What an answer of the instance at `index` takes, in nanoseconds: a mean that jumps to every peak and forgets it, but at
    /// least the mean age of its calls in flight, so that one which hangs is seen before it answers. `None` when nothing is
    /// known of it. For a policy whose [`needs`](super::Policy::needs) are [`Needs::latency`](super::Needs::latency); the first
    /// call of a pick reads the clock.
    pub fn latency(&mut self, index: usize) -> Option<f32> {
        let decay = self.set.states[index].service().decay();
        self.pace(index, decay).1
    }

    /// The same with the calls in flight, for a policy that knows how latencies are forgotten.
    #[inline]
    pub(crate) fn pace(&mut self, index: usize, decay: Decay) -> (u32, Option<f32>) {
        let now = self.now();
        self.set.states[index].pace(now, decay)
    }

    /// Nanoseconds on the service's clock. The first call of a pick reads it, and the lease begins then.
    #[inline]
    pub(crate) fn now(&mut self) -> u64 {
        if self.now == 0 {
            self.now = self.set.states[0].service().now();
        }
        self.now
    }

    /// A random number.
    #[inline]
    pub fn random(&mut self) -> u64 {
        self.random.next()
    }

    /// Whether the instance at `index` may be picked now.
    #[inline]
    pub fn fits(&self, index: usize) -> bool {
        let state = &self.set.states[index];
        match self.rule {
            None => state.fits(),
            Some(rule) => rule.admits(state),
        }
    }

    /// Whether the instance at `index` is warm, or chance gives it this turn though it warms up: with the part of its share
    /// that its slow start has reached.
    #[inline]
    pub fn is_warm(&mut self, index: usize) -> bool {
        !self.set.states[index].is_warming() || self.warms(index)
    }

    /// Whether the instance at `index` may be picked for a key with this hash. One that warms up gets a part of its keys, and those
    /// that it has stay its own.
    #[inline]
    pub(crate) fn takes(&self, index: usize, hash: u64) -> bool {
        self.fits(index) && (!self.set.states[index].is_warming() || self.warms_for(index, hash))
    }

    /// The part of its share that the instance at `index` gets: 1 unless a slow start gives it less. Of one that
    /// [warms up](InstanceState::is_warming) it reads the clock.
    pub fn warmth(&mut self, index: usize) -> f32 {
        let state = &self.set.states[index];
        if !state.is_warming() {
            return 1.0;
        }
        if self.now == 0 {
            self.now = state.service().now();
        }
        state.warmth(self.now)
    }

    #[cold]
    fn warms(&mut self, index: usize) -> bool {
        let (part, draw) = (self.warmth(index), self.random());
        self.spares_nobody() || unit(draw) < part
    }

    #[cold]
    fn warms_for(&self, index: usize, hash: u64) -> bool {
        let state = &self.set.states[index];
        let part = state.warmth(state.service().now());
        self.spares_nobody() || unit(mix(hash ^ mix(state.uid()))) < part
    }

    /// When nobody is fit, who warms up is as good as the others.
    fn spares_nobody(&self) -> bool {
        self.rule.is_some_and(|rule| rule.level != Level::Fit)
    }

    /// Draws with `draw` until an instance fits, at most 16 times, then takes any of those that fit. One that warms up is passed
    /// over more often.
    #[inline]
    pub fn first_fit(&mut self, mut draw: impl FnMut(&mut Self) -> usize) -> Option<usize> {
        if self.rule.is_some() {
            return self.further_fit(None, draw);
        }
        // Nearly every pick ends here, without a call.
        let index = draw(self);
        if self.set.states[index].is_plain() {
            return Some(index);
        }
        self.further_fit(Some(index), draw)
    }

    #[inline(never)]
    fn further_fit(
        &mut self,
        mut drawn: Option<usize>,
        mut draw: impl FnMut(&mut Self) -> usize,
    ) -> Option<usize> {
        for _ in 0..TURNS {
            let index = drawn.take().unwrap_or_else(|| draw(self));
            if self.fits(index) && self.is_warm(index) {
                return Some(index);
            }
        }
        self.search()
    }

    #[cold]
    fn search(&mut self) -> Option<usize> {
        self.any(|_, _| true)
    }

    /// Any of those that fit and that `accepts`, each as likely as the others, who warms up with its part. One pass, in which each
    /// takes the place of those before it with the chance that its part is of all. To walk on from a random place instead would
    /// send whatever falls into a row of unfit ones to the first behind it.
    #[cold]
    pub(crate) fn any(&mut self, accepts: impl Fn(&Self, usize) -> bool) -> Option<usize> {
        let chance = self.random();
        let (mut found, mut total) = (None, 0.0_f32);
        for at in 0..self.len() {
            if !self.fits(at) || !accepts(self, at) {
                continue;
            }
            let part = self.part(at);
            total += part;
            if found.is_none() || unit(mix(chance ^ at as u64)) * total < part {
                found = Some(at);
            }
        }
        found
    }

    /// The part of its share that the instance at `index` is to get of this pick.
    pub(crate) fn part(&mut self, index: usize) -> f32 {
        if self.spares_nobody() { 1.0 } else { self.warmth(index) }
    }
}
