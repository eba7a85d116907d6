//! API versions in a balancer: ranges, the newest compatible one, retries, other stages, and hostile requests.

mod support;

use std::collections::BTreeSet;

use evenkeel::config::{ApiVersionMatch, Properties};
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::policy::{LeastRequest, RoundRobin};
use evenkeel::supplier::{ApiVersion, MetadataRoute, Source, StickySession, Subset};
use evenkeel::{
    ChooseErrorKind, Failure, HttpView, LoadBalancer, LoadBalancers, Outcome, Reason, Request,
    SupplierBuilder, Tried,
};
use proptest::prelude::*;
use support::*;

const KEY: &str = "API_VERSION";

fn stage(matching: ApiVersionMatch) -> ApiVersion {
    ApiVersion::default().with_header("v").with_query_parameter("version").with_matching(matching)
}

fn versioned(pairs: &str, stage: ApiVersion) -> LoadBalancer {
    fixed(with(KEY, pairs), |chain| chain.with_api_version(stage), RoundRobin::default())
}

fn asking(version: &str) -> http::Request<()> {
    http::Request::builder().header("v", version).body(()).unwrap()
}

/// The ids that 40 requests see, sorted; or the reason.
async fn seen(lb: &LoadBalancer, version: &str) -> String {
    let request = asking(version);
    let view = HttpView::of(&request);
    let mut ids = BTreeSet::new();
    for _ in 0..40 {
        ids.insert(match lb.choose(&Request::of(&view)).await {
            Ok(choice) => choice.instance().id().to_owned(),
            Err(error) => match error.kind() {
                ChooseErrorKind::NoInstances { reason, .. } => format!("{reason:?}"),
                kind => panic!("{kind:?}"),
            },
        });
    }
    ids.into_iter().collect::<Vec<_>>().join(" ")
}

#[tokio::test(start_paused = true)]
async fn a_range_is_served_by_all_who_are_in_it() {
    let lb = versioned("a=1.0 b=1.2 c=1.2.0 d=1.9 e=2 f=3.1", stage(ApiVersionMatch::Range));
    for (range, expected) in [
        ("1", "a"),
        ("1.2", "b c"),
        ("1.x", "a b c d"),
        (">=1.2 <2", "b c d"),
        ("^1.1", "b c d"),
        ("~1.2", "b c"),
        (">1", "b c d e f"),
        ("*", "a b c d e f"),
        // In the order of preference.
        ("^4 || 2.x || 1", "e"),
        ("1 || 2", "a"),
        ("4.x", "NoGroup"),
        ("", "NoGroup"),
        ("1 ||", "NoGroup"),
        ("nonsense", "NoGroup"),
    ] {
        assert_eq!(seen(&lb, range).await, expected, "{range:?}");
    }
    // All of them alike: one wheel for the range.
    let request = asking("1.x");
    let view = HttpView::of(&request);
    let mut picked = Vec::new();
    for _ in 0..40 {
        picked.push(pick_for(&lb, &Request::of(&view)).await);
    }
    even(&picked, "a b c d", 10, 0);
}

#[tokio::test(start_paused = true)]
async fn of_more_versions_than_there_are_views_for_the_newest_in_the_range_serves() {
    let pairs: Vec<String> = (0..9).map(|at| format!("i{at}=1.{at}")).collect();
    let lb = versioned(&pairs.join(" "), stage(ApiVersionMatch::Range));
    assert_eq!(seen(&lb, ">=1.2 <1.6").await, "i5");
    assert_eq!(seen(&lb, "1.3").await, "i3");
    let lb = versioned(&pairs[..8].join(" "), stage(ApiVersionMatch::Range));
    assert_eq!(seen(&lb, ">=1.2 <1.6").await, "i2 i3 i4 i5");
}

