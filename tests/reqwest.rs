//! The reqwest client against real sockets on loopback: what is on the wire, dead servers, leases.
#![cfg(feature = "reqwest")]
#![allow(missing_docs)]

#[path = "reqwest/dead.rs"]
mod dead;
#[path = "reqwest/dns.rs"]
mod dns;
#[path = "reqwest/faults.rs"]
mod faults;
#[path = "reqwest/forms.rs"]
mod forms;
#[path = "reqwest/h2.rs"]
mod h2;
#[path = "reqwest/hyper_server.rs"]
mod hyper_server;
#[path = "reqwest/lease.rs"]
mod lease;
#[cfg(feature = "reqwest-middleware")]
#[path = "reqwest/middleware.rs"]
mod middleware;
#[allow(dead_code)] // each test crate uses a part
#[path = "reqwest/net.rs"]
mod net;
#[path = "reqwest/pre_connection.rs"]
mod pre_connection;
#[path = "reqwest/redirect.rs"]
mod redirect;
#[path = "reqwest/reports.rs"]
mod reports;
#[path = "reqwest/retry.rs"]
mod retry;
#[path = "reqwest/sticky.rs"]
mod sticky;
#[path = "reqwest/storm.rs"]
mod storm;
#[path = "reqwest/time.rs"]
mod time;
#[path = "reqwest/tls.rs"]
mod tls;
#[path = "reqwest/wire.rs"]
mod wire;
