//! The one reader that all clones and streams of a source share.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use super::format::{Note, Registry};
use super::load::Source;
use crate::discovery::{HealthRecord, SupplyError, SupplyErrorKind};
use crate::files::{FileWatcher, WatchSettings};

/// What is known of the file.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// What it held when it could be read for the last time.
    pub(super) good: Option<Arc<Registry>>,
    /// Why it cannot be read now.
    pub(super) trouble: Option<SupplyError>,
}

impl State {
    /// Whether it was read, well or not.
    pub(super) fn is_known(&self) -> bool {
        self.good.is_some() || self.trouble.is_some()
    }
}

/// Owns the task that reads the file; the task ends with it.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) source: Arc<Source>,
    pub(super) state: watch::Sender<State>,
    pub(super) health: HealthRecord,
    settings: WatchSettings,
    pub(super) runtime: Option<Handle>,
    task: Mutex<Option<JoinHandle<()>>>,
    /// What was warned of and still holds, so that it is said once and not on every change of the file.
    warned: Mutex<HashSet<String>>,
}

impl Reader {
    pub(super) fn new(source: Source, settings: WatchSettings, runtime: Option<Handle>) -> Self {
        Self {
            runtime,
            source: Arc::new(source),
            state: watch::Sender::new(State::default()),
            health: HealthRecord::default(),
            settings,
            task: Mutex::default(),
            warned: Mutex::default(),
        }
    }

    /// Starts the task unless it runs: at the first use, and again after its runtime went away.
    pub(super) fn ensure_running(self: &Arc<Self>) -> Result<(), SupplyError> {
        let mut task = self.task.lock();
        if task.as_ref().is_some_and(|task| !task.is_finished()) {
            return Ok(());
        }
        let Some(runtime) = self.runtime.clone().or_else(|| Handle::try_current().ok()) else {
            let message = "it is used outside of a tokio runtime";
            return Err(SupplyError::new(SupplyErrorKind::Aborted, self.source.origin(), message));
        };
        *task =
            Some(runtime.spawn(run(Guard(Arc::downgrade(self)), Arc::clone(&self.source), self.settings)));
        Ok(())
    }

    /// What the file held last, once it was read.
    pub(super) async fn registry(self: &Arc<Self>) -> Result<Arc<Registry>, SupplyError> {
        self.ensure_running()?;
        let mut changes = self.state.subscribe();
        let state = match changes.wait_for(State::is_known).await {
            Ok(state) => state.clone(),
            Err(_) => State::default(),
        };
        match (state.good, state.trouble) {
            (Some(good), _) => Ok(good),
            (None, Some(trouble)) => Err(trouble),
            // The sender is gone: cannot be, `self` holds it.
            (None, None) => Err(SupplyError::new(SupplyErrorKind::Ended, self.source.origin(), "")),
        }
    }

    /// Takes in the result of a read; `true` if the file is to be read again though it may not change.
    fn publish(&self, loaded: Result<Registry, SupplyError>) -> bool {
        let loaded = self.health.record(loaded);
        let retry = loaded.as_ref().is_err_and(|error| error.kind() != SupplyErrorKind::Invalid);
        match loaded {
            Ok(registry) => {
                self.warn(&registry.notes);
                self.state.send_modify(|state| {
                    if state.trouble.take().is_some() {
                        tracing::info!(path = %self.source.shown, "the registry file can be read again");
                    }
                    state.good = Some(Arc::new(registry));
                });
            }
            Err(error) => {
                self.state.send_if_modified(|state| {
                    let same = |old: &SupplyError| old.to_string() == error.to_string();
                    if state.trouble.as_ref().is_some_and(same) {
                        return false;
                    }
                    let kept = state.good.is_some();
                    tracing::warn!(%error, kept, "the registry file cannot be read");
                    state.trouble = Some(error);
                    true
                });
            }
        }
        retry
    }

    fn warn(&self, notes: &[Note]) {
        let mut warned = self.warned.lock();
        for note in notes.iter().filter(|note| !warned.contains(&note.text)) {
            tracing::warn!(path = %self.source.shown, line = note.line, note = %note.text, "an entry of the registry file is doubtful");
        }
        *warned = notes.iter().map(|note| note.text.clone()).collect();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut() {
            task.abort();
        }
    }
}

/// Tells the reader when its task ends though it should not: a panic, or a runtime that shuts down.
struct Guard(Weak<Reader>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(reader) = self.0.upgrade() {
            let kind =
                if std::thread::panicking() { SupplyErrorKind::Panicked } else { SupplyErrorKind::Aborted };
            reader.publish(Err(SupplyError::new(kind, reader.source.origin(), "its reader ended")));
        }
    }
}

/// How long the file system may take before that is told. A mount whose server is away may hang for hours, and the
/// thread that waits for it cannot be stopped.
const READ_LIMIT: Duration = Duration::from_secs(10);

impl Guard {
    /// Waits for work on the file; tells if it takes too long, and `None` once nobody wants it.
    async fn patiently<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        loop {
            if let Ok(done) = timeout(READ_LIMIT, work.as_mut()).await {
                return Some(done);
            }
            let reader = self.0.upgrade()?;
            let message = format!("the file system did not answer within {READ_LIMIT:?}");
            reader.publish(Err(SupplyError::new(SupplyErrorKind::Timeout, reader.source.origin(), message)));
        }
    }
}

async fn run(reader: Guard, source: Arc<Source>, settings: WatchSettings) {
    let Some(Ok(mut watcher)) = reader.patiently(FileWatcher::start(&source.path, settings)).await else {
        return;
    };
    loop {
        let reading = Arc::clone(&source);
        let Some(loaded) = reader.patiently(spawn_blocking(move || reading.load())).await else {
            return;
        };
        let loaded = loaded.unwrap_or_else(|error| {
            let kind = if error.is_panic() { SupplyErrorKind::Panicked } else { SupplyErrorKind::Aborted };
            Err(SupplyError::new(kind, source.origin(), "the read of the file did not end"))
        });
        let Some(alive) = reader.0.upgrade() else {
            return;
        };
        let retry = alive.publish(loaded);
        drop(alive);
        if retry {
            // What keeps a file from being read need not touch it: a mount that is away, a limit on open files.
            let _ = timeout(settings.poll, watcher.changed()).await;
        } else {
            watcher.changed().await;
        }
    }
}
