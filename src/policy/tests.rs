//! Pickers by themselves: a set of states, one pick at a time.

use std::sync::Arc;

use super::{
    Adaptive, AvailabilityFiltering, BestAvailable, Candidates, ClientSideWeightedRoundRobin, Cursor,
    DubboConsistentHash, HashKey, LeastActive, LeastRequest, Level, Maglev, POSITION_MASK, PeakEwma, PickCx,
    Picker, Pinned, Policy, RandomPick, Rendezvous, RingHash, RoundRobin, Rule, ShortestResponse,
    SmoothRoundRobin, WeightedResponseTime, ZoneAvoidance,
};
use crate::random::Random;
use crate::state::{Claim, InstanceState, ServiceState};
use crate::sync::Ordering;
use crate::{Failure, Outcome, Request, ServiceId, ServiceInstance, Tried, Weight};

/// A set to pick from without a balancer around it.
struct Set {
    inner: super::cx::Set,
    weights: Option<Vec<Weight>>,
    picker: Box<dyn Picker>,
    random: Random,
}

impl std::ops::Deref for Set {
    type Target = super::cx::Set;
    fn deref(&self) -> &super::cx::Set {
        &self.inner
    }
}

impl Set {
    fn new(policy: &dyn Policy, n: u16, weights: Option<&[f64]>) -> Self {
        let service = Arc::new(ServiceState::new(ServiceId::new("orders").unwrap()));
        let states: Box<[_]> = (1..=n)
            .map(|port| {
                let instance = ServiceInstance::new("10.0.0.1", port).unwrap();
                let state = InstanceState::new(u64::from(port), &instance, &service);
                state.observe(policy.needs().heard());
                state
            })
            .collect();
        let weights: Option<Vec<Weight>> =
            weights.map(|weights| weights.iter().map(|weight| Weight::new(*weight).unwrap()).collect());
        let picker = policy.picker(&Candidates::new(&states, weights.as_deref()));
        let start = policy.start(5);
        let set = super::cx::Set {
            states,
            cursor: Arc::new(Cursor::default()),
            offsets: [start, start],
            rehearsal: None,
        };
        Self { inner: set, weights, picker, random: Random::new(Some(3)) }
    }

    fn pick_at(&self, tried: Option<&Tried>, level: Level) -> Option<usize> {
        let rule = Rule { tried, level };
        // As a view does: the common pick has no rule.
        let rule = (tried.is_some() || level != Level::Fit).then_some(&rule);
        let mut cx =
            PickCx { set: &self.inner, request: &Request::EMPTY, random: &self.random, rule, now: 0 };
        self.picker.pick(&mut cx)
    }

    fn pick(&self) -> Option<usize> {
        self.pick_at(None, Level::Fit)
    }

    fn counts(&self, picks: usize) -> Vec<usize> {
        let mut counts = vec![0; self.states.len()];
        (0..picks).for_each(|_| counts[self.pick().unwrap()] += 1);
        counts
    }

    /// As after a call that was never sent. Without a runtime its back-off is over at once, so it is claimed too.
    fn skip(&self, index: usize) {
        let outcome = Outcome::Failure(Failure::Connect);
        InstanceState::report(&self.states[index], outcome, 0, crate::state::Told::default(), 1);
        assert_eq!(self.states[index].claim(), Claim::Probe);
    }
}

