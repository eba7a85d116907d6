//! What an operator overrides for a while: `evenkeel.overrides[i].*`.

use super::choices::Preset;
use super::layer::{Section, Setting};
use super::read::{Allowed, flag, put, required};
use crate::wall;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

/// What an operator overrides for a while, and why: a drain, ejection off, or another preset.
///
/// It always ends by itself, and always has a reason: what is done at night and forgotten is the next outage. In a file the
/// end is a moment (`until`), not a span: a span would begin anew with every restart and every reload. In code it may be
/// either.
///
/// ```
/// use evenkeel::config::Override;
/// use std::time::Duration;
///
/// let drained = Override::drain_host("10.0.0.7").of_service("orders").lasting(Duration::from_secs(1_800)).because("OPS-17: disk");
/// assert_eq!(drained.to_string(), "drain host 10.0.0.7");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Override {
    /// The service that it concerns; `None` = every one.
    pub service: Option<String>,
    /// What it does.
    pub action: OverrideAction,
    /// When it ends.
    pub end: OverrideEnd,
    /// Why.
    pub reason: String,
}

/// What an [`Override`] does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OverrideAction {
    /// The instance with this id, or with this `host:port`, gets no new calls while another is left.
    DrainInstance(String),
    /// The same for all instances on a host.
    DrainHost(String),
    /// The same for all instances in a zone.
    DrainZone(String),
    /// No instance is ejected for doing worse than its like, and who is comes back.
    EjectionOff,
    /// The defaults of this preset hold, whatever `preset` says; what is set one by one still wins.
    Preset(Preset),
}

/// When an [`Override`] ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OverrideEnd {
    /// Nobody said: it cannot be set.
    Unset,
    /// At this moment.
    At(SystemTime),
    /// So long after it is set; from code only.
    After(Duration),
}

/// As a file spells it.
impl Serialize for Override {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(service) = &self.service {
            map.serialize_entry("service", service)?;
        }
        let mut drain =
            |what: &str, name: &str| map.serialize_entry("drain", &BTreeMap::from([(what, name)]));
        match &self.action {
            OverrideAction::DrainInstance(name) => drain("instance", name)?,
            OverrideAction::DrainHost(name) => drain("host", name)?,
            OverrideAction::DrainZone(name) => drain("zone", name)?,
            OverrideAction::EjectionOff => map.serialize_entry("ejection", "off")?,
            OverrideAction::Preset(preset) => map.serialize_entry("preset", preset)?,
        }
        match self.end {
            OverrideEnd::Unset => {}
            OverrideEnd::At(at) => map.serialize_entry("until", &wall::format(at))?,
            OverrideEnd::After(span) => {
                map.serialize_entry("for", &super::duration::format_duration(span))?;
            }
        }
        map.serialize_entry("reason", &self.reason)?;
        map.end()
    }
}

impl Override {
    fn new(action: OverrideAction) -> Self {
        Self { service: None, action, end: OverrideEnd::Unset, reason: String::new() }
    }

    /// Drains the instance with this id, or with this `host:port`.
    pub fn drain_instance(instance: impl Into<String>) -> Self {
        Self::new(OverrideAction::DrainInstance(instance.into()))
    }

    /// Drains all instances on a host.
    pub fn drain_host(host: impl Into<String>) -> Self {
        Self::new(OverrideAction::DrainHost(host.into()))
    }

    /// Drains all instances in a zone.
    pub fn drain_zone(zone: impl Into<String>) -> Self {
        Self::new(OverrideAction::DrainZone(zone.into()))
    }

    /// Switches the ejection of outliers off.
    pub fn ejection_off() -> Self {
        Self::new(OverrideAction::EjectionOff)
    }

    /// Has the defaults of this preset hold.
    pub fn preset(preset: Preset) -> Self {
        Self::new(OverrideAction::Preset(preset))
    }

    /// For one service (default: every one).
    #[must_use]
    pub fn of_service(mut self, service: impl Into<String>) -> Self {
        self.service = Some(service.into());
        self
    }

    /// It ends at this moment.
    #[must_use]
    pub fn until(mut self, at: SystemTime) -> Self {
        self.end = OverrideEnd::At(at);
        self
    }

    /// It ends so long after it is set.
    #[must_use]
    pub fn lasting(mut self, span: Duration) -> Self {
        self.end = OverrideEnd::After(span);
        self
    }

