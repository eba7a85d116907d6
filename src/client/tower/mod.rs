//! Services and layers of tower, and a client of hyper over them.

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

pub use balance::{Balance, BalanceFuture};
pub use builder::HyperBuilder;
pub use connect::Connector;
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
