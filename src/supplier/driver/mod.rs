//! Who drives a supplier's stream: one task per look-up for a pull source, one resident task for a watch, none otherwise.
//!
//! `freshness` is the byte that a pick reads; `look_up` the task; `answer` what an answer, or none, does to the list.

mod answer;
mod backstop;
mod callers;
mod disk;
mod doubt;
mod freshness;
mod look_up;
mod ready;
mod settings;
mod sight;

use std::borrow::Cow;
use std::sync::{Arc, Weak};
use std::task::Wake;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::ServiceInstanceListSupplier;
use crate::ServiceInstance;
use crate::alarm::Alarm;
use crate::discovery::{SourceHealth, SourceState, SupplyError};
use crate::limit::Limit;
use crate::random::Random;
use crate::state::ChangeKind;
use backstop::Backstop;
pub(crate) use freshness::{Freshness, Word};
pub(crate) use settings::Settings;
pub(crate) use sight::Sight;

/// Where the list at hand came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// A look-up.
    Pull,
    /// A watch, which confirms it as long as it is open.
    Push,
    /// The source gives an empty answer, which the empty guard does not believe yet.
    Guarded,
    /// The last look-up failed, or the watch broke: this is the list from before.
    Stale,
    /// A file of an earlier process; nothing was heard from the source yet.
    Disk,
}

/// How a look-up ended, or that a watch broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookUp {
    List,
    Empty,
    Timeout,
    Failed,
    Aborted,
    WatchBroke,
}

impl LookUp {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Empty => "empty",
            Self::Timeout => "timeout",
            Self::Failed => "failed",
            Self::Aborted => "aborted",
            Self::WatchBroke => "watch_broke",
        }
    }
}

/// What takes the lists: a balancer, or a stream of lists.
pub(crate) trait Publish: Send + Sync + 'static {
    /// Takes a complete list as the source gave it, seen at `now`; whether it says anything new.
    fn publish(&self, list: Vec<ServiceInstance>, origin: Origin, now: Instant) -> bool;
    /// The list stands, but its origin changed.
    fn mark(&self, origin: Origin);
    /// Runs the stages again on the newest list.
    fn recompute(&self);
    /// Tells the stages that somebody is there again.
    fn wake(&self);
    /// Tells the stages that nobody will be there again.
    fn close(&self);
    /// Forgets the list: it is too old to be served.
    fn clear(&self);
    /// Whether a list with an instance is at hand; `None` when there is no list at all.
    fn has_instances(&self) -> Option<bool>;
    /// The newest list as the source gave it, if it is to be kept over a restart.
    fn raw(&self) -> Vec<ServiceInstance>;
    /// Look-ups run on this runtime.
    fn run_on(&self, runtime: &Handle);
    /// A look-up ended so.
    fn looked_up(&self, end: LookUp);
    /// Something changed that who asks what happened wants to know.
    fn note(&self, kind: ChangeKind, instance: Option<&ServiceInstance>, detail: Cow<'static, str>) {
        let _ = (kind, instance, detail);
    }
}

/// Keeps the list of one service and hands it to `P`.
pub(crate) struct Driver<P> {
    pub(crate) word: Freshness,
    pub(crate) publish: P,
    backstop: Backstop,
    base: Arc<dyn ServiceInstanceListSupplier>,
    runtime: Option<Handle>,
    /// Counts look-ups that ended; whoever waits for one waits for this.
    epoch: watch::Sender<u64>,
    alarm: Alarm,
    control: Mutex<Control>,
    random: Random,
    logs: Logs,
}

/// How often what may be logged.
struct Logs {
    /// The source gives no answer, or does again.
    answers: Limit,
    /// The empty guard is on, or off.
    guard: Limit,
    aborted: Limit,
    stage: Limit,
}

struct Control {
    settings: Arc<Settings>,
    /// `None`: the last look-up gave an answer.
    last_error: Option<SupplyError>,
    failures: u32,
    /// When it failed last, and when it is asked again.
    failed: Option<(Instant, Option<Instant>)>,
    confirmed: Option<Instant>,
    /// Past this the list at hand is not served without waiting.
    limit: Option<Instant>,
    empty_since: Option<Instant>,
    task: Option<JoinHandle<()>>,
    runtime: Option<Handle>,
    /// Nothing runs until the back-off is over, and there is no list.
    backing_off: bool,
    /// A stage rests until somebody calls.
    wake: bool,
    /// When the question whether anybody calls was asked, or last answered.
    used: Instant,
    /// When a call that could not be sent last made the source look.
    poked: Option<Instant>,
    /// A source with an open watch that is told to look.
    poking: Option<JoinHandle<()>>,
}

