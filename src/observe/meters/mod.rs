//! Meters through the facade `metrics`: Spring's four, and our own.
//!
//! A pick does nothing for them: the state of an instance counts the leases that were taken of it beside those that live,
//! in one addition. The end of an attempt looks nothing up: it records through a handle that its instance keeps
//! ([`attempts`], [`instance`]). Everything else is handed to the recorder when somebody asks for it
//! ([`Collector`](super::Collector)), and when a list changes ([`service`]).
//!
//! Whatever a recorder does, no caller of ours notices: it is called where leases end, also while a caller panics.

mod attempts;
mod instance;
mod labels;
mod names;
mod recorder;
mod service;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::{CallInfo, Reading, ResponseData};
use crate::state::{InstanceState, Reported};
use crate::{Outcome, ServiceId};
use instance::InstanceMeter;
use service::Service;

/// The meters of one service; they last as long as its balancer.
#[derive(Clone)]
pub(crate) struct Meters(Arc<Service>);

impl Meters {
    /// `None` without the feature, which is said in the log.
    #[allow(clippy::unnecessary_wraps)] // as its twin without the feature
    pub(crate) fn new(service: &ServiceId) -> Option<Self> {
        Some(Self(Arc::new(Service::new(service))))
    }

    /// Has the attempts on an instance measured.
    pub(crate) fn instrument(&self, state: &InstanceState) {
        let service = &self.0.shared;
        let picks = state.standing().picks;
        state.meter_with(|| Box::new(InstanceMeter::new(service, &state.instance(), picks)));
    }

    /// What was picked last had been waited for: the list was not at hand.
    pub(crate) fn missed(&self) {
        self.0.missed.fetch_add(1, Ordering::Relaxed);
    }

    /// A caller begins to wait for a list.
    pub(crate) fn waiting(&self) -> Waiting {
        Waiting { meters: self.clone(), since: Instant::now(), result: "cancelled" }
    }

    /// An attempt of a call ended; `with_path`: the raw path may become a label.
    pub(crate) fn attempt(
        state: &InstanceState,
        call: &CallInfo,
        with_path: bool,
        response: Option<&ResponseData>,
        outcome: Outcome,
        took: Option<Duration>,
    ) {
        let reported = Reported {
            method: call.method.as_deref(),
            uri: labels::uri(call, with_path),
            answered: response.is_some(),
            status: response.and_then(|response| response.status),
        };
        let nanos = |took: Duration| u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        state.measure(reported, outcome, took.map(nanos));
    }

    /// A call ended before anything was sent: there was no instance.
    pub(crate) fn discarded(&self, call: &CallInfo, with_path: bool) {
        let labels =
            labels::discard(&self.0.shared.name, call.method.as_deref(), labels::uri(call, with_path));
        recorder::count(names::DISCARD, labels, 1);
    }

    /// A call is sent again, to the same instance or another one.
    pub(crate) fn retried(&self, same: bool) {
        self.0.retries[usize::from(same)].fetch_add(1, Ordering::Relaxed);
    }

    /// A call would have been sent again, but for the budget.
    pub(crate) fn refused(&self) {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// A look-up ended so.
    pub(crate) fn looked_up(&self, result: &'static str) {
        recorder::count(names::LOOKUPS, self.0.shared.label(names::RESULT, result), 1);
    }

    /// Hands everything to the recorder.
    pub(crate) fn publish(&self, reading: &Reading<'_>) {
        self.0.publish(reading);
    }

    /// The balancer is gone; `all` are the instances that it had in mind.
    pub(crate) fn end(&self, all: &[Arc<InstanceState>]) {
        self.0.end(all);
    }
}

impl fmt::Debug for Meters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Meters").field(&self.0.shared.name).finish()
    }
}

/// A caller that waits; its wait ends with this, so that one who gives up is counted too.
pub(crate) struct Waiting {
    meters: Meters,
    since: Instant,
    result: &'static str,
}

impl Waiting {
    /// The wait ended so.
    pub(crate) fn ended(mut self, served: bool) {
        self.result = if served { "served" } else { "failed" };
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let labels = self.meters.0.shared.label(names::RESULT, self.result);
        recorder::record(names::WAIT, labels, self.since.elapsed());
    }
}
