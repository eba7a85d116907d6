//! Environment variables: `EVENKEEL_CLIENTS_ORDER_SERVICE_CACHE_TTL`.
//!
//! A variable's name has neither dots nor dashes, so it is read backwards from what is known: the names of the
//! properties, and the service ids that file, code and eager load speak of.

use super::address::{self, Address, Owner, Prefix, Unknown, place_in_list};
use super::error::{Issues, Place};
use super::key;
use super::layer::{Found, Layer, Leaf, Setting};
use super::meaningless::{self, Meaningless};
use super::names::{
    ALIASES, EAGER, INSTANCE_NAMES, KEYED, MAPS, OVERRIDE_NAMES, PROPERTIES, ROUTE_NAMES, Shape,
};
use std::collections::{HashMap, HashSet};

const PREFIXES: [(&str, Prefix); 4] = [
    ("EVENKEEL_", Prefix::Evenkeel),
    ("SPRING_CLOUD_LOADBALANCER_", Prefix::Spring),
    ("SPRING_CLOUD_LOAD_BALANCER_", Prefix::Spring),
    ("SPRING_CLOUD_DISCOVERY_CLIENT_SIMPLE_", Prefix::Simple),
];

/// What the other layers spell out, and a variable's name can only hint at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Service ids.
    pub(crate) ids: Vec<String>,
    /// Media types.
    pub(crate) media_types: Vec<String>,
}

/// Reads the variables below our prefixes into a layer.
pub(crate) fn read(variables: &[(String, String)], mut known: Known, issues: &mut Issues) -> Layer {
    let mut layer = Layer::default();
    let ours: Vec<_> =
        variables.iter().filter_map(|(name, value)| Some((strip(name)?, name, value))).collect();
    // Names in a value are spelt as their writer wants them, so they are known before names of variables are read.
    for ((prefix, parts), _, value) in &ours {
        if *prefix != Prefix::Simple && listed(parts, EAGER).is_some() {
            known.ids.extend(super::read::comma_list(value).map(str::to_owned));
        }
    }
    let (ids, mut found) = (Ids::new(&known.ids), Vec::new());
    for ((prefix, parts), name, value) in ours {
        let place = Place::Environment { variable: name.as_str().into() };
        match locate(prefix, &parts, &known, &ids) {
            Located::At(address) => {
                let key = shown(prefix, &address);
                let setting = Setting { key, text: value.clone(), place };
                found.push(Found { address, prefix, setting });
            }
            Located::Ambiguous(ids) => {
                let reason = format!(
                    "the variable could mean any of these services: {}; set the property in a file, where ids are \
                     spelt out",
                    ids.join(", ")
                );
                issues.refuse_because(name, value, &place, reason);
            }
            Located::Nowhere => {
                issues.warnings.push(nowhere(prefix, &parts).warning(name, &place));
            }
        }
    }
    layer.take(found, issues);
    dotted(variables, &mut layer, issues);
    layer
}

/// Variables with dots in their names, which containers allow, are keys as in a file.
fn dotted(variables: &[(String, String)], layer: &mut Layer, issues: &mut Issues) {
    let leaves =
        variables.iter().filter(|(name, _)| name.contains('.') && is_ours(name)).map(|(name, value)| {
            let mut path = Vec::new();
            key::split(name, 0, &mut path);
            let place = Place::Environment { variable: name.as_str().into() };
            Leaf { path, text: Some(value.clone()), place }
        });
    let leaves: Vec<Leaf> = leaves.collect();
    layer.absorb(&leaves, issues);
}

/// Whether a variable with dots in its name is one of ours.
fn is_ours(variable: &str) -> bool {
    let mut path = Vec::new();
    key::split(variable, 0, &mut path);
    Prefix::strip(&path).is_some()
}

/// The prefix and the words after it.
fn strip(variable: &str) -> Option<(Prefix, Vec<String>)> {
    let upper = variable.to_ascii_uppercase();
    if cfg!(feature = "gateway") && upper.starts_with("EVENKEEL_GATEWAY_") {
        return None;
    }
    let (prefix, rest) =
        PREFIXES.iter().find_map(|(text, prefix)| Some((*prefix, upper.strip_prefix(text)?)))?;
    Some((prefix, rest.split('_').map(str::to_owned).collect()))
}

enum Located {
    At(Address),
    Ambiguous(Vec<String>),
    Nowhere,
}

