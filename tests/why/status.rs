use super::*;
use crate::support::{
    Fake, Pull, advance, balancer, chain, fixed, instance, list, over, refused, settle, with,
};
use evenkeel::health::HealthCheck;
use evenkeel::observe::{InstanceCondition, InstanceStatus, Page, ServiceStatus};
use evenkeel::policy::{LeastRequest, PeakEwma, RoundRobin};
use evenkeel::supplier::ZonePreference;
use evenkeel::{ServiceInstance, Status};

fn row<'a>(status: &'a ServiceStatus, id: &str) -> &'a InstanceStatus {
    status.instances.iter().find(|one| one.id == id).unwrap_or_else(|| panic!("no {id} in {status}"))
}

fn zoned(id: &str, zone: &str) -> ServiceInstance {
    instance(id).to_builder().zone(zone).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn before_the_first_list_and_after_it() {
    let lb = LoadBalancer::builder(chain(Pull::always("a b", Duration::ZERO)).build().unwrap())
        .wall_clock(wall())
        .build();
    let status = lb.status();
    assert_eq!((status.verdict.as_slice(), status.list.clone()), (&["NO LIST".to_owned()][..], None));
    assert!(status.look_up.due && status.look_up.callers_wait && status.source.state == "unknown");
    lb.ready().await.unwrap();
    advance(2.0).await;
    let status = lb.status();
    assert_eq!((status.service.as_str(), status.verdict.join("")), ("orders", "ok".to_owned()));
    assert_eq!(status.at, "2026-11-30T20:00:02.000Z");
    let list = status.list.clone().unwrap();
    assert_eq!((list.version, list.origin.as_str(), list.age_ms), (1, "pull", 2_000));
    assert_eq!((list.known, list.usable, list.spread, list.nothing), (2, 2, 2, None));
    assert_eq!((status.source.state.as_str(), status.source.answered_ago_ms), ("healthy", Some(2_000)));
    assert_eq!((status.policy.as_str(), status.zone.mode.as_str()), ("round-robin", "off"));
    assert_eq!((status.counts.known, status.counts.in_use, status.counts.in_flight), (2, 2, 0));
    lb.close().await;
    assert_eq!(lb.status().verdict[0], "CLOSED");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_refuses_is_skipped_then_due_then_probing_then_back() {
    let lb = balancer(Pull::always("a b c", Duration::ZERO));
    refuse(&lb, "b").await;
    advance(0.25).await;
    let status = lb.status();
    let b = row(&status, "b");
    assert_eq!((b.state, b.for_ms, b.left_ms), (InstanceCondition::Skipped, Some(250), Some(750)));
    assert_eq!(b.reason.as_deref(), Some("calls could not be sent: back-off 1 in a row"));
    assert_eq!(
        (status.counts.in_use, status.counts.skipped, status.verdict.join("")),
        (2, 1, "1 of 3 out of use".into())
    );
    assert_eq!(status.instances[0].id, "b", "what is wrong stands first");
    assert!(status.to_string().contains("skipped"), "{status}");
    advance(0.75).await;
    let status = lb.status();
    assert_eq!((row(&status, "b").state, status.counts.probe_due), (InstanceCondition::ProbeDue, 1));
    let mut probing = None;
    for _ in 0..9 {
        let choice = lb.choose(&Request::EMPTY).await.unwrap();
        if choice.instance().id() == "b" {
            probing = Some(choice);
        }
    }
    let status = lb.status();
    let b = row(&status, "b");
    assert_eq!((b.state, b.in_flight, b.for_ms), (InstanceCondition::Probing, 1, Some(1_000)));
    probing.unwrap().complete(Outcome::Success);
    let status = lb.status();
    assert_eq!((row(&status, "b").state, row(&status, "b").for_ms), (InstanceCondition::InUse, None));
    assert!(row(&status, "b").calls >= 2, "{status}");
}

#[tokio::test(start_paused = true)]
async fn failures_that_count_as_load_say_so_and_for_how_long() {
    let lb = over(chain(Pull::always("a b", Duration::ZERO)), LeastRequest);
    end_on(&lb, "a", Outcome::Status(503)).await;
    advance(0.4).await;
    let status = lb.status();
    let a = row(&status, "a");
    assert_eq!((a.state, a.load, a.in_flight), (InstanceCondition::Failing, 16, 0));
    assert_eq!((a.for_ms, a.left_ms), (Some(400), Some(600)));
    assert_eq!((status.counts.failing, status.counts.in_use), (1, 2));
    advance(1.0).await;
    let status = lb.status();
    let a = row(&status, "a");
    assert_eq!((a.state, a.load, a.left_ms), (InstanceCondition::Failing, 0, None));
    end_on(&lb, "a", Outcome::Status(200)).await;
    assert_eq!(row(&lb.status(), "a").state, InstanceCondition::InUse);
}

#[tokio::test(start_paused = true)]
async fn latencies_and_weights_are_shown_where_they_are_kept() {
    let weighted = |chain: evenkeel::SupplierBuilder| chain.with_weights();
    let lb = fixed(with("weight", "a=1 b=2.5"), weighted, PeakEwma::default());
    for _ in 0..8 {
        let choice = lb.choose(&Request::EMPTY).await.unwrap();
        advance(0.02).await;
        choice.complete(Outcome::Success);
    }
    let status = lb.status();
    assert_eq!((row(&status, "a").weight, row(&status, "b").weight), (Some(1.0), Some(2.5)));
    let latency = row(&status, "b").latency_ms.unwrap();
    assert!((latency - 20.0).abs() < 2.0, "{latency}");
    let plain = fixed(list("a"), |chain| chain, RoundRobin::default());
    plain.ready().await.unwrap();
    assert_eq!((row(&plain.status(), "a").latency_ms, row(&plain.status(), "a").weight), (None, None));
}

#[tokio::test(start_paused = true)]
async fn who_is_left_out_is_told_by_which_stage_and_why() {
    let probe = Fake::new();
    probe.set("sick", Some(0), false);
    let down = instance("down").to_builder().status(Status::Down).build().unwrap();
    let draining = instance("draining").to_builder().status(Status::Draining).zone("eu-1a").build().unwrap();
    let light = instance("light").to_builder().with_metadata("weight", "0").build().unwrap();
    let mut all =
        vec![down, draining, light, zoned("here", "EU-1A"), zoned("far", "eu-1b"), instance("sick")];
    all.push(zoned("here", "EU-1A"));
    let shape = |chain: evenkeel::SupplierBuilder| {
        chain.with_zone_preference("eu-1a").with_health_checks(HealthCheck::new(probe.clone()))
    };
    let lb = fixed(all, shape, RoundRobin::default());
    lb.ready().await.unwrap();
    settle().await;
    let status = lb.status();
    let told = |id: &str| {
        let row = row(&status, id);
        (row.state, row.stage.clone().unwrap_or_default(), row.reason.clone().unwrap_or_default())
    };
    let said = |state, stage: &str, reason: &str| (state, stage.to_owned(), reason.to_owned());
    assert_eq!(told("down"), said(InstanceCondition::Down, "status", "its status is down"));
    let better = "its status is draining, and a better one is there";
    assert_eq!(told("draining"), said(InstanceCondition::Draining, "status", better));
    assert_eq!(
        told("light"),
        said(InstanceCondition::Draining, "weight", "its weight is 0, which drains it")
    );
    let (state, stage, reason) = told("sick");
    assert_eq!((state, stage.as_str()), (InstanceCondition::LeftOut, "health"));
    assert!(reason.starts_with("1 health checks failed in a row, the last with "), "{reason}");
    let zone = "zone eu-1b, and this client is in eu-1a";
    assert_eq!(told("far"), said(InstanceCondition::LeftOut, "zone-preference", zone));
    assert_eq!(told("here"), said(InstanceCondition::InUse, "", ""));
    let counts = status.counts;
    assert_eq!((counts.known, counts.in_use, counts.down, counts.draining, counts.left_out), (6, 1, 1, 2, 2));
    assert_eq!((status.zone.own.as_deref(), status.zone.mode.as_str()), (Some("eu-1a"), "own"));
    let stages: Vec<_> =
        status.stages.iter().map(|one| (one.stage.as_str(), one.before, one.after)).collect();
    let wanted = [
        ("duplicates", 7, 6),
        ("weight", 6, 5),
        ("status", 5, 3),
        ("health", 3, 2),
        ("zone-preference", 2, 1),
    ];
    assert_eq!(stages, wanted);
}

#[tokio::test(start_paused = true)]
async fn a_zone_preference_that_is_off_says_why_and_asking_probes_nobody() {
    let probe = Fake::new();
    let shape = |chain: evenkeel::SupplierBuilder| {
        chain
            .with_zone_preference(ZonePreference::new("eu-1a").with_min_local_instances(2))
            .with_health_checks(HealthCheck::new(probe.clone()))
    };
    let lb = fixed(
        vec![zoned("a", "eu-1a"), zoned("b", "eu-1b"), zoned("c", "eu-1b")],
        shape,
        RoundRobin::default(),
    );
    lb.ready().await.unwrap();
    settle().await;
    let asked = probe.log().len();
    let version = lb.snapshot().unwrap().version();
    for _ in 0..20 {
        drop(lb.status());
    }
    let status = lb.status();
    settle().await;
    assert_eq!(
        (status.zone.mode.as_str(), status.zone.why.as_deref()),
        ("all", Some("too few instances are in it"))
    );
    assert_eq!((probe.log().len(), lb.snapshot().unwrap().version()), (asked, version));
}

#[tokio::test(start_paused = true)]
async fn everybody_is_used_when_none_passes_or_none_is_in_use() {
    let probe = Fake::new();
    for id in ["a", "b"] {
        probe.set(id, Some(0), false);
    }
    let shape = |chain: evenkeel::SupplierBuilder| chain.with_health_checks(HealthCheck::new(probe));
    let lb = fixed(list("a b"), shape, RoundRobin::default());
    lb.ready().await.unwrap();
    settle().await;
    let status = lb.status();
    assert_eq!(status.panic.as_deref(), Some("no instance passes its health check: all are used"));
    assert_eq!(status.verdict[0], "PANIC: all are used");
    let lb = fixed(list("a b"), |chain| chain, RoundRobin::default());
    lb.ready().await.unwrap();
    assert_eq!(lb.status().panic, None);
    refuse(&lb, "a").await;
    refuse(&lb, "b").await;
    assert_eq!(
        lb.status().panic.as_deref(),
        Some("every instance is out of use: picks go to those all the same")
    );
}

#[tokio::test(start_paused = true)]
async fn a_source_that_fails_and_an_empty_answer_are_seen_with_their_times() {
    let lb = balancer(Pull::timed(|at| match at {
        at if at < 30.0 => Ok(list("a b")),
        at if at < 60.0 => Err(refused()),
        at if at < 200.0 => Ok(Vec::new()),
        _ => Ok(list("a")),
    }));
    lb.ready().await.unwrap();
    advance(40.0).await;
    drop(lb.choose(&Request::EMPTY).await.unwrap());
    settle().await;
    let status = lb.status();
    assert_eq!((status.source.state.as_str(), status.source.failures), ("failing", 1));
    assert!(status.source.error.as_ref().unwrap().contains("connection refused"), "{status}");
    assert_eq!((status.source.failed_ago_ms, status.source.answered_ago_ms), (Some(0), Some(40_000)));
    let back_off = status.look_up.back_off_ms.unwrap();
    assert!((100..=1_000).contains(&back_off), "{back_off}");
    assert_eq!(status.list.as_ref().map(|list| list.origin.as_str()), Some("stale"));
    for _ in 0..40 {
        advance(1.0).await;
        let _ = lb.choose(&Request::EMPTY).await;
        settle().await;
    }
    let status = lb.status();
    assert!(status.guard.on, "{status}");
    let (passed, left) = (status.guard.for_ms.unwrap(), status.guard.left_ms.unwrap());
    assert_eq!(passed + left, 30_000);
    assert_eq!((status.source.error, status.source.failures), (None, 0));
    assert!(status.source.failed_ago_ms.is_some_and(|ago| ago > 0), "when it failed last is still known");
    assert!(status.verdict.contains(&"the empty guard is on".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn calls_to_instances_that_left_are_shown_until_they_end() {
    let lb = balancer(Pull::timed(|at| Ok(list(if at < 10.0 { "a b" } else { "b" }))));
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(lb.choose(&Request::EMPTY).await.unwrap());
    }
    advance(40.0).await;
    lb.choose(&Request::EMPTY).await.unwrap().complete(Outcome::Success);
    settle().await;
    let status = lb.status();
    let a = row(&status, "a");
    assert_eq!((a.state, a.in_flight), (InstanceCondition::Gone, 1));
    assert_eq!((status.counts.gone, status.counts.in_flight, status.counts.in_flight_gone), (1, 2, 1));
    held.clear();
    assert!(lb.status().instances.iter().all(|one| one.id != "a"));
}

#[tokio::test(start_paused = true)]
async fn pages_follow_each_other_without_a_gap() {
    let ids: Vec<String> = (0..25).map(|n| format!("i{n:02}")).collect();
    let lb = fixed(ids.iter().map(|id| instance(id)).collect(), |chain| chain, RoundRobin::default());
    lb.ready().await.unwrap();
    refuse(&lb, "i13").await;
    let mut seen = Vec::new();
    for offset in [0, 10, 20] {
        let status = lb.status_page(Page::default().with_offset(offset).with_limit(10));
        assert_eq!((status.before, status.left_off), (offset, 25 - offset - status.instances.len()));
        seen.extend(status.instances.into_iter().map(|one| one.id));
    }
    assert_eq!(seen[0], "i13");
    seen.sort();
    assert_eq!(seen, ids);
    let past = lb.status_page(Page::default().with_offset(99));
    assert_eq!((past.instances.len(), past.before, past.left_off), (0, 25, 0));
}

#[tokio::test(start_paused = true)]
async fn json_has_kebab_case_names_times_in_ms_and_no_metadata() {
    let secret = instance("a").to_builder().with_metadata("token", "hush-hush").build().unwrap();
    let lb = fixed(vec![secret, instance("b")], |chain| chain, RoundRobin::default());
    lb.ready().await.unwrap();
    refuse(&lb, "b").await;
    let json = serde_json::to_value(lb.status()).unwrap();
    assert_eq!(json["instances"][0]["state"], "skipped");
    assert_eq!(json["instances"][0]["left-ms"], 1_000);
    assert_eq!((&json["list"]["age-ms"], &json["counts"]["in-use"]), (&0.into(), &1.into()));
    assert_eq!(json["look-up"]["callers-wait"], false);
    for text in [json.to_string(), lb.status().to_string(), format!("{:?}", lb.status())] {
        assert!(!text.contains("hush"), "{text}");
    }
    assert!(serde_json::to_string(&lb.explain(&Request::EMPTY)).unwrap().contains("\"standing\":\"unfit\""));
}

#[tokio::test(start_paused = true)]
async fn a_subset_says_whom_it_leaves_out_and_a_stage_that_panics_takes_no_report_with_it() {
    #[derive(Debug)]
    struct Moody(std::sync::Arc<std::sync::atomic::AtomicBool>);
    impl evenkeel::supplier::ListStage for Moody {
        fn name(&self) -> &str {
            "moody"
        }
        fn rank(&self) -> evenkeel::supplier::Rank {
            evenkeel::supplier::Rank::Filter(0)
        }
        fn apply(&self, _: &mut Vec<ServiceInstance>, cx: &evenkeel::supplier::StageCx<'_>) {
            assert!(!cx.is_rehearsal() || !self.0.load(std::sync::atomic::Ordering::SeqCst), "on purpose");
        }
    }
    let moody = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stage = Moody(moody.clone());
    let shape = |chain: evenkeel::SupplierBuilder| {
        chain.with_subset(evenkeel::supplier::Subset::of_size(2).with_ordinal(0)).with_list_stage(stage)
    };
    let lb = fixed(list("a b c d"), shape, RoundRobin::default());
    lb.ready().await.unwrap();
    let status = lb.status();
    assert_eq!((status.counts.in_use, status.counts.left_out), (2, 2));
    let out = status.instances.iter().find(|one| one.state == InstanceCondition::LeftOut).unwrap();
    assert_eq!(out.stage.as_deref(), Some("subset"));
    assert_eq!(out.reason.as_deref(), Some("it is not one of the 2 of this client"));
    moody.store(true, std::sync::atomic::Ordering::SeqCst);
    let status = lb.status();
    let moody = status.stages.iter().find(|one| one.stage == "moody").unwrap();
    assert_eq!((moody.before, moody.after, moody.note.as_deref()), (4, 4, Some("it panicked")));
    assert_eq!(status.counts.in_use, 2);
}
