//! Ten thousand instances: bounded in time and in size.

use super::*;
use crate::support::instance;
use evenkeel::observe::{ExplainOptions, Page};
use evenkeel::policy::LeastRequest;
use evenkeel::{ServiceInstance, SupplierBuilder};

fn many() -> Vec<ServiceInstance> {
    let one = |n: usize| {
        instance(&format!("orders-{n:05}")).to_builder().zone(format!("z{}", n % 3)).build().unwrap()
    };
    (0..10_000).map(one).collect()
}

#[tokio::test]
async fn reports_on_ten_thousand_instances_are_bounded_in_time_and_size() {
    let supplier =
        SupplierBuilder::new("orders").with_instances(many()).with_zone_preference("z1").with_seed(7);
    let lb = LoadBalancer::builder(supplier.build().unwrap()).policy(LeastRequest).build();
    lb.ready().await.unwrap();
    let started = std::time::Instant::now();
    let status = lb.status();
    let status_took = started.elapsed();
    assert_eq!((status.instances.len(), status.left_off, status.counts.known), (100, 9_900, 10_000));
    assert_eq!((status.counts.in_use, status.counts.left_out), (3_333, 6_667));
    let most = lb.status_page(Page::default().with_limit(usize::MAX));
    assert_eq!((most.instances.len(), most.left_off), (1_000, 9_000));
    let started = std::time::Instant::now();
    let why = lb.explain_with(&Request::EMPTY, ExplainOptions::default().with_picks(1_000));
    let explain_took = started.elapsed();
    assert_eq!((why.candidates.len(), why.left_off), (100, 9_900));
    let dry = why.dry_run.as_ref().unwrap();
    assert!(dry.shares.len() == 20 && dry.instances > 500, "{dry}");
    let sizes = [
        serde_json::to_vec(&status).unwrap().len(),
        status.to_string().len(),
        serde_json::to_vec(&why).unwrap().len(),
        why.to_string().len(),
    ];
    assert!(sizes.iter().all(|size| *size < 64 << 10), "{sizes:?}");
    assert!(serde_json::to_vec(&most).unwrap().len() < 512 << 10);
    println!("10 000 instances: status {status_took:?}, explain {explain_took:?}, bytes {sizes:?}");
    // Half a second each in a debug build on a busy machine of two cores; what is printed above tells yours.
    assert!(status_took + explain_took < Duration::from_secs(5), "{status_took:?} {explain_took:?}");
}
