//! Calls to servers that are modelled, on a virtual clock, over a real balancer: arrivals by chance, a queue per server.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use evenkeel::{Choice, LoadBalancer, Outcome, Request};
use tokio::time::Instant;

/// How a server behaves.
#[derive(Clone, Copy, Debug)]
pub enum Server {
    /// It works on one call after the other, so long on average (exponential).
    Works(Duration),
    /// It answers each call with 500, after so long.
    Fails(Duration),
    /// It takes calls and never answers; a caller gives up after so long.
    Hangs(Duration),
}

/// What came of a run, after its warm-up.
#[derive(Debug, Default)]
pub struct Run {
    /// Calls by server.
    pub calls: Vec<u64>,
    /// Latencies of good answers, sorted.
    pub latencies: Vec<Duration>,
}

impl Run {
    /// The share of all calls that went to a server.
    #[allow(clippy::cast_precision_loss)]
    pub fn share(&self, server: usize) -> f64 {
        self.calls[server] as f64 / self.calls.iter().sum::<u64>() as f64
    }

    pub fn mean(&self) -> Duration {
        self.latencies.iter().sum::<Duration>() / u32::try_from(self.latencies.len()).unwrap()
    }

    pub fn quantile(&self, of_a_thousand: usize) -> Duration {
        self.latencies[(self.latencies.len() * of_a_thousand / 1_000).min(self.latencies.len() - 1)]
    }
}

enum What {
    Arrival,
    /// The first call of a server's queue is done.
    Done(usize),
    /// A call ends that waits in no queue.
    Ends(Choice, Outcome),
}

/// An event; the earliest is the greatest, of one moment the one that was planned first.
struct Event {
    at: Instant,
    order: u64,
    what: What,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}
impl Eq for Event {}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

/// Random numbers from a seed (xorshift64).
struct Chance(u64);

impl Chance {
    #[allow(clippy::cast_precision_loss)] // 53 bits
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) as f64 / (1_u64 << 53) as f64).max(f64::MIN_POSITIVE)
    }

    fn exponential(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(-self.uniform().ln())
    }
}

/// Sends calls at `rate` a second (Poisson), for `warm_up` and then for `measured`. The instances of the balancer are called
/// `0`, `1` and so on, for the servers in their order.
///
/// It runs on the paused clock of a current-thread runtime, which it moves from event to event.
pub async fn simulate(
    balancer: &LoadBalancer,
    servers: &[Server],
    rate: f64,
    [warm_up, measured]: [Duration; 2],
    seed: u64,
) -> Run {
    balancer.ready().await.unwrap();
    let start = Instant::now();
    let end = start + warm_up + measured;
    let mut chance = Chance(seed | 1);
    let mut run = Run { calls: vec![0; servers.len()], latencies: Vec::new() };
    let mut queues: Vec<VecDeque<(Choice, Instant)>> = servers.iter().map(|_| VecDeque::new()).collect();
    let (mut events, mut planned) = (BinaryHeap::new(), 0);
    let mut plan = |events: &mut BinaryHeap<Event>, at: Instant, what: What| {
        planned += 1;
        events.push(Event { at, order: planned, what });
    };
    let gap = Duration::from_secs_f64(1.0 / rate);
    plan(&mut events, start, What::Arrival);
    while let Some(Event { at, what, .. }) = events.pop().filter(|event| event.at < end) {
        tokio::time::advance(at - Instant::now()).await;
        let counts = at >= start + warm_up;
        match what {
            What::Arrival => {
                plan(&mut events, at + chance.exponential(gap), What::Arrival);
                let choice = balancer.try_choose(&Request::EMPTY).unwrap();
                let server: usize = choice.instance().id().parse().unwrap();
                run.calls[server] += u64::from(counts);
                match servers[server] {
                    Server::Works(mean) => {
                        queues[server].push_back((choice, at));
                        if queues[server].len() == 1 {
                            plan(&mut events, at + chance.exponential(mean), What::Done(server));
                        }
                    }
                    Server::Fails(after) => {
                        plan(&mut events, at + after, What::Ends(choice, Outcome::Status(500)));
                    }
                    Server::Hangs(patience) => {
                        let outcome = Outcome::Failure(evenkeel::Failure::Timeout);
                        plan(&mut events, at + patience, What::Ends(choice, outcome));
                    }
                }
            }
            What::Done(server) => {
                let (choice, begun) = queues[server].pop_front().unwrap();
                choice.complete(Outcome::Status(200));
                if counts {
                    run.latencies.push(at - begun);
                }
                if let (false, Server::Works(mean)) = (queues[server].is_empty(), servers[server]) {
                    plan(&mut events, at + chance.exponential(mean), What::Done(server));
                }
            }
            What::Ends(choice, outcome) => choice.complete(outcome),
        }
    }
    run.latencies.sort_unstable();
    run
}