    /// Why it is there; it is shown wherever the override is.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = reason.into();
        self
    }

    /// Whether it concerns this service.
    pub(crate) fn concerns(&self, service: &str) -> bool {
        self.service.as_deref().is_none_or(|own| super::key::fold(own.trim()) == super::key::fold(service))
    }

    /// What is missing for it to be set.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let named = match &self.action {
            OverrideAction::DrainInstance(name)
            | OverrideAction::DrainHost(name)
            | OverrideAction::DrainZone(name) => !name.trim().is_empty(),
            OverrideAction::EjectionOff | OverrideAction::Preset(_) => true,
        };
        if self.reason.trim().is_empty() {
            Some(NO_REASON)
        } else if self.end == OverrideEnd::Unset {
            Some(NO_END)
        } else if !named {
            Some("a drain needs the name of an instance, a host or a zone")
        } else {
            None
        }
    }
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.action {
            OverrideAction::DrainInstance(name) => write!(f, "drain instance {name}"),
            OverrideAction::DrainHost(name) => write!(f, "drain host {name}"),
            OverrideAction::DrainZone(name) => write!(f, "drain zone {name}"),
            OverrideAction::EjectionOff => f.write_str("ejection off"),
            OverrideAction::Preset(preset) => write!(f, "preset {preset}"),
        }
    }
}

const NO_REASON: &str = "an override needs a reason: overrides[i].reason, such as a ticket and a word";
const NO_END: &str = "an override needs an end: overrides[i].until, such as 2026-11-30T22:00:00Z";
const ONE_ACTION: &str =
    "an override does one thing: drain.instance, drain.host, drain.zone, ejection (off) or preset";
const NO_SPAN: Allowed =
    "until, a moment such as 2026-11-30T22:00:00Z: a span would begin anew with every restart and reload";

/// One entry as it is read.
#[derive(Default)]
pub(crate) struct Entry {
    service: Option<String>,
    actions: Vec<OverrideAction>,
    until: Option<SystemTime>,
    reason: String,
}

/// Reads one value of an override.
pub(crate) fn read(to: &mut Entry, name: &str, text: &str) -> Result<(), Allowed> {
    let action = match name {
        "service" => return put(&mut to.service, required(text).map(Some)),
        "reason" => return put(&mut to.reason, required(text)),
        "until" => {
            let moment = "a date and time with its offset, as RFC 3339 has it, such as 2026-11-30T22:00:00Z";
            return put(&mut to.until, wall::parse(text).map(Some).ok_or(moment));
        }
        "for" => return Err(NO_SPAN),
        "drain.instance" => OverrideAction::DrainInstance(required(text)?),
        "drain.host" => OverrideAction::DrainHost(required(text)?),
        "drain.zone" => OverrideAction::DrainZone(required(text)?),
        "ejection" if flag(text) == Ok(false) => OverrideAction::EjectionOff,
        "ejection" => return Err("off"),
        "preset" => OverrideAction::Preset(Preset::read(text).ok_or(Preset::ALLOWED)?),
        _ => return Ok(()),
    };
    to.actions.push(action);
    Ok(())
}

impl Entry {
    /// The override, or what is missing.
    fn finish(self) -> Result<Override, &'static str> {
        let mut actions = self.actions.into_iter();
        let (Some(action), None) = (actions.next(), actions.next()) else { return Err(ONE_ACTION) };
        let end = self.until.map_or(OverrideEnd::Unset, OverrideEnd::At);
        let whole = Override { service: self.service, action, end, reason: self.reason };
        whole.fault().map_or(Ok(whole), Err)
    }
}

/// The overrides of a section in their order: each as it is, or what is wrong with it, and the setting that comes first.
pub(crate) fn all(section: &Section) -> Vec<(Result<Override, &'static str>, &Setting)> {
    let mut entries: BTreeMap<&str, (Entry, &Setting)> = BTreeMap::new();
    for (name, setting) in section.items("overrides") {
        let Some((at, below)) = name.split_once('.') else { continue };
        let (entry, _) = entries.entry(at).or_insert_with(|| (Entry::default(), setting));
        // Every value was read once when it was taken in.
        let _ = read(entry, below, &setting.text);
    }
    entries.into_values().map(|(entry, setting)| (entry.finish(), setting)).collect()
}
