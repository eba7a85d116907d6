//! 3.3 Weighted list and supplier: cases 21 to 39.
//!
//! Where Spring expands a list by weight, a policy here has an order of turns, made once per list. A multiplicity is then
//! how often an instance comes in one round of that order.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use evenkeel::policy::RoundRobin;
use evenkeel::supplier::WeightsStage;
use evenkeel::{
    ChooseErrorKind, LoadBalancer, Reason, Request, ServiceInstance, ServiceInstanceListSupplier,
    SupplierBuilder, Weight,
};
use futures_util::StreamExt;

use crate::support::*;

/// From the first turn on.
fn first_turn(instances: Vec<ServiceInstance>, weights: WeightsStage) -> LoadBalancer {
    fixed(instances, |chain| chain.with_weights_stage(weights), RoundRobin::starting_at(-1))
}

/// One round of `turns`, by id.
async fn round(pairs: &str, turns: usize) -> String {
    picks(&first_turn(with("weight", pairs), WeightsStage::on()), turns).await.concat()
}

fn counts(pairs: &[(&str, usize)]) -> BTreeMap<String, usize> {
    pairs.iter().map(|(id, n)| ((*id).to_owned(), *n)).collect()
}

/// Ten instances, the i-th of which has `unit` times 2 to the i.
fn powers_of_two(unit: u32) -> Vec<ServiceInstance> {
    let pairs: Vec<String> = (0..10).map(|n| format!("i{n}={}", unit << n)).collect();
    with("weight", &pairs.join(" "))
}

/// What one round of them holds.
fn of_one_round(rounds: usize) -> BTreeMap<String, usize> {
    (0..10).map(|n| (format!("i{n}"), rounds << n)).collect()
}

#[tokio::test(start_paused = true)]
async fn scl_021_a_round_is_as_long_as_the_weights_without_their_common_divisor() {
    let lb = first_turn(powers_of_two(100), WeightsStage::on());
    let all = picks(&lb, 2 * 1_023).await;
    assert_eq!(all[..1_023], all[1_023..], "the round repeats after 1023 turns");
    assert_eq!(tally(&all[..1_023]), of_one_round(1));
}

