//! Who is picked: rotations, weights, retries. Numbers of cases are those of the catalogue of known faults; `scl_` those
//! of the conformance sheet of Spring's load balancer.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel::config::CacheProperties;
use evenkeel::policy::{HashKey, LeastRequest, Maglev, Policy, RandomPick, Rendezvous, RoundRobin};
use evenkeel::supplier::{FixedSupplier, MetadataRoute, WeightsStage};
use evenkeel::{
    ChooseErrorKind, Failure, LoadBalancer, Outcome, Reason, Request, ServiceId, ServiceInstance,
    SupplierBuilder, Tried,
};
use support::*;

fn same(chain: SupplierBuilder) -> SupplierBuilder {
    chain
}

fn starting_at(seed: i32, instances: Vec<ServiceInstance>) -> LoadBalancer {
    fixed(instances, same, RoundRobin::starting_at(seed))
}

/// Every policy, with what it allows a share of `n` picks to be off.
fn policies(n: usize) -> [(std::sync::Arc<dyn Policy>, usize); 5] {
    // Six standard deviations of the widest binomial, which no seed here comes near.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // small
    let chance = (3.0 * (n as f64).sqrt()) as usize;
    [
        (std::sync::Arc::new(RoundRobin::default()), 1),
        (std::sync::Arc::new(RandomPick), chance),
        (std::sync::Arc::new(LeastRequest), chance),
        // Requests without a key go by chance.
        (std::sync::Arc::new(Maglev::new(HashKey::default())), chance),
        (std::sync::Arc::new(Rendezvous::new(HashKey::default())), chance),
    ]
}

fn with_policy(chain: SupplierBuilder, policy: &std::sync::Arc<dyn Policy>) -> LoadBalancer {
    LoadBalancer::builder(chain.build().unwrap()).policy_arc(std::sync::Arc::clone(policy)).build()
}

/// Three of a hundred are in use: one behind a row of 48, one behind a row of 49, and one behind nobody.
#[tokio::test(start_paused = true)]
async fn who_stands_behind_a_long_row_of_unfit_ones_has_a_share_like_the_others() {
    use std::sync::Arc;

    use evenkeel::policy::{AvailabilityFiltering, PeakEwma};
    let names: Vec<String> = (0..100).map(|at| format!("i{at}")).collect();
    let policies: [Arc<dyn Policy>; 5] = [
        Arc::new(RandomPick),
        Arc::new(RoundRobin::default()),
        Arc::new(LeastRequest),
        Arc::new(PeakEwma::default()),
        Arc::new(AvailabilityFiltering::default().with_active_limit(5)),
    ];
    let kept = ["i50", "i99", "i0"];
    for policy in policies {
        let chain = SupplierBuilder::new("orders").with_instances(list(&names.join(" "))).with_seed(7);
        let lb = with_policy(chain, &policy);
        let mut out = 0;
        while out < 97 {
            let choice = lb.choose(&Request::EMPTY).await.unwrap();
            let skips = !kept.contains(&choice.instance().id());
            out += usize::from(skips);
            choice.complete(if skips { Outcome::Failure(Failure::Connect) } else { Outcome::Success });
        }
        let picked = picks(&lb, 9_000).await;
        for id in kept {
            let count = count(&picked, id);
            assert!((2_650..=3_350).contains(&count), "{}: {count} of 9000 to {id}", policy.name());
        }
    }
}

fn weighted(list: Vec<ServiceInstance>) -> SupplierBuilder {
    SupplierBuilder::new("orders").with_base(FixedSupplier::new(orders(), list)).with_seed(7).with_weights()
}

// -------------------------------------------------------------------------------------- Spring's conformance sheet

const TEN: &str = "0 1 2 3 4 5 6 7 8 9";

#[tokio::test(start_paused = true)]
async fn scl_001_the_first_index_is_behind_the_seed() {
    assert_eq!(picks(&starting_at(0, list(TEN)), 10).await.concat(), "1234567890");
}

#[tokio::test(start_paused = true)]
async fn scl_002_the_smallest_seed_keeps_the_order() {
    assert_eq!(picks(&starting_at(i32::MIN, list(TEN)), 10).await.concat(), "1234567890");
}

