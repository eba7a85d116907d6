//! Consistent hash: cases 030 to 039.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::policy::{DubboConsistentHash, HashKey};
use evenkeel::{LoadBalancer, Request, RequestView, ServiceInstance};

use crate::support::*;

/// A call with these arguments.
struct Call<'a>(&'a [&'a str]);

impl RequestView for Call<'_> {
    fn attribute(&self, name: &str) -> Option<&str> {
        let number: usize = name.strip_prefix("argument.")?.parse().ok()?;
        self.0.get(number).copied()
    }
}

fn providers(addresses: impl IntoIterator<Item = (String, u16)>) -> Vec<ServiceInstance> {
    let one = |(host, port)| ServiceInstance::new(host, port).unwrap();
    addresses.into_iter().map(one).collect()
}

/// 127.0.0.1:1 to :5.
fn local() -> Vec<ServiceInstance> {
    providers((1..=5).map(|port| ("127.0.0.1".to_owned(), port)))
}

fn balancer(list: Vec<ServiceInstance>, policy: DubboConsistentHash) -> LoadBalancer {
    fixed(list, |chain| chain, policy)
}

async fn call(balancer: &LoadBalancer, arguments: &[&str]) -> String {
    let call = Call(arguments);
    balancer.choose(&Request::of(&call)).await.unwrap().instance().authority()
}

#[tokio::test(start_paused = true)]
async fn dubbo_030_equal_first_arguments_go_to_one_provider() {
    let lb = balancer(local(), DubboConsistentHash::default());
    let first = call(&lb, &["a", "x"]).await;
    for turn in 0..10_000 {
        assert_eq!(call(&lb, &["a", &turn.to_string()]).await, first);
    }
    // A generic call is one whose client gives the inner arguments; how they travel does not matter.
    assert_eq!(call(&lb, &["a"]).await, first);
}

#[tokio::test(start_paused = true)]
async fn dubbo_031_every_provider_is_hit() {
    let lb = balancer(local(), DubboConsistentHash::default());
    let mut hit = BTreeSet::new();
    for turn in 0..1_000 {
        hit.insert(call(&lb, &[&format!("argument {turn}")]).await);
    }
    assert_eq!(hit.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn dubbo_032_the_same_members_make_the_same_pick() {
    let whole = balancer(local(), DubboConsistentHash::default());
    let turned = balancer(local().into_iter().rev().collect(), DubboConsistentHash::default());
    // A group of a larger list, with the same members.
    let mut list: Vec<_> = local()
        .iter()
        .map(|instance| instance.to_builder().with_metadata("hint", "blue").build().unwrap())
        .collect();
    list.insert(2, ServiceInstance::new("127.0.0.1", 6).unwrap());
    let routed = fixed(list, evenkeel::SupplierBuilder::with_hints, DubboConsistentHash::default());
    for turn in 0..200 {
        let argument = turn.to_string();
        let expected = call(&whole, &[&argument]).await;
        assert_eq!(call(&turned, &[&argument]).await, expected);
        let call = Call(&[&argument]);
        let choice = routed.choose(&Request::of(&call).with_hint("blue")).await.unwrap();
        assert_eq!(choice.instance().authority(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn dubbo_034_keys_and_their_providers() {
    let policy = DubboConsistentHash::default();
    for (key, hash) in [
        ("arg1", 354_641_640),
        ("user-1", 1_399_904_214),
        ("user-2", 550_393_917),
        ("", 3_649_838_548),
        ("k5", 3_992_040_087),
        ("k3", 2_638_654_455),
    ] {
        assert_eq!(policy.hash(&Request::of(&Call(&[key]))), Some(hash), "{key:?}");
    }
    let lb = balancer(local(), DubboConsistentHash::default());
    for (key, port) in
        [("arg1", 2), ("user-1", 1), ("user-2", 3), ("user-3", 5), ("a", 3), ("0", 5), ("42", 5), ("", 4)]
    {
        assert_eq!(call(&lb, &[key]).await, format!("127.0.0.1:{port}"), "{key:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn dubbo_035_shares_and_what_a_removal_moves() {
    let live = Live::new(local());
    let lb = over(chain(live.source()), DubboConsistentHash::default());
    let mut before = Vec::new();
    for key in 0..1_000 {
        before.push(call(&lb, &[&key.to_string()]).await);
    }
    let shares: BTreeMap<String, usize> = tally(&before);
    let expected = [205, 224, 181, 155, 235];
    assert!(shares.values().copied().eq(expected), "{shares:?}");
    live.set(local().into_iter().filter(|instance| instance.port() != Some(3)).collect()).await;
    for (key, before) in before.iter().enumerate() {
        let now = call(&lb, &[&key.to_string()]).await;
        assert_eq!(now != *before, before == "127.0.0.1:3", "{key}");
    }
    live.set(local()).await;
    for (key, before) in before.iter().enumerate() {
        assert_eq!(call(&lb, &[&key.to_string()]).await, *before, "back home");
    }
}

#[tokio::test(start_paused = true)]
async fn dubbo_037_a_hash_behind_the_last_point_wraps() {
    let list = providers([1, 2].map(|last| (format!("10.0.0.{last}"), 20_880)));
    let lb = balancer(list, DubboConsistentHash::default().with_nodes(4));
    assert_eq!(call(&lb, &["k5"]).await, "10.0.0.1:20880");
    assert_eq!(call(&lb, &["k3"]).await, "10.0.0.1:20880");
}

#[tokio::test(start_paused = true)]
async fn dubbo_038_names() {
    let list = providers([1, 2, 3].map(|last| (format!("10.0.0.{last}"), 20_880)));
    // An id of its own changes nothing: a consumer of Dubbo's sees the address alone.
    let list = list.into_iter().map(|instance| instance.to_builder().id("x").build().unwrap()).collect();
    let lb = balancer(list, DubboConsistentHash::default());
    for (name, last) in [("alice", 1), ("bob", 1), ("carol", 2), ("dave", 1)] {
        assert_eq!(call(&lb, &[name]).await, format!("10.0.0.{last}:20880"), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn dubbo_039_arguments_are_joined_and_a_ring_has_points() {
    let lb = balancer(local(), DubboConsistentHash::by_arguments([0, 1]));
    let other = balancer(local(), DubboConsistentHash::new(HashKey::attribute("argument.0")));
    for turn in 0..100 {
        let text = format!("{turn}bc");
        assert_eq!(call(&lb, &[&text[..1], &text[1..]]).await, call(&lb, &[&text[..2], &text[2..]]).await);
        assert_eq!(call(&lb, &[&text[..1], &text[1..]]).await, call(&other, &[&text]).await);
    }
    for nodes in [0, 1, 3] {
        let lb = balancer(local(), DubboConsistentHash::default().with_nodes(nodes));
        assert_eq!(call(&lb, &["a"]).await, call(&lb, &["a"]).await, "{nodes} nodes");
    }
}
