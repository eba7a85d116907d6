//! 3.2 Random: cases 17 to 20.

use evenkeel::discovery::SimpleDiscovery;
use evenkeel::policy::{RandomPick, RoundRobin};
use evenkeel::{ChooseErrorKind, LoadBalancers, Reason, Request, SupplierBuilder};

use super::round_robin::Hears;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn scl_017_one_of_two_instances_is_picked() {
    let lb = fixed(list("a b"), |chain| chain, RandomPick);
    let all = picks(&lb, 100).await;
    assert!(count(&all, "a") > 20 && count(&all, "b") > 20, "{:?}", tally(&all));
    assert_eq!(count(&all, "a") + count(&all, "b"), 100);
}

#[tokio::test(start_paused = true)]
async fn scl_018_without_a_source_a_chain_is_refused_and_an_unknown_service_is_a_typed_error() {
    let error = SupplierBuilder::new("orders").build().unwrap_err();
    assert!(error.reason().contains("it has no base"), "{error}");
    let balancers = LoadBalancers::builder(SimpleDiscovery::new()).build().unwrap();
    let error = balancers.get("nobody").unwrap().choose(&Request::EMPTY).await.unwrap_err();
    assert!(
        matches!(error.kind(), ChooseErrorKind::NoInstances { reason: Reason::Empty, known: 0, .. }),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn scl_019_an_empty_list_is_a_typed_error() {
    let lb = fixed(Vec::new(), |chain| chain, RandomPick);
    for _ in 0..3 {
        let error = lb.choose(&Request::EMPTY).await.unwrap_err();
        assert!(
            matches!(error.kind(), ChooseErrorKind::NoInstances { reason: Reason::Empty, known: 0, .. }),
            "{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn scl_020_a_stage_is_told_what_a_random_policy_picked() {
    let hears = Hears::default();
    let lb = fixed(list("a"), |chain| chain.with_request_stage(hears.clone()), RandomPick);
    let chosen = lb.choose(&Request::EMPTY).await.unwrap().instance();
    assert_eq!((chosen.id(), hears.heard()), ("a", vec![chosen.clone()]));
    // The same of any other policy.
    let lb = fixed(list("a"), |chain| chain.with_request_stage(hears.clone()), RoundRobin::default());
    pick(&lb).await;
    assert_eq!(hears.heard().len(), 2);
}
