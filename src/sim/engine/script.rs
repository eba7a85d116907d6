//! What happens to the servers by itself: neighbours, the script, the registry; and when they are looked at.

use super::events::Event;
use super::setup::{self, Script};
use super::{Engine, SAMPLE};
use crate::sim::Nanos;

impl Engine {
    /// The neighbour of a contended server moves on to another one.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
    pub(super) fn neighbour(&mut self, now: Nanos, at: usize) {
        let left = self.contended[at];
        let n = self.originals;
        if self.contended.len() < n {
            let mut next = left;
            while self.contended.contains(&next) {
                next = self.chances.neighbours.below(n) as u32;
            }
            self.contended[at] = next;
            for (server, times) in [(left, self.burst), (next, 1.0)] {
                let worker = &mut self.workers[server as usize];
                worker.pass(now);
                worker.burst(times);
                self.plan(server);
            }
        }
        let dwell = self.dwell * self.chances.neighbours.exponential();
        self.events.plan(now.saturating_add(dwell as Nanos), Event::Neighbour(at as u32));
    }

    /// The script goes on.
    pub(super) fn act(&mut self, now: Nanos, at: usize) {
        let (server, listed) = match self.script[at] {
            Script::Fault(server, fault) => {
                let worker = &mut self.workers[server as usize];
                worker.pass(now);
                worker.fault = Some((fault, now));
                return self.plan(server);
            }
            Script::Heal(server, since) => {
                let worker = &mut self.workers[server as usize];
                worker.pass(now);
                // A later fault may have taken its place.
                worker.fault = worker.fault.filter(|(_, began)| *began != since);
                return self.plan(server);
            }
            Script::Add(server) => (server, true),
            Script::Remove(server) => (server, false),
            Script::Listed(server, listed) => {
                self.listed[server as usize] = listed;
                return self.events.plan(now, Event::List);
            }
        };
        self.workers[server as usize].absent = !listed;
        #[allow(clippy::cast_possible_truncation)] // of a few
        let next = self.script.len() as u32;
        self.script.push(Script::Listed(server, listed));
        self.events.plan(now.saturating_add(self.discovery_delay), Event::Script(next));
    }

    /// The registry tells what there is, and everybody hears it.
    pub(super) async fn list(&mut self) {
        let all = self.instances.iter().zip(&self.listed);
        let list: Vec<_> = all.filter(|(_, listed)| **listed).map(|(instance, _)| instance.clone()).collect();
        self.discovery.set(&setup::service(), list);
        // Each client has a task that watches; a turn of the runtime runs some sixty.
        self.clock.settle(8 + self.members.len() / 8).await;
    }

    pub(super) fn sample(&mut self, now: Nanos) {
        if now >= self.gauge.window.1 {
            return;
        }
        for (server, worker) in self.workers.iter().enumerate().filter(|(_, worker)| !worker.absent) {
            self.gauge.sample(server, worker.in_flight);
        }
        self.events.plan(now + SAMPLE, Event::Sample);
    }

    pub(super) fn begin(&mut self, now: Nanos) {
        for worker in &mut self.workers {
            worker.pass(now);
            worker.busy = 0.0;
        }
        self.sample(now);
    }

    pub(super) fn end(&mut self) {
        let now = self.gauge.window.1;
        self.gauge.crowd(now);
        for (worker, gauge) in self.workers.iter_mut().zip(&mut self.gauge.servers) {
            worker.pass(now);
            gauge.busy = worker.busy;
            gauge.allocation = worker.allocation();
        }
    }
}
