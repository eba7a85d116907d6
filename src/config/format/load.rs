//! From a path or a text to properties.

use super::document::Document;
use super::files::Files;
use super::tree::Unreadable;
use super::{json, toml, yaml};
use crate::config::error::{ConfigError, Place};
use crate::config::properties::Properties;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

/// The largest text that is read, in bytes: 1 MiB, a thousand times a usual file, so that a wrong path cannot fill
/// the memory.
const LARGEST: usize = 1 << 20;

/// The format of a text with properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// YAML 1.2; several documents in one text are read in order, later values over earlier ones.
    Yaml,
    /// TOML 1.
    Toml,
    /// JSON.
    Json,
}

impl Format {
    /// The format a file's name tells: `yml`, `yaml`, `toml` or `json`, in any case.
    ///
    /// ```
    /// use evenkeel::config::Format;
    ///
    /// assert_eq!(Format::of_path("conf/application.yml"), Some(Format::Yaml));
    /// assert_eq!(Format::of_path("notes.txt"), None);
    /// ```
    pub fn of_path(path: impl AsRef<Path>) -> Option<Self> {
        match path.as_ref().extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "yml" | "yaml" => Some(Self::Yaml),
            "toml" => Some(Self::Toml),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

impl Properties {
    /// Reads a file, by its extension (`yml`, `yaml`, `toml`, `json`), the files beside it that belong to the active
    /// profiles, and the environment of the process.
    ///
    /// Beside `application.yml`, the file of the profile `prod` is `application-prod.yml`; one that does not exist is no
    /// error. Which profiles are active, and what placeholders mean, is told at the
    /// [module](crate::config#a-real-applicationyml). Keys outside `evenkeel`, `spring.cloud.loadbalancer` and
    /// `spring.cloud.discovery.client.simple` are left alone. At most 1 MiB, 1000 documents and 64 levels in a file. Reads
    /// the disk, so call it where that may block.
    ///
    /// # Errors
    ///
    /// Everything that is wrong at once: the file cannot be read, or values that are not allowed.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        // Variables that are not Unicode cannot be ours.
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let files = Files::read(path.as_ref())?;
        Self::default().with_variables(variables).with_files(files)
    }

    /// Reads a text; the name stands in messages where a file's path would. The environment is not read, nor are files
    /// of profiles.
    ///
    /// ```
    /// # fn main() -> Result<(), evenkeel::config::ConfigError> {
    /// use evenkeel::config::{Format, Properties};
    /// use std::time::Duration;
    ///
    /// let text = "evenkeel:\n  cache.ttl: 10s\n  clients.billing.cache.ttl: 5s\n";
    /// let properties = Properties::parse(text, Format::Yaml, "application.yml")?;
    /// assert_eq!(properties.effective("billing").cache.ttl, Duration::from_secs(5));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Everything that is wrong at once, with the line where the format tells it.
    pub fn parse(text: impl AsRef<[u8]>, format: Format, name: &str) -> Result<Self, ConfigError> {
        Self::default().with_files(Files::of_text(text.as_ref(), format, name)?)
    }

    /// Reads a text in place of the file layer; environment, code and [`with_profiles`](Self::with_profiles) stay.
    ///
    /// So a text whose placeholders name variables is read after them, which [`parse`](Self::parse) does not know.
    ///
    /// ```
    /// # fn main() -> Result<(), evenkeel::config::ConfigError> {
    /// use evenkeel::config::{Format, Properties};
    ///
    /// let properties = Properties::default()
    ///     .with_environment([("ZONE", "eu-1a")])?
    ///     .with_text("evenkeel.zone: ${ZONE}", Format::Yaml, "application.yml")?;
    /// assert_eq!(properties.effective("orders").zone.as_deref(), Some("eu-1a"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_text(self, text: impl AsRef<[u8]>, format: Format, name: &str) -> Result<Self, ConfigError> {
        let files = Files::of_text(text.as_ref(), format, name)?;
        self.with_files(files)
    }

    /// Reads the file, and those of the active profiles beside it, in place of the file layer; environment, code and
    /// [`with_profiles`](Self::with_profiles) stay.
    pub fn with_file(self, path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let files = Files::read(path.as_ref())?;
        self.with_files(files)
    }
}

/// Reads the documents of one file.
pub(crate) fn read_file(path: &Path) -> Result<Vec<Document>, ConfigError> {
    let name: Arc<str> = path.display().to_string().into();
    let place = || Place::File { name: name.clone(), line: None };
    let format = Format::of_path(path).ok_or_else(|| {
        ConfigError::unreadable(place(), "unknown format; allowed: a file named .yml, .yaml, .toml or .json")
    })?;
    let mut bytes = Vec::new();
    // One byte more than allowed tells a text that is too large from one that just fits.
    File::open(path).and_then(|file| file.take(LARGEST as u64 + 1).read_to_end(&mut bytes)).map_err(
        |error| ConfigError::unreadable(place(), format!("cannot be read: {error}")).caused_by(error),
    )?;
    read_text(&bytes, format, &name)
}

/// Reads the documents of one text.
pub(crate) fn read_text(bytes: &[u8], format: Format, name: &Arc<str>) -> Result<Vec<Document>, ConfigError> {
    let unreadable =
        |line, why: String| ConfigError::unreadable(Place::File { name: name.clone(), line }, why);
    if bytes.len() > LARGEST {
        return Err(unreadable(None, format!("larger than {LARGEST} bytes")));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
        unreadable(Some(line), "not UTF-8".into())
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let documents = match format {
        Format::Yaml => yaml::read(text),
        Format::Toml => toml::read(text),
        Format::Json => json::read(text),
    }
    .map_err(|Unreadable { line, why }| unreadable(line, why))?;
    Ok(documents.iter().map(|document| Document::of(document, name)).collect())
}
