//! From properties, for many services, and changed while it runs.

use evenkeel::LoadBalancers;
use evenkeel::config::{LiveProperties, PreConnectionProperties, Properties};
use evenkeel::observe::{ChangeKind, InstanceCondition, Standing};
use evenkeel::{LoadBalancer, Request};

use super::fake::*;
use crate::support::*;

async fn balancers(
    live: &Live,
    fake: &Scripted,
    properties: &LiveProperties,
) -> (LoadBalancers, LoadBalancer) {
    let fake = fake.clone();
    let balancers = LoadBalancers::builder(live.source())
        .live(properties.clone())
        .service("orders", |service| service.pre_connect(fake))
        .build()
        .unwrap();
    let lb = balancers.get("orders").unwrap();
    pick(&lb).await;
    settle().await;
    (balancers, lb)
}

fn properties(pairs: &[(&str, &str)]) -> Properties {
    pairs.iter().fold(Properties::default(), |all, (key, value)| {
        all.set(&format!("pre-connection.{key}"), *value).unwrap()
    })
}

#[test]
fn the_properties_are_read_with_their_bounds() {
    assert_eq!(Properties::default().effective("orders").pre_connection, PreConnectionProperties::default());
    let read = properties(&[
        ("enabled", "true"),
        ("first-list", "true"),
        ("path", "/ready"),
        ("ratio", "0.5"),
        ("timeout", "5s"),
        ("connect-timeout", "200ms"),
        ("max-retries", "0"),
        ("concurrency", "2"),
    ]);
    let wanted = on()
        .with_first_list(true)
        .with_path("/ready")
        .with_ratio(0.5)
        .with_timeout(MS(5_000))
        .with_connect_timeout(MS(200))
        .with_max_retries(0)
        .with_concurrency(2);
    assert_eq!(read.effective("orders").pre_connection, wanted);
    for (key, value) in
        [("ratio", "1.1"), ("timeout", "0"), ("connect-timeout", "0"), ("concurrency", "0"), ("path", " ")]
    {
        let error =
            Properties::default().set_for("orders", &format!("pre-connection.{key}"), value).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("orders") && text.contains(&format!("pre-connection.{key}")), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn switched_off_meanwhile_all_come_into_use() {
    let (live, fake) = (Live::new(list("a")), Scripted::new());
    let live_properties = LiveProperties::new(properties(&[("enabled", "true")]));
    let (balancers, lb) = balancers(&live, &fake, &live_properties).await;
    fake.set("b c", Try::Hangs);
    live.set(list("a b c")).await;
    assert_eq!((connecting(&lb).as_str(), fake.running()), ("bc", 2));
    live_properties.replace(Properties::default());
    settle().await;
    assert_eq!((connecting(&lb).as_str(), fake.running()), ("", 0));
    even(&picks(&lb, 30).await, "a b c", 10, 1);
    live.set(list("a b c d")).await;
    assert_eq!((fake.times("d").len(), connecting(&lb).as_str()), (0, ""));
    // On again: who is there is in use, and who comes is connected.
    live_properties.replace(properties(&[("enabled", "true")]));
    settle().await;
    assert_eq!(fake.asked(), 2);
    live.set(list("a b c d e")).await;
    assert_eq!((fake.times("e").len(), fake.asked()), (1, 3));
    balancers.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn other_properties_hold_for_those_who_come_from_then_on() {
    let (live, fake) = (Live::new(list("a")), Scripted::new());
    let live_properties = LiveProperties::new(properties(&[("enabled", "true"), ("timeout", "4s")]));
    let (_balancers, lb) = balancers(&live, &fake, &live_properties).await;
    fake.set("b c", Try::Hangs);
    live.set(list("a b")).await;
    let begun = fake.now();
    live_properties.replace(properties(&[("enabled", "true"), ("timeout", "1s")]));
    settle().await;
    live.set(list("a b c")).await;
    assert_eq!(connecting(&lb), "bc");
    to(&fake, begun + 1_000).await;
    assert_eq!(connecting(&lb), "b");
    to(&fake, begun + 3_999).await;
    assert_eq!(connecting(&lb), "b");
    to(&fake, begun + 4_000).await;
    assert_eq!(connecting(&lb), "");
}

#[tokio::test(start_paused = true)]
async fn reports_tell_who_is_being_connected_and_why_it_takes_so_long() {
    let (live, fake) = (Live::new(list("a")), Scripted::new());
    let live_properties = LiveProperties::new(properties(&[("enabled", "true")]));
    let (_balancers, lb) = balancers(&live, &fake, &live_properties).await;
    fake.set("b", Try::Refused(0));
    live.set(list("a b")).await;
    let begun = fake.now();
    to(&fake, begun + 700).await;
    let status = lb.status();
    let row = status.instances.iter().find(|row| row.id == "b").unwrap();
    assert_eq!(
        (row.state, row.for_ms, row.left_ms),
        (InstanceCondition::Connecting, Some(700), Some(29_300))
    );
    let why =
        "it gets calls once a connection to it is open; 4 tries failed, the last with connection refused";
    assert_eq!(row.reason.as_deref(), Some(why));
    assert_eq!(
        (status.counts.connecting, status.counts.in_use, status.verdict.join("; ").as_str()),
        (1, 1, "1 being connected")
    );
    assert!(status.to_string().contains("1 of 2 in use, 1 being connected"), "{status}");
    let explained = lb.explain(&Request::EMPTY);
    let candidate = explained.candidates.iter().find(|one| one.status.id == "b").unwrap();
    assert_eq!(
        (candidate.standing, candidate.status.state, candidate.picks),
        (Standing::Unfit, InstanceCondition::Connecting, 0)
    );
    assert_eq!(candidate.status.reason.as_deref(), Some(why));
    to(&fake, begun + 5_000).await;
    assert_eq!(lb.status().counts.in_use, 2);
    let log = lb.change_log();
    let of = |kind| log.iter().find(|change| change.kind == kind).map(|change| change.detail.as_str());
    assert_eq!(of(ChangeKind::Connecting), Some("1 new to connect: calls go to others until then"));
    assert_eq!(
        of(ChangeKind::Connected),
        Some("0 of 1 connected after 4500 ms; b (b.test:8080) is not: connection refused")
    );
}
