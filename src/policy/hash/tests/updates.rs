//! How a picker comes to its table when the list changes.

use super::*;
use crate::policy::hash::held::Held;
use crate::policy::hash::member;
use crate::policy::{Candidates, PickCx, Picker, Publishing};
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
    held_within(&Publishing::new(), states, before)
}

fn held_within(publishing: &Publishing, states: &[Arc<InstanceState>], before: Option<&Kept>) -> Kept {
    let before = before.map(|kept| kept as &dyn Picker);
    let set = Candidates::new(states, None).after(before).within(publishing);
    let members = member::members(&set);
    Kept(Held::new(&set, PLAN, members))
}

/// Keeps the thread that makes tables busy until what it returns is dropped.
fn busy(service: &ServiceState) -> std::sync::mpsc::Sender<()> {
    let (send, receive) = std::sync::mpsc::channel();
    let wait = move || _ = receive.recv();
    service.behind(&tokio::runtime::Handle::current(), Box::new(wait));
    send
}

async fn made(kept: &Kept) {
    let limit = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    while !kept.0.is_made() {
        assert!(tokio::time::Instant::now() < limit, "nobody makes its table");
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
    let maker = busy(&service);
    let first = held(&all, None);
    assert!(!first.0.is_made());
    let provisional: BTreeMap<_, u32> = hashes().fold(BTreeMap::new(), |mut counts, hash| {
        *counts.entry(first.0.find(hash, |_| true).unwrap() / 1_000).or_default() += 1;
        counts
    });
    assert!(provisional.len() == 10 && provisional.values().all(|count| *count > 120), "{provisional:?}");
    drop(maker);
    made(&first).await;
    let homes: Vec<_> = hashes().map(|hash| first.0.find(hash, |_| true).unwrap()).collect();
    let plain = states(&self::service(false), 0..10_000);
    let in_place = held(&plain, None);
    assert!(in_place.0.is_made(), "without a runtime it is made at once");
    assert_eq!(homes, hashes().map(|hash| in_place.0.find(hash, |_| true).unwrap()).collect::<Vec<_>>());

    // The next list lacks the first 5 000: until its table is there, nobody goes to one of them, and the others stay.
    let left = &all[5_000..];
    let maker = busy(&service);
    let next = held(left, Some(&first));
    assert!(!next.0.is_made());
    for (hash, home) in hashes().zip(&homes) {
        let now = next.0.find(hash, |_| true);
        assert!(now.is_none_or(|at| at < 5_000));
        assert!(*home < 5_000 || now == Some(home - 5_000));
        assert!(next.0.find(hash, |at| Some(at) != now) != now || now.is_none());
    }
    drop(maker);
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
    assert!(PLAN.effort(&member::members(&Candidates::new(&all, None))) > IN_PLACE);
    let maker = busy(&service);
    let mut chain = vec![held(&all, None)];
    for less in 1..40 {
        let next = held(&all[less..], chain.last());
        chain.push(next);
    }
    drop(maker);
    made(chain.last().unwrap()).await;
    assert!(chain[..39].iter().all(|kept| !kept.0.is_made()), "one of 40 is made");
    // The list goes back to what has a table: nothing is left to make.
    let maker = busy(&service);
    let detour = held(&all, chain.last());
    let back = held(&all[39..], Some(&detour));
    assert!(back.0.is_made() && !detour.0.is_made());
    drop(maker);
    let (send, done) = tokio::sync::oneshot::channel();
    service.behind(&tokio::runtime::Handle::current(), Box::new(move || _ = send.send(())));
    done.await.unwrap();
    assert!(!detour.0.is_made());
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

#[tokio::test]
async fn lbs_equal_sets_of_a_list_have_one_table_and_others_do_not_take_it_away() {
    let service = service(true);
    let all = states(&service, 0..2_000);
    let publishing = Publishing::new();
    let (whole, root) = (held_within(&publishing, &all, None), held_within(&publishing, &all, None));
    assert!(Arc::ptr_eq(&whole.0.lineage(), &root.0.lineage()));
    made(&root).await;
    assert!(whole.0.is_made());
    // The next list has stages that part them, and both come after the one: each gets its table.
    let publishing = Publishing::new();
    let whole = held_within(&publishing, &all[1..], Some(&whole));
    let part = held_within(&publishing, &all[500..], Some(&root));
    assert!(!Arc::ptr_eq(&whole.0.lineage(), &part.0.lineage()));
    made(&whole).await;
    made(&part).await;
}

#[tokio::test]
async fn lbs_many_groups_do_not_hold_up_who_publishes() {
    let service = service(true);
    let (publishing, maker) = (Publishing::new(), busy(&service));
    let groups: Vec<Kept> =
        (0..20).map(|at| held_within(&publishing, &states(&service, at * 5..at * 5 + 5), None)).collect();
    // 65 537 entries each, and 400 000 in all.
    assert_eq!(groups.iter().filter(|group| group.0.is_made()).count(), 6);
    drop(maker);
    for group in &groups {
        made(group).await;
    }
    let alone = held_within(&publishing, &states(&service, 900..901), None);
    assert!(
        alone.0.is_made() && alone.0.find(7, |_| true) == Some(0) && alone.0.find(7, |_| false).is_none()
    );
}
