//! What properties say of a gateway: routes as they are written, and settings for all of them.

use std::collections::BTreeMap;
use std::time::Duration;

use regex::Regex;

use super::definition::{Args, RouteDefinition, Step, Written};
use super::pattern::reason;
use crate::config::{
    ConfigError, Entry, Issues, Place, Problem, Properties, Shape, Warning, comma_list, flag, parse_duration,
    uniform,
};

/// Settings of a gateway for all routes: below `evenkeel.gateway`, or where Spring has them.
///
/// Defaults: no time-out of answers, the services' own connect time-outs, 503 where there is no instance, `X-Forwarded-*`
/// and `Forwarded` are added to what every client says of itself.
///
/// ```
/// use evenkeel::config::Properties;
/// use evenkeel::gateway::GatewaySettings;
/// use std::time::Duration;
///
/// # fn main() -> Result<(), evenkeel::config::ConfigError> {
/// let properties = Properties::default().set("evenkeel.gateway.httpclient.response-timeout", "5s")?;
/// let settings = GatewaySettings::from_properties(&properties)?;
/// assert_eq!(settings.response_timeout, Some(Duration::from_secs(5)));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GatewaySettings {
    /// How long an attempt may take to the head of its answer: `httpclient.response-timeout`. Default: no limit.
    pub response_timeout: Option<Duration>,
    /// How long connecting may take: `httpclient.connect-timeout`, a plain number is milliseconds. Default: the property
    /// `connect-timeout` of the service.
    pub connect_timeout: Option<Duration>,
    /// Whether a service without an instance is answered by 404 instead of 503: `loadbalancer.use404`. Default: `false`.
    pub use404: bool,
    /// Whether `X-Forwarded-For`, `-Host`, `-Proto`, `-Port` and `-Prefix` are added: `x-forwarded.enabled`. Default: `true`.
    pub x_forwarded: bool,
    /// Whether `Forwarded` (RFC 7239) is added: `forwarded.enabled`. Default: `true`.
    pub forwarded: bool,
    /// Whose word counts: `trusted-proxies`, an expression that the whole address of a client must fit. What others say
    /// in `Forwarded` and `X-Forwarded-*` is dropped before ours is added. Default: everybody's counts.
    pub trusted_proxies: Option<Regex>,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            response_timeout: None,
            connect_timeout: None,
            use404: false,
            x_forwarded: true,
            forwarded: true,
            trusted_proxies: None,
        }
    }
}

impl GatewaySettings {
    /// Reads them.
    ///
    /// # Errors
    /// [`ConfigError`], with every problem.
    pub fn from_properties(properties: &Properties) -> Result<Self, ConfigError> {
        let mut issues = Issues::default();
        let section = properties.gateway();
        let mut settings = Self::default();
        let mut read = |key: &str, take: &mut dyn FnMut(&str) -> Result<(), String>| {
            let Some(entry) = section.get(key) else { return };
            let Some(text) = entry.text(&mut issues) else { return };
            if let Err(allowed) = take(text) {
                issues.refuse(&entry.key, entry.written(), &entry.place, allowed);
            }
        };
        read("httpclient.response-timeout", &mut |text| {
            settings.response_timeout = timeout(text)?;
            Ok(())
        });
        read("httpclient.connect-timeout", &mut |text| {
            settings.connect_timeout = timeout(text)?;
            Ok(())
        });
        read("loadbalancer.use404", &mut |text| {
            settings.use404 = flag(text)?;
            Ok(())
        });
        read("x-forwarded.enabled", &mut |text| {
            settings.x_forwarded = flag(text)?;
            Ok(())
        });
        read("forwarded.enabled", &mut |text| {
            settings.forwarded = flag(text)?;
            Ok(())
        });
        read("trusted-proxies", &mut |text| {
            let whole = Regex::new(text).and_then(|_| Regex::new(&format!("^(?:{text})$")));
            settings.trusted_proxies = Some(whole.map_err(|error| reason(&error))?);
            Ok(())
        });
        if issues.problems.is_empty() { Ok(settings) } else { Err(ConfigError::new(issues.problems)) }
    }
}

/// A time limit; one below zero, as Spring writes it, is none.
pub(super) fn timeout(text: &str) -> Result<Option<Duration>, String> {
    if text.starts_with('-') && text[1..].bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    let allowed = "a duration such as 5s, or a number of milliseconds; one below zero is no limit";
    parse_duration(text).filter(|limit| !limit.is_zero()).map(Some).ok_or_else(|| allowed.to_owned())
}

/// Routes as they are written, the default filters, and what is read over.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    pub(super) routes: Vec<RouteDefinition>,
    pub(super) default_filters: Vec<Step>,
    pub(super) notes: Vec<Warning>,
}

impl Definitions {
    /// Reads them; what is wrong becomes a problem.
    pub(super) fn read(properties: &Properties, issues: &mut Issues) -> Self {
        let section = properties.gateway();
        let mut all = Self::default();
        for (key, place) in &section.unread {
            all.note(key, place, "it is not read");
        }
        if let Some(entry) = section.get("default-filters") {
            all.default_filters = steps(entry, issues);
        }
        let Some(entry) = section.get("routes") else { return all };
        match &entry.shape {
            Shape::List(routes) => {
                for (at, route) in routes.iter().enumerate() {
                    all.route(at, route, issues);
                }
            }
            // An empty list replaces one of a weaker source.
            Shape::Text { written, .. } if written.trim().is_empty() => {}
            _ => issues.refuse(
                &entry.key,
                entry.written(),
                &entry.place,
                "a list of routes, routes[0].id and so on",
            ),
        }
        all
    }

