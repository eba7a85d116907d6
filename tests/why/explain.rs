use std::borrow::Cow;
use std::sync::Arc;

use super::*;
use crate::support::{Fake, Pull, advance, chain, fixed, instance, list, over, refused, settle, with};
use evenkeel::health::HealthCheck;
use evenkeel::observe::{Candidate, ExplainOptions, Explanation, Standing};
use evenkeel::policy::{
    Adaptive, AvailabilityFiltering, BestAvailable, Candidates, ClientSideWeightedRoundRobin, HashKey,
    LeastActive, LeastRequest, Maglev, PeakEwma, PickCx, Picker, Policy, RandomPick, Rendezvous, RingHash,
    RoundRobin, ShortestResponse, SmoothRoundRobin, WeightedResponseTime, ZoneAvoidance,
};
use evenkeel::supplier::MetadataRoute;
use evenkeel::{RequestView, ServiceInstance, SupplierBuilder, Tried};
use proptest::prelude::*;

/// A request with one header.
struct Asks(&'static str, &'static str);

impl RequestView for Asks {
    fn header(&self, name: &str) -> Option<&str> {
        name.eq_ignore_ascii_case(self.0).then_some(self.1)
    }
}

fn candidate<'a>(explanation: &'a Explanation, id: &str) -> &'a Candidate {
    explanation
        .candidates
        .iter()
        .find(|one| one.status.id == id)
        .unwrap_or_else(|| panic!("no {id}: {explanation}"))
}

fn plain(chain: SupplierBuilder) -> SupplierBuilder {
    chain
}

fn zoned(pairs: &str) -> Vec<ServiceInstance> {
    let one = |pair: &str| {
        let (id, zone) = pair.split_once('=').unwrap();
        instance(id)
            .to_builder()
            .zone(zone)
            .with_metadata("version", &zone[zone.len() - 1..])
            .build()
            .unwrap()
    };
    pairs.split_whitespace().map(one).collect()
}

#[tokio::test(start_paused = true)]
async fn the_answer_is_the_next_pick_and_shares_are_those_of_the_policy() {
    let lb = fixed(with("weight", "a=3 b=1"), SupplierBuilder::with_weights, RoundRobin::default());
    lb.ready().await.unwrap();
    for _ in 0..9 {
        let why = lb.explain(&Request::EMPTY);
        let dry = why.dry_run.as_ref().unwrap();
        assert_eq!((dry.picks, dry.none, dry.widened), (10, 0, 0));
        let said = why.answer.instance.clone().unwrap();
        assert_eq!(said, lb.try_choose(&Request::EMPTY).unwrap().instance().to_string());
    }
    let why = lb.explain_with(&Request::EMPTY, ExplainOptions::default().with_picks(400));
    let shares: Vec<_> = why.dry_run.unwrap().shares.iter().map(|share| share.picks).collect();
    assert_eq!(shares, [300, 100]);
    assert_eq!(
        (candidate(&lb.explain(&Request::EMPTY), "a").status.weight, why.policy.as_str()),
        (Some(3.0), "round-robin")
    );
}

