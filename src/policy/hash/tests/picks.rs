//! Pickers over a set of states.

use std::fmt;

use super::*;
use crate::policy::{
    Candidates, Cursor, DubboConsistentHash, HashKey, Level, Maglev, PickCx, Picker, Pinned, Policy,
    Rendezvous, RingHash, RoundRobin, Rule,
};
use crate::random::Random;
use crate::state::{Claim, InstanceState, ServiceState};
use crate::{Failure, Outcome, Request, RequestView, ServiceId, ServiceInstance, Tried, Weight};

struct User(String);

impl RequestView for User {
    fn attribute(&self, name: &str) -> Option<&str> {
        (name == "user").then_some(&self.0)
    }
}

fn user() -> HashKey {
    HashKey::attribute("user")
}

fn policies() -> [Box<dyn Policy>; 5] {
    [
        Box::new(RingHash::new(user())),
        Box::new(RingHash::new(user()).with_ring_size(RingHash::GRPC)),
        Box::new(Maglev::new(user())),
        Box::new(Rendezvous::new(user())),
        Box::new(DubboConsistentHash::new(user())),
    ]
}

struct Set {
    inner: crate::policy::Set,
    picker: Box<dyn Picker>,
    random: Random,
}

impl Set {
    fn of(policy: &dyn Policy, instances: &[ServiceInstance], weights: Option<&[f64]>) -> Self {
        let service = Arc::new(ServiceState::new(ServiceId::new("orders").unwrap()));
        let states: Box<[_]> =
            (1..).zip(instances).map(|(uid, instance)| InstanceState::new(uid, instance, &service)).collect();
        let weights: Option<Vec<Weight>> =
            weights.map(|weights| weights.iter().map(|weight| Weight::new(*weight).unwrap()).collect());
        let picker = policy.picker(&Candidates::new(&states, weights.as_deref()));
        let inner = crate::policy::Set {
            states,
            cursor: Arc::new(Cursor::default()),
            offsets: [0, 0],
            rehearsal: None,
        };
        Self { inner, picker, random: Random::new(Some(3)) }
    }

    fn new(policy: &dyn Policy, n: u16, weights: Option<&[f64]>) -> Self {
        let list: Vec<_> = (1..=n).map(|port| ServiceInstance::new("10.0.0.1", port).unwrap()).collect();
        Self::of(policy, &list, weights)
    }

    fn pick(&self, key: impl fmt::Display, tried: Option<&Tried>, level: Level) -> Option<usize> {
        let user = User(key.to_string());
        let request = Request::of(&user);
        let rule = Rule { tried, level };
        let rule = (tried.is_some() || level != Level::Fit).then_some(&rule);
        self.picker.pick(&mut PickCx {
            set: &self.inner,
            request: &request,
            random: &self.random,
            rule,
            now: 0,
        })
    }

    fn home(&self, key: impl fmt::Display) -> usize {
        self.pick(key, None, Level::Fit).unwrap()
    }

    fn port(&self, at: usize) -> u16 {
        self.inner.states[at].instance().port().unwrap()
    }

    fn skip(&self, index: usize) {
        let outcome = Outcome::Failure(Failure::Connect);
        InstanceState::report(&self.inner.states[index], outcome, 0, crate::state::Told::default(), 1);
        assert_eq!(self.inner.states[index].claim(), Claim::Probe);
    }
}

#[test]
fn lbs_the_keys_of_one_that_is_out_spread_over_all_and_come_back() {
    for policy in policies() {
        let set = Set::new(&*policy, 10, None);
        let homes: Vec<usize> = (0..5_000).map(|key| set.home(key)).collect();
        set.skip(4);
        let mut heirs: BTreeMap<usize, u32> = BTreeMap::new();
        for (key, home) in homes.iter().enumerate() {
            let now = set.home(key);
            if *home == 4 {
                *heirs.entry(now).or_default() += 1;
            } else {
                assert_eq!(now, *home, "{}: the others stay", policy.name());
            }
        }
        assert_eq!(
            heirs.keys().copied().collect::<Vec<_>>(),
            [0, 1, 2, 3, 5, 6, 7, 8, 9],
            "{}",
            policy.name()
        );
        let (most, all) = (heirs.values().max().unwrap(), heirs.values().sum::<u32>());
        assert!(most * 3 < all, "{}: {heirs:?}", policy.name());
        set.inner.states[4].restore();
        assert!((0..5_000).all(|key| set.home(key) == homes[key]), "{}", policy.name());
    }
}

