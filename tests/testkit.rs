//! The checks of the test kit: every policy of the crate passes those that it is meant to, and each check finds its fault.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::policy::{
    Candidates, DubboConsistentHash, HashKey, LeastRequest, Maglev, Needs, PeakEwma, PickCx, Picker, Pinned,
    Policy, RandomPick, Rendezvous, RingHash, RoundRobin,
};
use evenkeel::testkit::{Check, Finding, Kit, Passed};
use evenkeel::{InstanceState, Outcome};

fn key() -> HashKey {
    HashKey::attribute(Kit::KEY)
}

const IGNORES_OUTCOMES: &str = "it looks at no outcome; ejection and health checks keep a broken server away";
const BY_LOAD: &str =
    "of two instances without load it takes the heavier one: shares go by weight under load only";
const ARCS: &str =
    "with 160 points for each, the arcs of a ring differ by 8 %, also for requests without a key";

/// What a policy is not meant to pass, and why.
type Row = (Result<Passed, Finding>, Check, Option<&'static str>);

fn each<P: Policy>(make: fn() -> P, leaves_out: &[(Check, &'static str)], rows: &mut Vec<Row>) {
    for check in Check::ALL {
        let reason = leaves_out.iter().find(|(left_out, _)| *left_out == check).map(|(_, why)| *why);
        rows.push((Kit::new().with_seed(7).check(check, make), check, reason));
    }
}

#[track_caller]
fn judge(rows: Vec<Row>) {
    let mut wrong = Vec::new();
    for (result, check, reason) in rows {
        match (result, reason) {
            (Ok(passed), None) => println!("{passed}"),
            (Err(finding), Some(reason)) => println!("{finding}; left out: {reason}"),
            (Err(finding), None) => wrong.push(finding.to_string()),
            (Ok(passed), Some(_)) => wrong.push(format!("{check} is left out and passes: {passed}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "some 100 000 calls and 2 000 lists for each policy: for optimized builds"
)]
fn lbs_kit_policies_that_go_by_turns_or_by_chance() {
    let mut rows = Vec::new();
    each(RoundRobin::default, &[(Check::BrokenServer, IGNORES_OUTCOMES)], &mut rows);
    each(|| RandomPick, &[(Check::BrokenServer, IGNORES_OUTCOMES)], &mut rows);
    judge(rows);
}

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "some 100 000 calls and 2 000 lists for each policy: for optimized builds"
)]
fn lbs_kit_policies_that_go_by_load() {
    let mut rows = Vec::new();
    each(|| LeastRequest, &[], &mut rows);
    each(PeakEwma::default, &[(Check::Weights, BY_LOAD)], &mut rows);
    judge(rows);
}

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "some 100 000 calls and 2 000 lists for each policy: for optimized builds"
)]
fn lbs_kit_policies_that_go_by_a_key() {
    let mut rows = Vec::new();
    let broken = (Check::BrokenServer, IGNORES_OUTCOMES);
    let ring = [broken, (Check::Shares, ARCS), (Check::Weights, ARCS), (Check::Conservation, ARCS)];
    each(|| RingHash::new(key()), &ring, &mut rows);
    let dubbo = [broken, (Check::Shares, ARCS), (Check::Conservation, ARCS)];
    each(|| DubboConsistentHash::new(key()), &dubbo, &mut rows);
    each(|| Rendezvous::new(key()), &[broken], &mut rows);
    judge(rows);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "a thousand lists with a table of 65 537 entries each")]
fn lbs_kit_maglev() {
    let mut rows = Vec::new();
    each(|| Maglev::new(key()), &[(Check::BrokenServer, IGNORES_OUTCOMES)], &mut rows);
    judge(rows);
}

#[test]
fn lbs_kit_pinned_is_meant_to_go_to_one_instance() {
    // So that shares, bursts and turns are not its aim; nothing that it holds is lost all the same.
    let kit = Kit::new();
    let make = || Pinned::to("3");
    assert!(kit.shares(make).is_err() && kit.bursts(make).is_err() && kit.turns(make).is_err());
    kit.keys(make).unwrap();
}

#[test]
fn lbs_kit_the_same_seed_gives_the_same_verdict() {
    let verdict = |seed| Kit::new().with_seed(seed).shares(|| RandomPick).unwrap().to_string();
    assert_eq!(verdict(1), verdict(1));
    assert_ne!(verdict(1), verdict(2));
}

/// The check finds a fault, and says so.
#[track_caller]
fn found(check: Check, result: Result<Passed, Finding>, words: &[&str]) {
    let finding = result.expect_err("the fault must be found");
    assert_eq!(finding.check(), check);
    let text = finding.to_string();
    println!("{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} in {text}");
    }
}

