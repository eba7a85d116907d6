//! Who hears of a call whose attempts may run side by side.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::HeaderMap;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::balancer::CallSettings;
use crate::choice::Ending;
use crate::observe::{
    AttemptEnd, AttemptStart, CallInfo, CallStart, Completion, CompletionStatus, Lifecycle, Lifecycles,
    Meters, ResponseData,
};
use crate::state::InstanceState;
use crate::{Choice, Lease, Outcome, Request, ServiceId, ServiceInstance};

/// The call as a whole: dropped before it was told how it ended, it was cancelled. `None` where nobody listens.
pub(super) struct Story(Option<Arc<Heard>>);

struct Heard {
    lifecycles: Lifecycles,
    meters: Option<Meters>,
    /// The raw path may become a label.
    with_path: bool,
    info: CallInfo,
    started: Instant,
    last: Mutex<Last>,
    over: AtomicBool,
}

/// What is known of the attempt that ended last, and how many began.
#[derive(Default)]
struct Last {
    attempts: u32,
    instance: Option<ServiceInstance>,
    response: Option<ResponseData>,
    outcome: Option<Outcome>,
}

impl Story {
    pub(super) fn start(service: &ServiceId, calls: &CallSettings, request: &Request<'_>) -> Self {
        let listens = !calls.lifecycles.is_empty() || calls.meters.is_some();
        Self(listens.then(|| {
            let heard = Heard {
                lifecycles: calls.lifecycles.clone(),
                meters: calls.meters.clone(),
                with_path: calls.stats.include_path,
                info: CallInfo::of(service, request, calls.hint.as_deref()),
                started: Instant::now(),
                last: Mutex::default(),
                over: AtomicBool::new(false),
            };
            heard.tell("on_start", |one| one.on_start(&CallStart { call: &heard.info, request }));
            Arc::new(heard)
        }))
    }

    /// The attempt on `choice` begins.
    pub(super) fn begin(
        &self,
        choice: Choice,
        instance: &ServiceInstance,
        number: u32,
        request: &Request<'_>,
    ) -> Open {
        let tale = self.0.as_ref().map(|heard| {
            heard.last.lock().attempts = number;
            let start = AttemptStart { call: &heard.info, request, instance, attempt: number };
            heard.tell("on_start_request", |one| one.on_start_request(&start));
            let state = heard.meters.is_some().then(|| Arc::clone(choice.shared_state()));
            Tale { heard: Arc::clone(heard), state, instance: instance.clone(), number, response: None }
        });
        Open { choice: Some(choice), tale, outcome: Outcome::Cancelled }
    }

    /// The call ends without a response.
    pub(super) fn fail(&self, error: &dyn fmt::Display) {
        let Some(heard) = &self.0 else { return };
        let nothing = heard.last.lock().attempts == 0;
        let status = if nothing { CompletionStatus::Discard } else { CompletionStatus::Failed };
        if let (true, Some(meters)) = (nothing, &heard.meters) {
            meters.discarded(&heard.info, heard.with_path);
        }
        heard.complete(status, Some(error));
    }

    /// The lease of an answered attempt; `whole`: the call ends with it.
    pub(super) fn lease(&mut self, mut open: Open, whole: bool) -> Option<Lease> {
        if whole {
            // From here on its lease tells of the end of the call.
            self.0 = None;
        }
        let ending = open.tale.take().map(|tale| Box::new(End { tale, whole }) as Box<dyn Ending>);
        open.choice.take().map(|choice| Lease::new(choice, ending))
    }
}

impl Drop for Story {
    fn drop(&mut self) {
        if let Some(heard) = &self.0 {
            heard.complete(CompletionStatus::Cancelled, None);
        }
    }
}

impl Heard {
    fn tell(&self, event: &'static str, tell: impl Fn(&dyn Lifecycle)) {
        self.lifecycles.tell(&self.info.service, event, tell);
    }

    fn complete(&self, status: CompletionStatus, error: Option<&dyn fmt::Display>) {
        if self.over.swap(true, Ordering::Relaxed) {
            return;
        }
        // Not told under the lock: a processor may do what it likes.
        let last = std::mem::take(&mut *self.last.lock());
        let completion = Completion {
            call: &self.info,
            status,
            instance: last.instance.as_ref(),
            response: last.response.as_ref(),
            outcome: last.outcome,
            error,
            attempts: last.attempts,
            elapsed: self.started.elapsed(),
        };
        self.tell("on_complete", |one| one.on_complete(&completion));
    }
}

/// An attempt on its way: dropped, it ends its lease with what is known so far, which is that it was cancelled.
pub(super) struct Open {
    choice: Option<Choice>,
    tale: Option<Tale>,
    outcome: Outcome,
}

/// An attempt, as the processors hear it.
struct Tale {
    heard: Arc<Heard>,
    state: Option<Arc<InstanceState>>,
    instance: ServiceInstance,
    number: u32,
    response: Option<ResponseData>,
}

impl Open {
    /// It got an answer, which `outcome` says.
    pub(super) fn answered(&mut self, outcome: Outcome, headers: impl FnOnce() -> HeaderMap) {
        // If the answer is given up, no lease carries it on, and it ends so.
        self.outcome = outcome;
        let reports = self.choice.as_mut().filter(|choice| choice.wants_headers());
        let told = self.tale.as_ref().is_some_and(|tale| !tale.heard.lifecycles.is_empty());
        let headers = if told || reports.is_some() { headers() } else { HeaderMap::new() };
        if let Some(choice) = reports {
            choice.hear(&headers);
        }
        if let Some(choice) = self.choice.as_mut().filter(|_| outcome.is_answer()) {
            choice.answered(outcome);
        }
        if let Some(tale) = &mut self.tale {
            let headers = if told { headers } else { HeaderMap::new() };
            tale.response = Some(ResponseData { status: outcome.status(), headers });
        }
    }

    pub(super) fn end(&mut self, outcome: Outcome) {
        if let Some(choice) = self.choice.take() {
            let took = choice.elapsed();
            choice.complete(outcome);
            if let Some(tale) = self.tale.take() {
                tale.end(outcome, took);
            }
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.end(self.outcome);
    }
}

impl Tale {
    fn end(self, outcome: Outcome, took: Option<Duration>) {
        let Self { heard, state, instance, number, response } = self;
        if let Some(state) = state {
            Meters::attempt(&state, &heard.info, heard.with_path, response.as_ref(), outcome, took);
        }
        let end = AttemptEnd {
            service: &heard.info.service,
            call: Some(&heard.info),
            instance: &instance,
            attempt: number,
            outcome,
            elapsed: took.unwrap_or_default(),
        };
        heard.tell("on_attempt", |one| one.on_attempt(&end));
        let mut last = heard.last.lock();
        (last.instance, last.response, last.outcome) = (Some(instance), response, Some(outcome));
    }
}

/// The end of a lease that a caller holds.
struct End {
    tale: Tale,
    whole: bool,
}

impl Ending for End {
    fn ended(self: Box<Self>, outcome: Outcome, took: Option<Duration>) {
        let Self { tale, whole } = *self;
        let heard = Arc::clone(&tale.heard);
        tale.end(outcome, took);
        if whole {
            let status = match outcome {
                Outcome::Failure(_) => CompletionStatus::Failed,
                _ => CompletionStatus::Success,
            };
            heard.complete(status, None);
        }
    }
}
