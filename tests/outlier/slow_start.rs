//! Instances that come into use get less than their share at first, whatever the policy.

use std::sync::Arc;
use std::time::Duration;

use evenkeel::config::{OutlierDetectionProperties, SlowStartProperties};
use evenkeel::health::HealthCheck;
use evenkeel::policy::{
    AvailabilityFiltering, BestAvailable, ClientSideWeightedRoundRobin, HashKey, LeastActive, LeastRequest,
    Maglev, PeakEwma, Policy, RandomPick, Rendezvous, RingHash, RoundRobin, ShortestResponse,
    SmoothRoundRobin, WeightedResponseTime, ZoneAvoidance,
};
use evenkeel::{InstanceState, LoadBalancer, Outcome, Request};

use super::ejection::{lease, state};
use crate::support::*;

fn minute() -> SlowStartProperties {
    SlowStartProperties::default().with_window(Duration::from_secs(60))
}

fn warming(live: &Live, policy: Arc<dyn Policy>, slow: SlowStartProperties) -> LoadBalancer {
    let chain = chain(live.source()).with_weights();
    LoadBalancer::builder(chain.build().unwrap()).policy_arc(policy).slow_start(slow).build()
}

/// The share of `id` in percent, over sequential calls.
async fn share(lb: &LoadBalancer, id: &str, n: usize) -> f64 {
    #[allow(clippy::cast_precision_loss)]
    let share = count(&picks(lb, n).await, id) as f64 * 100.0 / n as f64;
    share
}

/// One new among three old: f / (3 + f) for policies that go by turns or by chance; by a hash it gets the part f of its keys.
#[tokio::test(start_paused = true)]
async fn lbs_one_new_among_three_old() {
    let policies: [Arc<dyn Policy>; 13] = [
        Arc::new(RoundRobin::default()),
        Arc::new(RandomPick),
        Arc::new(SmoothRoundRobin::default()),
        Arc::new(LeastActive::default()),
        Arc::new(ShortestResponse::default()),
        Arc::new(BestAvailable::default()),
        Arc::new(AvailabilityFiltering::default().with_active_limit(9)),
        Arc::new(WeightedResponseTime::default()),
        Arc::new(ZoneAvoidance::default()),
        Arc::new(ClientSideWeightedRoundRobin::default()),
        Arc::new(Rendezvous::new(HashKey::default())),
        Arc::new(Maglev::new(HashKey::default())),
        Arc::new(RingHash::new(HashKey::default())),
    ];
    for policy in policies {
        let live = Live::new(list("a b c"));
        let lb = warming(&live, Arc::clone(&policy), minute());
        pick(&lb).await;
        live.set(list("a b c d")).await;
        // A ring's places are not quite even.
        let within = if policy.name() == "ring-hash" { 4.0 } else { 0.9 };
        let hashes = policy.name().contains("hash") || ["maglev", "rendezvous"].contains(&&*policy.name());
        for (seconds, share_of_all, part_of_keys) in
            [(0, 3.23, 2.5), (15, 7.69, 6.25), (30, 14.29, 12.5), (45, 20.0, 18.75), (60, 25.0, 25.0)]
        {
            let expected = if hashes { part_of_keys } else { share_of_all };
            let got = share(&lb, "d", 20_000).await;
            assert!((got - expected).abs() < within, "{} at {seconds} s: {got} %", policy.name());
            advance(15.0).await;
        }
        assert!(!state(&lb, "d", InstanceState::is_warming));
    }
}

