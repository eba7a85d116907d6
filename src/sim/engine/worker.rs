use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use super::calls::{Calls, Handle};
use crate::sim::{Discipline, Fault, Nanos, SECOND, Server};

/// A request that is worked on: done when the server's clock of work shows `finish`.
#[derive(Debug)]
struct Job {
    finish: f64,
    call: Handle,
}

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Job {}
impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Job {
    /// The greatest ends first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.finish.total_cmp(&self.finish)
    }
}

/// A server at work.
///
/// All requests that it works on get the same rate, so one clock of work does for all of them: it goes at that rate, and a
/// request is done when it shows what it showed at the beginning and the demand. A change of the rate moves no request.
#[derive(Debug)]
pub(super) struct Worker {
    speed: f64,
    allocation: f64,
    /// Cores that it has now.
    cores: f64,
    discipline: Discipline,
    pub(super) fault: Option<(Fault, Nanos)>,
    /// It is not there, yet or any more.
    pub(super) absent: bool,
    pub(super) zone: Option<u32>,

    /// The clock of work, in nanoseconds of one request at one core of speed 1.
    work: f64,
    at: Nanos,
    rate: f64,
    serving: usize,
    jobs: BinaryHeap<Job>,
    queue: VecDeque<(Handle, f64)>,
    /// The next end that is planned, and of which version the plan is.
    planned: Option<Nanos>,
    pub(super) version: u32,

    /// Requests that it has.
    pub(super) in_flight: u32,
    /// Nanoseconds of cores that it used.
    pub(super) busy: f64,
    recent: Option<Recent>,
}

/// Means over about a second.
#[derive(Debug, Default)]
struct Recent {
    cores: f64,
    per_second: f64,
}

impl Recent {
    #[allow(clippy::cast_precision_loss)]
    fn pass(&mut self, time: Nanos, cores: f64) {
        let left = (-(time as f64) / SECOND as f64).exp();
        self.cores = cores + (self.cores - cores) * left;
        self.per_second *= left;
    }
}

impl Worker {
    pub(super) fn new(server: &Server, discipline: Discipline, zone: Option<u32>, reports: bool) -> Self {
        Self {
            speed: server.speed,
            allocation: server.allocation,
            cores: server.allocation,
            discipline,
            fault: None,
            absent: false,
            zone,
            work: 0.0,
            at: 0,
            rate: 0.0,
            serving: 0,
            jobs: BinaryHeap::new(),
            queue: VecDeque::new(),
            planned: None,
            version: 0,
            in_flight: 0,
            busy: 0.0,
            recent: reports.then(Recent::default),
        }
    }

    pub(super) fn allocation(&self) -> f64 {
        self.allocation
    }

    /// Whether it takes no more requests.
    pub(super) fn is_full(&self) -> bool {
        self.in_flight as usize >= self.discipline.most
    }

    /// Whether it takes no connections.
    pub(super) fn refuses(&self, now: Nanos) -> bool {
        self.absent || self.fault.is_some_and(|(fault, since)| fault.refuses(now - since))
    }

    /// Lets time pass up to `now`.
    #[allow(clippy::cast_precision_loss)] // 53 bits are 104 days
    pub(super) fn pass(&mut self, now: Nanos) {
        let time = now - self.at;
        self.at = now;
        self.work += time as f64 * self.rate;
        let cores = self.cores_used();
        self.busy += time as f64 * cores;
        if let Some(recent) = &mut self.recent {
            recent.pass(time, cores);
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn cores_used(&self) -> f64 {
        (self.serving as f64).min(self.cores)
    }

    /// The part of its allocation that it used of late, and how many requests it had per second.
    pub(super) fn recent(&self) -> (f64, f64) {
        self.recent.as_ref().map_or((0.0, 0.0), |recent| (recent.cores / self.allocation, recent.per_second))
    }

    /// Takes a request at the time up to which it has passed; whether it works on it at once.
    pub(super) fn take(&mut self, call: Handle, demand: f64) -> bool {
        self.in_flight += 1;
        if let Some(recent) = &mut self.recent {
            recent.per_second += 1.0;
        }
        if self.serving < self.discipline.workers {
            self.begin(call, demand);
            return true;
        }
        self.queue.push_back((call, demand));
        false
    }

    fn begin(&mut self, call: Handle, demand: f64) {
        self.serving += 1;
        self.jobs.push(Job { finish: self.work + demand, call });
    }

    /// One that it worked on is gone, done or given up; the call that waited longest takes its place, and is returned.
    pub(super) fn leave(&mut self, calls: &Calls) -> Option<Handle> {
        self.serving -= 1;
        while let Some((call, demand)) = self.queue.pop_front() {
            if calls.is_live(call) {
                self.begin(call, demand);
                return Some(call);
            }
        }
        None
    }

    /// The request that is done now, by the plan.
    pub(super) fn done(&mut self, calls: &Calls) -> Option<Handle> {
        self.planned = None;
        self.drop_dead(calls);
        self.jobs.pop().map(|job| job.call)
    }

    fn drop_dead(&mut self, calls: &Calls) {
        while self.jobs.peek().is_some_and(|job| !calls.is_live(job.call)) {
            self.jobs.pop();
        }
    }

    /// How many times its allocation it has from now on.
    pub(super) fn burst(&mut self, times: f64) {
        self.cores = self.allocation * times;
    }

    /// Plans anew after a change: when the next request is done, if that is another time than before.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
    pub(super) fn plan(&mut self, calls: &Calls) -> Option<Nanos> {
        let pace = self.speed * self.fault.map_or(1.0, |(fault, _)| fault.speed());
        self.rate = pace * (self.cores / self.serving.max(1) as f64).min(1.0);
        self.drop_dead(calls);
        let next = self.jobs.peek().filter(|_| self.rate > 0.0).map(|job| {
            let rest = ((job.finish - self.work) / self.rate).max(0.0).ceil();
            self.at.saturating_add(rest as u64)
        });
        if next == self.planned {
            return None;
        }
        self.planned = next;
        self.version = self.version.wrapping_add(1);
        next
    }
}
