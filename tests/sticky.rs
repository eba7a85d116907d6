//! Requests that want one instance: sticky sessions by cookie, and the preference for the same instance.

mod support;

use std::time::Duration;

use evenkeel::policy::RoundRobin;
use evenkeel::supplier::{StickySession, ZonePreference};
use evenkeel::{Failure, HttpView, LoadBalancer, Outcome, Request, ServiceInstance, Tried};
use support::*;

/// A GET with these lines of `Cookie`; bytes that no header can hold are an error of the client, not ours.
fn with_cookies(lines: &[&str]) -> Option<http::Request<()>> {
    let mut request = http::Request::builder().uri("/");
    for line in lines {
        request = request.header("cookie", *line);
    }
    request.body(()).ok()
}

async fn pick_for(lb: &LoadBalancer, lines: &[&str]) -> String {
    let request = with_cookies(lines).unwrap();
    let view = HttpView::of(&request);
    lb.choose(&Request::of(&view)).await.unwrap().instance().id().to_owned()
}

fn sticky(ids: &str) -> LoadBalancer {
    fixed(list(ids), |chain| chain.with_sticky_session(StickySession::default()), RoundRobin::starting_at(-1))
}

#[tokio::test]
async fn scl_055_to_063_only_a_cookie_with_a_listed_id_sticks() {
    let lb = sticky("test-1 test-2 test-3");
    for _ in 0..10 {
        assert_eq!(pick_for(&lb, &["sc-lb-instance-id=test-2"]).await, "test-2");
        // scl_063: a line with several cookies.
        assert_eq!(pick_for(&lb, &["a=1; sc-lb-instance-id=test-3"]).await, "test-3");
        // scl_059: the first of two.
        assert_eq!(pick_for(&lb, &["sc-lb-instance-id=test-1; sc-lb-instance-id=test-2"]).await, "test-1");
        assert_eq!(pick_for(&lb, &["sc-lb-instance-id=test-1", "sc-lb-instance-id=test-2"]).await, "test-1");
    }
    // scl_056, 057, 058, 060: gone, none, another one, no view at all; the rotation was not moved by sticky picks.
    for (lines, expected) in [
        (&["sc-lb-instance-id=test-4"][..], "test-1"),
        (&[], "test-2"),
        (&["other=test-1"], "test-3"),
        (&["sc-lb-instance-id="], "test-1"),
    ] {
        assert_eq!(pick_for(&lb, lines).await, expected, "{lines:?}");
    }
    assert_eq!(pick(&lb).await, "test-2");
}

#[tokio::test]
async fn case_019_a_dead_target_is_left_at_once_and_not_tried_again() {
    let lb = sticky("a b c");
    let mut cookie = "a".to_owned();
    let (mut on_a, mut served) = (0, Vec::new());
    for _ in 0..10 {
        let request = with_cookies(&[&format!("sc-lb-instance-id={cookie}")]).unwrap();
        let view = HttpView::of(&request);
        let mut tried = Tried::new();
        let choice = loop {
            let choice = lb.choose(&Request::of(&view).with_tried(&tried)).await.unwrap();
            if choice.instance().id() != "a" {
                break choice;
            }
            on_a += 1;
            tried.add(&choice);
            choice.complete(Outcome::Failure(Failure::Connect));
        };
        // What the answer sets.
        cookie = StickySession::default().value(&choice.instance());
        served.push(choice.instance().id().to_owned());
        choice.complete(Outcome::Success);
    }
    assert_eq!(on_a, 1);
    assert!(served.iter().all(|id| *id == served[0] && id != "a"), "{served:?}");
}