#[tokio::test(start_paused = true)]
async fn groups_their_alternatives_and_who_is_not_in_them_are_told() {
    let shape = |chain: SupplierBuilder| {
        chain.with_zone_preference("z1").with_metadata_route(MetadataRoute::by("version").header("X-Version"))
    };
    let lb = fixed(zoned("a=z1 b=z1 c=z2"), shape, RoundRobin::default());
    lb.ready().await.unwrap();
    let view = Asks("x-version", "2");
    let why = lb.explain(&Request::of(&view));
    let [one] = why.narrowed.as_slice() else { panic!("{why}") };
    assert_eq!(
        (one.stage.as_str(), one.decision.as_str(), one.name.as_deref()),
        ("version", "group", Some("2"))
    );
    let groups: Vec<_> = one.groups.iter().map(|group| (group.name.as_str(), group.spread)).collect();
    assert_eq!((groups, one.leaves), (vec![("1", 2), ("2", 1)], 1));
    assert_eq!(why.answer.instance.as_deref(), Some("c (c.test:8080)"));
    let a = candidate(&why, "a");
    assert_eq!((a.standing, a.status.stage.as_deref()), (Standing::Reserve, Some("version")));
    assert_eq!(a.status.reason.as_deref(), Some("it is not in group \"2\", which the request asks for"));
    // Without a value, the zone decides.
    let why = lb.explain(&Request::EMPTY);
    assert_eq!((why.narrowed[0].decision.as_str(), why.narrowed[0].leaves), ("all", 2));
    let c = candidate(&why, "c");
    assert_eq!((c.standing, c.status.stage.as_deref()), (Standing::Reserve, Some("zone-preference")));
    assert!(why.to_string().contains("zone z2, and this client is in z1"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_may_go_nowhere_is_told_why() {
    let route = || MetadataRoute::by("version").header("X-Version").or_nothing(true);
    let lb = fixed(zoned("a=z1 c=z2"), |chain| chain.with_metadata_route(route()), RoundRobin::default());
    lb.ready().await.unwrap();
    let view = Asks("x-version", "9");
    let request = Request::of(&view);
    let why = lb.explain(&request);
    let error = lb.try_choose(&request).unwrap_err().to_string();
    assert_eq!((why.answer.instance.as_deref(), why.answer.error.as_deref()), (None, Some(error.as_str())));
    assert_eq!((why.narrowed[0].decision.as_str(), why.narrowed[0].leaves), ("nothing", 0));
    assert!(why.narrowed[0].why.as_ref().unwrap().contains("no instance has version=\"9\""), "{why}");
    assert!(why.candidates.iter().all(|one| one.standing == Standing::LeftOut && one.status.stage.is_some()));
    // A strict group is never left.
    let view = Asks("x-version", "1");
    let why = lb.explain(&Request::of(&view));
    assert_eq!(candidate(&why, "c").standing, Standing::LeftOut);
}

#[tokio::test(start_paused = true)]
async fn no_list_an_empty_one_and_a_source_that_fails_are_errors_with_their_reason() {
    let lb = fixed(Vec::new(), plain, RoundRobin::default());
    let why = lb.explain(&Request::EMPTY);
    assert_eq!((why.version, why.answer.instance.as_deref()), (None, None));
    assert!(why.answer.error.as_ref().unwrap().contains("not looked up yet"), "{why}");
    assert_eq!(why.answer.look_up.as_deref(), Some("no list may be served: a pick waits for the look-up"));
    lb.ready().await.unwrap();
    assert!(lb.explain(&Request::EMPTY).answer.error.unwrap().contains("the source lists none"));
    let lb = over(chain(Pull::new(|_| async { Err(refused()) })), RoundRobin::default());
    lb.ready().await.unwrap_err();
    assert!(lb.explain(&Request::EMPTY).answer.error.unwrap().contains("connection refused"));
    let down = || {
        list("a b").into_iter().map(|one| one.to_builder().status(evenkeel::Status::Down).build().unwrap())
    };
    let lb = fixed(down().collect(), plain, RoundRobin::default());
    lb.ready().await.unwrap();
    let why = lb.explain(&Request::EMPTY);
    assert!(why.answer.error.as_ref().unwrap().contains("all are down"), "{why}");
    assert_eq!(candidate(&why, "a").status.reason.as_deref(), Some("its status is down"));
    lb.close().await;
    assert!(lb.explain(&Request::EMPTY).answer.error.unwrap().contains("closed"));
}

#[tokio::test(start_paused = true)]
async fn who_is_out_of_use_or_was_tried_is_no_candidate_and_the_probing_call_is_taken_once() {
    let lb = fixed(list("a b c"), plain, RoundRobin::default());
    lb.ready().await.unwrap();
    refuse(&lb, "b").await;
    let why = lb.explain(&Request::EMPTY);
    assert_eq!((candidate(&why, "b").standing, candidate(&why, "b").picks), (Standing::Unfit, 0));
    advance(1.0).await;
    let why = lb.explain_with(&Request::EMPTY, ExplainOptions::default().with_picks(100));
    assert_eq!((candidate(&why, "b").standing, candidate(&why, "b").picks), (Standing::Candidate, 1));
    let again = lb.explain_with(&Request::EMPTY, ExplainOptions::default().with_picks(100));
    assert_eq!(candidate(&again, "b").picks, 1, "nobody claimed it");
    let mut tried = Tried::default();
    tried.add(&lb.try_choose(&Request::EMPTY).unwrap());
    let request = Request::EMPTY.with_tried(&tried);
    let why = lb.explain(&request);
    let unfit: Vec<_> = why.candidates.iter().filter(|one| one.standing == Standing::Unfit).collect();
    assert_eq!((unfit.len(), unfit[0].status.stage.clone(), unfit[0].picks), (1, None, 0), "{why}");
    assert_eq!(unfit[0].status.reason.as_deref(), Some("the request was sent to it before"));
}

#[tokio::test(start_paused = true)]
async fn each_policy_says_what_it_goes_by() {
    let key = || HashKey::header("x-user");
    let (view, policies): (_, [Arc<dyn Policy>; 10]) = (
        Asks("x-user", "7"),
        [
            Arc::new(LeastRequest),
            Arc::new(PeakEwma::default()),
            Arc::new(LeastActive::default()),
            Arc::new(BestAvailable::default()),
            Arc::new(ShortestResponse::default()),
            Arc::new(Adaptive::default()),
            Arc::new(Rendezvous::new(key())),
            Arc::new(Maglev::new(key())),
            Arc::new(RingHash::new(key())),
            Arc::new(evenkeel::policy::Pinned::to("b")),
        ],
    );
    for policy in policies {
        let supplier = chain(Pull::always("a b c d", Duration::ZERO)).build().unwrap();
        let lb = LoadBalancer::builder(supplier).policy_arc(Arc::clone(&policy)).build();
        lb.ready().await.unwrap();
        settle().await;
        let why = lb.explain(&Request::of(&view));
        assert!(why.scores.is_some(), "{policy:?}");
        let scores: Vec<_> = why.candidates.iter().filter_map(|one| one.score).collect();
        let hashed = ["rendezvous", "maglev", "ring-hash"].contains(&&*policy.name());
        match &*policy.name() {
            _ if hashed => {
                let mut places = scores.clone();
                places.sort_by(f64::total_cmp);
                assert_eq!(places, [1.0, 2.0, 3.0, 4.0], "{policy:?}");
            }
            name if name.starts_with("pinned") => assert_eq!(scores, [1.0]),
            _ => assert_eq!(scores, [0.0; 4], "{policy:?}"),
        }
        if hashed || policy.name().starts_with("pinned") {
            let home = why.candidates.iter().find(|one| one.score == Some(1.0)).unwrap();
            assert_eq!(home.picks, 10, "{why}");
        }
    }
    let lb = fixed(list("a b"), plain, Rendezvous::new(key()));
    lb.ready().await.unwrap();
    assert_eq!(
        lb.explain(&Request::EMPTY).scores.as_deref(),
        Some("none: the request has no key, so chance picks")
    );
}

/// A third party's, that counts its own turns.
#[derive(Debug, Default)]
struct Counting {
    says_so: bool,
}

struct Turns(std::sync::atomic::AtomicUsize, bool);

impl Policy for Counting {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("counting")
    }
    fn picker(&self, _: &Candidates<'_>) -> Box<dyn Picker> {
        Box::new(Turns(std::sync::atomic::AtomicUsize::new(0), self.says_so))
    }
}

impl Picker for Turns {
    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        assert!(!self.1, "on purpose");
        Some(self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % cx.len())
    }
    fn rehearses(&self) -> bool {
        self.1
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_of_ones_own_is_not_asked_unless_it_says_that_it_may_be_and_its_panic_is_told() {
    let lb = fixed(list("a b"), plain, Counting::default());
    lb.ready().await.unwrap();
    let why = lb.explain(&Request::EMPTY);
    assert!(why.answer.error.as_ref().unwrap().contains("may be asked without a pick"), "{why}");
    assert_eq!((why.policy.as_str(), why.scores.clone(), why.candidates.len()), ("counting", None, 2));
    let picked = lb.try_choose(&Request::EMPTY).unwrap().instance();
    assert_eq!(picked.id(), "a", "no turn was taken");
    let lb = fixed(list("a b"), plain, Counting { says_so: true });
    lb.ready().await.unwrap();
    assert!(lb.explain(&Request::EMPTY).answer.error.unwrap().contains("panicked"));
}

#[tokio::test(start_paused = true)]
async fn a_failing_check_is_told_and_asking_does_not_wake_the_prober() {
    let probe = Fake::new();
    probe.set("b", Some(0), false);
    let shape = |chain: SupplierBuilder| chain.with_health_checks(HealthCheck::new(probe.clone()));
    let lb = fixed(list("a b"), shape, RoundRobin::default());
    lb.ready().await.unwrap();
    settle().await;
    let before = probe.log().len();
    for _ in 0..50 {
        drop(lb.explain(&Request::EMPTY));
    }
    let why = lb.explain(&Request::EMPTY);
    settle().await;
    assert_eq!(candidate(&why, "b").status.stage.as_deref(), Some("health"));
    assert_eq!(probe.log().len(), before);
}

/// What was picked in `steps` picks by a balancer, with an explanation before those of `asked`.
async fn run(which: usize, seed: u64, steps: &[u8], asked: bool) -> Vec<String> {
    let policies: [Arc<dyn Policy>; 17] = [
        Arc::new(SmoothRoundRobin::default()),
        Arc::new(LeastActive::default()),
        Arc::new(ShortestResponse::default()),
        Arc::new(Adaptive::default()),
        Arc::new(Adaptive::exact()),
        Arc::new(BestAvailable::default()),
        Arc::new(AvailabilityFiltering::default().with_active_limit(2)),
        Arc::new(WeightedResponseTime::default()),
        Arc::new(ZoneAvoidance::default()),
        Arc::new(ClientSideWeightedRoundRobin::default()),
        Arc::new(RoundRobin::default()),
        Arc::new(RandomPick),
        Arc::new(LeastRequest),
        Arc::new(PeakEwma::default()),
        Arc::new(Rendezvous::new(HashKey::header("x-user"))),
        Arc::new(Maglev::new(HashKey::default())),
        Arc::new(evenkeel::policy::Pinned::to("c").or(RandomPick)),
    ];
    let instances = zoned("a=z1 b=z1 c=z1 d=z2 e=z3");
    let route = MetadataRoute::by("version").with_percent("2", 30.0).header("x-version");
    let shape = SupplierBuilder::new("orders")
        .with_instances(instances)
        .with_seed(seed)
        .with_weights()
        .with_zone_preference("z1")
        .with_metadata_route(route)
        .with_same_instance_preference();
    let lb = LoadBalancer::builder(shape.build().unwrap()).policy_arc(Arc::clone(&policies[which])).build();
    lb.ready().await.unwrap();
    settle().await;
    let mut picked = Vec::new();
    let mut held = Vec::new();
    for step in steps {
        let view = [Asks("x-version", "1"), Asks("x-user", "7"), Asks("x", "y")];
        let request = Request::of(&view[usize::from(step % 3)]);
        if asked {
            for picks in [0, 1, 50] {
                drop(lb.explain_with(&request, ExplainOptions::default().with_picks(picks)));
            }
            drop(lb.status());
            drop(lb.change_log());
            assert_eq!(lb.in_flight() as usize, held.len(), "no lease");
        }
        let said = lb.explain(&request).answer.instance.filter(|_| asked);
        let choice = lb.try_choose(&request).unwrap();
        let name = choice.instance().to_string();
        if let Some(said) = said {
            assert_eq!(said, name, "policy {which}");
        }
        picked.push(name);
        match step {
            0..80 => choice.complete(Outcome::Success),
            80..120 => choice.complete(Outcome::Status(503)),
            120..160 => choice.complete(Outcome::Failure(Failure::Connect)),
            160..200 => held.push(choice),
            _ => {
                held.clear();
                tokio::time::advance(Duration::from_millis(u64::from(*step) * 5)).await;
            }
        }
    }
    picked
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// Whoever asks why, picks are what they would have been; and what is said is what is picked next.
    #[test]
    fn explaining_changes_nothing(
        which in 0..17_usize,
        seed in any::<u64>(),
        steps in prop::collection::vec(any::<u8>(), 1..60),
    ) {
        let runtime = || {
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
        };
        let with = runtime().block_on(run(which, seed, &steps, true));
        let without = runtime().block_on(run(which, seed, &steps, false));
        prop_assert_eq!(with, without);
    }
}
