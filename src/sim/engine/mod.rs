//! The loop of a run: one event after the other.

mod calls;
mod clock;
mod events;
mod gauge;
mod script;
mod setup;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use calls::{Call, Calls, Handle, Place};
use clock::Clock;
use events::{Event, Events};
pub(super) use gauge::{BUCKET, Gauge, ServerGauge};
use setup::{Member, Script};
use worker::Worker;

use super::chance::Chance;
use super::keys::Keys;
use super::{Demand, Fault, Nanos, Network, Report, SimError, nanos};
use crate::discovery::SimpleDiscovery;
use crate::{Choice, Failure, Outcome, ServiceInstance};

/// How often the requests of the servers are counted.
const SAMPLE: Nanos = 10_000_000;

/// What an answer tells of its server, as it is when the answer reaches the client.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// The number of the server.
    pub server: usize,
    /// How the call ends.
    pub outcome: Outcome,
    /// How long it took.
    pub took: Duration,
    /// Requests that the server has.
    pub in_flight: usize,
    /// The part of its allocation that it used, over about a second; above 1 when it bursts.
    pub utilization: f64,
    /// Requests per second that it got, over about a second.
    pub requests_per_second: f64,
}

type Hear = dyn Fn(&Choice, &Answer) + Send + Sync;

/// Who hears of answers.
#[derive(Clone)]
pub(super) struct Hook(pub(super) Arc<Hear>);

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

/// A stream of chance for each use.
struct Chances {
    arrivals: Chance,
    demands: Chance,
    keys: Chance,
    faults: Chance,
    neighbours: Chance,
}

/// A run.
pub(super) struct Engine {
    clock: Clock,
    events: Events,
    calls: Calls,
    workers: Vec<Worker>,
    members: Vec<Member>,
    gauge: Gauge,
    chances: Chances,
    script: Vec<Script>,
    /// Servers with a busy neighbour, and how many times its allocation another one has.
    contended: Vec<u32>,
    /// How many servers there are from the start.
    originals: usize,
    burst: f64,
    dwell: f64,

    discovery: SimpleDiscovery,
    instances: Vec<ServiceInstance>,
    listed: Vec<bool>,
    discovery_delay: Nanos,

    demand: Demand,
    network: Network,
    deadline: Option<Nanos>,
    keys: Keys,
    hook: Option<Hook>,
    /// The mean time between two arrivals, in nanoseconds.
    gap: f64,
    next_arrival: Nanos,
    /// After this nobody waits any more.
    last: Nanos,
    stranger: Option<String>,
}

impl Engine {
    /// Runs to the end.
    pub(super) async fn run(mut self) -> Result<Report, SimError> {
        let mut measured = false;
        while !measured || self.gauge.open > 0 {
            let (due, event) = (self.calls.next_due(), self.events.next_at());
            let now = self.next_arrival.min(due).min(event);
            if now > self.last {
                break;
            }
            self.clock.to(now).await;
            // What ends comes before what begins.
            if event == now {
                match self.events.pop() {
                    Some(Event::List) => self.list().await,
                    Some(Event::End) => {
                        self.end();
                        measured = true;
                    }
                    Some(event) => self.happen(now, event),
                    None => {}
                }
            } else if due == now {
                self.give_up(now);
            } else {
                self.arrive(now);
                if let Some(instance) = self.stranger.take() {
                    return Err(SimError::Stranger { instance });
                }
            }
        }
        Ok(self.report())
    }

    fn report(mut self) -> Report {
        let open = self.calls.live() as u64;
        // Each of them gives its lease back.
        self.calls.drop_all();
        let leases: u64 = self.members.iter().map(|member| u64::from(member.balancer.in_flight())).sum();
        Report::new(self.gauge, open, leases)
    }

    fn happen(&mut self, now: Nanos, event: Event) {
        match event {
            Event::Reach(call) => self.reach(now, call),
            Event::Depart { server, version } => self.depart(now, server, version),
            Event::Fail(call) => {
                if let Some(server) = self.calls.get(call).map(|call| call.server) {
                    self.workers[server as usize].in_flight -= 1;
                    self.answer(now, call, Outcome::Status(500));
                }
            }
            Event::Return(call, outcome) => self.finish(now, call, outcome),
            Event::Neighbour(at) => self.neighbour(now, at as usize),
            Event::Script(at) => self.act(now, at as usize),
            Event::Sample => self.sample(now),
            Event::Begin => self.begin(now),
            Event::List | Event::End => {}
        }
    }

