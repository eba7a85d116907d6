//! What an operator overrides: how it is written, and that each entry is whole.

use super::*;
use evenkeel::config::{Override, OverrideAction, OverrideEnd, Preset};
use std::time::{SystemTime, UNIX_EPOCH};

/// 2026-11-30T22:00:00Z
fn ten() -> SystemTime {
    UNIX_EPOCH + seconds(1_796_076_000)
}

#[test]
fn entries_are_read_in_every_spelling_and_go_to_the_services_they_name() {
    let wanted = [
        Override::drain_zone("eu-1b").until(ten()).because("OPS-17: power"),
        Override::drain_host("10.0.0.7").of_service("orders").until(ten()).because("b"),
        Override::drain_instance("orders-7").until(ten()).because("c"),
        Override::ejection_off().until(ten()).because("d"),
        Override::preset(Preset::Kubernetes).until(ten()).because("e"),
    ];
    let text = "spring.cloud.loadbalancer.overrides:
  - drain: {zone: eu-1b}
    until: 2026-11-30T22:00:00Z
    reason: 'OPS-17: power'
  - {service: orders, drain.host: 10.0.0.7, until: '2026-11-30 23:00:00+01:00', reason: b}
  - {drain.instance: orders-7, until: '2026-11-30T22:00:00.000Z', reason: c}
  - {ejection: off, until: '2026-11-30T22:00:00Z', reason: d}
  - {preset: KUBERNETES, until: '2026-11-30T22:00:00Z', reason: e}
";
    let properties = yaml(text);
    assert_eq!(properties.warnings(), []);
    assert_eq!(properties.effective("ORDERS").overrides, wanted);
    let others: Vec<_> = wanted.iter().filter(|one| one.service.is_none()).cloned().collect();
    assert_eq!(properties.effective("users").overrides, others);
    // A preset that is pinned is no property of the file: what is in force is the balancer's to say.
    assert_eq!(properties.effective("users").preset, Preset::Spring);
    let report = properties.report("users");
    let entry = report.get("overrides[0]").unwrap();
    assert_eq!(entry.value, "drain zone eu-1b until 2026-11-30T22:00:00.000Z: OPS-17: power");
    assert_eq!(entry.origin.to_string(), "application.yml:2");
    assert!(report.get("overrides[1]").is_none() && report.get("overrides[4]").is_some());
    assert_eq!(yaml("evenkeel.zone: a").report("users").get("overrides").unwrap().value, "none");
    // A list replaces the one of a weaker layer as a whole, and an empty one is none.
    let none = properties.clone().set("overrides", "").unwrap();
    assert_eq!(none.effective("orders").overrides, []);
    let variables = [
        ("EVENKEEL_OVERRIDES_0_DRAIN_HOST", "h"),
        ("EVENKEEL_OVERRIDES_0_UNTIL", "2026-11-30T22:00:00Z"),
        ("EVENKEEL_OVERRIDES_0_REASON", "r"),
    ];
    let environment = properties.with_environment(variables).unwrap();
    assert_eq!(
        environment.effective("orders").overrides,
        [Override::drain_host("h").until(ten()).because("r")]
    );
}

#[test]
fn values_serialize_as_a_file_spells_them() {
    let text = "evenkeel.overrides: [{drain.zone: z, until: '2026-11-30T22:00:00Z', reason: r},
        {ejection: off, until: '2026-11-30T22:00:00Z', reason: r}, {preset: modern, until: '2026-11-30T22:00:00Z', reason: r}]";
    let effective = yaml(text).effective("orders");
    let json = serde_json::to_value(&effective).unwrap();
    assert_eq!(json["overrides"][0]["drain"]["zone"], "z");
    assert_eq!(json["overrides"][1]["until"], "2026-11-30T22:00:00.000Z");
    let again: evenkeel::config::LoadBalancerProperties = serde_json::from_value(json).unwrap();
    assert_eq!(again.overrides, effective.overrides);
}

#[test]
fn what_is_missing_or_cannot_be_is_an_error_with_key_value_and_place() {
    let whole = "until: '2026-11-30T22:00:00Z', reason: x";
    for (entry, key, part) in [
        (
            "{drain.host: h, until: '2026-11-30T22:00:00Z'}".to_owned(),
            "drain.host",
            "needs a reason: overrides[i].reason",
        ),
        (
            "{drain.host: h, until: '2026-11-30T22:00:00Z', reason: ' '}".to_owned(),
            "reason",
            "a text that is not blank",
        ),
        ("{drain.host: h, reason: x}".to_owned(), "drain.host", "needs an end: overrides[i].until"),
        (format!("{{{whole}}}"), "reason", "does one thing"),
        (format!("{{drain.host: h, drain.zone: z, {whole}}}"), "drain.host", "does one thing"),
        (format!("{{drain.host: '', {whole}}}"), "drain.host", "a text that is not blank"),
        (format!("{{ejection: on, {whole}}}"), "ejection", "allowed: off"),
        (format!("{{preset: autumn, {whole}}}"), "preset", "spring, kubernetes or modern"),
        ("{drain.host: h, until: 2026-11-30T22:00:00, reason: x}".to_owned(), "until", "with its offset"),
        ("{drain.host: h, until: tomorrow, reason: x}".to_owned(), "until", "RFC 3339"),
        ("{drain.host: h, for: 30m, reason: x}".to_owned(), "for", "a span would begin anew"),
    ] {
        let error = refused(&format!("evenkeel.overrides:\n  - {entry}\n"));
        let problem = &error.problems()[0];
        assert_eq!(problem.key, format!("evenkeel.overrides[0].{key}"), "{error}");
        assert!(error.to_string().contains(part), "{error}");
        assert!(error.to_string().starts_with("application.yml:2"), "{error}");
    }
    let error = refused("evenkeel.overrides: everything");
    assert!(error.to_string().contains("a list of overrides"), "{error}");
}

#[test]
fn names_that_are_near_are_told_and_a_service_names_itself_in_the_entry() {
    for (text, near) in [
        ("evenkeel.overrides[0].raeson: x", Some("evenkeel.overrides[0].reason")),
        ("evenkeel.overides: []", Some("evenkeel.overrides")),
        ("evenkeel.clients.orders.overrides[0].reason: x", Some("evenkeel.overrides")),
    ] {
        let properties = yaml(text);
        let [warning] = properties.warnings() else { panic!("{text}: {:?}", properties.warnings()) };
        assert_eq!(warning.nearest.as_deref(), near, "{text}");
    }
    let warned = yaml("evenkeel.clients.orders.overrides[0].reason: x").warnings()[0].reason.clone();
    assert_eq!(warned, "read for the whole process only, not below clients.<id>");
    let over = Override::drain_zone("z");
    assert_eq!((over.action, over.end), (OverrideAction::DrainZone("z".into()), OverrideEnd::Unset));
}
