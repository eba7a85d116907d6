//! Which URLs name a service.

use crate::{BuildError, LoadBalancer, LoadBalancers};

/// What `with` makes of the balancer of the service that a URL names, if it names one: `lb://name` always; `http(s)` and `ws(s)`
/// without a port (one says that an address is meant) for names that are known. `Ok(None)`: it is a URL like any other.
pub(crate) fn balanced_by<T>(
    balancers: &LoadBalancers,
    scheme: &str,
    host: &str,
    has_port: bool,
    with: impl FnOnce(&LoadBalancer) -> T,
) -> Result<Option<T>, BuildError> {
    let by_name = match scheme {
        "lb" => true,
        "http" | "https" | "ws" | "wss" => !has_port && balancers.is_known(host),
        _ => false,
    };
    if by_name { balancers.using(host, with).map(Some) } else { Ok(None) }
}

/// The balancer itself.
#[cfg(feature = "reqwest")]
pub(crate) fn balancer_of(
    balancers: &LoadBalancers,
    scheme: &str,
    host: &str,
    has_port: bool,
) -> Result<Option<LoadBalancer>, BuildError> {
    balanced_by(balancers, scheme, host, has_port, LoadBalancer::clone)
}
