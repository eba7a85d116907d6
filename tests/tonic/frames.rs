//! Servers of raw HTTP/2 frames, for what no well-behaved server does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::net::*;
use evenkeel::ServiceInstance;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::{Code, Status};

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
const REFUSED_STREAM: u8 = 7;
const CANCEL: u8 = 8;

/// Reads the preface, if it is the begin of a connection, and frames until the head of a request; its stream.
pub async fn until_headers(stream: &mut TcpStream) -> Option<u32> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.ok()?;
        if head.starts_with(b"PRI") {
            stream.read_exact(&mut [0; 15]).await.ok()?;
            continue;
        }
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        stream.read_exact(&mut vec![0; length]).await.ok()?;
        if head[3] == 1 {
            return Some(u32::from_be_bytes([head[5], head[6], head[7], head[8]]));
        }
    }
}

fn frame(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    flagged(kind, 0, stream, payload)
}

pub fn flagged(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    let mut frame = vec![0, 0, length, kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

pub struct Frames {
    pub instance: ServiceInstance,
    requests: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
}

impl Frames {
    /// Answers each request with the frame that `answer` makes for its stream.
    pub async fn start(answer: Arc<dyn Fn(u32) -> Vec<u8> + Send + Sync>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let instance = at(listener.local_addr().unwrap(), "raw");
        let (requests, connections) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (counted, accepted) = (Arc::clone(&requests), Arc::clone(&connections));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::SeqCst);
                let (counted, answer) = (Arc::clone(&counted), Arc::clone(&answer));
                tokio::spawn(async move {
                    // SETTINGS, empty.
                    stream.write_all(&frame(4, 0, &[])).await.unwrap();
                    while let Some(id) = until_headers(&mut stream).await {
                        counted.fetch_add(1, Ordering::SeqCst);
                        if stream.write_all(&answer(id)).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { instance, requests, connections }
    }
}

/// HEADERS with this `:status` (8 of the static table, as a literal) and perhaps a `retry-after` (53 of it).
pub fn head(stream: u32, ends: bool, status: &str, retry_after: Option<&str>) -> Vec<u8> {
    let literal = |name: u8, value: &str| {
        let length = u8::try_from(value.len()).unwrap();
        [&[0x40 | name, length][..], value.as_bytes()].concat()
    };
    let block = [literal(8, status), retry_after.map_or_else(Vec::new, |after| literal(53, after))].concat();
    flagged(HEADERS, END_HEADERS | if ends { END_STREAM } else { 0 }, stream, &block)
}

/// Two calls over a server of frames and one that answers, which repeat these codes: who failed.
async fn two_calls(raw: &Frames, codes: &[Code]) -> Vec<Status> {
    let live = Server::start("b", Act::Answer).await;
    let channel = balancers([raw.instance.clone(), live.instance()], patient()).tonic("orders");
    let mut client = EchoClient::new(channel.retry(codes.iter().copied(), |_| true));
    let mut errors = Vec::new();
    for _ in 0..2 {
        match client.say(word("x")).await {
            Ok(answer) => assert_eq!(answer.into_inner().text, "b x"),
            Err(status) => errors.push(status),
        }
    }
    errors
}

#[tokio::test]
async fn a_fault_is_repeated_by_the_code_that_the_caller_gets() {
    type Answer = Box<dyn Fn(u32) -> Vec<u8> + Send + Sync>;
    let http = |status: &'static str, after: Option<&'static str>| -> Answer {
        Box::new(move |stream| head(stream, true, status, after))
    };
    let reset = |reason: u8| -> Answer { Box::new(reset(reason)) };
    for (what, answer, code) in [
        ("INTERNAL_ERROR", reset(2), Code::Internal),
        ("CANCEL", reset(CANCEL), Code::Cancelled),
        ("ENHANCE_YOUR_CALM", reset(11), Code::ResourceExhausted),
        ("429", http("429", None), Code::Unavailable),
        ("503", http("503", None), Code::Unavailable),
        ("503 that says when", http("503", Some("1")), Code::Unavailable),
        ("404", http("404", None), Code::Unimplemented),
        ("200 without a status", http("200", None), Code::Unknown),
    ] {
        let raw = Frames::start(answer.into()).await;
        let errors = two_calls(&raw, &[code]).await;
        assert!(errors.is_empty(), "{what}: {errors:?}");
        assert_eq!(raw.requests.load(Ordering::SeqCst), 1, "{what}");
        let others: Vec<_> = (1..17).map(Code::from).filter(|other| *other != code).collect();
        let errors = two_calls(&raw, &others).await;
        let [error] = &errors[..] else { panic!("{what}: {errors:?}") };
        assert_eq!(error.code(), code, "{what}");
        assert_eq!(raw.requests.load(Ordering::SeqCst), 2, "{what}");
    }
}

/// Neither silence for longer than an attempt may take nor one that the keep-alive ends is a reset.
#[tokio::test]
async fn silence_is_repeated_by_the_code_that_the_caller_gets() {
    let limit = Duration::from_millis(200);
    for (alive, code) in [(true, Code::Unavailable), (false, Code::DeadlineExceeded)] {
        // No PING is answered.
        let raw = Frames::start(Arc::new(|_| Vec::new())).await;
        for (listed, failed) in [(true, 0), (false, 1)] {
            let live = Server::start("b", Act::Answer).await;
            let properties =
                if alive { patient() } else { patient().set("retry.per-try-timeout", "200ms").unwrap() };
            let channel = balancers([raw.instance.clone(), live.instance()], properties).tonic("orders");
            let channel = if alive { channel.keep_alive(limit, limit) } else { channel.without_keep_alive() };
            let others =
                [Code::Unavailable, Code::DeadlineExceeded].into_iter().filter(|other| *other != code);
            let codes = if listed { vec![code] } else { others.collect() };
            let mut client = EchoClient::new(channel.retry(codes, |_| true));
            let mut errors = Vec::new();
            for _ in 0..2 {
                errors.extend(client.say(word("x")).await.err());
            }
            assert_eq!(errors.len(), failed, "{code:?} {listed}: {errors:?}");
            assert!(errors.iter().all(|error| error.code() == code), "{errors:?}");
        }
    }
}

fn reset(reason: u8) -> impl Fn(u32) -> Vec<u8> + Send + Sync + 'static {
    move |stream| frame(RST_STREAM, stream, &[0, 0, 0, reason])
}

#[tokio::test]
async fn a_refused_stream_is_sent_again_and_then_goes_to_another_instance() {
    let (raw, live) =
        (Frames::start(Arc::new(reset(REFUSED_STREAM))).await, Server::start("b", Act::Answer).await);
    let mut client = over([raw.instance.clone(), live.instance()]);
    let mut attempts = 0;
    for _ in 0..4 {
        let answer = client.say(word("x")).await.unwrap();
        attempts += via(&answer).1;
        assert_eq!(answer.into_inner().text, "b x", "the message was sent again as it was");
    }
    assert_eq!((attempts, live.served()), (5, 4));
    assert_eq!(raw.requests.load(Ordering::SeqCst), 2, "twice for one attempt");
    assert_eq!(raw.connections.load(Ordering::SeqCst), 1, "the connection stays");
}

#[tokio::test]
async fn a_connection_that_goes_away_before_a_call_is_replaced() {
    // Stream 0 was the last that it looked at: none.
    let goaway = |_| frame(GOAWAY, 0, &[0; 8]);
    let (raw, live) = (Frames::start(Arc::new(goaway)).await, Server::start("b", Act::Answer).await);
    let mut client = over([raw.instance.clone(), live.instance()]);
    for _ in 0..4 {
        assert_eq!(client.say(word("x")).await.unwrap().into_inner().text, "b x");
    }
    assert_eq!(raw.requests.load(Ordering::SeqCst), 2);
    assert_eq!(raw.connections.load(Ordering::SeqCst), 2, "the second time over a new one");
    assert_eq!(live.served(), 4);
}

#[tokio::test]
async fn a_stream_that_is_reset_otherwise_is_not_repeated() {
    let (raw, live) = (Frames::start(Arc::new(reset(CANCEL))).await, Server::start("b", Act::Answer).await);
    let mut client = over([raw.instance.clone(), live.instance()]);
    let mut errors = Vec::new();
    for _ in 0..2 {
        errors.extend(client.say(word("x")).await.err());
    }
    let [error] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!(error.code(), Code::Cancelled);
    assert!(error.message().contains(&raw.instance.to_string()), "{error}");
    assert_eq!((raw.requests.load(Ordering::SeqCst), live.served()), (1, 1));
}

#[tokio::test]
async fn of_a_large_request_too_much_was_sent_to_send_it_again() {
    let (raw, live) =
        (Frames::start(Arc::new(reset(REFUSED_STREAM))).await, Server::start("b", Act::Answer).await);
    let balancers = balancers([raw.instance.clone(), live.instance()], patient());
    let mut client = EchoClient::new(balancers.tonic("orders").replay_limit(16));
    let mut errors = Vec::new();
    for _ in 0..2 {
        errors.extend(client.say(word(&"x".repeat(1_000))).await.err());
    }
    let [error] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!(error.code(), Code::Unavailable);
    assert_eq!((raw.requests.load(Ordering::SeqCst), live.served()), (1, 1));
    let orders = balancers.get("orders").unwrap().snapshot().unwrap();
    assert!(orders.instances().all(|state| !state.is_skipped()), "it is not to blame");
}
