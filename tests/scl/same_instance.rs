//! 3.5 Same-instance preference: cases 48 to 54. `tests/sticky.rs` has them as one story.

use evenkeel::policy::RoundRobin;
use evenkeel::supplier::ZonePreference;
use evenkeel::{LoadBalancer, Request, SupplierBuilder};

use super::round_robin::Hears;
use crate::support::*;

fn same(live: &Live) -> LoadBalancer {
    over(chain(live.source()).with_same_instance_preference(), RoundRobin::starting_at(-1))
}

#[tokio::test(start_paused = true)]
async fn scl_048_only_the_one_that_was_picked() {
    let lb = same(&Live::new(list("1 2 3")));
    assert_eq!(picks(&lb, 5).await.concat(), "11111");
}

#[tokio::test(start_paused = true)]
async fn scl_049_before_the_first_pick_it_may_be_any() {
    let mut first: Vec<String> = Vec::new();
    for seed in -1..5 {
        let shape = SupplierBuilder::with_same_instance_preference;
        first.push(pick(&fixed(list("1 2 3"), shape, RoundRobin::starting_at(seed))).await);
    }
    assert_eq!(first.concat(), "123123");
}

#[tokio::test(start_paused = true)]
async fn scl_050_when_it_is_gone_it_may_be_any_other_and_it_is_forgotten() {
    let live = Live::new(list("1 2 3"));
    let lb = same(&live);
    assert_eq!(picks(&lb, 2).await.concat(), "11");
    live.set(list("2 3")).await;
    assert_eq!(picks(&lb, 2).await.concat(), "22", "the next one in turn");
    live.set(list("1 2 3")).await;
    assert_eq!(picks(&lb, 2).await.concat(), "22", "1 is one of many now");
}

#[tokio::test(start_paused = true)]
async fn scl_051_what_the_request_asks_for_comes_first() {
    let live = Live::new(with("hint", "3=without 2=with"));
    let chain = chain(live.source()).with_same_instance_preference().with_hints();
    let lb = over(chain, RoundRobin::starting_at(-1));
    assert_eq!(pick(&lb).await, "3");
    for _ in 0..3 {
        assert_eq!(pick_for(&lb, &Request::EMPTY.with_hint("with")).await, "2");
    }
}

#[tokio::test(start_paused = true)]
async fn scl_052_a_stage_beside_it_is_told_each_pick_once() {
    let hears = Hears::default();
    let shape = |chain: SupplierBuilder| {
        let chain = chain.with_same_instance_preference().with_request_stage(hears.clone());
        chain.with_zone_preference(ZonePreference::new("z"))
    };
    let lb = fixed(list("1 2"), shape, RoundRobin::starting_at(-1));
    pick(&lb).await;
    assert_eq!(hears.heard().len(), 1);
    assert_eq!(hears.heard()[0].id(), "1");
}

#[tokio::test(start_paused = true)]
async fn scl_053_a_round_robin_below_it_turns_once() {
    let shape = SupplierBuilder::with_same_instance_preference;
    let lb = fixed(list("a b c"), shape, RoundRobin::starting_at(0));
    assert_eq!(picks(&lb, 3).await.concat(), "bbb");
}

#[tokio::test(start_paused = true)]
async fn scl_054_an_instance_with_other_metadata_is_the_same() {
    let live = Live::new(with("mark", "1=old 2=old"));
    let lb = same(&live);
    assert_eq!(picks(&lb, 2).await.concat(), "11");
    live.set(with("mark", "2=new 1=new")).await;
    let choice = lb.choose(&Request::EMPTY).await.unwrap();
    let instance = choice.instance();
    assert_eq!((instance.id(), instance.metadata().get("mark")), ("1", Some("new")));
}
