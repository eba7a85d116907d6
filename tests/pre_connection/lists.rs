//! Who is new, and what becomes of those who leave.

use evenkeel::config::{Override, PreConnectionProperties};
use evenkeel::health::HealthCheck;
use evenkeel::policy::RoundRobin;
use evenkeel::supplier::Subset;
use evenkeel::{InstanceState, LoadBalancer, Request, Status, SupplierBuilder};

use super::fake::*;
use crate::support::*;

async fn over(
    live: &Live,
    fake: &Scripted,
    shape: impl FnOnce(SupplierBuilder) -> SupplierBuilder,
) -> LoadBalancer {
    let chain = shape(chain(live.source()));
    let lb = LoadBalancer::builder(chain.build().unwrap())
        .policy(RoundRobin::starting_at(-1))
        .pre_connection(on())
        .pre_connect(fake.clone())
        .build();
    pick(&lb).await;
    settle().await;
    lb
}

#[tokio::test(start_paused = true)]
async fn the_first_list_is_connected_if_a_property_says_so_and_nobody_waits_for_it() {
    let (live, fake) = (Live::new(list("a b c")), Scripted::new());
    fake.set("a b c", Try::After(500));
    let lb = started(&live, &fake, on().with_first_list(true)).await;
    assert_eq!((fake.asked(), fake.now(), connecting(&lb).as_str()), (3, 0, ""));
    even(&picks(&lb, 300).await, "a b c", 100, 1);
    to(&fake, 500).await;
    assert_eq!(lb.change_log().last().unwrap().detail, "3 of 3 connected after 500 ms");
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_is_not_the_first() {
    let (live, fake) = (Live::new(Vec::new()), Scripted::new());
    let lb = LoadBalancer::builder(chain(live.source()).build().unwrap())
        .pre_connection(on())
        .pre_connect(fake.clone())
        .build();
    lb.choose(&Request::EMPTY).await.unwrap_err();
    live.set(list("a b")).await;
    even(&picks(&lb, 20).await, "a b", 10, 0);
    assert_eq!(fake.asked(), 0, "there was nothing to compare these with");
    live.set(list("a b c")).await;
    assert_eq!(fake.times("c").len(), 1);
}

/// All are new, as when one set of processes takes the place of another: the first that is connected must not get everything.
#[tokio::test(start_paused = true)]
async fn when_all_are_new_nobody_is_held() {
    let (live, fake) = (Live::new(list("a b")), Scripted::new());
    let lb = started(&live, &fake, on()).await;
    fake.set("c", Try::After(10));
    fake.set("d e", Try::Hangs);
    live.set(list("c d e")).await;
    let begun = fake.now();
    assert_eq!((connecting(&lb).as_str(), fake.asked()), ("", 3));
    even(&picks(&lb, 300).await, "c d e", 100, 1);
    to(&fake, begun + 100).await;
    even(&picks(&lb, 300).await, "c d e", 100, 1);
}

#[tokio::test(start_paused = true)]
async fn when_those_in_use_leave_those_that_are_held_come_in() {
    let (live, fake) = (Live::new(list("a")), Scripted::new());
    let lb = started(&live, &fake, on()).await;
    fake.set("b c", Try::After(1_500));
    live.set(list("a b c")).await;
    let begun = fake.now();
    assert_eq!(connecting(&lb), "bc");
    live.set(list("b c d")).await;
    assert_eq!(connecting(&lb), "");
    even(&picks(&lb, 300).await, "b c d", 100, 1);
    // Their connections are opened all the same.
    to(&fake, begun + 1_500).await;
    let done = |change: &evenkeel::observe::Change| change.detail.starts_with("2 of 2 connected");
    assert!(lb.change_log().iter().any(done));
}

#[tokio::test(start_paused = true)]
async fn who_leaves_meanwhile_is_tried_no_more_and_does_not_count() {
    let (live, fake) = (Live::new(list("a")), Scripted::new());
    // Of two, floor(2 * 0.5): one is enough; of three it is one too, of four it would be two.
    let lb = started(&live, &fake, on().with_ratio(0.5)).await;
    fake.set("b", Try::After(1_000));
    fake.set("c d e", Try::Hangs);
    live.set(list("a b c d e")).await;
    let begun = fake.now();
    assert_eq!(fake.running(), 4);
    to(&fake, begun + 500).await;
    live.set(list("a b c")).await;
    assert_eq!((connecting(&lb).as_str(), fake.running()), ("bc", 2));
    to(&fake, begun + 1_000).await;
    assert_eq!(connecting(&lb), "", "one of the two that are left is enough");
    to(&fake, begun + 30_000).await;
    assert_eq!((fake.times("d").len(), fake.running()), (1, 0));
    let told = lb.change_log().last().unwrap().detail.clone();
    assert!(told.starts_with("1 of 2 connected"), "{told}");
}

/// Neither does one that was connected when it left.
#[tokio::test(start_paused = true)]
async fn who_leaves_connected_does_not_count_either() {
    let (live, fake) = (Live::new(list("a")), Scripted::new());
    // floor(4 * 0.5) = 2; of the three that are left it is one.
    let lb = started(&live, &fake, on().with_ratio(0.5).with_max_retries(0)).await;
    fake.set("c", Try::After(1_000));
    fake.set("d", Try::Hangs);
    fake.set("e", Try::Refused(500));
    live.set(list("a b c d e")).await;
    let begun = fake.now();
    assert_eq!(connecting(&lb), "cde");
    live.set(list("a c d e")).await;
    to(&fake, begun + 999).await;
    assert_eq!(connecting(&lb), "cd");
    to(&fake, begun + 1_000).await;
    assert_eq!(connecting(&lb), "");
}

#[tokio::test(start_paused = true)]
async fn one_that_leaves_and_returns_is_new_again() {
    let (live, fake) = (Live::new(list("a b")), Scripted::new());
    let lb = started(&live, &fake, on()).await;
    fake.set("b c", Try::After(1_000));
    live.set(list("a b c")).await;
    let begun = fake.now();
    // While it was being connected.
    to(&fake, begun + 600).await;
    live.set(list("a b")).await;
    assert_eq!(fake.running(), 0);
    live.set(list("a b c")).await;
    assert_eq!((connecting(&lb).as_str(), fake.times("c").len()), ("c", 2));
    to(&fake, begun + 1_599).await;
    assert_eq!(connecting(&lb), "c");
    to(&fake, begun + 1_600).await;
    assert_eq!(connecting(&lb), "");
    // One that was in use: the clients let its connections go when it left.
    live.set(list("a c")).await;
    live.set(list("a b c")).await;
    assert_eq!((connecting(&lb).as_str(), fake.times("b").len()), ("b", 1));
    to(&fake, fake.now() + 1_000).await;
    even(&picks(&lb, 300).await, "a b c", 100, 0);
    assert_eq!(lb.tracked(), 3);
}

/// The limit of those it first came with is not its own.
#[tokio::test(start_paused = true)]
async fn one_that_returns_is_waited_for_with_those_it_returns_with() {
    let (live, fake) = (Live::new(list("a")), Scripted::new());
    let lb = started(&live, &fake, on().with_timeout(MS(3_000))).await;
    fake.set("b c", Try::Hangs);
    live.set(list("a b c")).await;
    let begun = fake.now();
    to(&fake, begun + 1_000).await;
    live.set(list("a c")).await;
    live.set(list("a b c")).await;
    for (at, held) in [(2_999, "bc"), (3_000, "b"), (3_999, "b"), (4_000, "")] {
        to(&fake, begun + at).await;
        assert_eq!(connecting(&lb), held, "at {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_says_the_same_or_other_things_of_them_begins_nothing() {
    let (live, fake) = (Live::new(list("a b")), Scripted::new());
    let lb = started(&live, &fake, on()).await;
    live.set(list("b a")).await;
    live.set(with("tier", "a=1 b=2")).await;
    assert_eq!((fake.asked(), connecting(&lb).as_str()), (0, ""));
}

/// One that is down or drains is no part of it, until it is up.
#[tokio::test(start_paused = true)]
async fn who_is_down_or_drains_is_connected_once_it_is_neither() {
    let with_status = |id: &str, status| instance(id).to_builder().status(status).build().unwrap();
    for divided in [false, true] {
        let (live, fake) = (Live::new(list("a")), Scripted::new());
        let lb =
            over(&live, &fake, |chain| if divided { chain.with_panic_threshold(10) } else { chain }).await;
        fake.set("b c", Try::After(1_000));
        let all = |b, c| vec![instance("a"), with_status("b", b), with_status("c", c)];
        live.set(all(Status::Down, Status::Draining)).await;
        to(&fake, fake.now() + 100).await;
        assert_eq!(fake.asked(), 0, "divided: {divided}");
        live.set(all(Status::Up, Status::Draining)).await;
        assert_eq!((fake.times("b").len(), fake.times("c").len()), (1, 0), "divided: {divided}");
        even(&picks(&lb, 20).await, "a", 20, 0);
        // Down again meanwhile: nothing is tried any more, and it is down and not held.
        live.set(all(Status::Down, Status::Up)).await;
        assert_eq!((fake.running(), fake.times("c").len()), (1, 1), "divided: {divided}");
        to(&fake, fake.now() + 1_100).await;
        even(&picks(&lb, 20).await, "a c", 10, 1);
    }
}

/// An override that ends is as a new list.
#[tokio::test(start_paused = true)]
async fn who_comes_back_from_a_drain_is_connected_again() {
    let (live, fake) = (Live::new(list("a b")), Scripted::new());
    let lb = started(&live, &fake, on()).await;
    fake.set("b", Try::After(300));
    let id = lb.override_with(Override::drain_instance("b").lasting(MS(60_000)).because("a test")).unwrap();
    even(&picks(&lb, 10).await, "a", 10, 0);
    assert!(lb.end_override(id));
    settle().await;
    assert_eq!((connecting(&lb).as_str(), fake.times("b").len()), ("b", 1));
    to(&fake, fake.now() + 300).await;
    even(&picks(&lb, 20).await, "a b", 10, 0);
}

#[tokio::test(start_paused = true)]
async fn who_passes_its_health_check_after_it_did_not_is_connected() {
    let (live, fake, probe) = (Live::new(list("a b c")), Scripted::new(), Fake::new());
    let check = HealthCheck::new(probe.clone()).with_interval(MS(5_000));
    let lb = over(&live, &fake, |chain| chain.with_health_checks(check)).await;
    probe.set("b", Some(0), false);
    to(&fake, 30_000).await;
    assert_eq!((fake.asked(), count(&picks(&lb, 20).await, "b")), (0, 0));
    fake.set("b", Try::After(20_000));
    probe.set("b", Some(0), true);
    to(&fake, 42_000).await;
    assert!(!fake.times("b").is_empty() && state(&lb, "b", InstanceState::is_connecting));
}

/// A client connects to whom it will call: its own subset, and who takes the place of one that left it.
#[tokio::test(start_paused = true)]
async fn only_the_own_subset_is_connected() {
    let ids: Vec<String> = (0..30).map(|n| format!("i{n:02}")).collect();
    let (live, fake) = (Live::new(list(&ids[..20].join(" "))), Scripted::new());
    let lb = over(&live, &fake, |chain| chain.with_subset(Subset::of_size(4).with_client("me"))).await;
    let subset = |lb: &LoadBalancer| usable(lb);
    let before = subset(&lb);
    // Others that come are connected only if they are of the subset.
    live.set(list(&ids.join(" "))).await;
    to(&fake, fake.now() + 10).await;
    let after = subset(&lb);
    let of_subset = |id: &&String| after.contains(id.as_str());
    let new: Vec<&String> = ids.iter().filter(of_subset).filter(|id| !before.contains(id.as_str())).collect();
    assert_eq!(fake.asked(), new.len());
    assert!(new.iter().all(|id| fake.times(id).len() == 1), "{before} {after}");
    // Those of the subset leave one by one: who takes the place was listed all the time, and is connected now.
    let (mut rest, mut known, mut total) = (ids, format!("{before}{after}"), 0);
    for _ in 0..8 {
        let now = subset(&lb);
        rest.retain(|id| !now.starts_with(id.as_str()));
        let asked = fake.asked();
        live.set(list(&rest.join(" "))).await;
        let now = subset(&lb);
        let joined: Vec<&String> =
            rest.iter().filter(|id| now.contains(id.as_str()) && !known.contains(id.as_str())).collect();
        assert_eq!(fake.asked() - asked, joined.len(), "{now} after {known}");
        assert!(joined.iter().all(|id| fake.times(id).len() == 1));
        total += joined.len();
        known.push_str(&now);
    }
    assert!(total > 2, "{total}");
}

/// A group of which all are new: requests for it go to others where they may, and to those that are held where they may not.
#[tokio::test(start_paused = true)]
async fn a_strict_group_of_new_ones_is_served_by_them() {
    use evenkeel::supplier::ApiVersion;
    for divided in [false, true] {
        let (live, fake) = (Live::new(with("API_VERSION", "a=1 b=1")), Scripted::new());
        let lb = over(&live, &fake, |chain| {
            let chain = chain.with_api_version(ApiVersion::default().with_default("1").with_header("v"));
            if divided { chain.with_panic_threshold(50) } else { chain }
        })
        .await;
        fake.set("c d", Try::Hangs);
        live.set(with("API_VERSION", "a=1 b=1 c=2 d=2")).await;
        let mut headers = http::HeaderMap::new();
        headers.insert("v", "2".parse().unwrap());
        let method = http::Method::GET;
        let view = evenkeel::HttpView::with_text(&method, "/", &headers);
        // Until the traffic is divided anew, and after that.
        for after in [0, 100] {
            to(&fake, fake.now() + after).await;
            assert_eq!(connecting(&lb), "cd", "divided: {divided}");
            let mut seen = Vec::new();
            for _ in 0..40 {
                seen.push(pick_for(&lb, &Request::of(&view)).await);
            }
            even(&seen, "c d", 20, 12);
            even(&picks(&lb, 20).await, "a b", 10, 0);
        }
    }
}

/// Where traffic is divided by who is usable, those that are being connected are neither usable nor missing.
#[tokio::test(start_paused = true)]
async fn traffic_is_divided_as_if_those_that_are_held_were_not_listed() {
    let (live, fake) = (Live::new(list("a b")), Scripted::new());
    let lb = over(&live, &fake, |chain| chain.with_panic_threshold(50)).await;
    let new = "c d e f g h";
    fake.set(new, Try::After(1_000));
    live.set(list(&format!("a b {new}"))).await;
    let begun = fake.now();
    // Gathered for 50 ms, then divided anew.
    to(&fake, begun + 60).await;
    let report = |lb: &LoadBalancer| {
        let list = lb.snapshot().unwrap();
        let report = list.distribution().unwrap();
        (report.is_panic(), report.priorities()[0].listed, report.priorities()[0].healthy)
    };
    assert_eq!(report(&lb), (false, 2, 2));
    assert_eq!(connecting_listed(&lb), 6);
    even(&picks(&lb, 40).await, "a b", 20, 0);
    // Two of them at a time at most are left to connect: five turns.
    to(&fake, begun + 2_100).await;
    assert_eq!(report(&lb), (false, 8, 8));
    even(&picks(&lb, 80).await, &format!("a b {new}"), 10, 1);
    assert_eq!(fake.asked(), 6, "that they are part of the traffic again makes nobody new");
}

fn connecting_listed(lb: &LoadBalancer) -> usize {
    lb.status().counts.connecting
}

#[tokio::test(start_paused = true)]
async fn properties_without_effect_and_odd_ones_do_no_harm() {
    for properties in [
        on().with_concurrency(0),
        on().with_ratio(f64::NAN),
        on().with_ratio(-1.0),
        on().with_ratio(7.0),
        on().with_timeout(std::time::Duration::MAX),
        on().with_timeout(MS(0)),
        on().with_connect_timeout(std::time::Duration::MAX),
        on().with_max_retries(u32::MAX),
        PreConnectionProperties::on().with_path(""),
    ] {
        let (live, fake) = (Live::new(list("a")), Scripted::new());
        let lb = started(&live, &fake, properties.clone()).await;
        fake.set("b", Try::RefusedTimes(2));
        live.set(list("a b")).await;
        to(&fake, 400).await;
        assert_eq!(connecting(&lb), "", "{properties:?}");
        even(&picks(&lb, 20).await, "a b", 10, 0);
    }
}
