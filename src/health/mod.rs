//! Active health: probes that ask each instance whether it works. [`HealthStage`](crate::supplier::HealthStage) leaves out
//! those that do not.
//!
//! Probes are loops of their own, beside discovery: a new list never waits for them, and their verdicts survive every
//! refresh. They never pass through a balancer. They run from the first choose until nobody has chosen for ten minutes.

mod check;
#[cfg(feature = "reqwest")]
mod get;
#[cfg(feature = "reqwest")]
mod http;
mod probe;

pub use check::HealthCheck;
#[cfg(feature = "reqwest")]
#[cfg_attr(docsrs, doc(cfg(feature = "reqwest")))]
pub use http::HttpProbe;
pub use probe::{HealthProbe, ProbeError, TcpProbe};
