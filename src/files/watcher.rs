use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout, timeout_at};

use super::sight::{Sight, Signal};

/// The times of a [`FileWatcher`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchSettings {
    /// How long it must be quiet before a change is told (default 50 ms): a file written in pieces is told of once.
    ///
    /// Longer than a writer's pauses between two pieces, shorter than anybody waits for. A file that never rests is
    /// told of after ten times as long.
    pub(crate) settle: Duration,
    /// How often the file is looked at without an event (default 5 s), for mounts that send none.
    pub(crate) poll: Duration,
    /// Whether the system is asked for events (default: yes).
    pub(crate) events: bool,
}

/// A poll of no time at all would keep a thread busy.
const SHORTEST_POLL: Duration = Duration::from_millis(10);

/// Nobody waits longer for a change; and a clock could not count it ten times over.
const LONGEST_SETTLE: Duration = Duration::from_secs(60);

impl Default for WatchSettings {
    fn default() -> Self {
        Self { settle: Duration::from_millis(50), poll: Duration::from_secs(5), events: true }
    }
}

/// Tells when a file was changed, replaced, removed or made; see the [module](super).
///
/// The file need not exist. Its watches end when it is dropped. All file access is off the async workers.
#[derive(Debug)]
pub(crate) struct FileWatcher {
    sight: Arc<Mutex<Sight>>,
    signal: Arc<Signal>,
    settings: WatchSettings,
    /// Kept here so that [`changed`](Self::changed) can be cancelled.
    pending: Option<Pending>,
}

impl FileWatcher {
    /// Watches `path`; when this returns, no later change is missed.
    ///
    /// # Errors
    /// Only when the runtime shuts down; without watches from the system the file is looked at each `poll`.
    pub(crate) async fn start(path: impl Into<PathBuf>, settings: WatchSettings) -> io::Result<Self> {
        let path = path.into();
        let settings = WatchSettings {
            settle: settings.settle.min(LONGEST_SETTLE),
            poll: settings.poll.max(SHORTEST_POLL),
            ..settings
        };
        let signal = Arc::new(Signal::default());
        let events = Arc::clone(&signal);
        let sight = spawn_blocking(move || Sight::open(&path, events, settings.events))
            .await
            .map_err(io::Error::other)?;
        Ok(Self { sight: Arc::new(Mutex::new(sight)), signal, settings, pending: None })
    }

    /// Waits for the next change. May tell of one more than there were, never of one less; safe to cancel.
    pub(crate) async fn changed(&mut self) {
        let settle = self.settings.settle;
        // A look whose caller was cancelled left what it saw in the signal.
        while !self.signal.take_changed() {
            let mut pending = if let Some(pending) = self.pending {
                pending
            } else {
                // A time-out is the slow look.
                let _ = timeout(self.settings.poll, self.signal.wake.notified()).await;
                let now = Instant::now();
                *self.pending.insert(Pending { quiet: now + settle, enough: now + settle * 10 })
            };
            while Instant::now() < pending.enough
                && timeout_at(pending.quiet, self.signal.wake.notified()).await.is_ok()
            {
                pending.quiet = (Instant::now() + settle).min(pending.enough);
                self.pending = Some(pending);
            }
            let sight = Arc::clone(&self.sight);
            let _ = spawn_blocking(move || sight.lock().look()).await;
            self.pending = None;
        }
    }
}

/// Somebody was woken and did not look yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    /// When it was quiet for long enough, if nothing more happens.
    quiet: Instant,
    /// When to look even if it never gets quiet.
    enough: Instant,
}
