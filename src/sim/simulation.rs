use std::error::Error;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::Duration;

use super::engine::{Engine, Hook};
use super::{
    Answer, Antagonists, Client, Demand, Discipline, Fault, Nanos, Network, Report, Server, SimError,
};
use super::{nanos, on_own_thread};
use crate::Choice;
use crate::balancer::LoadBalancer;
use crate::policy::Policy;

/// What is simulated; [`run`](Self::run) does it, as often as you like, with one policy after the other.
///
/// Defaults: one client, a load of 0.7, truncated normal demands of 10 ms, processor sharing, no antagonists, no network,
/// no deadline, a warm-up of 5 s and 30 s measured, seed 0.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::policy::PeakEwma;
/// use evenkeel::sim::{Fault, Server, Simulation};
///
/// # fn main() -> Result<(), evenkeel::sim::SimError> {
/// let second = Duration::from_secs(1);
/// let report = Simulation::new(Server::many(10))
///     .with_clients(10)
///     .with_deadline(5 * second)
///     .with_duration(10 * second)
///     .with_fault(0, Fault::FailFast(Duration::from_micros(200)), 6 * second..)
///     .run(PeakEwma::default)?;
/// assert!(report.share_after(0, 8 * second) < 0.01);
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "it does nothing until it is run"]
pub struct Simulation {
    pub(super) servers: Vec<Server>,
    pub(super) clients: usize,
    pub(super) load: Load,
    pub(super) demand: Demand,
    pub(super) discipline: Discipline,
    pub(super) antagonists: Option<Antagonists>,
    pub(super) network: Network,
    pub(super) deadline: Option<Duration>,
    pub(super) warm_up: Duration,
    pub(super) measured: Duration,
    pub(super) seed: u64,
    pub(super) faults: Vec<Scripted<(usize, Fault, Option<Nanos>)>>,
    pub(super) added: Vec<Scripted<Server>>,
    pub(super) removed: Vec<Scripted<usize>>,
    pub(super) discovery_delay: Duration,
    pub(super) keys: usize,
    pub(super) trace: bool,
    pub(super) hook: Option<Hook>,
}

/// How many requests come.
#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    /// As a part of what the allocations can do.
    Share(f64),
    /// A second.
    Rate(f64),
}

/// Something that happens at a time.
#[derive(Clone, Debug)]
pub(super) struct Scripted<T> {
    pub(super) at: Nanos,
    pub(super) what: T,
}

impl Simulation {
    /// The attribute of a request that has its key, for policies that hash one; see [`with_keys`](Self::with_keys).
    ///
    /// ```
    /// use evenkeel::policy::{HashKey, Maglev};
    /// use evenkeel::sim::Simulation;
    ///
    /// let by_key = || Maglev::new(HashKey::attribute(Simulation::KEY));
    /// ```
    pub const KEY: &'static str = "key";

    /// A simulation with these servers, whose numbers are their places, from 0.
    pub fn new(servers: impl IntoIterator<Item = Server>) -> Self {
        Self {
            servers: servers.into_iter().collect(),
            clients: 1,
            load: Load::Share(0.7),
            demand: Demand::default(),
            discipline: Discipline::default(),
            antagonists: None,
            network: Network::default(),
            deadline: None,
            warm_up: Duration::from_secs(5),
            measured: Duration::from_secs(30),
            seed: 0,
            faults: Vec::new(),
            added: Vec::new(),
            removed: Vec::new(),
            discovery_delay: Duration::ZERO,
            keys: 0,
            trace: false,
            hook: None,
        }
    }

    /// So many clients, each with a balancer of its own (default 1). Requests arrive at each as a Poisson process.
    pub fn with_clients(mut self, clients: usize) -> Self {
        self.clients = clients;
        self
    }

    /// How much work arrives, as a part of what the servers can do with their allocations (default 0.7): 1.0 is all of it.
    pub fn with_load(mut self, load: f64) -> Self {
        self.load = Load::Share(load);
        self
    }

    /// How many requests arrive per second, instead of a load.
    pub fn with_rate(mut self, per_second: f64) -> Self {
        self.load = Load::Rate(per_second);
        self
    }

    /// How much work a request is (default: truncated normal of mean 10 ms).
    pub fn with_demand(mut self, demand: Demand) -> Self {
        self.demand = demand;
        self
    }

    /// How a server shares its cores (default: processor sharing).
    pub fn with_discipline(mut self, discipline: Discipline) -> Self {
        self.discipline = discipline;
        self
    }

    /// Neighbours that leave the servers more or less than their allocation (default: none).
    pub fn with_antagonists(mut self, antagonists: Antagonists) -> Self {
        self.antagonists = Some(antagonists);
        self
    }

    /// How long messages are on their way (default: no time).
    pub fn with_network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// When a client gives up, after which the server drops the work (default: never).
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// How long it runs before anything is measured (default 5 s).
    pub fn with_warm_up(mut self, warm_up: Duration) -> Self {
        self.warm_up = warm_up;
        self
    }

    /// How long it is measured (default 30 s). Requests that arrived by then are waited for under the same load: up to the
    /// deadline, without one as long again; and for a deadline that is further than that, for a minute at most.
    pub fn with_duration(mut self, measured: Duration) -> Self {
        self.measured = measured;
        self
    }

