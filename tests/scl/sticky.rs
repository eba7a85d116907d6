//! 3.6 Sticky session by cookie: cases 55 to 63. `tests/sticky.rs` has them as one story.

use evenkeel::policy::RoundRobin;
use evenkeel::supplier::StickySession;
use evenkeel::{HttpView, LoadBalancer, Request, RequestView, ServiceInstance};

use crate::support::*;

fn sticky(instances: Vec<ServiceInstance>) -> LoadBalancer {
    let shape = |chain: evenkeel::SupplierBuilder| chain.with_sticky_session(StickySession::default());
    fixed(instances, shape, RoundRobin::starting_at(-1))
}

fn three() -> LoadBalancer {
    sticky(list("test-1 test-2 test-3"))
}

/// The ids of six picks for a request with these lines of `Cookie`.
async fn six(lb: &LoadBalancer, lines: &[&str]) -> String {
    let builder = http::Request::builder().uri("/");
    let request =
        lines.iter().fold(builder, |request, line| request.header("cookie", *line)).body(()).unwrap();
    let view = HttpView::of(&request);
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(pick_for(lb, &Request::of(&view)).await.replace("test-", ""));
    }
    ids.concat()
}

#[tokio::test(start_paused = true)]
async fn scl_055_the_cookie_names_the_instance() {
    assert_eq!(six(&three(), &["sc-lb-instance-id=test-1"]).await, "111111");
    assert_eq!(six(&three(), &["sc-lb-instance-id=test-3"]).await, "333333");
}

#[tokio::test(start_paused = true)]
async fn scl_056_a_cookie_that_names_one_that_is_gone_has_no_effect() {
    assert_eq!(six(&three(), &["sc-lb-instance-id=test-4"]).await, "123123");
}

#[tokio::test(start_paused = true)]
async fn scl_057_without_cookies_it_may_be_any() {
    assert_eq!(six(&three(), &[]).await, "123123");
}

/// A request that has a method and nothing else.
struct Bare;

impl RequestView for Bare {
    fn method(&self) -> Option<&str> {
        Some("GET")
    }
}

#[tokio::test(start_paused = true)]
async fn scl_058_a_request_of_another_kind_may_go_to_any() {
    let lb = three();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(pick_for(&lb, &Request::of(&Bare)).await);
    }
    assert_eq!(ids, ["test-1", "test-2", "test-3"]);
}

#[tokio::test(start_paused = true)]
async fn scl_059_of_two_cookies_the_first_decides() {
    assert_eq!(six(&three(), &["sc-lb-instance-id=test-2; sc-lb-instance-id=test-1"]).await, "222222");
    assert_eq!(six(&three(), &["sc-lb-instance-id=test-2", "sc-lb-instance-id=test-1"]).await, "222222");
    // Also if it is the first that has no effect.
    assert_eq!(six(&three(), &["sc-lb-instance-id=gone; sc-lb-instance-id=test-2"]).await, "123123");
}

#[tokio::test(start_paused = true)]
async fn scl_060_a_request_without_a_map_of_cookies_may_go_to_any() {
    let request =
        http::Request::builder().uri("/").header("accept", "sc-lb-instance-id=test-2").body(()).unwrap();
    let view = HttpView::of(&request);
    assert_eq!(view.cookie("sc-lb-instance-id"), None);
    let lb = three();
    for expected in ["test-1", "test-2", "test-3"] {
        assert_eq!(pick_for(&lb, &Request::of(&view)).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn scl_061_without_a_request_it_may_be_any() {
    assert_eq!(picks(&three(), 3).await, ["test-1", "test-2", "test-3"]);
}

#[tokio::test(start_paused = true)]
async fn scl_062_an_instance_without_an_id_is_named_by_its_address() {
    let lb = sticky(vec![ServiceInstance::new("h", 1).unwrap(), ServiceInstance::new("h", 2).unwrap()]);
    assert_eq!(six(&lb, &["sc-lb-instance-id=h:2"]).await, "h:2".repeat(6));
    for value in ["", "null", "h", "2"] {
        assert_eq!(six(&lb, &[&format!("sc-lb-instance-id={value}")]).await, "h:1h:2".repeat(3), "{value:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn scl_063_a_line_of_several_cookies_is_read() {
    assert_eq!(six(&three(), &["a=1; sc-lb-instance-id=test-1"]).await, "111111");
    assert_eq!(six(&three(), &["a=1;sc-lb-instance-id=test-2;b"]).await, "222222");
    assert_eq!(six(&three(), &["a=sc-lb-instance-id=test-2; xsc-lb-instance-id=test-2"]).await, "123123");
}
