//! What holds, and where it came from.

use super::*;
use evenkeel::config::{Origin, check};
use std::fmt::Write as _;

#[test]
fn every_value_tells_where_it_came_from() {
    let properties = yaml(
        "evenkeel:\n  preset: kubernetes\n  zone: a\n  cache.ttl: 5s\n  routing:\n    - {metadata: v, header: X-V}\n  \
         clients.orders:\n    zone: b\n    hint: blue\n    configurations: [weighted, hint]\nserver.port: 80\n\
         spring.cloud.discovery.client.simple.instances.orders: [uri: http://o:1, {host: p, port: 2}, host: q]\n",
    )
    .with_environment([("EVENKEEL_CHOOSE_TIMEOUT", "2s"), ("SPRING_CLOUD_LOADBALANCER_ZOOKEEPER_X", "1")])
    .and_then(|properties| properties.set_for("orders", "connect-timeout", "3s"))
    .unwrap();
    let report = properties.report("Orders");
    for (name, value, origin) in [
        ("zone", "b", "application.yml:8"),
        ("hint", "blue", "application.yml:9"),
        ("configurations", "weighted, hint", "application.yml:10"),
        ("cache.ttl", "5s", "application.yml:4"),
        ("cache.hard-age", "10s", "default"),
        ("choose-timeout", "2s", "environment variable EVENKEEL_CHOOSE_TIMEOUT"),
        ("connect-timeout", "3s", "code"),
        ("policy", "least-request", "preset kubernetes"),
        ("stale-if-error", "300s", "preset kubernetes"),
        ("preset", "kubernetes", "application.yml:2"),
        ("enabled", "true", "default"),
        ("health-check.path", "/actuator/health", "default"),
        ("routing[0].metadata", "v", "application.yml:6"),
        ("routing[0].unknown", "all", "default"),
        ("subset.instance-id", "80", "this process"),
        ("sticky-session.secret", "unset", "default"),
        ("spring.cloud.discovery.client.simple.instances.orders", "http://o:1, p:2, q", "application.yml:12"),
    ] {
        let entry = report.get(name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!((entry.value.as_str(), entry.origin.to_string().as_str()), (value, origin), "{name}");
    }
    let other = properties.report("users");
    assert_eq!(other.get("zone").unwrap().value, "a");
    assert_eq!(other.get("hint").unwrap().origin, Origin::Default);
    assert_eq!(other.ignored.len(), 1);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["service"], "Orders");
    assert!(json["entries"].as_array().unwrap().iter().any(|entry| entry["origin"] == "code"));
}

#[test]
fn what_is_derived_tells_from_what() {
    let report = |text: &str| yaml(text).report("orders");
    let checks = "evenkeel:\n  configurations: health-check\n  health-check.refetch-instances: true\n  cache.ttl: 1m\n";
    let ttl = |report: &evenkeel::config::Report| {
        let entry = report.get("cache.ttl").unwrap();
        (entry.value.clone(), entry.origin.to_string())
    };
    assert_eq!(ttl(&report(checks)), ("25s".into(), "application.yml:3".into()));
    let often = format!("{checks}  health-check.refetch-instances-interval: 5s\n");
    assert_eq!(ttl(&report(&often)), ("5s".into(), "application.yml:5".into()));
    assert_eq!(report(&often).get("cache.hard-age").unwrap().value, "10s");
    assert_eq!(ttl(&report("evenkeel.cache.ttl: 1m")), ("60s".into(), "application.yml:1".into()));
    let blank = report("evenkeel.subset.instance-id: ''\nserver.port: 80\n");
    assert_eq!(blank.get("subset.instance-id").unwrap().origin, Origin::Process);
    let routes = report(
        "evenkeel:\n  routing:\n    - metadata: a\n      header: A\n    - metadata: b\n      fallback: [x, y]\n      query: q\n",
    );
    for (name, value, origin) in [
        ("routing[0].header", "A", "application.yml:4"),
        ("routing[0].fallback", "none", "default"),
        ("routing[1].header", "unset", "default"),
        ("routing[1].fallback", "x, y", "application.yml:6"),
        ("routing[1].query", "q", "application.yml:7"),
    ] {
        let entry = routes.get(name).unwrap();
        assert_eq!((entry.value.as_str(), entry.origin.to_string().as_str()), (value, origin), "{name}");
    }
    assert_eq!(
        report("evenkeel.routing: []").get("routing").unwrap().origin.to_string(),
        "application.yml:1"
    );
}

#[test]
fn the_table_is_aligned_and_one_line_each() {
    let properties = yaml("evenkeel: {zone: \"a\\nb\", hint: 'x', zonee: 1, zookeeper.x: 1}\n");
    let text = properties.report("orders").to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "orders");
    let zone = lines.iter().find(|line| line.starts_with("* zone ")).unwrap();
    assert!(zone.contains("a b") && zone.ends_with("application.yml:1"), "{text}");
    let origins: Vec<usize> = lines[1..]
        .iter()
        .take_while(|line| line.starts_with(['*', ' ']))
        .filter_map(|line| {
            line.find("default").filter(|_| line.ends_with("  default")).map(|_| line.len() - "default".len())
        })
        .collect();
    assert!(origins.len() > 50 && origins.iter().all(|at| *at == origins[0]), "{text}");
    assert!(
        text.contains("warnings\n  application.yml:1: evenkeel.zonee")
            && text.contains("without a meaning here\n")
    );
}

