//! A simulator: the balancers of production, real chains, policies and leases, with modelled servers on a virtual clock.
//!
//! It answers questions that no unit test can: what a policy does to the tail of latencies at 1.3 times the capacity, what
//! share a broken server keeps, how long a herd lasts. Half a minute of a hundred clients and a hundred servers takes a
//! second or two; the same seed gives the same run, event by event.
//!
//! ```
//! use std::time::Duration;
//!
//! use evenkeel::policy::{LeastRequest, RandomPick};
//! use evenkeel::sim::{Server, Simulation};
//!
//! # fn main() -> Result<(), evenkeel::sim::SimError> {
//! let ten_servers = Simulation::new(Server::many(10))
//!     .with_load(0.8)
//!     .with_warm_up(Duration::from_secs(1))
//!     .with_duration(Duration::from_secs(5))
//!     .with_seed(7);
//! let random = ten_servers.run(|| RandomPick)?;
//! let least = ten_servers.run(|| LeastRequest)?;
//! assert!(least.latency().quantile(0.99) < random.latency().quantile(0.99));
//! assert_eq!(least.trace_hash(), ten_servers.run(|| LeastRequest)?.trace_hash());
//! # Ok(()) }
//! ```
//!
//! What is modelled and what is not, and how to read a [`Report`], is in the [guide](crate::guide::simulation).
//!
//! # Runtime
//!
//! A run has a thread and a paused tokio runtime of its own, so that it can be started from anywhere, also from a test
//! that has a runtime. The feature turns on `tokio/test-util`; it belongs into `[dev-dependencies]`.

mod chance;
mod client;
mod demand;
mod discipline;
mod engine;
mod error;
mod fault;
mod keys;
mod report;
mod server;
mod simulation;
#[cfg(test)]
mod tests;
mod thread;

pub use client::Client;
pub use demand::Demand;
pub use discipline::{Antagonists, Discipline, Network};
pub use engine::Answer;
pub use error::SimError;
pub use fault::Fault;
pub use report::{Cause, Errors, Latencies, Little, Report, ServerReport, TraceEvent, What};
pub use server::Server;
pub use simulation::Simulation;
pub(crate) use thread::on_own_thread;

/// The name of the simulated service.
pub const SERVICE: &str = "simulated";

/// A time in nanoseconds since the start of a run.
type Nanos = u64;

/// One second.
const SECOND: Nanos = 1_000_000_000;

fn nanos(time: std::time::Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
