use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt, stream};
use parking_lot::Mutex;
use tokio::time::{Instant, advance, timeout};

use super::*;
use crate::discovery::{DiscoveryClient, Lists, SimpleDiscovery, SourceState, SupplyError, SupplyErrorKind};
use crate::{ServiceId, ServiceInstance};

/// A source that can only be asked: it gives these ports, an error for `None`, hangs or panics.
#[derive(Clone, Debug)]
struct Asked(Arc<Mutex<Script>>);

#[derive(Debug, Default)]
struct Script {
    ports: Option<Vec<u16>>,
    hangs: bool,
    panics: bool,
    asked: usize,
}

impl Asked {
    fn of(ports: Option<&[u16]>) -> Self {
        let source = Self(Arc::default());
        source.set(ports);
        source
    }
    fn set(&self, ports: Option<&[u16]>) {
        self.0.lock().ports = ports.map(<[u16]>::to_vec);
    }
    fn asked(&self) -> usize {
        self.0.lock().asked
    }
}

#[async_trait]
impl DiscoveryClient for Asked {
    fn name(&self) -> &'static str {
        "asked"
    }
    async fn instances(&self, _: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError> {
        let hangs = {
            let mut script = self.0.lock();
            script.asked += 1;
            script.hangs
        };
        if hangs {
            std::future::pending::<()>().await;
        }
        assert!(!self.0.lock().panics, "told to");
        let ports = self.0.lock().ports.clone();
        ports.map(|ports| list(&ports)).ok_or_else(|| SupplyError::new(SupplyErrorKind::Io, "asked", "down"))
    }
    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        self.instances(&orders())
            .await
            .map(|list| list.iter().map(|i| id(&format!("s{}", port(i)))).collect())
    }
}

/// A source whose watch gives these items, one script for each subscription; after them it is silent or ends.
#[derive(Debug)]
struct Watched {
    scripts: Mutex<VecDeque<(Vec<Option<u16>>, bool)>>,
    subscribed: Arc<Mutex<Vec<Instant>>>,
}

#[async_trait]
impl DiscoveryClient for Watched {
    fn name(&self) -> &'static str {
        "watched"
    }
    async fn instances(&self, _: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError> {
        Err(SupplyError::new(SupplyErrorKind::Io, "watched", "down"))
    }
    fn watch(&self, _: &ServiceId) -> Option<Lists> {
        self.subscribed.lock().push(Instant::now());
        let (items, ends) = self.scripts.lock().pop_front().unwrap_or_default();
        let items = stream::iter(items).map(|port| {
            port.map(|port| list(&[port]))
                .ok_or_else(|| SupplyError::new(SupplyErrorKind::Io, "watched", "broke"))
        });
        Some(if ends { items.boxed() } else { items.chain(stream::pending()).boxed() })
    }
    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        Ok(vec![])
    }
}

fn id(text: &str) -> ServiceId {
    ServiceId::new(text).unwrap()
}

fn orders() -> ServiceId {
    id("orders")
}

fn list(ports: &[u16]) -> Vec<ServiceInstance> {
    ports.iter().map(|port| ServiceInstance::new("h", *port).unwrap()).collect()
}

fn port(instance: &ServiceInstance) -> u16 {
    instance.port().unwrap()
}

async fn ask(source: &CompositeDiscovery) -> Result<Vec<u16>, SupplyErrorKind> {
    let answer = source.instances(&orders()).await;
    answer.map(|list| list.iter().map(port).collect()).map_err(|error| error.kind())
}

fn of(sources: [&Asked; 2]) -> CompositeDiscovery {
    CompositeDiscovery::new(sources.map(|source| Arc::new(source.clone()) as Arc<dyn DiscoveryClient>))
        .with_seed(5)
}

#[tokio::test(start_paused = true)]
async fn a_source_that_errs_counts_with_its_own_last_good_list() {
    let (a, b) = (Asked::of(None), Asked::of(Some(&[2])));
    let first = of([&a, &b]).with_stale_bound(Some(Duration::from_secs(60)));
    // It never answered: passed over.
    assert_eq!(ask(&first).await, Ok(vec![2]));
    a.set(Some(&[1]));
    assert_eq!(ask(&first).await, Ok(vec![1]));
    assert_eq!(b.asked(), 1, "the second is not asked when the first has instances");
    a.set(None);
    advance(Duration::from_secs(60)).await;
    assert_eq!(ask(&first).await, Ok(vec![1]));
    assert_eq!(first.health().state, SourceState::Failing);
    // Past its bound: passed over. Truly empty: passed over as well, but an answer.
    advance(Duration::from_secs(1)).await;
    assert_eq!(ask(&first).await, Ok(vec![2]));
    b.set(Some(&[]));
    assert_eq!(ask(&first).await, Ok(vec![]));
    b.set(None);
    assert_eq!(ask(&first).await, Ok(vec![]));
    advance(Duration::from_secs(61)).await;
    let error = first.instances(&orders()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"composite of asked, asked could not be asked for service "orders": asked could not be asked: down; asked could not be asked: down"#
    );
    // Without a bound, as long as it takes.
    let first = of([&a, &b]);
    a.set(Some(&[1]));
    assert_eq!(ask(&first).await, Ok(vec![1]));
    a.set(None);
    b.set(Some(&[2]));
    advance(Duration::from_secs(1_000_000)).await;
    assert_eq!(ask(&first).await, Ok(vec![1]));
}

