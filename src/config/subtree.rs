//! What stands below keys that are no service's: a tree of values for whoever reads them, chosen among the layers.
//!
//! A list counts as one value here too: the strongest source that has any of it has all of it.

use super::error::{Issues, Place};
use super::key::{self, Token};
use super::names::masked;
use super::placeholder::Resolver;
use super::values::Values;
use super::variables::Variables;
use std::collections::BTreeMap;

/// A section of the properties that is read by itself: its keys, and the prefixes below which they may stand, ours first.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) prefixes: &'static [&'static str],
    pub(crate) keys: &'static [&'static str],
}

/// The gateway's.
pub(crate) const GATEWAY: Known = Known {
    prefixes: &["evenkeel.gateway", "spring.cloud.gateway.server.webflux", "spring.cloud.gateway"],
    keys: &[
        "routes",
        "default-filters",
        "loadbalancer.use404",
        "httpclient.connect-timeout",
        "httpclient.response-timeout",
        "trusted-proxies",
        "x-forwarded.enabled",
        "forwarded.enabled",
    ],
};

/// Names of two words that stand in the names of variables, where a dash would have to.
const WORDS: [&str; 5] =
    ["DEFAULT_FILTERS", "RESPONSE_TIMEOUT", "CONNECT_TIMEOUT", "TRUSTED_PROXIES", "X_FORWARDED"];

/// A value, or what stands below it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// As written; a list or a map has the place of the first value below it.
    pub(crate) key: String,
    pub(crate) place: Place,
    pub(crate) shape: Shape,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    /// As written, and with its placeholders replaced, or why that cannot be.
    Text { written: String, value: Result<String, String> },
    /// In order.
    List(Vec<Entry>),
    /// By their names as written.
    Map(Vec<(String, Entry)>),
}

/// Two entries that say the same are equal, wherever their lines are.
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.shape == other.shape
    }
}

/// What is written of a section.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Subtree {
    entries: BTreeMap<&'static str, Entry>,
    /// Keys below its prefixes that are none of it.
    pub(crate) unread: Vec<(String, Place)>,
}

/// One value in a source.
struct Leaf {
    path: Vec<Token>,
    text: String,
    place: Place,
}

impl Subtree {
    /// Reads it from all sources. A key of ours that is unknown is a warning; one of Spring's is kept as unread.
    pub(crate) fn read(
        known: &'static Known,
        (code, variables, files): (&Values, &Variables, &[&Values]),
        resolver: &Resolver<'_>,
        issues: &mut Issues,
    ) -> Self {
        let mut sources = vec![leaves(code, known), of_variables(variables, known)];
        sources.extend(files.iter().rev().map(|file| leaves(file, known)));
        let mut subtree = Self::default();
        for key in known.keys {
            let found = sources.iter().find_map(|source| {
                known.prefixes.iter().find_map(|prefix| entry(source, &format!("{prefix}.{key}"), resolver))
            });
            if let Some(found) = found {
                subtree.entries.insert(key, found);
            }
        }
        for leaf in sources.iter().flatten() {
            subtree.note(known, leaf, issues);
        }
        subtree
    }

    /// What is written of a key, if anything is.
    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }

    fn note(&mut self, known: &Known, leaf: &Leaf, issues: &mut Issues) {
        let Some((at, below)) = known.prefixes.iter().enumerate().find_map(|(at, prefix)| {
            let below = strip(&leaf.path, prefix)?;
            Some((at, below))
        }) else {
            return;
        };
        if below.is_empty() || known.keys.iter().any(|key| strip(below, key).is_some()) {
            return;
        }
        let key = key::render(&leaf.path);
        if at == 0 {
            let near = key::nearest(&key::joined(below), known.keys.iter().copied());
            let near = near.map(|near| format!("{}.{near}", known.prefixes[0]));
            issues.warn(&key, &leaf.place, near, "unknown property");
        }
        self.unread.push((key, leaf.place.clone()));
    }
}

impl Entry {
    /// The value of a text, resolved; an empty one counts as none. One that cannot be resolved is a problem.
    pub(crate) fn text(&self, issues: &mut Issues) -> Option<&str> {
        match &self.shape {
            Shape::Text { value: Ok(text), .. } => Some(text.trim()).filter(|text| !text.is_empty()),
            Shape::Text { written, value: Err(reason) } => {
                issues.refuse_because(&self.key, written, &self.place, reason.clone());
                None
            }
            Shape::List(_) | Shape::Map(_) => {
                issues.refuse(&self.key, "", &self.place, "one value, no list and no map");
                None
            }
        }
    }

