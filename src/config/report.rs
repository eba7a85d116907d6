//! What holds, and where it came from.

use super::balancer::LoadBalancerProperties;
use super::choices::Preset;
use super::duration::format_duration;
use super::effective::Stack;
use super::error::{Place, Warning};
use super::key;
use super::layer::{self, Setting};
use super::names::{EAGER, HEALTH_PATH, KEYED, MAPS, MASK, PROPERTIES, SECRETS, Shape, ZONE_WEIGHTS};
use super::overrides::{self, OverrideEnd};
use super::properties::Properties;
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Somebody wrote it there.
    Set(Place),
    /// It is a default of this preset, and not that of the others.
    Preset(Preset),
    /// It is made of what is known of the process.
    Process,
    /// It is the default.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(place) => place.fmt(f),
            Self::Preset(preset) => write!(f, "preset {preset}"),
            Self::Process => f.write_str("this process"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// As `Display` writes it.
impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One property in a [`Report`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReportEntry {
    /// The name below the prefix, such as `cache.ttl`.
    pub name: String,
    /// The value that holds, as a file would spell it; `unset` if there is none, `******` for a secret.
    pub value: String,
    /// Where it came from.
    pub origin: Origin,
}

/// The value of every property for one service, and where it came from.
///
/// `Display` writes a table, the values that somebody set marked with a star, then the warnings and what was accepted
/// and has no meaning here. Made by [`Properties::report`] and [`Properties::report_global`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The service; `None` for the values of a service that nobody names.
    pub service: Option<String>,
    /// Every property, by name.
    pub entries: Vec<ReportEntry>,
    /// What was read over, in all layers; see [`Properties::warnings`].
    pub warnings: Vec<Warning>,
    /// Keys of Spring without a meaning here; see [`Properties::ignored`].
    pub ignored: Vec<Warning>,
}

impl Report {
    /// One property, by its name in a file below the prefix: `cache.ttl`.
    pub fn get(&self, name: &str) -> Option<&ReportEntry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The table alone.
    pub(super) fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one_line = |value: &str| value.replace(char::is_control, " ");
        let width = |column: fn(&ReportEntry) -> &str| {
            // A value of a megabyte does not push its neighbours out of sight.
            self.entries.iter().map(|entry| column(entry).chars().count()).max().unwrap_or(0).min(60)
        };
        let (names, values) = (width(|entry| &entry.name), width(|entry| &entry.value));
        match &self.service {
            Some(service) => writeln!(f, "{service}")?,
            None => writeln!(f, "every other service")?,
        }
        for ReportEntry { name, value, origin } in &self.entries {
            let mark = if matches!(origin, Origin::Set(_)) { '*' } else { ' ' };
            writeln!(f, "{mark} {name:names$}  {:values$}  {origin}", one_line(value))?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table(f)?;
        remarks(f, &self.warnings, &self.ignored)
    }
}

/// Writes warnings and accepted keys.
pub(super) fn remarks(f: &mut fmt::Formatter<'_>, warnings: &[Warning], ignored: &[Warning]) -> fmt::Result {
    for (title, list) in [("warnings", warnings), ("accepted, without a meaning here", ignored)] {
        if !list.is_empty() {
            writeln!(f, "{title}")?;
        }
        for one in list {
            writeln!(f, "  {one}")?;
        }
    }
    Ok(())
}

impl Properties {
    /// The value of every property for one service, where it came from, and what was read over.
    ///
    /// ```
    /// # fn main() -> Result<(), evenkeel::config::ConfigError> {
    /// use evenkeel::config::{Format, Properties};
    ///
    /// let text = "evenkeel:\n  cache.ttl: 10s\n  preset: kubernetes\n";
    /// let properties = Properties::parse(text, Format::Yaml, "application.yml")?;
    /// let report = properties.report("orders");
    /// let ttl = report.get("cache.ttl").unwrap();
    /// assert_eq!((ttl.value.as_str(), ttl.origin.to_string().as_str()), ("10s", "application.yml:2"));
    /// assert_eq!(report.get("policy").unwrap().origin.to_string(), "preset kubernetes");
    /// assert!(report.to_string().contains("* cache.ttl"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn report(&self, service: &str) -> Report {
        self.with_remarks(self.reported(Some(service)))
    }

    /// The same for a service that nobody names.
    pub fn report_global(&self) -> Report {
        self.with_remarks(self.reported(None))
    }

    fn with_remarks(&self, report: Report) -> Report {
        Report { warnings: self.warnings().to_vec(), ignored: self.ignored().to_vec(), ..report }
    }

    /// The report without warnings, which are the same in all of them.
    pub(super) fn reported(&self, service: Option<&str>) -> Report {
        let id = service.unwrap_or_default();
        let effective = self.effective(id);
        let used = effective.caching();
        let stack = Stack::of(self.layers(), id);
        // What is derived stands in the struct and nowhere in the layers.
        let now = serde_json::to_value(&effective).unwrap_or_default();
        let plain = serde_json::to_value(LoadBalancerProperties::default()).unwrap_or_default();
        let preset =
            serde_json::to_value(LoadBalancerProperties::for_preset(effective.preset)).unwrap_or_default();
        let origin = |name: &str, place: Option<&Place>| match place {
            Some(place) => Origin::Set(place.clone()),
            None if at(&preset, name) != at(&plain, name) => Origin::Preset(effective.preset),
            None => Origin::Default,
        };
        let mut entries: Vec<ReportEntry> = Vec::new();
        for property in PROPERTIES {
            let name = property.name;
            let place = match property.shape {
                Shape::One(_) => stack.find(name).map(|setting| &setting.place),
                Shape::List(_) => stack.list(name).and_then(|section| section.first(name)),
            };
            let mut origin = origin(name, place);
            let value = match name {
                EAGER => listed(&self.global().eager_load),
                _ if SECRETS.contains(&name) => {
                    let set = stack.find(name).is_some_and(|setting| !setting.text.trim().is_empty());
                    if set { MASK.to_owned() } else { UNSET.to_owned() }
                }
                "cache.ttl" => format_duration(used.ttl),
                "cache.hard-age" => format_duration(used.hard_age()),
                _ => text(at(&now, name)),
            };
            if name == "cache.ttl" && used.ttl != effective.cache.ttl {
                let interval = stack.find("health-check.refetch-instances-interval");
                let by = interval.or_else(|| stack.find("health-check.refetch-instances"));
                origin = by.map_or(origin, |setting| Origin::Set(setting.place.clone()));
            }
            if name == "subset.instance-id"
                && effective.subset.instance_id == self.instance_id().map(str::to_owned)
            {
                let said = stack.find(name).is_some_and(|setting| !setting.text.trim().is_empty());
                if !said && effective.subset.instance_id.is_some() {
                    origin = Origin::Process;
                }
            }
            if name == "own-service-id"
                && stack.find(name).is_none_or(|setting| setting.text.trim().is_empty())
                && effective.own_service_id.is_some()
            {
                origin = Origin::Process;
            }
            if let Some(setting) = stack.entries(name).into_values().next().filter(|_| name == ZONE_WEIGHTS) {
                origin = Origin::Set(setting.place.clone());
            }
            entries.push(ReportEntry { name: name.to_owned(), value, origin });
        }
        for name in MAPS {
            let field = if *name == HEALTH_PATH {
                &Value::from(effective.health_check.path.as_str())
            } else {
                at(&now, name)
            };
            let origin = origin(name, stack.mapped(name).map(|setting| &setting.place));
            entries.push(ReportEntry { name: (*name).to_owned(), value: text(field), origin });
        }
        let media_types = stack.entries(KEYED);
        for (of, setting) in &media_types {
            let origin = Origin::Set(setting.place.clone());
            entries.push(ReportEntry {
                name: format!("{KEYED}.{of}"),
                value: setting.text.trim().to_owned(),
                origin,
            });
        }
        if media_types.is_empty() {
            entries.push(ReportEntry {
                name: KEYED.to_owned(),
                value: NONE.to_owned(),
                origin: Origin::Default,
            });
        }
        entries.extend(routes(&stack));
        entries.extend(overridden(&stack, id));
        entries.extend(self.reported_instances(id));
        entries.sort_by(|left, right| left.name.cmp(&right.name));
        Report { service: service.map(str::to_owned), entries, warnings: Vec::new(), ignored: Vec::new() }
    }

    /// The simple instances of the service, if it has any.
    fn reported_instances(&self, service: &str) -> Option<ReportEntry> {
        // They stand in the order of their folded ids.
        let folded = key::fold(service);
        let all = self.simple_instances();
        let at = all.binary_search_by(|(id, _)| key::fold(id).cmp(&folded)).ok()?;
        let (id, instances) = &all[at];
        let address = |one: &super::simple::SimpleInstanceProperties| match (&one.uri, one.port) {
            (Some(uri), _) => uri.clone(),
            (None, Some(port)) => format!("{}:{port}", one.host),
            (None, None) => one.host.clone(),
        };
        let value = listed(&instances.iter().map(address).collect::<Vec<_>>());
        let place = self.place_of_instances(service)?;
        let name = format!("spring.cloud.discovery.client.simple.instances.{id}");
        Some(ReportEntry { name, value, origin: Origin::Set(place.clone()) })
    }
}

