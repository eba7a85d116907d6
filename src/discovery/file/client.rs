use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;
use tokio::runtime::Handle;

use super::FileFormat;
use super::load::Source;
use super::reader::Reader;
use super::stream::Subscription;
use crate::discovery::{DiscoveryClient, Lists, SourceHealth, SupplyError};
use crate::files::WatchSettings;
use crate::{ServiceId, ServiceInstance};

/// A source that reads a file in YAML, TOML or JSON, and reads it again when it changes.
///
/// ```yaml
/// services:
///   orders:
///     - id: a                      # default: host:port
///       host: 10.0.0.1
///       port: 8080                 # default: that of the scheme
///       secure: false              # default: the request decides
///       zone: eu-1a
///       weight: 1.5
///       status: up                 # up, degraded, draining, down
///       priority: 0
///       metadata: {version: 1.10}  # kept as it is written
///     - uri: https://10.0.0.2:8443 # instead of host and port
///     - 10.0.0.3:8080              # short for a uri
///   users: []                      # truly nobody
/// ```
///
/// The map `services` may be left out, so that the services stand at the top; a service may be a map with a list
/// `instances`. TOML and JSON have the same shape.
///
/// * **A list**: what the file says. An entry that cannot be called (port 0, `80a`, a host that is none) is left out
///   with one warning, which names service and id. Names are compared without case.
/// * **Truly empty**: the file can be read and names nobody for the service, or does not know it.
/// * **No answer**: the file is missing, unreadable, empty (0 bytes: somebody is about to write it), broken or cut
///   short. The lists of the last good state stay and are given on; [`health`](DiscoveryClient::health) is failing, a
///   watch tells the error, and it is logged once with path, line and column. If the file could never be read, each
///   call is an error.
///
/// **Changes.** The directory is watched, so that a rename over the file and the swap of a symlink (a mounted
/// `ConfigMap`) are seen, also if the file is missing at first. A change counts 50 ms after the last event; write
/// another file and rename it over this one, and nobody ever meets a half. Without events (network mounts) the file is
/// looked at every 5 s.
///
/// Clones and streams share one reader, a task that starts at the first use and ends with the last of them. At most
/// 64 MiB are read.
///
/// ```no_run
/// use evenkeel::discovery::{DiscoveryClient, FileDiscovery};
/// use evenkeel::ServiceId;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let discovery = FileDiscovery::new("registry.yml");
/// let orders = discovery.instances(&ServiceId::new("orders")?).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct FileDiscovery {
    name: String,
    settings: WatchSettings,
    reader: Arc<Reader>,
}

impl FileDiscovery {
    /// A source for the file at `path`, which need not exist yet; its extension names the format
    /// ([`FileFormat::of`]). Nothing is read before the first use.
    ///
    /// A relative path is taken from the directory in which the process is now.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let source = Source {
            shown: path.display().to_string(),
            format: FileFormat::of(&path),
            path: std::path::absolute(&path).unwrap_or(path),
        };
        Self::of(source, WatchSettings::default())
    }

    fn of(source: Source, settings: WatchSettings) -> Self {
        Self { name: source.origin(), settings, reader: Arc::new(Reader::new(source, settings, None)) }
    }

    /// The same source with other settings, whose reader is one of its own.
    fn again(self, change: impl FnOnce(&mut Source, &mut WatchSettings, &mut Option<Handle>)) -> Self {
        let (mut source, mut settings) = (Source::clone(&self.reader.source), self.settings);
        let mut runtime = self.reader.runtime.clone();
        change(&mut source, &mut settings, &mut runtime);
        Self { name: self.name, settings, reader: Arc::new(Reader::new(source, settings, runtime)) }
    }

    /// The format (default: as the extension says).
    #[must_use]
    pub fn with_format(self, format: FileFormat) -> Self {
        self.again(|source, _, _| source.format = format)
    }

    /// How often the file is looked at without an event (default 5 s, at least 10 ms).
    #[must_use]
    pub fn with_poll_interval(self, interval: Duration) -> Self {
        self.again(|_, settings, _| settings.poll = interval)
    }

    /// How long it must be quiet after an event before the file is read (default 50 ms, at most a minute; ten times
    /// as long is waited for that).
    #[must_use]
    pub fn with_settle_time(self, time: Duration) -> Self {
        self.again(|_, settings, _| settings.settle = time)
    }

    /// Whether the system is asked for events (default: yes); without, changes are seen by the poll interval alone.
    #[must_use]
    pub fn with_events(self, events: bool) -> Self {
        self.again(|_, settings, _| settings.events = events)
    }

    /// The runtime whose task reads the file (default: that of the first caller).
    #[must_use]
    pub fn with_runtime(self, handle: Handle) -> Self {
        self.again(|_, _, runtime| *runtime = Some(handle))
    }
}

#[async_trait]
impl DiscoveryClient for FileDiscovery {
    fn name(&self) -> &str {
        &self.name
    }

    async fn instances(&self, service: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError> {
        let registry = self.reader.registry().await.map_err(|error| error.of_service(service))?;
        Ok(registry.list(service).to_vec())
    }

    fn watch(&self, service: &ServiceId) -> Option<Lists> {
        let subscription = Subscription::new(Arc::clone(&self.reader), service.clone());
        Some(Box::pin(stream::unfold(subscription, Subscription::next)))
    }

    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        let registry = self.reader.registry().await?;
        let mut names: Vec<ServiceId> = registry.lists.keys().cloned().collect();
        names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        Ok(names)
    }

    fn health(&self) -> SourceHealth {
        self.reader.health.get()
    }
}
