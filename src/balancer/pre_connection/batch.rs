use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use super::{ConnectError, PreConnection};
use crate::observe::{ChangeKind, millis};
use crate::state::{InstanceState, ServiceState};

/// The pause after the first try; after each further one it is longer by this.
const PAUSE: Duration = Duration::from_millis(100);

/// The instances that came with one list.
pub(super) struct Batch {
    service: Arc<ServiceState>,
    settings: PreConnection,
    entries: Vec<Entry>,
    began: Instant,
    /// How many of them left, and how many of the others are connected.
    left: AtomicUsize,
    connected: AtomicUsize,
    /// Enough are connected, or they are waited for no longer.
    let_in: AtomicBool,
    over: AtomicBool,
}

/// One of them.
struct Entry {
    state: Arc<InstanceState>,
    /// Calls went to others when this began.
    held: bool,
    gone: AtomicBool,
    leaves: Notify,
    tries: Mutex<Tries>,
}

/// How often it was tried in vain, and why the last time.
#[derive(Clone, Debug, Default)]
pub(in crate::balancer) struct Tries {
    pub(in crate::balancer) failed: u32,
    pub(in crate::balancer) last: Option<String>,
    connected: bool,
}

impl Batch {
    /// `hold`: calls go to others until they are connected.
    pub(super) fn new(
        service: &Arc<ServiceState>,
        settings: &PreConnection,
        states: Vec<Arc<InstanceState>>,
        hold: bool,
    ) -> Self {
        let limit = settings.properties.timeout;
        let entry = |state: Arc<InstanceState>| Entry {
            held: hold && state.hold(limit),
            state,
            gone: AtomicBool::new(false),
            leaves: Notify::new(),
            tries: Mutex::default(),
        };
        Self {
            service: Arc::clone(service),
            settings: settings.clone(),
            entries: states.into_iter().map(entry).collect(),
            began: Instant::now(),
            left: AtomicUsize::new(0),
            connected: AtomicUsize::new(0),
            let_in: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Lets go of those who are no longer listed; `is_there` by uid.
    pub(super) fn keep(&self, is_there: impl Fn(u64) -> bool) {
        let mut changed = false;
        for entry in self.entries.iter().filter(|entry| !is_there(entry.state.uid())) {
            {
                let tries = entry.tries.lock();
                if entry.gone.swap(true, Ordering::AcqRel) {
                    continue;
                }
                self.left.fetch_add(1, Ordering::AcqRel);
                self.connected.fetch_sub(usize::from(tries.connected), Ordering::AcqRel);
            }
            changed |= entry.state.end_hold();
            entry.leaves.notify_one();
        }
        self.tell_if(changed);
    }

    /// Those who are still held get calls from now on.
    pub(super) fn let_in(&self) {
        self.let_in.store(true, Ordering::Release);
        // Who left may be back in a later batch, which holds it now.
        let ended = self.listed().filter(|entry| entry.held && entry.state.end_hold()).count();
        self.tell_if(ended > 0);
    }

    /// Those who did not leave.
    fn listed(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| !entry.gone.load(Ordering::Acquire))
    }

    fn tell_if(&self, changed: bool) {
        if changed {
            self.service.fitness_changed();
        }
    }

    /// What was tried in vain, by uid, of those who are held.
    pub(super) fn tries(&self) -> impl Iterator<Item = (u64, Tries)> {
        let held = self.listed().filter(|entry| entry.state.is_connecting());
        held.map(|entry| (entry.state.uid(), entry.tries.lock().clone()))
    }

    /// Says that it begins.
    pub(super) fn note(&self) {
        let calls = if self.entries.iter().any(|entry| entry.held) {
            "calls go to others until then"
        } else {
            "they get calls meanwhile"
        };
        let detail = format!("{} new to connect: {calls}", self.entries.len());
        self.service.note(ChangeKind::Connecting, None, detail);
    }

    /// Tries of one came to an end.
    fn came(&self, entry: &Entry, is_connected: bool) {
        {
            let mut tries = entry.tries.lock();
            if entry.gone.load(Ordering::Acquire) {
                return;
            }
            tries.connected = is_connected;
            self.connected.fetch_add(usize::from(is_connected), Ordering::AcqRel);
        }
        self.tell_if(entry.held && entry.state.end_hold());
    }

    /// Whether so many are connected that all of them get calls.
    fn has_enough(&self) -> bool {
        let listed = self.entries.len() - self.left.load(Ordering::Acquire);
        self.connected.load(Ordering::Acquire) >= share(listed, self.settings.properties.ratio)
    }

    /// Tries until the instance is connected, which is `Some(true)`, or no more is to be tried; `None` if it left.
    async fn connect(&self, entry: &Entry, gate: &Semaphore) -> Option<bool> {
        tokio::select! {
            biased;
            () = entry.leaves.notified() => None,
            connected = self.try_to(entry, gate) => Some(connected),
        }
    }

    async fn try_to(&self, entry: &Entry, gate: &Semaphore) -> bool {
        let properties = &self.settings.properties;
        for attempt in 0..=properties.max_retries {
            if attempt > 0 {
                sleep(PAUSE.saturating_mul(attempt)).await;
            }
            // Nobody closes it.
            let Ok(_turn) = gate.acquire().await else { return false };
            if entry.held && !entry.state.is_connecting() && !self.let_in.load(Ordering::Acquire) {
                // A call went there anyway, and was answered.
                return true;
            }
            let connecting = self.settings.connector.connect(&entry.state, &properties.path);
            match limited(properties.connect_timeout, connecting).await {
                Ok(()) => return true,
                Err(error) => self.failed(entry, attempt.saturating_add(1), error.to_string()),
            }
        }
        false
    }

    /// How it ended, of those who are still listed.
    fn tell(&self) {
        let (mut instances, mut connected, mut why) = (0_usize, 0_usize, None);
        for entry in self.listed() {
            instances += 1;
            let tries = entry.tries.lock();
            connected += usize::from(tries.connected);
            if !tries.connected && why.is_none() {
                let last = tries.last.as_deref().unwrap_or("no answer yet");
                why = Some(format!("; {} is not: {last}", entry.state.instance()));
            }
        }
        if instances == 0 {
            return;
        }
        let elapsed_ms = millis(self.began.elapsed());
        let why = why.unwrap_or_default();
        let detail = format!("{connected} of {instances} connected after {elapsed_ms} ms{why}");
        self.service.note(ChangeKind::Connected, None, detail);
        if let Some(passed) = self.service.logs().connected.pass() {
            let (service, suppressed) = (self.service.id(), passed.suppressed());
            tracing::info!(%service, instances, connected, elapsed_ms, suppressed, "new instances were connected");
        }
    }

    fn failed(&self, entry: &Entry, attempt: u32, error: String) {
        let (service, instance) = (self.service.id(), entry.state.instance());
        tracing::debug!(%service, %instance, attempt, %error, "a new instance could not be connected");
        *entry.tries.lock() = Tries { failed: attempt, last: Some(error), connected: false };
    }
}

/// A batch whose task runs; without it nobody of the batch is held, whatever became of the task.
pub(super) struct Running(pub(super) Arc<Batch>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
        self.0.let_in();
    }
}

