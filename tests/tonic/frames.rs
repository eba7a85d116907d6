//! Servers of raw HTTP/2 frames, for what no well-behaved server does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::net::*;
use evenkeel::ServiceInstance;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::Code;

const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;
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
    let length = u8::try_from(payload.len()).unwrap();
    let mut frame = vec![0, 0, length, kind, 0];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

struct Frames {
    instance: ServiceInstance,
    requests: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
}

impl Frames {
    /// Answers each request with the frame that `answer` makes for its stream.
    async fn start(answer: impl Fn(u32) -> Vec<u8> + Send + Sync + Clone + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let instance = at(listener.local_addr().unwrap(), "raw");
        let (requests, connections) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (counted, accepted) = (Arc::clone(&requests), Arc::clone(&connections));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::SeqCst);
                let (counted, answer) = (Arc::clone(&counted), answer.clone());
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

fn reset(reason: u8) -> impl Fn(u32) -> Vec<u8> + Send + Sync + Clone {
    move |stream| frame(RST_STREAM, stream, &[0, 0, 0, reason])
}

#[tokio::test]
async fn a_refused_stream_is_sent_again_and_then_goes_to_another_instance() {
    let (raw, live) = (Frames::start(reset(REFUSED_STREAM)).await, Server::start("b", Act::Answer).await);
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
    let (raw, live) = (Frames::start(goaway).await, Server::start("b", Act::Answer).await);
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
    let (raw, live) = (Frames::start(reset(CANCEL)).await, Server::start("b", Act::Answer).await);
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
    let (raw, live) = (Frames::start(reset(REFUSED_STREAM)).await, Server::start("b", Act::Answer).await);
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