/// A policy of a few lines: what it makes of a list, and how it picks.
struct Bad<S> {
    name: &'static str,
    needs: Needs,
    make: fn(&Candidates<'_>) -> S,
    pick: fn(&S, &mut PickCx<'_>) -> usize,
}

impl<S> Clone for Bad<S> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<S> std::fmt::Debug for Bad<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl<S: Send + Sync + 'static> Policy for Bad<S> {
    fn name(&self) -> Cow<'static, str> {
        self.name.into()
    }
    fn needs(&self) -> Needs {
        self.needs
    }
    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        Box::new(BadPicker { state: (self.make)(set), pick: self.pick })
    }
}

struct BadPicker<S> {
    state: S,
    pick: fn(&S, &mut PickCx<'_>) -> usize,
}

impl<S: Send + Sync> Picker for BadPicker<S> {
    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        Some((self.pick)(&self.state, cx))
    }
}

fn bad<S>(
    name: &'static str,
    needs: Needs,
    make: fn(&Candidates<'_>) -> S,
    pick: fn(&S, &mut PickCx<'_>) -> usize,
) -> impl FnMut() -> Bad<S> + Send + Clone
where
    S: Send + Sync + 'static,
{
    move || Bad { name, needs, make, pick }
}

#[test]
fn lbs_kit_finds_one_that_always_takes_the_first() {
    let first = bad("first", Needs::NOTHING, |_| (), |(), _| 0);
    found(Check::Shares, Kit::new().shares(first.clone()), &["shares: first", "[20000, 0,", "the bound is"]);
    found(Check::Bursts, Kit::new().bursts(first.clone()), &["20000 calls in a row", "11 in a row"]);
    found(Check::Turns, Kit::new().turns(first), &["chi-square"]);
}

#[test]
fn lbs_kit_finds_weights_that_are_repeated_or_ignored() {
    // As many times in a row as the weight says: shares are right, and the order is not.
    let repeated = bad(
        "repeated",
        Needs::NOTHING,
        |set| {
            let weight = |at: usize| set.weights().map_or(1, |weights| weights[at].thousandths() / 1_000);
            (0..set.len()).flat_map(|at| (0..weight(at)).map(move |_| at)).collect::<Vec<_>>()
        },
        |order, cx| {
            let turn = usize::try_from(cx.turn()).unwrap();
            order[turn % order.len()]
        },
    );
    Kit::new().weights(repeated.clone()).unwrap();
    found(Check::Bursts, Kit::new().bursts(repeated), &["weighted", "30 calls in a row"]);

    let ignored = bad(
        "ignored",
        Needs::NOTHING,
        |_| (),
        |(), cx| {
            let turn = usize::try_from(cx.turn()).unwrap();
            turn % cx.len()
        },
    );
    found(Check::Weights, Kit::new().weights(ignored), &["[5000, 5000, 5000, 5000]"]);
}

#[test]
fn lbs_kit_finds_a_rotation_that_starts_anew_with_each_list() {
    let anew = bad(
        "anew",
        Needs::NOTHING,
        |_| AtomicUsize::new(0),
        |next, cx| next.fetch_add(1, Ordering::Relaxed) % cx.len(),
    );
    Kit::new().shares(anew.clone()).unwrap();
    found(Check::Turns, Kit::new().turns(anew), &["turns: anew", "[2000, 0,"]);
}

#[test]
fn lbs_kit_finds_a_hash_modulo_the_number_of_instances() {
    let modulo = bad(
        "modulo",
        Needs::NOTHING,
        |_| key(),
        |key, cx| {
            let hash = key.hash(cx.request()).unwrap_or_default();
            usize::try_from(hash % cx.len() as u64).unwrap()
        },
    );
    found(Check::Keys, Kit::new().keys(modulo), &["keys moved without need, 0 did not return"]);
}

#[test]
fn lbs_kit_finds_a_flood_to_who_is_not_known_yet() {
    // Peak EWMA over all instances, in which one without an answer has a latency of 0.
    let needs = Needs::latency(Duration::from_secs(10), Duration::from_secs(1));
    let flood = bad(
        "flood",
        needs,
        |_| (),
        |(), cx| {
            let best = |cx: &mut PickCx<'_>, a: usize, b: usize| {
                let load = |cx: &mut PickCx<'_>, at: usize| {
                    f64::from(cx.latency(at).unwrap_or(0.0)) * (f64::from(cx.state(at).in_flight()) + 1.0)
                };
                if load(cx, b) < load(cx, a) { b } else { a }
            };
            (1..cx.len()).fold(0, |a, b| best(cx, a, b))
        },
    );
    found(Check::Herd, Kit::new().herd(flood), &["of its first 100 calls a newcomer got ["]);
}