#[test]
fn a_file_is_checked_as_it_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("application.yml");
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    write("evenkeel: {clients: {orders: {zone: a}, users: {}}, zookeeper.x: 1}\n");
    std::fs::write(folder.path().join("application-default.yml"), "evenkeel.cache.ttl: 7s\n").unwrap();
    let checked = check(&path).unwrap();
    let services: Vec<_> = checked.services.iter().map(|report| report.service.as_deref().unwrap()).collect();
    assert_eq!(services, ["orders", "users"]);
    assert_eq!(checked.services[0].get("zone").unwrap().value, "a");
    assert_eq!(
        (checked.global.service.as_deref(), checked.global.get("cache.ttl").unwrap().value.as_str()),
        (None, "7s")
    );
    let text = checked.to_string();
    assert!(
        text.starts_with("orders\n")
            && text.contains("\nusers\n")
            && text.contains("\nevery other service\n")
    );
    assert_eq!(text.matches("evenkeel.zookeeper.x").count(), 1, "remarks are written once: {text}");
    // A key of Spring without a meaning is no fault; an unknown one is, if warnings are.
    assert_eq!(checked.clone().deny_warnings().unwrap(), checked);
    write("evenkeel: {zonee: a}\n");
    let error = check(&path).unwrap().deny_warnings().unwrap_err().to_string();
    assert!(
        error.contains("application.yml:1: evenkeel.zonee") && error.contains("did you mean evenkeel.zone?"),
        "{error}"
    );
    write("evenkeel: {choose-timeout: soon}\n");
    assert!(check(&path).unwrap_err().to_string().contains("soon"));
    assert!(check(folder.path().join("none.yml")).is_err());
}

#[test]
fn words_that_are_java_classes() {
    let properties = yaml(
        "evenkeel.retry.retryable-exceptions:\n  - java.io.IOException\n  - org.example.OwnException\n  \
         - org.springframework.cloud.client.loadbalancer.RetryableStatusCodeException\n",
    );
    let [warning] = properties.warnings() else { panic!("{:?}", properties.warnings()) };
    assert!(warning.reason.contains("org.example.OwnException"), "{warning}");
    assert_eq!(
        (warning.place.to_string().as_str(), properties.effective("x").retry.retryable_exceptions.len()),
        ("application.yml:3", 3)
    );
    let listed = yaml("evenkeel.retry.retryable-exceptions: org.example.A, timeout, org.example.B\n");
    assert_eq!(listed.warnings().len(), 2);
    assert!(
        refused("evenkeel.retry.retryable-exceptions: timeoutt")
            .to_string()
            .contains("name of a Java exception")
    );
}

#[test]
fn each_value_of_a_route_tells_where_it_came_from() {
    let properties = yaml(
        "evenkeel.routing:\n  - metadata: version\n    percent:\n      canary: 5\n      v1.2: 6\n    hash: cookie:uid\n  - \
         metadata: tenant\n    header: X\n    fallback:\n      - a\n      - b\n",
    );
    let report = properties.report("orders");
    let origin = |name: &str| report.get(name).unwrap().origin.to_string();
    for (name, line) in [
        ("[0].metadata", 2),
        ("[0].percent", 4),
        ("[0].hash", 6),
        ("[1].metadata", 7),
        ("[1].header", 8),
        ("[1].fallback", 10),
    ] {
        assert_eq!(origin(&format!("routing{name}")), format!("application.yml:{line}"), "{name}");
    }
    assert_eq!(
        (origin("routing[0].header").as_str(), origin("routing[1].percent").as_str()),
        ("default", "default")
    );
    assert_eq!(report.get("routing[0].percent").unwrap().value, "canary=5.0, v1.2=6.0");
}

/// Reports of much would run for minutes, or fill the memory, if they grew with the product of their parts.
#[test]
fn reports_of_large_sets_are_made_in_time() {
    let mut text = String::from("evenkeel.routing:\n");
    for at in 0..5_000 {
        let _ = writeln!(text, "  - {{metadata: v{at}, header: x}}");
    }
    let report = yaml(&text).report("orders");
    assert_eq!(report.get("routing[4999].metadata").unwrap().origin.to_string(), "application.yml:5001");

    let mut text = String::from("evenkeel:\n");
    for at in 0..4_000 {
        let _ = writeln!(text, "  unknown-{at}: x");
    }
    text.push_str("spring.cloud.discovery.client.simple.instances:\n");
    for at in 0..2_000 {
        let _ = writeln!(text, "  Svc-{at}: [uri: 'http://h{at}:1']");
    }
    let checked = yaml(&text).checked();
    assert_eq!((checked.services.len(), checked.warnings.len()), (2_000, 4_000));
    assert!(checked.services.iter().all(|report| report.warnings.is_empty()));
    let address = "spring.cloud.discovery.client.simple.instances.Svc-1234";
    let of = |id: &str| checked.services.iter().find(|one| one.service.as_deref() == Some(id)).unwrap();
    assert_eq!(of("Svc-1234").get(address).unwrap().value, "http://h1234:1");
}
