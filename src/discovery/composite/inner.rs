//! One of the sources of a composite, kept from spoiling the others.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;
use futures_util::{FutureExt, StreamExt, stream};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::memory::Memory;
use crate::discovery::jitter::Jitter;
use crate::discovery::{
    DiscoveryClient, HealthRecord, Lists, SourceHealth, SourceState, SupplyError, SupplyErrorKind,
};
use crate::{ServiceId, ServiceInstance};

pub(super) type Answer = Result<Vec<ServiceInstance>, SupplyError>;

/// An endless stream of answers; an error is no end.
pub(super) type Answers = Pin<Box<dyn Stream<Item = Answer> + Send>>;

/// The longest wait before a watch that broke is subscribed again; the first is a second.
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);
/// A watch that held for so long is a good one: its next failure starts with the short wait again.
const HELD: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) client: Arc<dyn DiscoveryClient>,
    pub(super) memory: Memory,
    /// The names that it listed last.
    pub(super) names: Mutex<Option<(Vec<ServiceId>, Instant)>>,
    answers: HealthRecord,
}

impl Inner {
    pub(super) fn new(client: Arc<dyn DiscoveryClient>) -> Self {
        Self { client, memory: Memory::default(), names: Mutex::default(), answers: HealthRecord::default() }
    }

    /// What the source says of itself, else what its answers tell.
    pub(super) fn health(&self) -> SourceHealth {
        let own = self.client.health();
        if own.state == SourceState::Unknown { self.answers.get() } else { own }
    }

    /// Asks for a list; a panic and a wait beyond `limit` are no answer.
    pub(super) async fn ask(&self, service: &ServiceId, limit: Duration) -> Answer {
        self.guard(limit, self.client.instances(service)).await
    }

    /// Asks for the names.
    pub(super) async fn ask_names(&self, limit: Duration) -> Result<Vec<ServiceId>, SupplyError> {
        self.guard(limit, self.client.services()).await
    }

    async fn guard<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = Result<T, SupplyError>>,
    ) -> Result<T, SupplyError> {
        let answer = match timeout(limit, AssertUnwindSafe(call).catch_unwind()).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(self.error(SupplyErrorKind::Panicked, "")),
            Err(_) => Err(self.error(SupplyErrorKind::Timeout, &format!("no answer within {limit:?}"))),
        };
        self.answers.record(answer)
    }

    pub(super) fn error(&self, kind: SupplyErrorKind, message: &str) -> SupplyError {
        SupplyError::new(kind, self.client.name(), message)
    }

    /// Its answers by watch, subscribed again when it breaks; by asking each period if there is no watch.
    pub(super) fn answers(
        self: &Arc<Self>,
        service: &ServiceId,
        lists: Option<Lists>,
        times: Times,
    ) -> Answers {
        let feed = Feed {
            inner: Arc::clone(self),
            service: service.clone(),
            pushes: lists.is_some(),
            lists,
            times,
            failures: 0,
            failed: None,
            again: None,
        };
        Box::pin(stream::unfold(feed, |mut feed| async move { Some((feed.next().await, feed)) }))
    }
}

/// How long a feed waits for what.
#[derive(Clone, Debug)]
pub(super) struct Times {
    pub(super) period: Jitter,
    pub(super) limit: Duration,
}

struct Feed {
    inner: Arc<Inner>,
    service: ServiceId,
    pushes: bool,
    lists: Option<Lists>,
    times: Times,
    failures: u32,
    failed: Option<Instant>,
    /// When to subscribe or to ask again.
    again: Option<Instant>,
}

impl Feed {
    async fn next(&mut self) -> Answer {
        if !self.pushes {
            return self.ask().await;
        }
        loop {
            let Some(lists) = &mut self.lists else {
                if let Some(at) = self.again.take() {
                    sleep_until(at).await;
                }
                self.lists = self.inner.client.watch(&self.service);
                if self.lists.is_none() {
                    self.pushes = false;
                    return self.ask().await;
                }
                continue;
            };
            let next = AssertUnwindSafe(lists.next()).catch_unwind();
            // After an error it may go on by itself, or be at its end without saying so: then it is subscribed again.
            let next = match self.again {
                None => next.await,
                Some(at) => {
                    if let Ok(next) = timeout_at(at, next).await {
                        next
                    } else {
                        (self.lists, self.again) = (None, None);
                        continue;
                    }
                }
            };
            let answer = match next {
                Ok(Some(Ok(list))) => {
                    self.again = None;
                    Ok(list)
                }
                Ok(Some(Err(error))) => {
                    // The second in a row: it does not recover by itself, and might err for ever without a pause.
                    if self.again.is_some() {
                        self.lists = None;
                    }
                    self.back_off();
                    Err(error)
                }
                broken => {
                    let kind =
                        if broken.is_err() { SupplyErrorKind::Panicked } else { SupplyErrorKind::Ended };
                    self.lists = None;
                    self.back_off();
                    Err(self.inner.error(kind, "its watch broke"))
                }
            };
            return self.inner.answers.record(answer);
        }
    }

    async fn ask(&mut self) -> Answer {
        if self.failed.replace(Instant::now()).is_some() {
            sleep(self.times.period.next()).await;
        }
        self.inner.ask(&self.service, self.times.limit).await
    }

    fn back_off(&mut self) {
        if self.failed.is_none_or(|at| at.elapsed() > HELD) {
            self.failures = 0;
        }
        self.failed = Some(Instant::now());
        let wait = Duration::from_secs(1 << self.failures.min(5)).min(LONGEST_BACKOFF);
        self.failures += 1;
        self.again = Some(Instant::now() + wait.mul_f64(self.times.period.share()));
    }
}