/// Of two choices the newcomer is the one that is idle, so its share is held down by the comparison.
#[tokio::test(start_paused = true)]
async fn lbs_of_two_choices_a_newcomer_is_neither_flooded_nor_starved() {
    let policies: [Arc<dyn Policy>; 2] = [Arc::new(LeastRequest), Arc::new(PeakEwma::default())];
    for policy in policies {
        for busy in [0, 5, 40] {
            let live = Live::new(list("a b c"));
            let lb = warming(&live, Arc::clone(&policy), minute());
            pick(&lb).await;
            let mut calls = Vec::new();
            for _ in 0..3 * busy {
                calls.push(lb.choose(&Request::EMPTY).await.unwrap());
            }
            live.set(list("a b c d")).await;
            advance(15.0).await;
            // As many calls run at a time as did before, in the order in which they began.
            let mut got = 0;
            for _ in 0..4_000 {
                let choice = lb.choose(&Request::EMPTY).await.unwrap();
                got += usize::from(choice.instance().id() == "d");
                calls.push(choice);
                calls.remove(0).complete(Outcome::Success);
            }
            // A quarter of its share, which is a quarter of all: 7.7 %.
            assert!((200..520).contains(&got), "{} with {busy} calls each: {got} of 4000", policy.name());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lbs_instances_of_the_first_list_are_warm_and_when_all_are_new_none_is_spared() {
    let live = Live::new(list("a b c d"));
    let lb = warming(&live, Arc::new(RoundRobin::default()), minute());
    even(&picks(&lb, 400).await, "a b c d", 100, 0);
    live.set(list("e f g h")).await;
    let seen = picks(&lb, 8_000).await;
    even(&seen, "e f g h", 2_000, 250);
}

#[tokio::test(start_paused = true)]
async fn lbs_each_instance_has_a_clock_of_its_own() {
    let live = Live::new(list("a b c"));
    let lb = warming(&live, Arc::new(RandomPick), minute());
    pick(&lb).await;
    live.set(list("a b c d")).await;
    advance(59.0).await;
    // Others that come do not end, or begin again, the warm-up of this one (Envoy #29008).
    live.set(list("a b c d e f")).await;
    assert!(state(&lb, "d", InstanceState::is_warming));
    let seen = picks(&lb, 40_000).await;
    let share = |id: &str| count(&seen, id);
    assert!(share("d") > 8 * share("e") && share("e") > 200, "{:?}", tally(&seen));
    advance(1.1).await;
    pick(&lb).await;
    let seen = picks(&lb, 4_000).await;
    assert!(count(&seen, "d").abs_diff(count(&seen, "a")) < 200, "{:?}", tally(&seen));
    assert!(!state(&lb, "d", InstanceState::is_warming) && state(&lb, "e", InstanceState::is_warming));
}

/// A registry that forgets an instance for a moment does not make it cold.
#[tokio::test(start_paused = true)]
async fn case_044_an_instance_that_flaps_in_the_registry_stays_warm() {
    let live = Live::new(list("a b c"));
    let lb = warming(&live, Arc::new(RoundRobin::default()), minute());
    pick(&lb).await;
    for _ in 0..50 {
        live.set(list("a b")).await;
        advance(10.0).await;
        live.set(list("a b c")).await;
        even(&picks(&lb, 300).await, "a b c", 100, 5);
        advance(10.0).await;
    }
    assert_eq!(lb.tracked(), 3);
}

#[tokio::test(start_paused = true)]
async fn lbs_who_returns_from_an_ejection_warms_up() {
    let lb = LoadBalancer::builder(chain(Live::new(list("a b c d")).source()).build().unwrap())
        .outlier_detection(OutlierDetectionProperties::on())
        .slow_start(minute())
        .build();
    for _ in 0..5 {
        lease(&lb, "b").await.complete(Outcome::Status(500));
    }
    advance(30.001).await;
    lease(&lb, "b").await.complete(Outcome::Status(200));
    assert!(state(&lb, "b", InstanceState::is_warming));
    assert!(share(&lb, "b", 4_000).await < 6.0);
    advance(60.0).await;
    assert!((share(&lb, "b", 4_000).await - 25.0).abs() < 0.1);
}

#[tokio::test(start_paused = true)]
async fn lbs_weights_count_while_one_warms_up() {
    let heavy = |pairs: &str| with("weight", pairs);
    let live = Live::new(heavy("a=1 b=1"));
    let lb = warming(&live, Arc::new(RandomPick), minute());
    pick(&lb).await;
    live.set(heavy("a=1 b=1 c=8")).await;
    advance(30.0).await;
    // 8 x 0.5 of 1 + 1 + 4.
    let got = share(&lb, "c", 20_000).await;
    assert!((got - 66.7).abs() < 1.5, "{got}");
}

#[tokio::test(start_paused = true)]
async fn lbs_a_key_that_a_newcomer_took_stays_with_it() {
    let live = Live::new(list("a b c"));
    let lb = warming(&live, Arc::new(Maglev::new(HashKey::attribute("key"))), minute());
    pick(&lb).await;
    live.set(list("a b c d")).await;
    let mut before: Vec<bool> = vec![false; 2_000];
    for _ in 0..12 {
        let mut now = Vec::new();
        for key in 0..2_000_u32 {
            let key = key.to_string();
            let view = Attribute(&key);
            now.push(pick_for(&lb, &Request::of(&view)).await == "d");
        }
        assert!(before.iter().zip(&now).all(|(was, is)| !was || *is), "a key went back");
        before = now;
        advance(5.001).await;
    }
    let taken = before.iter().filter(|taken| **taken).count();
    // 55 s of 60, of a quarter: 458, and three deviations to either side.
    assert!((400..516).contains(&taken), "{taken} of 2000 keys");
}

struct Attribute<'a>(&'a str);

impl evenkeel::RequestView for Attribute<'_> {
    fn attribute(&self, name: &str) -> Option<&str> {
        (name == "key").then_some(self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn dubbo_warm_up_as_a_preset() {
    let live = Live::new(list("a b c"));
    let lb = warming(&live, Arc::new(RandomPick), SlowStartProperties::dubbo());
    pick(&lb).await;
    live.set(list("a b c d")).await;
    advance(300.0).await;
    let got = share(&lb, "d", 20_000).await;
    assert!((got - 14.29).abs() < 0.9, "{got}");
    advance(300.1).await;
    pick(&lb).await;
    assert!((share(&lb, "d", 20_000).await - 25.0).abs() < 1.0);
}

#[tokio::test(start_paused = true)]
async fn lbs_one_alone_is_used_however_cold() {
    let live = Live::new(list("a"));
    for policy in
        [Arc::new(RoundRobin::default()) as Arc<dyn Policy>, Arc::new(LeastRequest), Arc::new(RandomPick)]
    {
        let lb = warming(&live, policy, minute());
        pick(&lb).await;
        live.set(list("b")).await;
        assert_eq!(count(&picks(&lb, 50).await, "b"), 50);
        live.set(list("a")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn lbs_who_passes_its_health_check_again_warms_up_where_traffic_is_divided_too() {
    for divided in [false, true] {
        let probe = Fake::new();
        let check = HealthCheck::new(probe.clone()).with_interval(Duration::from_secs(5));
        let live = Live::new(list("a b c d e f"));
        let chain = chain(live.source()).with_health_checks(check);
        let chain = if divided { chain.with_panic_threshold(10) } else { chain };
        let lb = LoadBalancer::builder(chain.build().unwrap()).slow_start(minute()).build();
        pick(&lb).await;
        advance(1.0).await;
        assert!(!state(&lb, "b", InstanceState::is_warming), "the first list is warm");
        probe.set("b", Some(0), false);
        advance(30.0).await;
        assert_eq!(count(&picks(&lb, 60).await, "b"), 0);
        probe.set("b", Some(0), true);
        advance(12.0).await;
        assert!(state(&lb, "b", InstanceState::is_warming), "divided: {divided}");
    }
}
