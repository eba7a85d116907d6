//! Connections that are opened before traffic.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::config::PreConnectionProperties;
use evenkeel::observe::ChangeKind;
use evenkeel::{LoadBalancer, PreConnect, ServiceInstance, async_trait};
use tokio::time::Instant;

use crate::support::*;

/// Refuses so many times each, and takes 10 ms.
#[derive(Clone, Debug, Default)]
struct Counting {
    refuse: usize,
    tried: Arc<Mutex<std::collections::HashMap<u16, usize>>>,
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Counting {
    fn tries(&self) -> usize {
        self.tried.lock().unwrap().values().sum()
    }
}

#[async_trait]
impl PreConnect for Counting {
    async fn connect(
        &self,
        instance: &ServiceInstance,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.most.fetch_max(self.running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(10)).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        let mut tried = self.tried.lock().unwrap();
        let tries = tried.entry(instance.port().unwrap()).or_default();
        *tries += 1;
        if *tries > self.refuse { Ok(()) } else { Err("refused".into()) }
    }
}

async fn primed(new: Vec<ServiceInstance>, connect: &Counting) -> String {
    let live = Live::new(list("old"));
    let lb = LoadBalancer::builder(chain(live.source()).build().unwrap())
        .pre_connection(PreConnectionProperties::on())
        .pre_connect(connect.clone())
        .build();
    pick(&lb).await;
    live.set([list("old"), new].concat()).await;
    advance(40.0).await;
    let log = lb.change_log();
    let ended = log.iter().filter(|change| change.kind == ChangeKind::Connected);
    let told: Vec<&str> = ended.map(|change| change.detail.as_str()).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    told[0].to_owned()
}

fn at_ports(n: u16) -> Vec<ServiceInstance> {
    (1..=n).map(|port| ServiceInstance::new("10.0.0.1", 10_000 + port).unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn ribbon_096_ten_are_ten_and_two_hundred_are_two_hundred() {
    for n in [10, 200] {
        let connect = Counting::default();
        // Five at a time, 10 ms each.
        let wanted = format!("{n} of {n} connected after {} ms", n * 2);
        assert_eq!(primed(at_ports(n), &connect).await, wanted);
        assert_eq!((connect.tries(), connect.most.load(Ordering::SeqCst)), (usize::from(n), 5));
    }
}

/// Duplicates are one instance.
#[tokio::test(start_paused = true)]
async fn ribbon_096_duplicates_are_connected_once() {
    for n in [10, 200] {
        let connect = Counting::default();
        let duplicates = vec![ServiceInstance::new("10.0.0.1", 10_001).unwrap(); n];
        assert_eq!(primed(duplicates, &connect).await, "1 of 1 connected after 10 ms");
        assert_eq!(connect.tries(), 1);
    }
}

/// Nine retries: what refuses nine times is a success, and what refuses ten times is not tried again.
#[tokio::test(start_paused = true)]
async fn ribbon_096_each_gets_ten_tries() {
    let began = Instant::now();
    let connect = Counting { refuse: 9, ..Counting::default() };
    assert!(primed(at_ports(3), &connect).await.starts_with("3 of 3 connected"));
    assert_eq!(connect.tries(), 30);
    let connect = Counting { refuse: 10, ..Counting::default() };
    assert!(primed(at_ports(3), &connect).await.starts_with("0 of 3 connected"));
    assert_eq!(connect.tries(), 30);
    assert!(began.elapsed() < Duration::from_secs(100), "on the clock of the test");
}
