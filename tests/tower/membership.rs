//! The membership as tower's own balancer has it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel::client::tower::{BoxError, Membership};
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::{LoadBalancer, ServiceInstance, SupplierBuilder};
use futures_util::{FutureExt, StreamExt};
use tower::balance::p2c::Balance;
use tower::discover::Change;
use tower::load::{CompleteOnResponse, PendingRequestsDiscover};
use tower::{Service, ServiceExt, service_fn};

use super::net::eventually;

fn instances(ids: &str) -> Vec<ServiceInstance> {
    let one = |id: char| ServiceInstance::builder("h.test").port(1).id(id.to_string()).build().unwrap();
    ids.chars().map(one).collect()
}

fn live(ids: &str) -> (SimpleDiscovery, LoadBalancer) {
    let registry = SimpleDiscovery::new().with_instances("orders", instances(ids)).unwrap();
    let supplier = SupplierBuilder::new("orders").with_discovery_client(registry.clone()).build().unwrap();
    (registry, LoadBalancer::builder(supplier).build())
}

/// The next changes of the stream, so many, and then none.
async fn read(members: &mut Membership<String>, there: &mut Vec<(u64, String)>, changes: usize) {
    for _ in 0..changes {
        let change = tokio::time::timeout(Duration::from_secs(10), members.next()).await;
        match change.expect("a change").unwrap().unwrap() {
            Change::Insert(key, id) => {
                assert!(there.iter().all(|(known, _)| *known != key), "told twice");
                there.push((key, id));
            }
            Change::Remove(key) => {
                let at = there.iter().position(|(known, _)| *known == key).unwrap();
                there.swap_remove(at);
            }
        }
    }
    assert!(members.next().now_or_never().is_none(), "more than {changes}");
}

fn ids(there: &[(u64, String)]) -> String {
    there.iter().map(|(_, id)| &**id).collect::<BTreeSet<_>>().into_iter().collect()
}

#[tokio::test]
async fn it_tells_differences_of_states_and_no_events() {
    let (registry, orders) = live("abc");
    let mut members = orders.discover(|instance| Ok::<_, BoxError>(instance.id().to_owned()));
    let mut there = Vec::new();
    read(&mut members, &mut there, 3).await;
    assert_eq!(ids(&there), "abc");
    // A hundred lists, while nobody reads.
    for n in 0..100 {
        registry.set(orders.service_id(), instances(if n % 2 == 0 { "xyz" } else { "abd" }));
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    eventually("the last list", || {
        orders.snapshot().unwrap().instances().any(|state| state.instance().id() == "d")
    })
    .await;
    read(&mut members, &mut there, 2).await;
    assert_eq!(ids(&there), "abd");
    orders.close().await;
    assert!(members.next().await.is_none(), "it ends with its balancer");
}

#[tokio::test]
async fn a_stream_that_is_dropped_lets_go_of_the_balancer() {
    let (_registry, orders) = live("a");
    let mut members = orders.discover(|instance| Ok::<_, BoxError>(instance.id().to_owned()));
    let mut there = Vec::new();
    read(&mut members, &mut there, 1).await;
    let changes = orders.changes();
    drop(orders);
    assert!(changes.has_changed().is_ok(), "the stream keeps it");
    drop(members);
    let mut changes = changes;
    let limit = Duration::from_secs(10);
    let ended = tokio::time::timeout(limit, async { while changes.changed().await.is_ok() {} }).await;
    assert!(ended.is_ok(), "its work ended");
}

#[tokio::test]
async fn towers_own_balancer_follows_the_list() {
    let (registry, orders) = live("ab");
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let members = orders.discover(move |instance| {
        let (id, count) = (instance.id().to_owned(), Arc::clone(&count));
        Ok::<_, BoxError>(service_fn(move |()| {
            count.fetch_add(1, Ordering::SeqCst);
            let id = id.clone();
            async move { Ok::<_, BoxError>(id) }
        }))
    });
    let mut service = Balance::new(PendingRequestsDiscover::new(members, CompleteOnResponse::default()));
    let mut seen = BTreeSet::new();
    for _ in 0..50 {
        seen.insert(service.ready().await.unwrap().call(()).await.unwrap());
    }
    assert_eq!(seen.into_iter().collect::<String>(), "ab");
    registry.set(orders.service_id(), instances("c"));
    eventually("the list", || orders.snapshot().unwrap().instances().len() == 1).await;
    assert_eq!(service.ready().await.unwrap().call(()).await.unwrap(), "c");
    assert_eq!(calls.load(Ordering::SeqCst), 51);
}
