//! Client-side, reactive load balancing for async Rust, in the mould of Spring Cloud `LoadBalancer`.
//!
//! A caller asks [`choose`](LoadBalancer::choose) and gets a live instance. Behind it stands a **chain**: a registry
//! ([`discovery`]) gives the list of instances, stages ([`supplier`]) shape it whenever it changes, and a policy
//! ([`policy`]) picks one per request. The pick reads a published snapshot: no lock, no allocation and no registry when
//! a list is at hand.
//!
//! # In code
//!
//! ```
//! use evenkeel::config::CacheProperties;
//! use evenkeel::discovery::SimpleDiscovery;
//! use evenkeel::policy::LeastRequest;
//! use evenkeel::{LoadBalancer, Outcome, Request, ServiceInstance, SupplierBuilder};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let here = ServiceInstance::builder("10.0.0.1").port(8080).zone("eu-1a").build()?;
//! let far = ServiceInstance::builder("10.1.0.1").port(8080).zone("eu-1b").build()?;
//!
//! let supplier = SupplierBuilder::new("orders")
//!     .with_discovery_client(SimpleDiscovery::new().with_instances("orders", [here, far])?)
//!     .with_zone_preference("eu-1a")
//!     .with_weights()
//!     .with_caching(CacheProperties::default()) // 35 s, refreshed behind the callers
//!     .build()?;
//! let orders = LoadBalancer::builder(supplier).policy(LeastRequest).build();
//!
//! let choice = orders.choose(&Request::EMPTY).await?;
//! assert_eq!(choice.url("/api/42")?, "http://10.0.0.1:8080/api/42");
//! choice.complete(Outcome::Status(200));
//! # Ok(()) }
//! ```
//!
//! A [`Choice`] is a **lease**: the instance counts one more call in flight until it ends. End it with
//! [`complete`](Choice::complete), or let [`run`](Choice::run) await the call and keep the lease to the end of the
//! response's body. One that is dropped counts as cancelled.
//!
//! # From configuration, for many services
//!
#![cfg_attr(feature = "config", doc = "```")]
#![cfg_attr(not(feature = "config"), doc = "```ignore")]
//! use evenkeel::config::{Format, Properties};
//! use evenkeel::discovery::SimpleDiscovery;
//! use evenkeel::{LoadBalancers, Request, ServiceInstance};
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let application = "
//! spring.cloud.loadbalancer:
//!   zone: eu-1a
//!   configurations: zone-preference, weighted
//!   clients:
//!     billing:
//!       cache.ttl: 5s
//! ";
//! // An application reads a file, and the environment over it: Properties::load("application.yml").
//! let properties = Properties::parse(application, Format::Yaml, "application.yml")?;
//! let registry = SimpleDiscovery::new()
//!     .with_instances("billing", [ServiceInstance::new("10.0.0.7", 8080)?])?;
//!
//! let balancers = LoadBalancers::from_properties(properties, registry)?;
//! balancers.ready(["billing"], Duration::from_secs(5)).await?; // for a readiness probe: names who is missing, and why
//! let choice = balancers.get("billing")?.choose(&Request::EMPTY).await?;
//! # choice.complete(evenkeel::Outcome::Success);
//! balancers.shutdown().await;
//! # Ok(()) }
//! ```
//!
//! [`config`] tells which keys there are and which layer wins; the [guide](guide::properties) has all of them in a table.
//!
//! # With reqwest
//!
//! With the feature `reqwest`, [`LoadBalancers::reqwest`] gives a client for `lb://orders/api/42`, with one connection
//! pool per instance. A call that was never sent goes once to another instance, and redirects to services are balanced.
//! See [`client::reqwest`] and the page `guide::reqwest`.
//!
//! # With tonic
//!
//! With the feature `tonic`, `LoadBalancers::tonic` gives a channel for generated clients of gRPC. A call that no server looked
//! at goes to another instance; statuses name who was tried. See `client::tonic014`, and the guide's page `tonic`.
//!
//! # Where to go on
//!
//! - [`discovery`]: sources of instances (code, file, DNS, several as one), and how to write one
//! - [`supplier`]: the chain and its stages
//! - [`policy`]: round robin, random, least request, peak EWMA, consistent hashing, those of Dubbo and Ribbon, by reports of load,
//!   and how to write one
//! - [`call`]: attempts and retries of a call, over any protocol; failover, hedging and other strategies
//!   ([guide](guide::calls#strategies))
//! - [`client`]: a client for anything that can be called, and changes to requests on their way
//! - `gateway` (a feature): HTTP in front, balanced services behind, routes from configuration between them
//! - [`observe`]: who hears of calls, and reports: how a service is doing, why a request goes where it goes, what changed
//!   ([guide](guide::why)); meters, spans and the log are in the [guide](guide::observing)
//! - `sim` and `testkit` (features of these names): your balancers against modelled servers on a virtual clock, and checks
//!   of a policy
//! - [`guide`]: how a list is kept, how a pick works, coming from Spring, what to do when something looks wrong
//!
//! # Features
//!
//! | feature | default | brings |
//! |---|---|---|
//! | `config` | yes | property files in YAML, TOML and JSON |
//! | `file` | yes | a registry in a file, warm start, property files that are followed; implies `config` |
//! | `axum08` | no | pages for operators, as a router of axum 0.8 |
//! | `gateway` | no | a gateway: routes from configuration, over the tower client; implies `tower` and `config` |
//! | `metrics` | no | meters, through the facade `metrics` |
//! | `orca` | no | reports of load in the binary form of ORCA; the readable forms need no feature |
//! | `reqwest` | no | the reqwest client |
//! | `reqwest-middleware` | no | middlewares for a reqwest client that is there already; implies `reqwest` |
//! | `tower` | no | a client of hyper, layers of tower, a service per instance |
//! | `tonic` | no | a channel for generated gRPC clients, over tonic; `tonic014` by its version |
//! | `full` | no | all of the above |
//! | `sim` | no | a simulator that drives your balancers on a virtual clock; for tests |
//! | `testkit` | no | checks that a policy can be put to; implies `sim`; for tests |
//!
//! Without any feature there are the core, the sources in code and by DNS, and properties in code and from the
//! environment.
//!
//! # Runtime
//!
//! It needs tokio with its timer enabled. Background work runs on the runtime of the caller that starts it, unless
//! [`with_runtime`](SupplierBuilder::with_runtime) injects one; see [runtimes](guide::runtimes).
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
// What `clippy.toml` bans; unit tests may use it.
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types))]