#[tokio::test(start_paused = true)]
async fn scl_022_nothing_is_made_before_the_first_caller_comes() {
    let source = Pull::new(|_| async { Ok(powers_of_two(100)) });
    let lb = over(chain(source.clone()).with_weights(), RoundRobin::default());
    advance(3_600.0).await;
    assert!(lb.snapshot().is_none());
    assert_eq!(source.calls(), 0);
    // Then once for the list: later turns find the same order.
    picks(&lb, 2_000).await;
    assert_eq!((source.calls(), lb.snapshot().unwrap().version()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn scl_023_the_last_turn_may_be_the_first_to_be_taken_and_none_is_missing() {
    let take = async |seed: i32, turns| {
        let policy = RoundRobin::starting_at(seed);
        let lb = fixed(powers_of_two(100), SupplierBuilder::with_weights, policy);
        picks(&lb, turns).await
    };
    let in_order = take(-1, 1_023).await;
    let last_first = take(1_021, 1_023).await;
    assert_eq!(last_first[0], in_order[1_022]);
    assert_eq!(last_first[1..], in_order[..1_022]);
    assert_eq!(tally(&last_first), of_one_round(1));
}

#[test]
fn scl_024_threads_that_take_turns_together_lose_and_double_none() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let lb = first_turn(powers_of_two(1), WeightsStage::on());
    runtime.block_on(lb.ready()).unwrap();
    let take = || {
        let one = |_| lb.try_choose(&Request::EMPTY).unwrap().instance().id().to_owned();
        (0..4 * 1_023).map(one).collect::<Vec<String>>()
    };
    let all: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(tally(&all), of_one_round(16));
}

#[tokio::test(start_paused = true)]
async fn scl_025_an_empty_list_stays_empty() {
    let chain = chain(Pull::always("", Duration::ZERO)).with_weights().build().unwrap();
    assert_eq!(chain.get().next().await.unwrap().unwrap(), []);
    let lb = LoadBalancer::builder(chain).build();
    let error = lb.choose(&Request::EMPTY).await.unwrap_err();
    assert!(matches!(error.kind(), ChooseErrorKind::NoInstances { reason: Reason::Empty, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn scl_026_weights_of_the_metadata_are_multiplicities() {
    let lb = first_turn(with("weight", "1=1 2=2 3=3"), WeightsStage::on());
    assert_eq!(tally(&picks(&lb, 6).await), counts(&[("1", 1), ("2", 2), ("3", 3)]));
}

#[tokio::test(start_paused = true)]
async fn scl_027_only_the_ratio_of_weights_counts() {
    let lb = first_turn(with("weight", "1=10 2=20 3=30"), WeightsStage::on());
    let all = picks(&lb, 12).await;
    assert_eq!(tally(&all[..6]), counts(&[("1", 1), ("2", 2), ("3", 3)]));
    assert_eq!(all[..6], all[6..]);
}

#[tokio::test(start_paused = true)]
async fn scl_028_an_instance_without_a_weight_has_1() {
    let mut instances = list("1 2");
    instances.extend(with("weight", "3=3"));
    let lb = first_turn(instances, WeightsStage::on());
    assert_eq!(tally(&picks(&lb, 5).await), counts(&[("1", 1), ("2", 1), ("3", 3)]));
}

#[tokio::test(start_paused = true)]
async fn scl_029_a_text_that_is_no_weight_is_1() {
    let lb = first_turn(with("weight", "1=Foo 2=Bar 3=Baz"), WeightsStage::on());
    assert_eq!(picks(&lb, 6).await.concat(), "123123");
}

#[tokio::test(start_paused = true)]
async fn scl_030_a_function_that_says_0_drains() {
    let zero = WeightsStage::on().with_function(|_| Some(Weight::ZERO));
    let lb = first_turn(list("1 2 3"), zero.clone());
    let error = lb.choose(&Request::EMPTY).await.unwrap_err();
    assert!(
        matches!(error.kind(), ChooseErrorKind::NoInstances { reason: Reason::AllDrained, known: 3, .. }),
        "{error}"
    );
    // `weight.zero: one` has it as Spring does.
    assert_eq!(picks(&first_turn(list("1 2 3"), zero.zero_as_one(true)), 6).await.concat(), "123123");
}

#[tokio::test(start_paused = true)]
async fn scl_031_a_function_whose_number_is_negative_says_nothing() {
    let negative = WeightsStage::on().with_function(|_| Weight::new(-1.0).ok());
    assert_eq!(picks(&first_turn(list("1 2 3"), negative), 6).await.concat(), "123123");
}

#[tokio::test(start_paused = true)]
async fn scl_032_a_function_that_panics_says_nothing() {
    let panics = WeightsStage::on().with_function(|_| panic!("on purpose"));
    assert_eq!(picks(&first_turn(list("1 2 3"), panics), 6).await.concat(), "123123");
}

#[tokio::test(start_paused = true)]
async fn scl_033_weights_hold_inside_what_the_request_asks_for() {
    let of = |id: &str, hint: &str| {
        let builder = instance(id).to_builder().with_metadata("hint", hint);
        builder.with_metadata("weight", id).build().unwrap()
    };
    let instances = vec![of("1", "yes"), of("2", "yes"), of("3", "no")];
    let lb = fixed(instances, |chain| chain.with_weights().with_hints(), RoundRobin::default());
    let mut all = Vec::new();
    for _ in 0..6 {
        all.push(pick_for(&lb, &Request::EMPTY.with_hint("yes")).await);
    }
    assert_eq!(tally(&all), counts(&[("1", 2), ("2", 4)]));
    assert_eq!(tally(&picks(&lb, 6).await), counts(&[("1", 1), ("2", 2), ("3", 3)]));
}

#[tokio::test(start_paused = true)]
async fn scl_034_the_order_of_turns_has_no_bursts() {
    for (pairs, order) in [
        ("A=1 B=2 C=3", "CBCBCA"),
        ("A=5 B=1 C=1", "ABAACAA"),
        ("A=2 B=3 C=5", "CBCACBCBCA"),
        ("A=4 B=2 C=1", "ABACABA"),
    ] {
        assert_eq!(round(pairs, 2 * order.len()).await, order.repeat(2), "{pairs}");
        // Nobody with at most half of the weight comes twice in a row, also from one round to the next.
        let seam = format!("{order}{}", &order[..1]);
        for id in ["A", "B", "C"].into_iter().filter(|id| 2 * order.matches(id).count() <= order.len()) {
            assert!(!seam.contains(&id.repeat(2)), "{id} in {seam}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn scl_035_of_0_minus_5_and_2_the_first_is_drained_and_the_second_is_1() {
    assert_eq!(tally(&picks(&first_turn(with("weight", "A=0 B=-5 C=2"), WeightsStage::on()), 6).await), {
        counts(&[("B", 2), ("C", 4)])
    });
    let as_spring = WeightsStage::on().zero_as_one(true);
    let lb = first_turn(with("weight", "A=0 B=-5 C=2"), as_spring);
    assert_eq!(tally(&picks(&lb, 4).await), counts(&[("A", 1), ("B", 1), ("C", 2)]));
}

#[tokio::test(start_paused = true)]
async fn scl_036_equal_weights_take_turns_and_one_alone_takes_all() {
    assert_eq!(round("A=3 B=3", 4).await, "ABAB");
    assert_eq!(round("A=7", 3).await, "AAA");
}

#[tokio::test(start_paused = true)]
async fn scl_037_the_largest_weights_are_served() {
    let lb = first_turn(with("weight", "A=2147483647 B=1"), WeightsStage::on());
    assert!(count(&picks(&lb, 5_000).await, "A") >= 4_999);
    let lb = first_turn(with("weight", "A=2147483647 B=2147483647"), WeightsStage::on());
    assert_eq!(picks(&lb, 4).await.concat(), "ABAB");
    let lb = first_turn(with("weight", "A=4294967295 B=4294967295"), WeightsStage::on());
    assert_eq!(picks(&lb, 4).await.concat(), "ABAB");
}

#[tokio::test(start_paused = true)]
async fn scl_038_a_weight_is_a_real_number_and_blanks_around_it_do_not_count() {
    // Beside one of 2, whose share tells the other's weight.
    for (text, own, other) in [
        (None, 1, 2),
        (Some(""), 1, 2),
        (Some("3.5"), 7, 4),
        (Some(" 3"), 3, 2),
        (Some("4294967296"), 1, 2),
        (Some("99999999999999999999"), 1, 2),
    ] {
        let x = instance("x").to_builder();
        let x = text.map_or(x.clone(), |text| x.with_metadata("weight", text)).build().unwrap();
        let two = instance("two").to_builder().with_metadata("weight", "2").build().unwrap();
        let lb = first_turn(vec![x, two], WeightsStage::on());
        let all = picks(&lb, 10 * (own + other)).await;
        assert_eq!(tally(&all), counts(&[("x", 10 * own), ("two", 10 * other)]), "{text:?}");
    }
}

/// That a pick allocates nothing, weighted or not, is tested in `tests/allocations.rs`.
#[tokio::test(start_paused = true)]
async fn scl_039_neither_a_list_nor_a_pick_costs_more_for_large_weights() {
    let pairs: Vec<String> = (0..200).map(|n| format!("n{n}=4294967295")).collect();
    let lb = first_turn(with("weight", &pairs.join(" ")), WeightsStage::on());
    // Expanded, this would be 6 TB of pointers.
    let start = Instant::now();
    let all = picks(&lb, 2_000).await;
    assert!(tally(&all).values().all(|n| *n == 10), "{:?}", tally(&all));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let heavy = first_turn(with("weight", "a=4294967295 b=4294967294 c=4294967291"), WeightsStage::on());
    even(&picks(&heavy, 3_000).await, "a b c", 1_000, 30);
}