#[tokio::test(start_paused = true)]
async fn scl_003_the_largest_seed_wraps_without_repeating_or_skipping() {
    assert_eq!(picks(&starting_at(i32::MAX, list(TEN)), 10).await.concat(), "0123456789");
}

#[tokio::test(start_paused = true)]
async fn scl_004_the_law_for_any_seed_and_step() {
    for seed in [i32::MIN, i32::MIN + 1, -4, -1, 0, 1, 6, 123_456_789, i32::MAX - 5, i32::MAX - 1, i32::MAX] {
        for size in [2_usize, 3, 7, 10] {
            let lb = starting_at(seed, list(TEN).split_off(10 - size));
            for step in 0..12 {
                let position = seed.wrapping_add(1).wrapping_add(step) & i32::MAX;
                let index = usize::try_from(position).unwrap() % size + 10 - size;
                assert_eq!(pick(&lb).await, index.to_string(), "seed {seed}, size {size}, step {step}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn scl_005_a_list_of_one_does_not_move_the_counter() {
    let live = Live::new(list("a"));
    let lb = over(chain(live.source()), RoundRobin::starting_at(0));
    assert_eq!(picks(&lb, 2).await.concat(), "aa");
    live.set(list("a b c")).await;
    assert_eq!(picks(&lb, 4).await.concat(), "bcab", "as if it were the first pick with seed 0");
}

#[tokio::test(start_paused = true)]
async fn scl_008_static_hosts_in_their_order_with_their_secure_flags() {
    let host = |id: &str, secure| instance(id).to_builder().secure(secure).build().unwrap();
    let lb = starting_at(-1, vec![host("a", false), host("c", false), host("b-secure", true)]);
    let mut seen = Vec::new();
    for _ in 0..4 {
        let instance = lb.choose(&Request::EMPTY).await.unwrap().instance();
        seen.push((instance.id().to_owned(), instance.secure() == Some(true)));
    }
    let expected = [("a", false), ("c", false), ("b-secure", true), ("a", false)];
    assert_eq!(seen, expected.map(|(id, secure)| (id.to_owned(), secure)));
}

#[tokio::test(start_paused = true)]
async fn scl_010_a_fixed_list_of_two() {
    assert_eq!(picks(&starting_at(-1, list("first second")), 2).await, ["first", "second"]);
}

// scl_011, a balancer of one's own reads the hint, is in `chains.rs` with the other parts of third parties.

// ------------------------------------------------------------------------------------------------ weights: 006..008

#[tokio::test(start_paused = true)]
async fn case_006_weight_0_drains_under_every_policy() {
    for (policy, within) in policies(1_000) {
        for (pairs, all) in [("a=0 b=1", "b"), ("a=1 b=0", "a")] {
            let lb = with_policy(weighted(with("weight", pairs)), &policy);
            even(&picks(&lb, 1_000).await, all, 1_000, 0);
            // Weights off: the share is gone, the drain is not.
            let chain = weighted(with("weight", pairs)).with_weights_stage(WeightsStage::off());
            even(&picks(&with_policy(chain, &policy), 1_000).await, all, 1_000, 0);
        }
        let lb = with_policy(weighted(with("weight", "a=0 b=3 c=0 d=1")), &policy);
        let counts = tally(&picks(&lb, 1_000).await);
        assert_eq!(counts.keys().collect::<Vec<_>>(), ["b", "d"], "{}", policy.name());
        assert!(counts["b"].abs_diff(750) <= within, "{}: {counts:?}", policy.name());
    }
}

#[tokio::test(start_paused = true)]
async fn case_006_all_drained_is_one_typed_error_for_every_policy_and_every_call() {
    let mut texts = Vec::new();
    for (policy, _) in policies(1) {
        let lb = with_policy(weighted(with("weight", "a=0 b=0")), &policy);
        for _ in 0..10 {
            let error = lb.choose(&Request::EMPTY).await.unwrap_err();
            let ChooseErrorKind::NoInstances { reason, known, .. } = error.kind() else { panic!("{error}") };
            assert_eq!((*reason, *known), (Reason::AllDrained, 2));
            texts.push(error.to_string());
        }
    }
    let text =
        "no instance of service \"orders\" to choose: all are drained (weight 0) (2 known, list 0.0 s old)";
    assert_eq!(texts, vec![text; 10 * policies(1).len()]);
}

#[tokio::test(start_paused = true)]
async fn case_006_a_drained_instance_comes_back_with_the_next_list() {
    for (policy, _) in policies(1) {
        let live = Live::new(with("weight", "a=0 b=1"));
        let lb = with_policy(chain(live.source()).with_weights(), &policy);
        even(&picks(&lb, 100).await, "b", 100, 0);
        live.set(with("weight", "a=1 b=1")).await;
        let counts = tally(&picks(&lb, 1_000).await);
        assert!(counts["a"].abs_diff(500) <= 95, "{}: {counts:?}", policy.name());
    }
}

#[tokio::test(start_paused = true)]
async fn case_007_weighted_turns_come_without_bursts() {
    let lb = with_policy(weighted(with("weight", "a=1 b=2 c=3")), &policies(1)[0].0);
    let all = picks(&lb, 600).await;
    for window in all.windows(6) {
        assert_eq!(["a", "b", "c"].map(|id| count(window, id)), [1, 2, 3], "{window:?}");
    }
    assert!(all.windows(2).all(|two| two != ["c", "c"]), "c comes twice in a row");

    let lb = with_policy(weighted(with("weight", "a=5 b=1 c=1")), &policies(1)[0].0);
    let all = picks(&lb, 700).await;
    for window in all.windows(7) {
        assert_eq!(["a", "b", "c"].map(|id| count(window, id)), [5, 1, 1], "{window:?}");
    }
    let longest = all.split(|id| id != "a").map(<[String]>::len).max().unwrap();
    assert!(longest <= 4, "{longest} picks of a in a row");

    let lb = with_policy(weighted(with("weight", "a=3 b=3 c=3")), &policies(1)[0].0);
    let all = picks(&lb, 300).await;
    assert!(all.windows(4).all(|four| four[0] == four[3]), "equal weights rotate plainly");
    even(&all, "a b c", 100, 0);
}

#[tokio::test(start_paused = true)]
async fn case_007_a_list_that_is_republished_keeps_the_order() {
    // Metadata of one instance change with every pick: the set and its weights do not.
    let live = Live::new(with("weight", "a=5 b=1 c=1"));
    let lb = with_policy(chain(live.source()).with_weights(), &policies(1)[0].0);
    let mut all = Vec::new();
    for n in 0..700 {
        let mut list = with("weight", "a=5 b=1 c=1");
        list[0] = list[0].to_builder().with_metadata("build", n.to_string()).build().unwrap();
        live.set(list).await;
        all.push(pick(&lb).await);
    }
    for window in all.windows(7) {
        assert_eq!(["a", "b", "c"].map(|id| count(window, id)), [5, 1, 1], "{window:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn case_007_nobody_starves_while_the_list_flaps_under_weights() {
    // As a table of turns, and as a stride, whose period is too long to write out.
    for [a, b, other] in [["5", "1", "1"], ["5000.003", "1000.001", "1000"]] {
        let live = Live::new(list("a"));
        let lb = with_policy(chain(live.source()).with_weights(), &policies(1)[0].0);
        let mut all = Vec::new();
        for n in 0..1_400 {
            let d = if n % 2 == 0 { format!("d={other}") } else { String::new() };
            live.set(with("weight", &format!("a={a} b={b} c={other} {d}"))).await;
            all.push(pick(&lb).await);
        }
        let counts = tally(&all);
        // By weight: a 5/7 and 5/8 in turn, b and c 1/7 and 1/8, d 0 and 1/8.
        for (id, expected) in [("a", 937), ("b", 188), ("c", 188), ("d", 88)] {
            let got = counts.get(id).copied().unwrap_or_default();
            assert!(got.abs_diff(expected) <= expected / 2, "{id}: {counts:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn case_008_hostile_weights_cost_nobody_his_share() {
    for (policy, _) in policies(1) {
        for (text, share, warnings) in [
            (None, 1.0, 0),
            (Some(""), 1.0, 1),
            (Some("abc"), 1.0, 1),
            (Some("1.5"), 1.5, 0),
            (Some("0.004"), 0.004, 0),
            (Some("-3"), 1.0, 1),
            (Some("NaN"), 1.0, 1),
            (Some("inf"), 1.0, 1),
            (Some("99999999999999999999"), 1.0, 1),
            (Some(" 2 "), 2.0, 0),
        ] {
            let x = instance("x").to_builder();
            let x = match text {
                Some(text) => x.with_metadata("weight", text),
                None => x,
            };
            let live = Live::new(vec![instance("ok"), x.build().unwrap()]);
            let log = Log::default();
            let _guard = log.capture();
            let lb = with_policy(chain(live.source()).with_weights(), &policy);
            let start = std::time::Instant::now();
            pick(&lb).await;
            let first = start.elapsed();
            assert!(first < Duration::from_millis(100), "{text:?}: the first pick took {first:?}");
            let all = picks(&lb, 2_000).await;
            let expected = 2_000.0 * share / (1.0 + share);
            let got = f64::from(u32::try_from(count(&all, "x")).unwrap());
            let off = (got - expected).abs();
            assert!(off <= 134.0 && (policy.name() != "round-robin" || off <= 2.0), "{text:?}: {got} of x");
            // Once for the instance: not for each pick, and not for each list.
            live.set(vec![instance("third"), instance("ok"), live_x(text)]).await;
            pick(&lb).await;
            assert_eq!(log.count("it counts as 1"), warnings, "{text:?}: {}", log.text());
        }
    }
}

fn live_x(text: Option<&str>) -> ServiceInstance {
    let x = instance("x").to_builder();
    text.map_or(x.clone(), |text| x.with_metadata("weight", text)).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn case_008_large_weights_neither_overflow_nor_cost_time() {
    for (policy, _) in policies(1) {
        let first = |list: Vec<ServiceInstance>| {
            let policy = std::sync::Arc::clone(&policy);
            async move {
                let start = std::time::Instant::now();
                let lb = with_policy(weighted(list), &policy);
                pick(&lb).await;
                let took = start.elapsed();
                assert!(took < Duration::from_millis(100), "{}: first pick after {took:?}", policy.name());
                lb
            }
        };
        let lb = first(with("weight", "u=4294967295 v=4294967295")).await;
        let counts = tally(&picks(&lb, 2_000).await);
        // 3 % of all picks.
        assert!(counts["u"].abs_diff(1_000) <= 60, "{}: {counts:?}", policy.name());
        let lb = first(with("weight", "w=1000000000 y=1")).await;
        assert!(count(&picks(&lb, 2_000).await, "y") <= 1, "{}", policy.name());
        let pairs: Vec<String> = (0..200).map(|n| format!("n{n}=4294967295")).collect();
        let lb = first(with("weight", &pairs.join(" "))).await;
        let counts = tally(&picks(&lb, 2_000).await);
        assert!(counts.values().all(|n| *n < 40), "{}: {counts:?}", policy.name());
        assert!(policy.name() != "round-robin" || counts.values().all(|n| *n == 10), "{counts:?}");
    }
}

// --------------------------------------------------------------------------------------------- rotations: 028..030

#[tokio::test(start_paused = true)]
async fn case_028_balancers_do_not_all_start_at_the_first_instance() {
    for services in [1, 200] {
        let mut first = Vec::new();
        for n in 0..200 {
            let service = ServiceId::new(format!("s{}", n % services)).unwrap();
            let base = FixedSupplier::new(service.clone(), list("a b c d"));
            // No seed: the default construction.
            let supplier = SupplierBuilder::new(&service).with_base(base).build().unwrap();
            first.push(pick(&LoadBalancer::builder(supplier).build()).await);
        }
        even(&first, "a b c d", 50, 30);
    }
}

#[tokio::test(start_paused = true)]
async fn case_028_a_seed_repeats_and_the_rotation_behind_the_start_is_strict() {
    let sequence = |seed: u64| async move {
        let base = FixedSupplier::new(orders(), list("a b c d"));
        let supplier = SupplierBuilder::new("orders").with_base(base).with_seed(seed).build().unwrap();
        picks(&LoadBalancer::builder(supplier).build(), 40).await
    };
    let mut starts = BTreeMap::new();
    for seed in 0..20 {
        let all = sequence(seed).await;
        assert_eq!(all, sequence(seed).await, "seed {seed}");
        let circle = all.concat();
        assert!("abcd".repeat(11).contains(&circle), "seed {seed}: {circle}");
        *starts.entry(all[0].clone()).or_insert(0) += 1;
    }
    assert_eq!(starts.len(), 4, "seeds start everywhere: {starts:?}");
}

#[tokio::test(start_paused = true)]
async fn case_029_the_wrap_of_the_position_is_harmless_for_every_size() {
    for size in [2, 3, 5, 7] {
        let lb = starting_at(i32::MAX - 2, list(TEN).split_off(10 - size));
        let counts = tally(&picks(&lb, 10).await);
        let (most, least) = (counts.values().max().unwrap(), counts.values().min().unwrap());
        assert!(counts.len() == size && most - least <= 2, "{size} instances: {counts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn case_029_a_list_that_shrinks_and_grows_at_the_wrap_is_never_left() {
    let live = Live::new(list("a b c d e f g"));
    let lb = over(chain(live.source()), RoundRobin::starting_at(i32::MAX - 2));
    let mut all = picks(&lb, 5).await;
    live.set(list("a b c")).await;
    let three = picks(&lb, 5).await;
    assert!(three.iter().all(|id| "abc".contains(id.as_str())), "{three:?}");
    even(&picks(&lb, 30).await, "a b c", 10, 0);
    live.set(list("a b c d e f g")).await;
    all = [all, picks(&lb, 70).await].concat();
    assert!(tally(&all[5..]).values().all(|n| *n == 10), "{:?}", tally(&all[5..]));
}

#[test]
fn case_029_eight_threads_at_the_wrap() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let lb = starting_at(i32::MAX - 400, list("a b c d e f g"));
    runtime.block_on(lb.ready()).unwrap();
    let one = || -> Vec<String> {
        (0..700).map(|_| lb.try_choose(&Request::EMPTY).unwrap().instance().id().to_owned()).collect()
    };
    let all: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    // 2^31 is no multiple of 7: the wrap itself may cost or give one turn.
    even(&all, "a b c d e f g", 800, 2);
}

/// One pick every 5 s for 150 s against a list that is refreshed every 2 s.
async fn low_traffic(
    answer: impl Fn(usize, f64) -> Vec<ServiceInstance> + Send + Sync + 'static,
) -> (Vec<String>, u64) {
    let start = tokio::time::Instant::now();
    let answer = std::sync::Arc::new(answer);
    let source = Pull::new(move |n| {
        let answer = std::sync::Arc::clone(&answer);
        async move { Ok(answer(n, start.elapsed().as_secs_f64())) }
    });
    let cache =
        CacheProperties::default().with_ttl(Duration::from_secs(2)).with_hard_age(Duration::from_secs(600));
    let lb = over(chain(source.clone()).with_caching(cache), RoundRobin::default());
    let mut all = Vec::new();
    for n in 0..30 {
        tokio::time::sleep_until(start + Duration::from_secs(5 * n)).await;
        all.push(pick(&lb).await);
        settle().await;
    }
    assert!(source.calls() >= 30, "{} look-ups", source.calls());
    (all, lb.snapshot().unwrap().version())
}

#[tokio::test(start_paused = true)]
async fn case_030_a_refresh_with_an_equal_list_does_not_reset_the_rotation() {
    let (all, version) = low_traffic(|_, _| list("a b c")).await;
    even(&all, "a b c", 10, 0);
    assert_eq!(version, 1, "an equal list is no change");
}

#[tokio::test(start_paused = true)]
async fn case_030_a_reordered_list_is_no_change() {
    let (all, version) = low_traffic(|n, _| {
        let mut list = list("a b c");
        list.rotate_left(n % 3);
        list.swap(0, n % 2);
        list
    })
    .await;
    even(&all, "a b c", 10, 0);
    assert_eq!(version, 1);
}

#[tokio::test(start_paused = true)]
async fn case_030_one_that_joins_does_not_send_the_rotation_back() {
    let (all, version) = low_traffic(|_, t| list(if t < 75.0 { "a b c" } else { "a b c d" })).await;
    even(&all[..15], "a b c", 5, 0);
    let late = tally(&all[15..]);
    assert_eq!(late.len(), 4, "{late:?}");
    assert!(late.values().all(|n| (3..=5).contains(n)), "{late:?}");
    assert!(all[15..].windows(2).all(|two| two[0] != two[1]), "{all:?}");
    assert_eq!(version, 2);
}

/// Flaps between two lists, `changes` times before each of 1 000 picks.
async fn flapping(changes: usize) -> Vec<String> {
    let live = Live::new(list("a b c"));
    let lb = over(chain(live.source()), RoundRobin::default());
    pick(&lb).await;
    let mut all = Vec::new();
    let mut four = false;
    for _ in 0..1_000 {
        for _ in 0..changes {
            four = !four;
            live.set(list(if four { "a b c d" } else { "a b c" })).await;
        }
        all.push(pick(&lb).await);
    }
    all
}

#[tokio::test(start_paused = true)]
async fn case_030_a_list_that_flaps_at_every_pick_keeps_the_shares() {
    even(&flapping(1).await, "a b c d", 250, 5);
}

#[tokio::test(start_paused = true)]
async fn case_030_changes_without_a_pick_between_them_move_nothing() {
    // Two changes: every pick sees the list of three. Three: as with one. Each list is seen by nobody in between.
    even(&flapping(2).await, "a b c", 333, 5);
    even(&flapping(3).await, "a b c d", 250, 5);
}

#[tokio::test(start_paused = true)]
async fn case_030_one_that_leaves_and_returns_between_two_picks_loses_no_turn() {
    let live = Live::new(list("a b c d"));
    let lb = over(chain(live.source()), RoundRobin::default());
    let mut all = Vec::new();
    for n in 0..1_000 {
        all.push(pick(&lb).await);
        live.set(list(["b c d", "a c d", "a b d", "a b c"][n % 4])).await;
        live.set(list("a b c d")).await;
    }
    let circle = all.concat();
    assert!("abcd".repeat(251).contains(&circle), "{circle}");
}

// ------------------------------------------------------------------------------------------------ groups and retries

fn coloured() -> Vec<ServiceInstance> {
    with("hint", "b1=blue b2=blue b3=blue b4=blue g1=green g2=green g3=green g4=green")
}

#[tokio::test(start_paused = true)]
async fn each_group_has_a_rotation_of_its_own() {
    let lb = fixed(coloured(), SupplierBuilder::with_hints, RoundRobin::default());
    let mut all = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..100 {
        all[0].push(pick_for(&lb, &Request::EMPTY.with_hint("blue")).await);
        all[1].push(pick_for(&lb, &Request::EMPTY.with_hint("green")).await);
        all[2].push(pick(&lb).await);
    }
    for (picks, circle) in all.iter().zip(["b1b2b3b4", "g1g2g3g4", "b1b2b3b4g1g2g3g4"]) {
        assert!(circle.repeat(52).contains(&picks.concat()), "{picks:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn retries_turn_a_wheel_of_their_own() {
    let lb = fixed(list("a b c d"), same, RoundRobin::default());
    let (mut first, mut second) = (String::new(), Vec::new());
    for _ in 0..4_000 {
        let mut tried = Tried::new();
        let choice = lb.choose(&Request::EMPTY).await.unwrap();
        tried.add(&choice);
        let id = choice.instance().id().to_owned();
        choice.complete(Outcome::Status(503));
        let next = pick_for(&lb, &Request::EMPTY.with_tried(&tried)).await;
        assert_ne!(next, id, "it was tried");
        first.push_str(&id);
        second.push(next);
    }
    assert!("abcd".repeat(1_001).contains(&first), "first attempts rotate undisturbed");
    even(&second, "a b c d", 1_000, 10);
}

#[tokio::test(start_paused = true)]
async fn the_share_of_an_instance_that_fails_is_spread_over_all_others() {
    for (policy, within) in policies(4_000) {
        let lb = with_policy(chain(Live::new(list("a b c d")).source()), &policy);
        let mut good = Vec::new();
        for _ in 0..4_000 {
            let choice = lb.choose(&Request::EMPTY).await.unwrap();
            let id = choice.instance().id().to_owned();
            if id == "a" {
                let mut tried = Tried::new();
                tried.add(&choice);
                choice.complete(Outcome::Status(503));
                good.push(pick_for(&lb, &Request::EMPTY.with_tried(&tried)).await);
            } else {
                good.push(id);
            }
        }
        // 1 % for the rotation; chance for the others.
        even(
            &good,
            "b c d",
            1_333,
            within.max(13).min(if policy.name() == "round-robin" { 13 } else { 200 }),
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_neighbour_of_a_skipped_instance_does_not_inherit_its_share() {
    for (policy, within) in policies(3_999) {
        let lb = with_policy(chain(Live::new(list("a b c d")).source()), &policy);
        loop {
            let choice = lb.choose(&Request::EMPTY).await.unwrap();
            if choice.instance().id() == "a" {
                choice.complete(Outcome::Failure(Failure::Connect));
                break;
            }
        }
        even(&picks(&lb, 3_999).await, "b c d", 1_333, within.max(13));
    }
}

/// `a` blue in the own zone, `b` blue elsewhere, `c` and `d` of another colour; all of version 1 but `d`.
fn tiers() -> Vec<ServiceInstance> {
    [("a", "blue", "z1", "1"), ("b", "blue", "z2", "1"), ("c", "green", "z1", "1"), ("d", "green", "z2", "2")]
        .map(|(id, hint, zone, version)| {
            let builder = instance(id).to_builder().zone(zone).with_metadata("hint", hint);
            builder.with_metadata("version", version).build().unwrap()
        })
        .into()
}

/// The ids that a call gets if every attempt fails.
async fn attempts(lb: &LoadBalancer, request: Request<'_>, n: usize) -> String {
    let (mut tried, mut ids) = (Tried::new(), String::new());
    for _ in 0..n {
        let choice = lb.choose(&request.with_tried(&tried)).await.unwrap();
        ids.push_str(choice.instance().id());
        tried.add(&choice);
        choice.complete(Outcome::Status(503));
    }
    ids
}

#[tokio::test(start_paused = true)]
async fn a_call_that_tried_all_of_its_group_widens_step_by_step() {
    for (policy, _) in policies(1) {
        let chain = chain(Live::new(tiers()).source()).with_hints().with_zone_preference("z1");
        let lb = with_policy(chain, &policy);
        for _ in 0..20 {
            let ids = attempts(&lb, Request::EMPTY.with_hint("blue"), 6).await;
            // The group in the zone, the whole group, the whole list, and then the group in the zone again.
            assert!(["abcdaa", "abdcaa"].contains(&&*ids), "{}: {ids}", policy.name());
            let ids = attempts(&lb, Request::EMPTY, 5).await;
            let [own, other] = [&ids[..2], &ids[2..4]];
            assert!(["ac", "ca"].contains(&own) && ["bd", "db"].contains(&other), "{}: {ids}", policy.name());
            assert!(["a", "c"].contains(&&ids[4..]), "{}: {ids}", policy.name());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_strict_group_is_never_left() {
    for (policy, _) in policies(1) {
        let route = MetadataRoute::by("version").header("x-version").or_nothing(true);
        let chain = chain(Live::new(tiers()).source()).with_metadata_route(route).with_zone_preference("z1");
        let lb = with_policy(chain, &policy);
        for (version, expected) in [("2", "ddddd"), ("1", "")] {
            let http = http::Request::builder().header("x-version", version).body(()).unwrap();
            let view = evenkeel::HttpView::of(&http);
            for _ in 0..10 {
                let ids = attempts(&lb, Request::of(&view), 5).await;
                if expected.is_empty() {
                    // Version 1: a and c in the zone, then b outside of it, then the zone again; never d.
                    assert!(
                        ["ac", "ca"].contains(&&ids[..2]) && &ids[2..3] == "b",
                        "{}: {ids}",
                        policy.name()
                    );
                    assert!(!ids.contains('d'), "{}: {ids}", policy.name());
                } else {
                    assert_eq!(ids, expected, "{}", policy.name());
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_skipped_instance_is_better_than_one_that_was_tried() {
    let lb = fixed(list("a b"), same, RoundRobin::starting_at(-1));
    let a = lb.choose(&Request::EMPTY).await.unwrap();
    assert_eq!(a.instance().id(), "a");
    a.complete(Outcome::Failure(Failure::Connect));
    let mut tried = Tried::new();
    let b = lb.choose(&Request::EMPTY).await.unwrap();
    assert_eq!(b.instance().id(), "b");
    tried.add(&b);
    assert_eq!(pick_for(&lb, &Request::EMPTY.with_tried(&tried)).await, "a");
}
