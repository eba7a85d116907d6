//! The guide: for who wants to know how it works, or why something looks wrong.
//!
//! Each page stands by itself. The code on them is compiled and run with the tests of the documentation.
//!
//! - [`lists`]: the life of a list: TTL, hard age, back-off, outages, empty answers, watches, cache off
//! - [`picks`]: what one `choose` does: views, groups, rotations, attempts after the first, skipped instances
//! - [`calls`]: what one call does: attempts, retries, budgets, events
//! - `reqwest` (features `reqwest` and `reqwest-middleware`): the reqwest client: switching to it, certificates, time-outs,
//!   redirects, cookies; a client that is there already
//! - `tower` (feature `tower`): a client of hyper, layers, a service per instance
//! - [`policies`]: what each guarantees, when to use it, what it costs
//! - [`outliers`]: who is taken out by what calls see, and comes back; slow start; the cost of a request
//! - [`stages`]: the chain, in its fixed order
//! - [`zones`]: zones in proportion, weights of zones, priorities, panic
//! - [`health`]: health checks: who is asked, when, and what follows
//! - `propagation` (its layer: feature `tower`): headers that go on with the calls that a request leads to
//! - `gateway` (feature `gateway`): routes, predicates, filters, errors, drain
//! - `tonic` (feature `tonic`): gRPC: what happens to a call, who it was, connections, TLS
//! - [`migration`]: from Spring Cloud `LoadBalancer`: what is what, and what is decided otherwise
//! - [`extending`]: a source, a supplier, a stage or a policy of your own
//! - `simulation` (features `sim` and `testkit`): policies against modelled servers, on a virtual clock, and a kit of checks for them
//! - [`properties`]: every property, its type and default
//! - [`runtimes`]: where background work runs
//! - [`state`]: what can be read: snapshots, ages, errors
//! - [`observing`]: meters, spans, the events of the log, alerts
//! - [`why`]: the runbook: how a service is doing, why a request goes where it goes, what happened, and overrides
//! - [`when_not`]: when to use something else: a service mesh, a proxy, the platform's own way
//! - [`troubleshooting`]: by symptom, and which knob to turn
//!
//! Nothing here states a speed. What a pick costs on your machine is printed by the benches; [`policies`] names the
//! commands.

#[doc = include_str!("guide/lists.md")]
pub mod lists {}

#[doc = include_str!("guide/picks.md")]
pub mod picks {}

#[doc = include_str!("guide/calls.md")]
pub mod calls {}

/// It needs the features `reqwest` and `reqwest-middleware`.
#[cfg(feature = "reqwest-middleware")]
#[doc = include_str!("guide/reqwest.md")]
pub mod reqwest {}
/// It needs the feature `tower`.
#[cfg(feature = "tower")]
#[doc = include_str!("guide/tower.md")]
pub mod tower {}

#[doc = include_str!("guide/policies.md")]
pub mod policies {}

#[doc = include_str!("guide/outliers.md")]
pub mod outliers {}

#[doc = include_str!("guide/stages.md")]
pub mod stages {}

#[doc = include_str!("guide/zones.md")]
pub mod zones {}

#[doc = include_str!("guide/health.md")]
pub mod health {}

/// Its layer needs the feature `tower`.
#[cfg(feature = "tower")]
#[doc = include_str!("guide/propagation.md")]
pub mod propagation {}

/// It needs the feature `gateway`.
#[cfg(feature = "gateway")]
#[doc = include_str!("guide/gateway.md")]
pub mod gateway {}
/// It needs the feature `tonic`, or `tonic014`.
#[cfg(feature = "tonic014")]
#[doc = include_str!("guide/tonic.md")]
pub mod tonic {}

#[doc = include_str!("guide/extending.md")]
pub mod extending {}

#[doc = include_str!("guide/migration.md")]
pub mod migration {}

/// It needs the features `sim` and `testkit`.
#[cfg(feature = "testkit")]
#[doc = include_str!("guide/simulation.md")]
pub mod simulation {}

#[doc = include_str!("guide/properties.md")]
pub mod properties {}

#[doc = include_str!("guide/runtimes.md")]
pub mod runtimes {}

#[doc = include_str!("guide/state.md")]
pub mod state {}

#[doc = include_str!("guide/observing.md")]
pub mod observing {}

#[doc = include_str!("guide/why.md")]
pub mod why {}

#[doc = include_str!("guide/troubleshooting.md")]
pub mod troubleshooting {}

#[doc = include_str!("guide/when_not.md")]
pub mod when_not {}
