//! Health checks in properties.

use super::*;
use evenkeel::config::{HealthCheckProperties, ProbeName};

#[test]
fn every_health_property_is_read_globally_and_for_one_service() {
    let properties = yaml(
        "
spring.cloud.loadbalancer:
  configurations: health-check, zone-preference
  health-check:
    probe: tcp
    port: 8888
    initial-delay: 1s
    interval: 10s
    timeout: 250ms
    rise: 2
    fall: 3
    failOpen: false
    concurrency: 4
    repeat_health_check: false
    refetchInstances: true
    refetch-instances-interval: 7s
  clients.billing.health-check.interval: 30s
",
    );
    let expected = HealthCheckProperties::default()
        .with_probe(ProbeName::Tcp)
        .with_port(8888)
        .with_initial_delay(seconds(1))
        .with_interval(seconds(10))
        .with_timeout(Duration::from_millis(250))
        .with_rise(2)
        .with_fall(3)
        .with_fail_open(false)
        .with_concurrency(4)
        .with_repeat_health_check(false)
        .with_refetch_instances(true)
        .with_refetch_instances_interval(seconds(7));
    let orders = properties.effective("orders");
    assert_eq!(orders.configurations, [StageName::HealthCheck, StageName::ZonePreference]);
    assert_eq!(orders.health_check, expected);
    // scl_194: the client's value is merged over the global ones.
    assert_eq!(properties.effective("billing").health_check, expected.with_interval(seconds(30)));
    assert_eq!(properties.warnings(), []);
    let defaults = Properties::default().effective("orders").health_check;
    assert_eq!((defaults.path.as_str(), defaults.interval), ("/actuator/health", seconds(25)));
}

#[test]
fn scl_165_the_path_is_a_map_by_service_without_case() {
    let path = |properties: &Properties, service: &str| properties.effective(service).health_check.path;
    let properties = yaml(
        "
evenkeel:
  health-check.path:
    default: /health
    Orders: /health?someparam=somevalue
    quiet: ''
  clients:
    billing.health-check.path: /hc
    users.health-check.path.users: /u
",
    );
    for (service, expected) in [
        ("orders", "/health?someparam=somevalue"),
        ("ORDERS", "/health?someparam=somevalue"),
        ("quiet", ""),
        ("billing", "/hc"),
        ("users", "/u"),
        ("others", "/health"),
    ] {
        assert_eq!(path(&properties, service), expected, "{service}");
    }
    assert_eq!(properties.warnings(), []);
    let environment = Properties::default()
        .with_environment([
            ("EVENKEEL_HEALTH_CHECK_PATH", "/a"),
            ("EVENKEEL_HEALTHCHECK_PATH_ORDERS", "/b"),
            ("SPRING_CLOUD_LOADBALANCER_HEALTHCHECK_INTERVAL", "3s"),
        ])
        .unwrap();
    assert_eq!((path(&environment, "orders").as_str(), path(&environment, "x").as_str()), ("/b", "/a"));
    assert_eq!(environment.effective("x").health_check.interval, seconds(3));
}

#[test]
fn what_has_no_meaning_here_is_said_so_and_bad_values_are_errors() {
    let properties = yaml("spring.cloud.loadbalancer.health-check.updateResultsList: true");
    let [ignored] = properties.ignored() else { panic!("{properties:?}") };
    assert!(ignored.reason.contains("no meaning here"), "{}", ignored.reason);
    assert_eq!(properties.warnings(), []);
    for (key, value) in [
        ("interval", "0"),
        ("timeout", "0s"),
        ("refetch-instances-interval", "0s"),
        ("port", "0"),
        ("port", "70000"),
        ("rise", "-1"),
        ("probe", "ping"),
    ] {
        let text = format!("evenkeel.health-check.{key}: {value}");
        let error = Properties::parse(&text, Format::Yaml, "application.yml").unwrap_err().to_string();
        assert!(error.contains(&format!("health-check.{key}")) && error.contains(value), "{error}");
    }
}
