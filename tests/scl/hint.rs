//! 3.8 Hints: cases 74 to 82. The header is X-Test; 1 and 2 have the hints test1 and test2, 3 has none.

use evenkeel::policy::RoundRobin;
use evenkeel::supplier::HintStage;
use evenkeel::{HttpView, LoadBalancer, Request, RequestView, ServiceInstance};

use crate::support::*;

fn hinted(instances: Vec<ServiceInstance>) -> LoadBalancer {
    let shape =
        |chain: evenkeel::SupplierBuilder| chain.with_hint_stage(HintStage::default().with_header("X-Test"));
    fixed(instances, shape, RoundRobin::starting_at(-1))
}

fn three() -> Vec<ServiceInstance> {
    let mut all = with("hint", "1=test1 2=test2");
    all.extend(list("3"));
    all
}

/// The ids of six picks for a request with this header and this hint of the caller.
async fn six(lb: &LoadBalancer, header: Option<&str>, hint: Option<&str>) -> String {
    let builder = http::Request::builder().uri("/");
    let request = header.into_iter().fold(builder, |request, value| request.header("x-test", value));
    let request = request.body(()).unwrap();
    let view = HttpView::of(&request);
    let mut all = String::new();
    for _ in 0..6 {
        let request = Request::of(&view);
        all += &match hint {
            Some(hint) => pick_for(lb, &request.with_hint(hint)).await,
            None => pick_for(lb, &request).await,
        };
    }
    all
}

#[tokio::test(start_paused = true)]
async fn scl_074_the_header_comes_before_the_hint_of_the_caller() {
    assert_eq!(six(&hinted(three()), Some("test2"), Some("test1")).await, "222222");
}

#[tokio::test(start_paused = true)]
async fn scl_075_without_the_header_the_hint_of_the_caller_counts() {
    assert_eq!(six(&hinted(three()), None, Some("test1")).await, "111111");
}

#[tokio::test(start_paused = true)]
async fn scl_076_without_a_hint_it_may_be_any() {
    assert_eq!(six(&hinted(three()), None, None).await, "123123");
    assert_eq!(six(&hinted(three()), None, Some("default")).await, "123123", "nobody is tagged so");
}

#[tokio::test(start_paused = true)]
async fn scl_077_a_hint_that_nobody_has_leaves_all() {
    assert_eq!(six(&hinted(three()), Some("testX"), None).await, "123123");
}

#[tokio::test(start_paused = true)]
async fn scl_078_a_request_that_says_nothing_may_go_to_any() {
    assert_eq!(picks(&hinted(three()), 6).await.concat(), "123123");
}

/// A view of a request that is not there.
struct Absent;

impl RequestView for Absent {}

#[tokio::test(start_paused = true)]
async fn scl_079_a_view_that_knows_nothing_may_go_to_any() {
    let lb = hinted(three());
    for expected in ["1", "2", "3"] {
        assert_eq!(pick_for(&lb, &Request::of(&Absent)).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn scl_080_a_blank_header_leaves_the_hint_of_the_caller() {
    for blank in ["", " ", "\t "] {
        assert_eq!(six(&hinted(three()), Some(blank), Some("test1")).await, "111111", "{blank:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn scl_081_an_instance_tagged_default_draws_no_requests_without_a_hint() {
    let lb = hinted(with("hint", "1=default 2=test2 3=test3"));
    assert_eq!(six(&lb, None, None).await, "123123");
    assert_eq!(six(&lb, None, Some("default")).await, "111111", "who asks for it gets it");
}

#[tokio::test(start_paused = true)]
async fn scl_082_case_counts() {
    assert_eq!(six(&hinted(three()), Some("Test1"), None).await, "123123");
}
