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

/// How many lines were logged so far that hold each of `words`, by any test: they must name a service of one's own.
///
/// One subscriber for the process, since with one for a thread another thread decides whether a line is of interest.
fn logged(words: &[&str]) -> usize {
    static TEXT: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    static ONCE: std::sync::Once = std::sync::Once::new();
    struct Into;
    impl std::io::Write for Into {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            TEXT.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    ONCE.call_once(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::WARN)
            .with_ansi(false)
            .with_writer(|| Into)
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
    let text = String::from_utf8(TEXT.lock().unwrap().clone()).unwrap();
    text.lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
}