impl Control {
    /// The watch ends here. It confirmed its list until now, unless it had broken or gives an empty one: age starts now,
    /// and not when the list last changed.
    fn confirmed_until_now(&mut self) {
        if self.confirmed.is_some() && self.last_error.is_none() && self.empty_since.is_none() {
            let now = Instant::now();
            self.confirmed = Some(now);
            self.limit = now.checked_add(self.settings.hard_age);
        }
    }
}

/// Why a pick cannot be served at once.
pub(crate) enum Unready {
    /// Wait for the look-up.
    Wait,
    /// The source gave no answer and is left alone for a while.
    Failed(SupplyError),
    Closed,
    /// There is no runtime to look up on.
    NoRuntime,
    /// The wait was longer than `choose-timeout`.
    Timeout(Duration),
}

impl<P: Publish> Driver<P> {
    pub(crate) fn new(
        base: Arc<dyn ServiceInstanceListSupplier>,
        settings: Settings,
        runtime: Option<Handle>,
        seed: Option<u64>,
        publish: P,
    ) -> Self {
        Self {
            word: Freshness::new(),
            publish,
            backstop: Backstop::new(),
            base,
            runtime,
            epoch: watch::Sender::new(0),
            alarm: Alarm::default(),
            control: Mutex::new(Control {
                settings: Arc::new(settings),
                last_error: None,
                failures: 0,
                failed: None,
                confirmed: None,
                limit: None,
                empty_since: None,
                task: None,
                runtime: None,
                backing_off: false,
                wake: false,
                used: Instant::now(),
                poked: None,
                poking: None,
            }),
            random: Random::new(seed),
            logs: Logs {
                answers: Limit::changes(),
                guard: Limit::changes(),
                aborted: Limit::faults(),
                stage: Limit::faults(),
            },
        }
    }

