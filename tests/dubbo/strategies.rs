//! Strategies of a cluster: failover, failfast, failsafe, forking, broadcast, available, and values in place of errors.

use std::cell::RefCell;
use std::future::Future;

use evenkeel::call::{
    Answered, Attempt, Available, Broadcast, CallError, Failfast, Failover, Failsafe, Fallback, Forking,
    Member, Merge, Sticky, Strategy, ZoneAware,
};
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::{Choice, Failure, LoadBalancer, Outcome, Request, SupplierBuilder, Tried};

use crate::support::calls::balancer_with;
use crate::support::{Pull, chain, list, settle, with};

type Answer = Result<Answered<String>, CallError<Said>>;

/// An error, as its outcome.
#[derive(Debug, PartialEq, Eq)]
struct Said(Outcome);

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

const TIMEOUT: Outcome = Outcome::Failure(Failure::Timeout);
/// The service did its work and says no.
const BUSINESS: Outcome = Outcome::Status(422);

fn classify(result: Result<&String, &Said>) -> Outcome {
    result.map_or_else(|error| error.0, |_| Outcome::Success)
}

/// Who was called, in order.
#[derive(Default)]
struct Called(RefCell<Vec<String>>);

impl Called {
    /// `end` says by the instance's id and the number of the call how an attempt ends.
    async fn run(
        &self,
        strategy: &impl Strategy,
        lb: &LoadBalancer,
        end: impl Fn(&str, u32) -> Outcome,
    ) -> Answer {
        let send = |choice: &Choice, attempt: Attempt| self.send(choice, attempt, &end);
        strategy.run(lb, &Request::EMPTY, classify, send).await
    }

    #[allow(clippy::unnecessary_wraps)] // as a strategy wants it
    fn send(
        &self,
        choice: &Choice,
        attempt: Attempt,
        end: &dyn Fn(&str, u32) -> Outcome,
    ) -> Option<impl Future<Output = Result<String, Said>> + use<>> {
        let id = choice.instance().id().to_owned();
        let outcome = end(&id, attempt.number());
        self.0.borrow_mut().push(id.clone());
        Some(async move { if outcome == Outcome::Success { Ok(id) } else { Err(Said(outcome)) } })
    }

    fn ids(&self) -> Vec<String> {
        self.0.take()
    }
}

fn balancer(ids: &str) -> LoadBalancer {
    balancer_with(ids, |builder| builder)
}

async fn broadcast(ids: &str, percent: u32, end: impl Fn(&str) -> Outcome) -> (Option<Outcome>, Vec<String>) {
    let (lb, called) = (balancer(ids), Called::default());
    let strategy = Broadcast::default().with_fail_percent(percent);
    let send = |choice: &Choice, attempt| called.send(choice, attempt, &|id, _| end(id));
    let answers = strategy.run(&lb, &Request::EMPTY, classify, send).await;
    let error = answers.err().and_then(CallError::into_call_error).map(|error| error.0);
    assert_eq!(lb.in_flight(), 0);
    (error, called.ids())
}

/// Ten picks among `ids`, for a call that was sent to `tried`, while nothing can be sent to `down`.
async fn picks(ids: &str, tried: &str, down: &str) -> Vec<String> {
    let lb = balancer(ids);
    let mut before = Tried::new();
    // Every one is picked once, whichever comes first.
    for _ in ids.split_whitespace() {
        let choice = lb.choose(&Request::EMPTY).await.unwrap();
        let id = choice.instance().id().to_owned();
        if tried.split_whitespace().any(|tried| tried == id) {
            before.add(&choice);
        }
        let end =
            if down.split_whitespace().any(|down| down == id) { Failure::Connect } else { Failure::Other };
        choice.complete(Outcome::Failure(end));
    }
    let request = Request::EMPTY.with_tried(&before);
    let mut all = Vec::new();
    for _ in 0..10 {
        let choice = lb.choose(if before.is_empty() { &Request::EMPTY } else { &request }).await.unwrap();
        all.push(choice.instance().id().to_owned());
    }
    all.sort_unstable();
    all.dedup();
    all
}

