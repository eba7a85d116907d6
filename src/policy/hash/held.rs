//! The table of a picker, and how it comes to the next one's.
//!
//! A picker is made while a list is published, on a thread of the runtime. A table that takes a millisecond or two
//! ([`IN_PLACE`]) is made there and then, as long as those of one list do not add up to too much. Others are made on a
//! thread that may block, and until then the picker goes by the table before, as far as its instances are still there. Of
//! several lists meanwhile only the newest gets a table.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::member::Member;
use super::table::{Plan, Table};
use crate::policy::Candidates;
use crate::policy::tables::Alias;
use crate::random::below;

/// What is made in place, by [`Plan::effort`]: more would be felt by other tasks of the thread that publishes. Enough for a
/// table of Maglev's usual size over 1 000 instances, and for a ring of 465.
pub(super) const IN_PLACE: u64 = 82_000;

/// The table of one picker.
pub(super) struct Held {
    at: At,
    lineage: Arc<Lineage>,
}

enum At {
    Made(Arc<Table>),
    InTheMaking(Arc<ArcSwap<Stage>>),
}

/// What a picker goes by while its table is made, and then that.
enum Stage {
    Own(Arc<Table>),
    /// The table of an earlier list, with the places in this one.
    Older(Arc<Table>, Box<[Option<u32>]>),
    /// There was none. By weight: keys have a place at once, though not for long.
    None(Option<Alias>, usize),
}

/// What the pickers of one view hand on from list to list.
pub(super) struct Lineage {
    plan: Plan,
    work: Mutex<Work>,
}

#[derive(Default)]
struct Work {
    latest: Option<Arc<Table>>,
    next: Option<Job>,
    running: bool,
}

struct Job {
    members: Vec<Member>,
    /// A picker that is gone needs no table.
    to: Weak<ArcSwap<Stage>>,
}

impl Held {
    pub(super) fn new(set: &Candidates<'_>, plan: Plan, members: Vec<Member>) -> Self {
        let before = set.legacy::<Lineage>().filter(|lineage| lineage.plan == plan);
        let lineage = before.unwrap_or_else(|| Arc::new(Lineage { plan, work: Mutex::default() }));
        let latest = {
            let mut work = lineage.work.lock();
            // Whatever was to be made next is not wanted any more.
            work.next = None;
            work.latest.clone()
        };
        if let Some(table) = latest.as_ref().filter(|table| table.is_of(&members)) {
            return Self { at: At::Made(Arc::clone(table)), lineage };
        }
        let effort = plan.effort(&members);
        let behind = set.behind().filter(|_| effort > IN_PLACE || !set.affords(effort));
        let Some(behind) = behind else {
            let table = Arc::new(Table::new(plan, &members));
            lineage.work.lock().latest = Some(Arc::clone(&table));
            return Self { at: At::Made(table), lineage };
        };
        let stage = if let Some(table) = latest {
            let places = table.places_in(&members);
            Stage::Older(table, places)
        } else {
            let weights: Vec<u64> = members.iter().map(|member| member.weight).collect();
            let equal = weights.windows(2).all(|two| two[0] == two[1]);
            Stage::None(Alias::new(&weights).filter(|_| !equal), members.len())
        };
        let to = Arc::new(ArcSwap::from_pointee(stage));
        if let Some(maker) = lineage.submit(Job { members, to: Arc::downgrade(&to) }) {
            behind(Box::new(move || drop(maker)));
        }
        Self { at: At::InTheMaking(to), lineage }
    }

    /// The first place that `fits`, from that of `hash` on; `None` after a number of others.
    #[inline]
    pub(super) fn find(&self, hash: u64, fits: impl Fn(usize) -> bool) -> Option<usize> {
        match &self.at {
            At::Made(table) => table.walk(hash, |at| fits(at as usize)).map(|at| at as usize),
            At::InTheMaking(stage) => stage.load().find(hash, fits),
        }
    }

    pub(super) fn lineage(&self) -> Arc<Lineage> {
        Arc::clone(&self.lineage)
    }

    /// Whether it has the table of its own list.
    #[cfg(test)]
    pub(super) fn is_made(&self) -> bool {
        match &self.at {
            At::Made(_) => true,
            At::InTheMaking(stage) => matches!(**stage.load(), Stage::Own(_)),
        }
    }
}

impl Stage {
    fn find(&self, hash: u64, fits: impl Fn(usize) -> bool) -> Option<usize> {
        match self {
            Self::Own(table) => table.walk(hash, |at| fits(at as usize)).map(|at| at as usize),
            Self::Older(table, places) => {
                let place = |at: u32| places[at as usize].map(|at| at as usize);
                table.walk(hash, |at| place(at).is_some_and(&fits)).and_then(place)
            }
            Self::None(alias, n) => {
                let at = alias.as_ref().map_or_else(|| below(hash, *n), |alias| alias.at(hash));
                Some(at).filter(|at| fits(*at))
            }
        }
    }
}

impl Lineage {
    /// Notes what to make next, and gives who makes it, unless somebody is at it already.
    fn submit(self: &Arc<Self>, job: Job) -> Option<Maker> {
        let mut work = self.work.lock();
        work.next = Some(job);
        let idle = !std::mem::replace(&mut work.running, true);
        idle.then(|| Maker(Arc::clone(self)))
    }

    fn take(&self) -> Option<Job> {
        let mut work = self.work.lock();
        let job = work.next.take();
        work.running = job.is_some();
        job
    }

    /// Makes tables until none is wanted.
    fn make(&self) {
        while let Some(job) = self.take() {
            if job.to.strong_count() == 0 {
                continue;
            }
            // A panic here would leave the lineage at work for good.
            let made = catch_unwind(AssertUnwindSafe(|| Arc::new(Table::new(self.plan, &job.members))));
            let Ok(table) = made else {
                tracing::error!(plan = ?self.plan, "making a table panicked; the one before stands");
                continue;
            };
            self.work.lock().latest = Some(Arc::clone(&table));
            if let Some(to) = job.to.upgrade() {
                to.store(Arc::new(Stage::Own(table)));
            }
        }
    }
}

/// Makes what is wanted when it is dropped: by the task that it is given to, or, if the runtime ends before that runs, by
/// the thread that ends it. Either way the picker gets its table.
struct Maker(Arc<Lineage>);

impl Drop for Maker {
    fn drop(&mut self) {
        self.0.make();
    }
}
