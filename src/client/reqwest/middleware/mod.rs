//! Balancing for a [`reqwest::Client`] that is there already, as middlewares of [`reqwest_middleware`].
//!
//! ```no_run
//! # async fn example(balancers: evenkeel::LoadBalancers) -> Result<(), Box<dyn std::error::Error>> {
//! let mine = reqwest::Client::builder().user_agent("shop").build()?;
//! let http = balancers.middleware(mine).build();
//!
//! let text = http.get("lb://orders/api/42").send().await?.text().await?;
//! # Ok(()) }
//! ```
//!
//! [`Retry`] stands outside and [`Balance`] inside: one attempt is one choice, and what stands between them, or inside
//! of both, runs once for each attempt. [`LoadBalancers::middleware`] puts them side by side; by hand it is
//!
//! ```no_run
//! use evenkeel::client::reqwest::middleware::{Balance, Retry};
//!
//! # fn example(balancers: evenkeel::LoadBalancers, mine: reqwest::Client) {
//! let http = reqwest_middleware::ClientBuilder::new(mine)
//!     .with(Retry::new(&balancers))
//!     // what has to be done for each attempt, such as signing it
//!     .with(Balance::new(&balancers))
//!     .build();
//! # }
//! ```
//!
//! Without [`Retry`] a call has one attempt, or as many as another middleware for retries makes of it, which each go to an
//! instance that was not tried while one is left.
//!
//! **Hint, template and cost** are a [`CallOptions`](super::CallOptions) in the extensions of the request
//! (`with_extension`). The response's extensions hold a [`Via`](super::Via), and its body the lease of the instance.
//!
//! **What a finished client cannot do** is an [`Error`] that says so, and nothing is sent: verify the certificate of an address
//! by a name (`tls-name`), keep to a `connect-timeout` or `read-timeout` of the properties that is not the default one
//! ([`Balance::with_limits_of_client`] if it was built with such limits of its own). It has one pool of connections for all
//! instances, and **follows redirects by itself**: one that leads to a service is looked up as a host.

mod balance;
mod error;
mod retry;

pub use balance::Balance;
pub use error::{Error, Unsupported};
use reqwest_middleware::ClientBuilder;
pub use retry::Retry;

use crate::LoadBalancers;

impl LoadBalancers {
    /// A client with middlewares over one that is finished: [`Retry`], and [`Balance`] inside of it; see
    /// [`client::reqwest::middleware`](crate::client::reqwest::middleware).
    #[cfg_attr(docsrs, doc(cfg(feature = "reqwest-middleware")))]
    pub fn middleware(&self, client: ::reqwest::Client) -> ClientBuilder {
        ClientBuilder::new(client).with(Retry::new(self)).with(Balance::new(self))
    }
}

/// The balancer of the service that a request names, if it names one.
fn balancer_of(
    balancers: &LoadBalancers,
    request: &::reqwest::Request,
) -> Result<Option<crate::LoadBalancer>, reqwest_middleware::Error> {
    let url = request.url();
    let host = url.host_str().unwrap_or_default();
    let found = crate::client::logical::balancer_of(balancers, url.scheme(), host, url.port().is_some());
    found.map_err(|error| Error::refused(url, error).into())
}
