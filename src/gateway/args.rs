//! The arguments of a predicate or a filter, read by name.

use std::fmt;

use super::definition::{Args, Step};
use crate::config::{Problem, uniform};

/// What is wrong with a step: the value, why, and what is allowed.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) value: String,
    pub(super) reason: String,
    pub(super) allowed: String,
}

impl Fault {
    pub(super) fn new(
        value: impl Into<String>,
        reason: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        Self { value: value.into(), reason: reason.into(), allowed: allowed.into() }
    }

    /// As a problem of a route's step.
    pub(super) fn of(self, route: &str, step: &Step) -> Problem {
        let reason = format!("route {route:?}, {}: {}", step.name, self.reason);
        Problem {
            key: step.key.clone(),
            value: self.value,
            place: step.place.clone(),
            reason,
            allowed: self.allowed,
        }
    }
}

/// The arguments of a step by the names that it knows.
pub(super) struct Reader<'a> {
    known: &'static [&'static str],
    given: Vec<(usize, Vec<&'a str>)>,
}

impl<'a> Reader<'a> {
    /// `known` has the names in the order of the short notation. If `gather`, the first of them is a list that takes all
    /// words.
    pub(super) fn new(step: &'a Step, known: &'static [&'static str], gather: bool) -> Result<Self, Fault> {
        let mut given: Vec<(usize, Vec<&'a str>)> = Vec::new();
        match &step.args {
            Args::Short(words) if gather => {
                given.push((0, words.iter().map(String::as_str).collect()));
            }
            Args::Short(words) => {
                if words.len() > known.len() {
                    let reason = format!("{} arguments, where it takes {}", words.len(), known.len());
                    let allowed = format!(
                        "{}; a value with a comma needs the long notation, name: and args:",
                        Names(known)
                    );
                    return Err(Fault::new(words.len().to_string(), reason, allowed));
                }
                given.extend(words.iter().enumerate().map(|(at, word)| (at, vec![word.as_str()])));
            }
            Args::Named(named) => {
                for (name, values) in named {
                    let same = |known: &&str| uniform(known) == uniform(name);
                    // Spring's own names for the words of a short notation.
                    let place = || {
                        let at = name.strip_prefix("_genkey_")?.parse::<usize>().ok()?;
                        if gather { Some(0) } else { Some(at).filter(|at| *at < known.len()) }
                    };
                    let Some(at) = known.iter().position(same).or_else(place) else {
                        return Err(Fault::new(name, "unknown argument", Names(known).to_string()));
                    };
                    let values = values.iter().map(String::as_str);
                    match given.iter_mut().find(|(there, _)| *there == at) {
                        Some((_, there)) => there.extend(values),
                        None => given.push((at, values.collect())),
                    }
                }
            }
        }
        Ok(Self { known, given })
    }

    fn at(&self, name: &str) -> Option<&[&'a str]> {
        let at = self.known.iter().position(|known| *known == name)?;
        let (_, values) = self.given.iter().find(|(there, _)| *there == at)?;
        Some(values)
    }

    /// An argument that may be left out.
    pub(super) fn optional(&self, name: &str) -> Result<Option<&'a str>, Fault> {
        match self.at(name) {
            None | Some([]) => Ok(None),
            Some([one]) => Ok(Some(one)),
            Some(many) => Err(Fault::new(many.join(","), format!("a list for {name}"), "one value")),
        }
    }

    /// An argument that must be there.
    pub(super) fn one(&self, name: &str) -> Result<&'a str, Fault> {
        self.optional(name)?.filter(|text| !text.is_empty()).ok_or_else(|| {
            Fault::new("", format!("it needs an argument {name}"), Names(self.known).to_string())
        })
    }

    /// The words of an argument that is a list, or a comma list in one text.
    pub(super) fn list(&self, name: &str) -> Vec<&'a str> {
        self.at(name).unwrap_or_default().iter().flat_map(|text| crate::config::comma_list(text)).collect()
    }

    /// The same for one that must have a word.
    pub(super) fn some(&self, name: &str) -> Result<Vec<&'a str>, Fault> {
        let words = self.list(name);
        if words.is_empty() {
            return Err(Fault::new(
                "",
                format!("it needs at least one of {name}"),
                Names(self.known).to_string(),
            ));
        }
        Ok(words)
    }
}

/// A list of names in a message.
struct Names(&'static [&'static str]);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("no argument"),
            names => write!(f, "{}", names.join(", ")),
        }
    }
}

/// A flag.
pub(super) fn flag(text: &str) -> Result<bool, Fault> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Fault::new(text, "neither true nor false", "true or false")),
    }
}
