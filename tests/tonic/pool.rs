//! Connections: they follow the list, and streams stay where they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::net::*;
use evenkeel::client::tonic::BalancedChannel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// A stream that a test keeps open.
async fn talk(
    client: &mut Client,
) -> (String, tokio::sync::mpsc::UnboundedSender<Word>, tonic::Streaming<Word>) {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    let words = futures_util::stream::unfold(receiver, async |mut words| Some((words.recv().await?, words)));
    let answer = client.chat(words).await.unwrap();
    (via(&answer).0, sender, answer.into_inner())
}

/// The calls of so many seconds of the case, divided by twenty. How fast they come decides nothing.
async fn calls(client: &mut Client, seconds: u32) {
    for _ in 0..seconds * 50 / 20 {
        client.say(word("x")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn case_064_the_third_run_new_servers_get_their_share_and_old_ones_nothing_more() {
    let mut servers = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        servers.push(Server::start(name, Act::Answer).await);
    }
    let listed =
        |range: std::ops::Range<usize>| servers[range].iter().map(Server::instance).collect::<Vec<_>>();
    let served = |range: std::ops::Range<usize>| servers[range].iter().map(Server::served).sum::<usize>();
    let (registry, balancers) = changing(listed(0..4));
    let mut client = EchoClient::new(balancers.tonic("orders"));
    calls(&mut client, 60).await;
    assert_eq!(served(0..4), 150);
    assert!(servers[..4].iter().all(|server| server.connections() == 1));

    let (first, words, mut answers) = loop {
        let talk = talk(&mut client).await;
        if talk.0 == "a" {
            break talk;
        }
    };
    let changes = balancers.get("orders").unwrap().changes();
    let version = *changes.borrow();
    registry.set(&orders(), listed(0..8));
    eventually("the list", || *changes.borrow() > version).await;
    let before = served(0..4);
    calls(&mut client, 100).await;
    let (old, new) = (served(0..4) - before, served(4..8));
    assert!(new * 10 >= (old + new) * 4 && new * 10 <= (old + new) * 6, "{new} of {}", old + new);

    let version = *changes.borrow();
    registry.set(&orders(), listed(2..8));
    eventually("the list", || *changes.borrow() > version).await;
    let before = served(0..2);
    calls(&mut client, 60).await;
    assert_eq!(served(0..2), before, "those that left get nothing");
    // The stream stays where it is, and its connection with it.
    assert_eq!(first, "a");
    words.send(word("still")).unwrap();
    assert_eq!(answers.message().await.unwrap().unwrap().text, "a still");
    eventually("the idle connection to close", || servers[1].open() == 0).await;
    assert_eq!(servers[0].open(), 1);
    drop(words);
    assert!(answers.message().await.unwrap().is_none());
    drop(answers);
    eventually("the other to close as well", || servers[0].open() == 0).await;
}

#[tokio::test]
async fn an_idle_client_follows_the_list_and_holds_nobody_up() {
    let (old, new) = (Server::start("old", Act::Answer).await, Server::start("new", Act::Answer).await);
    let (registry, balancers) = changing([old.instance()]);
    let mut client = EchoClient::new(balancers.tonic("orders"));
    client.say(word("x")).await.unwrap();
    let changes = balancers.get("orders").unwrap().changes();
    // More changes than any queue would hold, while nobody calls.
    for n in 0..2_000_u16 {
        registry.set(&orders(), [at(([127, 0, 0, 1], 1 + n % 7).into(), "passing")]);
    }
    registry.set(&orders(), [new.instance()]);
    let list = || balancers.get("orders").unwrap().snapshot().unwrap();
    eventually("the list", || list().instances().all(|state| state.instance().id() == "new")).await;
    assert!(*changes.borrow() > 1);
    eventually("the old connection to close", || old.open() == 0).await;
    for _ in 0..5 {
        assert_eq!(via(&client.say(word("x")).await.unwrap()), ("new".to_owned(), 1));
    }
    assert_eq!((old.served(), new.served()), (1, 5));
    // What it does for that ends with it.
    drop(client);
    eventually("the last connection to close", || new.open() == 0).await;
}

#[tokio::test]
async fn a_server_that_shuts_down_gracefully_fails_no_call() {
    let servers = [Server::start("a", Act::Answer).await, Server::start("b", Act::Answer).await];
    let mut client = over(servers.each_ref().map(Server::instance));
    let (first, words, mut answers) = loop {
        let talk = talk(&mut client).await;
        if talk.0 == "a" {
            break talk;
        }
    };
    let running = Arc::new(AtomicBool::new(true));
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (mut client, running) = (client.clone(), Arc::clone(&running));
            tokio::spawn(async move {
                let mut failed = Vec::new();
                while running.load(Ordering::Relaxed) {
                    failed.extend(client.say(word("x")).await.err());
                }
                failed
            })
        })
        .collect();
    eventually("load", || servers.iter().all(|server| server.served() > 100)).await;
    servers[0].stop();
    let before = servers[1].served();
    eventually("load on the other", || servers[1].served() > before + 500).await;
    running.store(false, Ordering::Relaxed);
    for worker in workers {
        let failed = worker.await.unwrap();
        assert!(failed.is_empty(), "{failed:?}");
    }
    words.send(word("still")).unwrap();
    assert_eq!(answers.message().await.unwrap().unwrap().text, format!("{first} still"));
    drop(words);
    assert!(answers.message().await.unwrap().is_none());
}

#[tokio::test]
async fn several_connections_take_more_calls_than_one_permits() {
    let server =
        Server::with("a", Act::Hang, ([127, 0, 0, 1], 0).into(), |builder| builder.max_concurrent_streams(1))
            .await;
    let channel = balancers([server.instance()], patient()).tonic("orders").channels_per_instance(3);
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let mut client = EchoClient::new(channel.clone());
            tokio::spawn(async move { client.say(word("x")).await.map(drop) })
        })
        .collect();
    eventually("three calls at the same time", || server.served() == 3).await;
    assert_eq!(server.connections(), 3);
    for call in calls {
        call.abort();
    }

    let server = Server::start("b", Act::Answer).await;
    let channel = balancers([server.instance()], patient()).tonic("orders").channels_per_instance(3);
    for _ in 0..10 {
        EchoClient::new(channel.clone()).say(word("x")).await.unwrap();
    }
    assert_eq!((server.served(), server.connections()), (10, 1), "one is enough for one call at a time");
}

#[tokio::test]
async fn generated_clients_take_it_with_interceptors_and_streams() {
    fn shared<T: Clone + Send + Sync + 'static>(_: &T) {}
    let server = Server::start("a", Act::Answer).await;
    let channel: BalancedChannel = balancers([server.instance()], patient()).tonic("orders");
    shared(&channel);
    let mut client = HealthClient::with_interceptor(channel.clone(), |mut request: tonic::Request<()>| {
        request.metadata_mut().insert("x-token", "secret".parse().unwrap());
        Ok(request)
    });
    let answer = client.check(HealthCheckRequest::default()).await.unwrap();
    assert_eq!((via(&answer).0, answer.into_inner().status), ("a".to_owned(), 1));
    let mut client = HealthClient::new(channel);
    let mut changes = client.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(changes.message().await.unwrap().unwrap().status, 1);
    server.health.set_service_status("", tonic_health::ServingStatus::NotServing).await;
    assert_eq!(changes.message().await.unwrap().unwrap().status, 2);
}
