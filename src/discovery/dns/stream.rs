//! The push side: a name is looked up again each period, while somebody polls.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::host::{Answer, Host};
use crate::ServiceInstance;
use crate::discovery::{SupplyError, jitter::Jitter};

/// One subscription to a name.
pub(super) struct Subscription {
    host: Arc<Host>,
    answers: watch::Receiver<Option<(Answer, Instant)>>,
    period: Jitter,
    started: bool,
    /// What was emitted last; `None` after an error, so that the list is emitted again once there is one.
    sent: Option<Arc<[ServiceInstance]>>,
}

impl Subscription {
    pub(super) fn new(host: Arc<Host>, period: Jitter) -> Self {
        Self { answers: host.subscribe(), host, period, started: false, sent: None }
    }

    pub(super) async fn next(mut self) -> Option<(Result<Vec<ServiceInstance>, SupplyError>, Self)> {
        loop {
            match self.answer().await {
                Err(error) => {
                    self.sent = None;
                    return Some((Err(error), self));
                }
                Ok(list) if self.sent.as_ref() != Some(&list) => {
                    self.sent = Some(Arc::clone(&list));
                    return Some((Ok(list.to_vec()), self));
                }
                Ok(_) => {}
            }
        }
    }

    /// The next answer: one that another caller's look-up brought, or that of an own look-up when the period is over.
    async fn answer(&mut self) -> Answer {
        if self.started {
            let last = self.answers.borrow().as_ref().map_or_else(Instant::now, |(_, at)| *at);
            // The sender cannot be gone, `host` holds it; an error would only mean to look up early.
            if let Ok(Ok(())) = timeout_at(last + self.period.next(), self.answers.changed()).await
                && let Some((answer, _)) = &*self.answers.borrow_and_update()
            {
                return answer.clone();
            }
        }
        self.started = true;
        let answer = self.host.lookup().await;
        self.answers.mark_unchanged();
        answer
    }
}
