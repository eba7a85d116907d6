//! What is repeated if one says so, and what servers say of it.

use std::time::{Duration, Instant};

use super::net::*;
use evenkeel::config::Properties;
use tonic::{Code, Status};

fn failing(code: Code, push_back: Option<&'static str>) -> Act {
    let mut status = Status::new(code, "busy");
    if let Some(push_back) = push_back {
        status.metadata_mut().insert("grpc-retry-pushback-ms", push_back.parse().unwrap());
    }
    Act::Status(status)
}

/// Two calls over a server that fails and one that does not: who failed, and how many attempts the others took.
async fn two_calls(act: Act, properties: Properties, retry: bool) -> (Vec<Status>, u32, usize) {
    let (bad, good) = (Server::start("a", act).await, Server::start("b", Act::Answer).await);
    let channel = balancers([bad.instance(), good.instance()], properties).tonic("orders");
    let channel =
        if retry { channel.retry([Code::Unavailable], |path| path.ends_with("/Say")) } else { channel };
    let mut client = EchoClient::new(channel);
    let (mut errors, mut attempts) = (Vec::new(), 0);
    for _ in 0..2 {
        match client.say(word("x")).await {
            Ok(answer) => {
                attempts += via(&answer).1;
                assert_eq!(answer.into_inner().text, "b x");
            }
            Err(status) => errors.push(status),
        }
    }
    (errors, attempts, bad.served())
}

#[tokio::test]
async fn a_status_is_repeated_if_the_client_says_so() {
    let none = patient();
    let (errors, attempts, _) = two_calls(failing(Code::Unavailable, None), none.clone(), false).await;
    assert_eq!((errors.len(), attempts), (1, 1), "by itself nothing is");
    let (errors, attempts, served) = two_calls(failing(Code::Unavailable, None), none.clone(), true).await;
    assert_eq!((errors.len(), attempts, served), (0, 3, 1));
    let (errors, ..) = two_calls(failing(Code::Internal, None), none.clone(), true).await;
    assert_eq!(errors.len(), 1, "another code is not");
    let off = none.set("retry.enabled", false).unwrap();
    let (errors, ..) = two_calls(failing(Code::Unavailable, None), off, true).await;
    assert_eq!(errors.len(), 1, "retries are off");
}

#[tokio::test]
async fn a_method_that_is_not_named_is_not_repeated() {
    let act = || failing(Code::Unavailable, None);
    let (bad, good) = (Server::start("a", act()).await, Server::start("b", Act::Answer).await);
    let channel = balancers([bad.instance(), good.instance()], patient()).tonic("orders");
    let mut client = EchoClient::new(channel.retry([Code::Unavailable], |path| path == "/test.Echo/Say"));
    let mut errors = 0;
    for _ in 0..2 {
        errors += usize::from(client.list(word("x")).await.is_err());
    }
    assert_eq!((errors, bad.served(), good.served()), (1, 1, 1));
}

#[tokio::test]
async fn when_all_fail_the_status_of_the_last_one_names_them_all() {
    let (a, b) = (
        Server::start("a", failing(Code::Unavailable, None)).await,
        Server::start("b", failing(Code::Unavailable, None)).await,
    );
    let channel = balancers([a.instance(), b.instance()], patient()).tonic("orders");
    let mut client = EchoClient::new(channel.retry([Code::Unavailable], |_| true));
    let status = client.say(word("x")).await.unwrap_err();
    assert_eq!((status.code(), a.served(), b.served()), (Code::Unavailable, 1, 1));
    for server in [&a, &b] {
        let name = server.instance().to_string();
        assert!(status.message().starts_with("busy (") && status.message().contains(&name), "{status}");
        assert!(evenkeel::client::tonic::tried(&status).unwrap().contains(&name));
    }
}

#[tokio::test]
async fn a_server_that_pushes_back_is_obeyed() {
    for (push_back, errors_expected) in [("-1", 1), ("soon", 1), ("60000", 1), ("400", 0), ("0", 0)] {
        let start = Instant::now();
        let act = failing(Code::Unavailable, Some(push_back));
        let (errors, attempts, _) = two_calls(act, patient(), true).await;
        assert_eq!(errors.len(), errors_expected, "{push_back}: {errors:?}");
        assert_eq!(attempts, if errors_expected == 1 { 1 } else { 3 }, "{push_back}");
        let least = if push_back == "400" { Duration::from_millis(400) } else { Duration::ZERO };
        assert!(start.elapsed() >= least && start.elapsed() < Duration::from_secs(20), "{push_back}");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_off_is_repeated_as_unavailable() {
    let mut victim = Server::start("a", Act::Hang).await;
    let live = Server::start("b", Act::Answer).await;
    let channel = balancers([victim.instance(), live.instance()], patient()).tonic("orders");
    let client = EchoClient::new(channel.retry([Code::Unavailable], |_| true));
    let calls: Vec<_> = (0..2)
        .map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move { client.say(word("x")).await })
        })
        .collect();
    eventually("both", || victim.served() == 1 && live.served() == 1).await;
    victim.kill();
    for call in calls {
        assert_eq!(ends("a call", call).await.unwrap().unwrap().into_inner().text, "b x");
    }
    assert_eq!(live.served(), 2);
}
