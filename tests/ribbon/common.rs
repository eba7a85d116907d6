//! What the cases share.

use std::collections::BTreeSet;

use evenkeel::policy::Policy;
use evenkeel::{Choice, Failure, LoadBalancer, Outcome, Request, ServiceInstance, Tried};

use crate::support::*;

/// So many instances of a zone each: `a1`, `a2`, `b1` and so on.
pub fn zones(sizes: &[(&str, usize)]) -> Vec<ServiceInstance> {
    let mut all = Vec::new();
    for (zone, size) in sizes {
        all.extend(
            (1..=*size).map(|n| {
                instance(&format!("{zone}{n}")).to_builder().zone((*zone).to_owned()).build().unwrap()
            }),
        );
    }
    all
}

pub fn ruled(list: Vec<ServiceInstance>, policy: impl Policy) -> LoadBalancer {
    fixed(list, |chain| chain, policy)
}

/// A lease on the instance with this id, however the policy picks. The leases on the way are dropped.
pub async fn lease(lb: &LoadBalancer, id: &str) -> Choice {
    let mut tried = Tried::new();
    loop {
        let choice = lb.choose(&Request::EMPTY.with_tried(&tried)).await.unwrap();
        if choice.instance().id() == id {
            return choice;
        }
        tried.add(&choice);
    }
}

/// So many leases on it.
pub async fn hold(lb: &LoadBalancer, id: &str, n: usize) -> Vec<Choice> {
    let mut all = Vec::new();
    for _ in 0..n {
        all.push(lease(lb, id).await);
    }
    all
}

/// Puts it out of use.
pub async fn trip(lb: &LoadBalancer, id: &str) {
    lease(lb, id).await.complete(Outcome::Failure(Failure::Connect));
}

/// Who is met in so many picks.
pub async fn met(lb: &LoadBalancer, n: usize) -> BTreeSet<String> {
    picks(lb, n).await.into_iter().collect()
}

/// The zones that are met in so many picks.
pub async fn zones_met(lb: &LoadBalancer, n: usize) -> String {
    met(lb, n).await.iter().map(|id| &id[..1]).collect::<BTreeSet<_>>().into_iter().collect()
}
