//! Which property a key means: its prefix, whose it is, and its name in the spelling of the documentation.

use super::error::{Place, Warning};
use super::key::{self, Token, uniform};
use super::meaningless;
use super::names::{
    self, ALIASES, INSTANCE_NAMES, KEYED, MAPS, OVERRIDE_NAMES, PROPERTIES, ROUTE_NAMES, Shape, ZONE_WEIGHTS,
};

/// The family of keys one belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefix {
    Evenkeel,
    Spring,
    Simple,
}

impl Prefix {
    pub(crate) const ALL: [Self; 3] = [Self::Evenkeel, Self::Spring, Self::Simple];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Evenkeel => "evenkeel",
            Self::Spring => "spring.cloud.loadbalancer",
            Self::Simple => "spring.cloud.discovery.client.simple",
        }
    }

    /// The prefix a path begins with, and what follows it.
    pub(crate) fn strip(path: &[Token]) -> Option<(Self, &[Token])> {
        Self::ALL.into_iter().find_map(|prefix| {
            let names = prefix.as_str().split('.');
            let count = names.clone().count();
            let begins = path.len() >= count && names.zip(path).all(|(name, token)| token.is(name));
            // A section of its own: nothing in it is a service's.
            let gateway = cfg!(feature = "gateway")
                && prefix == Self::Evenkeel
                && path.get(count).is_some_and(|token| token.is("gateway"));
            (begins && !gateway).then(|| (prefix, &path[count..]))
        })
    }
}

/// Whose a value is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// Every service.
    Global,
    /// One service, by its folded id.
    Service(String),
    /// The list of simple instances of one service, by its folded id.
    Instances(String),
}

/// A key understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) owner: Owner,
    /// The service id in the spelling it was written in; empty for a global value.
    pub(crate) id: String,
    /// The name below the prefix or client, with list places as `[0000]` so that text order is list order.
    pub(crate) name: String,
}

impl Address {
    /// The part of the name that a higher layer replaces as a whole: a list, or one value.
    pub(crate) fn root(&self) -> &str {
        root(&self.name)
    }
}

/// The list a name belongs to, or the name itself.
pub(crate) fn root(name: &str) -> &str {
    name.split('[').next().unwrap_or_default()
}

/// A list place as it stands in a name.
pub(crate) fn place_in_list(at: usize) -> String {
    format!("[{at:04}]")
}

/// Why a key below our prefixes means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    pub(crate) nearest: Option<String>,
    pub(crate) reason: &'static str,
    /// Whether Spring knows the key: then it is accepted.
    pub(crate) accepted: bool,
}

impl Unknown {
    fn new(nearest: Option<String>, reason: &'static str) -> Self {
        Self { nearest, reason, accepted: false }
    }

    pub(crate) fn accepted(reason: &'static str) -> Self {
        Self { nearest: None, reason, accepted: true }
    }

    pub(crate) fn warning(self, key: &str, place: &Place) -> Warning {
        let Self { nearest, reason, accepted } = self;
        Warning { key: key.to_owned(), place: place.clone(), nearest, reason: reason.to_owned(), accepted }
    }
}

/// Reads what follows a prefix.
pub(crate) fn address(prefix: Prefix, rest: &[Token]) -> Result<Address, Unknown> {
    if prefix == Prefix::Simple {
        return instance(rest);
    }
    if rest.first().is_some_and(|first| first.is("clients")) {
        return client(prefix, &rest[1..]);
    }
    match property_name(rest, false) {
        Some(name) => Ok(Address { owner: Owner::Global, id: String::new(), name }),
        None => Err(unknown(prefix.as_str(), rest, false)),
    }
}