#[tokio::test]
async fn case_020_forged_values_are_harmless() {
    let lb = sticky("i-1 i-2");
    let long = "x".repeat(8_192);
    for value in [
        "http://127.0.0.1:9",
        "127.0.0.1:9",
        "i-9",
        "i-1%00",
        "../../i-1",
        &long,
        "",
        "i-1 ",
        "I-1",
        "\"",
        "=",
        "i-1,i-2",
    ] {
        let mut seen = Vec::new();
        for _ in 0..20 {
            seen.push(pick_for(&lb, &[&format!("sc-lb-instance-id={value}")]).await);
        }
        // A blank at the end is none of the value's.
        let expected = if value == "i-1 " { [20, 0] } else { [10, 10] };
        assert_eq!([count(&seen, "i-1"), count(&seen, "i-2")], expected, "{value:?}");
    }
    assert!(with_cookies(&["sc-lb-instance-id=i-1\r\nSet-Cookie: a=b"]).is_none(), "no client can send it");
    let evil = instance("a").to_builder().id("a\r\nSet-Cookie: b; c").build().unwrap();
    let value = StickySession::default().value(&evil);
    assert!(value.chars().all(|c| !c.is_control() && c != ';' && c != ' '), "{value:?}");
}

#[tokio::test]
async fn case_020_a_digest_hides_the_ids_and_needs_its_key() {
    let session = StickySession::default().with_secret("one");
    let lb =
        fixed(list("i-1 i-2"), |chain| chain.with_sticky_session(session.clone()), RoundRobin::default());
    let [first, second] = ["i-1", "i-2"].map(|id| session.value(&instance(id)));
    assert_ne!(first, second);
    for _ in 0..5 {
        assert_eq!(pick_for(&lb, &[&format!("sc-lb-instance-id={first}")]).await, "i-1");
        assert_eq!(pick_for(&lb, &[&format!("sc-lb-instance-id={second}")]).await, "i-2");
    }
    let forged = StickySession::default().with_secret("two").value(&instance("i-1"));
    for value in ["i-1", &forged] {
        let mut seen = Vec::new();
        for _ in 0..10 {
            seen.push(pick_for(&lb, &[&format!("sc-lb-instance-id={value}")]).await);
        }
        assert_eq!(count(&seen, "i-1"), 5, "{value} has no effect");
    }
    assert!(!format!("{session:?}").contains("one"));
}

#[tokio::test]
async fn case_045_one_id_on_two_ports_sticks_to_the_lowest_address() {
    let at = |port: u16| ServiceInstance::builder("h").port(port).id("x").build().unwrap();
    let lb = fixed(
        vec![at(8082), at(8081)],
        |chain| chain.with_sticky_session(StickySession::default()),
        RoundRobin::default(),
    );
    let request = with_cookies(&["sc-lb-instance-id=x"]).unwrap();
    let view = HttpView::of(&request);
    for _ in 0..10 {
        assert_eq!(lb.choose(&Request::of(&view)).await.unwrap().instance().port(), Some(8081));
    }
}

