//! Statuses: what they say of an instance, and whom they name.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::frames::{DATA, END_HEADERS, END_STREAM, Frames, HEADERS, flagged, head};
use super::net::*;
use evenkeel::client::tonic::{Authority, tried};
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::policy::{Candidates, Needs, Picker, Policy, RoundRobin};
use evenkeel::{Failure, InstanceState, LoadBalancers, Outcome, ServiceInstance};
use tonic::{Code, Status};

/// A round robin that keeps what it hears.
#[derive(Clone, Debug, Default)]
struct Hears(Arc<Mutex<Vec<Outcome>>>);

impl Policy for Hears {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("hears")
    }
    fn needs(&self) -> Needs {
        Needs::OUTCOMES
    }
    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        RoundRobin::default().picker(set)
    }
    fn on_outcome(&self, _: &InstanceState, outcome: Outcome, _: Option<Duration>) {
        self.0.lock().unwrap().push(outcome);
    }
}

fn hearing(instance: ServiceInstance) -> (Hears, Client) {
    let registry = SimpleDiscovery::new().with_instances("orders", [instance]).unwrap();
    let kept = Hears::default();
    let policy = kept.clone();
    let builder = LoadBalancers::builder(registry).service("orders", |service| service.policy(policy));
    (kept, EchoClient::new(builder.build().unwrap().tonic("orders")))
}

#[tokio::test]
async fn the_status_of_each_call_is_its_outcome() {
    let unavailable = || Status::unavailable("no");
    for (act, unary, outcome) in [
        (Act::Answer, true, Outcome::Grpc(0)),
        (Act::Answer, false, Outcome::Grpc(0)),
        (Act::Status(unavailable()), true, Outcome::Grpc(14)),
        (Act::Status(unavailable()), false, Outcome::Grpc(14)),
        (Act::Then(unavailable()), false, Outcome::Grpc(14)),
        (Act::Status(Status::not_found("x")), true, Outcome::Grpc(5)),
        (Act::Then(Status::internal("x")), false, Outcome::Grpc(13)),
        (Act::Hang, true, Outcome::Failure(Failure::Timeout)),
        (Act::Silence, false, Outcome::Failure(Failure::Timeout)),
    ] {
        let server = Server::start("a", act).await;
        let (heard, mut client) = hearing(server.instance());
        let mut request = tonic::Request::new(word("x"));
        request.set_timeout(Duration::from_millis(if matches!(outcome, Outcome::Failure(_)) {
            500
        } else {
            20_000
        }));
        if unary {
            let _ = client.say(request).await;
        } else if let Ok(answer) = client.list(request).await {
            let mut words = answer.into_inner();
            while let Ok(Some(_)) = words.message().await {}
        }
        eventually("the outcome", || !heard.0.lock().unwrap().is_empty()).await;
        assert_eq!(*heard.0.lock().unwrap(), [outcome], "{outcome}");
    }
}

#[tokio::test]
async fn a_stream_that_is_dropped_says_nothing_and_one_that_breaks_is_a_reset() {
    let mut server = Server::start("a", Act::Silence).await;
    let (heard, mut client) = hearing(server.instance());
    let mut words = client.list(word("x")).await.unwrap().into_inner();
    assert_eq!(words.message().await.unwrap().unwrap().text, "a x");
    drop(words);
    assert_eq!(*heard.0.lock().unwrap(), [Outcome::Cancelled]);

    let mut words = client.list(word("x")).await.unwrap().into_inner();
    assert_eq!(words.message().await.unwrap().unwrap().text, "a x");
    server.kill();
    let status = ends("the stream", words.message()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.message().contains(&server.instance().to_string()), "{status}");
    assert!(tried(&status).unwrap().starts_with("a (127.0.0.1:"));
    assert_eq!(*heard.0.lock().unwrap(), [Outcome::Cancelled, Outcome::Failure(Failure::Reset)]);
}

