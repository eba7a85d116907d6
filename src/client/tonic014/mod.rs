//! gRPC by [tonic] over balancers: each call is balanced, over connections that each instance has of its own.
//!
//! ```no_run
//! use evenkeel::LoadBalancers;
//! use evenkeel::config::Properties;
//! use evenkeel::discovery::FileDiscovery;
//! use tonic_health::pb::HealthCheckRequest;
//! use tonic_health::pb::health_client::HealthClient; // stands for a generated client of yours
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let properties = Properties::load("application.yml")?;
//! let balancers = LoadBalancers::from_properties(properties, FileDiscovery::new("registry.yml"))?;
//! let mut client = HealthClient::new(balancers.tonic("orders"));
//!
//! let answer = client.check(HealthCheckRequest::default()).await?;
//! # Ok(()) }
//! ```
//!
//! [`BalancedChannel`] stands where a [`Channel`](::tonic::transport::Channel) stood. The [guide](crate::guide::tonic) says
//! what happens to a call; in short:
//!
//! - **A connection that cannot be made** is never the caller's error while another instance is fine: nothing was sent, so
//!   the call goes there, whatever its method and its body, and the dead instance is skipped for a growing while.
//! - **A server that did not look at a call** (its connection had ended, it is shutting down, it refuses one more stream) gets
//!   it once more, over a new connection if need be; then another instance does.
//! - **Anything else is not repeated**, unless [`BalancedChannel::retry`] says so.
//! - **The status decides**, in the head of the answer or in its trailers. The lease of the instance ends with the stream.
//! - **The caller learns who it was**: an answer has a [`Via`] in its extensions, and [`tried`] reads it from a status.
//!
//! TLS is a feature of tonic, of which this crate asks for none; see [`tls_name`].

mod answer;
mod balanced;
mod connection;
mod deadline;
mod error;
mod fault;
mod follow;
mod names;
mod probe;
mod protocol;
mod replay;
mod settings;
mod tls;

pub use balanced::BalancedChannel;
pub use error::Error;
pub use names::tried;
pub use probe::GrpcProbe;
pub use settings::{Authority, tls_name};

pub use crate::client::Via;
pub use crate::client::tower::CallOptions;

use crate::{LoadBalancer, LoadBalancers};

impl LoadBalancers {
    /// A service for generated clients of tonic, over the instances of `service`. Nothing is made before the first call. A name that
    /// is none, and a service for which balancing is off, are the status `FAILED_PRECONDITION` of every call.
    #[cfg_attr(docsrs, doc(cfg(feature = "tonic014")))]
    pub fn tonic(&self, service: impl AsRef<str>) -> BalancedChannel {
        BalancedChannel::named(self.clone(), service.as_ref())
    }
}

impl LoadBalancer {
    /// A service for generated clients of tonic, over the instances of this balancer.
    #[cfg_attr(docsrs, doc(cfg(feature = "tonic014")))]
    pub fn tonic(&self) -> BalancedChannel {
        BalancedChannel::one(self.clone())
    }
}