fn policies() -> [Box<dyn Policy>; 28] {
    let key = HashKey::default;
    [
        Box::new(RoundRobin::default()),
        Box::new(RandomPick),
        Box::new(LeastRequest),
        Box::new(PeakEwma::default()),
        Box::new(RingHash::new(key())),
        Box::new(RingHash::new(key()).with_balance_factor(125)),
        Box::new(Maglev::new(key())),
        Box::new(Maglev::new(key()).with_balance_factor(125)),
        Box::new(Rendezvous::new(key())),
        Box::new(DubboConsistentHash::default()),
        Box::new(Pinned::to("10.0.0.1:3")),
        Box::new(SmoothRoundRobin::default()),
        Box::new(SmoothRoundRobin::exact()),
        Box::new(LeastActive::default()),
        Box::new(LeastActive::exact()),
        Box::new(ShortestResponse::default()),
        Box::new(ShortestResponse::exact()),
        Box::new(Adaptive::default()),
        Box::new(Adaptive::exact()),
        Box::new(ClientSideWeightedRoundRobin::default()),
        Box::new(BestAvailable::default()),
        Box::new(BestAvailable::exact()),
        Box::new(WeightedResponseTime::default()),
        Box::new(WeightedResponseTime::exact()),
        Box::new(AvailabilityFiltering::default().with_active_limit(9)),
        Box::new(AvailabilityFiltering::exact()),
        Box::new(ZoneAvoidance::default()),
        Box::new(ZoneAvoidance::exact().with_active_limit(9)),
    ]
}

/// Without weights, and with weights that differ.
fn sets(n: u16) -> Vec<(String, Set)> {
    let weights: Vec<f64> = (0..n).map(|at| f64::from(at % 3 + 1)).collect();
    let both = |policy: &dyn Policy| {
        [("plain", None), ("weighted", Some(&*weights))]
            .map(|(kind, weights)| (format!("{kind} {}", policy.name()), Set::new(policy, n, weights)))
    };
    policies().iter().flat_map(|policy| both(&**policy)).collect()
}

#[test]
fn nobody_fits_means_nobody_is_picked() {
    for (name, set) in sets(5) {
        (0..5).for_each(|at| set.skip(at));
        assert_eq!(set.pick(), None, "{name}");
        let mut tried = Tried::new();
        (1..=5).for_each(|uid| tried.add_uid(uid));
        assert_eq!(set.pick_at(Some(&tried), Level::Untried), None, "{name}: all were tried");
        assert!(set.pick_at(None, Level::Untried).is_some(), "{name}: skipped ones are better than nobody");
        assert!(set.pick_at(Some(&tried), Level::Any).is_some(), "{name}");
    }
}

#[test]
fn the_only_one_that_fits_among_many_is_found() {
    for (name, set) in sets(200) {
        (0..200).filter(|at| *at != 123).for_each(|at| set.skip(at));
        assert!((0..20).all(|_| set.pick() == Some(123)), "{name}");
    }
}

#[test]
fn a_list_of_one_is_picked_or_not() {
    for (name, set) in sets(1) {
        assert_eq!(set.pick(), Some(0), "{name}");
        let mut tried = Tried::new();
        tried.add_uid(1);
        assert_eq!(set.pick_at(Some(&tried), Level::Fit), None, "{name}");
    }
    let plain = Set::new(&RoundRobin::default(), 1, None);
    plain.counts(10);
    assert_eq!(plain.cursor.first.load(Ordering::Relaxed), 0, "a list of one moves no counter");
}

#[test]
fn scl_004_the_position_has_31_bits() {
    for (seed, first) in [(0, 1), (-1, 0), (i32::MAX, 0), (i32::MIN, 1), (i32::MAX - 1, POSITION_MASK)] {
        let policy = RoundRobin::starting_at(seed);
        assert_eq!(policy.start(99) & POSITION_MASK, first, "seed {seed}, whatever chance says");
    }
    let mut set = Set::new(&RoundRobin::starting_at(-1), 3, None);
    set.inner.offsets = [POSITION_MASK - 1; 2];
    let all: Vec<usize> = (0..6).map(|_| set.pick().unwrap()).collect();
    // 2^31 - 2 is a multiple of 3; the wrap to 0 comes after 2^31 - 1.
    assert_eq!(all, [0, 1, 0, 1, 2, 0]);
}

#[test]
fn case_029_a_counter_of_64_bits_that_wraps_is_harmless() {
    let set = Set::new(&RoundRobin::default(), 7, None);
    set.cursor.first.store(u64::MAX - 3, Ordering::Relaxed);
    let counts = set.counts(70);
    assert!(counts.iter().all(|n| (9..=11).contains(n)), "{counts:?}");
}