#[tokio::test(start_paused = true)]
async fn dubbo_045_046_one_candidate_is_it_and_of_two_the_one_that_was_not_tried() {
    assert!(balancer("").choose(&Request::EMPTY).await.is_err());
    assert_eq!(picks("a", "", "").await, ids("a"));
    assert_eq!(picks("a", "", "a").await, ids("a"), "available or not");
    assert_eq!(picks("a b", "a", "").await, ids("b"));
}

#[tokio::test(start_paused = true)]
async fn dubbo_047_who_can_be_reached_is_picked_whoever_was_tried() {
    for tried in ["", "1 3", "2 3", "1 2 3 4 5"] {
        let all = picks("1 2 3 4 5", tried, "1 3 5").await;
        assert!(!all.is_empty() && all.iter().all(|id| id == "2" || id == "4"), "{tried}: {all:?}");
    }
    assert_eq!(picks("1 2 3 4 5", "1 2 3 5", "1 3 5").await, ids("4"));
}

#[tokio::test(start_paused = true)]
async fn dubbo_048_with_four_of_five_tried_the_fifth_is_picked() {
    assert_eq!(picks("1 2 3 4 5", "1 2 3 4", "").await, ids("5"));
    assert_eq!(picks("1 2 3 4 5", "1 2 3 4 5", "").await, ids("1 2 3 4 5"), "any of them, in turn");
}

/// Two methods of one reference are two strategies that share what is sticky; with one each they stay apart.
#[tokio::test(start_paused = true)]
async fn dubbo_050_calls_stay_with_who_answered_also_per_method() {
    let (lb, called) = (balancer("a b c"), Called::default());
    let well = |_: &str, _| Outcome::Success;
    let shared = Sticky::new();
    let one = Failover::default().with_sticky(shared.clone());
    let other = Failfast::default().with_sticky(shared);
    let forking = Forking::default().with_forks(1).with_sticky(Sticky::new());
    let target = called.run(&one, &lb, well).await.unwrap().instance;
    for _ in 0..5 {
        assert_eq!(called.run(&one, &lb, well).await.unwrap().instance, target);
        assert_eq!(called.run(&other, &lb, well).await.unwrap().instance, target);
    }
    let apart = called.run(&forking, &lb, well).await.unwrap().instance;
    assert_ne!(apart, target, "another method has a target of its own");
    assert_eq!(called.run(&forking, &lb, well).await.unwrap().instance, apart);
    called.ids();
    // One that fails is left within the call, for whoever answers then; an error of the call's own is an answer.
    let bad = target.id().to_owned();
    let next =
        called.run(&one, &lb, |id, _| if id == bad { TIMEOUT } else { Outcome::Success }).await.unwrap();
    assert_eq!(called.ids(), [target.id(), next.instance.id()]);
    called.run(&one, &lb, |_, _| BUSINESS).await.unwrap_err();
    assert_eq!(called.ids(), [next.instance.id()]);
}

