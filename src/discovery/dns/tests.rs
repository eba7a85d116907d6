use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt};
use parking_lot::Mutex;
use tokio::time::{Instant, advance, sleep, timeout};

use super::*;
use crate::discovery::{DiscoveryClient, SourceState, SupplyErrorKind};
use crate::{ServiceId, ServiceInstance};

/// Gives `take` of `hosts` addresses in a random order, or an error while `broken`; counts the look-ups.
#[derive(Clone, Debug)]
struct Fake(Arc<Mutex<Zone>>);

#[derive(Debug)]
struct Zone {
    hosts: u8,
    take: usize,
    rng: fastrand::Rng,
    broken: bool,
    latency: Duration,
    lookups: usize,
    asked: String,
}

impl Fake {
    fn new(hosts: u8, take: usize) -> Self {
        Self(Arc::new(Mutex::new(Zone {
            hosts,
            take,
            rng: fastrand::Rng::with_seed(7),
            broken: false,
            latency: Duration::ZERO,
            lookups: 0,
            asked: String::new(),
        })))
    }
    fn lookups(&self) -> usize {
        self.0.lock().lookups
    }
}

#[async_trait]
impl Resolve for Fake {
    async fn lookup(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let latency = self.0.lock().latency;
        sleep(latency).await;
        let mut zone = self.0.lock();
        zone.lookups += 1;
        name.clone_into(&mut zone.asked);
        if zone.broken {
            return Err(io::Error::other("SERVFAIL"));
        }
        let mut all: Vec<u8> = (1..=zone.hosts).collect();
        zone.rng.shuffle(&mut all);
        Ok(all.iter().take(zone.take).map(|n| SocketAddr::from(([10, 0, 0, *n], port))).collect())
    }
}

fn source(fake: &Fake) -> DnsDiscovery {
    DnsDiscovery::new("{service}.ns.svc:8080").unwrap().with_resolver(fake.clone()).with_seed(3)
}

fn orders() -> ServiceId {
    ServiceId::new("orders").unwrap()
}

fn ids(list: &[ServiceInstance]) -> Vec<&str> {
    list.iter().map(ServiceInstance::id).collect()
}

#[tokio::test(start_paused = true)]
async fn an_instance_has_its_address_for_id_and_its_name_in_the_metadata() {
    let fake = Fake::new(2, 2);
    let list = source(&fake).instances(&orders()).await.unwrap();
    assert_eq!(ids(&list), ["10.0.0.1:8080", "10.0.0.2:8080"]);
    assert_eq!(list[0].metadata().get("dns.name"), Some("orders.ns.svc"));
    assert_eq!(list[0].service_id(), Some(&orders()));
    let without = source(&fake).with_port(0).instances(&orders()).await.unwrap();
    assert_eq!((without[0].id(), without[0].port()), ("10.0.0.1", None));
}

#[tokio::test(start_paused = true)]
async fn case_060_a_new_order_is_no_change() {
    let fake = Fake::new(20, 20);
    let source = source(&fake).with_period(Duration::from_secs(5));
    let mut lists = source.watch(&orders()).unwrap();
    let first = lists.next().await.unwrap().unwrap();
    assert_eq!(first.len(), 20);
    assert!(
        timeout(Duration::from_secs(115), lists.next()).await.is_err(),
        "a change of the order was pushed"
    );
    assert!((20..=26).contains(&fake.lookups()), "{}", fake.lookups());
}