#[tokio::test(start_paused = true)]
async fn the_newest_compatible_version_is_not_older_and_of_the_same_major() {
    let lb = versioned("a=1.0 b=1.2 c=1.2 d=2.0 e=2.5.1", stage(ApiVersionMatch::NewestCompatible));
    for (version, expected) in [
        ("1", "b c"),
        ("1.2", "b c"),
        ("v1.1", "b c"),
        ("1.2.1", "NoGroup"),
        ("2", "e"),
        ("2.5.1", "e"),
        ("2.6", "NoGroup"),
        ("0.9", "NoGroup"),
        ("3", "NoGroup"),
        ("1.x", "NoGroup"),
    ] {
        assert_eq!(seen(&lb, version).await, expected, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_malformed_instance_spoils_nothing_and_is_told_once() {
    let log = Log::default();
    let _captured = log.capture();
    let live = Live::new(with(KEY, "a=1 b=1.0-beta c=1"));
    let chain = chain(live.source()).with_api_version(stage(ApiVersionMatch::Exact)).with_hints();
    let lb = over(chain, RoundRobin::default());
    assert_eq!(seen(&lb, "1").await, "a c");
    live.set(with(KEY, "a=1 b=1.0-beta c=1 d=1")).await;
    assert_eq!(seen(&lb, "1").await, "a c d");
    assert_eq!(log.count("an API version cannot be read"), 1, "{}", log.text());
    let text = log.text();
    for part in ["orders", "b.test", "1.0-beta", KEY] {
        assert!(text.contains(part), "{part} in {text}");
    }
    live.set(with(KEY, "a=1 b=1.0-rc c=1")).await;
    assert_eq!(seen(&lb, "1").await, "a c");
    assert_eq!(log.count("an API version cannot be read"), 2, "another value is another fault");
    live.set(with(KEY, "a=1 b=1.1 c= d=1")).await;
    assert_eq!(seen(&lb, "1.1").await, "b");
    assert_eq!(log.count("an API version cannot be read"), 2, "a blank one is none");
}

#[tokio::test(start_paused = true)]
async fn retries_stay_in_the_group_unless_there_is_a_fallback() {
    for (matching, version) in [(ApiVersionMatch::Exact, "1"), (ApiVersionMatch::Range, "1.x")] {
        for fallback in [false, true] {
            let lb = versioned("a=1 b=1 c=2", stage(matching).with_fallback(fallback));
            let request = asking(version);
            let view = HttpView::of(&request);
            let (mut tried, mut ids) = (Tried::new(), Vec::new());
            for _ in 0..4 {
                let choice = lb.choose(&Request::of(&view).with_tried(&tried)).await.unwrap();
                tried.add(&choice);
                ids.push(choice.instance().id().to_owned());
                choice.complete(Outcome::Failure(Failure::Connect));
            }
            let first: BTreeSet<_> = ids[..2].iter().map(String::as_str).collect();
            assert_eq!(first, BTreeSet::from(["a", "b"]), "{ids:?}");
            assert_eq!(ids[2..].contains(&"c".to_owned()), fallback, "{ids:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn versions_are_a_must_and_hints_a_wish_inside() {
    let of = |id: &str, version: &str, hint: &str| {
        let builder = instance(id).to_builder().with_metadata(KEY, version);
        builder.with_metadata("hint", hint).build().unwrap()
    };
    let list =
        vec![of("a", "1", "blue"), of("b", "1", "green"), of("c", "2", "green"), of("d", "2", "green")];
    let shape = |chain: SupplierBuilder| {
        chain
            .with_hints()
            .with_api_version(stage(ApiVersionMatch::Exact))
            .with_sticky_session(StickySession::default())
            .with_subset(Subset::of_size(1).with_client("c"))
    };
    let lb = fixed(list, shape, LeastRequest);
    let asked = async |version: &str, hint: &str, session: &str| {
        let request = http::Request::builder()
            .header("v", version)
            .header("x-sc-lb-hint", hint)
            .header("cookie", format!("sc-lb-instance-id={session}"))
            .body(())
            .unwrap();
        let view = HttpView::of(&request);
        pick_for(&lb, &Request::of(&view)).await
    };
    assert_eq!(asked("1", "blue", "").await, "a");
    assert_eq!(asked("1", "green", "").await, "b");
    // Nobody of version 2 is blue: all of version 2, of whom one is this client's.
    let alone = asked("2", "blue", "").await;
    assert!(["c", "d"].contains(&&*alone));
    assert_eq!(asked("2", "blue", "").await, alone);
    assert_eq!(asked("2", "", "d").await, "d");
    assert_eq!(asked("1", "", "d").await.len(), 1);
    assert!(["a", "b"].contains(&&*asked("1", "", "d").await), "the session is in another version");
}

#[tokio::test(start_paused = true)]
async fn a_new_list_has_new_versions() {
    let live = Live::new(with(KEY, "a=1 b=2"));
    let lb =
        over(chain(live.source()).with_api_version(stage(ApiVersionMatch::Range)), RoundRobin::default());
    assert_eq!(seen(&lb, ">=1").await, "a b");
    live.set(with(KEY, "a=1 b=2 c=3")).await;
    assert_eq!((seen(&lb, ">=1").await, seen(&lb, ">2").await), ("a b c".to_owned(), "c".to_owned()));
    live.set(with(KEY, "a=2 b=2")).await;
    assert_eq!((seen(&lb, ">=1").await, seen(&lb, "1").await), ("a b".to_owned(), "NoGroup".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn properties_switch_it_on() {
    let properties = Properties::default()
        .set("configurations", "api-version")
        .and_then(|p| p.set("api-version.header", "v"))
        .and_then(|p| p.set("api-version.default", "1"))
        .and_then(|p| p.set_for("range", "api-version.matching", "range"))
        .and_then(|p| p.set_for("path", "api-version.path-segment", "1"))
        .and_then(|p| p.set_for("lenient", "api-version.fallback-to-available-instances", "true"))
        .unwrap();
    let mut registry = SimpleDiscovery::new();
    for name in ["exact", "range", "path", "lenient"] {
        registry = registry.with_instances(name, with(KEY, "a=1 b=2")).unwrap();
    }
    let balancers = LoadBalancers::builder(registry).properties(properties).build().unwrap();
    for (name, version, expected) in [
        ("exact", "2", "b"),
        ("exact", "1.x", "NoGroup"),
        ("range", ">=1", "a b"),
        ("lenient", "3", "a b"),
        ("path", "1", "a"),
    ] {
        assert_eq!(seen(&balancers.get(name).unwrap(), version).await, expected, "{name} {version}");
    }
    assert_eq!(pick(&balancers.get("exact").unwrap()).await, "a");
    let request = http::Request::builder().uri("/api/v2/orders").body(()).unwrap();
    let view = HttpView::of(&request);
    assert_eq!(pick_for(&balancers.get("path").unwrap(), &Request::of(&view)).await, "b");
}

/// Every request stage there is, each in front of the others.
fn everything(chain: SupplierBuilder) -> SupplierBuilder {
    chain
        .with_api_version(
            stage(ApiVersionMatch::Range)
                .with_path_segment(0)
                .with_media_type_parameter("application/*", "version")
                .with_fallback(true),
        )
        .with_hints()
        .with_metadata_route(
            MetadataRoute::by("tag")
                .header("x-tag")
                .cookie("tag")
                .query("tag")
                .with_percent("canary", 10.0)
                .with_hash(Source::Header("x-user".to_owned())),
        )
        .with_sticky_session(StickySession::default().with_secret("s"))
        .with_same_instance_preference()
        .with_subset(2)
        .with_weights()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Cases 058 and 068: whatever a client says, an instance is picked, and nothing is kept of it.
    #[test]
    fn case_068_a_hostile_client_fills_nothing_and_breaks_nothing(
        texts in proptest::collection::vec("[\\x20-\\x7e]{0,40}|[0-9.xX*<>=^~|v ]{0,40}|.{0,8}", 12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let list = vec![
                instance("a").to_builder().with_metadata(KEY, "1").with_metadata("tag", "canary").build().unwrap(),
                instance("b").to_builder().with_metadata(KEY, "2").with_metadata("hint", "blue").build().unwrap(),
                instance("c"),
            ];
            let lb = fixed(list, everything, RoundRobin::default());
            lb.ready().await.unwrap();
            let (version, tracked) = (lb.snapshot().unwrap().version(), lb.tracked());
            let names = ["v", "x-sc-lb-hint", "x-tag", "x-user", "accept", "content-type"];
            let mut request = http::Request::new(());
            for (name, text) in names.into_iter().zip(&texts) {
                if let Ok(value) = http::HeaderValue::from_bytes(text.as_bytes()) {
                    request.headers_mut().insert(http::HeaderName::from_static(name), value);
                }
            }
            let cookie = format!("tag={}; sc-lb-instance-id={}; {}", texts[6], texts[7], texts[8]);
            if let Ok(value) = http::HeaderValue::from_bytes(cookie.as_bytes()) {
                request.headers_mut().insert("cookie", value);
            }
            let url = format!("http://h/{}?version={}&tag={}", texts[9], texts[10], texts[11]);
            let method = http::Method::GET;
            let view = HttpView::with_text(&method, &url, request.headers());
            for hint in [None, Some(texts[0].as_str())] {
                let bare = Request::of(&view);
                let request = hint.map_or(bare, |hint| bare.with_hint(hint));
                let choice = lb.choose(&request).await;
                assert!(choice.is_ok(), "{:?}", choice.err());
            }
            assert_eq!((lb.snapshot().unwrap().version(), lb.tracked()), (version, tracked));
        });
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_says_little_of_a_long_text_of_a_client() {
    let lb = versioned("a=1", stage(ApiVersionMatch::Exact));
    let long = "9".repeat(4_000);
    let request = asking(&long);
    let view = HttpView::of(&request);
    let error = lb.choose(&Request::of(&view)).await.unwrap_err();
    assert!(error.to_string().len() < 300, "{error}");
    let ChooseErrorKind::NoInstances { reason, known, .. } = error.kind() else { panic!("{error}") };
    assert_eq!((*reason, *known), (Reason::NoGroup, 1));
}