    /// The seed (default 0). Arrivals and demands depend on it alone, and are the same for all policies.
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// What is wrong with a server at `times` since the start; a later fault takes the place of an earlier one.
    pub fn with_fault(mut self, server: usize, fault: Fault, times: impl RangeBounds<Duration>) -> Self {
        let at = match times.start_bound() {
            Bound::Included(from) | Bound::Excluded(from) => nanos(*from),
            Bound::Unbounded => 0,
        };
        let until = match times.end_bound() {
            Bound::Included(until) | Bound::Excluded(until) => Some(nanos(*until)),
            Bound::Unbounded => None,
        };
        self.faults.push(Scripted { at, what: (server, fault, until) });
        self
    }

    /// A server that comes at this time since the start; its number is the next one.
    pub fn with_server_added(mut self, at: Duration, server: Server) -> Self {
        self.added.push(Scripted { at: nanos(at), what: server });
        self
    }

    /// A server that goes at this time since the start: it refuses connections from then on, and ends what it has.
    pub fn with_server_removed(mut self, at: Duration, server: usize) -> Self {
        self.removed.push(Scripted { at: nanos(at), what: server });
        self
    }

    /// How long the registry takes to list a server that came, and to drop one that went (default: no time).
    pub fn with_discovery_delay(mut self, delay: Duration) -> Self {
        self.discovery_delay = delay;
        self
    }

    /// Requests have a key by chance, one of so many, as the attribute [`KEY`](Self::KEY) (default: none has).
    pub fn with_keys(mut self, keys: usize) -> Self {
        self.keys = keys;
        self
    }

    /// Keeps every pick and every end of a call for [`Report::trace`] (default: no; it takes memory).
    pub fn with_trace(mut self) -> Self {
        self.trace = true;
        self
    }

    /// Has `hear` see every answer before its lease ends, with what the server would report of itself: for a policy that
    /// goes by load reports.
    pub fn with_answers(mut self, hear: impl Fn(&Choice, &Answer) + Send + Sync + 'static) -> Self {
        self.hook = Some(Hook(Arc::new(hear)));
        self
    }

    /// Runs it; each client has a policy that `make` makes.
    ///
    /// # Errors
    /// [`SimError`], first of all for a parameter without meaning: no servers, a load of 0, a rate that is no number.
    pub fn run<P: Policy>(&self, mut make: impl FnMut() -> P + Send) -> Result<Report, SimError> {
        self.run_with(move |client| Ok(client.balancer(make())))
    }

    /// Runs it; each client has the balancer that `make` builds, over [`Client::chain`] or any other one whose instances
    /// are those of [`Client::discovery`]. `make` is kept until the run is over.
    ///
    /// A pick that would have to wait for a list counts as [`Cause::NotChosen`](super::Cause::NotChosen).
    ///
    /// # Errors
    /// As [`run`](Self::run); and if `make` fails, or a balancer has no list to begin with.
    pub fn run_with(
        &self,
        mut make: impl FnMut(&Client) -> Result<LoadBalancer, Box<dyn Error + Send + Sync>> + Send,
    ) -> Result<Report, SimError> {
        self.check()?;
        let run = async || Engine::new(self, &mut make).await?.run().await;
        on_own_thread(self.seed, run).map_err(SimError::Runtime)?
    }

    /// Requests per second.
    pub(super) fn rate(&self) -> f64 {
        match self.load {
            Load::Rate(rate) => rate,
            Load::Share(load) => {
                let cores: f64 = self.servers.iter().map(|server| server.speed * server.allocation).sum();
                load * cores / self.demand.mean().as_secs_f64()
            }
        }
    }

    fn check(&self) -> Result<(), SimError> {
        for (what, n) in [("number of servers", self.servers.len()), ("number of clients", self.clients)] {
            if n == 0 || n > MOST {
                return Err(SimError::invalid(what, n, format!("must be from 1 to {MOST}")));
            }
        }
        for server in self.servers.iter().chain(self.added.iter().map(|added| &added.what)) {
            server.check()?;
        }
        match self.load {
            Load::Share(load) => SimError::positive("load", load)?,
            Load::Rate(rate) => SimError::positive("rate of requests", rate)?,
        }
        self.demand.check()?;
        self.discipline.check()?;
        // Events are told apart by nanoseconds.
        SimError::within("rate of requests", self.rate(), f64::MIN_POSITIVE, 1e8)?;
        self.antagonists.map_or(Ok(()), |antagonists| antagonists.check())?;
        if let Some(deadline) = self.deadline {
            SimError::positive("deadline", deadline.as_secs_f64())?;
        }
        SimError::positive("measured time", self.measured.as_secs_f64())?;
        for (what, time) in [("warm-up", self.warm_up), ("measured time", self.measured)] {
            if time > LONGEST {
                return Err(SimError::invalid(
                    what,
                    format!("{time:?}"),
                    format!("must be at most {LONGEST:?}"),
                ));
            }
        }
        let known = self.servers.len() + self.added.len();
        let faulty = self.faults.iter().map(|fault| fault.what.0);
        for server in faulty.chain(self.removed.iter().map(|removed| removed.what)) {
            if server >= known {
                let must = format!("must be below {known}, the number of servers");
                return Err(SimError::invalid("number of a server in the script", server, must));
            }
        }
        self.faults.iter().try_for_each(|fault| fault.what.1.check())
    }
}

/// More than anybody can look at; a typing error otherwise takes all memory.
const MOST: usize = 100_000;
/// A typing error in a time otherwise takes days.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3_600);

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("servers", &self.servers.len())
            .field("clients", &self.clients)
            .field("load", &self.load)
            .field("demand", &self.demand)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
