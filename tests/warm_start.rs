//! Warm start: the last good list in a file, for a process that starts while the registry is down.
#![cfg(feature = "file")]
#![allow(missing_docs)]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use evenkeel::config::{LiveProperties, Properties};
use evenkeel::discovery::{DiscoveryClient, FileDiscovery, SimpleDiscovery, SupplyError};
use evenkeel::{LoadBalancers, Origin, Request, ServiceId, ServiceInstance, async_trait};
use support::*;

/// A registry whose answer a test changes: `down`, `hung`, `empty`, or a list.
#[derive(Clone, Debug, Default)]
struct Registry(Arc<AtomicU8>);

const LISTS: u8 = 0;
const DOWN: u8 = 1;
const HUNG: u8 = 2;
const OTHERS: u8 = 3;

impl Registry {
    fn is(&self, what: u8) {
        self.0.store(what, Ordering::SeqCst);
    }
}

#[async_trait]
impl DiscoveryClient for Registry {
    fn name(&self) -> &'static str {
        "fake"
    }
    async fn instances(&self, _: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError> {
        match self.0.load(Ordering::SeqCst) {
            LISTS => Ok(with("zone", "a=1 b=2")),
            OTHERS => Ok(list("b c")),
            HUNG => std::future::pending().await,
            _ => Err(refused()),
        }
    }
    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        Ok(Vec::new())
    }
}

/// A process that keeps its lists in `folder`.
fn process(folder: &Path, registry: impl DiscoveryClient) -> LoadBalancers {
    let properties = properties().set("cache.warm-start", folder.display()).unwrap();
    LoadBalancers::from_properties(properties, registry).unwrap()
}

fn properties() -> Properties {
    Properties::default()
        .set("cache.ttl", "10ms")
        .and_then(|properties| properties.set("choose-timeout", WAIT.as_millis()))
        .and_then(|properties| properties.set("backoff.min", "50ms"))
        .and_then(|properties| properties.set("backoff.max", "50ms"))
        .unwrap()
}

/// The longest wait of a caller.
const WAIT: Duration = Duration::from_millis(1_500);

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    files
}

fn finished(folder: &Path) -> Vec<PathBuf> {
    files(folder).into_iter().filter(|file| file.extension().is_some_and(|end| end == "json")).collect()
}

/// Waits for a write, which happens off the workers; for ten seconds at most.
async fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A process that ran until its list was written.
async fn earlier_process(folder: &Path, service: &str) {
    let balancers = process(folder, Registry::default());
    balancers.get(service).unwrap().ready().await.unwrap();
    eventually("the write", || !finished(folder).is_empty()).await;
    balancers.shutdown().await;
}

fn origin(balancers: &LoadBalancers) -> Origin {
    balancers.get("orders").unwrap().snapshot().unwrap().origin()
}

#[tokio::test]
async fn a_process_that_starts_in_an_outage_serves_the_last_good_list() {
    let folder = tempfile::tempdir().unwrap();
    // The directory is made.
    let folder = folder.path().join("not/there/yet");
    earlier_process(&folder, "orders").await;

    // The file is one that the file source reads, and nothing else lies around.
    assert_eq!(files(&folder), [folder.join("orders.json")]);
    let source = FileDiscovery::new(folder.join("orders.json"));
    let listed = source.instances(&ServiceId::new("ORDERS").unwrap()).await.unwrap();
    assert_eq!(listed.iter().map(ServiceInstance::id).collect::<Vec<_>>(), ["a", "b"]);

    let registry = Registry::default();
    registry.is(DOWN);
    let balancers = process(&folder, registry.clone());
    // Another spelling is the same file.
    let lb = balancers.get("Orders").unwrap();
    let start = Instant::now();
    let mut seen = picks(&lb, 2).await;
    assert!(start.elapsed() < WAIT, "no longer than the failed look-up: {:?}", start.elapsed());
    seen.sort_unstable();
    assert_eq!(seen, ["a", "b"]);
    assert_eq!(origin(&balancers), Origin::Disk);
    assert!(
        lb.choose(&Request::EMPTY).await.unwrap().instance().zone().is_some(),
        "whole, with its metadata"
    );
    assert!(lb.last_error().unwrap().to_string().contains("connection refused"));
    balancers.ready(["orders"], Duration::from_secs(1)).await.unwrap();

    registry.is(OTHERS);
    eventually("the first answer", || {
        let _ = lb.try_choose(&Request::EMPTY);
        origin(&balancers) == Origin::Pull
    })
    .await;
    let mut seen = picks(&lb, 2).await;
    seen.sort_unstable();
    assert_eq!(seen, ["b", "c"]);
    eventually("its write", || {
        std::fs::read_to_string(folder.join("orders.json")).unwrap().contains("\"c\"")
    })
    .await;
    balancers.shutdown().await;
}

#[tokio::test]
async fn a_registry_that_hangs_costs_the_first_callers_their_wait_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    earlier_process(folder.path(), "orders").await;
    let registry = Registry::default();
    registry.is(HUNG);
    let balancers = process(folder.path(), registry);
    let start = Instant::now();
    let lb = balancers.get("orders").unwrap();
    pick(&lb).await;
    assert!(start.elapsed() >= WAIT, "an answer could still have come");
    assert!(lb.try_choose(&Request::EMPTY).is_ok(), "nobody waits again");
    assert_eq!(origin(&balancers), Origin::Disk);
}

