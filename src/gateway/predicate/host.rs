use std::fmt;

use regex::Regex;

use crate::gateway::pattern::{Variable, Variables, reason};

/// A pattern of a host, such as `**.shop.test` or `{tenant}.shop.test`: `*` stands for a label or a part of one, `**` for any
/// number of labels. Case does not count, and a port only if the pattern has one.
pub(in crate::gateway) struct HostPattern {
    text: String,
    regex: Regex,
    names: Vec<String>,
    port: bool,
}

impl HostPattern {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (mut regex, mut names) = ("(?i)^".to_owned(), Vec::new());
        let labels: Vec<&str> = text.split('.').collect();
        for (at, label) in labels.iter().enumerate() {
            let last = at + 1 == labels.len();
            if *label == "**" {
                regex.push_str(if last { "[^:]*" } else { "(?:[^.]+\\.)*" });
                continue;
            }
            part(label, &mut regex, &mut names)?;
            if !last {
                regex.push_str("\\.");
            }
        }
        regex.push('$');
        let port = text.rsplit_once(':').is_some_and(|(_, port)| !port.is_empty() && !port.contains(']'));
        let regex = Regex::new(&regex).map_err(|error| reason(&error))?;
        Ok(Self { text: text.to_owned(), regex, names, port })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    pub(super) fn matches(&self, host: &str) -> bool {
        self.regex.is_match(self.seen(host))
    }

    pub(super) fn variables(&self, host: &str) -> Option<Variables> {
        let found = self.regex.captures(self.seen(host))?;
        let value = |at: usize| found.name(&group(at)).map_or("", |found| found.as_str()).to_owned();
        let names = self.names.iter().enumerate();
        Some(names.map(|(at, name)| Variable { name: name.clone(), value: value(at), raw: false }).collect())
    }

    fn seen<'h>(&self, host: &'h str) -> &'h str {
        match host.rsplit_once(':') {
            Some((name, port)) if !self.port && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        }
    }
}

fn part(label: &str, regex: &mut String, names: &mut Vec<String>) -> Result<(), String> {
    let mut rest = label;
    while let Some(at) = rest.find(['*', '?', '{']) {
        regex.push_str(&regex::escape(&rest[..at]));
        let from = rest.as_bytes()[at];
        rest = &rest[at + 1..];
        match from {
            b'*' => regex.push_str("[^.:]*"),
            b'?' => regex.push_str("[^.:]"),
            _ => {
                let (name, behind) = rest.split_once('}').ok_or("a brace is not closed")?;
                let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
                if name.is_empty() || !name.chars().all(word) || names.iter().any(|there| there == name) {
                    return Err(format!("{name:?} is no name of a variable, or stands in it twice"));
                }
                regex.push_str(&format!("(?<{}>[^.:]+)", group(names.len())));
                names.push(name.to_owned());
                rest = behind;
            }
        }
    }
    regex.push_str(&regex::escape(rest));
    Ok(())
}

fn group(at: usize) -> String {
    format!("v{at}")
}

impl fmt::Debug for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_patterns() {
        for (pattern, yes, no) in [
            (
                "shop.test",
                &["shop.test", "SHOP.test:8080"][..],
                &["a.shop.test", "shop.tests", "shopXtest", ""][..],
            ),
            (
                "**.shop.test",
                &["shop.test", "a.shop.test", "b.a.shop.test:80"],
                &["ashop.test", ".shop.test"],
            ),
            ("*.shop.test", &["a.shop.test"], &["b.a.shop.test", "shop.test"]),
            ("{tenant}.shop.test", &["a.shop.test:1"], &["shop.test"]),
            ("shop.test:8080", &["shop.test:8080"], &["shop.test", "shop.test:80"]),
            ("10.0.0.?", &["10.0.0.1:80"], &["10.0.0.11"]),
        ] {
            let parsed = HostPattern::parse(pattern).unwrap();
            for host in yes {
                assert!(parsed.matches(host), "{pattern} {host}");
            }
            for host in no {
                assert!(!parsed.matches(host), "{pattern} {host}");
            }
        }
        let tenant = HostPattern::parse("{tenant}-x.shop.{top}").unwrap();
        let found = tenant.variables("a-x.shop.test:80").unwrap();
        assert_eq!((found[0].value.as_str(), found[1].value.as_str()), ("a", "test"));
        for pattern in ["{a", "{}", "{a}.{a}"] {
            assert!(HostPattern::parse(pattern).is_err(), "{pattern}");
        }
    }
}
