//! A call whose time is up goes no further.

use std::time::{Duration, Instant};

use super::net::*;
use evenkeel::config::Properties;
use evenkeel::discovery::{DiscoveryClient, SupplyError};
use evenkeel::{LoadBalancers, ServiceId, ServiceInstance, async_trait};

#[tokio::test]
async fn a_pause_that_ends_after_the_limit_of_the_call_is_not_waited_for() {
    let breaking = Server::start(Act::Break).await;
    let mut properties = Properties::default().set("retry.backoff.enabled", true).unwrap();
    for (key, value) in [("min-backoff", "20s"), ("jitter", "0")] {
        properties = properties.set(&format!("retry.backoff.{key}"), value).unwrap();
    }
    let http = client(&balancers([breaking.instance("a")], properties));
    let start = Instant::now();
    let error = http.get("lb://orders/x").timeout(Duration::from_secs(2)).send().await.unwrap_err();
    assert_eq!(error.tried().len(), 1);
    assert!(!error.reqwest_error().unwrap().is_timeout(), "the caller hears what happened: {error}");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

/// A registry that takes its time.
#[derive(Debug)]
struct Late(Duration, Vec<ServiceInstance>);

#[async_trait]
impl DiscoveryClient for Late {
    fn name(&self) -> &'static str {
        "late"
    }
    async fn instances(&self, _: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError> {
        tokio::time::sleep(self.0).await;
        Ok(self.1.clone())
    }
    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn the_wait_for_a_list_is_no_part_of_the_limit_of_a_call() {
    for _ in 0..2 {
        let (dead, live) = (Refusing::new(), Server::start(ok("")).await);
        let registry = Late(Duration::from_millis(700), vec![dead.instance("a"), live.instance("b")]);
        let http = client(&LoadBalancers::builder(registry).seed(1).build().unwrap());
        // One of the first two goes to the dead one first.
        let call = || http.post("lb://orders/x").timeout(Duration::from_millis(600)).send();
        let (one, two) = tokio::join!(call(), call());
        one.unwrap();
        two.unwrap();
        assert_eq!(live.served(), 2);
    }
}

#[tokio::test]
async fn a_limit_that_make_set_holds_for_each_attempt() {
    let (one, two) = (Server::start(Act::Hang).await, Server::start(Act::Hang).await);
    let limit = Duration::from_millis(400);
    let balancers = balancers([one.instance("a"), two.instance("b")], Properties::default());
    let http = balancers.reqwest(move |_| reqwest::Client::builder().timeout(limit)).unwrap();
    let start = Instant::now();
    let error = http.get("lb://orders/x").send().await.unwrap_err();
    assert_eq!(error.tried().len(), 2);
    assert!(start.elapsed() >= 2 * limit, "{:?}", start.elapsed());
}