#[tokio::test]
async fn a_list_that_did_not_change_is_not_written_again() {
    let folder = tempfile::tempdir().unwrap();
    earlier_process(folder.path(), "orders").await;
    let path = folder.path().join("orders.json");
    // Were it written, this mark would be gone.
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + "\n\n").unwrap();
    let marked = std::fs::read(&path).unwrap();
    let counted = Pull::new(|n| async move { Ok(if n < 20 { with("zone", "a=1 b=2") } else { list("z") }) });
    let balancers = process(folder.path(), counted.clone());
    let lb = balancers.get("orders").unwrap();
    eventually("twenty look-ups", || {
        let _ = lb.try_choose(&Request::EMPTY);
        assert!(counted.calls() > 20 || std::fs::read(&path).unwrap() == marked);
        counted.calls() >= 20
    })
    .await;
    eventually("another list", || {
        let _ = lb.try_choose(&Request::EMPTY);
        std::fs::read_to_string(&path).unwrap().contains("\"z\"")
    })
    .await;
}

#[tokio::test]
async fn an_empty_answer_is_not_written_over_the_last_good_list() {
    let folder = tempfile::tempdir().unwrap();
    earlier_process(folder.path(), "orders").await;
    let before = std::fs::read(folder.path().join("orders.json")).unwrap();
    let source = Pull::new(|_| async { Ok(Vec::new()) });
    let balancers = process(folder.path(), source.clone());
    let lb = balancers.get("orders").unwrap();
    assert!(["a", "b"].contains(&&*pick(&lb).await), "the empty guard holds for this list too");
    assert_eq!(origin(&balancers), Origin::Guarded);
    balancers.shutdown().await;
    assert_eq!(std::fs::read(folder.path().join("orders.json")).unwrap(), before);
}

#[tokio::test]
async fn a_broken_file_is_no_list() {
    let folder = tempfile::tempdir().unwrap();
    let down = Registry::default();
    down.is(DOWN);
    for text in ["{\"services\": {\"orders\": [{\"id\": \"a\", ", "", "\u{0}\u{0}", "[1, 2]"] {
        std::fs::write(folder.path().join("orders.json"), text).unwrap();
        let balancers = process(folder.path(), down.clone());
        let error = balancers.get("orders").unwrap().choose(&Request::EMPTY).await.unwrap_err();
        assert!(error.to_string().contains("connection refused"), "{text:?}: {error}");
    }
    // A folder in its place, and a folder that cannot be made: neither hurts.
    std::fs::remove_file(folder.path().join("orders.json")).unwrap();
    std::fs::create_dir(folder.path().join("orders.json")).unwrap();
    let balancers = process(folder.path(), Registry::default());
    assert_eq!(picks(&balancers.get("orders").unwrap(), 3).await.len(), 3);
    std::fs::write(folder.path().join("file"), "").unwrap();
    let balancers = process(&folder.path().join("file"), Registry::default());
    assert_eq!(picks(&balancers.get("orders").unwrap(), 3).await.len(), 3);
}

#[tokio::test]
async fn hostile_names_stay_inside_the_directory() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("lists");
    let names = [".x", ".hidden", "c:", "a:b", "Ünïcode", "$(x)", "'\";", "~", "con", "*", "a.json", "A"];
    let long = "x".repeat(300);
    let balancers = process(&folder, Registry::default());
    for refused in ["..", "../orders", "a/b", "a\\b", "%2e%2e"] {
        assert!(balancers.get(refused).is_err());
    }
    for name in names.iter().copied().chain([&*long]) {
        balancers.get(name).unwrap().ready().await.unwrap();
    }
    eventually("the writes", || finished(&folder).len() == names.len()).await;
    balancers.shutdown().await;
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 1);
    assert!(files(parent.path()).iter().all(|file| file.parent() == Some(&folder)));
    for file in finished(&folder) {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(name.bytes().all(|byte| byte.is_ascii_graphic()) && !name.starts_with('.'), "{name}");
    }
    // Each finds its own again.
    let down = Registry::default();
    down.is(DOWN);
    let balancers = process(&folder, down);
    for name in names {
        assert!(balancers.get(name).unwrap().choose(&Request::EMPTY).await.is_ok(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_of_many_lists_in_a_row_is_what_stays() {
    let folder = tempfile::tempdir().unwrap();
    let registry = SimpleDiscovery::new().with_instances("orders", list("first")).unwrap();
    let orders = ServiceId::new("orders").unwrap();
    let balancers = process(folder.path(), registry.clone());
    let lb = balancers.get("orders").unwrap();
    lb.ready().await.unwrap();
    let path = folder.path().join("orders.json");
    for round in 0..20 {
        for n in 0..20 {
            registry.set(&orders, [instance(&format!("i{round}-{n}"))]);
            tokio::task::yield_now().await;
        }
        let last = instance(&format!("last{round}"));
        registry.set(&orders, [last.clone()]);
        let mut whole = 0;
        eventually("the last write", || {
            if let Ok(text) = std::fs::read_to_string(&path) {
                assert!(text.ends_with("}\n"), "never a half: {text:?}");
                whole += 1;
                return text.contains(&format!("\"{}\"", last.id()));
            }
            false
        })
        .await;
        assert!(whole > 0);
    }
    balancers.shutdown().await;
    assert_eq!(files(folder.path()), [path]);
}

#[tokio::test]
async fn it_can_be_switched_on_while_calls_run() {
    let folder = tempfile::tempdir().unwrap();
    let live = LiveProperties::new(properties());
    let balancers = LoadBalancers::builder(Registry::default()).live(live.clone()).build().unwrap();
    balancers.get("orders").unwrap().ready().await.unwrap();
    assert!(files(folder.path()).is_empty());
    live.reload(|current| current.clone().set("cache.warm-start", folder.path().display())).unwrap();
    eventually("the write of the list at hand", || !finished(folder.path()).is_empty()).await;
}
