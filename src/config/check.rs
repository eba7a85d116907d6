//! Properties looked over before anybody runs with them.

use super::error::{ConfigError, Problem, Warning};
use super::properties::Properties;
use super::report::{Report, remarks};
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// What [`check()`] found: the values of every service, and what was read over.
///
/// Warnings are the same for all services, so they stand here once, and not in the reports of the services.
///
/// `Display` writes a table for each service that the properties name and one for every other, then the warnings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Checked {
    /// The values of a service that nobody names.
    pub global: Report,
    /// The values of each service that the properties name.
    pub services: Vec<Report>,
    /// What was read over: unknown keys, values without effect.
    pub warnings: Vec<Warning>,
    /// Keys of Spring without a meaning here. They are no fault.
    pub ignored: Vec<Warning>,
}

/// Reads a file as [`Properties::load`] does, with the files of its profiles and the environment of the process, and tells
/// what would hold: for a job that looks at a change of the configuration before it is in force.
///
/// Reads the disk, so call it where that may block. Whether a chain can work with its values, its builder says.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("application.yml");
/// # std::fs::write(&path, "evenkeel:\n  clients.orders.cache.ttl: 5s\n  cache.tll: 1s\n")?;
/// let checked = evenkeel::config::check(&path)?;      // an error names every bad value, with its line
/// println!("{checked}");                              // every value, and where it came from
/// assert_eq!(checked.services[0].get("cache.ttl").unwrap().value, "5s");
/// assert!(checked.deny_warnings().is_err());          // cache.tll: did you mean cache.ttl?
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Those of [`Properties::load`].
pub fn check(path: impl AsRef<Path>) -> Result<Checked, ConfigError> {
    Ok(Properties::load(path)?.checked())
}

impl Properties {
    /// The reports of all services that are named, and of any other: what [`check()`] returns, of properties at hand.
    pub fn checked(&self) -> Checked {
        Checked {
            global: self.reported(None),
            services: self.services().into_iter().map(|service| self.reported(Some(service))).collect(),
            warnings: self.warnings().to_vec(),
            ignored: self.ignored().to_vec(),
        }
    }
}

impl Checked {
    /// Makes an error of the warnings, if there are any. Keys without a meaning are none.
    pub fn deny_warnings(self) -> Result<Self, ConfigError> {
        if self.warnings.is_empty() {
            return Ok(self);
        }
        let problem = |warning: Warning| {
            let near = warning.nearest.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
            Problem {
                key: warning.key,
                value: String::new(),
                place: warning.place,
                reason: format!("{}{near}", warning.reason),
                allowed: String::new(),
            }
        };
        Err(ConfigError::new(self.warnings.into_iter().map(problem).collect()))
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for report in self.services.iter().chain([&self.global]) {
            report.table(f)?;
            writeln!(f)?;
        }
        remarks(f, &self.warnings, &self.ignored)
    }
}
