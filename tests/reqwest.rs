//! The reqwest client against real sockets on loopback: what is on the wire, dead servers, leases.
#![cfg(feature = "reqwest")]
#![allow(missing_docs)]

#[path = "reqwest/dead.rs"]
mod dead;
#[path = "reqwest/forms.rs"]
mod forms;
#[path = "reqwest/lease.rs"]
mod lease;
#[allow(dead_code)] // each test crate uses a part
#[path = "reqwest/net.rs"]
mod net;
#[path = "reqwest/pre_connection.rs"]
mod pre_connection;
#[path = "reqwest/redirect.rs"]
mod redirect;
#[path = "reqwest/reports.rs"]
mod reports;
#[path = "reqwest/sticky.rs"]
mod sticky;
#[path = "reqwest/time.rs"]
mod time;
#[path = "reqwest/wire.rs"]
mod wire;
