//! Clients: what sends a request to the instance that was chosen.
//!
//! [`LoadBalancerClient`] is for anything that can be called; [`reqwest`] is a client of its own, with a feature; [`tonic014`] is for gRPC.

mod load_balancer_client;
#[cfg(any(feature = "reqwest", feature = "tower"))]
mod logical;
#[cfg(any(feature = "reqwest", feature = "tower"))]
mod pool;
#[cfg(feature = "reqwest")]
#[cfg_attr(docsrs, doc(cfg(feature = "reqwest")))]
pub mod reqwest;
#[cfg(feature = "tower")]
mod returning;
#[cfg(feature = "tonic014")]
#[cfg_attr(docsrs, doc(cfg(feature = "tonic014")))]
pub mod tonic014;
mod transform;
mod via;

/// [`tonic014`], by the name without a version.
#[cfg(feature = "tonic")]
#[cfg_attr(docsrs, doc(cfg(feature = "tonic")))]
pub use self::tonic014 as tonic;
pub use load_balancer_client::{Attempt, ClientError, LoadBalancerClient};
pub use transform::{Outgoing, RequestTransformer};
pub use via::Via;
