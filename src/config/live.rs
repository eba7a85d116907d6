//! Properties that change while the process runs.

use super::error::ConfigError;
use super::properties::Properties;
use std::sync::Arc;
use tokio::sync::watch;

/// The properties in force, replaced as a whole or not at all.
///
/// Readers take [`LiveProperties::current`], or follow [`LiveProperties::subscribe`]. Clones share one state. A
/// reload that fails keeps what is in force and logs one warning.
///
/// A file is best replaced by renaming a finished one over it: a half-written YAML can be a whole one, and an empty
/// one is.
///
/// ```
/// # fn main() -> Result<(), evenkeel::config::ConfigError> {
/// use evenkeel::config::{LiveProperties, Properties};
///
/// let live = LiveProperties::new(Properties::default());
/// let changed = live.reload(|current| current.clone().set("zone", "eu-1b"))?;
/// assert!(changed);
/// assert_eq!(live.current().effective("orders").zone.as_deref(), Some("eu-1b"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LiveProperties {
    sender: Arc<watch::Sender<Arc<Properties>>>,
}

impl LiveProperties {
    /// Starts from these.
    pub fn new(initial: Properties) -> Self {
        Self { sender: Arc::new(watch::Sender::new(Arc::new(initial))) }
    }

    /// The properties in force.
    pub fn current(&self) -> Arc<Properties> {
        self.sender.borrow().clone()
    }

    /// Follows the changes; the receiver holds the properties in force from the start.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Properties>> {
        self.sender.subscribe()
    }

    /// Puts these in force and says whether they differ from the ones before. Equal ones wake nobody.
    pub fn replace(&self, properties: Properties) -> bool {
        self.sender.send_if_modified(|current| {
            let changed = **current != properties;
            // Equal ones may have other lines and warnings, and what a later placeholder finds in them is another value.
            *current = Arc::new(properties);
            changed
        })
    }

    /// Makes new properties from those in force and puts them in their place; says whether anything changed.
    ///
    /// If `load` fails, what is in force stays, one warning is logged, and the error is returned. What others put in
    /// force while `load` runs is overwritten.
    pub fn reload<F>(&self, load: F) -> Result<bool, ConfigError>
    where
        F: FnOnce(&Properties) -> Result<Properties, ConfigError>,
    {
        // The clone frees the lock of the channel before foreign code runs.
        let current = self.current();
        match load(&current) {
            Ok(properties) => Ok(self.replace(properties)),
            Err(error) => {
                tracing::warn!(%error, "properties are not reloaded: the last good ones stay in force");
                Err(error)
            }
        }
    }

    /// Reads the file again, and those of the active profiles beside it, below the environment and code in force; says
    /// whether anything changed.
    ///
    /// The same promises as [`LiveProperties::reload`]. Reads the disk, so call it where that may block.
    #[cfg(feature = "config")]
    #[cfg_attr(docsrs, doc(cfg(feature = "config")))]
    pub fn reload_file(&self, path: impl AsRef<std::path::Path>) -> Result<bool, ConfigError> {
        self.reload(|current| current.clone().with_file(path))
    }

    /// The same; returns the files to follow, those of a reload that failed as well, since one of them may be what has to
    /// be mended, and why it failed. No files if the first cannot be read.
    #[cfg(feature = "file")]
    pub(crate) fn reload_paths(
        &self,
        path: &std::path::Path,
    ) -> (Option<Vec<std::path::PathBuf>>, Option<ConfigError>) {
        let mut paths = None;
        let reloaded = self.reload(|current| {
            let properties = current.clone().with_file(path)?;
            paths = Some(properties.paths());
            Ok(properties)
        });
        // The error was logged.
        let error = reloaded.err();
        let paths = paths.filter(|_| error.is_none()).or_else(|| self.current().paths_of(path));
        (paths, error)
    }
}
