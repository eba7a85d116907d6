use std::fmt;
use std::io;
use std::net::SocketAddr;

use async_trait::async_trait;

/// Looks host names up for [`DnsDiscovery`](super::DnsDiscovery); [`SystemResolver`] is the default.
#[async_trait]
pub trait Resolve: Send + Sync + fmt::Debug + 'static {
    /// The addresses of `name`, in any order, each with `port`.
    ///
    /// # Errors
    /// An error is **no answer** and changes nothing; `Ok` with no address says that nobody is there.
    async fn lookup(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// The resolver of the operating system (`getaddrinfo`), off the async workers.
///
/// It tells "no such name", "no records" and "the server failed" apart too poorly to trust: all three are errors, so
/// it never gives an empty answer. It gives no TTL either.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn lookup(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let found: Vec<SocketAddr> = tokio::net::lookup_host((name, port)).await?.collect();
        if found.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the resolver gave no address"));
        }
        Ok(found)
    }
}