mod alarm;
mod balancer;
mod bytes;
pub mod call;
mod choice;
pub mod client;
pub mod config;
#[cfg(feature = "axum08")]
#[cfg_attr(docsrs, doc(cfg(feature = "axum08")))]
pub mod debug;
pub mod discovery;
#[cfg(feature = "file")]
mod files;
mod future;
#[cfg(feature = "gateway")]
#[cfg_attr(docsrs, doc(cfg(feature = "gateway")))]
pub mod gateway;
#[cfg(any(doc, doctest))]
pub mod guide;
pub mod health;
mod instance;
mod limit;
#[cfg(all(test, evenkeel_loom))]
mod loom;
mod numbers;
pub mod observe;
pub mod policy;
mod random;
mod report;
mod request;
#[cfg(feature = "sim")]
#[cfg_attr(docsrs, doc(cfg(feature = "sim")))]
pub mod sim;
mod state;
pub mod supplier;
mod sync;
#[cfg(feature = "testkit")]
#[cfg_attr(docsrs, doc(cfg(feature = "testkit")))]
pub mod testkit;
mod wall;

/// Re-exported, since [`DiscoveryClient`](discovery::DiscoveryClient) is implemented with it.
pub use async_trait::async_trait;
pub use balancer::{
    ChooseError, ChooseErrorKind, ChooseExt, Choosing, LoadBalancer, LoadBalancerBuilder, LoadBalancers,
    LoadBalancersBuilder, NotReady, OverrideError, OverrideId, PreConnect, ReactiveLoadBalancer,
    ServiceBuilder, Snapshot, UnknownService,
};
pub use choice::{Choice, Failure, Lease, Outcome, RetryAfter, Track, TrackedBody};
pub use future::BoxFuture;
pub use instance::{
    InvalidInstance, InvalidServiceId, InvalidStatus, InvalidWeight, Metadata, ServiceId, ServiceInstance,
    ServiceInstanceBuilder, Status, Target, TargetError, Weight,
};
pub use report::{InvalidLoadReport, LoadReport};
pub use request::{HttpView, Request, RequestView, Tried};
pub use state::{EjectionCause, InstanceState};
pub use supplier::{BuildError, Origin, Reason, ServiceInstanceListSupplier, Supplier, SupplierBuilder};

/// The code of the README is compiled and run with the tests of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The configuration of the README has no unknown key, and means what the README says.
///
/// ```
/// use evenkeel::config::{Format, PolicyName, Properties};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let readme = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"));
/// let text = readme.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).ok_or("no yaml")?;
/// assert_eq!(text.lines().count(), 10);
/// let properties = Properties::parse(text, Format::Yaml, "README.md")?;
/// assert!(properties.warnings().is_empty(), "{:?}", properties.warnings());
/// let billing = properties.with_environment([("EVENKEEL_CLIENTS_BILLING_CACHE_TTL", "1s")])?.effective("billing");
/// assert_eq!((billing.policy, billing.cache.ttl.as_secs()), (PolicyName::LeastRequest, 1));
/// # Ok(()) }
/// ```
#[cfg(doctest)]
struct ReadmeConfiguration;
