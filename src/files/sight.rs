//! The side of the watcher that blocks: it sets the watches and looks at the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::directories::Places;
use super::fingerprint::Fingerprint;

/// What events leave behind for the task that waits.
#[derive(Debug, Default)]
pub(super) struct Signal {
    pub(super) wake: Notify,
    /// Something happened to the file by name: it counts as changed even if it looks the same, since two writes within
    /// one tick of the file system's clock do.
    touched: AtomicBool,
    /// A look saw a change that nobody was told of.
    changed: AtomicBool,
    names: Mutex<Vec<PathBuf>>,
}

impl Signal {
    /// Whether a look saw a change since the last call.
    pub(super) fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::AcqRel)
    }

    fn event(&self, event: notify::Result<Event>) {
        match event {
            // Reading the file makes these; they would never end.
            Ok(event) if is_access(event.kind) => return,
            Ok(event) if !event.need_rescan() => {
                let names = self.names.lock();
                if event.paths.iter().any(|path| names.contains(path)) {
                    self.touched.store(true, Ordering::Release);
                }
            }
            // Events were lost, or the watch broke: look.
            Ok(_) => self.touched.store(true, Ordering::Release),
            Err(error) => tracing::debug!(%error, "a watch on files failed"),
        }
        self.wake.notify_one();
    }
}

fn is_access(kind: EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

/// The watches on the directories of one file.
#[derive(Debug)]
pub(super) struct Sight {
    path: PathBuf,
    signal: Arc<Signal>,
    /// `None` when the system gives no watch (their number is limited): then only the slow look is left.
    watcher: Option<RecommendedWatcher>,
    /// Each directory under watch, as it was then: one that was made again needs a new watch.
    watched: Vec<(PathBuf, Identity)>,
    last: Fingerprint,
}

impl Sight {
    /// Sets the watches; what happens to the file from now on is seen.
    pub(super) fn open(path: &Path, signal: Arc<Signal>, with_events: bool) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let events = Arc::clone(&signal);
        let watcher = with_events.then(|| notify::recommended_watcher(move |event| events.event(event)));
        let watcher = watcher.and_then(|watcher| {
            watcher
                .inspect_err(|error| {
                    tracing::warn!(path = %path.display(), %error, "no watch on this file, it is polled instead");
                })
                .ok()
        });
        let mut sight = Self { last: Fingerprint::of(&path), path, signal, watcher, watched: Vec::new() };
        sight.aim();
        sight.last = Fingerprint::of(&sight.path);
        sight
    }

    /// Notes in the signal whether the file is another one than at the last look.
    pub(super) fn look(&mut self) {
        // Before the look, so that an event in between makes for one look too many and not one too few.
        let touched = self.signal.touched.swap(false, Ordering::AcqRel);
        self.aim();
        let now = Fingerprint::of(&self.path);
        if touched || now != self.last {
            self.signal.changed.store(true, Ordering::Release);
        }
        self.last = now;
    }

    /// Watches the directories that count now, and no others.
    fn aim(&mut self) {
        let places = Places::of(&self.path);
        *self.signal.names.lock() = places.names;
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        let wanted: Vec<_> = places.directories.into_iter().map(|path| (Identity::of(&path), path)).collect();
        self.watched.retain(|(path, identity)| {
            let keep = wanted.iter().any(|(now, wanted)| wanted == path && now == identity);
            if !keep {
                // It is gone already when the directory is.
                let _ = watcher.unwatch(path);
            }
            keep
        });
        for (identity, path) in wanted {
            if self.watched.iter().any(|(known, _)| *known == path) {
                continue;
            }
            match watcher.watch(&path, RecursiveMode::NonRecursive) {
                Ok(()) => self.watched.push((path, identity)),
                Err(error) => tracing::debug!(path = %path.display(), %error, "no watch on this directory"),
            }
        }
    }
}

/// Tells a directory from one that was made again in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity(Option<(u64, u64)>);

impl Identity {
    #[cfg(unix)]
    fn of(path: &Path) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self(std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino())))
    }

    #[cfg(not(unix))]
    fn of(path: &Path) -> Self {
        Self(path.exists().then_some((0, 0)))
    }
}