/// Connects a batch: whoever is connected gets calls, and so does who is tried no more; all do when enough are connected, or
/// the time is over.
pub(super) async fn run(running: Running, gate: Arc<Semaphore>) {
    let (batch, gate) = (&*running.0, &*gate);
    let mut limit = pin!(sleep(batch.settings.properties.timeout));
    let mut all: FuturesUnordered<_> =
        batch.entries.iter().map(|entry| async move { (entry, batch.connect(entry, gate).await) }).collect();
    loop {
        tokio::select! {
            biased;
            next = all.next() => match next {
                None => break,
                Some((entry, Some(is_connected))) => batch.came(entry, is_connected),
                // It left.
                Some((_, None)) => {}
            },
            () = &mut limit => break,
        }
        if batch.has_enough() {
            batch.let_in();
        }
    }
    batch.let_in();
    batch.tell();
}

/// One try: bounded, and a panic of somebody's code is one that failed.
async fn limited(
    limit: Duration,
    connecting: impl Future<Output = Result<(), ConnectError>>,
) -> Result<(), ConnectError> {
    match timeout(limit, AssertUnwindSafe(connecting).catch_unwind()).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err("a panic of what connects".into()),
        Err(_) => Err(format!("no connection within {} ms", limit.as_millis()).into()),
    }
}

/// `part` of `of`, rounded down.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a part of a count
pub(super) fn share(of: usize, part: f64) -> usize {
    ((of as f64 * part.clamp(0.0, 1.0)) as usize).min(of)
}
