//! A probe that answers as a test says, on the clock of the test.
#![allow(dead_code, missing_docs)] // each test crate uses a part

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::health::{HealthProbe, ProbeError};
use evenkeel::{LoadBalancer, ServiceInstance, async_trait};
use tokio::time::Instant;

type Answers = HashMap<String, (Option<u64>, bool)>;

/// What an instance answers, by id: after so many milliseconds (`None` = never), alive or not. Unknown ids are alive.
#[derive(Clone, Debug, Default)]
pub struct Fake {
    answers: Arc<Mutex<Answers>>,
    asked: Arc<Mutex<Vec<(f64, ServiceInstance)>>>,
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    start: Option<Instant>,
}

impl Fake {
    pub fn new() -> Self {
        Self { start: Some(Instant::now()), ..Self::default() }
    }

    pub fn set(&self, id: &str, after: Option<u64>, alive: bool) {
        self.answers.lock().unwrap().insert(id.to_owned(), (after, alive));
    }

    /// How often an instance was asked.
    pub fn asked(&self, id: &str) -> usize {
        self.times(id).len()
    }

    /// When it was, in seconds.
    pub fn times(&self, id: &str) -> Vec<f64> {
        self.log().into_iter().filter(|(_, instance)| instance.id() == id).map(|(at, _)| at).collect()
    }

    /// Who was asked when.
    pub fn log(&self) -> Vec<(f64, ServiceInstance)> {
        self.asked.lock().unwrap().clone()
    }

    /// The most that were asked at the same time.
    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

struct Running(Arc<AtomicUsize>);
impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl HealthProbe for Fake {
    async fn check(&self, instance: &ServiceInstance) -> Result<(), ProbeError> {
        let now = self.start.unwrap().elapsed().as_secs_f64();
        self.asked.lock().unwrap().push((now, instance.clone()));
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        let _running = Running(Arc::clone(&self.running));
        let answer = self.answers.lock().unwrap().get(instance.id()).copied();
        let (after, alive) = answer.unwrap_or((Some(0), true));
        match after {
            Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            None => std::future::pending().await,
        }
        if alive { Ok(()) } else { Err(ProbeError::new("status 500")) }
    }
}

/// The ids that requests are spread over now, sorted and put together.
pub fn usable(lb: &LoadBalancer) -> String {
    let mut ids: Vec<_> = lb.snapshot().unwrap().instances().map(|s| s.instance().id().to_owned()).collect();
    ids.sort();
    ids.concat()
}
