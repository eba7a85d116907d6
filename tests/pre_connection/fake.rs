//! What connects as a test says, on the clock of the test.

use std::collections::HashMap;
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::config::PreConnectionProperties;
use evenkeel::{InstanceState, LoadBalancer, PreConnect, ServiceInstance, async_trait};
use tokio::time::Instant;

use crate::support::{Live, chain, pick, settle};

/// What becomes of a try.
#[derive(Clone, Copy, Debug)]
pub enum Try {
    /// Connected after so many milliseconds.
    After(u64),
    /// Refused after so many.
    Refused(u64),
    /// Refused so many times at once, then connected at once.
    RefusedTimes(usize),
    /// Neither.
    Hangs,
    Panics,
}

/// By id; unknown ids are connected at once.
#[derive(Clone, Debug)]
pub struct Scripted {
    tries: Arc<Mutex<HashMap<String, Try>>>,
    asked: Arc<Mutex<Vec<(u64, String)>>>,
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    start: Instant,
}

impl Scripted {
    pub fn new() -> Self {
        Self {
            tries: Arc::default(),
            asked: Arc::default(),
            running: Arc::default(),
            most: Arc::default(),
            start: Instant::now(),
        }
    }

    /// The same for each of `ids`.
    pub fn set(&self, ids: &str, how: Try) {
        let mut tries = self.tries.lock().unwrap();
        tries.extend(ids.split_whitespace().map(|id| (id.to_owned(), how)));
    }

    /// When an instance was tried, in milliseconds.
    pub fn times(&self, id: &str) -> Vec<u64> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|(_, asked)| asked == id).map(|(at, _)| *at).collect()
    }

    /// How many tries were made.
    pub fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// How many run.
    pub fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    /// The most that ran at the same time.
    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    /// Milliseconds since it was made.
    pub fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap()
    }
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl PreConnect for Scripted {
    async fn connect(&self, instance: &ServiceInstance) -> Result<(), Box<dyn Error + Send + Sync>> {
        let before = self.times(instance.id()).len();
        self.asked.lock().unwrap().push((self.now(), instance.id().to_owned()));
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        let _running = Running(Arc::clone(&self.running));
        let how = self.tries.lock().unwrap().get(instance.id()).copied().unwrap_or(Try::After(0));
        let (after, connected) = match how {
            Try::After(ms) => (ms, true),
            Try::Refused(ms) => (ms, false),
            Try::RefusedTimes(times) => (0, before >= times),
            Try::Hangs => std::future::pending().await,
            Try::Panics => panic!("a fault of the user's"),
        };
        if after > 0 {
            tokio::time::sleep(Duration::from_millis(after)).await;
        }
        if connected { Ok(()) } else { Err("connection refused".into()) }
    }
}

pub const MS: fn(u64) -> Duration = Duration::from_millis;

/// A balancer whose first list, `ids`, is in use.
pub async fn started(live: &Live, fake: &Scripted, properties: PreConnectionProperties) -> LoadBalancer {
    let chain = chain(live.source());
    let lb = LoadBalancer::builder(chain.build().unwrap())
        .pre_connection(properties)
        .pre_connect(fake.clone())
        .build();
    pick(&lb).await;
    settle().await;
    lb
}

pub fn on() -> PreConnectionProperties {
    PreConnectionProperties::on()
}

/// What `look` says of one instance of the newest list.
pub fn state<T>(lb: &LoadBalancer, id: &str, look: impl Fn(&InstanceState) -> T) -> T {
    let list = lb.snapshot().unwrap();
    let found = list.all_instances().find(|state| state.instance().id() == id);
    look(found.unwrap_or_else(|| panic!("{id} is not listed")))
}

/// The ids that are being connected, sorted and put together.
pub fn connecting(lb: &LoadBalancer) -> String {
    let list = lb.snapshot().unwrap();
    let held = list.all_instances().filter(|state| state.is_connecting());
    let mut ids: Vec<String> = held.map(|state| state.instance().id().to_owned()).collect();
    ids.sort();
    ids.concat()
}

/// Lets time pass to `ms` after the fake was made, and what is due then.
pub async fn to(fake: &Scripted, ms: u64) {
    tokio::time::sleep(MS(ms.saturating_sub(fake.now()))).await;
    settle().await;
}
