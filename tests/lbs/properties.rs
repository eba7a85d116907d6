//! The policies by name, from properties.

use evenkeel::config::{Format, LiveProperties, PolicyName, Properties};
use evenkeel::policy::{DubboConsistentHash, HashKey, Maglev, Policy, Rendezvous, RingHash};
use evenkeel::{HttpView, LoadBalancer, LoadBalancers, Request};

use crate::support::*;

fn balancers(properties: Properties) -> LoadBalancers {
    let registry =
        evenkeel::discovery::SimpleDiscovery::new().with_instances("orders", list("a b c d e f g")).unwrap();
    LoadBalancers::from_properties(properties, registry).unwrap()
}

fn yaml(text: &str) -> Properties {
    Properties::parse(text, Format::Yaml, "application.yml").unwrap()
}

async fn homes(lb: &LoadBalancer) -> Vec<String> {
    let mut homes = Vec::new();
    for user in 0..300 {
        let request = http::Request::builder()
            .uri(format!("/{}?q={user}", user % 7))
            .header("x-user", user.to_string())
            .header("cookie", format!("sid={}", user / 2))
            .body(())
            .unwrap();
        let view = HttpView::of(&request);
        homes.push(pick_for(lb, &Request::of(&view)).await);
    }
    homes
}

async fn expected(policy: impl Policy) -> Vec<String> {
    homes(&fixed(list("a b c d e f g"), |chain| chain, policy)).await
}

#[tokio::test(start_paused = true)]
async fn lbs_policies_by_name() {
    let user = || HashKey::header("x-user");
    for (text, expected) in [
        ("{policy: ring-hash, hash.header: X-User}", expected(RingHash::new(user())).await),
        (
            "{policy: ringHash, hash: {header: X-User, nodes: 40, balance-factor: 150}}",
            expected(RingHash::new(user()).with_nodes(40)).await,
        ),
        (
            "{policy: ring-hash, hash: {header: X-User, min-ring-size: 100, max-ring-size: 200}}",
            expected(RingHash::new(user()).with_ring_size((100, 200))).await,
        ),
        (
            "{policy: MAGLEV, hash: {cookie: sid, table-size: 101, balance-factor: 125%}}",
            expected(Maglev::new(HashKey::cookie("sid")).with_table_size(101)).await,
        ),
        (
            "{policy: maglev, hash: {cookie: none, query: q, path: true, terminal: true}}",
            expected(Maglev::new(HashKey::query("q"))).await,
        ),
        (
            "{policy: rendezvous, hash: {path: true, header: X-User, source: true}}",
            expected(Rendezvous::new(user().and(HashKey::path()))).await,
        ),
        (
            "{policy: consistent-hash, hash: {header: X-User, nodes: 40}}",
            expected(DubboConsistentHash::new(user()).with_nodes(40)).await,
        ),
    ] {
        let lb = balancers(yaml(&format!("evenkeel.clients.orders: {text}"))).get("orders").unwrap();
        assert_eq!(homes(&lb).await, expected, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn lbs_a_policy_without_a_key_is_refused() {
    for policy in [PolicyName::RingHash, PolicyName::Maglev, PolicyName::Rendezvous] {
        let properties = Properties::default().set_for("orders", "policy", policy.as_str()).unwrap();
        let error = LoadBalancers::from_properties(properties, Live::default().source()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("\"orders\"") && text.contains(policy.as_str()), "{text}");
        assert!(text.contains("hash.header"), "{text}");
    }
    // Dubbo's goes by the first argument.
    balancers(yaml("evenkeel.policy: consistent-hash"));
    let none = yaml("evenkeel: {policy: consistent-hash, hash.arguments: []}");
    assert!(none.effective("orders").hash.arguments.is_empty(), "{:?}", none.warnings());
    assert!(LoadBalancers::from_properties(none, Live::default().source()).is_err());
    // A policy that is set in code needs none of it.
    let built = LoadBalancers::builder(Live::default().source())
        .properties(yaml("evenkeel.clients.orders.policy: maglev"))
        .service("orders", |service| service.policy(evenkeel::policy::RandomPick))
        .build();
    assert!(built.is_ok());
}

#[tokio::test(start_paused = true)]
async fn lbs_a_policy_changes_while_calls_run() {
    let live = LiveProperties::new(yaml("evenkeel.clients.orders: {policy: maglev, hash.header: X-User}"));
    let registry =
        evenkeel::discovery::SimpleDiscovery::new().with_instances("orders", list("a b c d e f g")).unwrap();
    let balancers = LoadBalancers::builder(registry).live(live.clone()).build().unwrap();
    let lb = balancers.get("orders").unwrap();
    assert_eq!(homes(&lb).await, expected(Maglev::new(HashKey::header("x-user"))).await);
    live.reload(|now| now.clone().set_for("orders", "policy", "ring-hash")).unwrap();
    settle().await;
    assert_eq!(homes(&lb).await, expected(RingHash::new(HashKey::header("x-user"))).await);
    live.reload(|now| now.clone().set_for("orders", "hash.nodes", "10")).unwrap();
    settle().await;
    assert_eq!(homes(&lb).await, expected(RingHash::new(HashKey::header("x-user")).with_nodes(10)).await);
}

#[test]
fn lbs_values_that_make_no_sense_are_refused_with_what_would() {
    for (key, value, allowed) in [
        ("policy", "hash", "ring-hash, maglev, rendezvous, consistent-hash"),
        ("hash.header", "not a header", "the name of a header"),
        ("hash.cookie", " ", "not blank"),
        ("hash.nodes", "0", "1 to 8388608"),
        ("hash.min-ring-size", "-1", "1 to 8388608"),
        ("hash.max-ring-size", "8388609", "1 to 8388608"),
        ("hash.table-size", "5000012", "2 to 5000011"),
        ("hash.table-size", "1", "2 to 5000011"),
        ("hash.balance-factor", "99", "100 or larger"),
        ("hash.arguments", "0, first", "numbers of arguments"),
        ("hash.terminal", "maybe", "true or false"),
    ] {
        let error = Properties::default().set_for("orders", key, value).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains(allowed), "{key}: {error}");
    }
}
