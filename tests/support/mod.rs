//! Sources that a test scripts, and short ways to make instances.
#![allow(dead_code, unused_imports, missing_docs)] // each test crate uses a part
#![allow(clippy::unnecessary_literal_bound)] // as the trait writes it, and as its implementors do

pub mod calls;
pub mod cases;
mod log;
mod probe;
mod recorder;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel::discovery::{DiscoveryClient, Lists, SupplyError, SupplyErrorKind};
use evenkeel::policy::{Policy, RoundRobin};
use evenkeel::{LoadBalancer, Request, ServiceId, ServiceInstance, SupplierBuilder, async_trait};
pub use log::Log;
pub use probe::{Fake, usable};
pub use recorder::{Recorder, Series};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

pub type Answer = Result<Vec<ServiceInstance>, SupplyError>;
type Asking = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// An instance `id` on its own host, port 8080.
pub fn instance(id: &str) -> ServiceInstance {
    ServiceInstance::builder(format!("{}.test", id.to_ascii_lowercase())).port(8080).id(id).build().unwrap()
}

pub fn list(ids: &str) -> Vec<ServiceInstance> {
    ids.split_whitespace().map(instance).collect()
}

/// `"a=0 b=1"`: ids with a metadata entry each.
pub fn with(key: &str, pairs: &str) -> Vec<ServiceInstance> {
    let one = |pair: &str| {
        let (id, value) = pair.split_once('=').unwrap();
        instance(id).to_builder().with_metadata(key, value).build().unwrap()
    };
    pairs.split_whitespace().map(one).collect()
}

pub fn refused() -> SupplyError {
    SupplyError::new(SupplyErrorKind::Io, "fake", "connection refused")
}

/// A source that is asked: a function of the number of the call (from 0) answers, and calls are counted.
#[derive(Clone)]
pub struct Pull {
    answer: Arc<dyn Fn(usize) -> Asking + Send + Sync>,
    calls: Arc<AtomicUsize>,
}

impl Pull {
    pub fn new<F>(answer: impl Fn(usize) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        Self { answer: Arc::new(move |n| Box::pin(answer(n))), calls: Arc::default() }
    }

    /// Always this list, after `latency`.
    pub fn always(ids: &'static str, latency: Duration) -> Self {
        Self::new(move |_| async move {
            if !latency.is_zero() {
                tokio::time::sleep(latency).await;
            }
            Ok(list(ids))
        })
    }

    /// Answers by the time since now.
    pub fn timed(answer: impl Fn(f64) -> Answer + Send + Sync + Clone + 'static) -> Self {
        let start = Instant::now();
        Self::new(move |_| {
            let answer = answer.clone();
            async move { answer(start.elapsed().as_secs_f64()) }
        })
    }

    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Pull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pull")
    }
}

#[async_trait]
impl DiscoveryClient for Pull {
    fn name(&self) -> &str {
        "fake"
    }
    async fn instances(&self, _: &ServiceId) -> Answer {
        (self.answer)(self.calls.fetch_add(1, Ordering::SeqCst)).await
    }
    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        Ok(Vec::new())
    }
}

/// A source that pushes: `(seconds after the subscription of the first watch, item)`; a last item of `None` ends it.
#[derive(Clone, Debug)]
pub struct Push {
    script: Arc<Vec<(f64, Option<Answer>)>>,
    start: Instant,
    pub watches: Arc<AtomicUsize>,
    pub asked: Arc<AtomicUsize>,
}

impl Push {
    pub fn new(script: Vec<(f64, Answer)>) -> Self {
        Self::ending(script.into_iter().map(|(at, answer)| (at, Some(answer))).collect())
    }

    pub fn ending(script: Vec<(f64, Option<Answer>)>) -> Self {
        Self {
            script: Arc::new(script),
            start: Instant::now(),
            watches: Arc::default(),
            asked: Arc::default(),
        }
    }
}

