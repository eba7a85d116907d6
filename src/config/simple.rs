//! Instances written in the properties: `spring.cloud.discovery.client.simple.instances.<service>[i]`.

use super::error::{Issues, without_credentials};
use super::layer::{Section, Setting};
use super::read::flag;
use super::setters::setters;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One instance of a service, written in the properties.
///
/// In a file it is either a `uri`, or `host` with `port`, `secure` and the rest; a `uri` wins over them. Defaults:
/// the scheme's port, not secure, no instance id, no metadata.
///
/// ```
/// use evenkeel::config::SimpleInstanceProperties;
///
/// let instance = SimpleInstanceProperties::new("10.0.0.7").with_port(8080).with_metadata("zone", "eu-1a");
/// assert_eq!(instance.metadata["zone"], "eu-1a");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct SimpleInstanceProperties {
    /// The address as one text, as written, path included. Default: none.
    pub uri: Option<String>,
    /// The host, taken from `uri` if that is given; an IPv6 address stands without brackets.
    pub host: String,
    /// The port, 1 to 65535. Default: none, which means the scheme's.
    pub port: Option<u16>,
    /// Whether the instance speaks TLS. Default: `None`, unless the scheme of `uri` says so.
    pub secure: Option<bool>,
    /// The instance's own id. Default: none, which leaves it to the registry client.
    pub instance_id: Option<String>,
    /// Metadata; values keep the spelling they were written in.
    pub metadata: BTreeMap<String, String>,
}

impl SimpleInstanceProperties {
    /// An instance on this host.
    pub fn new(host: impl Into<String>) -> Self {
        Self { host: host.into(), ..Self::default() }
    }

    setters! {
        /// Sets the host.
        with_host(host: impl Into<String>) = host.into();
        /// Sets the port; `None`, the default, is the scheme's.
        with_port(port: impl Into<Option<u16>>) = port.into();
        /// Sets whether the instance speaks TLS. Default: not said.
        with_secure(secure: impl Into<Option<bool>>) = secure.into();
        /// Sets the instance's own id. Default: none.
        with_instance_id(instance_id: impl Into<String>) = Some(instance_id.into());
    }

    /// Adds one metadata value.
    #[must_use]
    pub fn with_metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }
}

/// Why an entry is not used.
enum Bad {
    /// It stands for no reachable instance: left out with a warning, so that it does not spoil the list.
    Dropped(&'static str),
    /// It cannot be what its writer meant.
    Refused(&'static str),
}

const PORT: &str = "the port is not between 1 and 65535, so the instance is left out";
const URI: &str = "an address such as http://10.0.0.7:8080 or https://orders.example/path";

/// Reads the list of one service.
pub(crate) fn read(section: &Section, issues: &mut Issues) -> Vec<SimpleInstanceProperties> {
    let mut entries: BTreeMap<&str, Vec<(&str, &Setting)>> = BTreeMap::new();
    for (name, setting) in &section.settings {
        if let Some((at, below)) = name.split_once('.') {
            entries.entry(at).or_default().push((below, setting));
        }
    }
    entries.into_values().filter_map(|values| entry(&section.id, &values, issues)).collect()
}

fn entry(
    service: &str,
    values: &[(&str, &Setting)],
    issues: &mut Issues,
) -> Option<SimpleInstanceProperties> {
    let mut instance = SimpleInstanceProperties::default();
    let with_uri = values.iter().any(|(name, _)| *name == "uri");
    let mut usable = true;
    for (name, setting) in values {
        if with_uri && matches!(*name, "host" | "port" | "secure") {
            issues.warn(&setting.key, &setting.place, None, "the uri of the instance says it already");
            continue;
        }
        match value(&mut instance, name, &setting.text) {
            Ok(()) => {}
            Err(Bad::Refused(allowed)) => issues.refuse(&setting.key, &setting.text, &setting.place, allowed),
            Err(Bad::Dropped(why)) => {
                usable = false;
                let id = instance_id(values).unwrap_or("without an id");
                let text = without_credentials(&setting.text);
                let reason = format!("{why} (\"{text}\"; service {service}, instance {id})");
                issues.warn(&setting.key, &setting.place, None, reason);
            }
        }
    }
    if let ("", [(_, setting), ..], true) = (instance.host.as_str(), values, usable) {
        if !with_uri {
            let reason =
                format!("the instance has neither uri nor host, so it is left out (service {service})");
            issues.warn(&setting.key, &setting.place, None, reason);
        }
        return None;
    }
    usable.then_some(instance)
}

fn instance_id<'a>(values: &[(&str, &'a Setting)]) -> Option<&'a str> {
    values.iter().find(|(name, _)| *name == "instance-id").map(|(_, setting)| setting.text.as_str())
}

fn value(to: &mut SimpleInstanceProperties, name: &str, text: &str) -> Result<(), Bad> {
    match name {
        "uri" => uri(to, text.trim())?,
        "host" => host(to, text.trim()).ok_or(Bad::Refused("a host name or an address"))?,
        "port" => to.port = Some(port(text.trim())?),
        "secure" => to.secure = Some(flag(text).map_err(|_| Bad::Refused("true or false"))?),
        "instance-id" => to.instance_id = super::balancer::trimmed(text),
        name => {
            if let Some(key) = name.strip_prefix("metadata.") {
                to.metadata.insert(key.to_owned(), text.to_owned());
            }
        }
    }
    Ok(())
}

fn uri(to: &mut SimpleInstanceProperties, text: &str) -> Result<(), Bad> {
    let (scheme, rest) = text.split_once("://").ok_or(Bad::Refused(URI))?;
    let named = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // A colon inside brackets is part of an IPv6 address.
    let after_host = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    let colon = authority[after_host..].find(':').map(|colon| colon + after_host);
    let name = &authority[..colon.unwrap_or(authority.len())];
    if !named || authority.contains('@') || host(to, name).is_none() {
        return Err(Bad::Refused(URI));
    }
    // "http://orders:" is legal and means the scheme's port.
    to.port = match colon.map(|colon| &authority[colon + 1..]) {
        None | Some("") => None,
        Some(digits) => Some(port(digits)?),
    };
    to.secure = Some(matches!(scheme.to_ascii_lowercase().as_str(), "https" | "wss"));
    to.uri = Some(text.to_owned());
    Ok(())
}

fn host(to: &mut SimpleInstanceProperties, text: &str) -> Option<()> {
    let bare = match text.strip_prefix('[') {
        Some(inside) => inside.strip_suffix(']')?,
        None => text,
    };
    let foreign = |c: char| c.is_whitespace() || c.is_control() || "/?#@[]%\\\"<>".contains(c);
    // The zone of a link-local address is the one place for a percent sign.
    let checked = bare.split_once('%').map_or(bare, |(address, _)| address);
    if bare.is_empty() || checked.is_empty() || checked.contains(foreign) {
        return None;
    }
    if checked.len() != bare.len() && checked.parse::<std::net::Ipv6Addr>().is_err() {
        return None;
    }
    if text.len() != bare.len() && checked.parse::<std::net::Ipv6Addr>().is_err() {
        return None;
    }
    bare.clone_into(&mut to.host);
    Some(())
}

fn port(text: &str) -> Result<u16, Bad> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port > 0).ok_or(Bad::Dropped(PORT))
}