#[tokio::test(start_paused = true)]
async fn case_060_hosts_within_the_grace_stay_and_without_one_the_answer_replaces_the_list() {
    for (grace, expected) in [(60, 14..=20), (0, 3..=3)] {
        let fake = Fake::new(20, 3);
        let source =
            source(&fake).with_period(Duration::from_secs(5)).with_absence_grace(Duration::from_secs(grace));
        let mut lists = source.watch(&orders()).unwrap();
        let mut last = Vec::new();
        let mut seen = HashSet::new();
        while fake.lookups() < 12 {
            if let Ok(list) = timeout(Duration::from_secs(1), lists.next()).await {
                last = list.unwrap().unwrap();
                seen.extend(last.iter().map(|instance| instance.id().to_owned()));
            }
        }
        assert!(expected.contains(&last.len()), "grace {grace}: {} known", last.len());
        assert!(seen.len() >= 14);
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_leaves_when_its_grace_is_over() {
    let fake = Fake::new(2, 2);
    let source = source(&fake).with_absence_grace(Duration::from_secs(60));
    assert_eq!(source.instances(&orders()).await.unwrap().len(), 2);
    fake.0.lock().hosts = 1;
    advance(Duration::from_secs(60)).await;
    assert_eq!(source.instances(&orders()).await.unwrap().len(), 2);
    advance(Duration::from_secs(2)).await;
    assert_eq!(source.instances(&orders()).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_error_is_no_answer_and_the_list_comes_again_after_it() {
    let fake = Fake::new(2, 2);
    let source = source(&fake);
    let mut lists = source.watch(&orders()).unwrap();
    let first = lists.next().await.unwrap().unwrap();
    fake.0.lock().broken = true;
    let error = lists.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), SupplyErrorKind::Io);
    assert!(error.to_string().contains("orders.ns.svc: SERVFAIL"), "{error}");
    assert_eq!(source.health().state, SourceState::Failing);
    fake.0.lock().broken = false;
    assert_eq!(lists.next().await.unwrap().unwrap(), first);
    assert_eq!(source.health().state, SourceState::Healthy);
}

#[tokio::test(start_paused = true)]
async fn asking_looks_up_at_once_feeds_the_watch_and_keeps_the_floor() {
    let fake = Fake::new(1, 9);
    let source = source(&fake);
    let mut lists = source.watch(&orders()).unwrap();
    assert_eq!(lists.next().await.unwrap().unwrap().len(), 1);
    fake.0.lock().hosts = 3;
    // Within a second the last answer is given again, however often it is asked for.
    for _ in 0..100 {
        assert_eq!(source.instances(&orders()).await.unwrap().len(), 1);
    }
    assert_eq!(fake.lookups(), 1);
    advance(Duration::from_secs(1)).await;
    let before = Instant::now();
    assert_eq!(source.instances(&orders()).await.unwrap().len(), 3);
    assert_eq!(lists.next().await.unwrap().unwrap().len(), 3);
    assert_eq!((before.elapsed(), fake.lookups()), (Duration::ZERO, 2));
}

#[tokio::test(start_paused = true)]
async fn callers_share_a_look_up_and_one_that_all_gave_up_is_not_taken_up_again() {
    let fake = Fake::new(1, 1);
    fake.0.lock().latency = Duration::from_secs(2);
    let source = source(&fake);
    let service = orders();
    let (a, b, c) =
        tokio::join!(source.instances(&service), source.instances(&service), source.instances(&service));
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    assert_eq!(fake.lookups(), 1);
    advance(Duration::from_secs(5)).await;
    assert!(timeout(Duration::from_secs(1), source.instances(&service)).await.is_err());
    fake.0.lock().hosts = 2;
    fake.0.lock().take = 2;
    assert_eq!(source.instances(&service).await.unwrap().len(), 2);
    assert_eq!(fake.lookups(), 2);
    // A resolver that hangs is an error in the end.
    fake.0.lock().latency = Duration::from_secs(3_600);
    advance(Duration::from_secs(5)).await;
    assert_eq!(source.instances(&service).await.unwrap_err().kind(), SupplyErrorKind::Timeout);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_looked_up_while_nobody_polls() {
    let fake = Fake::new(1, 1);
    let source = source(&fake);
    let mut lists = source.watch(&orders()).unwrap();
    sleep(Duration::from_secs(600)).await;
    assert_eq!(fake.lookups(), 0);
    lists.next().await.unwrap().unwrap();
    sleep(Duration::from_secs(600)).await;
    assert_eq!(fake.lookups(), 1);
    assert!(lists.next().now_or_never().is_none());
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}

/// Answers with what is in it, and panics when that is nothing.
#[derive(Debug)]
struct Fixed(&'static [&'static str]);

#[async_trait]
impl Resolve for Fixed {
    async fn lookup(&self, _: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        assert!(!self.0.is_empty(), "told to");
        Ok(self.0.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), port)).collect())
    }
}

#[tokio::test(start_paused = true)]
async fn case_046_both_families_of_addresses_are_instances() {
    let fixed = Fixed(&["2001:db8::5", "10.0.0.7", "::1", "10.0.0.7"]);
    let source = DnsDiscovery::new("{service}:8080").unwrap().with_resolver(fixed);
    let list = source.instances(&orders()).await.unwrap();
    let authorities: Vec<String> = list.iter().map(ServiceInstance::authority).collect();
    assert_eq!(authorities, ["10.0.0.7:8080", "[::1]:8080", "[2001:db8::5]:8080"]);
}

#[tokio::test(start_paused = true)]
async fn a_resolver_that_panics_gives_no_answer() {
    let source = DnsDiscovery::new("{service}:8080").unwrap().with_resolver(Fixed(&[]));
    let service = orders();
    let (a, b) = tokio::join!(source.instances(&service), source.instances(&service));
    assert_eq!(
        (a.unwrap_err().kind(), b.unwrap_err().kind()),
        (SupplyErrorKind::Panicked, SupplyErrorKind::Panicked)
    );
    assert_eq!(source.health().failures, 1);
}

#[tokio::test]
async fn the_resolver_of_the_system_knows_localhost() {
    let source = DnsDiscovery::new("localhost:8080").unwrap();
    let list = source.instances(&orders()).await.unwrap();
    assert!(
        list.iter().any(|instance| instance.host() == "127.0.0.1" || instance.host() == "::1"),
        "{list:?}"
    );
}
