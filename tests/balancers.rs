//! Balancers of many services: properties, the bounded map, first use, readiness, live changes, the end.
#![allow(missing_docs)]

mod support;

#[path = "balancers/bounded.rs"]
mod bounded;
#[path = "balancers/ending.rs"]
mod ending;
#[path = "balancers/first_use.rs"]
mod first_use;
#[path = "balancers/live.rs"]
mod live;
#[path = "balancers/properties.rs"]
mod properties;
#[path = "balancers/watch_file.rs"]
mod watch_file;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::discovery::{DiscoveryClient, SupplyError};
use evenkeel::{LoadBalancers, Request, ServiceId, ServiceInstance, async_trait};
use tokio::time::Instant;

/// A registry that is asked and gives every service three instances; it keeps when it was asked for what.
#[derive(Clone, Debug)]
struct Registry {
    asked: Arc<Mutex<HashMap<String, Vec<Duration>>>>,
    start: Instant,
    latency: Duration,
}

impl Registry {
    fn new(latency: Duration) -> Self {
        Self { asked: Arc::default(), start: Instant::now(), latency }
    }

    /// When it was asked for `service`.
    fn asked(&self, service: &str) -> Vec<Duration> {
        self.asked.lock().unwrap().get(service).cloned().unwrap_or_default()
    }

    fn look_ups(&self) -> usize {
        self.asked.lock().unwrap().values().map(Vec::len).sum()
    }
}

/// Services of these names have no instance, give no answer, and never answer.
const EMPTY: &str = "empty";
const REFUSED: &str = "refused";
const HUNG: &str = "hung";

/// Properties that can be read, and with which no chain can work: two stages of one name.
const TWICE: &str = "routing: [{metadata: version, header: A}, {metadata: version, header: B}]";

#[async_trait]
impl DiscoveryClient for Registry {
    fn name(&self) -> &'static str {
        "fake"
    }
    async fn instances(&self, service: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError> {
        let name = service.as_str().to_owned();
        self.asked.lock().unwrap().entry(name).or_default().push(self.start.elapsed());
        if !self.latency.is_zero() {
            tokio::time::sleep(self.latency).await;
        }
        match service.as_str() {
            EMPTY => Ok(Vec::new()),
            REFUSED => Err(support::refused()),
            HUNG => std::future::pending().await,
            _ => Ok(support::list("a b c")),
        }
    }
    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        Ok(Vec::new())
    }
}

/// One pick that is dropped at once; the id.
async fn pick(balancers: &LoadBalancers, service: &str) -> String {
    support::pick(&balancers.get(service).unwrap()).await
}

/// A call that goes on as long as this is held.
async fn call(balancers: &LoadBalancers, service: &str) -> evenkeel::Choice {
    balancers.get(service).unwrap().choose(&Request::EMPTY).await.unwrap()
}

fn id(name: &str) -> ServiceId {
    ServiceId::new(name).unwrap()
}

fn alive() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// What is logged while the guard lives, on this thread.
fn log() -> (Arc<Mutex<Vec<u8>>>, tracing::subscriber::DefaultGuard) {
    let (text, subscriber) = logging();
    (text, tracing::subscriber::set_default(subscriber))
}

/// A text, and a subscriber that writes there.
fn logging() -> (Arc<Mutex<Vec<u8>>>, impl tracing::Subscriber + Send + Sync) {
    struct Into(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Into {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let text = Arc::<Mutex<Vec<u8>>>::default();
    let into = Arc::clone(&text);
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || Into(Arc::clone(&into)));
    (text, subscriber.finish())
}

fn lines(log: &Mutex<Vec<u8>>, word: &str) -> usize {
    String::from_utf8(log.lock().unwrap().clone()).unwrap().lines().filter(|line| line.contains(word)).count()
}
