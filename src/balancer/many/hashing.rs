//! The policies that go by a key, from properties.

use crate::config::HashProperties;
use crate::policy::{DubboConsistentHash, HashKey, Maglev, RingHash};

/// The key that the properties name, its parts in their order.
pub(super) fn key(hash: &HashProperties) -> HashKey {
    let named = |of: fn(&str) -> HashKey, name: &Option<String>| name.as_deref().map(of);
    let parts = [
        named(|name| HashKey::header(name), &hash.header),
        named(|name| HashKey::cookie(name), &hash.cookie),
        named(|name| HashKey::query(name), &hash.query),
        named(|name| HashKey::attribute(name), &hash.attribute),
        hash.path.then(HashKey::path),
        hash.source.then(HashKey::source),
    ];
    let one = |part: HashKey| if hash.terminal { part.terminal() } else { part };
    parts.into_iter().flatten().map(one).fold(HashKey::default(), HashKey::and)
}

pub(super) fn ring_hash(hash: &HashProperties) -> RingHash {
    let ring = RingHash::new(key(hash)).with_nodes(hash.nodes);
    let ring = match hash.min_ring_size {
        Some(least) => ring.with_ring_size((least.into(), hash.max_ring_size.into())),
        None => ring,
    };
    match hash.balance_factor {
        Some(percent) => ring.with_balance_factor(percent),
        None => ring,
    }
}

pub(super) fn maglev(hash: &HashProperties) -> Maglev {
    let maglev = Maglev::new(key(hash)).with_table_size(hash.table_size);
    match hash.balance_factor {
        Some(percent) => maglev.with_balance_factor(percent),
        None => maglev,
    }
}

pub(super) fn consistent_hash(hash: &HashProperties) -> DubboConsistentHash {
    let policy = if hash.has_key() {
        DubboConsistentHash::new(key(hash))
    } else {
        DubboConsistentHash::by_arguments(hash.arguments.iter().copied())
    };
    policy.with_nodes(hash.nodes)
}
