//! Servers that are dead, or die: a call that nobody looked at goes on to another instance.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::net::*;
use evenkeel::config::Properties;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tonic::{Code, Status};

#[tokio::test]
async fn two_live_and_one_dead_endpoint_300_calls_no_failure() {
    let (a, dead, b) =
        (Server::start("a", Act::Answer).await, Refusing::new(), Server::start("b", Act::Answer).await);
    let mut client = over([a.instance(), dead.instance("dead"), b.instance()]);
    let mut attempts = 0;
    for n in 0..300 {
        let answer = client.say(word(&n.to_string())).await.unwrap();
        let (id, tried) = via(&answer);
        assert_eq!(answer.into_inner().text, format!("{id} {n}"));
        attempts += tried;
    }
    assert_eq!(a.served() + b.served(), 300);
    assert!(a.served().abs_diff(b.served()) <= 10, "{} and {}", a.served(), b.served());
    // A probing call now and then, as long as the machine takes for 300 calls.
    assert!((301..=310).contains(&attempts), "{attempts}");
}

#[tokio::test]
async fn no_call_fails_as_long_as_one_instance_is_alive() {
    let (dead, live) = ([(); 6].map(|()| Refusing::new()), Server::start("b", Act::Answer).await);
    let dead = dead.iter().enumerate().map(|(n, port)| port.instance(&format!("dead {n}")));
    let mut client = over(dead.chain([live.instance()]));
    let mut attempts = Vec::new();
    for _ in 0..20 {
        attempts.push(via(&client.say(word("x")).await.unwrap()).1);
    }
    assert_eq!(live.served(), 20);
    assert!(attempts.iter().max() > Some(&2), "{attempts:?}: one call met several of them");
}

#[tokio::test]
async fn case_026_what_was_never_sent_goes_to_another_whatever_kind_of_call_it_is() {
    let (dead, live) = (Refusing::new(), Server::start("b", Act::Answer).await);
    let mut attempts = 0;
    for _ in 0..2 {
        // Each has to find out by itself.
        let mut client = over([dead.instance("a"), live.instance()]);
        for _ in 0..2 {
            attempts += via(&client.say(word("x")).await.unwrap()).1;
        }
        let mut client = over([dead.instance("a"), live.instance()]);
        for _ in 0..2 {
            let words = futures_util::stream::iter([word("1"), word("2")]);
            let answer = client.chat(words).await.unwrap();
            attempts += via(&answer).1;
            let mut words = answer.into_inner();
            assert_eq!(words.message().await.unwrap().unwrap().text, "b 1");
            assert_eq!(words.message().await.unwrap().unwrap().text, "b 2");
            assert!(words.message().await.unwrap().is_none());
        }
    }
    assert_eq!((attempts, live.served()), (8 + 4, 8), "each client tried the dead one once");
}

/// What is left of a call that reached an instance which may have worked on it.
#[tokio::test]
async fn case_026_a_call_that_may_have_been_processed_is_not_repeated() {
    let (silent, live) = (Server::start("c", Act::Hang).await, Server::start("b", Act::Answer).await);
    let mut client = over([silent.instance(), live.instance()]);
    let mut errors = Vec::new();
    for _ in 0..2 {
        let mut request = tonic::Request::new(word("once"));
        request.set_timeout(Duration::from_millis(800));
        errors.extend(client.say(request).await.err());
    }
    assert_eq!((silent.served(), live.served()), (1, 1), "each got one of the two");
    let [error] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!(error.code(), Code::DeadlineExceeded);
    assert!(error.message().contains(&silent.instance().to_string()), "{error}");
}

/// A port that takes no more connections: its queue is full, so that the system drops every attempt.
pub async fn blackhole() -> (TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(stream) = tokio::time::timeout(Duration::from_millis(500), TcpStream::connect(address)).await
    {
        queued.push(stream.unwrap());
        assert!(queued.len() < 64, "the queue of the listener never fills");
    }
    (listener, queued)
}

#[tokio::test]
async fn calls_that_wait_for_a_connection_wait_for_one_attempt_together() {
    let (hole, _queued) = blackhole().await;
    let live = Server::start("b", Act::Answer).await;
    let properties = Properties::default().set("connect-timeout", "500ms").unwrap();
    let balancers = balancers([at(hole.local_addr().unwrap(), "a"), live.instance()], properties);
    let client = EchoClient::new(balancers.tonic("orders"));
    let start = Instant::now();
    let calls = (0..80).map(|_| {
        let mut client = client.clone();
        async move { via(&client.say(word("x")).await.unwrap()) }
    });
    let answers = futures_util::future::join_all(calls).await;
    assert!(answers.iter().all(|(id, _)| id == "b"));
    let twice = answers.iter().filter(|(_, attempts)| *attempts == 2).count();
    assert_eq!(twice, 40, "half of them went to the hole first");
    // One after the other they would take twenty.
    assert!(
        (Duration::from_millis(500)..Duration::from_secs(10)).contains(&start.elapsed()),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn a_server_that_accepts_and_closes_is_a_dead_one() {
    let closing = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = closing.local_addr().unwrap();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = closing.accept().await {
            drop(stream);
        }
    });
    let live = Server::start("b", Act::Answer).await;
    let mut client = over([at(address, "a"), live.instance()]);
    let mut failed = Vec::new();
    for _ in 0..20 {
        failed.extend(client.say(word("x")).await.err());
    }
    // Whether a request got onto the wire before the connection broke is up to the system.
    assert!(failed.len() <= 1, "{failed:?}");
    assert!(failed.iter().all(|status| status.code() == Code::Unavailable), "{failed:?}");
    assert_eq!(live.served() + failed.len(), 20);
    task.abort();
}

