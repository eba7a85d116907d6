//! A ring or a table with what it was made of.

use std::sync::Arc;

use super::maglev_table::{self, MaglevTable};
use super::member::Member;
use super::ring::{Points, Ring};

/// What is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Ring(Points),
    /// Of this size.
    Maglev(u32),
}

/// What was made: it leads from hashes to places in the list that it was made of.
#[derive(Debug)]
pub(super) struct Table {
    shape: Shape,
    made_of: Arc<[Made]>,
}

/// A member, as far as it decides what the table is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Made {
    uid: u64,
    hash: u64,
    weight: u64,
}

#[derive(Debug)]
enum Shape {
    Ring(Ring),
    Maglev(MaglevTable),
}

impl Plan {
    /// What it takes to make it: about as many entries as there will be, and for each instance as much as for 16 of them.
    pub(super) fn effort(self, members: &[Member]) -> u64 {
        let entries = match self {
            Self::Ring(points) => points.estimate(members),
            Self::Maglev(asked) => maglev_table::size(asked, members.len()),
        };
        entries + 16 * members.len() as u64
    }
}

impl Made {
    pub(super) fn of_all(members: &[Member]) -> Arc<[Self]> {
        let of = |member: &Member| Self { uid: member.uid, hash: member.hash, weight: member.weight };
        members.iter().map(of).collect()
    }
}

impl Table {
    pub(super) fn new(plan: Plan, members: &[Member]) -> Self {
        let shape = match plan {
            Plan::Ring(points) => Shape::Ring(Ring::new(points, members)),
            Plan::Maglev(asked) => Shape::Maglev(MaglevTable::new(asked, members)),
        };
        Self { shape, made_of: Made::of_all(members) }
    }

    /// Whether it would come out as it is.
    pub(super) fn is_of(&self, members: &[Made]) -> bool {
        *self.made_of == *members
    }

    /// For each place of its own list, the place in a list of `members`, if it is still there. Both are in the order of
    /// first sight.
    pub(super) fn places_in(&self, members: &[Member]) -> Box<[Option<u32>]> {
        let place = |made: &Made| members.binary_search_by_key(&made.uid, |member| member.uid).ok();
        self.made_of.iter().map(|made| place(made).and_then(|at| u32::try_from(at).ok())).collect()
    }

    /// The first owner that `take` takes, from that of `hash` on; `None` after a number of others.
    #[inline]
    pub(super) fn walk(&self, hash: u64, take: impl FnMut(u32) -> bool) -> Option<u32> {
        match &self.shape {
            Shape::Ring(ring) => ring.walk(hash, take),
            Shape::Maglev(table) => table.walk(hash, take),
        }
    }
}
