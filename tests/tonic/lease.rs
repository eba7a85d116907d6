//! The lease of an instance ends with the stream, however that ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::net::*;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::policy::LeastRequest;
use evenkeel::{LoadBalancer, LoadBalancers};

/// Calls in flight to the instance `id`.
fn in_flight(balancer: &LoadBalancer, id: &str) -> u32 {
    let list = balancer.snapshot().unwrap();
    let found = list.instances().find(|state| state.instance().id() == id).map(|state| state.in_flight());
    found.unwrap()
}

#[tokio::test]
async fn case_035_calls_that_are_given_up_or_fail_to_connect_leave_no_count() {
    let hangs = Arc::new(AtomicBool::new(true));
    let act = || {
        let hangs = Arc::clone(&hangs);
        by(move |_| if hangs.load(Ordering::SeqCst) { Act::Hang } else { Act::Answer })
    };
    let (a, b) = (Server::start("a", act()).await, Server::start("b", act()).await);
    let registry = SimpleDiscovery::new().with_instances("orders", [a.instance(), b.instance()]).unwrap();
    let builder = LoadBalancers::builder(registry);
    let balancers = builder.service("orders", |service| service.policy(LeastRequest)).build().unwrap();
    let orders = balancers.get("orders").unwrap();
    let client = EchoClient::new(orders.tonic());
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move { client.say(word("x")).await.map(drop) })
        })
        .collect();
    eventually("fifty calls", || a.served() + b.served() == 50).await;
    assert_eq!(orders.in_flight(), 50);
    for call in calls {
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    }
    assert_eq!((in_flight(&orders, "a"), in_flight(&orders, "b")), (0, 0));

    let (dead, other) = (Refusing::new(), Refusing::new());
    let failing = balancers_of([dead.instance("a"), other.instance("b")]);
    let mut refused = EchoClient::new(failing.tonic("orders"));
    for _ in 0..10 {
        refused.say(word("x")).await.unwrap_err();
    }
    assert_eq!(failing.in_flight(), 0);

    hangs.store(false, Ordering::SeqCst);
    let (mut client, before) = (client, a.served());
    for _ in 0..100 {
        client.say(word("x")).await.unwrap();
    }
    let to_a = a.served() - before;
    assert!(to_a.abs_diff(50) <= 15, "{to_a} of 100");
}

fn balancers_of(instances: [evenkeel::ServiceInstance; 2]) -> LoadBalancers {
    balancers(instances, patient())
}

#[tokio::test]
async fn case_035_a_stream_counts_until_it_ends() {
    let servers = [Server::start("a", Act::Answer).await, Server::start("b", Act::Answer).await];
    let registry =
        SimpleDiscovery::new().with_instances("orders", servers.each_ref().map(Server::instance)).unwrap();
    let builder = LoadBalancers::builder(registry);
    let balancers = builder.service("orders", |service| service.policy(LeastRequest)).build().unwrap();
    let orders = balancers.get("orders").unwrap();
    let mut client = EchoClient::new(orders.tonic());
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    let words = futures_util::stream::unfold(receiver, async |mut words| Some((words.recv().await?, words)));
    sender.send(word("1")).unwrap();
    let answer = client.chat(words).await.unwrap();
    let (busy, _) = via(&answer);
    let mut answers = answer.into_inner();
    assert_eq!(answers.message().await.unwrap().unwrap().text, format!("{busy} 1"));
    assert_eq!(in_flight(&orders, &busy), 1);
    for _ in 0..9 {
        let answer = client.say(word("x")).await.unwrap();
        assert_ne!(via(&answer).0, busy, "the other has nothing to do");
    }
    sender.send(word("2")).unwrap();
    assert_eq!(answers.message().await.unwrap().unwrap().text, format!("{busy} 2"));
    assert_eq!(in_flight(&orders, &busy), 1);
    drop(sender);
    assert!(answers.message().await.unwrap().is_none());
    assert_eq!(orders.in_flight(), 0, "with the status, although the stream is still held");
}

#[tokio::test]
async fn case_035_a_caller_that_panics_ends_the_lease() {
    let server = Server::start("a", Act::Silence).await;
    let balancers = balancers([server.instance()], patient());
    let mut client = EchoClient::new(balancers.tonic("orders"));
    let words = client.list(word("x")).await.unwrap().into_inner();
    assert_eq!(balancers.in_flight(), 1);
    let caller = tokio::spawn(async move {
        let _words = words;
        panic!("a caller that panics while it holds the stream");
    });
    assert!(caller.await.unwrap_err().is_panic());
    assert_eq!(balancers.in_flight(), 0);
}

#[tokio::test]
async fn a_status_at_once_ends_the_lease_at_once() {
    let server = Server::start("a", Act::Status(tonic::Status::not_found("x"))).await;
    let balancers = balancers([server.instance()], patient());
    let mut client = EchoClient::new(balancers.tonic("orders"));
    client.list(word("x")).await.unwrap_err();
    assert_eq!(balancers.in_flight(), 0);
}
