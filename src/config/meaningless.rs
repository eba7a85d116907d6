//! Keys of Spring that are accepted and have no meaning here, each with the reason.

use super::key::{self, Token};

/// A key, with all below it, and why it has no meaning.
pub(crate) type Meaningless = (&'static str, &'static str);

/// Below our prefixes, and below `clients.<id>`.
pub(crate) const OURS: &[Meaningless] = &[
    (
        "health-check.update-results-list",
        "no meaning here: a round of checks is published as a whole, never a list that grows while it runs",
    ),
    (
        "call-get-with-request-on-delegates",
        "no meaning here: every stage that needs the request sees it, whatever the order of the stages",
    ),
    (
        "cache.caffeine",
        "no meaning here: lists are not kept in Caffeine; cache.ttl, cache.hard-age and cache.capacity say how long and \
         how many",
    ),
    (
        "use-raw-status-code-in-response-data",
        "no meaning here: a status is always the number that the instance sent",
    ),
    ("zookeeper", "no meaning here: the settings of a registry are given to its client in code"),
    (
        "eureka",
        "no meaning here: the zone comes from the property zone; it is not guessed from the name of the host",
    ),
    ("ribbon", "no meaning here: there is no Ribbon to switch off"),
];

/// Below the prefix of the simple instances.
pub(crate) const SIMPLE: &[Meaningless] = &[
    ("order", "no meaning here: the order of several registries is the one they have in code"),
    ("local", "no meaning here: this process is no instance of its own registry unless it is listed as one"),
];

/// Outside our prefixes. They are matched as a whole.
pub(crate) const OTHERS: &[Meaningless] = &[
    (
        "loadbalancer.client.name",
        "no meaning here: each balancer is told the name of its service when it is made",
    ),
    (
        "spring.cloud.oauth2.load-balanced.enabled",
        "no meaning here: a client is balanced because it was made so, its token service included",
    ),
    (
        "spring.cloud.gateway.server.webflux.loadbalancer.use404",
        "no meaning here: nothing to choose from is an error of its own type, and the caller maps it to a status; only a \
         gateway does as the property says",
    ),
];

/// The reason, if a key is one of these or stands below one.
pub(crate) fn reason(table: &'static [Meaningless], rest: &[Token]) -> Option<&'static str> {
    let stands_below = |name: &str| {
        let parts = name.split('.');
        parts.clone().count() <= rest.len() && parts.zip(rest).all(|(part, token)| token.is(part))
    };
    table.iter().find(|(name, _)| stands_below(name)).map(|(_, reason)| *reason)
}

/// The reason, if a key outside our prefixes is one of these.
pub(crate) fn other(path: &[Token]) -> Option<&'static str> {
    OTHERS.iter().find(|(name, _)| is(path, name)).map(|(_, reason)| *reason)
}

/// Whether a path is this key, in any spelling.
pub(crate) fn is(path: &[Token], name: &str) -> bool {
    let mut wanted = Vec::new();
    key::split(name, 0, &mut wanted);
    wanted.len() == path.len()
        && wanted.iter().zip(path).all(|(want, token)| want.name().is_some_and(|name| token.is(name)))
}
