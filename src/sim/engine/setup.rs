use std::error::Error;
use std::time::Duration;

use super::{Calls, Chances, Clock, Engine, Event, Events, Gauge, Nanos, ServerGauge, Worker};
use crate::balancer::LoadBalancer;
use crate::discovery::SimpleDiscovery;
use crate::random::mix;
use crate::sim::chance::Chance;
use crate::sim::keys::Keys;
use crate::sim::{Antagonists, Client, Fault, SERVICE, Server, SimError, Simulation, nanos};
use crate::{Choice, ServiceId, ServiceInstance};

/// How long calls are waited for after the measured time, if the deadline is further and that was shorter.
const MOST_WAIT: Duration = Duration::from_secs(60);

/// A client.
pub(super) struct Member {
    pub(super) balancer: LoadBalancer,
    pub(super) zone: Option<u32>,
    /// The server of each instance that was picked, by its uid.
    pub(super) servers: Vec<Option<u32>>,
}

impl Member {
    /// The number of the server that was chosen; `None` if it is none of them.
    pub(super) fn server_of(&mut self, choice: &Choice, instances: &[ServiceInstance]) -> Option<u32> {
        let uid = usize::try_from(choice.state().uid()).ok()?;
        if let Some(Some(server)) = self.servers.get(uid) {
            return Some(*server);
        }
        let instance = choice.instance();
        let server: u32 = instance.id().parse().ok()?;
        instances.get(server as usize)?;
        // The numbers that a balancer gives are small; those of somebody else's stand-in may not be.
        if uid < instances.len() * 2 {
            self.servers.resize((uid + 1).max(self.servers.len()), None);
            self.servers[uid] = Some(server);
        }
        Some(server)
    }
}

/// What the script does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Script {
    Fault(u32, Fault),
    /// The fault that began then is over.
    Heal(u32, Nanos),
    Add(u32),
    Remove(u32),
    Listed(u32, bool),
}

pub(super) fn service() -> ServiceId {
    ServiceId::new(SERVICE).expect("a name")
}

fn instance(number: usize, server: &Server) -> Result<ServiceInstance, SimError> {
    let mut instance =
        ServiceInstance::builder(format!("server-{number}.test")).port(80).id(number.to_string());
    if let Some(zone) = &server.zone {
        instance = instance.zone(zone);
    }
    if let Some(weight) = server.weight {
        instance = instance.with_metadata("weight", weight.to_string());
    }
    let name = server.zone.clone().unwrap_or_default();
    instance.build().map_err(|error| SimError::invalid("zone of a server", name, error.to_string()))
}

type Failed = Box<dyn Error + Send + Sync>;

