use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::stream::Fuse;
use futures_util::{FutureExt, StreamExt};
use tokio::time::Instant;

use super::answer::{Failed, Next};
use super::{Driver, Publish, disk};
use crate::ServiceInstance;
use crate::discovery::{Lists, SupplyError, SupplyErrorKind};

type Item = Result<Vec<ServiceInstance>, SupplyError>;

/// One look-up; for a source that pushes, the watch.
///
/// It holds no strong reference while it waits, so that dropping the last handle of a balancer drops everything.
pub(super) async fn run<P: Publish>(mut guard: Guard<P>) {
    let driver = guard.driver.clone();
    warm_start(&driver).await;
    while let Some(pause) = subscribe(&driver).await {
        tokio::time::sleep(pause).await;
    }
    guard.finished = true;
}

/// Tells the balancer when the task goes away unfinished: its runtime was shut down, perhaps before it ever ran, or it
/// panicked.
pub(super) struct Guard<P: Publish> {
    driver: Weak<Driver<P>>,
    finished: bool,
}

impl<P: Publish> Guard<P> {
    pub(super) fn new(driver: &Arc<Driver<P>>) -> Self {
        Self { driver: Arc::downgrade(driver), finished: false }
    }
}

impl<P: Publish> Drop for Guard<P> {
    fn drop(&mut self) {
        if !self.finished
            && let Some(driver) = self.driver.upgrade()
        {
            driver.aborted();
        }
    }
}

/// Puts the list of an earlier process at hand, if nothing is yet. It is not served before the first look-up ended or
/// took longer than a caller waits.
async fn warm_start<P: Publish>(driver: &Weak<Driver<P>>) {
    let Some((dir, service)) = driver.upgrade().and_then(|driver| {
        let dir = driver.settings().disk.clone().filter(|_| driver.publish.has_instances().is_none())?;
        Some((dir, driver.base.service_id().clone()))
    }) else {
        return;
    };
    let list = disk::load(dir, service).await;
    if let (Some(driver), false) = (driver.upgrade(), list.is_empty()) {
        // A stage that panics will do so again at the list of the source, and be heard of then.
        let publish = || driver.publish.publish(list, super::Origin::Disk, Instant::now());
        let _ = catch_unwind(AssertUnwindSafe(publish));
    }
}

/// Asks the source once. `Some` = it is a watch that broke: subscribe again after this pause.
async fn subscribe<P: Publish>(driver: &Weak<Driver<P>>) -> Option<Duration> {
    let (base, limit, expires, idle, patience) = {
        let driver = driver.upgrade()?;
        let control = driver.control.lock();
        let settings = &control.settings;
        (
            Arc::clone(&driver.base),
            settings.look_up_limit,
            control.limit,
            settings.idle,
            settings.back_off.max,
        )
    };
    let mut lists = match catch_unwind(AssertUnwindSafe(|| base.get())) {
        // The look ahead asks once more behind the end, where a stream may panic.
        Ok(lists) => lists.fuse(),
        Err(panic) => {
            driver.upgrade()?.failed(panicked("the source", &*panic), Failed::LookUp);
            return None;
        }
    };
    drop(base);
    let Some(mut item) = first(driver, &mut lists, limit, expires).await else {
        // Whatever it is, it is given up: the next look-up starts anew.
        let why = format!("nothing within {} ms", limit.as_millis());
        driver
            .upgrade()?
            .failed(SupplyError::new(SupplyErrorKind::Timeout, "the source", why), Failed::LookUp);
        return None;
    };
    // Whether it is a watch, and whether it has given a list yet.
    let (mut watch, mut delivered) = (false, false);
    let (mut skipped, mut calm) = (0, None);
    loop {
        // Look ahead: a stream that ends behind its item was a look-up, one that is not ready is a watch. One that
        // panicked must not be polled again.
        let mut over = has_panicked(&item);
        let ahead = if over { Some(None) } else { next(&mut lists).now_or_never() };
        match ahead {
            // The newest list counts; an error behind a list is heard after it.
            Some(Some(newer)) if (newer.is_ok() || item.is_err()) && skipped < AT_ONCE => {
                skipped += 1;
                item = newer;
                continue;
            }
            Some(Some(Ok(list))) => {
                // It never stops to breathe: take what there is, and let others run.
                watch = true;
                item = Ok(list);
                tokio::task::yield_now().await;
            }
            Some(Some(broken)) => {
                watch = true;
                if let Ok(list) = item {
                    behold(&driver.upgrade()?, list);
                    delivered = false;
                }
                item = broken;
            }
            Some(None) => over = true,
            None => watch = true,
        }
        skipped = 0;
        match item {
            Ok(list) => match take(&driver.upgrade()?, list, watch) {
                Ok(_) if !watch => return None,
                Ok(next) => {
                    (delivered, calm) = (true, None);
                    let believe = match next {
                        Next::BelieveAt(at) => Some(at),
                        Next::Go => None,
                    };
                    item =
                        if over { Err(ended()) } else { changed(driver, &mut lists, believe, idle).await? };
                }
                Err(error) => {
                    let pause = driver.upgrade()?.failed(error, Failed::by(watch, false));
                    return watch.then_some(pause);
                }
            },
            Err(error) => {
                let what = Failed::by(watch, std::mem::take(&mut delivered));
                let pause = driver.upgrade()?.failed(error, what);
                // One that errs again and again without a pause of its own gets ours.
                if over || calm.is_some_and(|until: Instant| Instant::now() < until) {
                    return watch.then_some(pause);
                }
                calm = Instant::now().checked_add(pause);
                // Some sources report an error and go on by themselves. One that says nothing for long is left.
                match tokio::time::timeout(patience, next(&mut lists)).await {
                    Ok(Some(newer)) => item = newer,
                    Ok(None) => return Some(pause),
                    Err(_) => {
                        let driver = driver.upgrade()?;
                        if driver.idle_for() >= idle {
                            driver.fell_idle();
                            return None;
                        }
                        return Some(Duration::ZERO);
                    }
                }
            }
        }
    }
}