/// Each override that concerns the service.
fn overridden(stack: &Stack<'_>, service: &str) -> Vec<ReportEntry> {
    let all = stack.list("overrides").map(overrides::all).unwrap_or_default();
    let ours = all.into_iter().enumerate().filter_map(|(at, (whole, setting))| {
        let whole = whole.ok().filter(|whole| whole.concerns(service))?;
        let until = match whole.end {
            OverrideEnd::At(at) => crate::wall::format(at),
            _ => UNSET.to_owned(),
        };
        let value = format!("{whole} until {until}: {}", whole.reason);
        let origin = Origin::Set(setting.place.clone());
        Some(ReportEntry { name: format!("overrides[{at}]"), value, origin })
    });
    let mut entries: Vec<ReportEntry> = ours.collect();
    if entries.is_empty() {
        let origin =
            stack.list("overrides").and_then(|section| section.first("overrides")).cloned().map(Origin::Set);
        let (name, value) = ("overrides".to_owned(), NONE.to_owned());
        entries.push(ReportEntry { name, value, origin: origin.unwrap_or(Origin::Default) });
    }
    entries
}

/// Each value of each route.
fn routes(stack: &Stack<'_>) -> Vec<ReportEntry> {
    let Some(section) = stack.list("routing") else {
        return vec![ReportEntry {
            name: "routing".to_owned(),
            value: NONE.to_owned(),
            origin: Origin::Default,
        }];
    };
    // By the place in the list, in the order of the routes: the setting that comes first for each name.
    let mut written: BTreeMap<&str, BTreeMap<&str, &Setting>> = BTreeMap::new();
    for (name, setting) in section.items("routing") {
        if let Some((place, below)) = name.split_once('.') {
            let name = below.split(['.', '[']).next().unwrap_or_default();
            written.entry(place).or_default().entry(name).or_insert(setting);
        }
    }
    let mut entries = Vec::new();
    for (at, ((route, ..), written)) in layer::routes(section).into_iter().zip(written.values()).enumerate() {
        let fields = serde_json::to_value(&route).unwrap_or_default();
        for (name, value) in fields.as_object().into_iter().flatten() {
            let origin = written
                .get(name.as_str())
                .map_or(Origin::Default, |setting| Origin::Set(setting.place.clone()));
            entries.push(ReportEntry { name: format!("routing[{at}].{name}"), value: text(value), origin });
        }
    }
    if entries.is_empty() {
        let origin = section.first("routing").map_or(Origin::Default, |place| Origin::Set(place.clone()));
        entries.push(ReportEntry { name: "routing".to_owned(), value: NONE.to_owned(), origin });
    }
    entries
}

