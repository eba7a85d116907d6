//! 3.9 Retry aware: cases 83 to 90. What Spring calls the previous instance is all that a call has tried.

use std::time::Duration;

use evenkeel::policy::RoundRobin;
use evenkeel::{
    ChooseErrorKind, HttpView, LoadBalancer, Reason, Request, ServiceInstance, ServiceInstanceListSupplier,
    SupplierBuilder, Tried,
};
use futures_util::StreamExt;

use super::round_robin::Hears;
use crate::support::*;

/// Over these instances from the first on.
fn plain(ids: &str) -> LoadBalancer {
    fixed(list(ids), |chain| chain, RoundRobin::starting_at(-1))
}

/// What a call has tried that went to the instance `id`.
async fn tried(lb: &LoadBalancer, id: &str) -> Tried {
    for _ in 0..20 {
        let choice = lb.choose(&Request::EMPTY).await.unwrap();
        if choice.instance().id() == id {
            let mut tried = Tried::new();
            tried.add(&choice);
            return tried;
        }
    }
    panic!("{id} is never picked");
}

#[tokio::test(start_paused = true)]
async fn scl_083_an_empty_list_stays_empty() {
    let supplier = chain(Pull::always("", Duration::ZERO)).build().unwrap();
    assert_eq!(supplier.get().next().await.unwrap().unwrap(), []);
    let error = LoadBalancer::builder(supplier).build().choose(&Request::EMPTY).await.unwrap_err();
    assert!(matches!(error.kind(), ChooseErrorKind::NoInstances { reason: Reason::Empty, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn scl_084_a_later_attempt_goes_to_the_other() {
    let lb = plain("1 2");
    let tried = tried(&lb, "1").await;
    for _ in 0..5 {
        assert_eq!(pick_for(&lb, &Request::EMPTY.with_tried(&tried)).await, "2");
    }
}

#[tokio::test(start_paused = true)]
async fn scl_085_the_same_one_is_better_than_none() {
    let lb = plain("1");
    let tried = tried(&lb, "1").await;
    assert_eq!(pick_for(&lb, &Request::EMPTY.with_tried(&tried)).await, "1");
}

#[tokio::test(start_paused = true)]
async fn scl_086_a_stage_is_told_the_pick_of_a_later_attempt_once() {
    let hears = Hears::default();
    let shape = |chain: SupplierBuilder| chain.with_request_stage(hears.clone());
    let lb = fixed(list("1 2"), shape, RoundRobin::starting_at(-1));
    let tried = tried(&lb, "1").await;
    pick_for(&lb, &Request::EMPTY.with_tried(&tried)).await;
    let heard = hears.heard();
    assert_eq!(heard.iter().map(ServiceInstance::id).collect::<Vec<_>>(), ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn scl_087_a_request_that_has_tried_none_still_reaches_the_stages() {
    let lb = fixed(with("hint", "1=a 2=b"), SupplierBuilder::with_hints, RoundRobin::default());
    let http = http::Request::builder().header("x-sc-lb-hint", "b").body(()).unwrap();
    let view = HttpView::of(&http);
    let nothing = Tried::new();
    for _ in 0..5 {
        assert_eq!(pick_for(&lb, &Request::of(&view)).await, "2");
        assert_eq!(pick_for(&lb, &Request::of(&view).with_tried(&nothing)).await, "2");
    }
}

#[tokio::test(start_paused = true)]
async fn scl_088_without_a_request_none_is_avoided() {
    let lb = plain("1 2");
    tried(&lb, "1").await;
    assert_eq!(picks(&lb, 4).await.concat(), "2121");
}

#[tokio::test(start_paused = true)]
async fn scl_089_under_weights_every_turn_of_a_tried_one_is_passed_over() {
    let lb = fixed(with("weight", "A=3 B=1"), SupplierBuilder::with_weights, RoundRobin::starting_at(-1));
    let tried = tried(&lb, "A").await;
    for _ in 0..12 {
        assert_eq!(pick_for(&lb, &Request::EMPTY.with_tried(&tried)).await, "B");
    }
}

#[tokio::test(start_paused = true)]
async fn scl_090_a_tried_one_is_the_same_with_other_metadata() {
    let live = Live::new(with("mark", "1=old 2=old"));
    let lb = over(chain(live.source()), RoundRobin::starting_at(-1));
    let tried = tried(&lb, "1").await;
    live.set(with("mark", "1=new 2=old")).await;
    assert_eq!(
        lb.snapshot().unwrap().instances().next().unwrap().instance().metadata().get("mark"),
        Some("new")
    );
    for _ in 0..5 {
        assert_eq!(pick_for(&lb, &Request::EMPTY.with_tried(&tried)).await, "2");
    }
}
