//! What holds for any list and any sequence of events. The seed is fixed, so that a run repeats; raise
//! `PROPTEST_CASES` to look further.

mod support;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use evenkeel::policy::{LeastRequest, Policy, RandomPick, RoundRobin};
use evenkeel::supplier::MetadataRoute;
use evenkeel::{
    Choice, ChooseErrorKind, Failure, InstanceState, LoadBalancer, Outcome, Reason, Request, RequestView,
    ServiceInstance, Status, Tried, Weight,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;
use support::*;

fn config(cases: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(cases);
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(20_260_101),
        failure_persistence: None,
        ..Default::default()
    }
}

fn on_paused_clock<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(future)
}

fn policies() -> [Arc<dyn Policy>; 3] {
    [Arc::new(RoundRobin::default()), Arc::new(RandomPick), Arc::new(LeastRequest)]
}

// ------------------------------------------------------------------------------------------------- lists and events

const IDS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const HINTS: [&str; 3] = ["blue", "green", "red"];
const VERSIONS: [&str; 3] = ["1", "2", "3"];
const WEIGHTS: [&str; 14] =
    ["0", "1", "2", "7", "1.5", "0.004", "", "abc", "-3", "NaN", "inf", "1e99", " 2 ", "4294967295"];

#[derive(Clone, Debug)]
struct Entry {
    id: &'static str,
    weight: Option<String>,
    status: Status,
    zone: Option<&'static str>,
    hint: Option<&'static str>,
    version: Option<&'static str>,
}

impl Entry {
    fn weight(&self) -> Weight {
        self.weight.as_ref().and_then(|text| text.parse().ok()).unwrap_or(Weight::ONE)
    }

    fn instance(&self) -> ServiceInstance {
        let mut builder = instance(self.id).to_builder().status(self.status);
        let weight = self.weight.as_deref();
        for (key, value) in
            [("weight", weight), ("zone", self.zone), ("hint", self.hint), ("version", self.version)]
        {
            if let Some(value) = value {
                builder = builder.with_metadata(key, value);
            }
        }
        builder.build().unwrap()
    }
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    use Status::{Degraded, Down, Draining, Unknown, Up};
    let weight = prop_oneof![
        4 => Just(None),
        4 => select(&WEIGHTS[..]).prop_map(|text| Some(text.to_owned())),
        1 => any::<String>().prop_map(Some),
    ];
    let status = select(vec![Unknown, Unknown, Unknown, Up, Up, Degraded, Draining, Down]);
    let maybe = |of: &'static [&'static str]| proptest::option::of(select(of));
    let entry =
        (select(&IDS[..]), weight, status, maybe(&["z1", "Z1", "z2"]), maybe(&HINTS), maybe(&VERSIONS));
    let entry = entry.prop_map(|(id, weight, status, zone, hint, version)| Entry {
        id,
        weight,
        status,
        zone,
        hint,
        version,
    });
    vec(entry, 0..9)
}

/// The entries that may be called: the last of each id, not drained, of the best status that is there.
fn usable(list: &[Entry]) -> BTreeMap<&'static str, &Entry> {
    let rank = |entry: &Entry| match entry.status {
        Status::Down => None,
        Status::Draining => Some(2),
        Status::Degraded => Some(1),
        _ => Some(0),
    };
    let mut entries: BTreeMap<&str, &Entry> = list.iter().map(|entry| (entry.id, entry)).collect();
    entries.retain(|_, entry| !entry.weight().is_zero());
    let top = entries.values().filter_map(|entry| rank(entry)).min();
    entries.retain(|_, entry| rank(entry).is_some() && rank(entry) == top);
    entries
}