/// Reads what follows `clients`.
///
/// An id may hold dots, and a nested key and a dotted one are equal, so where the id ends is found by what follows
/// it: the shortest id after which a property we know is left.
fn client(prefix: Prefix, rest: &[Token]) -> Result<Address, Unknown> {
    let found = (1..rest.len()).find_map(|end| match property_name(&rest[end..], true) {
        Some(name) => Some(Ok((end, name))),
        None => meaningless::reason(meaningless::OURS, &rest[end..]).map(Err),
    });
    let Some(found) = found else {
        // No property is known there: then the id is what its writer kept together in one key.
        let node = rest.first().map_or(0, Token::node);
        let own = rest.iter().take_while(|token| token.node() == node).count();
        let end = if own < rest.len() { own } else { 1.min(rest.len()) };
        let below = format!("{}.clients.{}", prefix.as_str(), key::joined(&rest[..end]));
        return Err(unknown(&below, &rest[end..], true));
    };
    let (end, name) = found.map_err(Unknown::accepted)?;
    let id = key::joined(&rest[..end]);
    // `clients.<id>.hint.<id>` is Spring's long form of `clients.<id>.hint`.
    let mapped = MAPS.iter().find_map(|map| Some((*map, name.strip_prefix(map)?.strip_prefix('.')?)));
    let name = match mapped {
        Some((map, of)) if of == key::fold(&id) || of == "default" => map.to_owned(),
        Some(_) => {
            return Err(Unknown::new(None, "what stands below clients.<id> counts for that id only"));
        }
        None => name,
    };
    let global_only = PROPERTIES.iter().any(|property| property.global_only && property.name == root(&name));
    if global_only || root(&name) == "overrides" {
        let reason = "read for the whole process only, not below clients.<id>";
        return Err(Unknown::new(Some(format!("{}.{}", prefix.as_str(), root(&name))), reason));
    }
    Ok(Address { owner: Owner::Service(key::fold(&id)), id, name })
}

/// Reads what follows the prefix of the simple instances.
fn instance(rest: &[Token]) -> Result<Address, Unknown> {
    let prefix = Prefix::Simple.as_str();
    let at = rest.iter().position(|token| matches!(token, Token::Index { .. }));
    if let (Some(true), Some(at)) = (rest.first().map(|first| first.is("instances")), at)
        && at > 1
        && let Token::Index { at: place, .. } = rest[at]
        && let Some(name) = instance_name(&rest[at + 1..])
    {
        let id = key::joined(&rest[1..at]);
        let name = format!("{}.{name}", place_in_list(place));
        return Ok(Address { owner: Owner::Instances(key::fold(&id)), id, name });
    }
    if let Some(reason) = meaningless::reason(meaningless::SIMPLE, rest) {
        return Err(Unknown::accepted(reason));
    }
    let below = at.map_or(rest, |at| &rest[at + 1..]);
    let near = match at {
        Some(at) if at > 1 => key::nearest(&key::joined(below), INSTANCE_NAMES.iter().copied())
            .map(|name| format!("{prefix}.{}.{name}", key::render(&rest[..=at]))),
        _ => rest
            .first()
            .and_then(|first| key::nearest(&first.text(), ["instances"]))
            .map(|name| format!("{prefix}.{name}")),
    };
    Err(Unknown::new(near, "unknown property"))
}

/// The list of a service as a whole, which an empty one names: it replaces the one before as any other list does.
pub(crate) fn empty_instances(prefix: Prefix, rest: &[Token]) -> Option<Address> {
    let [instances, id @ ..] = rest else { return None };
    let named = !id.is_empty() && id.iter().all(|token| token.name().is_some());
    (prefix == Prefix::Simple && instances.is("instances") && named).then(|| {
        let id = key::joined(id);
        Address { owner: Owner::Instances(key::fold(&id)), id, name: String::new() }
    })
}

/// The name of one value of an instance.
fn instance_name(rest: &[Token]) -> Option<String> {
    let name = INSTANCE_NAMES.iter().find(|name| rest.first().is_some_and(|first| first.is(name)))?;
    match (*name, &rest[1..]) {
        ("metadata", []) => None,
        // A metadata key is data: it keeps its spelling.
        ("metadata", key) => Some(format!("metadata.{}", key::joined(key))),
        (name, []) => Some(name.to_owned()),
        _ => None,
    }
}