/// A lease on the instance, which the policy gives sooner or later.
async fn lease(lb: &LoadBalancer, id: &str) -> Choice {
    loop {
        let choice = lb.choose(&Request::EMPTY).await.unwrap();
        if choice.instance().id() == id {
            return choice;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_sticky_target_that_was_tried_or_is_out_of_use_gets_no_call() {
    let (lb, called) = (balancer("a b"), Called::default());
    let well = |_: &str, _: u32| Outcome::Success;
    let strategy = Failfast::default().with_sticky(Sticky::new());
    let target = called.run(&strategy, &lb, well).await.unwrap().instance;
    let mut tried = Tried::new();
    tried.add(&lease(&lb, target.id()).await);
    let request = Request::EMPTY.with_tried(&tried);
    let send = |choice: &Choice, attempt: Attempt| called.send(choice, attempt, &well);
    let other = strategy.run(&lb, &request, classify, send).await.unwrap().instance;
    assert_ne!(other, target);
    lease(&lb, other.id()).await.complete(Outcome::Failure(Failure::Connect));
    for _ in 0..3 {
        assert_eq!(called.run(&strategy, &lb, well).await.unwrap().instance, target);
    }
}

#[tokio::test(start_paused = true)]
async fn a_sticky_target_that_left_is_none_and_two_balancers_share_none() {
    let registry = SimpleDiscovery::new().with_instances("orders", list("a b")).unwrap();
    let lb = LoadBalancer::builder(chain(registry.clone()).build().unwrap()).build();
    let (called, sticky) = (Called::default(), Sticky::new());
    let strategy = Failfast::default().with_sticky(sticky.clone());
    let well = |_: &str, _| Outcome::Success;
    let target = called.run(&strategy, &lb, well).await.unwrap().instance.id().to_owned();
    let left = if target == "a" { "b" } else { "a" };
    registry.set(lb.service_id(), list(left));
    settle().await;
    assert_eq!(called.run(&strategy, &lb, well).await.unwrap().instance.id(), left);
    // The same number means somebody else there: the rotation decides.
    let other = balancer("x y");
    let mut ids = Vec::new();
    for _ in 0..2 {
        ids.push(called.run(&Failfast::default(), &other, well).await.unwrap().instance.id().to_owned());
    }
    let kept = called.run(&strategy, &other, well).await.unwrap().instance.id().to_owned();
    assert_eq!(kept, ids[0]);
    assert_eq!(called.run(&strategy, &other, well).await.unwrap().instance.id(), kept);
    sticky.forget();
    assert_eq!(called.run(&strategy, &other, well).await.unwrap().instance.id(), ids[1]);
}

#[tokio::test]
async fn dubbo_051_six_attempts_are_told_and_the_last_error_kept() {
    let (lb, called) = (balancer("a b"), Called::default());
    let error = called.run(&Failover::default().with_retries(5), &lb, |_, _| TIMEOUT).await.unwrap_err();
    assert_eq!((error.tried().len(), error.call_error()), (6, Some(&Said(TIMEOUT))));
    assert_eq!(error.to_string().matches("timed out").count(), 6 + 1, "{error}");
}

#[tokio::test]
async fn dubbo_052_the_number_of_attempts() {
    for (retries, attempts) in [(0, 1), (1, 2), (2, 3)] {
        let (lb, called) = (balancer("a b"), Called::default());
        let strategy = Failover::default().with_retries(retries);
        let error = called.run(&strategy, &lb, |_, _| TIMEOUT).await.unwrap_err();
        assert_eq!((called.ids().len(), error.into_call_error()), (attempts, Some(Said(TIMEOUT))));
    }
    let (lb, called) = (balancer("a b"), Called::default());
    called.run(&Failover::default(), &lb, |_, _| TIMEOUT).await.unwrap_err();
    assert_eq!(called.ids().len(), 3, "the default");
}

#[tokio::test]
async fn dubbo_053_one_bad_instance_of_two_spoils_no_call() {
    let (lb, called) = (balancer("a b"), Called::default());
    for _ in 0..100 {
        let end = |id: &str, _| if id == "a" { Outcome::Failure(Failure::Other) } else { Outcome::Success };
        assert_eq!(called.run(&Failover::default(), &lb, end).await.unwrap().response, "b");
    }
}

#[tokio::test]
async fn dubbo_054_a_business_error_is_the_callers_at_once() {
    let (lb, called) = (balancer("a b"), Called::default());
    let error = called.run(&Failover::default(), &lb, |_, _| BUSINESS).await.unwrap_err();
    assert!(error.is_business() && called.ids().len() == 1, "{error}");
}

#[tokio::test(start_paused = true)]
async fn dubbo_055_an_instance_that_joined_between_two_attempts_is_used() {
    let source = Pull::new(|number| async move { Ok(list(if number == 0 { "old" } else { "new" })) });
    let base = SupplierBuilder::new("orders").with_discovery_client(source).build().unwrap();
    let lb = LoadBalancer::builder(base).build();
    let called = Called::default();
    let end = |id: &str, _| if id == "old" { TIMEOUT } else { Outcome::Success };
    let send = |choice: &Choice, attempt: Attempt| {
        let (sent, lb) = (called.send(choice, attempt, &end), lb.clone());
        sent.map(|sent| async move {
            let result = sent.await;
            if result.is_err() {
                // The registry has a new list before the next attempt.
                let mut changes = lb.changes();
                changes.mark_unchanged();
                lb.refresh();
                changes.changed().await.unwrap();
            }
            result
        })
    };
    let answer = Failover::default().run(&lb, &Request::EMPTY, classify, send).await.unwrap();
    assert_eq!((answer.response.as_str(), called.ids()), ("new", vec!["old".to_owned(), "new".to_owned()]));
}

#[tokio::test]
async fn dubbo_056_nobody_listed_is_an_error_that_says_so() {
    let (lb, called) = (balancer(""), Called::default());
    let error = called.run(&Failover::default(), &lb, |_, _| TIMEOUT).await.unwrap_err();
    assert!(error.choose_error().is_some() && error.to_string().contains("lists none"), "{error}");
}

#[tokio::test]
async fn dubbo_057_the_only_one_that_times_out_is_told_by_every_strategy() {
    let (lb, called) = (balancer("a"), Called::default());
    for error in [
        called.run(&Failover::default(), &lb, |_, _| TIMEOUT).await.unwrap_err(),
        called.run(&Forking::default(), &lb, |_, _| TIMEOUT).await.unwrap_err(),
        called.run(&Failfast::default(), &lb, |_, _| TIMEOUT).await.unwrap_err(),
    ] {
        assert_eq!(error.outcomes().last(), Some(&TIMEOUT), "{error}");
    }
}

#[tokio::test]
async fn dubbo_058_failfast_calls_once_and_keeps_the_error() {
    let (lb, called) = (balancer("a b"), Called::default());
    for outcome in [BUSINESS, TIMEOUT] {
        let error = called.run(&Failfast::default(), &lb, |_, _| outcome).await.unwrap_err();
        assert_eq!((called.ids().len(), error.into_call_error()), (1, Some(Said(outcome))));
    }
}

#[tokio::test]
async fn dubbo_059_failsafe_makes_an_error_no_answer() {
    let (lb, called) = (balancer("a b"), Called::default());
    for outcome in [TIMEOUT, BUSINESS, Outcome::Success] {
        let send = |choice: &Choice, attempt| called.send(choice, attempt, &|_, _| outcome);
        let answer = Failsafe::default().run(&lb, &Request::EMPTY, classify, send).await;
        assert_eq!((answer.is_some(), called.ids().len()), (outcome == Outcome::Success, 1));
    }
}

#[tokio::test]
async fn dubbo_062_forking_calls_so_many_and_fails_when_all_do() {
    let (lb, called) = (balancer("a b c"), Called::default());
    for (forks, calls) in [(0, 3), (2, 2), (7, 3)] {
        let strategy = Forking::default().with_forks(forks);
        let error = called.run(&strategy, &lb, |_, _| TIMEOUT).await.unwrap_err();
        assert_eq!((called.ids().len(), error.tried().len()), (calls, calls));
        let answer = called.run(&strategy, &lb, |_, _| Outcome::Success).await.unwrap();
        let mut ids = called.ids();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!((ids.len(), ids.contains(&answer.response)), (calls, true));
    }
}

#[tokio::test]
async fn dubbo_063_broadcast_calls_all_and_tells_of_one_that_failed() {
    assert_eq!(broadcast("a b c d", 100, |_| Outcome::Success).await, (None, ids("a b c d")));
    let second = |id: &str| if id == "b" { TIMEOUT } else { Outcome::Success };
    assert_eq!(broadcast("a b c d", 100, second).await, (Some(TIMEOUT), ids("a b c d")));
    assert_eq!(broadcast("a b c d", 75, |_| TIMEOUT).await, (Some(TIMEOUT), ids("a b c")));
}

#[tokio::test]
async fn dubbo_064_065_the_part_that_may_fail() {
    for percent in [101, u32::MAX] {
        assert_eq!(broadcast("a b c d", percent, |_| TIMEOUT).await.1, ids("a b c d"));
    }
    assert_eq!(broadcast("a b c d e", 50, |_| TIMEOUT).await.1, ids("a b"));
    // Dubbo would never stop at these two.
    for percent in [0, 10] {
        assert_eq!(broadcast("a b c d e", percent, |_| TIMEOUT).await.1, ids("a"));
    }
}

#[tokio::test(start_paused = true)]
async fn dubbo_066_available_takes_the_first_one_and_none_is_an_error() {
    let (lb, called) = (balancer("a b c"), Called::default());
    let refused = |id: &str, _| if id == "a" { Outcome::Failure(Failure::Connect) } else { Outcome::Success };
    called.run(&Available::default(), &lb, refused).await.unwrap_err();
    for _ in 0..5 {
        assert_eq!(called.run(&Available::default(), &lb, refused).await.unwrap().response, "b");
    }
    let all = |_: &str, _| Outcome::Failure(Failure::Connect);
    for _ in 0..2 {
        called.run(&Available::default(), &lb, all).await.unwrap_err();
    }
    called.ids();
    let error = called.run(&Available::default(), &lb, all).await.unwrap_err();
    assert!(error.choose_error().is_some() && called.ids().is_empty(), "{error}");
}

/// What each of the groups x and y answers, concatenated; `None` for a group that fails.
async fn merged<T: Clone>(x: Option<&[T]>, y: Option<&[T]>) -> Result<Vec<T>, (usize, Option<Said>)> {
    let list = with("hint", "a=x b=y");
    let lb = LoadBalancer::builder(
        SupplierBuilder::new("orders").with_instances(list).with_hints().build().unwrap(),
    );
    let lb = lb.build();
    let send = |choice: &Choice, _| {
        let answer = if choice.instance().id() == "a" { x } else { y }.map(<[T]>::to_vec);
        Some(async move { answer.ok_or(Said(TIMEOUT)) })
    };
    let judge = |result: Result<&Vec<T>, &Said>| result.map_or_else(|said| said.0, |_| Outcome::Success);
    let merge = Merge::of(["x", "y"]);
    let all = merge.run(&lb, &Request::EMPTY, judge, send, |all| all.concat()).await;
    assert_eq!(lb.in_flight(), 0);
    all.map_err(|error| (error.tried().len(), error.into_call_error()))
}

/// A request that says where it wants to go.
struct Zoned(&'static str, bool);

impl evenkeel::RequestView for Zoned {
    fn attribute(&self, name: &str) -> Option<&str> {
        match name {
            "registry_zone" => Some(self.0),
            "registry_zone_force" if self.1 => Some("true"),
            _ => None,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dubbo_067_which_of_several_registries_gets_a_call() {
    let called = Called::default();
    let well = |_: &str, _: u32| Outcome::Success;
    let run = async |cluster: &ZoneAware, zone: &'static str, force| {
        let view = Zoned(zone, force);
        let send = |choice: &Choice, attempt: Attempt| called.send(choice, attempt, &well);
        let answer = cluster.run(&Request::of(&view), classify, send).await;
        answer.map(|answer| answer.instance.id().to_owned())
    };
    let member = |id: &str| Member::new(balancer(id));
    let zones = || [member("h").zone("hangzhou"), member("b").zone("Beijing")];
    // The preferred one wins, also against the zone.
    let [first, second] = zones();
    let cluster = ZoneAware::of([first, second, member("p").preferred()]);
    assert_eq!(run(&cluster, "beijing", false).await.unwrap(), "p");
    // Else the zone of the call, which is compared without case.
    let cluster = ZoneAware::of(zones());
    for _ in 0..10 {
        assert_eq!(run(&cluster, "beijing", false).await.unwrap(), "b");
        assert_eq!(run(&cluster, "Hangzhou", true).await.unwrap(), "h");
    }
    // A forced zone without anybody is an error, which names the zones that there are.
    let error = run(&cluster, "mars", true).await.unwrap_err();
    assert!(error.is_nowhere() && error.to_string().contains("\"mars\""), "{error}");
    assert!(error.to_string().ends_with("zones: hangzhou, Beijing"), "{error}");
    assert!(run(&cluster, "mars", false).await.is_ok());
    // Nobody to ask is an error, and the only one is asked, wherever it is.
    let error = run(&ZoneAware::of([]), "beijing", false).await.unwrap_err();
    assert!(error.is_nowhere(), "{error}");
    assert_eq!(run(&ZoneAware::of([member("only").zone("x")]), "beijing", false).await.unwrap(), "only");
}

/// Where Dubbo picks a registry and then finds nobody in it.
#[tokio::test(start_paused = true)]
async fn a_registry_that_cannot_be_reached_is_followed_by_the_next_one() {
    let called = Called::default();
    let members = [
        Member::new(balancer("d1 d2")).preferred(),
        Member::new(balancer("")).zone("near"),
        Member::new(balancer("a")).zone("far"),
    ];
    let cluster = ZoneAware::of(members).with_zone("near");
    let end = |id: &str, _: u32| {
        if id.starts_with('d') { Outcome::Failure(Failure::Connect) } else { Outcome::Success }
    };
    let send = |choice: &Choice, attempt: Attempt| called.send(choice, attempt, &end);
    for _ in 0..3 {
        let answer = cluster.run(&Request::EMPTY, classify, send).await.unwrap();
        assert_eq!(answer.instance.id(), "a");
    }
    assert_eq!(called.ids().len(), 2 + 3, "who is skipped is not asked while others are there");
    // What was sent, and failed, stays where it is.
    let send = |choice: &Choice, attempt: Attempt| called.send(choice, attempt, &|_, _| TIMEOUT);
    let cluster = cluster.with_strategy(Failfast::default());
    let error = cluster.run(&Request::EMPTY, classify, send).await.unwrap_err();
    assert_eq!(error.tried().len(), 1, "{error}");
}

#[tokio::test]
async fn dubbo_068_the_answers_of_two_groups_are_one() {
    assert_eq!(merged(Some(&["soup"]), Some(&["salad"])).await.unwrap(), ["soup", "salad"]);
    // One that fails is left out.
    assert_eq!(merged(None, Some(&["salad"])).await.unwrap(), ["salad"]);
    assert_eq!(merged(Some(&["soup"]), None).await.unwrap(), ["soup"]);
    assert_eq!(merged::<&str>(None, None).await.unwrap_err(), (1, Some(Said(TIMEOUT))));
    assert!(merged::<()>(Some(&[]), Some(&[])).await.unwrap().is_empty());
}

#[tokio::test]
async fn dubbo_069_lists_are_merged_in_the_order_of_the_groups() {
    assert_eq!(
        merged(Some(&["1", "2", "3"]), Some(&["4", "5", "6"])).await.unwrap(),
        ["1", "2", "3", "4", "5", "6"]
    );
    assert_eq!(merged(Some(&[1, 2, 3]), None).await.unwrap(), [1, 2, 3]);
    assert_eq!(merged(Some(&[true, false]), Some(&[true])).await.unwrap().len(), 3);
}

#[tokio::test]
async fn dubbo_070_sums_and_firsts_are_closures_over_what_the_groups_said() {
    let sum = async |x: &[i64], y: &[i64]| merged(Some(x), Some(y)).await.unwrap().iter().sum::<i64>();
    let all: Vec<i64> = (1..=100).collect();
    assert_eq!((sum(&all[..40], &all[40..]).await, sum(&[], &[]).await), (5_050, 0));
    let first = async |x: &[i64]| merged(Some(x), Some(&[])).await.unwrap().first().copied();
    assert_eq!((first(&[1, 2]).await, first(&[]).await), (Some(1), None));
}

#[tokio::test]
async fn dubbo_071_a_value_in_place_of_an_error_or_of_a_call() {
    let lb = balancer("a");
    let run = async |fallback: Fallback<Failfast>, outcome: Outcome| {
        let called = Called::default();
        let send = |choice: &Choice, attempt| called.send(choice, attempt, &|_, _| outcome);
        let value = |_: Option<&CallError<Said>>| "aa".to_owned();
        let reply = fallback.run(&lb, &Request::EMPTY, classify, send, value).await;
        (reply.ok().map(evenkeel::call::Reply::into_response), called.ids().len())
    };
    let plain = Fallback::new(Failfast::default());
    assert_eq!(run(plain.clone(), TIMEOUT).await, (Some("aa".to_owned()), 1));
    assert_eq!(run(plain.clone(), BUSINESS).await, (None, 1));
    assert_eq!(run(plain.clone(), Outcome::Success).await, (Some("a".to_owned()), 1));
    assert_eq!(run(plain.with_forced(true), Outcome::Success).await, (Some("aa".to_owned()), 0));
}

fn ids(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}
