//! One source of properties - a file, the environment, the code - as settings by owner and name.

use super::address::{self, Address, Owner, Prefix};
use super::balancer::LoadBalancerProperties;
use super::error::{Issues, Place, Problem};
use super::key::{self, Token};
use super::names::{self, KEYED, RETRYABLE, Shape, ZONE_WEIGHTS};
use super::overrides;
use super::placeholder::Resolver;
use super::read::{self, comma_list};
use super::retry::RetryableError;
use super::stages::MetadataRouteProperties;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A value as a source gives it, before anyone knows what its key means.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) path: Vec<Token>,
    /// The text as written; `None` for a null or an empty map.
    pub(crate) text: Option<String>,
    pub(crate) place: Place,
}

/// A value whose key is understood.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) address: Address,
    pub(crate) prefix: Prefix,
    pub(crate) setting: Setting,
}

/// A value at its place in a layer.
#[derive(Clone)]
pub(crate) struct Setting {
    /// The key as written.
    pub(crate) key: String,
    pub(crate) text: String,
    pub(crate) place: Place,
}

/// Without a secret.
impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:?} ({})", self.key, names::masked(&self.key, &self.text), self.place)
    }
}

/// A value that cannot be had, since it holds a placeholder without a meaning.
pub(crate) struct Unresolved {
    owner: Owner,
    root: String,
    pub(crate) problem: Problem,
}

impl Unresolved {
    /// Whether one of these layers says something in its place.
    pub(crate) fn is_replaced(&self, stronger: &[&Layer]) -> bool {
        let says =
            |layer: &&Layer| layer.sections.get(&self.owner).is_some_and(|section| section.has(&self.root));
        stronger.iter().any(says)
    }
}

/// Two settings with one text are the same setting: a moved line is no change.
impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// The settings of one owner, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Section {
    /// The service id as first written.
    pub(crate) id: String,
    pub(crate) settings: BTreeMap<String, Setting>,
}

impl Section {
    /// Whether the list `root` is set here, in any form.
    pub(crate) fn has(&self, root: &str) -> bool {
        self.settings.contains_key(root) || self.items(root).next().is_some()
    }

    /// The settings below the list `root`, in list order.
    pub(crate) fn items<'a>(&'a self, root: &'a str) -> impl Iterator<Item = (&'a str, &'a Setting)> {
        let first = format!("{root}[");
        self.settings
            .range(first..)
            .map(|(name, setting)| (name.as_str(), setting))
            .take_while(move |(name, _)| name.strip_prefix(root).is_some_and(|rest| rest.starts_with('[')))
    }

    /// Where the list `root` is set.
    #[cfg(feature = "config")]
    pub(crate) fn first<'a>(&'a self, root: &'a str) -> Option<&'a Place> {
        self.setting(root).map(|setting| &setting.place)
    }

    /// The list `root` as one text, or the first of its items.
    pub(crate) fn setting<'a>(&'a self, root: &'a str) -> Option<&'a Setting> {
        self.settings.get(root).or_else(|| self.items(root).next().map(|(_, setting)| setting))
    }

    /// The words of the list `root`: its items, or the comma list in one text.
    pub(crate) fn words<'a>(&'a self, root: &'a str) -> Vec<&'a str> {
        match self.settings.get(root) {
            Some(setting) => comma_list(&setting.text).collect(),
            None => self.items(root).map(|(_, setting)| setting.text.trim()).collect(),
        }
    }
}

/// All settings of one source.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Layer {
    pub(crate) sections: BTreeMap<Owner, Section>,
    /// Service ids in the order they were first written.
    pub(crate) ids: Vec<String>,
    /// The same ids folded, to look them up.
    seen: BTreeSet<String>,
}

