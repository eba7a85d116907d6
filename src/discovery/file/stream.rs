//! One subscription to a service of the file.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;

use super::reader::{Reader, State};
use crate::discovery::SupplyError;
use crate::{ServiceId, ServiceInstance};

type Item = Result<Vec<ServiceInstance>, SupplyError>;

/// Keeps the reader alive, so that the stream never ends.
pub(super) struct Subscription {
    reader: Arc<Reader>,
    changes: watch::Receiver<State>,
    service: ServiceId,
    ready: VecDeque<Item>,
    /// The list that was emitted last, and the trouble since then.
    sent: Option<Arc<[ServiceInstance]>>,
    trouble: Option<String>,
    started: bool,
    over: bool,
}

impl Subscription {
    pub(super) fn new(reader: Arc<Reader>, service: ServiceId) -> Self {
        Self {
            changes: reader.state.subscribe(),
            reader,
            service,
            ready: VecDeque::new(),
            sent: None,
            trouble: None,
            started: false,
            over: false,
        }
    }

    pub(super) async fn next(mut self) -> Option<(Item, Self)> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some((item, self));
            }
            if self.over {
                return None;
            }
            if let Err(error) = self.reader.ensure_running() {
                // Without a runtime nothing would ever wake this stream again.
                self.over = true;
                return Some((Err(error.of_service(&self.service)), self));
            }
            if std::mem::replace(&mut self.started, true) {
                self.changes.changed().await.ok()?;
            }
            let state = self.changes.borrow_and_update().clone();
            self.take_in(&state);
        }
    }

    /// Queues what this state of the file says that was not said yet.
    fn take_in(&mut self, state: &State) {
        if let Some(good) = &state.good {
            let list = good.list(&self.service);
            // Said again once the file can be read again: until then nobody knew whether it still holds.
            let again = self.trouble.is_some() && state.trouble.is_none();
            if again || self.sent.as_ref() != Some(&list) {
                self.ready.push_back(Ok(list.to_vec()));
                self.sent = Some(list);
            }
        }
        let trouble = state.trouble.as_ref().map(ToString::to_string);
        if let Some(error) = state.trouble.clone().filter(|_| trouble != self.trouble) {
            self.ready.push_back(Err(error.of_service(&self.service)));
        }
        self.trouble = trouble;
    }
}
