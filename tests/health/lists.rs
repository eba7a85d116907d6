//! Checks while lists change and when everything ends.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::config::Properties;
use evenkeel::discovery::{DiscoveryClient, SupplyError};
use evenkeel::health::HealthCheck;
use evenkeel::policy::LeastRequest;
use evenkeel::{ChooseErrorKind, LoadBalancers, Outcome, Request, ServiceId, ServiceInstance, async_trait};
use tokio::time::Instant;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn case_015_a_pushed_list_is_probed_and_used_at_once() {
    let at = |port: u16| ServiceInstance::builder("127.0.0.1").port(port).id("s").build().unwrap();
    let probe = Fake::new();
    let source = Push::new(vec![(0.0, Ok(vec![at(8082)])), (40.0, Ok(vec![at(8083)]))]);
    let lb = super::checked(source, HealthCheck::new(probe.clone()));
    let start = Instant::now();
    let mut moved = None;
    for t in 0..=100 {
        tokio::time::sleep_until(start + Duration::from_secs(t)).await;
        let port = lb.choose(&Request::EMPTY).await.unwrap().instance().port();
        if port == Some(8083) {
            moved.get_or_insert(t);
        }
    }
    assert!(moved.is_some_and(|t| t <= 66), "{moved:?}");
    let log = probe.log();
    let of = |port| log.iter().filter(move |(_, instance)| instance.port() == Some(port)).map(|(t, _)| *t);
    assert!(of(8082).all(|t| t <= 40.0), "8082 left the list at 40 s");
    assert!(of(8083).count() >= 2);
}

#[tokio::test(start_paused = true)]
async fn case_055_only_listed_instances_are_probed_and_verdicts_of_gone_ones_are_forgotten() {
    let probe = Fake::new();
    let live = Live::new(list("first"));
    let check = HealthCheck::new(probe.clone());
    let lb = over(chain(live.source()).with_health_checks(check), LeastRequest);
    pick(&lb).await;
    for round in 0..1_000 {
        let ids: Vec<String> = (0..10).map(|n| format!("i{round}-{n}")).collect();
        live.set(list(&ids.join(" "))).await;
        let before = probe.log().len();
        for _ in 0..100 {
            lb.choose(&Request::EMPTY).await.unwrap().complete(Outcome::Success);
        }
        advance(60.0).await;
        let asked: HashSet<String> = probe.log()[before..].iter().map(|(_, i)| i.id().to_owned()).collect();
        assert_eq!(asked, ids.into_iter().collect(), "round {round}");
        assert!(lb.tracked() <= 30, "round {round}: {} are tracked", lb.tracked());
    }
    // In its first, second and third round.
    assert!((2..=3).contains(&probe.asked("i999-0")), "{:?}", probe.times("i999-0"));
}

/// A registry that gives every service two instances, and hangs at the third look-up of `s5`.
#[derive(Clone, Debug, Default)]
struct Registry(Arc<std::sync::Mutex<Vec<String>>>);

impl Registry {
    fn look_ups(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

#[async_trait]
impl DiscoveryClient for Registry {
    fn name(&self) -> &'static str {
        "fake"
    }
    async fn instances(&self, service: &ServiceId) -> Answer {
        let calls = {
            let mut all = self.0.lock().unwrap();
            all.push(service.as_str().to_owned());
            all.iter().filter(|asked| *asked == service.as_str()).count()
        };
        if service.as_str() == "s5" && calls >= 3 {
            std::future::pending::<()>().await;
        }
        Ok(list(&format!("{service}-a {service}-b")))
    }
    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        Ok(Vec::new())
    }
}

const NAMES: [&str; 5] = ["s1", "s2", "s3", "s4", "s5"];

fn alive() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// Five services with look-ups and probes.
fn group(registry: &Registry, probe: &Fake) -> LoadBalancers {
    let builder = LoadBalancers::builder(registry.clone()).properties(Properties::default());
    let shape = |builder: evenkeel::LoadBalancersBuilder, name: &&str| {
        let probe = probe.clone();
        builder.service(*name, |service| {
            service.chain(move |chain| {
                let check = HealthCheck::new(probe.clone()).with_interval(Duration::from_secs(10));
                chain.with_health_checks(check)
            })
        })
    };
    NAMES.iter().fold(builder, shape).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn case_058_after_a_shutdown_nobody_is_probed_and_no_task_is_left() {
    let baseline = alive();
    let (registry, probe) = (Registry::default(), Fake::new());
    let balancers = group(&registry, &probe);
    // A probe is under way at that moment too.
    probe.set("s1-a", None, true);
    let callers: Vec<_> = (0..3)
        .map(|_| {
            let balancers = balancers.clone();
            tokio::spawn(async move {
                loop {
                    for name in NAMES {
                        match balancers.get(name).unwrap().choose(&Request::EMPTY).await {
                            Ok(choice) => choice.complete(Outcome::Success),
                            Err(error) => return error,
                        }
                    }
                    advance(1.0).await;
                }
            })
        })
        .collect();
    advance(80.5).await;
    let asked = registry.0.lock().unwrap().iter().filter(|asked| *asked == "s5").count();
    assert_eq!(asked, 3, "the third look-up hangs");
    let lease = balancers.get("s1").unwrap().choose(&Request::EMPTY).await.unwrap();

    let start = Instant::now();
    balancers.shutdown().await;
    balancers.shutdown().await;
    assert!(start.elapsed() <= Duration::from_secs(1), "{:?}", start.elapsed());
    for caller in callers {
        let error = caller.await.unwrap();
        assert!(matches!(error.kind(), ChooseErrorKind::Closed), "{error}");
    }
    settle().await;
    let (look_ups, probes) = (registry.look_ups(), probe.log().len());
    assert!(probes > 5 * 2 * 5, "{probes} probes before");
    assert_eq!(alive(), baseline);
    advance(600.0).await;
    assert_eq!((registry.look_ups(), probe.log().len(), alive()), (look_ups, probes, baseline));
    assert_eq!(lease.state().in_flight(), 1, "a call that was sent goes on");
}

#[tokio::test(start_paused = true)]
async fn case_058_probing_ends_with_the_last_of_three_clones() {
    let baseline = alive();
    let (registry, probe) = (Registry::default(), Fake::new());
    let first = group(&registry, &probe);
    let (second, third) = (first.clone(), first.clone());
    for name in NAMES {
        pick(&first.get(name).unwrap()).await;
    }
    drop(first);
    let before = probe.log().len();
    advance(30.0).await;
    assert!(probe.log().len() > before, "one of three stops nothing");
    drop(second);
    drop(third);
    settle().await;
    let (look_ups, probes) = (registry.look_ups(), probe.log().len());
    assert_eq!(alive(), baseline);
    advance(600.0).await;
    assert_eq!((registry.look_ups(), probe.log().len(), alive()), (look_ups, probes, baseline));
}
