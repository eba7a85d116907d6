//! Clients: what sends a request to the instance that was chosen.
//!
//! [`LoadBalancerClient`] is for anything that can be called; `reqwest`, `tower` and `tonic` have clients and layers of their
//! own, each with a feature.

#[cfg(any(feature = "reqwest", feature = "tower"))]
mod failure;
mod load_balancer_client;
#[cfg(any(feature = "reqwest", feature = "tower"))]
mod logical;
#[cfg(any(feature = "reqwest", feature = "tower"))]
pub(crate) mod pool;
#[cfg(feature = "tower")]
mod propagation;
#[cfg(feature = "reqwest")]
#[cfg_attr(docsrs, doc(cfg(feature = "reqwest")))]
pub mod reqwest;
#[cfg(any(feature = "reqwest", feature = "tower"))]
pub(crate) mod returning;
#[cfg(feature = "reqwest")]
mod tls_name;
#[cfg(feature = "tonic014")]
#[cfg_attr(docsrs, doc(cfg(feature = "tonic014")))]
pub mod tonic014;
#[cfg(feature = "tower")]
#[cfg_attr(docsrs, doc(cfg(feature = "tower")))]
pub mod tower;
pub(crate) mod transform;
mod via;

/// [`tonic014`], by the name without a version.
#[cfg(feature = "tonic")]
#[cfg_attr(docsrs, doc(cfg(feature = "tonic")))]
pub use self::tonic014 as tonic;
pub use load_balancer_client::{Attempt, ClientError, LoadBalancerClient};
#[cfg(feature = "tower")]
#[cfg_attr(docsrs, doc(cfg(feature = "tower")))]
pub use propagation::{Propagating, PropagationLayer};
pub use transform::{Outgoing, RequestTransformer};
pub use via::Via;

pub use crate::request::{Propagated, Propagation};
