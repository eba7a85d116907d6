//! What can be wrong with properties, and where.

use super::names::{MASK, masked};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Where a property was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Place {
    /// In a file, or a text that was given a name; lines count from 1.
    File {
        /// The name as it was given to the loader.
        name: Arc<str>,
        /// The line, where the format tells it.
        line: Option<usize>,
    },
    /// In an environment variable.
    Environment {
        /// The variable's name.
        variable: Arc<str>,
    },
    /// In the program, through [`Properties::set`](super::Properties::set) or
    /// [`Properties::set_for`](super::Properties::set_for).
    Code,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line: Some(line) } => write!(f, "{name}:{line}"),
            Self::File { name, line: None } => f.write_str(name),
            Self::Environment { variable } => write!(f, "environment variable {variable}"),
            Self::Code => f.write_str("code"),
        }
    }
}

/// As `Display` writes it.
impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One thing that is wrong: which key, its value, where, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The key as written; empty when the text as a whole could not be read.
    pub key: String,
    /// The value as written, `******` for a secret; empty when there is none to name.
    pub value: String,
    /// Where it was written.
    pub place: Place,
    /// What is wrong with it.
    pub reason: String,
    /// What is allowed there; empty when the value is not what is wrong.
    pub allowed: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.key.is_empty() {
            write!(f, "{} = \"{}\": ", self.key, Shortened(&self.value))?;
        }
        f.write_str(&self.reason)?;
        if self.allowed.is_empty() { Ok(()) } else { write!(f, "; allowed: {}", self.allowed) }
    }
}

/// Text as it is shown in a message: a value of a megabyte is not repeated in full, nor are its line breaks.
struct Shortened<'a>(&'a str);

impl fmt::Display for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 80;
        for character in self.0.chars().take(SHOWN) {
            if character.is_control() {
                write!(f, "{}", character.escape_default())?;
            } else {
                write!(f, "{character}")?;
            }
        }
        if self.0.chars().nth(SHOWN).is_some() { f.write_str("...") } else { Ok(()) }
    }
}

/// Properties that cannot be used: every problem found, not the first only.
///
/// `Display` writes one line for each problem, with its place, key, value and what is allowed.
///
/// ```
/// use evenkeel::config::Properties;
///
/// let error = Properties::default().set("cache.ttl", "35 s").unwrap_err();
/// assert_eq!(error.problems()[0].value, "35 s");
/// let text = error.to_string();
/// assert!(text.starts_with("code: evenkeel.cache.ttl = \"35 s\": not a value for this; allowed: a duration"));
/// ```
#[derive(Debug)]
pub struct ConfigError {
    problems: Vec<Problem>,
    source: Option<std::io::Error>,
}

impl ConfigError {
    pub(crate) fn new(mut problems: Vec<Problem>) -> Self {
        problems.sort_by_cached_key(|problem| match &problem.place {
            Place::File { name, line } => (0, name.to_string(), line.unwrap_or_default()),
            Place::Environment { variable } => (1, variable.to_string(), 0),
            Place::Code => (2, String::new(), 0),
        });
        Self { problems, source: None }
    }

    /// The text as a whole cannot be read.
    #[cfg(feature = "config")]
    pub(crate) fn unreadable(place: Place, why: impl Into<String>) -> Self {
        let (key, value, allowed) = Default::default();
        Self::new(vec![Problem { key, value, place, reason: why.into(), allowed }])
    }

    #[cfg(feature = "config")]
    pub(crate) fn caused_by(mut self, source: std::io::Error) -> Self {
        self.source = Some(source);
        self
    }

    /// Every problem, in the order of the places.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

/// A property that was read over: not wrong enough to refuse the rest, but without the effect its writer wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Warning {
    /// The key as written.
    pub key: String,
    /// Where it was written.
    pub place: Place,
    /// The nearest known key, when the key is unknown and one is near.
    pub nearest: Option<String>,
    /// Why it has no effect.
    pub reason: String,
    /// Whether it is a key of Spring that has no meaning here: accepted, and listed by
    /// [`Properties::ignored`](super::Properties::ignored) instead of the warnings.
    pub accepted: bool,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.key, self.reason)?;
        match &self.nearest {
            Some(nearest) => write!(f, "; did you mean {nearest}?"),
            None => Ok(()),
        }
    }
}

/// As `Display` writes it.
impl Serialize for Warning {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A text without the user and the password of an address in it.
pub(crate) fn without_credentials(text: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = text.split_once("://") else { return Cow::Borrowed(text) };
    // A password may hold a slash that should have been escaped.
    match rest.rfind('@') {
        Some(at) => Cow::Owned(format!("{scheme}://{MASK}{}", &rest[at..])),
        None => Cow::Borrowed(text),
    }
}

/// What reading a layer found, collected so that one load reports everything.
#[derive(Debug, Default)]
pub(crate) struct Issues {
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Warning>,
}

impl Issues {
    /// The value is not one that is allowed there.
    pub(crate) fn refuse(&mut self, key: &str, value: &str, place: &Place, allowed: impl Into<String>) {
        self.problem(key, value, place, "not a value for this".to_owned(), allowed.into());
    }

    /// Something else than the value is wrong.
    pub(crate) fn refuse_because(
        &mut self,
        key: &str,
        value: &str,
        place: &Place,
        reason: impl Into<String>,
    ) {
        self.problem(key, value, place, reason.into(), String::new());
    }

    fn problem(&mut self, key: &str, value: &str, place: &Place, reason: String, allowed: String) {
        let value = without_credentials(masked(key, value)).into_owned();
        let (key, place) = (key.to_owned(), place.clone());
        self.problems.push(Problem { key, value, place, reason, allowed });
    }

    pub(crate) fn warn(
        &mut self,
        key: &str,
        place: &Place,
        nearest: Option<String>,
        reason: impl Into<String>,
    ) {
        self.warnings.push(Warning {
            key: key.to_owned(),
            place: place.clone(),
            nearest,
            reason: reason.into(),
            accepted: false,
        });
    }
}
