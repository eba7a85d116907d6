//! A list stage with events of its own: it asks its chain to run again, and the change is there at once.

mod support;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::policy::RoundRobin;
use evenkeel::supplier::{Hub, ListStage, Rank, StageCx};
use evenkeel::{Request, ServiceInstance, ServiceInstanceListSupplier};
use futures_util::StreamExt;
use support::*;

/// Takes instances out by id.
#[derive(Clone, Debug, Default)]
struct Switch {
    out: Arc<Mutex<HashSet<String>>>,
    hub: Arc<Mutex<Option<Hub>>>,
    rank: u16,
    again: bool,
}

impl Switch {
    fn set(&self, id: &str, out: bool) {
        if out {
            self.out.lock().unwrap().insert(id.to_owned());
        } else {
            self.out.lock().unwrap().remove(id);
        }
        let hub = self.hub.lock().unwrap().clone().unwrap();
        hub.recompute();
    }
}

impl ListStage for Switch {
    fn name(&self) -> &str {
        "switch"
    }
    fn rank(&self) -> Rank {
        if self.rank == 0 { Rank::Health } else { Rank::Custom(self.rank) }
    }
    fn apply(&self, list: &mut Vec<ServiceInstance>, _: &StageCx<'_>) {
        let out = self.out.lock().unwrap();
        assert!(!out.contains("panic"), "broken on purpose");
        list.retain(|instance| !out.contains(instance.id()));
        if self.again {
            // Asked from inside: it must come to an end, and not wait for itself.
            self.hub.lock().unwrap().as_ref().unwrap().idle_for();
        }
    }
    fn attach(&self, hub: &Hub) {
        *self.hub.lock().unwrap() = Some(hub.clone());
    }
}

#[tokio::test(start_paused = true)]
async fn a_verdict_changes_the_list_at_once_and_without_a_look_up() {
    for rank in [0, 1] {
        let source = Pull::always("a b c", Duration::ZERO);
        let switch = Switch { rank, again: true, ..Switch::default() };
        let lb = over(chain(source.clone()).with_list_stage(switch.clone()), RoundRobin::default());
        let _ = picks(&lb, 3).await;
        let held = lb.choose(&Request::EMPTY).await.unwrap();
        switch.set("b", true);
        assert_eq!(count(&picks(&lb, 100).await, "b"), 0);
        switch.set("b", false);
        let after = picks(&lb, 300).await;
        assert_eq!(["a", "b", "c"].map(|id| count(&after, id)), [100, 100, 100]);
        assert_eq!(source.calls(), 1);
        assert_eq!(lb.in_flight(), 1, "state outlives what a stage does");
        drop(held);
        // A stage that panics leaves the last list.
        switch.set("panic", true);
        assert_eq!(picks(&lb, 3).await.len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_lists_sees_it_too() {
    let switch = Switch::default();
    let supplier =
        chain(Pull::always("a b", Duration::ZERO)).with_list_stage(switch.clone()).build().unwrap();
    let mut lists = supplier.get();
    assert_eq!(lists.next().await.unwrap().unwrap(), named("a b"));
    switch.set("a", true);
    assert_eq!(lists.next().await.unwrap().unwrap(), named("b"));
}

fn named(ids: &str) -> Vec<ServiceInstance> {
    let orders = evenkeel::ServiceId::new("orders").unwrap();
    list(ids).iter().map(|i| i.to_builder().service_id(orders.clone()).build().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_stage_learns_whether_anybody_calls() {
    let switch = Switch::default();
    let lb =
        over(chain(Pull::always("a", Duration::ZERO)).with_list_stage(switch.clone()), RoundRobin::default());
    pick(&lb).await;
    let hub = switch.hub.lock().unwrap().clone().unwrap();
    hub.idle_for();
    advance(10.0).await;
    assert_eq!(hub.idle_for(), Some(Duration::from_secs(10)));
    pick(&lb).await;
    assert_eq!(hub.idle_for(), Some(Duration::ZERO));
    drop(lb);
    assert_eq!(hub.idle_for(), None);
}
