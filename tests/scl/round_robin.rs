//! 3.1 Round robin: cases 1 to 16. Cases 1 to 6, 8, 10 and 11 are in `tests/policies.rs` and `tests/chains.rs`, 9 is in
//! `tests/addressing.rs`.
#![allow(clippy::unnecessary_literal_bound)] // as the trait writes it, and as its implementors do

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use evenkeel::discovery::{Lists, SupplyErrorKind};
use evenkeel::policy::{Candidates, PickCx, Picker, Policy, RoundRobin};
use evenkeel::supplier::{Groups, RequestStage, Selection};
use evenkeel::{
    ChooseErrorKind, ChooseExt, LoadBalancers, Request, ServiceId, ServiceInstance,
    ServiceInstanceListSupplier, SupplierBuilder,
};
use futures_util::stream;

use crate::support::*;

/// A stage that wants to hear what was picked.
#[derive(Clone, Debug, Default)]
pub struct Hears(Arc<Mutex<Vec<ServiceInstance>>>);

impl Hears {
    pub fn heard(&self) -> Vec<ServiceInstance> {
        self.0.lock().unwrap().clone()
    }
}

impl RequestStage for Hears {
    fn name(&self) -> &str {
        "hears"
    }
    fn groups(&self, _: &ServiceInstance, _: &mut dyn FnMut(&str)) {}
    fn select(&self, _: &Request<'_>, _: &Groups) -> Selection {
        Selection::All
    }
    fn wants_picks(&self) -> bool {
        true
    }
    fn on_pick(&self, _: &Request<'_>, instance: &ServiceInstance) {
        self.0.lock().unwrap().push(instance.clone());
    }
}

#[tokio::test(start_paused = true)]
async fn scl_007_a_stage_is_told_exactly_the_instance_that_was_picked() {
    let hears = Hears::default();
    let lb = fixed(list("a"), |chain| chain.with_request_stage(hears.clone()), RoundRobin::default());
    let chosen = lb.choose(&Request::EMPTY).await.unwrap().instance();
    assert_eq!(hears.heard(), [chosen]);
    assert_eq!(hears.heard()[0].id(), "a");
}

/// Takes the last instance, whatever was picked before.
#[derive(Debug)]
struct Last;

impl Policy for Last {
    fn name(&self) -> Cow<'static, str> {
        "last".into()
    }
    fn picker(&self, _: &Candidates<'_>) -> Box<dyn Picker> {
        Box::new(Self)
    }
}

impl Picker for Last {
    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        (0..cx.len()).rev().find(|at| cx.fits(*at))
    }
}

#[tokio::test(start_paused = true)]
async fn scl_012_each_service_has_a_round_robin_unless_another_policy_is_configured_for_it() {
    let registry = Pull::always("a b c", std::time::Duration::ZERO);
    let balancers = LoadBalancers::builder(registry).service("own", |own| own.policy(Last)).build().unwrap();
    let plain = picks(&balancers.get("plain").unwrap(), 9).await.concat();
    assert!("abc".repeat(4).contains(&plain), "{plain}");
    assert_eq!(picks(&balancers.get("own").unwrap(), 9).await.concat(), "ccccccccc");
}

/// Streams that end without a list; of the second kind, which must not be asked again behind its end.
#[derive(Debug)]
struct Nothing {
    service: ServiceId,
    once: bool,
}

impl ServiceInstanceListSupplier for Nothing {
    fn service_id(&self) -> &ServiceId {
        &self.service
    }
    fn get(&self) -> Lists {
        if self.once { Box::pin(stream::unfold((), |()| async { None })) } else { Box::pin(stream::empty()) }
    }
}

#[tokio::test(start_paused = true)]
async fn scl_013_a_stream_that_ends_without_a_list_is_a_typed_error() {
    for once in [false, true] {
        let base = Nothing { service: orders(), once };
        let lb = over(SupplierBuilder::new("orders").with_base(base), RoundRobin::default());
        let error = lb.choose(&Request::EMPTY).await.unwrap_err();
        let ChooseErrorKind::Supply(why) = error.kind() else { panic!("{error}") };
        assert_eq!(why.kind(), SupplyErrorKind::Ended, "{error}");
        assert_eq!(error.service(), &orders());
    }
}

#[tokio::test(start_paused = true)]
async fn scl_014_nothing_is_picked_before_a_choose_is_awaited_and_then_anew_each_time() {
    let lb = fixed(list("a b c"), |chain| chain, RoundRobin::starting_at(-1));
    let request = Request::EMPTY;
    // Made in this order, and awaited in another; one is never awaited.
    let (never, third, first, second) =
        (lb.choose(&request), lb.choose(&request), lb.choose(&request), lb.choose(&request));
    let mut all = String::new();
    for choosing in [first, second, third] {
        all.push_str(choosing.await.unwrap().instance().id());
    }
    drop(never);
    assert_eq!(all, "abc");
    let dynamic: &dyn evenkeel::ReactiveLoadBalancer = &lb;
    assert_eq!(dynamic.choose(&request).await.unwrap().instance().id(), "a");
}

#[tokio::test(start_paused = true)]
async fn scl_015_candidate_sets_that_take_turns_are_each_spread_evenly() {
    let lb = fixed(
        with("hint", "a=one b=one x=two y=two z=two w=two"),
        SupplierBuilder::with_hints,
        RoundRobin::starting_at(-1),
    );
    let (mut one, mut two) = (String::new(), String::new());
    for _ in 0..8 {
        one += &pick_for(&lb, &Request::EMPTY.with_hint("one")).await;
        two += &pick_for(&lb, &Request::EMPTY.with_hint("two")).await;
    }
    assert_eq!((&*one, &*two), ("abababab", "xyzwxyzw"));
}

#[tokio::test(start_paused = true)]
async fn scl_016_a_list_that_shrinks_or_grows_goes_on_behind_the_last_pick() {
    let live = Live::new(list("a b c d e"));
    let lb = over(chain(live.source()), RoundRobin::starting_at(-1));
    assert_eq!(picks(&lb, 3).await.concat(), "abc");
    // Position 3 of four would be e.
    live.set(list("a c d e")).await;
    assert_eq!(picks(&lb, 3).await.concat(), "dea");
    live.set(list("a c d e f g")).await;
    assert_eq!(picks(&lb, 7).await.concat(), "cdefgac");
}