#[derive(Clone, Debug)]
enum Event {
    List(Vec<Entry>),
    Pick { hint: Option<&'static str>, version: Option<&'static str>, call: Option<usize>, hold: bool },
    End { call: usize, outcome: Option<Outcome> },
    Pass(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let outcome = select(vec![
        None,
        Some(Outcome::Success),
        Some(Outcome::Status(503)),
        Some(Outcome::Cancelled),
        Some(Outcome::Failure(Failure::Connect)),
        Some(Outcome::Failure(Failure::Connect)),
        Some(Outcome::Failure(Failure::Timeout)),
    ]);
    let hint = proptest::option::of(select(vec!["blue", "green", "red", "none", ""]));
    let version = proptest::option::of(select(vec!["1", "2", "3", "4"]));
    let pick = (hint, version, proptest::option::of(0_usize..4), any::<bool>());
    vec(
        prop_oneof![
            2 => entries().prop_map(Event::List),
            8 => pick.prop_map(|(hint, version, call, hold)| Event::Pick { hint, version, call, hold }),
            4 => (0_usize..8, outcome).prop_map(|(call, outcome)| Event::End { call, outcome }),
            1 => (0_u64..3_000).prop_map(Event::Pass),
        ],
        1..60,
    )
}

#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // the switches of a chain
struct Shape {
    weights: bool,
    zone: bool,
    hints: bool,
    strict: bool,
    policy: usize,
}

fn shapes() -> impl Strategy<Value = Shape> {
    (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), 0_usize..3)
        .prop_map(|(weights, zone, hints, strict, policy)| Shape { weights, zone, hints, strict, policy })
}