#[tokio::test]
async fn case_068_sticky_works_below_a_zone_and_inside_a_hint() {
    let of = |id: &str, zone: &str, hint: &str| {
        instance(id).to_builder().zone(zone).with_metadata("hint", hint).build().unwrap()
    };
    let all = vec![of("a", "1", "blue"), of("b", "2", "blue"), of("c", "1", "green"), of("d", "2", "green")];
    let lb = fixed(
        all,
        |chain| {
            chain
                .with_sticky_session(StickySession::default())
                .with_zone_preference(ZonePreference::new("1"))
                .with_hints()
        },
        RoundRobin::default(),
    );
    let picked = async |hint: &str, cookie: &str| {
        let request = http::Request::builder()
            .header("x-sc-lb-hint", hint)
            .header("cookie", format!("sc-lb-instance-id={cookie}"))
            .body(())
            .unwrap();
        let view = HttpView::of(&request);
        lb.choose(&Request::of(&view)).await.unwrap().instance().id().to_owned()
    };
    for _ in 0..10 {
        // The session is in the other zone: it is kept. It is in another group: the hint wins.
        assert_eq!((picked("blue", "b").await, picked("green", "b").await), ("b".to_owned(), "c".to_owned()));
        assert_eq!((picked("", "d").await, picked("blue", "gone").await), ("d".to_owned(), "a".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn scl_048_to_054_the_same_instance_is_kept_until_it_is_gone() {
    let source = Push::new(vec![
        (0.0, Ok(list("1 2 3"))),
        (10.0, Ok(with("mark", "1=new 2=new 3=new"))),
        (20.0, Ok(list("2 3"))),
        (30.0, Ok(list("1 2 3"))),
    ]);
    let lb = over(chain(source).with_same_instance_preference(), RoundRobin::starting_at(0));
    // scl_053: the first pick decides.
    assert_eq!(picks(&lb, 3).await, ["2", "2", "2"]);
    advance(11.0).await;
    assert_eq!(
        picks(&lb, 3).await,
        ["2", "2", "2"],
        "scl_054, but by identity: other metadata change nothing"
    );
    let dead = lb.choose(&Request::EMPTY).await.unwrap();
    dead.complete(Outcome::Failure(Failure::Connect));
    let next = pick(&lb).await;
    assert_ne!(next, "2");
    assert_eq!(picks(&lb, 3).await, [&*next; 3], "and from then on the other one");
    advance(10.0).await;
    let now = pick(&lb).await;
    assert!(["2", "3"].contains(&&*now));
    advance(10.0).await;
    assert_eq!(picks(&lb, 3).await, [&*now; 3], "the join of another changes nothing");
    // A later attempt goes elsewhere.
    let choice = lb.choose(&Request::EMPTY).await.unwrap();
    let mut tried = Tried::new();
    tried.add(&choice);
    assert_ne!(lb.choose(&Request::EMPTY.with_tried(&tried)).await.unwrap().instance(), choice.instance());
    advance(Duration::from_secs(1).as_secs_f64()).await;
}

#[test]
fn a_cookie_without_a_name_is_refused() {
    for name in ["", "a b", "a;b", "a=b", "é"] {
        let chain = chain_of(StickySession::default().with_cookie(name));
        let error = chain.build().unwrap_err();
        assert!(error.to_string().contains("is no name of a cookie"), "{error}");
    }
}

fn chain_of(sticky: StickySession) -> evenkeel::SupplierBuilder {
    let base = evenkeel::supplier::FixedSupplier::new(evenkeel::ServiceId::new("orders").unwrap(), list("a"));
    evenkeel::SupplierBuilder::new("orders").with_base(base).with_sticky_session(sticky)
}

#[tokio::test]
async fn properties_switch_both_on() {
    use evenkeel::LoadBalancers;
    use evenkeel::config::Properties;

    let properties = Properties::default()
        .set("configurations", "request-based-sticky-session")
        .and_then(|p| p.set("sticky-session.instance-id-cookie-name", "SID"))
        .and_then(|p| p.set_for("hidden", "sticky-session.secret", "one"))
        .and_then(|p| p.set_for("same", "configurations", "same-instance-preference"))
        .unwrap();
    let registry = ["plain", "hidden", "same"]
        .into_iter()
        .fold(evenkeel::discovery::SimpleDiscovery::new(), |registry, name| {
            registry.with_instances(name, list("a b c")).unwrap()
        });
    let balancers = LoadBalancers::from_properties(properties, registry).unwrap();
    let hidden = StickySession::default().with_secret("one").value(&instance("b"));
    for (service, cookie) in [("plain", "b"), ("hidden", &*hidden)] {
        let lb = balancers.get(service).unwrap();
        for _ in 0..5 {
            assert_eq!(pick_for(&lb, &[&format!("SID={cookie}")]).await, "b", "{service}");
        }
    }
    let same = picks(&balancers.get("same").unwrap(), 5).await;
    assert!(same.iter().all(|id| *id == same[0]), "{same:?}");
}
