//! The watch of a composite: it follows all sources and tells what they say together.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{BoxStream, SelectAll};
use tokio::time::{Instant, timeout_at};

use super::client::Settings;
use super::inner::{Answer, Inner};
use super::memory::Remembered;
use super::verdict::{Stand, verdict};
use crate::discovery::{SupplyError, SupplyErrorKind};
use crate::{ServiceId, ServiceInstance};

pub(super) struct Subscription {
    settings: Arc<Settings>,
    service: ServiceId,
    sources: Vec<Source>,
    answers: SelectAll<BoxStream<'static, (usize, Answer)>>,
    /// Until then a source that did not answer yet is waited for.
    patience: Option<Instant>,
    sent: Option<Vec<ServiceInstance>>,
    trouble: Option<String>,
}

/// What is known of one source.
pub(super) struct Source {
    pub(super) inner: Arc<Inner>,
    /// Whether its list holds until it says otherwise.
    pub(super) pushes: bool,
    pub(super) last: Option<Remembered>,
    /// Its last answer, if there is one: `Err` for none.
    pub(super) state: Option<Result<(), SupplyError>>,
}

impl Source {
    fn take(&mut self, service: &ServiceId, answer: Answer) {
        match answer {
            Ok(list) => {
                self.last = Some(self.inner.memory.record(service, list.into()));
                self.state = Some(Ok(()));
            }
            Err(error) => {
                // A watch confirms its list for as long as it holds: the age begins now that it broke.
                if self.pushes
                    && matches!(self.state, Some(Ok(())))
                    && let Some(last) = self.last.take()
                {
                    self.last = Some(self.inner.memory.record(service, last.list));
                }
                self.state = Some(Err(error));
            }
        }
    }

    fn stand(&self, patient: bool, limit: Duration, bound: Option<Duration>) -> Stand {
        let error = match &self.state {
            None if patient => return Stand::Waiting,
            None => {
                let message = format!("no answer within {limit:?}");
                self.inner.error(SupplyErrorKind::Timeout, &message)
            }
            Some(Ok(())) => {
                return Stand::Answer(
                    self.last.as_ref().map(|last| Arc::clone(&last.list)).unwrap_or_default(),
                );
            }
            Some(Err(error)) => error.clone(),
        };
        match self.last.as_ref().filter(|last| last.counts(bound)) {
            Some(last) => Stand::Answer(Arc::clone(&last.list)),
            None => Stand::Nothing(error),
        }
    }
}

impl Subscription {
    pub(super) fn new(
        settings: Arc<Settings>,
        service: ServiceId,
        sources: Vec<Source>,
        answers: SelectAll<BoxStream<'static, (usize, Answer)>>,
    ) -> Self {
        Self { settings, service, sources, answers, patience: None, sent: None, trouble: None }
    }

    pub(super) async fn next(mut self) -> Option<(Answer, Self)> {
        loop {
            if let Some(item) = self.news() {
                return Some((item, self));
            }
            let answer = match self.wake() {
                Some(at) => match timeout_at(at, self.answers.next()).await {
                    Ok(answer) => answer,
                    Err(_) => continue,
                },
                None => self.answers.next().await,
            };
            let (index, answer) = answer?;
            self.sources[index].take(&self.service, answer);
        }
    }

    /// What the sources say together now, if that is anything new.
    fn news(&mut self) -> Option<Answer> {
        let Settings { limit, bound, mode, .. } = *self.settings;
        let now = Instant::now();
        let patient = now < *self.patience.get_or_insert(now + limit);
        let stands = self.sources.iter().map(|source| source.stand(patient, limit, bound));
        match verdict(&self.settings.origin, mode, stands)? {
            Ok(list) => {
                if self.trouble.take().is_none() && self.sent.as_ref() == Some(&list) {
                    return None;
                }
                self.sent = Some(list.clone());
                Some(Ok(list))
            }
            Err(error) => {
                let error = error.of_service(&self.service);
                let text = error.to_string();
                if self.trouble.as_ref() == Some(&text) {
                    return None;
                }
                self.trouble = Some(text);
                Some(Err(error))
            }
        }
    }

    /// When the verdict may change without an answer: patience or a last good list ends.
    fn wake(&self) -> Option<Instant> {
        let waiting = self.sources.iter().any(|source| source.state.is_none());
        let now = Instant::now();
        let patience = self.patience.filter(|at| waiting && now < *at);
        let failing = self.sources.iter().filter(|source| !matches!(source.state, Some(Ok(()))));
        let ends = failing
            .filter_map(|source| source.last.as_ref())
            .filter(|last| last.counts(self.settings.bound))
            // Just behind the end, at which the list still counts.
            .filter_map(|last| last.end(self.settings.bound))
            .filter_map(|end| end.checked_add(Duration::from_millis(1)));
        ends.chain(patience).min()
    }
}
