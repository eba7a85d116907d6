//! The gRPC client against real servers on loopback: dead ones, faults, statuses, leases, streams, TLS.
#![cfg(feature = "tonic")]
#![allow(missing_docs)]

#[path = "tonic/dead.rs"]
mod dead;
#[path = "tonic/deadline.rs"]
mod deadline;
#[path = "tonic/frames.rs"]
mod frames;
#[path = "tonic/lease.rs"]
mod lease;
#[path = "tonic/net.rs"]
mod net;
#[path = "tonic/options.rs"]
mod options;
#[path = "tonic/pool.rs"]
mod pool;
#[path = "tonic/probe.rs"]
mod probe;
#[path = "tonic/propagation.rs"]
mod propagation;
#[path = "tonic/reports.rs"]
mod reports;
#[path = "tonic/retry.rs"]
mod retry;
#[path = "tonic/status.rs"]
mod status;
#[path = "tonic/tls.rs"]
mod tls;
