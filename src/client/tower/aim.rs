//! Where a request goes: scheme and authority of its URI, and nothing else of it.

use std::fmt::Display;

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Uri, uri};

use super::error::{Attempt, Error};
use crate::client::logical::balanced_by;
use crate::{InstanceState, LoadBalancer, LoadBalancers};

/// What `with` makes of the balancer of the service that the URI names; `None`: it is a URI like any other.
pub(super) fn service_of<T>(
    balancers: &LoadBalancers,
    uri: &Uri,
    with: impl FnOnce(&LoadBalancer) -> T,
) -> Result<Option<T>, Error> {
    let scheme = uri.scheme_str().unwrap_or_default();
    let authority = uri.authority().map_or("", Authority::as_str);
    // Nearly always it is the host alone, and to take it apart costs as much as all that follows.
    let (host, has_port) = if authority.bytes().any(|byte| matches!(byte, b':' | b'@' | b'[')) {
        (uri.host().unwrap_or_default(), uri.port().is_some())
    } else {
        (authority, false)
    };
    if scheme == "lb" && host.is_empty() {
        return Err(Error::uri(uri, "it names no host"));
    }
    let made = balanced_by(balancers, scheme, host, has_port, with);
    made.map_err(|error| Error::refused(uri, error))
}

/// `uri` at the instance: path and query stay as they are, byte for byte.
pub(crate) fn aim(uri: Uri, state: &InstanceState) -> Result<Uri, Attempt> {
    let scheme = state.scheme_for(uri.scheme_str()).map_err(Attempt::Target)?;
    let no_uri = |error: &dyn Display| Attempt::Uri(format!("{} has no URI: {error}", state.instance()));
    let authority = state.authority().ok_or_else(|| no_uri(&"its host cannot stand in one"))?;
    let scheme = scheme_named(&scheme).map_err(|error| no_uri(&error))?;
    let mut parts = uri.into_parts();
    (parts.scheme, parts.authority) = (Some(scheme), Some(authority.clone()));
    parts.path_and_query.get_or_insert(PathAndQuery::from_static("/"));
    Uri::from_parts(parts).map_err(|error| no_uri(&error))
}

fn scheme_named(name: &str) -> Result<Scheme, uri::InvalidUri> {
    match name {
        "http" => Ok(Scheme::HTTP),
        "https" => Ok(Scheme::HTTPS),
        other => Scheme::try_from(other),
    }
}