fn locate(prefix: Prefix, parts: &[String], known: &Known, ids: &Ids<'_>) -> Located {
    let global = |name: String| Located::At(Address { owner: Owner::Global, id: String::new(), name });
    match (prefix, parts) {
        (Prefix::Simple, [first, rest @ ..]) if first == "INSTANCES" => {
            let candidates =
                (1..rest.len()).filter_map(|end| Some((end, instance_name(&rest[end..])?))).take(1);
            owned(candidates.collect(), rest, ids, Owner::Instances, usize::MAX)
        }
        (Prefix::Simple, _) => Located::Nowhere,
        (_, [first, rest @ ..]) if first == "CLIENTS" => {
            let candidates = (1..rest.len()).filter_map(|end| {
                let name = property_name(&rest[end..], known)?;
                let ours = !name.starts_with("overrides")
                    && !PROPERTIES.iter().any(|property| property.global_only && property.name == name);
                ours.then_some((end, name))
            });
            // `ORDERS_ZOOKEEPER_ENABLED` is nothing of orders, and not the first property of another service.
            let accepted = (1..rest.len()).find(|end| accepted(meaningless::OURS, &rest[*end..]).is_some());
            let before = accepted.unwrap_or(usize::MAX);
            owned(candidates.collect(), rest, ids, Owner::Service, before)
        }
        (_, parts) => match map_of(parts) {
            // `HINT_HEADER_NAME` is no hint of a service.
            Some((_, of)) if !of.is_empty() && PROPERTIES.iter().any(|one| spells(parts, one.name)) => {
                property_name(parts, known).map_or(Located::Nowhere, global)
            }
            Some((map, of)) if !of.is_empty() => match ids.resolve(of) {
                _ if of == ["DEFAULT"] => global(map.into()),
                Resolved::Ambiguous(ids) => Located::Ambiguous(ids),
                Resolved::Known(id) | Resolved::Guessed(id) => global(format!("{map}.{}", key::fold(&id))),
            },
            _ => property_name(parts, known).map_or(Located::Nowhere, global),
        },
    }
}

/// Chooses among the ways to cut a name into id and property: a known id first, else the shortest, if it is shorter than
/// `before`.
fn owned(
    candidates: Vec<(usize, String)>,
    parts: &[String],
    ids: &Ids<'_>,
    owner: fn(String) -> Owner,
    before: usize,
) -> Located {
    let mut sure = Vec::new();
    let mut guess = None;
    for (end, name) in candidates {
        match ids.resolve(&parts[..end]) {
            Resolved::Ambiguous(ids) => return Located::Ambiguous(ids),
            Resolved::Known(id) => sure.push((id, name)),
            Resolved::Guessed(id) if end < before => guess = guess.or(Some((id, name))),
            Resolved::Guessed(_) => {}
        }
    }
    if sure.len() > 1 {
        return Located::Ambiguous(sure.into_iter().map(|(id, _)| id).collect());
    }
    match sure.pop().or(guess) {
        Some((id, name)) => Located::At(Address { owner: owner(key::fold(&id)), id, name }),
        None => Located::Nowhere,
    }
}

enum Resolved {
    Known(String),
    Guessed(String),
    Ambiguous(Vec<String>),
}

/// How a known id may be spelt in a variable, the first that fits: with its breaks (`order-service`, `order_service` and
/// `order.service` are all `ORDER_SERVICE`), then as Spring does, which drops dashes (`ORDERSERVICE`).
const FORMS: [fn(char) -> Option<char>; 2] = [
    |c| Some(if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }),
    |c| c.is_ascii_alphanumeric().then(|| c.to_ascii_uppercase()),
];

/// The known ids by each of their forms: there may be thousands, and of variables too.
struct Ids<'a>([HashMap<String, Vec<&'a str>>; 2]);

impl<'a> Ids<'a> {
    fn new(known: &'a [String]) -> Self {
        let mut seen = HashSet::new();
        let mut ids = Self(<[HashMap<_, _>; 2]>::default());
        for id in known {
            let folded = key::fold(id);
            for (form, by_form) in FORMS.iter().zip(&mut ids.0) {
                let spelt: String = folded.chars().filter_map(form).collect();
                let of: &mut Vec<&str> = by_form.entry(spelt).or_default();
                // The same id in another spelling is one id.
                if !seen.contains(&folded) {
                    of.push(id);
                }
            }
            seen.insert(folded);
        }
        ids
    }

    /// The known id these words spell. One that nobody speaks of elsewhere is the words in lower case with dashes: most ids
    /// look like that.
    fn resolve(&self, parts: &[String]) -> Resolved {
        let broken = parts.join("_");
        for (form, by_form) in FORMS.iter().zip(&self.0) {
            let wanted: String = broken.chars().filter_map(form).collect();
            match by_form.get(&wanted).map(Vec::as_slice) {
                None | Some([]) => {}
                Some([id]) => return Resolved::Known((*id).to_owned()),
                Some(several) => {
                    return Resolved::Ambiguous(several.iter().map(|id| (*id).to_owned()).collect());
                }
            }
        }
        Resolved::Guessed(parts.join("-").to_ascii_lowercase())
    }
}

/// The map that a name begins with, and what follows: `HINT_...`, `HEALTH_CHECK_PATH_...`, `HEALTHCHECK_PATH_...`.
fn map_of(parts: &[String]) -> Option<(&'static str, &[String])> {
    (1..=parts.len().min(3)).rev().find_map(|end| {
        let map = MAPS.iter().find(|map| spells(&parts[..end], map))?;
        Some((*map, &parts[end..]))
    })
}

