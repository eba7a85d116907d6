//! Timers die with their runtime: nobody stays out for that, and nothing waits for itself.

use std::sync::mpsc;
use std::time::Duration;

use evenkeel::config::OutlierDetectionProperties;
use evenkeel::policy::RoundRobin;
use evenkeel::{Choice, Failure, InstanceState, LoadBalancer, Outcome, Request, SupplierBuilder};
use tokio::runtime::{Builder, Runtime};

use super::ejection::{call, lease, over_n, state};
use crate::support::*;

const GOOD: Outcome = Outcome::Status(200);
const BAD: Outcome = Outcome::Status(500);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Does `work` on another thread; one that waits for itself is told from one that ends.
fn ends(work: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        work();
        done.send(()).unwrap();
    });
    ended.recv_timeout(Duration::from_secs(30)).expect("it does not end, or it panicked");
    thread.join().unwrap();
}

fn divided() -> LoadBalancer {
    let chain = SupplierBuilder::new("orders").with_instances(list("a b c d")).with_seed(7);
    LoadBalancer::builder(chain.with_panic_threshold(50).build().unwrap())
        .outlier_detection(OutlierDetectionProperties::on())
        .build()
}

fn leases(lb: &LoadBalancer, id: &str, n: usize) -> Vec<Choice> {
    let mut all = Vec::new();
    while all.len() < n {
        let choice = lb.try_choose(&Request::EMPTY).unwrap();
        if choice.instance().id() == id {
            all.push(choice);
        } else {
            choice.complete(GOOD);
        }
    }
    all
}

#[test]
fn a_runtime_that_ends_while_somebody_is_ejected_lets_a_call_probe_it() {
    ends(|| {
        let first = runtime();
        let lb = first.block_on(async {
            let lb = over_n(3, OutlierDetectionProperties::on(), RoundRobin::default());
            for _ in 0..5 {
                lease(&lb, "1").await.complete(BAD);
            }
            lb
        });
        assert!(state(&lb, "1", |state| state.ejected().is_some()));
        drop(first);
        runtime().block_on(async {
            for _ in 0..6 {
                call(&lb, |_| GOOD).await;
            }
        });
        assert!(!state(&lb, "1", InstanceState::is_skipped), "one call was enough");
    });
}

#[test]
fn without_a_runtime_calls_fail_where_traffic_is_divided_and_nothing_waits_for_itself() {
    for outcome in [Outcome::Failure(Failure::Connect), BAD] {
        ends(move || {
            let first = runtime();
            let lb = divided();
            first.block_on(async { call(&lb, |_| GOOD).await });
            let open = leases(&lb, "b", 5);
            drop(first);
            for choice in open {
                choice.complete(outcome);
            }
            // It is due for its probing call at once, for there is no timer, and that call is made.
            let probe = leases(&lb, "b", 1).pop().unwrap();
            assert!(state(&lb, "b", InstanceState::is_skipped), "{outcome}");
            probe.complete(GOOD);
            assert!(!state(&lb, "b", InstanceState::is_skipped), "{outcome}");
        });
    }
}
