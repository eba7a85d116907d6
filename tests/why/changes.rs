use super::*;
use crate::support::{Fake, Pull, advance, balancer, chain, fixed, instance, list, over, refused, settle};
use evenkeel::LoadBalancers;
use evenkeel::config::{Format, LiveProperties, Properties};
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::health::HealthCheck;
use evenkeel::policy::RoundRobin;
use evenkeel::{ServiceId, Status};

#[tokio::test(start_paused = true)]
async fn lists_are_told_by_who_came_who_went_and_what_changed_and_an_order_is_nothing() {
    let b = |status: Status| {
        instance("b").to_builder().status(status).with_metadata("key", status.to_string()).build()
    };
    let lb = balancer(Pull::timed(move |at| {
        Ok(match at {
            at if at < 30.0 => vec![instance("a"), b(Status::Up).unwrap()],
            at if at < 60.0 => vec![b(Status::Up).unwrap(), instance("a")],
            at if at < 100.0 => vec![b(Status::Degraded).unwrap(), instance("c")],
            _ => vec![instance("c")],
        })
    }));
    lb.ready().await.unwrap();
    for _ in 0..3 {
        advance(36.0).await;
        drop(lb.choose(&Request::EMPTY).await.unwrap());
        settle().await;
    }
    let changes = lb.change_log();
    let told: Vec<_> = changes
        .iter()
        .map(|change| (change.kind, change.instance.as_deref().unwrap_or_default(), change.detail.as_str()))
        .collect();
    let wanted = [
        (ChangeKind::Listed, "", "2 instances"),
        (ChangeKind::Added, "c (c.test:8080)", ""),
        (ChangeKind::Removed, "a (a.test:8080)", ""),
        (ChangeKind::Changed, "b (b.test:8080)", "status up -> degraded, metadata key"),
        (ChangeKind::Removed, "b (b.test:8080)", ""),
    ];
    assert_eq!(told, wanted);
    assert_eq!(changes.iter().map(|change| change.number).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn a_change_has_its_age_and_its_time_on_the_wall() {
    let supplier = chain(Pull::always("a b", Duration::ZERO)).build().unwrap();
    let lb = LoadBalancer::builder(supplier).wall_clock(wall()).build();
    lb.ready().await.unwrap();
    advance(61.5).await;
    refuse(&lb, "a").await;
    advance(3.0).await;
    let changes = lb.change_log();
    assert_eq!((changes[0].at.as_str(), changes[0].age_ms), ("2026-11-30T20:00:00.000Z", 64_500));
    let skipped = changes.last().unwrap();
    assert_eq!((skipped.kind, skipped.age_ms), (ChangeKind::Skipped, 3_000));
    assert_eq!(skipped.at, "2026-11-30T20:01:01.500Z");
    assert_eq!(skipped.detail, "a call could not be sent, back-off 1000 ms, 1 in a row");
    let text = skipped.to_string();
    assert!(
        text.contains("3.0 s ago") && text.contains("a (a.test:8080): a call could not be sent"),
        "{text}"
    );
    assert_eq!(serde_json::to_value(skipped).unwrap()["kind"], "skipped");
}

#[tokio::test(start_paused = true)]
async fn what_calls_say_of_an_instance_is_noted_once_for_a_row() {
    let lb = over(chain(Pull::always("a b", Duration::ZERO)), RoundRobin::default());
    lb.ready().await.unwrap();
    for _ in 0..3 {
        end_on(&lb, "a", Outcome::Status(503)).await;
    }
    end_on(&lb, "a", Outcome::Status(200)).await;
    refuse(&lb, "b").await;
    advance(1.0).await;
    end_on(&lb, "b", Outcome::Success).await;
    let changes = lb.change_log();
    let wanted =
        [ChangeKind::Listed, ChangeKind::Failing, ChangeKind::Well, ChangeKind::Skipped, ChangeKind::Back];
    assert_eq!(kinds(&changes), wanted);
    assert_eq!(changes[1].detail, "a failure counts as 16 calls in flight for 1000 ms");
}

#[tokio::test(start_paused = true)]
async fn an_outage_and_an_empty_list_have_a_beginning_and_an_end() {
    let lb = balancer(Pull::timed(|at| match at {
        at if at < 30.0 => Ok(list("a")),
        at if at < 50.0 => Err(refused()),
        at if at < 100.0 => Ok(Vec::new()),
        _ => Ok(list("a")),
    }));
    lb.ready().await.unwrap();
    for _ in 0..120 {
        advance(1.0).await;
        let _ = lb.choose(&Request::EMPTY).await;
        settle().await;
    }
    let changes = lb.change_log();
    let wanted = [
        ChangeKind::Listed,
        ChangeKind::SourceFailed,
        ChangeKind::SourceRecovered,
        ChangeKind::GuardOn,
        ChangeKind::NothingToChoose,
        ChangeKind::Removed,
        ChangeKind::GuardOff,
        ChangeKind::ChoiceAgain,
        ChangeKind::Added,
    ];
    assert_eq!(kinds(&changes), wanted, "{changes:#?}");
    assert!(changes[1].detail.contains("connection refused"), "{}", changes[1].detail);
    assert_eq!(changes[6].detail, "the empty list is believed now");
}

#[tokio::test(start_paused = true)]
async fn verdicts_of_health_checks_and_the_panic_are_noted() {
    let probe = Fake::new();
    probe.set("a", Some(0), false);
    let check = HealthCheck::new(probe.clone()).with_interval(Duration::from_secs(10));
    let lb = fixed(list("a b"), |chain| chain.with_health_checks(check), RoundRobin::default());
    lb.ready().await.unwrap();
    settle().await;
    probe.set("b", Some(0), false);
    advance(13.0).await;
    settle().await;
    probe.set("b", Some(0), true);
    advance(13.0).await;
    settle().await;
    let changes = lb.change_log();
    let wanted = [
        ChangeKind::Listed,
        ChangeKind::CheckFailed,
        ChangeKind::CheckFailed,
        ChangeKind::PanicOn,
        ChangeKind::CheckPassed,
        ChangeKind::PanicOff,
    ];
    assert_eq!(kinds(&changes), wanted, "{changes:#?}");
    assert_eq!(changes[4].instance.as_deref(), Some("b (b.test:8080)"));
}

#[tokio::test(start_paused = true)]
async fn configuration_that_is_applied_and_that_is_not() {
    let live = LiveProperties::new(Properties::default());
    let registry = SimpleDiscovery::new().with_instances("orders", list("a")).unwrap();
    let balancers = LoadBalancers::builder(registry).live(live.clone()).build().unwrap();
    balancers.get("orders").unwrap().ready().await.unwrap();
    balancers.get("users").unwrap();
    live.replace(Properties::default().set_for("orders", "policy", "least-request").unwrap());
    settle().await;
    let text = "evenkeel.clients.orders: {configurations: api-version, policy: maglev}";
    live.replace(Properties::parse(text, Format::Yaml, "application.yml").unwrap());
    settle().await;
    let changes = balancers.change_log("ORDERS").unwrap();
    assert_eq!(kinds(&changes), [ChangeKind::Listed, ChangeKind::ConfigApplied, ChangeKind::ConfigRefused]);
    assert_eq!(changes[1].detail, "policy round-robin -> least-request");
    assert!(changes[2].detail.contains("orders"), "{}", changes[2].detail);
    assert_eq!(kinds(&balancers.change_log("users").unwrap()), [ChangeKind::ConfigRefused]);
    assert_eq!(balancers.status("orders").unwrap().policy, "least-request");
}

#[tokio::test(start_paused = true)]
async fn a_list_of_thousands_does_not_push_everything_out() {
    let registry = SimpleDiscovery::new();
    let orders = ServiceId::new("orders").unwrap();
    let many = |from: usize| (from..from + 3_000).map(|n| instance(&format!("i{n}"))).collect::<Vec<_>>();
    registry.set(&orders, many(0));
    let lb = balancer(registry.clone());
    lb.ready().await.unwrap();
    registry.set(&orders, many(3_000));
    advance(40.0).await;
    drop(lb.choose(&Request::EMPTY).await.unwrap());
    settle().await;
    let changes = lb.change_log();
    assert_eq!(changes.len(), 1 + 2 * 17);
    assert_eq!(
        (changes[17].detail.as_str(), changes[34].detail.as_str()),
        ("and 2984 more", "and 2984 more")
    );
}

/// With a real file and a real clock, since a file that cannot be read is told by who follows it.
#[tokio::test]
async fn a_followed_file_that_cannot_be_read_is_noted_in_every_service() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("application.yml");
    let write = |text: &str| {
        let beside = path.with_extension("new");
        std::fs::write(&beside, text).unwrap();
        std::fs::rename(&beside, &path).unwrap();
    };
    write("evenkeel.zone: a");
    let registry = SimpleDiscovery::new().with_instances("orders", list("a")).unwrap();
    let balancers = LoadBalancers::builder(registry).watch_file(&path).build().unwrap();
    balancers.get("orders").unwrap().ready().await.unwrap();
    let until = |kind: ChangeKind| {
        let balancers = balancers.clone();
        async move {
            let started = std::time::Instant::now();
            loop {
                let changes = balancers.change_log("orders").unwrap();
                if let Some(change) = changes.into_iter().rfind(|change| change.kind == kind) {
                    return change;
                }
                assert!(started.elapsed() < Duration::from_secs(20), "no {kind}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    };
    write("evenkeel.zone: b");
    assert_eq!(until(ChangeKind::ConfigApplied).await.detail, "zone a -> b");
    write("evenkeel.overrides: [{drain.zone: b, until: soon, reason: x}]");
    let refused = until(ChangeKind::ConfigRefused).await;
    assert!(refused.detail.contains("evenkeel.overrides[0].until = \"soon\""), "{}", refused.detail);
    assert!(balancers.status("orders").unwrap().overrides.is_empty());
}
