//! How a picker comes to its table when the list changes.

use super::*;
use crate::policy::hash::held::Held;
use crate::policy::hash::member;
use crate::policy::{Candidates, PickCx, Picker};
use crate::state::{BackOff, InstanceState, ServiceState};
use crate::{ServiceId, ServiceInstance};

const PLAN: Plan = Plan::Maglev(65_537);

/// What a view keeps of a picker.
struct Kept(Held);

impl Picker for Kept {
    fn pick(&self, _: &mut PickCx<'_>) -> Option<usize> {
        None
    }
    fn legacy(&self) -> Option<Arc<dyn std::any::Any + Send + Sync>> {
        Some(self.0.lineage())
    }
}

fn service(runtime: bool) -> Arc<ServiceState> {
    let service = Arc::new(ServiceState::new(ServiceId::new("orders").unwrap()));
    service.configure(false, BackOff::default());
    if runtime {
        service.run_on(&tokio::runtime::Handle::current());
    }
    service
}

fn states(service: &Arc<ServiceState>, of: impl Iterator<Item = u64>) -> Vec<Arc<InstanceState>> {
    of.map(|uid| {
        let host = format!("10.{}.{}.{}", uid / 62_500, uid / 250 % 250, uid % 250 + 1);
        InstanceState::new(uid, &ServiceInstance::new(host, 80).unwrap(), service)
    })
    .collect()
}

fn held(states: &[Arc<InstanceState>], before: Option<&Kept>) -> Kept {
    let set = Candidates::new(states, None).after(before.map(|kept| kept as &dyn Picker));
    let members = member::members(&set, member::Naming::Identity);
    Kept(Held::new(&set, PLAN, members))
}

async fn made(kept: &Kept) {
    while !kept.0.is_made() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

fn hashes() -> impl Iterator<Item = u64> {
    (0..2_000_u64).map(|key| Xx64::of(&key.to_le_bytes()))
}

#[tokio::test]
async fn lbs_a_large_table_is_made_behind_the_picks() {
    let service = service(true);
    let all = states(&service, 0..10_000);
    let first = held(&all, None);
    // On this runtime of one thread nothing of the task's result can have come in between.
    let provisional: Vec<_> = hashes().map(|hash| first.0.find(hash, |_| true).unwrap()).collect();
    made(&first).await;
    let homes: Vec<_> = hashes().map(|hash| first.0.find(hash, |_| true).unwrap()).collect();
    let plain = states(&self::service(false), 0..10_000);
    let in_place = held(&plain, None);
    assert!(in_place.0.is_made(), "without a runtime it is made at once");
    assert_eq!(homes, hashes().map(|hash| in_place.0.find(hash, |_| true).unwrap()).collect::<Vec<_>>());
    assert!(provisional.iter().all(|at| *at < 10_000));

    // The next list lacks the first 5 000: until its table is there, nobody goes to one of them, and the others stay.
    let left = &all[5_000..];
    let next = held(left, Some(&first));
    for (hash, home) in hashes().zip(&homes) {
        let now = next.0.find(hash, |_| true);
        assert!(now.is_none_or(|at| at < 5_000));
        if *home >= 5_000 {
            assert!(now == Some(home - 5_000) || next.0.is_made());
        }
    }
    made(&next).await;
    // The same instances again: the same table, with nothing to do.
    assert!(held(left, Some(&next)).0.is_made());
    // Another plan has no use for it.
    let set = Candidates::new(left, None).after(Some(&next));
    assert!(set.legacy::<String>().is_none());
}

#[tokio::test]
async fn lbs_of_many_lists_only_the_newest_gets_a_table() {
    let service = service(true);
    let all = states(&service, 0..2_000);
    assert!(PLAN.effort(&member::members(&Candidates::new(&all, None), member::Naming::Identity)) > IN_PLACE);
    let mut chain = vec![held(&all, None)];
    for less in 1..40 {
        let next = held(&all[less..], chain.last());
        chain.push(next);
    }
    made(chain.last().unwrap()).await;
    let made = chain.iter().filter(|kept| kept.0.is_made()).count();
    assert!(made < 20, "{made} of 40 were made");
}

#[test]
fn lbs_a_runtime_that_ends_leaves_no_picker_without_its_table() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let service = runtime.block_on(async { service(true) });
    drop(runtime);
    let kept = held(&states(&service, 0..2_000), None);
    assert!(kept.0.is_made());
    assert!(held(&states(&service, 0..3_000), Some(&kept)).0.is_made(), "and again");
}