    /// A request arrives at a client.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
    fn arrive(&mut self, now: Nanos) {
        let chances = &mut self.chances;
        self.next_arrival = now.saturating_add((self.gap * chances.arrivals.exponential()) as Nanos);
        // Of one Poisson process each request goes to any client: then each client sees a Poisson process.
        let client = chances.arrivals.below(self.members.len());
        let demand = self.demand.draw(&mut chances.demands);
        let key = if self.keys.len() == 0 { 0 } else { chances.keys.below(self.keys.len()) };
        let member = &mut self.members[client];
        let Ok(choice) = member.balancer.try_choose(&self.keys.request(key)) else {
            self.gauge.not_chosen(now);
            return;
        };
        let Some(server) = member.server_of(&choice, &self.instances) else {
            self.stranger = Some(choice.instance().to_string());
            return;
        };
        let crosses = self.workers[server as usize].zone.is_some_and(|zone| Some(zone) != member.zone);
        let delay = nanos(if crosses { self.network.other_zone } else { self.network.same_zone });
        let client = client as u32;
        self.gauge.picked(now, client, server, crosses);
        let call = Call { choice, began: now, demand, client, server, place: Place::Underway };
        let due = self.deadline.map(|deadline| now.saturating_add(deadline));
        let call = self.calls.add(call, due);
        if delay == 0 {
            self.reach(now, call);
        } else {
            self.events.plan(now.saturating_add(delay), Event::Reach(call));
        }
    }

    /// A request reaches its server.
    fn reach(&mut self, now: Nanos, handle: Handle) {
        let Some(call) = self.calls.get(handle) else { return };
        let (server, demand) = (call.server, call.demand);
        let worker = &mut self.workers[server as usize];
        if worker.refuses(now) {
            return self.answer(now, handle, Outcome::Failure(Failure::Connect));
        }
        if worker.is_full() {
            return self.answer(now, handle, Outcome::Status(503));
        }
        let place = match worker.fault {
            Some((Fault::BlackHole, _)) => {
                worker.in_flight += 1;
                Place::Held
            }
            Some((Fault::FailFast(after), _)) => {
                worker.in_flight += 1;
                self.events.plan(now.saturating_add(nanos(after)), Event::Fail(handle));
                Place::Held
            }
            _ => {
                worker.pass(now);
                if worker.take(handle, demand) { Place::Served } else { Place::Queued }
            }
        };
        call_at(&mut self.calls, handle, place);
        if self.gauge.counts(now) {
            let most = &mut self.gauge.servers[server as usize].max_in_flight;
            *most = (*most).max(self.workers[server as usize].in_flight);
        }
        self.plan(server);
    }

    /// A server is done with a request.
    fn depart(&mut self, now: Nanos, server: u32, version: u32) {
        let worker = &mut self.workers[server as usize];
        if worker.version != version {
            return;
        }
        worker.pass(now);
        let Some(call) = worker.done(&self.calls) else { return };
        worker.in_flight -= 1;
        let next = worker.leave(&self.calls);
        let outcome = match worker.fault {
            Some((Fault::Grey(rate), _)) if self.chances.faults.uniform() <= rate => Outcome::Status(500),
            _ => Outcome::Status(200),
        };
        if let Some(next) = next {
            call_at(&mut self.calls, next, Place::Served);
        }
        self.answer(now, call, outcome);
        self.plan(server);
    }

    fn plan(&mut self, server: u32) {
        let worker = &mut self.workers[server as usize];
        if let Some(at) = worker.plan(&self.calls) {
            self.events.plan(at, Event::Depart { server, version: worker.version });
        }
    }

    /// The answer of a server goes back.
    fn answer(&mut self, now: Nanos, handle: Handle, outcome: Outcome) {
        let Some(call) = self.calls.get(handle) else { return };
        call.place = Place::Underway;
        let zone = self.workers[call.server as usize].zone;
        let crosses = zone.is_some_and(|zone| Some(zone) != self.members[call.client as usize].zone);
        let delay = nanos(if crosses { self.network.other_zone } else { self.network.same_zone });
        if delay == 0 {
            self.finish(now, handle, outcome);
        } else {
            self.events.plan(now.saturating_add(delay), Event::Return(handle, outcome));
        }
    }

    /// A call ends.
    fn finish(&mut self, now: Nanos, handle: Handle, outcome: Outcome) {
        let Some(call) = self.calls.take(handle) else { return };
        if let (Some(hook), true) = (&self.hook, outcome.is_answer()) {
            let worker = &mut self.workers[call.server as usize];
            worker.pass(now);
            let (utilization, requests_per_second) = worker.recent();
            let (server, in_flight) = (call.server as usize, worker.in_flight as usize);
            let took = Duration::from_nanos(now - call.began);
            let answer = Answer { server, outcome, took, in_flight, utilization, requests_per_second };
            (hook.0)(&call.choice, &answer);
        }
        call.choice.complete(outcome);
        self.gauge.ended(now, call.began, call.client, call.server, outcome);
    }

    /// A client gives up, and the server drops the work.
    fn give_up(&mut self, now: Nanos) {
        let Some(handle) = self.calls.overdue() else { return };
        let Some(call) = self.calls.get(handle) else { return };
        let (server, place) = (call.server, call.place);
        self.finish(now, handle, Outcome::Failure(Failure::Timeout));
        let worker = &mut self.workers[server as usize];
        match place {
            Place::Underway => return,
            Place::Held | Place::Queued => worker.in_flight -= 1,
            Place::Served => {
                worker.pass(now);
                worker.in_flight -= 1;
                if let Some(next) = worker.leave(&self.calls) {
                    call_at(&mut self.calls, next, Place::Served);
                }
            }
        }
        self.plan(server);
    }
}

fn call_at(calls: &mut Calls, handle: Handle, place: Place) {
    if let Some(call) = calls.get(handle) {
        call.place = place;
    }
}