/// The name of a property, in the documentation's spelling, with list places.
pub(crate) fn property_name(rest: &[Token], in_client: bool) -> Option<String> {
    let first = rest.first()?;
    if let Some((map, of)) = map_of(rest) {
        return match of {
            [] => Some(map.to_owned()),
            of => {
                let of = key::fold(&key::joined(of));
                Some(if of == "default" && !in_client { map.to_owned() } else { format!("{map}.{of}") })
            }
        };
    }
    if first.is("routing") {
        return route_name(&rest[1..]);
    }
    if first.is("overrides") {
        return override_name(&rest[1..]);
    }
    if let Some(below) = below(rest, KEYED) {
        // A key of the map is data: it keeps its spelling but for the case, in which media types do not differ.
        let of = key::joined(below).to_ascii_lowercase();
        return Some(if of.is_empty() { KEYED.to_owned() } else { format!("{KEYED}.{of}") });
    }
    if let Some(zone) =
        below(rest, ZONE_WEIGHTS).filter(|below| below.first().is_some_and(|t| t.name().is_some()))
    {
        return Some(format!("{ZONE_WEIGHTS}.{}", key::joined(zone).to_ascii_lowercase()));
    }
    if let Some((_, name)) = ALIASES.iter().find(|(alias, _)| below(rest, alias).is_some_and(<[_]>::is_empty))
    {
        return Some((*name).to_owned());
    }
    let names = rest.iter().take_while(|token| token.name().is_some()).count();
    let spelt: Vec<String> = rest[..names].iter().filter_map(Token::name).map(uniform).collect();
    let property = names::spelt(&spelt.join("."))?;
    match (property.shape, &rest[names..]) {
        (_, []) => Some(property.name.to_owned()),
        (Shape::List(_), [Token::Index { at, .. }]) => {
            Some(format!("{}{}", property.name, place_in_list(*at)))
        }
        _ => None,
    }
}

/// The map that a key stands in, and what follows its name.
fn map_of(rest: &[Token]) -> Option<(&'static str, &[Token])> {
    MAPS.iter().find_map(|map| Some((*map, below(rest, map)?)))
}

/// What follows a name.
fn below<'a>(rest: &'a [Token], name: &str) -> Option<&'a [Token]> {
    let parts = name.split('.');
    let (named, of) = rest.split_at_checked(parts.clone().count())?;
    parts.zip(named).all(|(part, token)| token.is(part)).then_some(of)
}

fn route_name(rest: &[Token]) -> Option<String> {
    let (at, below) = match rest {
        // An empty list: no routes.
        [] => return Some("routing".to_owned()),
        [Token::Index { at, .. }, below @ ..] => (*at, below),
        _ => return None,
    };
    let name = ROUTE_NAMES.iter().find(|name| below.first().is_some_and(|first| first.is(name)))?;
    let at = place_in_list(at);
    match (&below[1..], *name) {
        ([], name) => Some(format!("routing{at}.{name}")),
        // A value of the metadata key is data: it keeps its spelling.
        (group, "percent") => Some(format!("routing{at}.percent.{}", key::joined(group))),
        ([Token::Index { at: item, .. }], "fallback") => {
            Some(format!("routing{at}.fallback{}", place_in_list(*item)))
        }
        _ => None,
    }
}

fn override_name(rest: &[Token]) -> Option<String> {
    let (at, rest) = match rest {
        // An empty list: no overrides.
        [] => return Some("overrides".to_owned()),
        [Token::Index { at, .. }, rest @ ..] => (*at, rest),
        _ => return None,
    };
    let name = OVERRIDE_NAMES.iter().find(|name| below(rest, name).is_some_and(<[_]>::is_empty))?;
    Some(format!("overrides{}.{name}", place_in_list(at)))
}

/// What to say of a key that is none of ours.
fn unknown(below: &str, rest: &[Token], in_client: bool) -> Unknown {
    if let Some(reason) = meaningless::reason(meaningless::OURS, rest) {
        return Unknown::accepted(reason);
    }
    let known = PROPERTIES.iter().filter(|property| !(in_client && property.global_only));
    let near = match rest {
        [routing, Token::Index { .. }, name @ ..] if routing.is("routing") => {
            key::nearest(&key::joined(name), ROUTE_NAMES.iter().copied())
                .map(|name| format!("{}.{name}", key::render(&rest[..2])))
        }
        [overrides, Token::Index { .. }, name @ ..] if overrides.is("overrides") && !in_client => {
            key::nearest(&key::joined(name), OVERRIDE_NAMES.iter().copied())
                .map(|name| format!("{}.{name}", key::render(&rest[..2])))
        }
        // Everything below it may be right: `client.billing.cache.ttl`.
        [first, _, ..] if !in_client && key::nearest(&first.text(), ["clients"]).is_some() => {
            Some(format!("clients.{}", key::render(&rest[1..])))
        }
        _ => key::nearest(
            &key::joined(rest),
            known.map(|property| property.name).chain(MAPS.iter().copied()).chain([
                KEYED,
                "routing",
                "overrides",
                "clients",
            ]),
        )
        .map(str::to_owned),
    };
    Unknown::new(near.map(|name| format!("{below}.{name}")), "unknown property")
}