#[test]
fn lbs_a_retry_goes_to_everybody_once_before_it_returns() {
    for (policy, n) in policies().iter().flat_map(|policy| [1, 2, 7, 300].map(|n| (policy, n))) {
        let set = Set::new(&**policy, n, None);
        let mut tried = Tried::new();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..n {
            let at = set.pick("k", Some(&tried), Level::Fit).unwrap();
            assert!(seen.insert(at), "{}", policy.name());
            tried.add_uid(set.inner.states[at].uid());
        }
        assert_eq!(set.pick("k", Some(&tried), Level::Fit), None, "{}", policy.name());
        assert!(set.pick("k", Some(&tried), Level::Any).is_some(), "{}", policy.name());
        // Where two keys have one home, their second attempts part ways.
        let home = set.home("k");
        let mut first = Tried::new();
        first.add_uid(set.inner.states[home].uid());
        let second = |key: usize| set.pick(key, Some(&first), Level::Fit);
        let seconds: std::collections::BTreeSet<_> =
            (0..2_000).filter(|key| set.home(key) == home).filter_map(second).collect();
        // Of 300 instances each has some seven keys.
        assert!(
            n < 7 || seconds.len() >= if n == 7 { 5 } else { 2 },
            "{}, n = {n}: {seconds:?}",
            policy.name()
        );
    }
}

#[test]
fn lbs_nobody_fits_means_nobody_is_picked() {
    for policy in policies() {
        for n in [1, 5, 200] {
            let set = Set::new(&*policy, n, None);
            (0..usize::from(n)).for_each(|at| set.skip(at));
            assert_eq!(set.pick("k", None, Level::Fit), None, "{}", policy.name());
            assert!(set.pick("k", None, Level::Untried).is_some(), "skipped ones are better than nobody");
            if n > 1 {
                set.inner.states[usize::from(n) - 1].restore();
                assert_eq!(set.pick("k", None, Level::Fit), Some(usize::from(n) - 1), "{}", policy.name());
            }
        }
    }
}

#[test]
fn lbs_a_request_without_a_key_goes_by_chance() {
    for policy in policies() {
        let set = Set::new(&*policy, 5, None);
        let mut counts = [0_u32; 5];
        for _ in 0..5_000 {
            let mut cx =
                PickCx { set: &set.inner, request: &Request::EMPTY, random: &set.random, rule: None, now: 0 };
            counts[set.picker.pick(&mut cx).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| *count > 600), "{}: {counts:?}", policy.name());
    }
}

#[test]
fn lbs_rendezvous_moves_exactly_the_keys_of_who_comes_or_goes() {
    for weights in [None, Some([1.0, 2.0, 3.0, 0.5, 4.0, 1.0, 7.0, 1.0, 1.0, 2.0])] {
        let all = Set::new(&Rendezvous::new(user()), 10, weights.as_ref().map(|weights| &weights[..]));
        let less = Set::new(&Rendezvous::new(user()), 9, weights.as_ref().map(|weights| &weights[..9]));
        let mut taken = 0_u32;
        for key in 0..20_000 {
            let (with, without) = (all.port(all.home(key)), less.port(less.home(key)));
            taken += u32::from(with == 10);
            assert!(with == without || with == 10, "key {key} moved from {without} to {with}");
        }
        let share = weights.map_or(0.1, |weights| 2.0 / weights.iter().sum::<f64>());
        // Six deviations of a share of 20 000 keys.
        assert!((f64::from(taken) / 20_000.0 - share).abs() < 0.013, "{taken}");
    }
}

#[test]
fn lbs_rendezvous_shares_follow_weights() {
    let weights = [1.0, 2.0, 3.0, 0.001, 4_294_967_295.0];
    let set = Set::new(&Rendezvous::new(user()), 4, Some(&weights[..4]));
    let mut counts = [0_u32; 4];
    (0..60_000).for_each(|key| counts[set.home(key)] += 1);
    for (count, share) in counts.iter().zip([10_000, 20_000, 30_000, 10]) {
        assert!(count.abs_diff(share) < 720, "{counts:?}");
    }
    let huge = Set::new(&Rendezvous::new(user()), 5, Some(&weights));
    assert!((0..1_000).all(|key| huge.home(key) == 4));
}

#[test]
fn lbs_the_order_of_the_list_and_the_scheme_do_not_count() {
    let list: Vec<_> = (1..=20).map(|port| ServiceInstance::new("10.0.0.1", port).unwrap()).collect();
    let turned: Vec<_> = list.iter().rev().cloned().collect();
    for policy in policies() {
        let (a, b) = (Set::of(&*policy, &list, None), Set::of(&*policy, &turned, None));
        assert!((0..2_000).all(|key| a.port(a.home(key)) == b.port(b.home(key))), "{}", policy.name());
    }
}

