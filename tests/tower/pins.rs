//! Connections that are kept alive pin nobody (case 064; its times divided by 20).

use std::time::Duration;

use super::net::{balancers as over, eventually};
use super::support::{Client, Hyper, get, text};
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::{LoadBalancers, ServiceId, ServiceInstance};
use tokio::time::Instant;

struct Run {
    servers: Vec<Hyper>,
    registry: SimpleDiscovery,
    http: Client,
}

impl Run {
    async fn start(http2: bool) -> Self {
        let mut servers = Vec::new();
        for _ in 0..8 {
            servers.push(Hyper::ok("well").await);
        }
        let registry = SimpleDiscovery::new();
        let balancers = LoadBalancers::builder(registry.clone()).build().unwrap();
        let idle = Duration::from_millis(1_500);
        let http = balancers.hyper_builder().http2_only(http2).pool_idle_timeout(idle).build();
        let run = Self { servers, registry, http };
        run.list(0..4).await;
        run
    }

    fn instances(&self, of: std::ops::Range<usize>) -> Vec<ServiceInstance> {
        of.map(|n| self.servers[n].instance(&format!("n{n}"))).collect()
    }

    async fn list(&self, of: std::ops::Range<usize>) {
        let len = of.len();
        self.registry.set(&ServiceId::new("orders").unwrap(), self.instances(of));
        let orders = self.http.balancers().get("orders").unwrap();
        orders.ready().await.unwrap();
        eventually("the list", || orders.snapshot().is_some_and(|list| list.instances().len() == len)).await;
    }

    /// 50 requests per second of the case are one per 20 ms; this many of them.
    async fn load(&self, requests: usize) {
        let begun = Instant::now();
        for n in 0..requests {
            tokio::time::sleep_until(begun + Duration::from_millis(2) * u32::try_from(n).unwrap()).await;
            let response = self.http.request(get("lb://orders/x")).await.unwrap();
            assert_eq!(text(response).await, "well");
        }
    }

    fn served(&self) -> Vec<usize> {
        self.servers.iter().map(Hyper::served).collect()
    }
}

async fn case_064(http2: bool) {
    let run = Run::start(http2).await;
    run.load(400).await;
    assert_eq!(run.served()[4..], [0; 4]);
    run.list(0..8).await;
    let before = run.served();
    run.load(400).await;
    let share: usize = run.served().iter().zip(&before).skip(4).map(|(now, before)| now - before).sum();
    assert!((160..=240).contains(&share), "{share} of 400 went to the new half");
    // Two of the first four leave, but stay up.
    assert!(run.servers[0].open() > 0 && run.servers[1].open() > 0);
    run.list(2..8).await;
    let before = run.served();
    run.load(100).await;
    assert_eq!(run.served()[..2], before[..2], "no new requests");
    eventually("their idle connections", || run.servers[..2].iter().all(|server| server.open() == 0)).await;
    assert!(run.servers[2..].iter().all(|server| server.open() > 0));
}

#[tokio::test]
async fn case_064_new_instances_get_their_share_and_old_connections_close_by_http_1() {
    case_064(false).await;
}

#[tokio::test]
async fn case_064_new_instances_get_their_share_and_old_connections_close_by_http_2() {
    case_064(true).await;
}

#[tokio::test]
async fn a_client_that_is_idle_closes_its_connections_by_itself() {
    let server = Hyper::ok("well").await;
    let balancers = over([server.instance("a")], Properties::default());
    let http: Client = balancers.hyper_builder().pool_idle_timeout(Duration::from_millis(200)).build();
    http.request(get("lb://orders/x")).await.unwrap();
    assert_eq!(server.open(), 1);
    eventually("the end of the idle connection", || server.open() == 0).await;
}