impl Layer {
    /// Takes in one document: its values replace what earlier documents of the same source say.
    pub(crate) fn absorb<'a>(&mut self, leaves: impl IntoIterator<Item = &'a Leaf>, issues: &mut Issues) {
        let mut found = Vec::new();
        for leaf in leaves {
            let Some((prefix, rest)) = Prefix::strip(&leaf.path) else { continue };
            let Some(text) = leaf.text.clone() else {
                self.name_client(prefix, rest);
                continue;
            };
            let setting = Setting { key: key::render(&leaf.path), text, place: leaf.place.clone() };
            let address = match address::empty_instances(prefix, rest) {
                Some(address) if setting.text.trim().is_empty() => Ok(address),
                _ => address::address(prefix, rest),
            };
            match address {
                Ok(address) => {
                    self.note(&address.id);
                    found.push(Found { address, prefix, setting });
                }
                Err(unknown) => issues.warnings.push(unknown.warning(&setting.key, &setting.place)),
            }
        }
        self.take(found, issues);
    }

    /// Notes `clients: {billing: }`: a client without a value of its own is configured all the same.
    fn name_client(&mut self, prefix: Prefix, rest: &[Token]) {
        if let [clients, id @ ..] = rest
            && prefix != Prefix::Simple
            && clients.is("clients")
            && !id.is_empty()
            && (1..id.len()).all(|end| address::property_name(&id[end..], true).is_none())
        {
            self.note(&key::joined(id));
        }
    }

    /// Takes in values whose keys are understood, as written; [`Layer::resolve`] reads them.
    pub(crate) fn take(&mut self, found: Vec<Found>, issues: &mut Issues) {
        let document = one_of_each(found, issues);
        // A list counts as one value: the whole of it gives way to a later document.
        for found in &document {
            if let Some(section) = self.sections.get_mut(&found.address.owner) {
                let root = found.address.root();
                section.settings.retain(|name, _| address::root(name) != root);
            }
        }
        for found in document {
            self.note(&found.address.id);
            let section = self.sections.entry(found.address.owner).or_default();
            if section.id.is_empty() {
                section.id = found.address.id;
            }
            section.settings.insert(found.address.name, found.setting);
        }
    }

    /// Sets one value over what the layer has, and nothing else of the list it may be in.
    pub(crate) fn put(&mut self, found: Found, issues: &mut Issues) {
        let kept = self.sections.get(&found.address.owner).map(|section| section.settings.clone());
        let (owner, root) = (found.address.owner.clone(), found.address.root().to_owned());
        let in_list = found.address.name != root;
        self.take(vec![found], issues);
        if let (true, Some(kept), Some(section)) = (in_list, kept, self.sections.get_mut(&owner)) {
            for (name, setting) in kept.into_iter().filter(|(name, _)| *name != root) {
                section.settings.entry(name).or_insert(setting);
            }
        }
    }

    /// Replaces the placeholders of all values and checks what comes out. What cannot be replaced is taken out and
    /// returned: it may be that a stronger layer does not let it count.
    pub(crate) fn resolve(&mut self, resolver: &Resolver<'_>, issues: &mut Issues) -> Vec<Unresolved> {
        let mut unresolved = Vec::new();
        for (owner, section) in &mut self.sections {
            section.settings.retain(|name, setting| match resolver.resolve(&setting.text) {
                Ok(text) => {
                    setting.text = text.into_owned();
                    true
                }
                Err(reason) => {
                    let (key, place, allowed) = (setting.key.clone(), setting.place.clone(), String::new());
                    let value = names::masked(&setting.key, &setting.text).to_owned();
                    let problem = Problem { key, value, place, reason, allowed };
                    let root = address::root(name).to_owned();
                    unresolved.push(Unresolved { owner: owner.clone(), root, problem });
                    false
                }
            });
        }
        self.check(issues);
        unresolved
    }

    /// Reads all values for the sake of their errors.
    pub(crate) fn check(&self, issues: &mut Issues) {
        for (owner, section) in &self.sections {
            for (name, Setting { key, text, place }) in &section.settings {
                if let Err(allowed) = check(owner, &section.id, name, text) {
                    issues.refuse(key, text, place, allowed);
                } else if address::root(name) == RETRYABLE {
                    for word in comma_list(text).filter(|word| RetryableError::is_foreign(word)) {
                        let reason =
                            format!("the Java exception {word} has no meaning here: it retries nothing");
                        issues.warn(key, place, None, reason);
                    }
                }
            }
        }
    }

    /// Remembers a service id in its first spelling.
    pub(crate) fn note(&mut self, id: &str) {
        let folded = key::fold(id);
        if !folded.trim().is_empty() && self.seen.insert(folded) {
            self.ids.push(id.to_owned());
        }
    }

    /// Whether the overrides are whole: each does one thing, for a reason, until some time.
    pub(crate) fn check_overrides(&self, issues: &mut Issues) {
        for section in self.sections.values() {
            for (whole, first) in overrides::all(section) {
                if let Err(reason) = whole {
                    issues.refuse_because(&first.key, &first.text, &first.place, reason);
                }
            }
        }
    }

    /// Looks at what single values cannot show: whether the routes are whole.
    pub(crate) fn check_routes(&self, issues: &mut Issues) {
        for section in self.sections.values() {
            for (route, first, shares) in routes(section) {
                if route.metadata.is_empty() {
                    let allowed = "a route needs the name of a metadata key: routing[i].metadata";
                    issues.refuse_because(&first.key, &first.text, &first.place, allowed);
                } else if route.never_applies() {
                    let reason = "the route reads no header, cookie or query parameter, so it never applies";
                    issues.warn(&first.key, &first.place, None, reason);
                } else if route.hash.is_some() && route.percent.is_empty() {
                    let reason = "the route has a hash, but no percentage that would need one";
                    issues.warn(&first.key, &first.place, None, reason);
                }
                let sum: f64 = route.percent.values().sum();
                if let (Some(share), true) = (shares, sum > 100.000_001) {
                    let reason = format!("the percentages of the route add up to {sum}, above 100");
                    issues.refuse_because(&share.key, &share.text, &share.place, reason);
                }
            }
        }
    }
}

