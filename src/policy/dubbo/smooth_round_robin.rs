use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use crate::policy::tables::{Currents, Sequence};
use crate::policy::{Candidates, Cursor, PickCx, Picker, Policy};
use crate::sync::{AtomicU64, Ordering};

/// Each instance in its turn by weight, in the order of nginx and Dubbo: smooth weighted round robin.
///
/// Everybody's current grows by its weight, the largest has the turn, and pays the sum of the weights. The order is written
/// out once per change of the list, so a pick is one counter and one look, without a lock. Currents outlive lists: a newcomer
/// begins at 0, everybody else where it was, also after a change of its weight, and for a minute after it left.
///
/// [`RoundRobin`](crate::policy::RoundRobin) with weights has the same shares, and no instance with at most half of the weight
/// twice in a row; take this one where the order must be that of nginx or Dubbo. A period of more than 65 536 turns, or more
/// than a million turns times instances, is not written out: then the order is that of `RoundRobin`.
///
/// ```
/// use evenkeel::policy::SmoothRoundRobin;
///
/// let random_start = SmoothRoundRobin::default();
/// let from_the_first = SmoothRoundRobin::exact();
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SmoothRoundRobin {
    exact: bool,
}

impl SmoothRoundRobin {
    /// The order begins where all currents are 0, with the heaviest instance; else at a random turn, so that a fleet of
    /// clients that starts together does not start at one server.
    pub const fn exact() -> Self {
        Self { exact: true }
    }
}

impl Policy for SmoothRoundRobin {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("smooth-round-robin")
    }

    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        let weights = set.thousandths().unwrap_or_else(|| vec![1_000; set.len()]);
        let before = set.legacy::<Order>();
        if let Some(order) = before.as_ref().filter(|order| order.is_of(set, &weights)) {
            return Box::new(Turns(Arc::clone(order)));
        }
        let random = || if self.exact { 0 } else { set.random() };
        Box::new(Turns(Arc::new(Order::after(before.as_deref(), set, &weights, random))))
    }
}

/// For how long the current of an instance that left is kept, in nanoseconds; Dubbo's period of recycling.
const KEEP: u64 = 60_000_000_000;

/// The order of one list, and how far it is.
struct Order {
    uids: Box<[u64]>,
    turns: Table,
    /// The turns taken, of first attempts and of others.
    wheels: Cursor,
    /// The currents of those that left, and when, on the service's clock.
    gone: Box<[(u64, i64, u64)]>,
}

enum Table {
    Smooth(Currents),
    /// Too long to be written out.
    Long(Sequence),
    /// Without a weight above 0, which does not happen.
    Even(u64),
}

impl Order {
    fn is_of(&self, set: &Candidates<'_>, weights: &[u64]) -> bool {
        let same = matches!(&self.turns, Table::Smooth(currents) if currents.is_of(weights));
        same && self.uids.len() == set.len() && (0..set.len()).all(|at| self.uids[at] == set.state(at).uid())
    }

    /// The currents of all that are known, with the time when they left.
    fn known(&self, now: u64) -> impl Iterator<Item = (u64, i64, u64)> {
        let currents = match &self.turns {
            Table::Smooth(currents) => currents.after(self.wheels.first.load(Ordering::Relaxed)),
            _ => Box::default(),
        };
        let listed: Vec<_> =
            self.uids.iter().copied().zip(currents).map(|(uid, at)| (uid, at, now)).collect();
        let kept = move |(_, _, left): &(u64, i64, u64)| now.saturating_sub(*left) < KEEP;
        listed.into_iter().chain(self.gone.iter().copied().filter(kept))
    }

    fn after(before: Option<&Self>, set: &Candidates<'_>, weights: &[u64], random: impl Fn() -> u64) -> Self {
        let uids: Box<[u64]> = (0..set.len()).map(|at| set.state(at).uid()).collect();
        let mut start = vec![0; uids.len()];
        let mut gone = Vec::new();
        for known in before.iter().flat_map(|before| before.known(set.now())) {
            // In the order of first sight, which is that of uids.
            match uids.binary_search(&known.0) {
                Ok(at) => start[at] = known.1,
                Err(_) => gone.push(known),
            }
        }
        let turns = match (Currents::new(weights, &start), Sequence::new(weights)) {
            (Some(currents), _) => Table::Smooth(currents),
            (None, Some(sequence)) => Table::Long(sequence),
            (None, None) => Table::Even(uids.len() as u64),
        };
        let period = if let Table::Smooth(currents) = &turns { currents.period() } else { u64::MAX };
        let count = |before: &Self| {
            let Cursor { first, retry } = &before.wheels;
            (first.load(Ordering::Relaxed), retry.load(Ordering::Relaxed))
        };
        let (first, retry) = match (before.map(count), &turns) {
            // The currents say where it is.
            (Some((_, retry)), Table::Smooth(_)) => (0, retry),
            // An order that began anew with each change would never come to its end.
            (Some(count), _) => count,
            (None, _) => (random() % period, random() % period),
        };
        let wheels = Cursor { first: AtomicU64::new(first), retry: AtomicU64::new(retry) };
        Self { uids, turns, wheels, gone: gone.into() }
    }
}

struct Turns(Arc<Order>);

impl Picker for Turns {
    fn rehearses(&self) -> bool {
        true
    }

    #[inline]
    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        let Order { turns, wheels, .. } = &*self.0;
        cx.first_fit(|cx| {
            let turn = cx.turn_on(wheels);
            match turns {
                Table::Smooth(currents) => currents.at(turn),
                Table::Long(sequence) => sequence.at(turn),
                #[allow(clippy::cast_possible_truncation)] // below the length of the list
                Table::Even(n) => (turn % n) as usize,
            }
        })
    }

    fn legacy(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(Arc::<Order>::clone(&self.0))
    }
}
