//! [`reqwest`] over balancers: one [`reqwest::Client`] per instance, made when it is first
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
//! **Which URLs**: `lb://name/...` always; `http(s)://name/...` without a port for names that are configured, or that
//! [`LoadBalancers::list_services`] found, unless their properties say `enabled: false`; everything else goes out
//! untouched. Only scheme and authority are replaced: path, query and escapes are what [`reqwest::Url`]
//! makes of the text, byte for byte. A fragment is never sent.
//!
//! **Spelling**: the host of an `http` URL is lower case before anybody sees it. A registry that tells cases apart is
//! asked as the configuration spells the service, else as [`LoadBalancers::list_services`] did; `lb://Billing.Api-v2/`
//! keeps its case and may hold an underscore.
//!
//! **A call that was never sent** (refused, not connected within `connect-timeout`, 1 s by default; a time-out of the whole
//! call that is shorter ends it first, and then nobody can tell whether it was sent) goes once to another
//! instance, whatever its method; so does a GET, HEAD or OPTIONS whose connection broke. A body that is a stream can be
//! sent once only. The lease ends with the body of the response: read it, or drop it.
//!
//! **Redirects** are followed as the settings of the instance's client say, by reqwest's default ten times; where they lead
//! is not balanced. A call that was redirected was sent: if that place is not reached, it counts as one whose connection
//! broke, and only a safe method is repeated. With a redirect policy of your own (other than `none`) nobody can tell, and it counts as never sent.
//!
//! **TLS, HTTP/2 and the rest** are features of reqwest, of which this crate asks for none. Name them in your own
//! `Cargo.toml`, and the clients here have them:
//!
//! ```toml
//! evenkeel = { version = "0.1", features = ["reqwest"] }
//! reqwest = { version = "0.13", features = ["rustls", "http2", "json"] }
//! ```
//!
//! **Proxies**: an instance is called directly. The proxies of the environment (`HTTP_PROXY`) are for the world outside
//! and hold for URLs that are not balanced; a proxy that `make` gives the client of an instance is used.

mod client;
mod error;
mod lease;
mod opener;
mod redirect;
mod request;

pub use client::Client;
pub use error::{Error, failure_of};
pub use request::RequestBuilder;

pub use crate::client::Via;

use crate::{LoadBalancers, ServiceInstance};

impl LoadBalancers {
    /// A reqwest client over these balancers; `make` gives the settings of an instance's client, such as its TLS, and is
    /// called once for each instance. The connect time-out is the property `connect-timeout` of the service, whatever
    /// `make` says of it; proxies of the environment are not used (see the [module](crate::client::reqwest)).
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
