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
//! instance, whatever its method; so does a GET, HEAD or OPTIONS whose connection broke. A body that is a stream is sent
//! again only if nothing of it was read, or if [`body_with`](RequestBuilder::body_with) makes it anew. The lease ends with the
//! body of the response: read it, or drop it.
//!
//! # Redirects
//!
//! They are followed here, up to 10 in a row ([`Client::with_redirects`]), as RFC 9110 has it and reqwest does, with one
//! difference: where they lead is balanced. A place that is relative, or names a service, is any instance of the service;
//! the address of an instance of the service that was called is that instance; anything else is that host. Each place is a
//! call of its own, the time-out of the call holds over all of them, and credentials go along to the same service and to nobody
//! else. `Response::url` is the URL at the instance that answered, and [`RedirectedFrom`] has those before it.
//! The [guide](crate::guide) has a page about all of it.
//!
//! # TLS, HTTP/2 and the rest
//!
//! They are features of reqwest, of which this crate turns on `stream` and `http2`. Name the others in your own
//! `Cargo.toml`, and the clients here have them:
//!
//! ```toml
//! evenkeel = { version = "0.1", features = ["reqwest"] }
//! reqwest = { version = "0.13", features = ["rustls", "json"] }
//! ```
//!
//! **Certificates** of an instance whose host is an IP address are verified by the `tls-name` in its metadata, else by the
//! property `tls-name` of the service, else by the address. That name is asked for in the handshake and stands in the URL,
//! which is connected to the address without a look-up.
//!
//! **A connection of HTTP/2** from which nothing came for 20 s is asked for a sign of life, and given up after 10 s more
//! ([`Client::with_http2_keep_alive`]). In HTTP/1.1 an instance that hangs is noticed by the property `read-timeout`, which is
//! unset by default.
//!
//! **Proxies**: an instance is called directly. The proxies of the environment (`HTTP_PROXY`) are for the world outside
//! and hold for URLs that are not balanced; a proxy that `make` gives the client of an instance is used.

mod call;
mod client;
mod dns;
mod error;
mod follow;
mod hook;
mod instance;
mod lease;
#[cfg(feature = "reqwest-middleware")]
#[cfg_attr(docsrs, doc(cfg(feature = "reqwest-middleware")))]
pub mod middleware;
mod opener;
mod options;
mod redirect;
mod replay;
mod request;

pub use client::Client;
pub use dns::Resolver;
pub use error::{Error, failure_of};
pub use hook::{CookieStore, Incoming, ResponseHook, SetInstanceCookie};
pub use options::CallOptions;
pub use redirect::{Redirect, RedirectAction, RedirectPolicy, RedirectedFrom};
pub use request::RequestBuilder;

pub use crate::client::Via;

use crate::{LoadBalancers, ServiceInstance};

impl LoadBalancers {
    /// A reqwest client over these balancers; `make` gives the settings of an instance's client, such as its TLS, and is
    /// called once for each instance. Time-outs of the properties, redirects and the keep-alive of HTTP/2 are decided here,
    /// whatever `make` says of them; proxies of the environment are not used (see the [module](crate::client::reqwest)).
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
