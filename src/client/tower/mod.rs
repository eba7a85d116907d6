//! `tower` over balancers: a client of hyper, layers, a service per instance, and the membership for tower's own
//! balancers. The [guide](crate::guide::tower) tells which to take.
//!
//! ```no_run
//! use evenkeel::LoadBalancers;
//! use evenkeel::config::Properties;
//! use evenkeel::discovery::FileDiscovery;
//! use http_body_util::{BodyExt, Full};
//! use hyper::body::Bytes;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let properties = Properties::load("application.yml")?;
//! let balancers = LoadBalancers::from_properties(properties, FileDiscovery::new("registry.yml"))?;
//! let http = balancers.hyper();
//!
//! let request = http::Request::post("lb://orders/api").body(Full::<Bytes>::from("a new order"))?;
//! let answer = http.request(request).await?.into_body().collect().await?.to_bytes();
//! # Ok(()) }
//! ```
//!
//! - [`HyperClient`]: HTTP/1.1 and HTTP/2, with retries, ready to use
//! - [`BalanceLayer`] and [`RetryLayer`]: the same for a client with layers of your own
//! - [`PerInstance`]: a service over one of yours per instance, for any protocol
//! - [`Membership`]: the list as a [`Discover`](::tower::discover::Discover)
//!
//! **Which URIs**: `lb://name/...` always; `http(s)://name/...` and `ws(s)://name/...` without a port for names that are
//! configured, or that [`LoadBalancers::list_services`](crate::LoadBalancers::list_services) found, unless their properties
//! say `enabled: false`. Everything else goes out untouched. Only scheme and authority are replaced: path and query stay byte
//! for byte.

mod aim;
mod balance;
mod builder;
mod connect;
mod error;
mod exchange;
mod hyper;
mod layer;
mod membership;
mod options;
mod per_instance;
mod picked;
mod picking;
mod protocol;
mod retry;

#[cfg(feature = "gateway")]
pub(crate) use aim::aim;
pub use balance::{Balance, BalanceFuture};
pub use builder::HyperBuilder;
pub use connect::Connector;
#[cfg(feature = "gateway")]
pub(crate) use error::Attempt;
pub use error::{Error, failure_of};
pub use exchange::{AnyExchange, Exchange, HttpExchange, JudgedExchange};
pub use hyper::HyperClient;
pub use layer::BalanceLayer;
pub use membership::Membership;
pub use options::CallOptions;
pub use per_instance::{PerInstance, PerInstanceFuture};
pub use picked::Picked;
pub use retry::{Retry, RetryLayer};

pub use crate::client::Via;
pub use crate::client::returning::Returning;

/// An error of any kind, as tower has it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