impl Engine {
    /// Builds the world, and waits until each client has a list.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most 100 000 of each; times saturate
    pub(in crate::sim) async fn new(
        sim: &Simulation,
        make: &mut (impl FnMut(&Client) -> Result<LoadBalancer, Failed> + Send),
    ) -> Result<Self, SimError> {
        let all: Vec<&Server> = sim.servers.iter().chain(sim.added.iter().map(|added| &added.what)).collect();
        let mut zones: Vec<&str> = Vec::new();
        let mut zone_of = Vec::new();
        for zone in all.iter().map(|server| server.zone.as_deref()) {
            zone_of.push(zone.map(|zone| {
                let known = zones.iter().position(|known| *known == zone);
                known.unwrap_or_else(|| {
                    zones.push(zone);
                    zones.len() - 1
                }) as u32
            }));
        }
        let numbered = all.iter().enumerate();
        let instances =
            numbered.map(|(number, server)| instance(number, server)).collect::<Result<Vec<_>, _>>()?;
        let listed: Vec<bool> = (0..all.len()).map(|server| server < sim.servers.len()).collect();
        let discovery = SimpleDiscovery::new();
        discovery.set(&service(), instances[..sim.servers.len()].iter().cloned());

        let weighted = all.iter().any(|server| server.weight.is_some());
        let mut members = Vec::with_capacity(sim.clients);
        for index in 0..sim.clients {
            let number = (!zones.is_empty()).then(|| index % zones.len());
            let zone = number.map(|number| zones[number].to_owned());
            let seed = mix(sim.seed ^ mix(index as u64 + 1));
            let client = Client { index, zone, seed, discovery: discovery.clone(), weighted };
            let balancer = make(&client).map_err(|source| SimError::Balancer { client: index, source })?;
            members.push(Member { balancer, zone: number.map(|number| number as u32), servers: Vec::new() });
        }
        for (client, member) in members.iter().enumerate() {
            let ready = member.balancer.ready().await;
            ready.map_err(|error| SimError::NotReady { client, source: Box::new(error) })?;
        }

        let window = (nanos(sim.warm_up), nanos(sim.warm_up + sim.measured));
        let mut gauge = Gauge::new(window, sim.deadline, sim.trace);
        let mut workers = Vec::with_capacity(all.len());
        for (number, server) in all.iter().enumerate() {
            let mut worker = Worker::new(server, sim.discipline, zone_of[number], sim.hook.is_some());
            worker.absent = !listed[number];
            workers.push(worker);
            gauge.servers.push(ServerGauge::default());
        }
        let chance = |name| Chance::new(sim.seed, name);
        let mut engine = Self {
            clock: Clock::default(),
            events: Events::default(),
            calls: Calls::default(),
            workers,
            members,
            gauge,
            chances: Chances {
                arrivals: chance(1),
                demands: chance(2),
                keys: chance(3),
                faults: chance(4),
                neighbours: chance(5),
            },
            script: Vec::new(),
            contended: Vec::new(),
            originals: sim.servers.len(),
            burst: 1.0,
            dwell: 0.0,
            discovery,
            instances,
            listed,
            discovery_delay: nanos(sim.discovery_delay),
            demand: sim.demand,
            network: sim.network,
            deadline: sim.deadline.map(nanos),
            keys: Keys::new(sim.keys),
            hook: sim.hook.clone(),
            gap: 1e9 / sim.rate(),
            next_arrival: 0,
            // Nobody waits longer than the run was measured, if the deadline is further than any reasonable one.
            last: window
                .1
                .saturating_add(nanos(sim.deadline.unwrap_or(sim.measured).min(sim.measured.max(MOST_WAIT)))),
            stranger: None,
        };
        engine.events.plan(window.0, Event::Begin);
        engine.events.plan(window.1, Event::End);
        engine.next_arrival = (engine.gap * engine.chances.arrivals.exponential()) as Nanos;
        engine.write_script(sim);
        if let Some(antagonists) = &sim.antagonists {
            engine.let_in(antagonists, sim.servers.len());
        }
        Ok(engine)
    }

    #[allow(clippy::cast_possible_truncation)] // at most 100 000 servers
    fn write_script(&mut self, sim: &Simulation) {
        let mut plan = |at: Nanos, act: Script| {
            self.events.plan(at, Event::Script(self.script.len() as u32));
            self.script.push(act);
        };
        for fault in &sim.faults {
            let (server, what, until) = fault.what;
            if let Some(until) = until {
                plan(until, Script::Heal(server as u32, fault.at));
            }
            plan(fault.at, Script::Fault(server as u32, what));
        }
        for (at, added) in sim.added.iter().enumerate() {
            plan(added.at, Script::Add((sim.servers.len() + at) as u32));
        }
        for removed in &sim.removed {
            plan(removed.at, Script::Remove(removed.what as u32));
        }
    }

    /// The neighbours move in.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    fn let_in(&mut self, antagonists: &Antagonists, n: usize) {
        self.burst = antagonists.burst;
        self.dwell = nanos(antagonists.dwell) as f64;
        let contended = (n as f64 * antagonists.share).round() as usize;
        // The first of a shuffled row.
        let mut row: Vec<u32> = (0..n as u32).collect();
        for at in 0..contended {
            let with = at + self.chances.neighbours.below(n - at);
            row.swap(at, with);
        }
        row.truncate(contended);
        self.contended = row;
        for (server, worker) in self.workers.iter_mut().enumerate() {
            if !self.contended.contains(&(server as u32)) {
                worker.burst(antagonists.burst);
            }
        }
        for at in 0..contended {
            let dwell = self.dwell * self.chances.neighbours.exponential();
            self.events.plan(dwell as Nanos, Event::Neighbour(at as u32));
        }
    }
}