struct Version(Option<&'static str>);

impl RequestView for Version {
    fn header(&self, name: &str) -> Option<&str> {
        self.0.filter(|_| name == "v")
    }
}

/// A balancer, and what is known to be true of it.
struct World {
    shape: Shape,
    live: Live,
    lb: LoadBalancer,
    /// What the source said last; an empty list only if it was the first that the balancer heard.
    list: Vec<Entry>,
    held: Vec<Choice>,
    /// What four calls have tried.
    tried: [Tried; 4],
    tried_ids: [BTreeSet<String>; 4],
    states: HashMap<u64, Arc<InstanceState>>,
}

impl World {
    fn new(shape: Shape, list: Vec<Entry>) -> Self {
        let live = Live::new(list.iter().map(Entry::instance).collect());
        // An empty list is not believed for as long as this test goes on.
        let mut chain = chain(live.source()).with_empty_guard(Duration::from_secs(3_600));
        if shape.weights {
            chain = chain.with_weights();
        }
        if shape.zone {
            chain = chain.with_zone_preference("z1");
        }
        if shape.hints {
            chain = chain.with_hints();
        }
        if shape.strict {
            chain = chain.with_metadata_route(MetadataRoute::by("version").header("v").or_nothing(true));
        }
        let policy = Arc::clone(&policies()[shape.policy]);
        let lb = LoadBalancer::builder(chain.build().unwrap()).policy_arc(policy).build();
        let (held, tried, tried_ids, states) = Default::default();
        Self { shape, live, lb, list, held, tried, tried_ids, states }
    }

    /// Every count in flight is the number of leases that live.
    fn check_counts(&mut self) -> Result<(), TestCaseError> {
        if let Some(snapshot) = self.lb.snapshot() {
            for state in snapshot.all_instances() {
                self.states.insert(state.uid(), Arc::clone(state));
            }
            prop_assert!(snapshot.len() <= snapshot.all_instances().len());
        }
        for (uid, state) in &self.states {
            let leases = self.held.iter().filter(|choice| choice.state().uid() == *uid).count();
            prop_assert_eq!(state.in_flight() as usize, leases, "{:?}", state);
        }
        Ok(())
    }

    async fn pick(
        &mut self,
        hint: Option<&'static str>,
        version: Option<&'static str>,
        call: Option<usize>,
        hold: bool,
    ) -> Result<(), TestCaseError> {
        let view = Version(version);
        let mut request = Request::of(&view);
        if let Some(hint) = hint {
            request = request.with_hint(hint);
        }
        if let Some(call) = call {
            request = request.with_tried(&self.tried[call]);
        }
        let all = usable(&self.list);
        let mut group: BTreeSet<&str> = all.keys().copied().collect();
        let coloured: BTreeSet<&str> =
            all.values().filter(|e| hint.is_some() && e.hint == hint).map(|e| e.id).collect();
        if self.shape.hints && !coloured.is_empty() {
            group = coloured;
        }
        let mut strict = false;
        if self.shape.strict && version.is_some() {
            strict = true;
            group.retain(|id| all[id].version == version);
        }
        let choice = match self.lb.choose(&request).await {
            Ok(choice) => choice,
            Err(error) => {
                let ChooseErrorKind::NoInstances { reason, .. } = error.kind() else { panic!("{error}") };
                let expected = match () {
                    () if self.list.is_empty() => Reason::Empty,
                    () if all.is_empty() => *reason,
                    () => Reason::NoGroup,
                };
                prop_assert_eq!(*reason, expected);
                prop_assert!(all.is_empty() || (strict && group.is_empty()), "{} of {:?}", error, all);
                return Ok(());
            }
        };
        let id = choice.instance().id().to_owned();
        let snapshot = self.lb.snapshot().unwrap();
        let states: HashMap<String, &Arc<InstanceState>> =
            snapshot.all_instances().map(|state| (state.instance().id().to_owned(), state)).collect();
        prop_assert_eq!(states[&id].uid(), choice.state().uid(), "it is a member of its snapshot");
        prop_assert_eq!(states.len(), all.len(), "{:?} are listed, {:?} may be used", states, all);
        prop_assert!(all.contains_key(&*id), "{} is drained, down or not listed: {:?}", id, all);
        // A strict group is never left; another one only if nobody in it is fit.
        let untried = |id: &&str| call.is_none_or(|call| !self.tried_ids[call].contains(*id));
        let fit = |id: &&str| untried(id) && !states[*id].is_skipped();
        if strict || group.iter().any(fit) {
            prop_assert!(group.contains(&*id), "{} is not in {:?}", id, group);
        }
        // One that was tried comes last.
        let reach: BTreeSet<&str> = if strict { group } else { all.keys().copied().collect() };
        let tried = call.is_some_and(|call| self.tried_ids[call].contains(&id));
        prop_assert!(
            !tried || !reach.iter().any(untried),
            "{} was tried, others of {:?} were not",
            id,
            reach
        );
        if let Some(call) = call {
            self.tried[call].add(&choice);
            self.tried_ids[call].insert(id);
        }
        if hold {
            self.held.push(choice);
        }
        Ok(())
    }

    async fn run(mut self, events: Vec<Event>) -> Result<(), TestCaseError> {
        for event in events {
            match event {
                Event::List(list) => {
                    self.live.set(list.iter().map(Entry::instance).collect()).await;
                    if !list.is_empty() || self.lb.snapshot().is_none() {
                        self.list = list;
                    }
                }
                Event::Pick { hint, version, call, hold } => self.pick(hint, version, call, hold).await?,
                Event::End { call, outcome } => {
                    if call < self.held.len() {
                        let choice = self.held.swap_remove(call);
                        match outcome {
                            Some(outcome) => choice.complete(outcome),
                            None => drop(choice),
                        }
                    }
                    // What a failed call set off has time to happen.
                    settle().await;
                }
                Event::Pass(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
            }
            self.check_counts()?;
        }
        self.held.clear();
        self.check_counts()
    }
}

proptest! {
    #![proptest_config(config(400))]

    /// Any list, any chain, any policy, any sequence of lists, picks, ends and time: no panic; a pick is a member of the
    /// snapshot, neither drained nor down, in its group, and not tried while another is left; counts in flight are right
    /// all the time and zero at the end.
    #[test]
    fn whatever_happens_the_laws_of_a_pick_hold(shape in shapes(), list in entries(), events in events()) {
        on_paused_clock(async move { World::new(shape, list).run(events).await })?;
    }
}

// ----------------------------------------------------------------------------------------------------------- shares

/// Picks `n` times from a list of these weights; the counts.
async fn counts(
    policy: &Arc<dyn Policy>,
    weights: Option<&[u32]>,
    ids: &[String],
    n: usize,
    seed: u64,
) -> Vec<usize> {
    let one = |(at, id): (usize, &String)| {
        let builder = instance(id).to_builder();
        match weights {
            Some(weights) => builder.with_metadata("weight", weights[at].to_string()).build().unwrap(),
            None => builder.build().unwrap(),
        }
    };
    let live = Live::new(ids.iter().enumerate().map(one).collect());
    let chain = chain(live.source()).with_weights().with_seed(seed);
    let lb = LoadBalancer::builder(chain.build().unwrap()).policy_arc(Arc::clone(policy)).build();
    let tally = tally(&picks(&lb, n).await);
    ids.iter().map(|id| tally.get(id).copied().unwrap_or_default()).collect()
}

fn divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { divisor(b, a % b) }
}

fn names(n: usize) -> Vec<String> {
    (0..n).map(|n| format!("i{n}")).collect()
}

proptest! {
    #![proptest_config(config(100))]

    /// Round robin on a stable list: exactly equal, from any start.
    #[test]
    fn a_rotation_is_exact(n in 1_usize..40, rounds in 1_usize..5, seed: u64) {
        let all = on_paused_clock(counts(&policies()[0], None, &names(n), n * rounds, seed));
        prop_assert_eq!(all, vec![rounds; n]);
    }

    /// Weighted round robin on a stable list: exact in every period, from any start.
    #[test]
    fn a_weighted_rotation_is_exact_per_period(weights in vec(1_u32..12, 1..9), rounds in 1_usize..4, seed: u64) {
        let whole: Vec<usize> = weights.iter().map(|w| *w as usize).collect();
        let common = whole.iter().copied().fold(0, divisor);
        let period = whole.iter().sum::<usize>() / common;
        let names = names(weights.len());
        let all = on_paused_clock(counts(&policies()[0], Some(&weights), &names, period * rounds, seed));
        let expected: Vec<usize> = whole.iter().map(|w| w / common * rounds).collect();
        prop_assert_eq!(all, expected, "{:?}", weights);
    }

    /// Random and least-request picks (nothing in flight): each share within six standard deviations.
    #[test]
    fn a_draw_is_fair(weights in vec(1_u32..9, 2..7), least_request: bool, seed: u64) {
        let policy = &policies()[if least_request { 2 } else { 1 }];
        let all = on_paused_clock(counts(policy, Some(&weights), &names(weights.len()), 2_000, seed));
        let total: u32 = weights.iter().sum();
        for (got, weight) in all.iter().zip(&weights) {
            let share = f64::from(*weight) / f64::from(total);
            let (expected, deviation) = (2_000.0 * share, (2_000.0 * share * (1.0 - share)).sqrt());
            let off = (f64::from(u32::try_from(*got).unwrap()) - expected).abs();
            prop_assert!(off <= 6.0 * deviation + 1.0, "{:?} of weights {:?}", all, weights);
        }
    }

    /// A list in which some instances come and go between picks, and any number of times: those that are always there
    /// rotate strictly among themselves, whatever else does.
    #[test]
    fn those_that_stay_rotate_strictly_whoever_comes_and_goes(
        changes in vec(vec(vec(any::<bool>(), 3), 0..3), 60..120),
        order in Just(names(6)).prop_shuffle(),
    ) {
        let (stay, flap) = order.split_at(3);
        let all = on_paused_clock(async {
            let lists = |present: &[bool]| {
                let flapping = flap.iter().zip(present).filter(|(_, present)| **present).map(|(id, _)| id);
                stay.iter().chain(flapping).map(|id| instance(id)).collect::<Vec<_>>()
            };
            let live = Live::new(lists(&[false, true, true]));
            let lb = over(chain(live.source()), RoundRobin::default());
            let mut all = vec![pick(&lb).await];
            for between in &changes {
                for present in between {
                    live.set(lists(present)).await;
                }
                all.push(pick(&lb).await);
            }
            all
        });
        let stayed: Vec<&String> = all.iter().filter(|id| stay.contains(id)).collect();
        for window in stayed.windows(4) {
            prop_assert!(window[0] == window[3] && window[0] != window[1] && window[1] != window[2], "{:?}", all);
            prop_assert!(window[0] != window[2], "{:?}", all);
        }
        prop_assert!(stayed.len() * 2 >= all.len(), "three of at most six: {:?}", all);
    }
}

/// The case of the catalogue: `abc` and `abcd` in turn, at every pick.
#[test]
fn case_030_a_list_that_flaps_at_every_pick() {
    let all = on_paused_clock(async {
        let live = Live::new(list("a b c"));
        let lb = over(chain(live.source()), RoundRobin::default());
        let mut all = Vec::new();
        for n in 0..1_000 {
            live.set(list(if n % 2 == 0 { "a b c d" } else { "a b c" })).await;
            all.push(pick(&lb).await);
        }
        all
    });
    even(&all, "a b c d", 250, 5);
}
