//! Calls without a network: a script says how each attempt ends, and a processor writes down what it hears.

use std::sync::Mutex;

use evenkeel::call::{Answered, CallError, call};
use evenkeel::config::RetryProperties;
use evenkeel::observe::{AttemptEnd, AttemptStart, CallStart, Completion, Lifecycle};
use evenkeel::policy::RoundRobin;
use evenkeel::{Choice, Failure, HttpView, LoadBalancer, Outcome, Request};

use super::{list, orders};

/// How an attempt ends.
#[derive(Clone, Copy, Debug)]
pub enum End {
    Status(u16),
    Fail(Failure),
}

/// A response: its status, and which attempt gave it.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub attempt: u32,
}

pub type Answer = Result<Answered<Reply>, CallError<std::io::Error>>;

/// A round robin over `ids` from the first one, that retries so.
pub fn retrying(ids: &str, retry: RetryProperties) -> LoadBalancer {
    balancer_with(ids, |builder| builder.retry(retry))
}

pub fn balancer_with(
    ids: &str,
    shape: impl FnOnce(evenkeel::LoadBalancerBuilder) -> evenkeel::LoadBalancerBuilder,
) -> LoadBalancer {
    let base = evenkeel::supplier::FixedSupplier::new(orders(), list(ids));
    let supplier = evenkeel::SupplierBuilder::new("orders").with_base(base).with_seed(7).build().unwrap();
    shape(LoadBalancer::builder(supplier).policy(RoundRobin::starting_at(-1))).build()
}

/// One call whose attempts end as `script` says, the last entry for all that follow; what came of it, and the instances
/// that were sent to, in order.
pub async fn scripted(balancer: &LoadBalancer, method: &str, script: &[End]) -> (Answer, Vec<String>) {
    let request = http::Request::builder().method(method).uri("lb://orders/api/42?full").body(()).unwrap();
    let view = HttpView::of(&request);
    let mut sent = Vec::new();
    let send = |choice: &Choice, attempt: u32| {
        sent.push(choice.instance().id().to_owned());
        let end = script.get(attempt as usize - 1).or(script.last()).copied().unwrap();
        Some(async move {
            match end {
                End::Status(status) => Ok(Reply { status, attempt }),
                End::Fail(failure) => Err(failure_error(failure, attempt)),
            }
        })
    };
    let answer = call(balancer, &Request::of(&view), judge, send).await;
    (answer, sent)
}

fn failure_error(failure: Failure, attempt: u32) -> std::io::Error {
    use std::io::ErrorKind;
    let kind = match failure {
        Failure::Connect => ErrorKind::ConnectionRefused,
        Failure::Timeout => ErrorKind::TimedOut,
        Failure::Reset => ErrorKind::ConnectionReset,
        _ => ErrorKind::Other,
    };
    std::io::Error::new(kind, format!("attempt {attempt} failed"))
}

pub fn judge(result: Result<&Reply, &std::io::Error>) -> Outcome {
    use std::io::ErrorKind;
    match result {
        Ok(reply) => Outcome::Status(reply.status),
        Err(error) => Outcome::Failure(match error.kind() {
            ErrorKind::ConnectionRefused => Failure::Connect,
            ErrorKind::TimedOut => Failure::Timeout,
            ErrorKind::ConnectionReset => Failure::Reset,
            _ => Failure::Other,
        }),
    }
}

/// Writes down every event, in order.
#[derive(Debug, Default)]
pub struct Heard(Mutex<Vec<String>>);

impl Heard {
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    fn note(&self, event: String) {
        self.0.lock().unwrap().push(event);
    }
}

impl Lifecycle for Heard {
    fn on_start(&self, start: &CallStart<'_>) {
        let (method, hint) = (start.request.method().unwrap_or("-"), start.call.hint.as_deref());
        self.note(format!("start {method} {}", hint.unwrap_or("-")));
    }
    fn on_start_request(&self, start: &AttemptStart<'_>) {
        let hint = start.call.hint.as_deref().unwrap_or("-");
        self.note(format!("request {} {} {hint}", start.attempt, start.instance.id()));
    }
    fn on_attempt(&self, end: &AttemptEnd<'_>) {
        let call = if end.call.is_some() { "attempt" } else { "lease" };
        self.note(format!("{call} {} {} {}", end.attempt, end.instance.id(), end.outcome));
    }
    fn on_complete(&self, call: &Completion<'_>) {
        let status = call.response.and_then(|response| response.status);
        self.note(format!(
            "complete {} {} {} {} {}",
            call.status,
            call.instance.map_or("-".to_owned(), |instance| instance.id().to_owned()),
            status.map_or("-".to_owned(), |status| status.to_string()),
            call.call.method.as_deref().unwrap_or("-"),
            call.error.map_or("-".to_owned(), ToString::to_string),
        ));
    }
}
