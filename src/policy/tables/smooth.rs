//! One period of a weighted rotation, written out so that nobody's turns come in a burst.
//!
//! Each instance of weight `w` in a period of `S` turns has `w` visits. Visit `v` may happen from
//! turn `v * S / w` on (its release) and should happen before `(v + 1) * S / w` (its deadline).
//! Each turn goes to the released visit with the earliest deadline in whole turns, heavier and
//! then earlier instances first among equals. That alone keeps everyone within about one visit of
//! its share. On top of it stands a rule callers can rely on: an instance with at most half of the
//! weight never has two turns in a row, also where the table starts again.
//!
//! All visits are known beforehand, so they are ranked once, by counting; which of the released
//! ones comes first is then the lowest bit in a set, and a turn costs the same for any number of
//! instances. Heaps would do it too, at more than twice the time.

use std::cmp::Reverse;

use super::ranks::Ranks;

/// No lane.
const NONE: u32 = u32::MAX;

/// One instance on its way through the period.
struct Lane {
    index: u32,
    weight: u32,
    /// Its next visit, among all visits lane by lane.
    visit: usize,
    /// The visit after its last.
    end: usize,
    /// The next lane released at the same turn.
    next: u32,
}

/// One period in smooth order: each index as often as its weight says once the common divisor is
/// taken out. `None` if that makes more than `cap` slots, or none at all.
///
/// O(S + n log n) for S slots. A `cap` above [`Ranks::MOST`] counts as that, except for weights
/// that are all equal (or zero), which need no ordering.
pub(crate) fn smooth(weights: &[u64], cap: usize) -> Option<Box<[u32]>> {
    let divisor = weights.iter().fold(0, |divisor, &weight| common_divisor(weight, divisor));
    let mut total = 0;
    let mut lanes = Vec::new();
    for (index, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0) {
        let weight = usize::try_from(weight / divisor).ok().filter(|&weight| weight <= cap)?;
        let (visit, end) = (total, total + weight);
        total = Some(end).filter(|&end| end <= cap)?;
        let (index, weight) = (u32::try_from(index).ok()?, u32::try_from(weight).ok()?);
        lanes.push(Lane { index, weight, visit, end, next: NONE });
    }
    if lanes.len() == total {
        return (total > 0).then(|| lanes.iter().map(|lane| lane.index).collect());
    }
    if total > Ranks::MOST {
        return None;
    }
    lanes.sort_by_key(|lane| Reverse(lane.weight));
    let heavy = lanes.first().filter(|lane| lane.weight as usize * 2 > total);
    let heavy = heavy.map(|lane| lane.index);
    let mut slots = schedule(&mut lanes, total, heavy);
    separate(&mut slots, heavy);
    Some(slots)
}

/// The deadline of every visit, lane by lane, rounded up to whole turns; it is also the turn at
/// which the lane's next visit is released.
fn deadlines(lanes: &[Lane], total: usize) -> Vec<u32> {
    let mut due = vec![0; total];
    for lane in lanes {
        let weight = lane.weight as usize;
        let (step, rest) = (total / weight, total % weight);
        let (mut whole, mut carry) = (0, 0);
        for due in &mut due[lane.visit..lane.end] {
            (whole, carry) = (whole + step, carry + rest);
            if carry >= weight {
                (whole, carry) = (whole + 1, carry - weight);
            }
            *due = number(whole + usize::from(carry > 0));
        }
    }
    due
}

/// The rank of every visit, by deadline and then by lane, and the lane of every rank.
fn rank(lanes: &[Lane], due: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let mut place = vec![0_u32; due.len() + 2];
    for &due in due {
        place[due as usize + 1] += 1;
    }
    for due in 1..place.len() {
        place[due] += place[due - 1];
    }
    let (mut ranks, mut owners) = (vec![0; due.len()], vec![0; due.len()]);
    for (number, lane) in (0..).zip(lanes) {
        for visit in lane.visit..lane.end {
            let place = &mut place[due[visit] as usize];
            (ranks[visit], owners[*place as usize]) = (*place, number);
            *place += 1;
        }
    }
    (ranks, owners)
}

