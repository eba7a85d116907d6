use std::fmt;

use crate::ServiceId;

/// What stands for the service in a template.
const PLACEHOLDER: &str = "{service}";

/// Makes a host name of a service id: `{service}.prod.svc.cluster.local.:8080`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    name: String,
    pub(super) port: Option<u16>,
}

impl Template {
    pub(super) fn parse(text: &str) -> Result<Self, InvalidTemplate> {
        let wrong = |reason| InvalidTemplate { given: text.to_owned(), reason };
        let trimmed = text.trim();
        // An IPv6 address has colons of its own; its port stands behind the bracket.
        let (name, port) = match trimmed.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => (name, Some(port)),
            _ => (trimmed, None),
        };
        let port = match port.map(str::parse::<u16>) {
            None => None,
            Some(Ok(port)) if port != 0 => Some(port),
            Some(_) => return Err(wrong("1 to 65535 is expected for the port")),
        };
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        if bare.is_empty() {
            return Err(wrong("it has no name"));
        }
        if bare.len() == name.len() && bare.contains(':') {
            return Err(wrong("one port is expected, and brackets around an IPv6 address"));
        }
        if bare.replace(PLACEHOLDER, "").contains(['{', '}', '/', ' ', '@', '[', ']']) {
            return Err(wrong("a host name is expected, and no placeholder but {service}"));
        }
        Ok(Self { name: bare.to_owned(), port })
    }

    pub(super) fn name(&self, service: &ServiceId) -> String {
        self.name.replace(PLACEHOLDER, service.as_str())
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A text that is no template of host names; it quotes what was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidTemplate {
    given: String,
    reason: &'static str,
}

impl fmt::Display for InvalidTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no template of host names: {}", self.given, self.reason)
    }
}

impl std::error::Error for InvalidTemplate {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_a_template() {
        let orders = ServiceId::new("Orders_v2").unwrap();
        for (text, name, port) in [
            ("{service}.ns.svc:8080", "Orders_v2.ns.svc", Some(8080)),
            ("{service}.ns.svc.cluster.local.", "Orders_v2.ns.svc.cluster.local.", None),
            ("{service}", "Orders_v2", None),
            (" fixed.example:1 ", "fixed.example", Some(1)),
            ("[::1]:80", "::1", Some(80)),
            ("[::1]", "::1", None),
        ] {
            let template = Template::parse(text).unwrap();
            assert_eq!((template.name(&orders).as_str(), template.port), (name, port));
        }
        for bad in [
            "",
            ":80",
            "{service}:0",
            "{service}:80a",
            "{service}:70000",
            "{service}:",
            "::1",
            "{name}.x",
            "a b",
        ] {
            let error = Template::parse(bad).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{bad:?}")), "{error}");
        }
    }
}