#[test]
fn lbs_a_hash_key_in_the_metadata_stands_for_the_address() {
    let named = |port: u16, name: &str| {
        let builder = ServiceInstance::builder("10.0.0.1").port(port);
        builder.with_metadata("hash-key", name).build().unwrap()
    };
    let before: Vec<_> = (0..6).map(|at| named(100 + at, &format!("shard-{at}"))).collect();
    let after: Vec<_> = (0..6).map(|at| named(200 + at, &format!("shard-{at}"))).collect();
    for policy in policies() {
        let (a, b) = (Set::of(&*policy, &before, None), Set::of(&*policy, &after, None));
        assert!((0..2_000).all(|key| a.port(a.home(key)) + 100 == b.port(b.home(key))), "{}", policy.name());
        // One name given to all by mistake: nobody is left without keys, and the order of the list does not count.
        let alike: Vec<_> = (0..6).map(|at| named(100 + at, "shard")).collect();
        let turned: Vec<_> = alike.iter().rev().cloned().collect();
        let (a, b) = (Set::of(&*policy, &alike, None), Set::of(&*policy, &turned, None));
        let homes: Vec<usize> = (0..2_000).map(|key| a.home(key)).collect();
        assert!((0..6).all(|at| homes.iter().filter(|home| **home == at).count() > 100), "{}", policy.name());
        assert!((0..2_000).all(|key| a.port(homes[key]) == b.port(b.home(key))), "{}", policy.name());
    }
}

#[test]
fn lbs_a_bounded_load_is_never_above_its_share_and_keys_return() {
    let bounded: [Box<dyn Policy>; 2] = [
        Box::new(RingHash::new(user()).with_balance_factor(125)),
        Box::new(Maglev::new(user()).with_balance_factor(125)),
    ];
    for (policy, weights) in bounded.iter().flat_map(|policy| {
        [None, Some([1.0, 2.0, 1.0, 1.0, 3.0, 1.0, 1.0, 2.0, 1.0, 1.0])].map(|weights| (policy, weights))
    }) {
        let set = Set::new(&**policy, 10, weights.as_ref().map(|weights| &weights[..]));
        let home = set.home("hot");
        let total_weight = weights.map_or(10.0, |weights| weights.iter().sum());
        let mut order = Vec::new();
        for call in 1..=500_u32 {
            let at = set.home("hot");
            set.inner.states[at].enter(1);
            order.push(at);
            for (at, state) in set.inner.states.iter().enumerate() {
                let share = weights.map_or(1.0, |weights| weights[at]) / total_weight;
                let most = (f64::from(call) * 1.25).ceil() * share;
                assert!(f64::from(state.in_flight()) <= most.ceil().max(1.0), "{at} after {call}: {most}");
            }
        }
        // No more is left out than the factor allows: with 1.25 times its share each, eight of ten equal ones take all.
        let part: std::collections::BTreeSet<_> = order.iter().collect();
        assert!(part.len() >= if weights.is_none() { 8 } else { 5 }, "{part:?}");
        // It ends, call by call: as soon as there is room, the key is at home again.
        for at in &order {
            set.inner.states[*at].leave(1);
        }
        assert!((0..10).all(|_| set.home("hot") == home));
        // Another hot key overflows in an order of its own.
        let orders: std::collections::BTreeSet<usize> = (0..300)
            .filter(|key| set.home(key) == home)
            .map(|key| {
                set.inner.states[home].enter(1);
                let second = set.home(key);
                set.inner.states[home].leave(1);
                second
            })
            .collect();
        assert!(orders.len() > 4, "{orders:?}");
    }
}

#[test]
fn lbs_a_bounded_load_leaves_out_who_does_not_fit() {
    let set = Set::new(&Maglev::new(user()).with_balance_factor(100), 10, None);
    (0..8).for_each(|at| set.skip(at));
    for _ in 0..100 {
        let at = set.home("hot");
        set.inner.states[at].enter(1);
    }
    assert_eq!([8, 9].map(|at| set.inner.states[at].in_flight()), [50, 50]);
    let mut tried = Tried::new();
    tried.add_uid(9);
    assert_eq!(set.pick("hot", Some(&tried), Level::Fit), Some(9));
    (0..1_000).for_each(|_| set.inner.states[8].enter(1));
    assert_eq!(set.pick("hot", Some(&tried), Level::Fit), Some(9), "all full: the one least above its share");
    assert_eq!(set.home("hot"), 9);
}

#[test]
fn lbs_pinned_stays_while_it_can() {
    let set = Set::new(&Pinned::to("10.0.0.1:3"), 4, None);
    assert!((0..10).all(|key| set.home(key) == 2));
    let mut tried = Tried::new();
    tried.add_uid(3);
    assert!((0..10).all(|key| set.pick(key, Some(&tried), Level::Fit).is_some_and(|at| at != 2)));
    set.skip(2);
    let others: std::collections::BTreeSet<usize> = (0..6).map(|key| set.home(key)).collect();
    assert_eq!(others.len(), 3, "a round robin of the others");
    set.inner.states[2].restore();
    assert!((0..10).all(|key| set.home(key) == 2), "back home");
    let nobody = Set::new(&Pinned::to("elsewhere").or(RoundRobin::starting_at(-1)), 3, None);
    assert_eq!((0..4).map(|key| nobody.home(key)).collect::<Vec<_>>(), [0, 1, 2, 0]);
    assert_eq!(Pinned::to("a").name(), "pinned to a, else round-robin");
}