    pub(crate) fn base(&self) -> &dyn ServiceInstanceListSupplier {
        &*self.base
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.control.lock().settings)
    }

    /// Replaces the settings; a list that is older than the new TTL is looked up again.
    pub(crate) fn reconfigure(self: &Arc<Self>, settings: Settings) {
        let (old, settings, confirmed, rearm) = {
            let mut control = self.control.lock();
            if *control.settings == settings {
                return;
            }
            let old = std::mem::replace(&mut control.settings, Arc::new(settings));
            let settings = Arc::clone(&control.settings);
            let rearm = match (control.confirmed, &control.last_error, self.word.load().is_busy()) {
                (Some(confirmed), None, false) => {
                    // An empty list keeps its short life.
                    let empty = self.publish.has_instances() == Some(false);
                    control.limit = confirmed.checked_add(settings.hard_age).filter(|_| !empty);
                    let (life, expires) = match (empty, settings.caching) {
                        (true, _) => (settings.empty_life, true),
                        (false, true) => (settings.ttl, settings.refresh_waits),
                        (false, false) => (Duration::ZERO, true),
                    };
                    Some((life.saturating_sub(confirmed.elapsed()), expires))
                }
                _ => None,
            };
            (old, settings, control.confirmed.is_some(), rearm)
        };
        // Without the lock: a stage that runs under the board's may ask for ours.
        if let Some(dir) = settings.disk.as_ref().filter(|dir| confirmed && old.disk.as_ref() != Some(dir)) {
            // The list that is known is wanted there, not only the next one that differs.
            if self.publish.has_instances() == Some(true) {
                disk::save(dir, self.base.service_id(), self.publish.raw());
            }
        }
        if let Some((left, expires)) = rearm {
            self.ring(left, expires);
        }
    }

    /// What a pick does when the word wants attention. `Ok`: serve the list at hand.
    #[cold]
    pub(crate) fn attend(self: &Arc<Self>, word: Word) -> Result<(), Unready> {
        if word.is_closed() {
            return Err(Unready::Closed);
        }
        if word.asks_whether_idle() {
            self.word.in_use();
            self.seen();
        }
        if word.is_solo() && !word.is_busy() {
            match self.backstop.check() {
                Some(true) => self.word.expire(),
                Some(false) => self.word.due(),
                None => {}
            }
        }
        let mut kicked = Ok(());
        if self.word.load().is_due() {
            kicked = self.kick();
        }
        let word = self.word.load();
        if !word.must_wait() {
            return Ok(());
        }
        kicked?;
        if !word.is_busy() || self.control.lock().backing_off {
            let control = self.control.lock();
            if let (true, Some(error)) = (control.backing_off, &control.last_error) {
                return Err(Unready::Failed(error.clone()));
            }
        }
        Err(Unready::Wait)
    }

    /// Starts the look-up that is due, on the injected runtime or on the caller's.
    pub(crate) fn kick(self: &Arc<Self>) -> Result<(), Unready> {
        let Some(runtime) = self.runtime.clone().or_else(|| Handle::try_current().ok()) else {
            return Err(Unready::NoRuntime);
        };
        let solo = runtime.runtime_flavor() == RuntimeFlavor::CurrentThread;
        if !self.word.start(solo) {
            return Ok(());
        }
        self.publish.run_on(&runtime);
        {
            let mut control = self.control.lock();
            control.runtime = Some(runtime.clone());
            control.backing_off = false;
            control.used = Instant::now();
            if control.limit.is_some_and(|limit| Instant::now() >= limit) {
                self.word.expire();
            }
        }
        let task = runtime.spawn(look_up::run(look_up::Guard::new(self)));
        let old = self.control.lock().task.replace(task);
        drop(old);
        self.unless_closed();
        Ok(())
    }

    fn outcome(&self) -> Result<(), SupplyError> {
        self.control.lock().last_error.clone().map_or(Ok(()), Err)
    }

    /// Why the last look-up gave no answer, if it did not.
    pub(crate) fn last_error(&self) -> Option<SupplyError> {
        self.control.lock().last_error.clone()
    }

    /// How the source is doing, as far as this service's answers tell.
    pub(crate) fn source_health(&self) -> SourceHealth {
        let watching = self.word.load().is_watching();
        let control = self.control.lock();
        SourceHealth {
            state: match (&control.last_error, control.confirmed) {
                (Some(_), _) => SourceState::Failing,
                (None, Some(_)) => SourceState::Healthy,
                (None, None) => SourceState::Unknown,
            },
            last_ok: if watching && control.last_error.is_none() {
                Some(Instant::now())
            } else {
                control.confirmed
            },
            last_error: control.last_error.clone(),
            failures: control.failures,
        }
    }

    pub(crate) fn epochs(&self) -> watch::Receiver<u64> {
        self.epoch.subscribe()
    }

    fn ended(&self) {
        self.epoch.send_modify(|epoch| *epoch += 1);
    }

    /// Arms the one timer: then a look-up is due, or (`expires`) the list may not be served.
    fn ring(self: &Arc<Self>, after: Duration, expires: bool) {
        self.backstop.arm(after, expires);
        let runtime = self.control.lock().runtime.clone();
        match runtime {
            Some(runtime) => {
                self.alarm.arm(&runtime, after, Arc::new(Ring { driver: Arc::downgrade(self), expires }));
            }
            None => self.rang(expires),
        }
    }

    fn rang(&self, expires: bool) {
        if expires {
            self.word.expire();
        } else {
            self.word.due();
        }
        // A stream of lists waits for this too: it is a caller.
        if self.word.load().is_due() {
            self.epoch.send_modify(|_| {});
        }
    }

    fn stop_ringing(&self) {
        self.backstop.disarm();
        self.alarm.cancel();
    }

    /// No look-up, no timer and no watch from here on. Bounded: the task is cut off, not waited for without end.
    pub(crate) async fn close(&self) {
        let task = self.shut();
        if let Some(task) = task {
            // A task that is stopped inside a blocking call ends when that does; a second is all it gets.
            let _ = tokio::time::timeout(Duration::from_secs(1), task).await;
        }
    }

    /// The same without waiting for the task to be gone.
    pub(crate) fn shut(&self) -> Option<JoinHandle<()>> {
        self.word.close();
        self.stop_ringing();
        self.publish.close();
        let (task, poking) = {
            let mut control = self.control.lock();
            (control.task.take(), control.poking.take())
        };
        for task in [&task, &poking].into_iter().flatten() {
            task.abort();
        }
        self.ended();
        task
    }
}

impl<P> Drop for Driver<P> {
    fn drop(&mut self) {
        let control = self.control.get_mut();
        for task in [control.task.take(), control.poking.take()].into_iter().flatten() {
            task.abort();
        }
    }
}

struct Ring<P> {
    driver: Weak<Driver<P>>,
    expires: bool,
}

impl<P: Publish> Wake for Ring<P> {
    fn wake(self: Arc<Self>) {
        if let Some(driver) = self.driver.upgrade() {
            driver.rang(self.expires);
        }
    }
}