#[tokio::test(start_paused = true)]
async fn merged_lists_and_names() {
    let (a, b) = (Asked::of(Some(&[1, 2])), Asked::of(Some(&[2, 3])));
    let merged = of([&a, &b]).merge();
    assert_eq!(ask(&merged).await, Ok(vec![1, 2, 3]));
    assert_eq!(merged.services().await.unwrap(), [id("s1"), id("s2"), id("s3")]);
    b.set(None);
    assert_eq!(ask(&merged).await, Ok(vec![1, 2, 3]));
    a.set(Some(&[]));
    assert_eq!(ask(&merged).await, Ok(vec![2, 3]));
    assert_eq!(merged.services().await.unwrap(), [id("s2"), id("s3")]);
    let unknown = of([&Asked::of(None), &Asked::of(None)]);
    assert_eq!(unknown.services().await.unwrap_err().kind(), SupplyErrorKind::Io);
    assert_eq!(ask(&CompositeDiscovery::default()).await, Ok(vec![]));
    assert!(CompositeDiscovery::default().watch(&orders()).is_none());
}

#[tokio::test(start_paused = true)]
async fn one_that_hangs_or_panics_spoils_nothing() {
    let (a, b) = (Asked::of(Some(&[1])), Asked::of(Some(&[2])));
    a.0.lock().hangs = true;
    let (first, merged) = (of([&a, &b]), of([&a, &b]).merge());
    let before = Instant::now();
    assert_eq!((ask(&first).await, ask(&merged).await), (Ok(vec![2]), Ok(vec![2])));
    assert_eq!(before.elapsed(), Duration::from_secs(16));
    a.0.lock().hangs = false;
    a.0.lock().panics = true;
    assert_eq!(ask(&first).await, Ok(vec![2]));
    assert_eq!(first.health().last_error.unwrap().kind(), SupplyErrorKind::Panicked);
}

#[tokio::test(start_paused = true)]
async fn a_watch_follows_pushes_and_asks_the_rest() {
    let (push, asked) = (SimpleDiscovery::new(), Asked::of(Some(&[2])));
    assert!(of([&asked, &asked]).watch(&orders()).is_none());
    let source = CompositeDiscovery::default().with(push.clone()).with(asked.clone()).with_seed(1);
    let mut lists = source.watch(&orders()).unwrap();
    let mut next = async || lists.next().await.unwrap().unwrap();
    assert_eq!(next().await, list(&[2]));
    push.set(&orders(), list(&[1]));
    assert_eq!(next().await, list(&[1]));
    push.remove(&orders());
    assert_eq!(next().await, list(&[2]));
    let (before, asked_before) = (Instant::now(), asked.asked());
    asked.set(Some(&[3]));
    assert_eq!(next().await, list(&[3]));
    assert!((27..=33).contains(&before.elapsed().as_secs()) && asked.asked() == asked_before + 1);
    // No answer is no news.
    asked.set(None);
    assert!(timeout(Duration::from_secs(300), lists.next()).await.is_err());
    assert!(asked.asked() > asked_before + 5);
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_start_waits_for_the_sources_that_matter() {
    let (hangs, push) = (Asked::of(None), SimpleDiscovery::new());
    hangs.0.lock().hangs = true;
    push.set(&orders(), list(&[2]));
    let source = CompositeDiscovery::default().with(hangs.clone()).with(push);
    let before = Instant::now();
    let mut lists = source.watch(&orders()).unwrap();
    assert!(lists.next().now_or_never().is_none());
    assert_eq!(lists.next().await.unwrap().unwrap(), list(&[2]));
    assert_eq!(before.elapsed(), Duration::from_secs(8));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_is_subscribed_again_and_its_list_ages_from_then() {
    let subscribed = Arc::new(Mutex::new(Vec::new()));
    let scripts = [(vec![Some(1)], true), (vec![None, None, None], false), (vec![Some(4)], false)];
    let watched = Watched { scripts: Mutex::new(scripts.into()), subscribed: Arc::clone(&subscribed) };
    let source = CompositeDiscovery::default().with(watched).with(Asked::of(Some(&[9])));
    let mut lists = source.watch(&orders()).unwrap();
    assert_eq!(lists.next().await.unwrap().unwrap(), list(&[1]));
    assert_eq!(lists.next().await.unwrap().unwrap(), list(&[4]), "nothing but a new list is pushed");
    let times = subscribed.lock().clone();
    let waits: Vec<u128> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect();
    assert_eq!(waits.len(), 2);
    assert!((500..=1_001).contains(&waits[0]) && (1_500..=4_001).contains(&waits[1]), "{waits:?}");

    // Silent after an error: with a bound the next source takes over when the list is too old.
    let scripts = [(vec![Some(1), None], false)];
    let watched = Watched { scripts: Mutex::new(scripts.into()), subscribed: Arc::default() };
    let bound = Duration::from_secs(100);
    let source =
        CompositeDiscovery::default().with(watched).with(Asked::of(Some(&[9]))).with_stale_bound(Some(bound));
    let mut lists = source.watch(&orders()).unwrap();
    assert_eq!(lists.next().await.unwrap().unwrap(), list(&[1]));
    let before = Instant::now();
    assert_eq!(lists.next().await.unwrap().unwrap(), list(&[9]));
    assert_eq!(before.elapsed(), bound + Duration::from_millis(1));
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_sources_without_an_answer_is_an_error_once() {
    let watched = Watched { scripts: Mutex::default(), subscribed: Arc::default() };
    watched.scripts.lock().extend([(vec![None], true), (vec![None], true), (vec![Some(1)], false)]);
    let source = CompositeDiscovery::default().with(watched);
    let mut lists = source.watch(&orders()).unwrap();
    let error = lists.next().await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.service()), (SupplyErrorKind::Io, Some(&orders())));
    let mut errors = 1;
    loop {
        match lists.next().await.unwrap() {
            Ok(found) => break assert_eq!(found, list(&[1])),
            Err(_) => errors += 1,
        }
    }
    assert!(errors <= 4);
}
