//! Reports and overrides: what they say of a service is what is so, and asking changes nothing.

mod support;

#[path = "why/changes.rs"]
mod changes;
#[path = "why/explain.rs"]
mod explain;
#[path = "why/large.rs"]
mod large;
#[path = "why/overrides.rs"]
mod overrides;
#[path = "why/router.rs"]
mod router;
#[path = "why/status.rs"]
mod status;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evenkeel::observe::{Change, ChangeKind};
use evenkeel::{Failure, LoadBalancer, Outcome, Request};
use tokio::time::Instant;

/// 2026-11-30T20:00:00Z, and from there on as tokio's clock goes.
fn wall() -> impl Fn() -> SystemTime + Send + Sync + 'static {
    let started = Instant::now();
    move || evening() + started.elapsed()
}

fn evening() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_796_068_800)
}

/// Picks until `id` is chosen, and ends that call so.
async fn end_on(balancer: &LoadBalancer, id: &str, outcome: Outcome) {
    for _ in 0..200 {
        let choice = balancer.choose(&Request::EMPTY).await.unwrap();
        if choice.instance().id() == id {
            choice.complete(outcome);
            return;
        }
        choice.complete(Outcome::Success);
    }
    panic!("{id} was not picked");
}

async fn refuse(balancer: &LoadBalancer, id: &str) {
    end_on(balancer, id, Outcome::Failure(Failure::Connect)).await;
}

fn kinds(changes: &[Change]) -> Vec<ChangeKind> {
    changes.iter().map(|change| change.kind).collect()
}
