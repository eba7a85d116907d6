//! Scripted attempts: each instance answers as its entry says, and who was called when is written down.

use std::cell::RefCell;
use std::future::Future;
use std::time::Duration;

use evenkeel::call::{Answered, Attempt, CallError, Strategy};
use evenkeel::config::{RetryBudgetProperties, RetryProperties};
use evenkeel::{Choice, Failure, LoadBalancer, Outcome, Request, RetryAfter};
use tokio::time::Instant;

pub use crate::support::calls::{Heard, balancer_with};

/// How an instance answers, after so many milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    Ok(u64),
    Status(u16, u64),
    Fail(Failure, u64),
    /// The call's own error.
    Business(u64),
    /// Come again after so many seconds.
    Later(u16),
    Hang,
    Panic,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Bad(pub Outcome);

impl std::fmt::Display for Bad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "bad: {}", self.0)
    }
}

pub type Answer = Result<Answered<Outcome>, CallError<Bad>>;

pub const RESET: Does = Does::Fail(Failure::Reset, 0);
pub const REFUSED: Does = Does::Fail(Failure::Connect, 0);

/// Who was called, and after how many milliseconds.
#[derive(Default)]
pub struct Script {
    does: Vec<(&'static str, Vec<Does>)>,
    pub called: RefCell<Vec<(String, u128)>>,
    start: Option<Instant>,
}

impl Script {
    /// Each instance does one thing after the other, and goes on with the last.
    pub fn new(does: &[(&'static str, &[Does])]) -> Self {
        let does = does.iter().map(|(id, does)| (*id, does.to_vec())).collect();
        Self { does, called: RefCell::default(), start: Some(Instant::now()) }
    }

    pub fn send(
        &self,
        choice: &Choice,
        _: Attempt,
    ) -> Option<impl Future<Output = Result<Outcome, Bad>> + use<>> {
        self.go(choice)
    }

    /// The same for whoever counts attempts in another way.
    #[allow(clippy::unnecessary_wraps)] // as a strategy wants it
    pub fn go(&self, choice: &Choice) -> Option<impl Future<Output = Result<Outcome, Bad>> + use<>> {
        let id = choice.instance().id().to_owned();
        let before = self.called.borrow().iter().filter(|(called, _)| *called == id).count();
        let passed = self.start.map_or(0, |start| start.elapsed().as_millis());
        let (_, row) = self.does.iter().find(|(known, _)| *known == id).unwrap();
        let does = row.get(before).or(row.last()).copied().unwrap();
        self.called.borrow_mut().push((id, passed));
        Some(act(does))
    }

    pub async fn run(&self, strategy: &impl Strategy, balancer: &LoadBalancer) -> Answer {
        let send = |choice: &Choice, attempt| self.send(choice, attempt);
        strategy.run(balancer, &Request::EMPTY, classify, send).await
    }

    /// `"a b"`.
    pub fn order(&self) -> String {
        let ids: Vec<_> = self.called.borrow().iter().map(|(id, _)| id.clone()).collect();
        ids.join(" ")
    }

    pub fn times(&self) -> Vec<u128> {
        self.called.borrow().iter().map(|(_, at)| *at).collect()
    }
}

async fn act(does: Does) -> Result<Outcome, Bad> {
    let pass = |ms| tokio::time::sleep(Duration::from_millis(ms));
    match does {
        Does::Ok(ms) => {
            pass(ms).await;
            Ok(Outcome::Success)
        }
        Does::Status(status, ms) => {
            pass(ms).await;
            Ok(Outcome::Status(status))
        }
        Does::Fail(failure, ms) => {
            pass(ms).await;
            Err(Bad(Outcome::Failure(failure)))
        }
        Does::Business(ms) => {
            pass(ms).await;
            Err(Bad(Outcome::Status(404)))
        }
        Does::Later(seconds) => Ok(Outcome::RetryAfter(RetryAfter::new(503, seconds).unwrap())),
        Does::Hang => std::future::pending().await,
        Does::Panic => panic!("on purpose"),
    }
}

pub fn classify(result: Result<&Outcome, &Bad>) -> Outcome {
    match result {
        Ok(outcome) => *outcome,
        Err(bad) => bad.0,
    }
}

/// A round robin over `ids`, from the first one.
pub fn balancer(ids: &str) -> LoadBalancer {
    balancer_with(ids, |builder| builder)
}

/// With so many retries a second, and none for calls.
pub fn with_budget(ids: &str, per_second: u32) -> LoadBalancer {
    let budget = RetryBudgetProperties::default().with_percent(0).with_min_per_second(per_second);
    balancer_with(ids, |builder| builder.retry(RetryProperties::default().with_budget(budget)))
}
