//! 3.11 Discovery: cases 103 to 116.
#![allow(clippy::unnecessary_literal_bound)] // as the trait writes it, and as its implementors do

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use evenkeel::discovery::{
    Blocking, BlockingDiscoveryClient, CompositeDiscovery, DiscoveryClient, SimpleDiscovery, SimpleEntry,
    SupplyError, SupplyErrorKind,
};
use evenkeel::policy::RoundRobin;
use evenkeel::supplier::DiscoverySupplier;
use evenkeel::{
    ChooseErrorKind, Origin, Request, ServiceId, ServiceInstance, ServiceInstanceListSupplier,
    SupplierBuilder, Target, async_trait,
};
use futures_util::StreamExt;
use tokio::time::Instant;

use crate::support::*;

/// What a chain over `client` gives first: the ids, in order.
async fn first(client: impl DiscoveryClient) -> Result<String, SupplyError> {
    let answer = chain(client).build().unwrap().get().next().await.unwrap();
    answer.map(|list| ids(&list))
}

fn ids(list: &[ServiceInstance]) -> String {
    list.iter().map(ServiceInstance::id).collect::<Vec<_>>().join(" ")
}

#[tokio::test(start_paused = true)]
async fn scl_103_a_list_keeps_the_order_of_its_source() {
    assert_eq!(first(Pull::always("2 1", Duration::ZERO)).await.unwrap(), "2 1");
}

#[tokio::test(start_paused = true)]
async fn scl_104_each_subscription_asks_anew() {
    let source = Pull::new(|n| async move { Ok(list(if n == 0 { "1 2" } else { "1 2 3" })) });
    let supplier = DiscoverySupplier::new(orders(), Arc::new(source.clone()));
    for (call, expected) in ["1 2", "1 2 3"].into_iter().enumerate() {
        let lists: Vec<_> = supplier.get().collect().await;
        let [Ok(list)] = &lists[..] else { panic!("{lists:?}") };
        assert_eq!((&*ids(list), source.calls()), (expected, call + 1));
    }
}

#[tokio::test(start_paused = true)]
async fn scl_105_an_error_is_no_answer_and_no_empty_list() {
    let error = first(Pull::new(|_| async { Err(refused()) })).await.unwrap_err();
    assert_eq!(error.kind(), SupplyErrorKind::Io);
    let source = Pull::timed(|t| if t < 10.0 { Ok(list("a b")) } else { Err(refused()) });
    let lb = balancer(source);
    pick(&lb).await;
    advance(300.0).await;
    assert_eq!(picks(&lb, 10).await.len(), 10, "the last list is served");
    settle().await;
    assert_eq!((lb.snapshot().unwrap().origin(), picks(&lb, 2).await.len()), (Origin::Stale, 2));
}

#[tokio::test(start_paused = true)]
async fn scl_106_a_source_that_does_not_answer_in_time_has_given_no_answer() {
    let source = Pull::new(|_| std::future::pending());
    let lb = over(chain(source).with_look_up_timeout(Duration::from_millis(100)), RoundRobin::default());
    let start = Instant::now();
    let error = lb.choose(&Request::EMPTY).await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_millis(100));
    let ChooseErrorKind::Supply(why) = error.kind() else { panic!("{error}") };
    assert_eq!(why.kind(), SupplyErrorKind::Timeout, "{error}");
}

/// A blocking client that does what a function does.
struct Sync<F>(F);

impl<F> fmt::Debug for Sync<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sync")
    }
}

impl<F: Fn() -> Answer + Send + std::marker::Sync + 'static> BlockingDiscoveryClient for Sync<F> {
    fn name(&self) -> &str {
        "sync"
    }
    fn instances(&self, _: &ServiceId) -> Answer {
        (self.0)()
    }
    fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        Ok(vec![])
    }
}

#[tokio::test]
async fn scl_107_a_blocking_client_gives_its_list() {
    assert_eq!(first(Blocking::new(Sync(|| Ok(list("1 2"))))).await.unwrap(), "1 2");
}

#[tokio::test]
async fn scl_108_a_blocking_client_is_asked_when_somebody_listens() {
    let now = Arc::new(Mutex::new(list("1 2")));
    let shared = Arc::clone(&now);
    let supplier = chain(Blocking::new(Sync(move || Ok(shared.lock().unwrap().clone())))).build().unwrap();
    let mut lists = supplier.get();
    *now.lock().unwrap() = list("1 2 3");
    assert_eq!(ids(&lists.next().await.unwrap().unwrap()), "1 2 3");
}

#[tokio::test]
async fn scl_109_an_error_or_panic_of_a_blocking_client_is_no_answer_and_no_empty_list() {
    let error = first(Blocking::new(Sync(|| Err(refused())))).await.unwrap_err();
    assert_eq!(error.kind(), SupplyErrorKind::Io);
    let error = first(Blocking::new(Sync(|| panic!("on purpose")))).await.unwrap_err();
    assert_eq!(error.kind(), SupplyErrorKind::Panicked);
    assert!(error.to_string().contains("on purpose"), "{error}");
}