/// The property these words spell, breaks aside: `CACHE_HARD_AGE` and Spring's `CACHE_HARDAGE`.
fn property_name(parts: &[String], known: &Known) -> Option<String> {
    if let Some((map, [])) = map_of(parts) {
        return Some(map.into());
    }
    if let Some(end) = (1..parts.len()).find(|end| spells(&parts[..*end], KEYED)) {
        return Some(format!("{KEYED}.{}", media_type(&parts[end..], &known.media_types)?));
    }
    if let Some((_, name)) = ALIASES.iter().find(|(alias, _)| spells(parts, alias)) {
        return Some((*name).to_owned());
    }
    match parts {
        [routing, at, below @ ..] if routing == "ROUTING" && !below.is_empty() => {
            let at = place_in_list(index(at)?);
            if let Some(item) = below.strip_prefix(&["FALLBACK".to_owned()])
                && let [item] = item
            {
                return Some(format!("routing{at}.fallback{}", place_in_list(index(item)?)));
            }
            let name = ROUTE_NAMES.iter().find(|name| spells(below, name))?;
            return Some(format!("routing{at}.{name}"));
        }
        [overrides, at, below @ ..] if overrides == "OVERRIDES" && !below.is_empty() => {
            let name = OVERRIDE_NAMES.iter().find(|name| spells(below, name))?;
            return Some(format!("overrides{}.{name}", place_in_list(index(at)?)));
        }
        _ => {}
    }
    PROPERTIES.iter().find_map(|property| match property.shape {
        Shape::One(_) => spells(parts, property.name).then(|| property.name.to_owned()),
        Shape::List(_) => listed(parts, property.name),
    })
}

/// The media type these words spell: one that file or code know, else two words as its halves.
fn media_type(parts: &[String], known: &[String]) -> Option<String> {
    let letters = |text: &str| -> String {
        text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_uppercase()).collect()
    };
    let wanted = letters(&parts.concat());
    known.iter().find(|one| letters(one) == wanted).cloned().or_else(|| match parts {
        [kind, sub] => Some(format!("{kind}/{sub}").to_ascii_lowercase()),
        _ => None,
    })
}

/// The list these words spell, whole or with a place.
fn listed(parts: &[String], name: &str) -> Option<String> {
    if spells(parts, name) {
        return Some(name.to_owned());
    }
    let (last, before) = parts.split_last()?;
    (spells(before, name)).then(|| index(last)).flatten().map(|at| format!("{name}{}", place_in_list(at)))
}

fn instance_name(parts: &[String]) -> Option<String> {
    let (at, below) = parts.split_first()?;
    let at = place_in_list(index(at)?);
    if let [first, key @ ..] = below
        && first == "METADATA"
        && !key.is_empty()
    {
        return Some(format!("{at}.metadata.{}", key.join(".").to_ascii_lowercase()));
    }
    let name = INSTANCE_NAMES.iter().find(|name| **name != "metadata" && spells(below, name))?;
    Some(format!("{at}.{name}"))
}

fn spells(parts: &[String], name: &str) -> bool {
    let letters = name.chars().filter(|c| !matches!(c, '-' | '.')).map(|c| c.to_ascii_uppercase());
    parts.iter().flat_map(|part| part.chars()).eq(letters)
}

fn index(text: &str) -> Option<usize> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten().filter(|at| *at < key::LONGEST_LIST)
}

/// The key a variable stands for, as a file would spell it.
fn shown(prefix: Prefix, address: &Address) -> String {
    // A file has no zeros before a place in a list.
    let mut parts = address.name.split('[');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.trim_start_matches('0');
        let zero = if digits.starts_with(']') { "0" } else { "" };
        name = format!("{name}[{zero}{digits}");
    }
    match &address.owner {
        Owner::Global => format!("{}.{name}", prefix.as_str()),
        Owner::Service(_) => format!("{}.clients.{}.{name}", prefix.as_str(), address.id),
        Owner::Instances(_) => format!("{}.instances.{}{name}", prefix.as_str(), address.id),
    }
}

/// What to say of a variable that means nothing: the same as of the key it looks like.
fn nowhere(prefix: Prefix, parts: &[String]) -> Unknown {
    let table = if prefix == Prefix::Simple { meaningless::SIMPLE } else { meaningless::OURS };
    // Below `clients` any id may stand before it.
    let starts = if parts.first().is_some_and(|first| first == "CLIENTS") { 2..parts.len() } else { 0..1 };
    if let Some(reason) = starts.into_iter().find_map(|from| accepted(table, &parts[from..])) {
        return Unknown::accepted(reason);
    }
    let mut path = Vec::new();
    key::split(&parts.join(".").to_ascii_lowercase(), 0, &mut path);
    match address::address(prefix, &path) {
        Ok(_) => Unknown { nearest: None, reason: "unknown property", accepted: false },
        Err(unknown) => unknown,
    }
}

/// The reason why words that begin with a key of this table have no meaning.
fn accepted(table: &'static [Meaningless], parts: &[String]) -> Option<&'static str> {
    let begins = |name: &str| (1..=parts.len()).any(|end| spells(&parts[..end], name));
    table.iter().find(|(name, _)| begins(name)).map(|(_, reason)| *reason)
}