/// A route, the setting of it that comes first, and the last one of its percentages.
type Route<'a> = (MetadataRouteProperties, &'a Setting, Option<&'a Setting>);

/// The routes of a section.
pub(crate) fn routes(section: &Section) -> Vec<Route<'_>> {
    let mut routes: BTreeMap<&str, Route<'_>> = BTreeMap::new();
    for (name, setting) in section.items("routing") {
        let Some((at, below)) = name.split_once('.') else { continue };
        let (route, _, shares) =
            routes.entry(at).or_insert_with(|| (MetadataRouteProperties::default(), setting, None));
        if below.starts_with("percent") {
            *shares = Some(setting);
        }
        // Every value was read once when it was taken in.
        let _ = read::read_route(route, below_route(below), &setting.text);
    }
    routes.into_values().collect()
}

/// The name of a route's value, without the place in a list; the name of a group may hold brackets itself.
fn below_route(name: &str) -> &str {
    if name.starts_with("percent.") { name } else { address::root(name) }
}

/// Reads a value for the sake of its error.
fn check(owner: &Owner, id: &str, name: &str, text: &str) -> Result<(), String> {
    if *owner != Owner::Global && key::fold(id).trim().is_empty() {
        return Err("a service id that is not blank".into());
    }
    if matches!(owner, Owner::Instances(_)) {
        return Ok(());
    }
    if let Some(of) = name.strip_prefix(KEYED) {
        let read =
            read::read_media_type(&mut LoadBalancerProperties::default(), of.trim_start_matches('.'), text);
        return read.map_err(str::to_owned);
    }
    if let Some(zone) = name.strip_prefix(ZONE_WEIGHTS).and_then(|below| below.strip_prefix('.')) {
        return read::read_zone_weight(&mut LoadBalancerProperties::default(), zone, text)
            .map_err(str::to_owned);
    }
    if let Some(property) = names::property(address::root(name)) {
        let scratch = &mut LoadBalancerProperties::default();
        return match property.shape {
            Shape::One(read) => read(scratch, text),
            Shape::List(read) if name.ends_with(']') => read(scratch, &[text]),
            Shape::List(read) => read(scratch, &comma_list(text).collect::<Vec<_>>()),
        }
        .map_err(str::to_owned);
    }
    match name.strip_prefix("overrides") {
        Some("") if !text.trim().is_empty() => {
            return Err("a list of overrides, overrides[0].reason and so on".into());
        }
        Some(one) if !one.is_empty() => {
            let below = one.split_once('.').map_or("", |(_, below)| below);
            return overrides::read(&mut overrides::Entry::default(), below, text).map_err(str::to_owned);
        }
        _ => {}
    }
    match name.strip_prefix("routing") {
        Some("") if !text.trim().is_empty() => Err("a list of routes, routing[0].metadata and so on".into()),
        Some(route) if !route.is_empty() => {
            let below = route.split_once('.').map_or("", |(_, below)| below_route(below));
            read::read_route(&mut MetadataRouteProperties::default(), below, text).map_err(str::to_owned)
        }
        _ => Ok(()),
    }
}

/// Settles what one document says twice: between the prefixes `evenkeel` wins, under one prefix it is an error.
fn one_of_each(found: Vec<Found>, issues: &mut Issues) -> Vec<Found> {
    let mut roots: BTreeMap<(Owner, String), bool> = BTreeMap::new();
    for one in &found {
        let ours = roots.entry((one.address.owner.clone(), one.address.root().to_owned())).or_default();
        *ours |= one.prefix == Prefix::Evenkeel;
    }
    let mut kept: Vec<Found> = Vec::new();
    let mut slots: BTreeMap<(Owner, String), usize> = BTreeMap::new();
    for one in found {
        let whole = (one.address.owner.clone(), one.address.root().to_owned());
        if one.prefix == Prefix::Spring && roots.get(&whole) == Some(&true) {
            let reason = "also given below evenkeel, which wins";
            issues.warn(&one.setting.key, &one.setting.place, None, reason);
            continue;
        }
        let slot = (one.address.owner.clone(), one.address.name.clone());
        if let Some(earlier) = slots.get(&slot).or_else(|| slots.get(&whole)).map(|at| &kept[*at].setting) {
            let reason = format!("given twice, also as {} at {}", earlier.key, earlier.place);
            issues.refuse_because(&one.setting.key, &one.setting.text, &one.setting.place, reason);
            continue;
        }
        slots.insert(slot, kept.len());
        kept.push(one);
    }
    kept
}
