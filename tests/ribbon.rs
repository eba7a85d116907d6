//! The conformance cases of Netflix Ribbon, numbered as in its fact sheet: `ribbon_NNN_...`.
//!
//! A case that pins a fault, or that this crate decides otherwise, tests the right behaviour and has a row in
//! `ribbon/DIFFERENCES.md`; one that cannot be had here has a row in `ribbon/NOT_APPLICABLE.md`. The arithmetic of weights and
//! zones (025 to 029, 037, 044, 047 to 050) is also tested beside it, in `src/policy/ribbon/`.
//!
//! Ribbon's breaker opens after some failures in a row; here an instance is out of use ("tripped") once a call could not be
//! sent to it.

mod support;

#[path = "ribbon"]
mod ribbon {
    mod available;
    mod common;
    mod count;
    mod priming;
    mod response_time;
    mod zones;
}
