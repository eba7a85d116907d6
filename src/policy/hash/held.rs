//! The table of a picker, and how it comes to the next one's.
//!
//! A picker is made while a list is published, on a thread of the runtime. A table that takes a millisecond or two
//! ([`IN_PLACE`]) is made there and then, as long as those of one list do not add up to too much. Others are made on a
//! thread that may block, and until then the picker goes by the table before, as far as its instances are still there. Of
//! several lists meanwhile only the newest gets a table.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

use super::member::Member;
use super::table::{Made, Plan, Table};
use crate::policy::tables::Alias;
use crate::policy::{Candidates, Publishing};
use crate::random::below;

/// What is made in place, by [`Plan::effort`]: more would be felt by other tasks of the thread that publishes. Enough for a
/// table of Maglev's usual size over 1 000 instances, and for a ring of 465.
pub(super) const IN_PLACE: u64 = 82_000;

/// The table of one picker.
#[derive(Clone)]
pub(super) struct Held {
    at: At,
    lineage: Arc<Lineage>,
}

#[derive(Clone)]
enum At {
    /// One instance needs none.
    Alone,
    Made(Arc<Table>),
    InTheMaking(Arc<Making>),
}

/// A table in the making: read without a guard once it is there.
struct Making {
    made: OnceLock<Arc<Table>>,
    /// Let go of as soon as it is.
    until: ArcSwapOption<Until>,
}

/// What is left for another picker of the same list and the same members.
struct Shared {
    of: Arc<[Made]>,
    held: Held,
}

/// What a picker goes by while its table is made.
enum Until {
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
    /// The list whose picker went on from here last.
    heir: u64,
}

struct Job {
    members: Vec<Member>,
    /// A picker that is gone needs no table.
    to: Weak<Making>,
}

impl Held {
    pub(super) fn new(set: &Candidates<'_>, plan: Plan, members: Vec<Member>) -> Self {
        let of = Made::of_all(&members);
        let publishing = set.publishing();
        let shared = publishing.and_then(Publishing::made::<Shared>);
        if let Some(shared) = shared.filter(|shared| shared.held.lineage.plan == plan && shared.of == of) {
            return shared.held.clone();
        }
        let before = set.legacy::<Lineage>().filter(|lineage| lineage.plan == plan);
        let lineage = Lineage::after(before, plan, publishing.map_or(0, Publishing::id));
        let at = if members.len() == 1 { At::Alone } else { lineage.at(set, members, &of) };
        let held = Self { at, lineage };
        if let Some(publishing) = publishing {
            publishing.leave(Arc::new(Shared { of, held: held.clone() }));
        }
        held
    }

    /// The first place that `fits`, from that of `hash` on; `None` after a number of others.
    #[inline]
    pub(super) fn find(&self, hash: u64, fits: impl Fn(usize) -> bool) -> Option<usize> {
        match &self.at {
            At::Alone => Some(0).filter(|at| fits(*at)),
            At::Made(table) => table.walk(hash, |at| fits(at as usize)).map(|at| at as usize),
            At::InTheMaking(making) => making.find(hash, fits),
        }
    }

    pub(super) fn lineage(&self) -> Arc<Lineage> {
        Arc::clone(&self.lineage)
    }

    /// Whether it has the table of its own list.
    #[cfg(test)]
    pub(super) fn is_made(&self) -> bool {
        match &self.at {
            At::Alone | At::Made(_) => true,
            At::InTheMaking(making) => making.made.get().is_some(),
        }
    }
}

impl Making {
    #[inline]
    fn find(&self, hash: u64, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let of = |table: &Table| table.walk(hash, |at| fits(at as usize)).map(|at| at as usize);
        match self.made.get() {
            Some(table) => of(table),
            None => match &*self.until.load() {
                Some(until) => until.find(hash, &fits),
                // It came in between.
                None => self.made.get().and_then(|table| of(table)),
            },
        }
    }

    fn done(&self, table: Arc<Table>) {
        // Nobody else makes it.
        let _ = self.made.set(table);
        self.until.store(None);
    }
}

impl Until {
    fn find(&self, hash: u64, fits: impl Fn(usize) -> bool) -> Option<usize> {
        match self {
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
    /// What a picker of the list `heir` goes on from. Two pickers of one list may come after one of the list before, when the
    /// groups of a chain change: the second starts a lineage of its own, or each would take the other's work away.
    fn after(before: Option<Arc<Self>>, plan: Plan, heir: u64) -> Arc<Self> {
        let Some(before) = before else {
            return Arc::new(Self { plan, work: Mutex::new(Work { heir, ..Work::default() }) });
        };
        let mut work = before.work.lock();
        if work.heir == heir && heir != 0 {
            let latest = work.latest.clone();
            return Arc::new(Self { plan, work: Mutex::new(Work { latest, heir, ..Work::default() }) });
        }
        work.heir = heir;
        // Whatever was to be made next is not wanted any more.
        work.next = None;
        drop(work);
        before
    }

    /// The table for a picker, or what it goes by until that is made.
    fn at(self: &Arc<Self>, set: &Candidates<'_>, members: Vec<Member>, of: &[Made]) -> At {
        let latest = self.work.lock().latest.clone();
        if let Some(table) = latest.as_ref().filter(|table| table.is_of(of)) {
            return At::Made(Arc::clone(table));
        }
        let effort = self.plan.effort(&members);
        let affords = |work| set.publishing().is_none_or(|publishing| publishing.affords(work));
        let behind = set.behind().filter(|_| effort > IN_PLACE || !affords(effort));
        let Some(behind) = behind else {
            let table = Arc::new(Table::new(self.plan, &members));
            self.work.lock().latest = Some(Arc::clone(&table));
            return At::Made(table);
        };
        let until = if let Some(table) = latest {
            let places = table.places_in(&members);
            Until::Older(table, places)
        } else {
            let weights: Vec<u64> = members.iter().map(|member| member.weight).collect();
            let equal = weights.windows(2).all(|two| two[0] == two[1]);
            Until::None(Alias::new(&weights).filter(|_| !equal), members.len())
        };
        let to = Arc::new(Making { made: OnceLock::new(), until: ArcSwapOption::from_pointee(until) });
        if let Some(maker) = self.submit(Job { members, to: Arc::downgrade(&to) }) {
            behind(Box::new(move || drop(maker)));
        }
        At::InTheMaking(to)
    }

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
                to.done(table);
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