#[async_trait]
impl DiscoveryClient for Push {
    fn name(&self) -> &str {
        "fake"
    }
    async fn instances(&self, _: &ServiceId) -> Answer {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Err(refused())
    }
    fn watch(&self, _: &ServiceId) -> Option<Lists> {
        self.watches.fetch_add(1, Ordering::SeqCst);
        let (script, start) = (Arc::clone(&self.script), self.start);
        let begun = Instant::now();
        let (send, receive) = mpsc::channel(1);
        tokio::spawn(async move {
            // A later watch begins with the newest list of the past.
            let past = script.iter().rposition(|(at, _)| start + Duration::from_secs_f64(*at) <= begun);
            for (at, item) in script.iter().skip(past.unwrap_or(0)) {
                tokio::select! {
                    () = sleep_until(start + Duration::from_secs_f64(*at)) => {}
                    () = send.closed() => return,
                }
                match item {
                    Some(item) => {
                        let _ = send.send(item.clone()).await;
                    }
                    None => return,
                }
            }
            send.closed().await;
        });
        Some(Box::pin(futures_util::stream::unfold(receive, |mut receive| async move {
            receive.recv().await.map(|item| (item, receive))
        })))
    }
    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        Ok(Vec::new())
    }
}

pub fn chain(client: impl DiscoveryClient) -> SupplierBuilder {
    SupplierBuilder::new("orders").with_discovery_client(client).with_seed(7)
}

pub fn balancer(client: impl DiscoveryClient) -> LoadBalancer {
    over(chain(client), RoundRobin::default())
}

pub fn over(chain: SupplierBuilder, policy: impl Policy) -> LoadBalancer {
    LoadBalancer::builder(chain.build().unwrap()).policy(policy).build()
}

/// A balancer over a list that never changes, with the stages that `shape` adds.
pub fn fixed(
    instances: Vec<ServiceInstance>,
    shape: impl FnOnce(SupplierBuilder) -> SupplierBuilder,
    policy: impl Policy,
) -> LoadBalancer {
    let base = evenkeel::supplier::FixedSupplier::new(ServiceId::new("orders").unwrap(), instances);
    over(shape(SupplierBuilder::new("orders").with_base(base).with_seed(7)), policy)
}

/// One pick that is dropped at once; the id.
pub async fn pick(balancer: &LoadBalancer) -> String {
    balancer.choose(&Request::EMPTY).await.unwrap().instance().id().to_owned()
}

pub async fn picks(balancer: &LoadBalancer, n: usize) -> Vec<String> {
    let mut all = Vec::with_capacity(n);
    for _ in 0..n {
        all.push(pick(balancer).await);
    }
    all
}

pub fn count<'a>(picks: impl IntoIterator<Item = &'a String>, id: &str) -> usize {
    picks.into_iter().filter(|picked| *picked == id).count()
}

pub async fn advance(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

/// Lets every task that can run do so, without time passing.
pub async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// How often each id was picked.
pub fn tally<'a>(picks: impl IntoIterator<Item = &'a String>) -> std::collections::BTreeMap<String, usize> {
    let mut counts = std::collections::BTreeMap::new();
    for id in picks {
        *counts.entry(id.clone()).or_default() += 1;
    }
    counts
}

/// Each of `ids` was picked `expected` times, give or take `within`, and nobody else was.
#[track_caller]
pub fn even(picks: &[String], ids: &str, expected: usize, within: usize) {
    let counts = tally(picks);
    let right = ids
        .split_whitespace()
        .all(|id| counts.get(id).copied().unwrap_or_default().abs_diff(expected) <= within);
    let nobody_else = counts.keys().all(|id| ids.split_whitespace().any(|known| known == id));
    assert!(right && nobody_else, "{expected} +- {within} each of {ids} were expected: {counts:?}");
}

/// One pick for `request` that is dropped at once; the id.
pub async fn pick_for(balancer: &LoadBalancer, request: &Request<'_>) -> String {
    balancer.choose(request).await.unwrap().instance().id().to_owned()
}

/// The service of every balancer here.
pub fn orders() -> ServiceId {
    ServiceId::new("orders").unwrap()
}

/// A list that a test changes; each change is pushed.
#[derive(Clone, Debug, Default)]
pub struct Live(evenkeel::discovery::SimpleDiscovery);

impl Live {
    pub fn new(instances: Vec<ServiceInstance>) -> Self {
        let live = Self::default();
        live.0.set(&orders(), instances);
        live
    }

    pub fn source(&self) -> evenkeel::discovery::SimpleDiscovery {
        self.0.clone()
    }

    /// Replaces the list, and lets the balancers take it.
    pub async fn set(&self, instances: Vec<ServiceInstance>) {
        self.0.set(&orders(), instances);
        settle().await;
    }
}
