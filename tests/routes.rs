//! Routes by percentage: shares, users who stay, groups that are not there, and what properties say.

mod support;

use std::collections::BTreeMap;

use evenkeel::config::{MetadataRouteProperties, Properties};
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::policy::RoundRobin;
use evenkeel::supplier::{MetadataRoute, NoopSupplier, Source};
use evenkeel::{
    ChooseErrorKind, HttpView, LoadBalancer, LoadBalancers, Reason, Request, SupplierBuilder, Tried,
};
use support::*;

fn canary(percent: f64) -> MetadataRoute {
    MetadataRoute::by("version").header("x-version").with_percent("canary", percent)
}

fn routed(pairs: &str, route: MetadataRoute) -> LoadBalancer {
    fixed(with("version", pairs), |chain| chain.with_metadata_route(route), RoundRobin::default())
}

fn request(headers: &[(&str, &str)]) -> http::Request<()> {
    let mut request = http::Request::builder();
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

async fn pick_with(lb: &LoadBalancer, headers: &[(&str, &str)]) -> String {
    let request = request(headers);
    let view = HttpView::of(&request);
    pick_for(lb, &Request::of(&view)).await
}

#[tokio::test(start_paused = true)]
async fn a_share_of_the_requests_by_chance_and_the_rest_to_the_others() {
    let lb = routed("new=canary a=stable b=stable", canary(20.0));
    let picked = picks(&lb, 2_000).await;
    let on_canary = count(&picked, "new");
    assert!((330..470).contains(&on_canary), "{on_canary}");
    let (a, b) = (count(&picked, "a"), count(&picked, "b"));
    assert!(a.abs_diff(b) <= 1, "the rest takes turns: {a} and {b}");
    // A value of its own wins over any share.
    for _ in 0..20 {
        assert_eq!(pick_with(&lb, &[("x-version", "canary")]).await, "new");
        assert_ne!(pick_with(&lb, &[("x-version", "stable")]).await, "new");
    }
}

#[tokio::test(start_paused = true)]
async fn a_user_stays_on_its_side_and_a_higher_percentage_only_moves_users_in() {
    let by_user = |percent| canary(percent).with_hash(Source::Header("x-user".to_owned()));
    let mut before: BTreeMap<String, bool> = BTreeMap::new();
    for percent in [0.0, 5.0, 25.0, 60.0, 100.0] {
        let lb = routed("new=canary a=stable b=stable", by_user(percent));
        let mut on_canary = 0;
        for user in 0..400 {
            let user = format!("user-{user}");
            let mut sides = Vec::new();
            for _ in 0..3 {
                sides.push(pick_with(&lb, &[("x-user", &user)]).await == "new");
            }
            assert!(sides.iter().all(|side| *side == sides[0]), "{user} stays");
            let was = before.insert(user.clone(), sides[0]).unwrap_or_default();
            assert!(sides[0] || !was, "{user} was moved out at {percent}");
            on_canary += u32::from(sides[0]);
        }
        let expected = percent * 4.0;
        assert!((f64::from(on_canary) - expected).abs() <= 32.0, "{on_canary} at {percent}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_without_an_instance_takes_the_fallback_list_and_then_the_rest() {
    let all = || canary(100.0);
    let lb = routed("a=stable b=old", all().with_fallback(["none", "stable"]));
    assert_eq!(picks(&lb, 10).await, ["a"; 10]);
    let lb = routed("a=stable b=old", all());
    even(&picks(&lb, 10).await, "a b", 5, 0);
    // Who is not drawn takes the list too.
    let lb = routed("new=canary a=stable b=old", canary(0.0).with_fallback(["stable"]));
    assert_eq!(picks(&lb, 10).await, ["a"; 10]);
    // Nobody but the canary is left: it serves all.
    let lb = routed("new=canary", canary(1.0));
    assert_eq!(picks(&lb, 50).await, ["new"; 50]);
    // Instances without the entry are of the rest.
    let mut list = with("version", "new=canary");
    list.push(instance("plain"));
    let lb = fixed(list, |chain| chain.with_metadata_route(canary(0.0)), RoundRobin::default());
    assert_eq!(picks(&lb, 10).await, ["plain"; 10]);
}

#[tokio::test(start_paused = true)]
async fn a_strict_share_is_not_left_by_a_retry() {
    let by_user = canary(50.0).with_hash(Source::Header("x-user".to_owned())).or_nothing(true);
    let lb = routed("n1=canary n2=canary a=stable b=stable", by_user);
    for user in 0..50 {
        let user = format!("user-{user}");
        let request = request(&[("x-user", &user)]);
        let view = HttpView::of(&request);
        let (mut tried, mut ids) = (Tried::new(), Vec::new());
        for _ in 0..3 {
            let choice = lb.choose(&Request::of(&view).with_tried(&tried)).await.unwrap();
            tried.add(&choice);
            ids.push(choice.instance().id().starts_with('n'));
        }
        assert!(ids.iter().all(|side| *side == ids[0]), "{user}: {ids:?}");
    }
    let request = request(&[("x-version", "gone")]);
    let view = HttpView::of(&request);
    let error = lb.choose(&Request::of(&view)).await.unwrap_err();
    assert!(error.to_string().contains("no instance has version=\"gone\""), "{error}");
}

#[test]
fn what_cannot_work_is_refused() {
    let build = |route| SupplierBuilder::new("orders").with_instances([]).with_metadata_route(route).build();
    for (route, part) in [
        (canary(60.0).with_percent("beta", 41.0), "add up to 101"),
        (canary(f64::NAN), "NaN percent go to group \"canary\""),
        (canary(-1.0), "-1 percent"),
        (MetadataRoute::by("version").with_percent(" ", 1.0), "without a name"),
        (canary(1.0).with_hash(Source::Cookie(String::new())), "has no name"),
        (MetadataRoute::by("v").header("h").with_hash(Source::Cookie("c".to_owned())), "no percentage"),
    ] {
        let error = build(route).unwrap_err().to_string();
        assert!(error.contains("\"orders\"") && error.contains(part), "{error}");
    }
    assert!(build(canary(60.0).with_percent("canary", 41.0)).is_ok(), "the last one counts");
}

#[tokio::test(start_paused = true)]
async fn properties_say_all_of_it() {
    let properties = Properties::default()
        .set("routing[0].metadata", "version")
        .and_then(|p| p.set("routing[0].header", "X-Version"))
        .and_then(|p| p.set("routing[0].percent.canary", "100"))
        .and_then(|p| p.set("routing[0].hash", "header: X-User"))
        .and_then(|p| p.set_for("few", "routing[0].metadata", "version"))
        .and_then(|p| p.set_for("few", "routing[0].percent", "canary = 0.5 %, Beta=1"))
        .unwrap();
    let route = MetadataRouteProperties::new("version");
    assert_eq!(
        properties.effective("orders").routing,
        [route.clone().with_header("X-Version").with_percent([("canary", 100.0)]).with_hash("header:X-User")]
    );
    assert_eq!(properties.effective("few").routing, [route.with_percent([("Beta", 1.0), ("canary", 0.5)])]);
    let registry =
        SimpleDiscovery::new().with_instances("orders", with("version", "new=canary a=stable")).unwrap();
    let balancers = LoadBalancers::builder(registry).properties(properties).build().unwrap();
    let lb = balancers.get("orders").unwrap();
    assert_eq!(pick_with(&lb, &[("x-user", "u")]).await, "new");
    assert_eq!(pick_with(&lb, &[("x-version", "stable")]).await, "a");
}

#[test]
fn a_faulty_property_is_told_with_key_and_value() {
    let given = |key: &str, value: &str| {
        Properties::default()
            .set("routing[0].metadata", "version")
            .and_then(|p| p.set("routing[0].percent.beta", "50"))
            .and_then(|p| p.set(key, value))
    };
    for (key, value, part) in [
        ("routing[0].percent.canary", "5x", "a percentage from 0 to 100"),
        ("routing[0].percent.canary", "101", "a percentage from 0 to 100"),
        ("routing[0].percent.canary", "-1", "a percentage from 0 to 100"),
        ("routing[0].percent.canary", "NaN", "a percentage from 0 to 100"),
        ("routing[0].percent.canary", "51", "add up to 101, above 100"),
        ("routing[0].percent", "canary", "a list such as canary=5"),
        ("routing[0].percent", "=5", "a list such as canary=5"),
        ("routing[0].hash", "X-User", "header:<name>"),
        ("routing[0].hash", "body:x", "header:<name>"),
        ("routing[0].hash", "cookie: ", "header:<name>"),
        ("routing[0].hash", "header:a b", "header:<name>"),
    ] {
        let error = given(key, value).unwrap_err().to_string();
        for part in [key, value, part] {
            assert!(error.contains(part), "{part:?} in {error}");
        }
    }
    assert!(given("routing[0].percent.canary", "50").is_ok());
}

#[cfg(feature = "config")]
#[test]
fn files_and_the_environment_spell_it() {
    use evenkeel::config::Format;
    let yaml = "evenkeel:\n  routing:\n  - metadata: version\n    percent: {canary: 5, \"[v2.0]\": 0.5}\n    hash: cookie:uid\n";
    let properties = Properties::parse(yaml, Format::Yaml, "application.yml").unwrap();
    let expected = MetadataRouteProperties::new("version")
        .with_percent([("canary", 5.0), ("v2.0", 0.5)])
        .with_hash("cookie:uid");
    assert_eq!(properties.effective("orders").routing, [expected]);
    assert!(properties.warnings().is_empty(), "{:?}", properties.warnings());
    let variables = [
        ("EVENKEEL_ROUTING_0_METADATA", "version"),
        ("EVENKEEL_ROUTING_0_PERCENT", "canary=5, beta=1"),
        ("evenkeel.clients.users.routing[0].metadata", "version"),
        ("evenkeel.clients.users.routing[0].percent.v2.0", "7"),
    ];
    let properties = Properties::default().with_environment(variables).unwrap();
    let expected = MetadataRouteProperties::new("version");
    let shares = expected.clone().with_percent([("canary", 5.0), ("beta", 1.0)]);
    assert_eq!(properties.effective("orders").routing, [shares]);
    assert_eq!(properties.effective("users").routing, [expected.with_percent([("v2.0", 7.0)])]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_always_nothing_and_a_list_stays() {
    let empty = SupplierBuilder::new("orders").with_base(NoopSupplier::new(orders())).build().unwrap();
    let error = LoadBalancer::builder(empty).build().choose(&Request::EMPTY).await.unwrap_err();
    assert!(matches!(error.kind(), ChooseErrorKind::NoInstances { reason: Reason::Empty, .. }), "{error}");
    let fixed = SupplierBuilder::new("orders").with_instances(list("a b")).build().unwrap();
    let lb = LoadBalancer::builder(fixed).build();
    for _ in 0..3 {
        even(&picks(&lb, 10).await, "a b", 5, 0);
        advance(3_600.0).await;
    }
    let two = SupplierBuilder::new("orders").with_instances([]).with_base(NoopSupplier::new(orders()));
    assert!(two.build().unwrap_err().to_string().contains("2 bases"));
}
