//! The client of `reqwest` over balancers: one per instance, made when it is first
//! called.
//!
//! A client per instance keeps TLS names, connection pools, keep-alive and time-outs apart, and makes the choice per
//! request: an instance that leaves takes its pool along, one that joins gets its share at once.
//!
//! ```no_run
//! use evenkeel::config::Properties;
//! use evenkeel::discovery::FileDiscovery;
//! use evenkeel::LoadBalancers;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let properties = Properties::load("application.yml")?;
//! let balancers = LoadBalancers::from_properties(properties, FileDiscovery::new("registry.yml"))?;
//! let http = balancers.reqwest(|_instance| reqwest::Client::builder())?;
//!
//! let text = http.get("lb://orders/api/42").send().await?.text().await?;
//! # Ok(()) }
//! ```
//!
//! **Which URLs**: `lb://name/...` always; `http(s)://name/...` for names that are configured, or that
//! [`LoadBalancers::list_services`] found; everything else goes out untouched. Only scheme and authority are replaced.
//!
//! **A call that was never sent** (refused, not connected within `connect-timeout`, 1 s by default) goes once to another
//! instance, whatever its method, unless its body is a stream. The lease ends with the body of the response.

mod client;
mod error;
mod lease;
mod pool;
mod request;

pub use client::Client;
pub use error::{Error, failure_of};
pub use lease::Via;
pub use request::RequestBuilder;

use crate::{LoadBalancers, ServiceInstance};

impl LoadBalancers {
    /// A reqwest client over these balancers; `make` gives the settings of an instance's client, such as its TLS. The
    /// connect time-out is the property `connect-timeout` of the service.
    ///
    /// # Errors
    /// An error of reqwest, if it cannot make the client for URLs that are not balanced.
    #[cfg_attr(docsrs, doc(cfg(feature = "reqwest")))]
    pub fn reqwest(
        &self,
        make: impl Fn(&ServiceInstance) -> ::reqwest::ClientBuilder + Send + Sync + 'static,
    ) -> Result<Client, ::reqwest::Error> {
        Client::new(self.clone(), make)
    }
}