#[test]
fn lbs_kit_finds_one_that_a_fast_failure_attracts() {
    // The fewest calls in flight, whatever their ends.
    let idlest = bad(
        "idlest",
        Needs::NOTHING,
        |_| (),
        |(), cx| {
            let from = usize::try_from(cx.random() % cx.len() as u64).unwrap();
            let n = cx.len();
            (0..n).map(|step| (from + step) % n).min_by_key(|at| cx.state(*at).in_flight()).unwrap()
        },
    );
    Kit::new().shares(idlest.clone()).unwrap();
    found(Check::BrokenServer, Kit::new().broken_server(idlest), &["fails fast got", "the bound is 1 %"]);
}

/// The fewest calls by its own count, from which a call that was given up is never taken away.
#[derive(Debug, Default)]
struct Forgetful(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts(Mutex<HashMap<u64, Arc<AtomicI64>>>);

impl Counts {
    fn of(&self, instance: &InstanceState) -> Arc<AtomicI64> {
        Arc::clone(self.0.lock().unwrap().entry(instance.uid()).or_default())
    }
}

impl Policy for Forgetful {
    fn name(&self) -> Cow<'static, str> {
        "forgetful".into()
    }
    fn needs(&self) -> Needs {
        Needs::OUTCOMES
    }
    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        Box::new(ForgetfulPicker((0..set.len()).map(|at| self.0.of(set.state(at))).collect()))
    }
    fn on_outcome(&self, instance: &InstanceState, outcome: Outcome, _: Option<Duration>) {
        if outcome != Outcome::Cancelled {
            self.0.of(instance).fetch_sub(1, Ordering::Relaxed);
        }
    }
}

struct ForgetfulPicker(Vec<Arc<AtomicI64>>);

impl Picker for ForgetfulPicker {
    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        let n = cx.len();
        let from = usize::try_from(cx.random() % n as u64).unwrap();
        let all = (0..n).map(|step| (from + step) % n).filter(|at| cx.fits(*at));
        let at = all.min_by_key(|at| self.0[*at].load(Ordering::Relaxed))?;
        self.0[at].fetch_add(1, Ordering::Relaxed);
        Some(at)
    }
}

#[test]
fn lbs_kit_finds_counts_that_forget_a_call_which_was_given_up() {
    Kit::new().shares(Forgetful::default).unwrap();
    found(Check::Conservation, Kit::new().conservation(Forgetful::default), &["after a mixture of ends"]);
}

#[test]
fn lbs_kit_tells_of_a_policy_that_names_nobody() {
    #[derive(Debug)]
    struct Nobody;
    struct None_;
    impl Policy for Nobody {
        fn name(&self) -> Cow<'static, str> {
            "nobody".into()
        }
        fn picker(&self, _: &Candidates<'_>) -> Box<dyn Picker> {
            Box::new(None_)
        }
    }
    impl Picker for None_ {
        fn pick(&self, _: &mut PickCx<'_>) -> Option<usize> {
            None
        }
    }
    for check in [Check::Shares, Check::Conservation] {
        found(check, Kit::new().check(check, || Nobody), &["nobody", "the check could not be made"]);
    }
    found(Check::Herd, Kit::new().herd(|| Nobody), &["[0, 0, 0, 0, 0]"]);
}
