//! Tower's layers and services, and the client of hyper, against real sockets on loopback.
#![cfg(feature = "tower")]
#![allow(missing_docs)]

#[path = "tower/dead.rs"]
mod dead;
#[allow(dead_code)] // each test crate uses a part
#[path = "reqwest/net.rs"]
mod net;
#[path = "tower/support.rs"]
mod support;
