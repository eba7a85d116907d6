//! The conformance cases of Spring Cloud `LoadBalancer`, numbered as in its fact sheet: `scl_NNN_...`.
//!
//! A case that pins a fault, or that this crate decides otherwise, tests the right behaviour and has a row in
//! `scl/DIFFERENCES.md`; one that cannot be had here has a row in `scl/NOT_APPLICABLE.md`.

#![allow(clippy::doc_markdown)] // names of products in headings

mod support;

/// Servers on loopback.
#[allow(dead_code)] // each test crate uses a part
#[path = "reqwest/net.rs"]
mod net;

#[path = "scl"]
mod scl {
    mod api_version;
    mod builder;
    mod caching;
    mod client;
    mod count;
    mod discovery;
    mod feign;
    mod forwarded;
    mod gateway;
    mod health;
    mod hint;
    mod metrics;
    mod per_client;
    mod random;
    mod reactive_retry;
    mod retry;
    mod retry_aware;
    mod round_robin;
    mod same_instance;
    mod sticky;
    mod sticky_cookie;
    mod subset;
    mod transformers;
    mod uri;
    mod weighted;
    mod zone;
}
