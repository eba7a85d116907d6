//! Tower's layers and services, and the client of hyper, against real sockets on loopback.
#![cfg(feature = "tower")]
#![allow(missing_docs)]

#[path = "tower/bodies.rs"]
mod bodies;
#[path = "tower/dead.rs"]
mod dead;
#[path = "tower/h2.rs"]
mod h2;
#[path = "tower/layers.rs"]
mod layers;
#[path = "tower/lease.rs"]
mod lease;
#[path = "tower/membership.rs"]
mod membership;
#[allow(dead_code)] // each test crate uses a part
#[path = "reqwest/net.rs"]
mod net;
#[path = "tower/per_instance.rs"]
mod per_instance;
#[path = "tower/pins.rs"]
mod pins;
#[path = "tower/sticky.rs"]
mod sticky;
#[path = "tower/support.rs"]
mod support;
#[path = "tower/time.rs"]
mod time;
#[path = "tower/tls.rs"]
mod tls;
#[path = "tower/wire.rs"]
mod wire;
