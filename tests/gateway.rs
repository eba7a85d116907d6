//! The gateway against real sockets on loopback: routes, filters, streams, websockets, faults, drain.
#![cfg(feature = "gateway")]
#![allow(missing_docs)]

#[path = "gateway/address.rs"]
mod address;
#[path = "gateway/cases.rs"]
mod cases;
#[path = "gateway/common.rs"]
mod common;
#[path = "gateway/drain.rs"]
mod drain;
#[path = "gateway/filters.rs"]
mod filters;
#[path = "gateway/forwarded.rs"]
mod forwarded;
#[path = "gateway/host.rs"]
mod host;
#[path = "gateway/hostile.rs"]
mod hostile;
#[path = "gateway/lease.rs"]
mod lease;
#[allow(dead_code)] // each test crate uses a part
#[path = "reqwest/net.rs"]
mod net;
#[path = "gateway/retry.rs"]
mod retry;
#[path = "gateway/service.rs"]
mod service;
#[path = "gateway/slow.rs"]
mod slow;
#[path = "gateway/streaming.rs"]
mod streaming;
#[path = "gateway/trouble.rs"]
mod trouble;
#[path = "gateway/websocket.rs"]
mod websocket;