/// A list with an error at its heels is one from before: it is taken, and confirms nothing.
fn behold<P: Publish>(driver: &Arc<Driver<P>>, list: Vec<ServiceInstance>) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| driver.beheld(list))) {
        let service = driver.base.service_id();
        tracing::debug!(%service, error = %panicked("a stage or the policy", &*panic), "a list is not taken");
    }
}

/// How many items of a stream that are ready at once are passed over for the newest.
const AT_ONCE: u32 = 64;

fn has_panicked(item: &Item) -> bool {
    item.as_ref().is_err_and(|error| error.kind() == SupplyErrorKind::Panicked)
}

/// The first item; `None` when it does not come within the limit of a look-up.
async fn first<P: Publish>(
    driver: &Weak<Driver<P>>,
    lists: &mut Fuse<Lists>,
    limit: Duration,
    expires: Option<Instant>,
) -> Option<Item> {
    let expiry = async {
        match expires {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
        if let Some(driver) = driver.upgrade() {
            driver.word.expire();
        }
        std::future::pending().await
    };
    tokio::select! {
        biased;
        item = next(lists) => Some(item.unwrap_or_else(|| Err(ended()))),
        item = expiry => item,
        () = tokio::time::sleep(limit) => None,
    }
}

/// What a watch says next. `None` = the driver is gone, or the watch is closed because nobody calls.
async fn changed<P: Publish>(
    driver: &Weak<Driver<P>>,
    lists: &mut Fuse<Lists>,
    mut believe: Option<Instant>,
    idle: Duration,
) -> Option<Item> {
    loop {
        let wake = believe.unwrap_or_else(|| Instant::now() + idle);
        tokio::select! {
            biased;
            item = next(lists) => return Some(item.unwrap_or_else(|| Err(ended()))),
            () = tokio::time::sleep_until(wake.min(Instant::now() + idle)) => {}
        }
        let driver = driver.upgrade()?;
        if believe.is_some_and(|at| Instant::now() >= at) {
            believe = None;
            if let Err(error) = take(&driver, Vec::new(), true) {
                return Some(Err(error));
            }
        } else if driver.idle_for() >= idle {
            driver.fell_idle();
            return None;
        }
    }
}

/// The next item; a panic of the source is an error.
async fn next(lists: &mut Fuse<Lists>) -> Option<Item> {
    match AssertUnwindSafe(lists.next()).catch_unwind().await {
        Ok(item) => item,
        Err(panic) => Some(Err(panicked("the source", &*panic))),
    }
}

fn ended() -> SupplyError {
    SupplyError::new(SupplyErrorKind::Ended, "the source", "")
}

/// Takes an answer; a panic of a stage or of the policy, which run now, is no answer.
fn take<P: Publish>(
    driver: &Arc<Driver<P>>,
    list: Vec<ServiceInstance>,
    watch: bool,
) -> Result<Next, SupplyError> {
    catch_unwind(AssertUnwindSafe(|| driver.answered(list, watch)))
        .map_err(|panic| panicked("a stage or the policy", &*panic))
}

fn panicked(who: &str, panic: &(dyn Any + Send)) -> SupplyError {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    SupplyError::new(SupplyErrorKind::Panicked, who, text.unwrap_or_default())
}
