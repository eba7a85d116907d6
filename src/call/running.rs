use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tokio::time::Instant;

use crate::balancer::CallSettings;
use crate::choice::Ending;
use crate::observe::{
    AttemptEnd, AttemptStart, CallInfo, CallStart, Completion, CompletionStatus, Lifecycles, Meters,
    ResponseData,
};
use crate::state::InstanceState;
use crate::{Choice, Lease, Outcome, Request, ServiceId, ServiceInstance};

/// A call on its way: its open attempt, and whoever hears of both. Dropped, it ends them as cancelled.
pub(super) struct Running {
    open: Option<Choice>,
    /// What the open attempt reports when the call goes no further.
    outcome: Outcome,
    pub(super) attempts: u32,
    /// Whether the budget of the service paid for an attempt that has not begun.
    pub(super) paid: bool,
    told: Option<Box<Told>>,
}

/// What the processors hear; `None` in its place where nobody listens.
struct Told {
    lifecycles: Lifecycles,
    meters: Option<Meters>,
    /// The raw path may become a label.
    with_path: bool,
    /// Of the open attempt.
    state: Option<Arc<InstanceState>>,
    info: CallInfo,
    started: Instant,
    attempts: u32,
    instance: Option<ServiceInstance>,
    response: Option<ResponseData>,
    outcome: Option<Outcome>,
    over: bool,
}

impl Running {
    pub(super) fn start(service: &ServiceId, calls: &CallSettings, request: &Request<'_>) -> Self {
        let told = (!calls.lifecycles.is_empty() || calls.meters.is_some()).then(|| {
            let told = Told {
                lifecycles: calls.lifecycles.clone(),
                meters: calls.meters.clone(),
                with_path: calls.stats.include_path,
                state: None,
                info: CallInfo::of(service, request, calls.hint.as_deref()),
                started: Instant::now(),
                attempts: 0,
                instance: None,
                response: None,
                outcome: None,
                over: false,
            };
            told.tell("on_start", |one| one.on_start(&CallStart { call: &told.info, request }));
            Box::new(told)
        });
        Self { open: None, outcome: Outcome::Cancelled, attempts: 0, paid: false, told }
    }

    /// The attempt on `choice` begins; what is open ends.
    pub(super) fn begin(&mut self, choice: Choice, request: &Request<'_>) {
        self.end(self.outcome);
        self.attempts = self.attempts.saturating_add(1);
        self.paid = false;
        if let Some(told) = &mut self.told {
            told.begin(&choice, self.attempts, request);
        }
        (self.open, self.outcome) = (Some(choice), Outcome::Cancelled);
    }

    /// The open attempt got an answer, which `outcome` says.
    pub(super) fn answered(&mut self, outcome: Outcome, headers: impl FnOnce() -> HeaderMap) {
        // If another attempt follows, no lease carries it on, and it ends so.
        self.outcome = outcome;
        let reports = self.open.as_mut().filter(|choice| choice.wants_headers());
        let told = self.told.as_ref().is_some_and(|told| !told.lifecycles.is_empty());
        let headers = if told || reports.is_some() { headers() } else { HeaderMap::new() };
        if let Some(choice) = reports {
            // Before the instance is back in use: a policy may want to know that this call probed it.
            choice.hear(&headers);
        }
        if let Some(choice) = self.open.as_mut().filter(|_| outcome.is_answer()) {
            choice.answered(outcome);
        }
        if let Some(told) = &mut self.told {
            told.response = Some(ResponseData {
                status: outcome.status(),
                headers: if told.lifecycles.is_empty() { HeaderMap::new() } else { headers },
            });
        }
    }

    /// Ends the open attempt.
    pub(super) fn end(&mut self, outcome: Outcome) {
        if let Some(choice) = self.open.take() {
            let took = choice.elapsed();
            choice.complete(outcome);
            if let Some(told) = &mut self.told {
                told.end(outcome, took);
            }
        }
    }

    pub(super) fn open(&self) -> Option<&Choice> {
        self.open.as_ref()
    }

    /// The call ends without a response.
    pub(super) fn fail(mut self, error: &dyn fmt::Display) {
        if let Some(told) = &mut self.told {
            let status =
                if told.attempts == 0 { CompletionStatus::Discard } else { CompletionStatus::Failed };
            if let (CompletionStatus::Discard, Some(meters)) = (status, &told.meters) {
                meters.discarded(&told.info, told.with_path);
            }
            told.complete(status, Some(error));
        }
    }

    /// The open attempt is the last: it ends with its lease, and the call with it.
    pub(super) fn into_lease(mut self) -> Option<Lease> {
        let told = self.told.take();
        self.open.take().map(|choice| Lease::new(choice, told.map(|told| told as Box<dyn Ending>)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end(self.outcome);
    }
}

impl Told {
    fn tell(&self, event: &'static str, tell: impl Fn(&dyn crate::observe::Lifecycle)) {
        self.lifecycles.tell(&self.info.service, event, tell);
    }

    fn begin(&mut self, choice: &Choice, attempt: u32, request: &Request<'_>) {
        let instance = choice.instance();
        self.state = self.meters.is_some().then(|| Arc::clone(choice.shared_state()));
        let start = AttemptStart { call: &self.info, request, instance: &instance, attempt };
        self.tell("on_start_request", |one| one.on_start_request(&start));
        (self.attempts, self.response, self.instance) = (attempt, None, Some(instance));
    }

    fn end(&mut self, outcome: Outcome, took: Option<Duration>) {
        self.outcome = Some(outcome);
        if let Some(state) = self.state.take() {
            Meters::attempt(&state, &self.info, self.with_path, self.response.as_ref(), outcome, took);
        }
        let elapsed = took.unwrap_or_default();
        let Some(instance) = &self.instance else { return };
        let end = AttemptEnd {
            service: &self.info.service,
            call: Some(&self.info),
            instance,
            attempt: self.attempts,
            outcome,
            elapsed,
        };
        self.tell("on_attempt", |one| one.on_attempt(&end));
    }

    fn complete(&mut self, status: CompletionStatus, error: Option<&dyn fmt::Display>) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let completion = Completion {
            call: &self.info,
            status,
            instance: self.instance.as_ref(),
            response: self.response.as_ref(),
            outcome: self.outcome,
            error,
            attempts: self.attempts,
            elapsed: self.started.elapsed(),
        };
        self.tell("on_complete", |one| one.on_complete(&completion));
    }
}

impl Ending for Told {
    fn ended(mut self: Box<Self>, outcome: Outcome, took: Option<Duration>) {
        self.end(outcome, took);
        let status = match outcome {
            Outcome::Failure(_) => CompletionStatus::Failed,
            // The response was there; that nobody reads its body to the end is the caller's affair.
            _ => CompletionStatus::Success,
        };
        self.complete(status, None);
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.complete(CompletionStatus::Cancelled, None);
    }
}
