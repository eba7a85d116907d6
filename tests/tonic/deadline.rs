//! `grpc-timeout`: it bounds all attempts together, and what is left of it is passed down.

use std::time::{Duration, Instant};

use super::dead::blackhole;
use super::net::*;
use evenkeel::client::tonic::{Error, tried};
use evenkeel::config::Properties;
use evenkeel::discovery::{DiscoveryClient, SupplyError};
use evenkeel::{LoadBalancers, ServiceId, ServiceInstance, async_trait};
use tonic::{Code, Request};

fn within(limit: Duration) -> Request<Word> {
    let mut request = Request::new(word("x"));
    request.set_timeout(limit);
    request
}

/// What a server was told, in microseconds.
fn told(seen: &Seen) -> u64 {
    let text = seen.headers["grpc-timeout"].to_str().unwrap();
    text.strip_suffix('u').unwrap().parse().unwrap()
}

#[tokio::test]
async fn each_attempt_is_told_what_is_left() {
    let (hole, _queued) = blackhole().await;
    let live = Server::start("b", Act::Answer).await;
    let properties = Properties::default().set("connect-timeout", "500ms").unwrap();
    let balancers = balancers([at(hole.local_addr().unwrap(), "a"), live.instance()], properties);
    let mut client = EchoClient::new(balancers.tonic("orders"));
    let (mut after_one, mut after_two) = (0, 0);
    for _ in 0..2 {
        let answer = client.say(within(Duration::from_secs(30))).await.unwrap();
        let told = told(live.seen().last().unwrap());
        match via(&answer).1 {
            1 => after_one = told,
            _ => after_two = told,
        }
    }
    assert!(after_one > 0 && after_one <= 30_000_000, "{after_one}");
    assert!(after_two > 0 && after_two <= 29_500_000, "{after_two}: the first attempt took half a second");
}

#[tokio::test]
async fn the_deadline_holds_for_all_attempts_together() {
    let (hole, _queued) = blackhole().await;
    let silent = Server::start("c", Act::Hang).await;
    let properties = Properties::default().set("connect-timeout", "1s").unwrap();
    let balancers = balancers([at(hole.local_addr().unwrap(), "a"), silent.instance()], properties);
    let client = EchoClient::new(balancers.tonic("orders"));
    let limit = Duration::from_millis(1_600);
    let call = async || {
        let start = Instant::now();
        let status = client.clone().say(within(limit)).await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
        (Error::of(&status).unwrap().tried().len(), start.elapsed())
    };
    // One of the two goes to the hole first, where it stays for the second of `connect-timeout`.
    let mut ends = <[_; 2]>::from(tokio::join!(call(), call()));
    ends.sort_unstable();
    assert_eq!(ends.map(|(tried, _)| tried), [1, 2]);
    for (_, took) in ends {
        assert!(took >= limit && took < limit + Duration::from_secs(10), "{took:?}");
    }
}

#[tokio::test]
async fn a_stream_ends_at_its_deadline_though_its_server_is_silent() {
    let server = Server::start("a", Act::Silence).await;
    let balancers = balancers([server.instance()], patient());
    let mut client = EchoClient::new(balancers.tonic("orders"));
    let mut words = client.list(within(Duration::from_secs(1))).await.unwrap().into_inner();
    assert_eq!(words.message().await.unwrap().unwrap().text, "a x");
    assert_eq!(balancers.in_flight(), 1);
    let end = tokio::time::timeout(Duration::from_secs(20), words.message()).await;
    let status = end.expect("it ends by itself").unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(tried(&status), Some(&*server.instance().to_string()));
    assert_eq!(balancers.in_flight(), 0);
}

#[tokio::test]
async fn the_time_out_of_an_endpoint_holds_for_each_attempt() {
    let server = Server::start("a", Act::Hang).await;
    let channel = balancers([server.instance()], patient()).tonic("orders");
    let channel = channel.endpoint(|_, endpoint| Ok(endpoint.timeout(Duration::from_millis(300))));
    let call = async { EchoClient::new(channel).say(word("x")).await };
    let status = tokio::time::timeout(Duration::from_secs(20), call).await.expect("it ends").unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    assert!(status.message().contains(&server.instance().to_string()), "{status}");
}

/// A registry that never answers.
#[derive(Clone, Debug)]
struct Mute;

#[async_trait]
impl DiscoveryClient for Mute {
    fn name(&self) -> &str {
        "mute"
    }
    async fn instances(&self, _: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError> {
        std::future::pending().await
    }
    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn the_wait_for_a_list_ends_at_the_deadline_too() {
    let balancers = LoadBalancers::builder(Mute).build().unwrap();
    let start = Instant::now();
    let status =
        EchoClient::new(balancers.tonic("orders")).say(within(Duration::from_millis(300))).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(
        status.message().contains("\"orders\"") && Error::of(&status).unwrap().tried().is_empty(),
        "{status}"
    );
    // `choose-timeout` is five seconds.
    assert!((Duration::from_millis(300)..Duration::from_millis(4_500)).contains(&start.elapsed()));
}
