//! Properties of consistent hashing.

use super::choices::PolicyName;
use super::setters::setters;
use serde::{Deserialize, Serialize};

/// What a key is made of, and how it is spread: `evenkeel.hash.*`, for a service whose `policy` is `ring-hash`, `maglev`,
/// `rendezvous` or `consistent-hash`.
///
/// What is set of the parts of a key is combined in the order header, cookie, query parameter, attribute, path, source. One
/// at least must be; `consistent-hash` goes by `arguments` when none is.
///
/// ```
/// use evenkeel::config::{HashProperties, LoadBalancerProperties, PolicyName};
///
/// let orders = LoadBalancerProperties::default()
///     .with_policy(PolicyName::Maglev)
///     .with_hash(HashProperties::default().with_header("X-User"));
/// assert_eq!(orders.hash.nodes, 160);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct HashProperties {
    /// A request header; several values are joined with a comma. Default: unset.
    pub header: Option<String>,
    /// A cookie. Default: unset.
    pub cookie: Option<String>,
    /// A query parameter. Default: unset.
    pub query: Option<String>,
    /// An attribute that the client keeps with its request. Default: unset.
    pub attribute: Option<String>,
    /// Whether the path of the URL counts. Default: `false`.
    pub path: bool,
    /// Whether the source of the request counts, its attribute `client.address`. Default: `false`.
    pub source: bool,
    /// Whether the first part that a request has is its key, instead of all of them. Default: `false`.
    pub terminal: bool,
    /// Points of an instance on a ring (`ring-hash`, `consistent-hash`); at least 1. Default: 160.
    pub nodes: u32,
    /// Points on the ring at least, counted as Envoy and gRPC count them instead of by `nodes` (`ring-hash`). Default: unset.
    pub min_ring_size: Option<u32>,
    /// Points on the ring at most, with `min-ring-size`. Default: 8 388 608.
    pub max_ring_size: u32,
    /// Entries of a table (`maglev`), the next prime at or above it. Default: 65 537.
    pub table_size: u32,
    /// The most that an instance may have in flight, in percent of its share; at least 100 (`ring-hash`, `maglev`). Default:
    /// unset, no bound.
    pub balance_factor: Option<u32>,
    /// The numbers of the arguments that make the key, where no part of the request does (`consistent-hash`). Default: 0.
    pub arguments: Vec<u32>,
}

impl Default for HashProperties {
    fn default() -> Self {
        Self {
            header: None,
            cookie: None,
            query: None,
            attribute: None,
            path: false,
            source: false,
            terminal: false,
            nodes: 160,
            min_ring_size: None,
            max_ring_size: 8_388_608,
            table_size: 65_537,
            balance_factor: None,
            arguments: vec![0],
        }
    }
}

impl HashProperties {
    setters! {
        /// Sets the header that counts. Default: unset.
        with_header(header: impl Into<String>) = Some(header.into());
        /// Sets the cookie that counts. Default: unset.
        with_cookie(cookie: impl Into<String>) = Some(cookie.into());
        /// Sets the query parameter that counts. Default: unset.
        with_query(query: impl Into<String>) = Some(query.into());
        /// Sets the attribute that counts. Default: unset.
        with_attribute(attribute: impl Into<String>) = Some(attribute.into());
        /// Sets whether the path counts. Default: `false`.
        with_path(path: bool) = path;
        /// Sets whether the source counts. Default: `false`.
        with_source(source: bool) = source;
        /// Sets whether the first part that a request has is its key. Default: `false`.
        with_terminal(terminal: bool) = terminal;
        /// Sets the points of an instance on a ring. Default: 160.
        with_nodes(nodes: u32) = nodes;
        /// Sets the points on the ring at least. Default: unset, by `nodes`.
        with_min_ring_size(min_ring_size: impl Into<Option<u32>>) = min_ring_size.into();
        /// Sets the points on the ring at most. Default: 8 388 608.
        with_max_ring_size(max_ring_size: u32) = max_ring_size;
        /// Sets the entries of a table. Default: 65 537.
        with_table_size(table_size: u32) = table_size;
        /// Sets the most that an instance may have in flight, in percent of its share. Default: unset, no bound.
        with_balance_factor(balance_factor: impl Into<Option<u32>>) = balance_factor.into();
        /// Sets the numbers of the arguments that make the key. Default: 0.
        with_arguments(arguments: impl IntoIterator<Item = u32>) = arguments.into_iter().collect();
    }

    /// Whether some part of a request makes the key.
    pub(crate) fn has_key(&self) -> bool {
        let named = [&self.header, &self.cookie, &self.query, &self.attribute];
        named.into_iter().any(Option::is_some) || self.path || self.source
    }

    /// Why a service with this policy cannot be balanced so, if it cannot: without a key, every request would go by chance,
    /// which nobody means who asks for one of these.
    pub(crate) fn fault(&self, policy: PolicyName) -> Option<String> {
        let needs = matches!(policy, PolicyName::RingHash | PolicyName::Maglev | PolicyName::Rendezvous);
        let nothing =
            !self.has_key() && (needs || policy == PolicyName::ConsistentHash && self.arguments.is_empty());
        nothing.then(|| {
            format!(
                "policy: {policy} needs a key: set hash.header, hash.cookie, hash.query, hash.attribute, hash.path or \
                 hash.source"
            )
        })
    }
}