const UNSET: &str = "unset";
const NONE: &str = "none";

/// The value at a dotted name.
fn at<'a>(value: &'a Value, name: &str) -> &'a Value {
    name.split('.').try_fold(value, |value, part| value.get(part)).unwrap_or(&Value::Null)
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => UNSET.to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => listed(&items.iter().map(text).collect::<Vec<_>>()),
        Value::Object(entries) => {
            listed(&entries.iter().map(|(name, value)| format!("{name}={}", text(value))).collect::<Vec<_>>())
        }
        other => other.to_string(),
    }
}

fn listed(words: &[String]) -> String {
    if words.is_empty() { NONE.to_owned() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_every_property() {
        let report = Properties::default().report("orders");
        let names = PROPERTIES.iter().map(|property| property.name).chain(MAPS.iter().copied());
        for name in names.chain([KEYED, "routing"]) {
            let entry = report.get(name).unwrap_or_else(|| panic!("no {name}"));
            // What is not found in the struct would be unset, whatever the default is.
            let optional = ["zone", "hint", "own-service-id", "read-timeout", "tls-name"].contains(&name)
                || [
                    "max-share",
                    "warm-start",
                    "secret",
                    "port",
                    "instance-id",
                    "ordinal",
                    "default",
                    "header",
                ]
                .iter()
                .chain(&["query-parameter", "path-segment", "max-backoff", "prefix", "per-try-timeout"])
                .chain(&["cookie", "query", "attribute", "min-ring-size", "balance-factor", "active-limit"])
                .any(|last| name.ends_with(&format!(".{last}")));
            assert_eq!(entry.value == UNSET, optional, "{name} = {}", entry.value);
        }
    }
}