/// On the real clock: the paused one stands still while a thread blocks.
#[tokio::test]
async fn scl_110_the_time_out_ends_a_look_up_whose_client_still_blocks() {
    let (open, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let client = Blocking::new(Sync(move || {
        // Until the test has ended.
        let _ = gate.lock().unwrap().recv();
        Ok(list("a"))
    }));
    let limit = Duration::from_millis(100);
    let lb = over(chain(client).with_look_up_timeout(limit), RoundRobin::default());
    let start = Instant::now();
    let error = lb.choose(&Request::EMPTY).await.unwrap_err();
    assert!(start.elapsed() >= limit, "{:?}", start.elapsed());
    let ChooseErrorKind::Supply(why) = error.kind() else { panic!("{error}") };
    assert_eq!(why.kind(), SupplyErrorKind::Timeout, "{error}");
    drop(open);
}

#[tokio::test(start_paused = true)]
async fn scl_111_an_error_behind_a_list_leaves_the_list() {
    let lb = balancer(Push::new(vec![(0.0, Ok(list("1 2"))), (1.0, Err(refused()))]));
    pick(&lb).await;
    advance(1.5).await;
    assert_eq!(lb.last_error().unwrap().kind(), SupplyErrorKind::Io);
    even(&picks(&lb, 10).await, "1 2", 5, 0);
    assert_eq!(lb.snapshot().unwrap().origin(), Origin::Stale);
}

#[test]
fn scl_112_a_missing_or_blank_service_id_is_refused_when_the_chain_is_built() {
    for name in ["", " ", "."] {
        let error =
            SupplierBuilder::new(name).with_discovery_client(SimpleDiscovery::new()).build().unwrap_err();
        assert!(error.to_string().contains("is no service id"), "{error}");
    }
}

/// Gives every service these instances, and lists these names; counts how often it is asked for either.
#[derive(Clone, Debug, Default)]
struct Counted {
    ids: &'static str,
    names: &'static [&'static str],
    lists: Arc<AtomicUsize>,
    listings: Arc<AtomicUsize>,
}

#[async_trait]
impl DiscoveryClient for Counted {
    fn name(&self) -> &str {
        "counted"
    }
    async fn instances(&self, _: &ServiceId) -> Answer {
        self.lists.fetch_add(1, Ordering::SeqCst);
        Ok(list(self.ids))
    }
    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        self.listings.fetch_add(1, Ordering::SeqCst);
        Ok(self.names.iter().map(|name| ServiceId::new(name).unwrap()).collect())
    }
}

fn counted(ids: &'static str, names: &'static [&'static str]) -> Counted {
    Counted { ids, names, ..Counted::default() }
}

#[tokio::test(start_paused = true)]
async fn scl_113_of_several_sources_the_first_with_instances_answers_and_all_of_them_list_names() {
    let all = [counted("", &["a", "b"]), counted("x y", &["B", "c"]), counted("z", &["a"])];
    let [first, second, third] = all.clone();
    let composite = CompositeDiscovery::default().with(first).with(second).with(third);
    assert_eq!(ids(&composite.instances(&orders()).await.unwrap()), "x y");
    assert_eq!(all.each_ref().map(|source| source.lists.load(Ordering::SeqCst)), [1, 1, 0]);
    let names = composite.services().await.unwrap();
    let expected = ["a", "b", "c"].map(|name| ServiceId::new(name).unwrap());
    assert_eq!(names, expected);
    assert_eq!(all.map(|source| source.listings.load(Ordering::SeqCst)), [1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn scl_114_of_no_source_the_answer_is_empty_and_of_two_that_of_the_first_with_instances() {
    assert_eq!(ids(&CompositeDiscovery::default().instances(&orders()).await.unwrap()), "");
    let both = CompositeDiscovery::default().with(counted("", &[])).with(counted("x", &[]));
    assert_eq!(ids(&both.instances(&orders()).await.unwrap()), "x");
    let both = CompositeDiscovery::default().with(counted("w", &[])).with(counted("x", &[]));
    assert_eq!(ids(&both.instances(&orders()).await.unwrap()), "w");
}

#[tokio::test(start_paused = true)]
async fn scl_115_a_uri_of_the_configuration_gives_host_port_and_flag() {
    let of = |name: &str, uri: &str| (ServiceId::new(name).unwrap(), vec![SimpleEntry::uri(uri)]);
    let source = SimpleDiscovery::from_entries([of("s1", "http://s11:8080"), of("s2", "https://s21:8080")]);
    let one = async |name: &str| source.instances(&ServiceId::new(name).unwrap()).await.unwrap();
    for (name, host, secure) in [("s1", "s11", false), ("s2", "s21", true)] {
        let list = one(name).await;
        assert_eq!(list.len(), 1);
        assert_eq!((list[0].host(), list[0].port(), list[0].secure()), (host, Some(8080), Some(secure)));
    }
    assert_eq!(one("unknown").await, []);
}

#[tokio::test(start_paused = true)]
async fn scl_116_port_0_is_left_out_with_a_warning_and_no_port_is_that_of_the_scheme() {
    let entry = |port: Option<&str>, secure: bool| {
        let mut entry = SimpleEntry::default();
        entry.set("host", "host");
        entry.set("secure", secure.to_string());
        entry.port = port.map(str::to_owned);
        entry
    };
    let log = Log::default();
    let _guard = log.capture();
    let entries =
        vec![entry(Some("0"), true), entry(Some("0"), false), entry(None, true), entry(None, false)];
    let source = SimpleDiscovery::from_entries([(orders(), entries)]);
    assert_eq!(log.count("has port \"0\""), 2, "{}", log.text());
    let list = source.instances(&orders()).await.unwrap();
    let urls = list.iter().map(|instance| Target::of(instance, None, false).unwrap());
    let urls: Vec<_> = urls.map(|target| (target.url("/"), target.default_port())).collect();
    let expected = [("https://host/", Some(443)), ("http://host/", Some(80))];
    assert_eq!(urls, expected.map(|(url, port)| (url.to_owned(), port)));
    assert_eq!(list.iter().map(ServiceInstance::port).collect::<Vec<_>>(), [None, None]);
}