    /// What was written, for a message.
    pub(crate) fn written(&self) -> &str {
        match &self.shape {
            Shape::Text { written, .. } => masked(&self.key, written),
            Shape::List(_) | Shape::Map(_) => "",
        }
    }
}

/// Whether a path is below one of these prefixes, so that it is none of a service's.
pub(crate) fn is_below(known: &Known, path: &[Token]) -> bool {
    known.prefixes.iter().any(|prefix| strip(path, prefix).is_some())
}

/// What follows a key.
fn strip<'a>(path: &'a [Token], key: &str) -> Option<&'a [Token]> {
    let names = key.split('.');
    let (first, rest) = path.split_at_checked(names.clone().count())?;
    names.zip(first).all(|(name, token)| token.is(name)).then_some(rest)
}

fn leaves(values: &Values, known: &Known) -> Vec<Leaf> {
    let of = |(path, value): (Vec<Token>, &super::values::Value)| Leaf {
        path,
        text: value.text.clone(),
        place: value.place.clone(),
    };
    let mut found: Vec<_> = values.all().filter(|(path, _)| is_below(known, path)).map(of).collect();
    found.sort_by_cached_key(|leaf| key::render(&leaf.path));
    found
}

/// `EVENKEEL_GATEWAY_ROUTES_0_URI`: digits are places in lists. A name with dots is a key as in a file.
fn of_variables(variables: &Variables, known: &Known) -> Vec<Leaf> {
    let mut found = Vec::new();
    for (name, text) in variables.all() {
        let place = || Place::Environment { variable: name.as_str().into() };
        let mut path = Vec::new();
        if name.contains('.') {
            key::split(name, 0, &mut path);
            if is_below(known, &path) {
                found.push(Leaf { path, text: text.clone(), place: place() });
            }
            continue;
        }
        let mut upper = name.to_ascii_uppercase();
        for words in WORDS {
            upper = upper.replace(words, &words.replace('_', ""));
        }
        let prefix = known.prefixes.iter().find(|prefix| {
            let prefix = prefix.to_ascii_uppercase().replace('.', "_");
            upper.strip_prefix(&prefix).is_some_and(|rest| rest.starts_with('_'))
        });
        if prefix.is_some() {
            for part in upper.split('_') {
                path.push(match part.parse() {
                    Ok(at) if at < key::LONGEST_LIST => Token::Index { at, node: 0 },
                    _ => Token::Name { text: part.to_ascii_lowercase(), node: 0 },
                });
            }
            found.push(Leaf { path, text: text.clone(), place: place() });
        }
    }
    found
}

/// What a source says of a key.
fn entry(source: &[Leaf], key: &str, resolver: &Resolver<'_>) -> Option<Entry> {
    let found: Vec<_> = source.iter().filter_map(|leaf| Some((strip(&leaf.path, key)?, leaf))).collect();
    tree(&found, resolver)
}

/// A value, and what is left of its key.
type Below<'a> = (&'a [Token], &'a Leaf);

fn tree(leaves: &[Below<'_>], resolver: &Resolver<'_>) -> Option<Entry> {
    let (below, first) = leaves.first()?;
    let key = key::render(&first.path[..first.path.len() - below.len()]);
    let place = first.place.clone();
    if below.is_empty() {
        let value = resolver.resolve(&first.text).map(std::borrow::Cow::into_owned);
        let shape = Shape::Text { written: first.text.clone(), value };
        return Some(Entry { key, place, shape });
    }
    // The items by their first step, in order of their places or names.
    let mut items: BTreeMap<(usize, String), Vec<Below<'_>>> = BTreeMap::new();
    let mut list = true;
    for (below, leaf) in leaves {
        let Some((step, rest)) = below.split_first() else { continue };
        let at = match step {
            Token::Index { at, .. } => *at,
            Token::Name { .. } => {
                list = false;
                0
            }
        };
        items.entry((at, step.text())).or_default().push((rest, leaf));
    }
    let entries = items.into_iter().filter_map(|((_, name), below)| Some((name, tree(&below, resolver)?)));
    let shape = if list {
        Shape::List(entries.map(|(_, entry)| entry).collect())
    } else {
        Shape::Map(entries.collect())
    };
    Some(Entry { key, place, shape })
}