#[tokio::test]
async fn a_killed_server_costs_only_what_was_on_its_way() {
    let mut victim = Server::start("a", Act::Answer).await;
    let (b, c) = (Server::start("b", Act::Answer).await, Server::start("c", Act::Answer).await);
    let client = over([victim.instance(), b.instance(), c.instance()]);
    let running = Arc::new(AtomicBool::new(true));
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let (mut client, running) = (client.clone(), Arc::clone(&running));
            tokio::spawn(async move {
                let (mut answered, mut failed) = (0_usize, Vec::<Status>::new());
                while running.load(Ordering::Relaxed) {
                    match ends("a call", client.say(word("x"))).await {
                        Ok(_) => answered += 1,
                        Err(status) => failed.push(status),
                    }
                }
                (answered, failed)
            })
        })
        .collect();
    eventually("load on all", || victim.served() > 100 && b.served() > 100 && c.served() > 100).await;
    victim.kill();
    let before = b.served() + c.served();
    eventually("load on the others", || b.served() + c.served() > before + 500).await;
    running.store(false, Ordering::Relaxed);
    let (mut answered, mut failed) = (0, Vec::new());
    for worker in workers {
        let (more, errors) = worker.await.unwrap();
        answered += more;
        failed.extend(errors);
    }
    assert!(answered > 800);
    // Each worker had one call with the victim, which may have worked on it; and perhaps one more while it went down. All
    // that were never sent went on.
    assert!(failed.len() <= 16, "{failed:?}");
    for status in &failed {
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        assert!(status.message().contains(&victim.instance().to_string()), "{status}");
    }
}

#[tokio::test]
async fn a_server_that_comes_back_is_used_again() {
    let mut first = Server::start("a", Act::Answer).await;
    let other = Server::start("b", Act::Answer).await;
    let mut client = over([first.instance(), other.instance()]);
    for _ in 0..10 {
        client.say(word("x")).await.unwrap();
    }
    assert_eq!((first.served(), other.served()), (5, 5));
    first.kill();
    let mut errors = Vec::new();
    for _ in 0..20 {
        errors.extend(ends("a call", client.say(word("x"))).await.err());
    }
    // One may have met the server at its end.
    assert!(errors.len() <= 1, "{errors:?}");
    let start = Instant::now();
    let again = loop {
        // The port may be held a moment longer.
        if std::net::TcpListener::bind(first.address).is_ok() {
            break Server::with("a", Act::Answer, first.address, |builder| builder).await;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "the port stays taken");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    while again.served() < 3 {
        ends("a call", client.say(word("x"))).await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(30), "it never got a call");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn all_dead_is_an_error_that_names_them_and_why() {
    let (a, b) = (Refusing::new(), Refusing::new());
    let mut client = over([a.instance("a"), b.instance("b")]);
    let status = client.say(word("x")).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    let text = status.message();
    assert!(text.starts_with("a call to service \"orders\" failed (tried "), "{text}");
    for part in [a.instance("a").to_string(), b.instance("b").to_string(), "refused".to_owned()] {
        assert!(text.contains(&part), "{part:?} in {text}");
    }
    let error = evenkeel::client::tonic::Error::of(&status).unwrap();
    assert_eq!(error.tried().len(), 2);
    let names = evenkeel::client::tonic::tried(&status).unwrap();
    assert!(names.contains("a (127.0.0.1:") && names.contains("b (127.0.0.1:"), "{names}");
    assert!(std::error::Error::source(error).is_some());
}

#[tokio::test]
async fn nothing_to_choose_and_no_such_service_are_errors_that_say_so() {
    let mut client = over([]);
    let status = client.say(word("x")).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("orders"), "{status}");
    let error = evenkeel::client::tonic::Error::of(&status).unwrap();
    assert!(error.choose_error().is_some() && error.tried().is_empty());
    assert_eq!(evenkeel::client::tonic::tried(&status), None);

    let off = patient().set_for("orders", "enabled", false).unwrap();
    let live = Server::start("a", Act::Answer).await;
    for (service, properties) in [("orders", off), ("no name", patient())] {
        let mut client = EchoClient::new(balancers([live.instance()], properties).tonic(service));
        let status = client.say(word("x")).await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
        assert!(status.message().contains(service), "{status}");
        assert!(evenkeel::client::tonic::Error::of(&status).unwrap().build_error().is_some());
    }
    assert_eq!(live.served(), 0);
}

/// What waits for a packet that never comes is told by the keep-alive, and other instances serve meanwhile.
#[tokio::test]
async fn a_connection_whose_other_end_is_gone_is_noticed_by_the_keep_alive() {
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = mute.local_addr().unwrap();
    let kept = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = mute.accept().await {
            open.push(stream);
        }
    });
    let balancers = balancers([at(address, "mute")], patient());
    let interval = Duration::from_millis(200);
    let mut client = EchoClient::new(balancers.tonic("orders").keep_alive(interval, interval));
    let answer = tokio::time::timeout(Duration::from_secs(20), client.say(word("x"))).await;
    let status = answer.expect("the keep-alive ends it").unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.message().contains(&at(address, "mute").to_string()), "{status}");
    assert_eq!(balancers.in_flight(), 0);
    kept.abort();
}

#[test]
fn a_client_goes_on_when_the_runtime_of_its_connections_is_gone() {
    let start =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let servers = start();
    let server = servers.block_on(Server::start("a", Act::Answer));
    let client = over([server.instance()]);
    for _ in 0..3 {
        let runtime = start();
        let mut client = client.clone();
        runtime.block_on(async move {
            assert_eq!(client.say(word("x")).await.unwrap().into_inner().text, "a x");
        });
        runtime.shutdown_background();
    }
    assert_eq!((server.served(), server.connections()), (3, 3));
}