#[tokio::test]
async fn a_failed_call_names_its_instance_and_keeps_code_message_and_details() {
    let details = bytes::Bytes::from_static(&[8, 0, 255, 1]);
    for (code, noted) in [(Code::Unavailable, true), (Code::Internal, true), (Code::AlreadyExists, false)] {
        let mut original = Status::with_details(code, "kaputt: 100 % ä", details.clone());
        original.metadata_mut().insert("x-reason", "because".parse().unwrap());
        for in_trailers in [false, true] {
            let act = if in_trailers { Act::Then(original.clone()) } else { Act::Status(original.clone()) };
            let server = Server::start("a", act).await;
            let mut client = over([server.instance()]);
            let status = match client.list(word("x")).await {
                Err(status) => status,
                Ok(answer) => {
                    let mut words = answer.into_inner();
                    assert!(in_trailers && words.message().await.unwrap().is_some());
                    words.message().await.unwrap_err()
                }
            };
            let name = server.instance().to_string();
            assert_eq!((status.code(), status.details()), (code, &details[..]));
            let note = if noted { format!(" (service \"orders\", tried {name})") } else { String::new() };
            assert_eq!(status.message(), format!("kaputt: 100 % ä{note}"));
            assert_eq!(tried(&status), Some(&*name));
            assert_eq!(status.metadata().get("x-reason").unwrap(), "because");
        }
    }
}

#[tokio::test]
async fn an_answer_of_http_alone_is_a_status_too() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    // SETTINGS, and HEADERS with `:status: 503` (8.1 of the static table is a literal of index 8) that end the stream.
    let headers = [0x48, 0x03, b'5', b'0', b'3'];
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let instance = at(listener.local_addr().unwrap(), "proxy");
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
        super::frames::until_headers(&mut stream).await;
        stream.write_all(&[0, 0, 5, 1, 5, 0, 0, 0, 1]).await.unwrap();
        stream.write_all(&headers).await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let balancers = balancers([instance.clone()], patient());
    let status = EchoClient::new(balancers.tonic("orders")).say(word("x")).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert_eq!(
        status.message(),
        format!("the server answered with HTTP status 503 (service \"orders\", tried {instance})")
    );
    assert_eq!(balancers.in_flight(), 0);
    task.abort();
}

#[tokio::test]
async fn an_answer_that_ends_without_a_status_is_unknown_and_says_who_it_was() {
    // The word "x", and trailers with a header that is no status.
    let message = [0, 0, 0, 0, 3, 0x0a, 1, b'x'];
    let trailers = [0x40, 3, b'x', b'-', b'a', 1, b'1'];
    for (what, words, ends) in [
        ("only a head", 0, vec![]),
        ("a message", 1, vec![(DATA, END_STREAM, &message[..])]),
        ("nothing behind the head", 0, vec![(DATA, END_STREAM, &[][..])]),
        (
            "trailers without one",
            1,
            vec![(DATA, 0, &message[..]), (HEADERS, END_STREAM | END_HEADERS, &trailers[..])],
        ),
    ] {
        let frames =
            ends.iter().map(|(kind, flags, bytes)| (*kind, *flags, bytes.to_vec())).collect::<Vec<_>>();
        let raw = Frames::start(Arc::new(move |stream| {
            let mut answer = head(stream, frames.is_empty(), "200", None);
            for (kind, flags, bytes) in &frames {
                answer.extend(flagged(*kind, *flags, stream, bytes));
            }
            answer
        }))
        .await;
        let (heard, mut client) = hearing(raw.instance.clone());
        let status = match client.list(word("x")).await {
            Err(status) => status,
            Ok(answer) => {
                let mut answers = answer.into_inner();
                for _ in 0..words {
                    assert_eq!(answers.message().await.unwrap().unwrap().text, "x", "{what}");
                }
                answers.message().await.unwrap_err()
            }
        };
        assert_eq!(status.code(), Code::Unknown, "{what}: {status}");
        let name = raw.instance.to_string();
        let text = format!("the server ended its answer without a status (service \"orders\", tried {name})");
        assert_eq!((status.message(), tried(&status)), (&*text, Some(&*name)), "{what}");
        assert_eq!(*heard.0.lock().unwrap(), [Outcome::Grpc(2)], "{what}");
    }
}

#[tokio::test]
async fn the_authority_is_the_service_or_the_instance() {
    let server = Server::start("a", Act::Answer).await;
    let balancers = balancers([server.instance()], patient());
    let channel = balancers.tonic("orders");
    EchoClient::new(channel.clone()).say(word("x")).await.unwrap();
    EchoClient::new(channel.authority(Authority::Instance)).say(word("x")).await.unwrap();
    let own = channel.endpoint(|_, endpoint| {
        endpoint.origin(http::Uri::from_static("http://shop.test")).user_agent("shop/1")
    });
    EchoClient::new(own).say(word("x")).await.unwrap();
    let seen = server.seen();
    let authorities: Vec<_> = seen.iter().map(|seen| seen.authority.clone()).collect();
    assert_eq!(authorities, ["orders", &server.address.to_string(), "shop.test"]);
    assert!(seen[2].headers["user-agent"].to_str().unwrap().starts_with("shop/1 tonic/"));
}
