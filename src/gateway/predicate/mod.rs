//! Predicates: whether a route takes a request.

mod address;
mod host;
mod read;

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, Method};
use regex::Regex;

use super::pattern::{PathPattern, Variables};
use address::Network;
use host::HostPattern;

pub(super) use read::{Read, header};

/// What predicates see of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) method: &'a Method,
    /// As it is on the wire.
    pub(super) path: &'a str,
    pub(super) query: Option<&'a str>,
    pub(super) headers: &'a HeaderMap,
    /// The host that the request names, with its port.
    pub(super) host: &'a str,
    /// The address of the client, where it is known.
    pub(super) peer: Option<IpAddr>,
}

/// One predicate.
#[derive(Debug)]
pub(super) enum Predicate {
    Path(Vec<PathPattern>),
    Method(Vec<Method>),
    Header(HeaderName, Option<Regex>),
    Host(Vec<HostPattern>),
    Query(String, Option<Regex>),
    Cookie(String, Regex),
    RemoteAddr(Vec<Network>),
}

impl Predicate {
    /// Whether it holds.
    pub(super) fn holds(&self, asked: &Asked<'_>) -> bool {
        match self {
            Self::Path(patterns) => patterns.iter().any(|pattern| pattern.matches(asked.path)),
            Self::Method(methods) => methods.contains(asked.method),
            Self::Header(name, None) => asked.headers.contains_key(name),
            Self::Header(name, Some(regex)) => {
                let values = asked.headers.get_all(name);
                values.iter().any(|value| value.to_str().is_ok_and(|value| regex.is_match(value)))
            }
            Self::Host(patterns) => patterns.iter().any(|pattern| pattern.matches(asked.host)),
            Self::Query(name, regex) => has_query(asked.query, name, regex.as_ref()),
            Self::Cookie(name, regex) => has_cookie(asked.headers, name, regex),
            Self::RemoteAddr(networks) => {
                asked.peer.is_some_and(|peer| networks.iter().any(|network| network.contains(peer)))
            }
        }
    }

    /// The names of the variables that it gives to filters.
    pub(super) fn names(&self) -> Vec<&str> {
        match self {
            Self::Path(patterns) => patterns.iter().flat_map(PathPattern::names).collect(),
            Self::Host(patterns) => patterns.iter().flat_map(HostPattern::names).collect(),
            _ => Vec::new(),
        }
    }

    /// Their values for a request that it holds for.
    pub(super) fn variables(&self, asked: &Asked<'_>, into: &mut Variables) {
        match self {
            Self::Path(patterns) => {
                into.extend(
                    patterns.iter().find_map(|pattern| pattern.variables(asked.path)).unwrap_or_default(),
                );
            }
            Self::Host(patterns) => {
                into.extend(
                    patterns.iter().find_map(|pattern| pattern.variables(asked.host)).unwrap_or_default(),
                );
            }
            _ => {}
        }
    }
}

/// Whether a parameter is there, with a value that fits.
fn has_query(query: Option<&str>, name: &str, regex: Option<&Regex>) -> bool {
    let pairs = query.into_iter().flat_map(|query| query.split('&'));
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).any(|(key, value)| {
        unquoted(key) == name && regex.is_none_or(|regex| regex.is_match(&unquoted(value)))
    })
}

fn unquoted(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains('+') {
        return super::pattern::decoded(&text.replace('+', " ")).into_owned().into();
    }
    super::pattern::decoded(text)
}

/// Whether one of the cookies of the name has a value that fits.
fn has_cookie(headers: &HeaderMap, name: &str, regex: &Regex) -> bool {
    let lines = headers.get_all(http::header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('=')).any(|(key, value)| {
        let value = value.trim();
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
        key.trim() == name && regex.is_match(value)
    })
}
