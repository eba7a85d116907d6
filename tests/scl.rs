//! The conformance cases of Spring Cloud `LoadBalancer`, numbered as in its fact sheet: `scl_NNN_...`.
//!
//! A case that pins a fault, or that this crate decides otherwise, tests the right behaviour and has a row in
//! `scl/DIFFERENCES.md`; one that cannot be had here has a row in `scl/NOT_APPLICABLE.md`.

mod support;

#[path = "scl"]
mod scl {
    mod round_robin;
    mod random;
    mod weighted;
    mod zone;
    mod same_instance;
    mod sticky;
    mod sticky_cookie;
    mod hint;
    mod retry_aware;
    mod subset;
    mod discovery;
    mod caching;
    mod health;
    mod api_version;
    mod builder;
    mod per_client;
    mod client;
    mod retry;
    mod reactive_retry;
    mod transformers;
    mod uri;
    mod gateway;
    mod feign;
    mod metrics;
    mod forwarded;
}
