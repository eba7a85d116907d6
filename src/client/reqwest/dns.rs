use std::net::SocketAddr;

use ::reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::{LoadBalancers, Request, ServiceInstance, Tried};

/// The most instances that one look-up names: the one that was chosen, and others if it cannot be reached. The time for a
/// connection is divided among all of them.
const MOST: usize = 3;

/// Looks up the names of services in their balancers, for code that takes a plain [`reqwest::Client`](::reqwest::Client) and
/// nothing else, such as generated clients. Made by [`LoadBalancers::dns_resolver`].
///
/// ```no_run
/// # async fn example(balancers: evenkeel::LoadBalancers) -> Result<(), Box<dyn std::error::Error>> {
/// let plain = reqwest::Client::builder().dns_resolver(balancers.dns_resolver()).build()?;
/// // What was generated knows nothing of it.
/// let text = plain.get("http://orders/api/42").send().await?.text().await?;
/// # Ok(()) }
/// ```
///
/// Each look-up is a choice: the first address is that of the instance that the balancer picks, up to two more are there if
/// it cannot be reached. Names that are not [known](LoadBalancers::is_known) are looked up as always.
///
/// **It balances connections, not requests**: while a connection is kept, all requests for the name use it. One of HTTP/2
/// holds all traffic of the process; with HTTP/1.1 and `pool_max_idle_per_host(0)` each request has a look-up of its own. What
/// is more, this is lost:
///
/// - The port of the instance is used if the URL names none, and only then: `http://orders:8080/` goes to port 8080 of
///   whatever host was chosen. The scheme is that of the URL, whatever the instance says.
/// - There is no lease and no outcome: calls in flight are not counted, failures not heard, so that nobody is skipped,
///   ejected or compared by load. There are no hints, cookies, or retries on another instance.
/// - TLS verifies the name in the URL, that of the service.
///
/// Where the client can be another one, take [`LoadBalancers::reqwest`], or [`LoadBalancers::middleware`] for one that is
/// finished.
#[derive(Clone, Debug)]
pub struct Resolver {
    balancers: LoadBalancers,
}

impl LoadBalancers {
    /// A resolver for [`ClientBuilder::dns_resolver`](::reqwest::ClientBuilder::dns_resolver), which knows the names of
    /// services; see [`Resolver`] for what it can do and what it cannot.
    #[cfg_attr(docsrs, doc(cfg(feature = "reqwest")))]
    pub fn dns_resolver(&self) -> Resolver {
        Resolver { balancers: self.clone() }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let balancers = self.balancers.clone();
        Box::pin(async move {
            let addresses = if balancers.is_known(name.as_str()) {
                addresses(&balancers, name.as_str()).await?
            } else {
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect()
            };
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// Those of the instance that the balancer picks, and of those that it would pick next.
async fn addresses(
    balancers: &LoadBalancers,
    name: &str,
) -> Result<Vec<SocketAddr>, Box<dyn std::error::Error + Send + Sync>> {
    let balancer = balancers.get(name)?;
    let (mut tried, mut found) = (Tried::new(), Vec::new());
    let mut fault: Option<std::io::Error> = None;
    while tried.len() < MOST {
        let mut choice = match balancer.choose(&Request::EMPTY.with_tried(&tried)).await {
            Ok(choice) => choice,
            Err(error) if tried.is_empty() => return Err(error.into()),
            Err(_) => break,
        };
        // Nobody will ever tell what became of it.
        choice.hush();
        if tried.has(&choice) {
            break;
        }
        tried.add(&choice);
        match of(&choice.instance()).await {
            Ok(addresses) => found.extend(addresses),
            Err(error) => fault = Some(error),
        }
    }
    match fault {
        Some(error) if found.is_empty() => Err(error.into()),
        _ => Ok(found),
    }
}

/// The addresses of an instance; port 0 is that of the URL's scheme.
async fn of(instance: &ServiceInstance) -> std::io::Result<Vec<SocketAddr>> {
    let host = instance.host().trim_start_matches('[').trim_end_matches(']');
    Ok(tokio::net::lookup_host((host, instance.port().unwrap_or_default())).await?.collect())
}
