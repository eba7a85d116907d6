//! Instances from the addresses of a host name, as a headless service of Kubernetes has them.
//!
//! The system's resolver gives addresses and nothing else: no port, no TTL, and no difference between a name without
//! records and a server that failed. So the port comes from the template, the name is looked up by a period, and every
//! error is "no answer": **an error never empties the list**.

mod client;
mod host;
mod resolve;
mod stream;
mod template;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

pub use client::DnsDiscovery;
pub use resolve::{Resolve, SystemResolver};
pub use template::InvalidTemplate;

/// What a [`DnsDiscovery`] was built with.
#[derive(Clone, Debug)]
struct Settings {
    template: template::Template,
    resolver: Arc<dyn Resolve>,
    period: Duration,
    grace: Duration,
    timeout: Duration,
    seed: u64,
    /// What errors call this source.
    origin: String,
}