    fn note(&mut self, key: &str, place: &Place, reason: &str) {
        let (key, place, reason) = (key.to_owned(), place.clone(), reason.to_owned());
        self.notes.push(Warning { key, place, nearest: None, reason, accepted: true });
    }

    fn route(&mut self, at: usize, entry: &Entry, issues: &mut Issues) {
        const NAMES: [&str; 7] = ["id", "uri", "order", "predicates", "filters", "metadata", "enabled"];
        let Shape::Map(fields) = &entry.shape else {
            issues.refuse(
                &entry.key,
                entry.written(),
                &entry.place,
                "a route: id, uri, order, predicates, filters, metadata",
            );
            return;
        };
        let get =
            |name: &str| fields.iter().find(|(own, _)| uniform(own) == uniform(name)).map(|(_, entry)| entry);
        for (name, field) in fields {
            if !NAMES.iter().any(|known| uniform(known) == uniform(name)) {
                issues.problems.push(Problem {
                    key: field.key.clone(),
                    value: field.written().to_owned(),
                    place: field.place.clone(),
                    reason: format!("{name} is nothing that a route has"),
                    allowed: NAMES.join(", "),
                });
            }
        }
        let mut read = |name: &str| {
            let entry = get(name)?;
            Some((entry, entry.text(issues)?.to_owned()))
        };
        let id = read("id").map_or_else(|| format!("route-{at}"), |(_, id)| id);
        let uri = read("uri");
        let order = read("order");
        let enabled = read("enabled");
        if let Some((entry, text)) = enabled {
            match flag(&text) {
                Ok(true) => {}
                Ok(false) => return self.note(&entry.key, &entry.place, "the route is switched off"),
                Err(allowed) => issues.refuse(&entry.key, &text, &entry.place, allowed),
            }
        }
        let Some((at, text)) = uri else {
            issues.refuse_because(&entry.key, "", &entry.place, format!("route {id:?} has no uri"));
            return;
        };
        let mut route = RouteDefinition::new(id, "");
        route.uri = Written { key: at.key.clone(), place: at.place.clone(), text };
        (route.key, route.place) = (entry.key.clone(), entry.place.clone());
        if let Some((entry, text)) = order {
            match text.parse() {
                Ok(order) => route.order = order,
                Err(_) => issues.refuse(&entry.key, &text, &entry.place, "a whole number"),
            }
        }
        route.predicates = get("predicates").map(|entry| steps(entry, issues)).unwrap_or_default();
        route.filters = get("filters").map(|entry| steps(entry, issues)).unwrap_or_default();
        route.metadata = get("metadata").map(|entry| metadata(entry, issues)).unwrap_or_default();
        self.routes.push(route);
    }
}

/// The steps of a list, in either notation; one text is a comma list only if it is empty.
fn steps(entry: &Entry, issues: &mut Issues) -> Vec<Step> {
    match &entry.shape {
        Shape::List(items) => items.iter().filter_map(|item| step(item, issues)).collect(),
        Shape::Text { written, .. } if written.trim().is_empty() => Vec::new(),
        _ => {
            issues.refuse(
                &entry.key,
                entry.written(),
                &entry.place,
                "a list, one predicate or filter an item",
            );
            Vec::new()
        }
    }
}

fn step(entry: &Entry, issues: &mut Issues) -> Option<Step> {
    let Shape::Map(fields) = &entry.shape else {
        let text = entry.text(issues)?;
        return Some(Step::short(text, entry.key.clone(), entry.place.clone()));
    };
    let (mut name, mut args) = (None, Vec::new());
    for (field, below) in fields {
        match uniform(field).as_str() {
            "name" => name = below.text(issues).map(str::to_owned),
            "args" => arguments("", below, issues, &mut args),
            _ => issues.refuse(&below.key, below.written(), &below.place, "name and args"),
        }
    }
    let Some(name) = name else {
        issues.refuse_because(&entry.key, "", &entry.place, "it has no name");
        return None;
    };
    Some(Step { key: entry.key.clone(), place: entry.place.clone(), name, args: Args::Named(args) })
}

/// Arguments by their names; those of a map within have dotted ones.
fn arguments(prefix: &str, entry: &Entry, issues: &mut Issues, into: &mut Vec<(String, Vec<String>)>) {
    match &entry.shape {
        Shape::Map(fields) => {
            for (name, below) in fields {
                let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                arguments(&name, below, issues, into);
            }
        }
        Shape::List(items) if !prefix.is_empty() => {
            let words = items.iter().filter_map(|item| item.text(issues).map(str::to_owned)).collect();
            into.push((prefix.to_owned(), words));
        }
        Shape::Text { .. } if !prefix.is_empty() => {
            if let Some(text) = entry.text(issues) {
                into.push((prefix.to_owned(), vec![text.to_owned()]));
            }
        }
        Shape::Text { written, .. } if comma_list(written).next().is_none() => {}
        _ => issues.refuse(&entry.key, entry.written(), &entry.place, "arguments by their names"),
    }
}

fn metadata(entry: &Entry, issues: &mut Issues) -> BTreeMap<String, Written> {
    let mut args = Vec::new();
    arguments("", entry, issues, &mut args);
    let written = |text: Vec<String>, name: &str| Written {
        key: format!("{}.{name}", entry.key),
        place: entry.place.clone(),
        text: text.join(","),
    };
    args.into_iter().map(|(name, text)| (name.clone(), written(text, &name))).collect()
}
