//! One call made of several: `Merge` over groups, `ZoneAware` over balancers.

use std::time::Duration;

use evenkeel::call::{
    Attempt, CallError, Failfast, Failover, Hedging, Member, Merge, Strategy, Throttled, ZoneAware,
};
use evenkeel::{Choice, Failure, LoadBalancer, Outcome, Request, SupplierBuilder};
use tokio::time::Instant;

use super::attempts::Pushing;
use super::common::{Bad, Does, RESET, Script, balancer, classify};
use crate::support::{Log, with};

const SECOND: Duration = Duration::from_secs(1);

/// What the groups x and y do, and what was merged.
async fn merged(x: Does, y: Does) -> Result<Vec<Outcome>, CallError<Bad>> {
    let supplier = SupplierBuilder::new("orders").with_instances(with("hint", "a=x b=y")).with_hints();
    let lb = LoadBalancer::builder(supplier.build().unwrap()).build();
    let script = Script::new(&[("a", &[x]), ("b", &[y])]);
    let send = |choice: &Choice, attempt| script.send(choice, attempt);
    let all = Merge::of(["x", "y"]).run(&lb, &Request::EMPTY, classify, send, |all| all).await;
    assert_eq!(lb.in_flight(), 0);
    all
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_speaks_against_its_instance_is_not_merged() {
    let (log, good) = (Log::default(), Outcome::Success);
    let _captured = log.capture();
    for bad in [Does::Status(503, 0), Does::Status(429, 0), Does::Later(3), RESET] {
        assert_eq!(merged(bad, Does::Ok(0)).await.unwrap(), [good], "{bad:?}");
        assert_eq!(merged(Does::Ok(0), bad).await.unwrap(), [good], "{bad:?}");
    }
    // As a group that fails with an error, it is told.
    assert_eq!(log.count("a call failed, and its caller goes on without an answer"), 8);
    assert!(log.text().contains("status 503"), "{}", log.text());
    // What is the call's own is an answer.
    let own = Outcome::Status(404);
    assert_eq!(merged(Does::Status(404, 0), Does::Ok(0)).await.unwrap(), [own, good]);
    // If all fail, the last one says how.
    let error = merged(RESET, Does::Status(503, 0)).await.unwrap_err();
    assert_eq!((error.outcomes(), error.tried()[0].id()), (&[Outcome::Status(503)][..], "b"));
    assert!(!error.is_timeout() && !error.is_business() && error.call_error().is_none(), "{error:?}");
    assert!(error.to_string().ends_with("(tried b (b.test:8080)): status 503"), "{error}");
    let error = merged(Does::Status(503, 0), RESET).await.unwrap_err();
    assert_eq!(error.call_error(), Some(&Bad(Outcome::Failure(Failure::Reset))));
}

/// How long a call takes whose first balancer refuses it after three seconds, and whose second one never answers; what each
/// attempt was told that it has left, and the error.
async fn two_zones(strategy: impl Strategy, limit: u64) -> (Vec<Duration>, CallError<Bad>) {
    let refused = Does::Fail(Failure::Connect, 3_000);
    let script = Script::new(&[("a", &[refused]), ("b", &[Does::Hang])]);
    let members = [Member::new(balancer("a")).preferred(), Member::new(balancer("b"))];
    let cluster = ZoneAware::of(members).with_strategy(strategy);
    let mut left = Vec::new();
    let send = |choice: &Choice, attempt: Attempt| {
        left.extend(attempt.time_left());
        script.send(choice, attempt)
    };
    let begun = Instant::now();
    let error = cluster.run(&Request::EMPTY, classify, send).await.unwrap_err();
    assert_eq!(begun.elapsed(), SECOND * u32::try_from(limit).unwrap());
    (left, error)
}

#[tokio::test(start_paused = true)]
async fn the_balancers_of_a_cluster_share_the_time_of_the_call() {
    let (left, error) = two_zones(Failfast::default().with_timeout(SECOND * 5), 5).await;
    assert_eq!(left, [SECOND * 5, SECOND * 2]);
    assert!(error.is_timeout() && error.tried()[0].id() == "b", "{error}");
    let (left, _) = two_zones(Failover::default().with_timeout(SECOND * 5), 5).await;
    assert_eq!(left, [SECOND * 5, SECOND * 2]);
    let hedging = Hedging::default().with_timeout(SECOND * 5);
    let (left, _) =
        two_zones(Throttled::new(hedging, evenkeel::call::AdaptiveThrottle::default().with_floor(1.0)), 5)
            .await;
    assert_eq!(left, [SECOND * 5, SECOND * 2]);
    // The first one took all of it: the second one is not blamed for that.
    let (left, error) = two_zones(Failfast::default().with_timeout(SECOND * 3), 3).await;
    assert_eq!((left, error.tried()[0].id()), (vec![SECOND * 3], "a"));
}

#[tokio::test(start_paused = true)]
async fn what_the_server_says_reaches_the_strategy_of_a_cluster() {
    let script = Script::new(&[("a", &[RESET]), ("b", &[RESET])]);
    let cluster = ZoneAware::of([Member::new(balancer("a b"))]);
    let send = |choice: &Choice, attempt| script.send(choice, attempt);
    let never = Pushing(evenkeel::call::PushBack::Never);
    cluster.run_with(&Request::EMPTY, &never, send).await.unwrap_err();
    assert_eq!(script.order(), "a");
}
