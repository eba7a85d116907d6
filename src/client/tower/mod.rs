//! Services and layers of tower, and a client of hyper over them.

mod aim;
mod builder;
mod connect;
mod error;
mod hyper;
mod options;
mod protocol;

#[cfg(feature = "gateway")]
pub(crate) use aim::aim;
pub use builder::HyperBuilder;
pub use connect::Connector;
#[cfg(feature = "gateway")]
pub(crate) use error::Attempt;
pub use error::{Error, failure_of};
pub use hyper::HyperClient;
pub use options::CallOptions;

pub use crate::client::Via;
pub use crate::client::returning::Returning;

/// An error of any kind, as tower has it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
