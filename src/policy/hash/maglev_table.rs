//! Maglev's table: every entry belongs to somebody, and each instance has its share of them nearly to the entry.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::member::{Member, by_name};
use super::xx::Xx64;
use crate::random::mix;

/// The most entries, as in Envoy; a prime.
pub(super) const MOST_ENTRIES: u32 = 5_000_011;

/// How often an entry is drawn again for a key whose instance does not fit; see the turns of a rotation.
const DRAWS: u64 = 16;

/// Nobody's yet.
const FREE: u32 = u32::MAX;

/// What separates the draws of one key: the golden ratio, as in `splitmix64`.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Debug)]
pub(super) struct MaglevTable {
    entries: Entries,
    size: u64,
}

/// As narrow as the list allows: what a pick reads is one entry, which should be in the cache.
#[derive(Debug)]
enum Entries {
    Narrow(Box<[u16]>),
    Wide(Box<[u32]>),
}

/// The usual size, as in Envoy and in the paper.
pub(super) const ENTRIES: u32 = 65_537;

/// How many entries a table has: what was asked for, and at least as many as instances. It may not follow the length of the
/// list, since in a table of another size nearly every key has another entry.
pub(super) fn size(asked: u32, n: usize) -> u64 {
    next_prime(u64::from(asked.min(MOST_ENTRIES)).max(n as u64))
}

/// The smallest prime that is not below; the step through a table reaches every entry only if its size is one.
fn next_prime(from: u64) -> u64 {
    let is_prime = |n: &u64| (2..=n.isqrt()).all(|divisor| !n.is_multiple_of(divisor));
    let from = from.max(2);
    // Between a number and its double there is one.
    (from..=2 * from).find(is_prime).unwrap_or(2)
}

/// An instance on its way through its permutation of the table.
struct Lane {
    owner: u32,
    at: u64,
    skip: u64,
    weight: u128,
    /// How many entries it has.
    taken: u128,
}

impl MaglevTable {
    pub(super) fn new(asked: u32, members: &[Member]) -> Self {
        let size = size(asked, members.len());
        let owners = fill(size, members);
        let entries = if u16::try_from(members.len()).is_ok() {
            let narrow = |owner: &u32| u16::try_from(*owner).unwrap_or_default();
            Entries::Narrow(owners.iter().map(narrow).collect())
        } else {
            Entries::Wide(owners.into())
        };
        Self { entries, size }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "an index of the table")]
    fn at(&self, hash: u64) -> u32 {
        let at = (hash % self.size) as usize;
        match &self.entries {
            Entries::Narrow(entries) => u32::from(entries[at]),
            Entries::Wide(entries) => entries[at],
        }
    }

    /// The owner of the entry of `hash`, else those of further draws, which are each key's own, so that the keys of an
    /// instance that is out spread over all.
    #[inline]
    pub(super) fn walk(&self, hash: u64, mut take: impl FnMut(u32) -> bool) -> Option<u32> {
        let home = self.at(hash);
        if take(home) {
            return Some(home);
        }
        (1..=DRAWS)
            .map(|draw| self.at(mix(hash.wrapping_add(draw.wrapping_mul(STEP)))))
            .find(|owner| take(*owner))
    }

    /// How many entries each of `n` owners has.
    #[cfg(test)]
    pub(super) fn shares(&self, n: usize) -> Vec<usize> {
        let mut shares = vec![0; n];
        (0..self.size).for_each(|at| shares[self.at(at) as usize] += 1);
        shares
    }
}

/// The owner of each entry. In turns, each takes the next entry of its permutation that is free; the heaviest takes one in
/// every turn, and a lighter one in its share of them, all of them one in the first. Within a turn it goes by the names.
fn fill(size: u64, members: &[Member]) -> Vec<u32> {
    let mut owners = vec![FREE; usize::try_from(size).unwrap_or_default()];
    let listed = by_name(members).into_iter().filter(|at| members[*at].weight > 0);
    let mut lanes: Vec<Lane> = listed.map(|at| Lane::new(at, &members[at], size)).collect();
    let most = lanes.iter().map(|lane| lane.weight).max().unwrap_or(1);
    if lanes.iter().all(|lane| lane.weight == most) {
        for turn in 0..owners.len() {
            let lane = turn % lanes.len();
            lanes[lane].take(&mut owners);
        }
        return owners;
    }
    // By the turn in which each takes its next one. To go through all in every turn would take the product of both numbers
    // when one instance outweighs the others.
    let mut due: BinaryHeap<Reverse<(u128, usize)>> = (0..lanes.len()).map(|at| Reverse((1, at))).collect();
    for _ in 0..owners.len() {
        let Some(mut next) = due.peek_mut() else { break };
        let Reverse((_, at)) = *next;
        let lane = &mut lanes[at];
        lane.take(&mut owners);
        *next = Reverse(((lane.taken * most).div_ceil(lane.weight.max(1)), at));
    }
    owners
}

impl Lane {
    fn new(at: usize, member: &Member, size: u64) -> Self {
        let mut skip = Xx64::new();
        skip.write(member.name.as_bytes());
        skip.write(b"\0skip");
        Self {
            owner: u32::try_from(at).unwrap_or_default(),
            at: member.hash % size,
            skip: skip.finish() % (size - 1).max(1) + 1,
            weight: u128::from(member.weight),
            taken: 0,
        }
    }

    /// The size is a prime, so the steps meet every entry, and one of them is free.
    #[expect(clippy::cast_possible_truncation, reason = "an index of the table")]
    fn take(&mut self, owners: &mut [u32]) {
        let size = owners.len() as u64;
        self.taken += 1;
        loop {
            let entry = &mut owners[self.at as usize];
            self.at = (self.at + self.skip) % size;
            if *entry == FREE {
                *entry = self.owner;
                return;
            }
        }
    }
}