/// Earliest deadline first among the released visits, sparing whoever had the turn before.
fn schedule(lanes: &mut [Lane], total: usize, heavy: Option<u32>) -> Box<[u32]> {
    let due = deadlines(lanes, total);
    let (ranks, owners) = rank(lanes, &due);
    // By turn, the first of the lanes released then.
    let mut released = vec![NONE; total + 1];
    let mut ready = Ranks::new(total);
    for lane in lanes.iter() {
        ready.insert(ranks[lane.visit] as usize);
    }
    let mut slots = Vec::with_capacity(total);
    let mut last = NONE;
    for turn in 0..total {
        let mut lane = std::mem::replace(&mut released[turn], NONE);
        while let Some(state) = lanes.get_mut(lane as usize) {
            ready.insert(ranks[state.visit] as usize);
            lane = std::mem::replace(&mut state.next, NONE);
        }
        // Someone is always released: at every turn the visits made add up to the visits due, so
        // whoever is not ahead of its share has one. The others are asked only to spare `last`,
        // and `last` gets the turn again only if nobody else has any visit left.
        let first = ready.first_from(0);
        let mut chosen = first;
        if let Some(rank) = first.filter(|&rank| owners[rank] == last) {
            chosen = ready.first_from(rank + 1);
        }
        let early = || (turn + 1..total).find(|&turn| released[turn] != NONE);
        let lane = if let Some(rank) = chosen {
            ready.remove(rank);
            owners[rank]
        } else if let Some(turn) = early() {
            let lane = released[turn];
            released[turn] = std::mem::replace(&mut lanes[lane as usize].next, NONE);
            lane
        } else if let Some(rank) = first {
            ready.remove(rank);
            owners[rank]
        } else {
            break;
        };
        let state = &mut lanes[lane as usize];
        slots.push(state.index);
        last = if heavy == Some(state.index) { NONE } else { lane };
        let release = due[state.visit] as usize;
        state.visit += 1;
        if state.visit < state.end {
            let release = release.max(turn + 1);
            state.next = std::mem::replace(&mut released[release], lane);
        }
    }
    slots.into_boxed_slice()
}

/// Moves slots until nobody but `heavy` has two in a row, reading the table as a ring.
///
/// The schedule leaves such a pair near the end of one table in tens of thousands. This always ends, and always
/// well. Say x, with w <= S / 2 of the slots, has two in a row. Then its slots form at most w - 1
/// runs, and as many runs of other slots lie between them. Those hold S - w >= w slots, more than
/// there are runs, so one of them has two neighbours that are both not x. Taking one x out of its
/// pair makes no new pair (x still stands there), putting it between those two makes none either,
/// and the pair is gone: each move lowers the number of pairs by at least one.
pub(super) fn separate(slots: &mut [u32], heavy: Option<u32>) {
    let len = slots.len();
    while let Some(left) = pair(slots, heavy) {
        let (x, from) = (slots[left], (left + 1) % len);
        let free = |gap: usize| slots[gap] != x && slots[(gap + 1) % len] != x;
        // The nearest gap, so that the order changes as little as it can.
        let mut near = (1..len).flat_map(|far| [(left + len - far) % len, (left + far) % len]);
        let Some(gap) = near.find(|&gap| free(gap)) else { return };
        if from <= gap {
            slots[from..=gap].rotate_left(1);
        } else {
            slots[gap + 1..=from].rotate_right(1);
        }
    }
}

/// Where someone other than `heavy` has two turns in a row: the left one of them.
fn pair(slots: &[u32], heavy: Option<u32>) -> Option<usize> {
    let same = |left: u32, right: u32| left == right && heavy != Some(left);
    let seam = same(*slots.last()?, *slots.first()?).then_some(slots.len() - 1);
    seam.or_else(|| slots.windows(2).rposition(|two| same(two[0], two[1])))
}

/// Turns and visits are at most [`Ranks::MOST`].
#[expect(clippy::cast_possible_truncation, reason = "at most Ranks::MOST")]
fn number(turn: usize) -> u32 {
    turn as u32
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
