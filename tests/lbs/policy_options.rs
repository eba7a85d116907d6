//! The policies that have options, from properties.

use std::time::Duration;

use evenkeel::config::{Format, PolicyName, Properties};
use evenkeel::{LoadBalancer, LoadBalancers, LoadReport, Outcome, Request, Tried};

use crate::support::*;

fn yaml(text: &str) -> Properties {
    let text = format!("evenkeel: {text}");
    Properties::parse(&text, Format::Yaml, "application.yml").unwrap()
}

fn orders(text: &str) -> LoadBalancer {
    let zoned = with("zone", "a=x b=x c=y d=y");
    let registry = evenkeel::discovery::SimpleDiscovery::new().with_instances("orders", zoned).unwrap();
    LoadBalancers::from_properties(yaml(text), registry).unwrap().get("orders").unwrap()
}

async fn lease(lb: &LoadBalancer, id: &str) -> evenkeel::Choice {
    let mut tried = Tried::new();
    loop {
        let choice = lb.choose(&Request::EMPTY.with_tried(&tried)).await.unwrap();
        if choice.instance().id() == id {
            return choice;
        }
        tried.add(&choice);
    }
}

#[tokio::test(start_paused = true)]
async fn each_policy_is_made_by_its_name() {
    for name in [
        "smooth-round-robin",
        "least-active",
        "shortest-response",
        "adaptive",
        "weighted-response-time",
        "best-available",
        "availability-filtering",
        "zone-avoidance",
        "client-side-weighted-round-robin",
    ] {
        for exact in [false, true] {
            let properties = yaml(&format!("{{policy: {name}, policy-options.exact: {exact}}}"));
            assert_eq!(properties.effective("orders").policy.as_str(), name);
            assert_eq!(properties.effective("orders").policy_options.exact, exact);
            let lb = orders(&format!("{{policy: {name}, policy-options.exact: {exact}}}"));
            assert_eq!(picks(&lb, 40).await.len(), 40, "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_option_is_read() {
    let text = "{policy: leastactive, policy-options: {exact: true, interval: 5s, window: 6s, failure-latency: 7s, timeout: 8s, \
                active-limit: 9, triggering-load: 0.5, blackout-share: 0.75, blackout: 1s, expiration: 2m, update-period: 3s, \
                error-penalty: 2.5, metrics: [named_metrics.queue, disk]}}";
    let read = yaml(text).effective("orders");
    assert_eq!(read.policy, PolicyName::LeastActive);
    let options = read.policy_options;
    let times = [options.interval, options.window, options.failure_latency, options.timeout];
    assert_eq!(times, [5, 6, 7, 8].map(Duration::from_secs));
    let times = [options.blackout, options.expiration, options.update_period];
    assert_eq!(times, [1, 120, 3].map(Duration::from_secs));
    assert_eq!((options.active_limit, options.exact), (Some(9), true));
    assert_eq!((options.triggering_load, options.blackout_share, options.error_penalty), (0.5, 0.75, 2.5));
    assert_eq!(options.metrics, ["named_metrics.queue", "disk"]);
    for (wrong, value) in [
        ("interval", "0s"),
        ("active-limit", "0"),
        ("triggering-load", "-1"),
        ("blackout-share", "1.5"),
        ("error-penalty", "NaN"),
        ("expiration", "soon"),
    ] {
        let text = format!("evenkeel.policy-options.{wrong}: {value}");
        let error = Properties::parse(&text, Format::Yaml, "application.yml").unwrap_err().to_string();
        assert!(error.contains(wrong) && error.contains(value), "{error}");
    }
    let unknown = Properties::parse("evenkeel.policy: fastest", Format::Yaml, "application.yml").unwrap_err();
    assert!(unknown.to_string().contains("client-side-weighted-round-robin"), "{unknown}");
}

#[tokio::test(start_paused = true)]
async fn options_reach_their_policies() {
    let lb = orders("{policy: availability-filtering, policy-options.active-limit: 1}");
    let held = lease(&lb, "a").await;
    assert_eq!(count(&picks(&lb, 40).await, "a"), 0);
    drop(held);
    // One call for two instances is half a call each: below the load that counts.
    let lb = orders("{policy: zone-avoidance, policy-options.triggering-load: 0.6}");
    let held = lease(&lb, "a").await;
    assert!(count(&picks(&lb, 40).await, "b") > 0);
    drop(held);
    let lb = orders("{policy: zone-avoidance}");
    let _held = lease(&lb, "a").await;
    assert_eq!(count(&picks(&lb, 40).await, "b"), 0);
    let lb = orders("{policy: weighted_round_robin, policy-options: {blackout: 0s, metrics: queue}}");
    for (id, queue) in [("a", 1.0), ("b", 1.0), ("c", 1.0), ("d", 0.25)] {
        let choice = lease(&lb, id).await;
        choice.report(&LoadReport::default().with_qps(100.0).with_named_metric("queue", queue));
        choice.complete(Outcome::Success);
    }
    advance(1.1).await;
    picks(&lb, 32).await;
    let all = picks(&lb, 700).await;
    assert!(count(&all, "d").abs_diff(400) <= 4, "{:?}", tally(&all));
    let lb = orders("{policy: shortest-response, policy-options.window: 2s}");
    for id in ["a", "b", "c", "d"] {
        let choice = lease(&lb, id).await;
        tokio::time::advance(Duration::from_millis(if id == "a" { 1 } else { 50 })).await;
        choice.complete(Outcome::Success);
    }
    assert_eq!(count(&picks(&lb, 20).await, "a"), 20);
    advance(2.1).await;
    assert!(tally(&picks(&lb, 100).await).len() == 4, "the window is over");
}