#[test]
fn last_resorts_are_spread_however_many_turns_it_took_to_need_them() {
    // A pick that finds nobody takes 16 turns; with any number of instances the next one must not stand there again.
    for n in [2, 3, 4, 8, 11, 16, 17, 33] {
        let set = Set::new(&RoundRobin::default(), n, None);
        (0..usize::from(n)).for_each(|at| set.skip(at));
        let mut counts = vec![0; usize::from(n)];
        for _ in 0..200 * n {
            assert_eq!(set.pick(), None);
            counts[set.pick_at(None, Level::Untried).unwrap()] += 1;
        }
        assert!(counts.iter().all(|got| (100..=300).contains(got)), "{n} instances: {counts:?}");
    }
}

#[test]
fn of_two_the_one_with_fewer_calls_in_flight() {
    let set = Set::new(&LeastRequest, 2, None);
    set.states[0].enter(1);
    assert_eq!(set.counts(100), [0, 100]);
    set.states[1].enter(1);
    set.states[1].enter(1);
    assert_eq!(set.counts(100), [100, 0]);
}

#[test]
fn weighted_loads_are_compared_per_weight() {
    let set = Set::new(&LeastRequest, 2, Some(&[4.0, 1.0]));
    (0..3).for_each(|_| set.states[0].enter(1));
    set.states[1].enter(1);
    assert_eq!(set.counts(100), [100, 0], "3 of weight 4 are less than 1 of weight 1");
    (0..2).for_each(|_| set.states[0].enter(1));
    assert_eq!(set.counts(100), [0, 100], "5 of weight 4 are more");
}

#[test]
fn two_choices_keep_held_calls_even() {
    for (weights, shares) in
        [(None, [100; 10]), (Some(&[3.0, 1.0].repeat(5)[..]), [150, 50].repeat(5).try_into().unwrap())]
    {
        let set = Set::new(&LeastRequest, 10, weights);
        (0..1_000).for_each(|_| set.states[set.pick().unwrap()].enter(1));
        for (state, share) in set.states.iter().zip(shares) {
            // Random picks would stray by 30 and more.
            assert!(state.in_flight().abs_diff(share) <= 8, "{} instead of {share}", state.in_flight());
        }
    }
}

#[test]
fn case_006_a_weight_of_0_is_never_drawn() {
    for policy in policies() {
        let set = Set::new(&*policy, 4, Some(&[0.0, 3.0, 0.0, 1.0]));
        let counts = set.counts(1_000);
        assert_eq!((counts[0], counts[2]), (0, 0), "{}: {counts:?}", policy.name());
        // Ribbon's own takes the first of those that are idle.
        let first = format!("{policy:?}") == "BestAvailable { exact: true }";
        assert!(first || counts[1].abs_diff(750) <= 82, "{}: {counts:?}", policy.name());
    }
}

#[test]
fn an_order_goes_on_after_the_same_instance() {
    for (name, set) in sets(9) {
        let Some(rotation) = set.picker.rotation() else {
            assert!(!name.contains(" round-robin"), "{name}");
            continue;
        };
        for index in 0..9 {
            assert_eq!(rotation.turn_of(index).map(|turn| rotation.at(turn)), Some(index), "{name}");
            for from in [0, 1, 17, POSITION_MASK] {
                assert_eq!(
                    rotation.turn_from(index, from).map(|turn| rotation.at(turn)),
                    Some(index),
                    "{name}"
                );
            }
        }
        // Several turns of one instance are all gone on from, not only the first of them.
        if let Some(weights) = &set.weights {
            let heavy = weights.iter().position(|weight| weight.thousandths() == 3_000).unwrap();
            let turns: std::collections::BTreeSet<_> =
                (0..18).filter_map(|from| rotation.turn_from(heavy, from)).map(|turn| turn % 18).collect();
            assert_eq!(turns.len(), 3, "{name}: {turns:?}");
        }
    }
}
