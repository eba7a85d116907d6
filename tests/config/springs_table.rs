//! Every property of Spring Cloud `LoadBalancer`, one by one: that it is read, everywhere it may stand.

use super::*;
use evenkeel::config::{LiveProperties, Origin, Report};
use std::collections::BTreeSet;

/// What a property of Spring is here.
enum Here {
    /// It means the same, and has the same default, written as the report writes it. A value that is set, and how it is
    /// reported.
    Same { default: &'static str, set: &'static str, shown: &'static str },
    /// The same, with another default, and why.
    Differs { default: &'static str, why: &'static str, set: &'static str, shown: &'static str },
    /// It is accepted and reported, and does nothing.
    NoMeaning { set: &'static str },
}
use Here::{Differs, NoMeaning, Same};

/// A property of Spring: its name below the prefix, its default there, and what it is here.
type Row = (&'static str, &'static str, Here);

const fn same(default: &'static str, set: &'static str) -> Here {
    Same { default, set, shown: set }
}

const fn shown(default: &'static str, set: &'static str, shown: &'static str) -> Here {
    Same { default, set, shown }
}

/// Below `spring.cloud.loadbalancer` and `clients.<id>`.
const TABLE: &[Row] = &[
    // 1.1, 1.9, 1.13
    ("enabled", "true", same("true", "false")),
    ("configurations", "default", shown("default", "zone-preference,weighted", "zone-preference, weighted")),
    ("zone", "unset", same("unset", "eu-1a")),
    ("hint", "{}", same("unset", "blue")),
    ("hint-header-name", "X-SC-LB-Hint", same("X-SC-LB-Hint", "X-Hint")),
    ("service-discovery.timeout", "30s", same("30s", "3s")),
    ("eager-load.clients", "[]", shown("none", "orders,users", "orders, users")),
    ("call-get-with-request-on-delegates", "true", NoMeaning { set: "false" }),
    // 1.2
    ("health-check.initial-delay", "0", shown("0s", "2000", "2s")),
    ("health-check.interval", "25s", same("25s", "10s")),
    ("health-check.refetch-instances", "false", same("false", "true")),
    ("health-check.refetch-instances-interval", "25s", shown("25s", "PT5S", "5s")),
    ("health-check.repeat-health-check", "true", same("true", "false")),
    ("health-check.path", "/actuator/health", same("/actuator/health", "/health")),
    ("health-check.port", "unset", same("unset", "8081")),
    ("health-check.update-results-list", "true", NoMeaning { set: "false" }),
    // 1.1 S7, 1.11
    ("sticky-session.instance-id-cookie-name", "sc-lb-instance-id", same("sc-lb-instance-id", "SID")),
    ("sticky-session.add-service-instance-cookie", "false", same("false", "true")),
    // 1.5
    ("subset.size", "100", same("100", "7")),
    ("subset.instance-id", "empty", same("unset", "me")),
    // 1.6
    ("api-version.required", "false", same("false", "true")),
    ("api-version.default", "unset", same("unset", "1.2")),
    ("api-version.header", "unset", same("unset", "X-Api-Version")),
    ("api-version.query-parameter", "unset", same("unset", "version")),
    ("api-version.path-segment", "unset", same("unset", "1")),
    ("api-version.media-type-parameters.application/json", "unset", same("unset", "v")),
    ("api-version.fallback-to-available-instances", "false", same("false", "true")),
    // 1.8
    ("retry.enabled", "true", same("true", "false")),
    ("retry.retry-on-all-operations", "false", same("false", "true")),
    ("retry.retry-on-all-exceptions", "false", same("false", "true")),
    ("retry.max-retries-on-same-service-instance", "0", same("0", "3")),
    ("retry.max-retries-on-next-service-instance", "1", same("1", "2")),
    ("retry.retryable-status-codes", "[]", shown("none", "502,503", "502, 503")),
    (
        "retry.retryable-exceptions",
        "IOException, TimeoutException, RetryableStatusCodeException",
        shown(
            "connect, timeout, reset",
            "java.io.IOException,java.lang.Exception",
            "connect, timeout, reset, other",
        ),
    ),
    ("retry.avoid-previous-instance", "true", same("true", "false")),
    ("retry.backoff.enabled", "false", same("false", "true")),
    ("retry.backoff.min-backoff", "5ms", same("5ms", "20ms")),
    ("retry.backoff.max-backoff", "Long.MAX_VALUE ms", same("unset", "1s")),
    ("retry.backoff.jitter", "0.5", same("0.5", "0.25")),
    // 1.10
    ("stats.micrometer.enabled", "false", same("false", "true")),
    (
        "stats.include-path",
        "true",
        Differs {
            default: "false",
            why: "a path in a label makes a series for each path",
            set: "true",
            shown: "true",
        },
    ),
    // 1.11
    ("x-forwarded.enabled", "false", same("false", "true")),
    ("eureka.approximate-zone-from-hostname", "false", NoMeaning { set: "true" }),
    // 1.13, 2
    ("cache.enabled", "true", same("true", "false")),
    ("cache.ttl", "35s", same("35s", "5s")),
    ("cache.capacity", "256", same("256", "9")),
    ("cache.caffeine.spec", "", NoMeaning { set: "maximumSize=10" }),
    ("use-raw-status-code-in-response-data", "false", NoMeaning { set: "true" }),
    ("zookeeper.enabled", "true", NoMeaning { set: "false" }),
    ("zookeeper.zone.tag", "unset", NoMeaning { set: "a" }),
    ("ribbon.enabled", "false", NoMeaning { set: "false" }),
];

/// Keys that are written out in full, and have no meaning.
const OTHERS: &[(&str, &str)] = &[
    ("loadbalancer.client.name", "orders"),
    ("spring.cloud.oauth2.load-balanced.enabled", "true"),
    ("spring.cloud.gateway.server.webflux.loadbalancer.use404", "true"),
    ("spring.cloud.discovery.client.simple.order", "1"),
    ("spring.cloud.discovery.client.simple.local.service-id", "me"),
];

/// Read for the whole process only.
const GLOBAL_ONLY: &[&str] = &["eager-load.clients", "cache.capacity"];

/// What is ours and not Spring's. A report holds nothing but these and the table's.
const OURS: &[&str] = &[
    "preset",
    "policy",
    "hash.header",
    "hash.cookie",
    "hash.query",
    "hash.attribute",
    "hash.path",
    "hash.source",
    "hash.terminal",
    "hash.nodes",
    "hash.min-ring-size",
    "hash.max-ring-size",
    "hash.table-size",
    "hash.balance-factor",
    "hash.arguments",
    "policy-options.exact",
    "policy-options.interval",
    "policy-options.window",
    "policy-options.failure-latency",
    "policy-options.timeout",
    "policy-options.active-limit",
    "policy-options.triggering-load",
    "policy-options.blackout-share",
    "policy-options.blackout",
    "policy-options.expiration",
    "policy-options.update-period",
    "policy-options.error-penalty",
    "policy-options.metrics",
    "zone-preference.min-local-instances",
    "zone-preference.max-share",
    "zone-preference.mode",
    "zone-preference.min-cluster-size",
    "zone-preference.weights",
    "own-service-id",
    "panic-threshold",
    "overprovisioning-factor",
    "weight.zero",
    "weight.metadata-key",
    "routing",
    "overrides",
    "cache.hard-age",
    "cache.refresh",
    "cache.warm-start",
    "health-check.probe",
    "health-check.timeout",
    "health-check.rise",
    "health-check.fall",
    "health-check.fail-open",
    "health-check.concurrency",
    "sticky-session.secret",
    "subset.ordinal",
    "subset.algorithm",
    "api-version.matching",
    "outlier-detection.enabled",
    "outlier-detection.mode",
    "outlier-detection.interval",
    "outlier-detection.base-ejection-time",
    "outlier-detection.max-ejection-time",
    "outlier-detection.max-ejection-time-jitter",
    "outlier-detection.max-ejection-percent",
    "outlier-detection.min-available-percent",
    "outlier-detection.consecutive-errors",
    "outlier-detection.consecutive-gateway-errors",
    "outlier-detection.consecutive-local-errors",
    "outlier-detection.retry-after",
    "outlier-detection.success-rate.enabled",
    "outlier-detection.success-rate.minimum-hosts",
    "outlier-detection.success-rate.request-volume",
    "outlier-detection.success-rate.stdev-factor",
    "outlier-detection.failure-percentage.enabled",
    "outlier-detection.failure-percentage.threshold",
    "outlier-detection.failure-percentage.minimum-hosts",
    "outlier-detection.failure-percentage.request-volume",
    "outlier-detection.circuit-breaker.failure-threshold",
    "outlier-detection.circuit-breaker.trip-timeout-factor",
    "outlier-detection.circuit-breaker.trip-max-timeout",
    "slow-start.window",
    "slow-start.curve",
    "slow-start.aggression",
    "slow-start.min-percent",
    "retry.per-try-timeout",
    "pre-connection.enabled",
    "pre-connection.first-list",
    "pre-connection.path",
    "pre-connection.ratio",
    "pre-connection.timeout",
    "pre-connection.connect-timeout",
    "pre-connection.max-retries",
    "pre-connection.concurrency",
    "retry.budget.percent",
    "retry.budget.min-per-second",
    "retry.throttle.enabled",
    "retry.throttle.max-tokens",
    "retry.throttle.token-ratio",
    "retry.adaptive-throttle.enabled",
    "retry.adaptive-throttle.k",
    "retry.adaptive-throttle.window",
    "retry.adaptive-throttle.floor",
    "x-forwarded.prefix",
    "x-forwarded.forwarded",
    "stale-if-error",
    "empty-guard",
    "empty-guard-for-watch",
    "empty-life",
    "choose-timeout",
    "wait-for-instances",
    "connect-timeout",
    "read-timeout",
    "tls-name",
    "backoff.min",
    "backoff.max",
    "allow-downgrade",
    "host-header",
];

/// The name under which the report has it.
fn reported(name: &str) -> &str {
    match name {
        "stats.micrometer.enabled" => "stats.enabled",
        name => name,
    }
}

/// The entry of a map that is empty is the map.
fn value(report: &Report, name: &str) -> String {
    let map = "api-version.media-type-parameters";
    match report.get(reported(name)) {
        Some(entry) => entry.value.clone(),
        None if name.starts_with(map) && report.get(map).unwrap().value == "none" => "unset".to_owned(),
        None => panic!("the report lacks {name}"),
    }
}

/// Written as one key, with what could be read as something else in brackets and quotes.
fn line(prefix: &str, name: &str, set: &str) -> String {
    let name = match name.rsplit_once('.') {
        Some((map, of)) if of.contains('/') => format!("{map}[{of}]"),
        _ => name.to_owned(),
    };
    format!("\"{prefix}.{name}\": \"{set}\"\n")
}

/// As Spring spells variables (dashes fall out), and with each dash as an underscore.
fn variables(prefix: &str, name: &str) -> [String; 2] {
    let upper = |text: String| text.replace(['.', '/'], "_").to_ascii_uppercase();
    let key = format!("{prefix}.{name}");
    [upper(key.replace('-', "")), upper(key.replace('-', "_"))]
}

fn parts(here: &Here) -> (Option<(&'static str, &'static str)>, &'static str) {
    match here {
        Same { default, set, shown } | Differs { default, set, shown, .. } => (Some((default, shown)), set),
        NoMeaning { set } => (None, set),
    }
}

/// Asserts that a value that was set is in force for `service`, or was accepted and told to be without a meaning.
#[track_caller]
fn assert_set(properties: &Properties, service: &str, name: &str, shown: Option<&str>) {
    assert_eq!(properties.warnings(), [], "{name}");
    let Some(shown) = shown else {
        let [ignored] = properties.ignored() else { panic!("{name}: {:?}", properties.ignored()) };
        assert!(ignored.reason.starts_with("no meaning here: ") && ignored.accepted, "{name}: {ignored}");
        return;
    };
    let report = properties.report(service);
    assert_eq!(value(&report, name), shown, "{name}");
    let origin = &report.get(reported(name)).unwrap().origin;
    assert!(matches!(origin, Origin::Set(_)), "{name}: {origin}");
    assert_eq!(properties.ignored(), [], "{name}");
}

#[test]
fn scl_properties_have_springs_defaults_but_for_the_stated_differences() {
    let report = Properties::default().report("orders");
    for (name, spring, here) in TABLE {
        let (Some((default, shown)), _) = parts(here) else { continue };
        assert_eq!(value(&report, name), default, "{name}");
        assert_ne!(default, shown, "{name}: a value that is the default shows nothing");
        if let Differs { why, .. } = here {
            assert!(default != *spring && !why.is_empty(), "{name}");
            continue;
        }
        // Spring writes what is not there in several ways, and some values as Java does.
        let none = |text: &str| matches!(text, "{}" | "[]" | "empty" | "unset" | "none");
        let java = spring.contains("Exception") || spring.starts_with("Long");
        let equal = default == *spring || none(default) && none(spring) || format!("{spring}s") == default;
        assert!(equal || java, "{name}: {spring} there, {default} here");
    }
}

#[test]
fn scl_properties_are_read_for_all_services() {
    for (name, _, here) in TABLE {
        let (shown, set) = parts(here);
        let shown = shown.map(|(_, shown)| shown);
        for prefix in ["spring.cloud.loadbalancer", "evenkeel"] {
            assert_set(&yaml(&line(prefix, name, set)), "orders", name, shown);
            for variable in variables(prefix, name) {
                let properties = Properties::default().with_environment([(variable, set)]).unwrap();
                assert_set(&properties, "orders", name, shown);
            }
        }
    }
    for (key, set) in OTHERS {
        assert_set(&yaml(&format!("{key}: {set}\n")), "orders", key, None);
        let properties =
            Properties::default().with_environment([(&variables("", key)[0][1..], *set)]).unwrap();
        assert_set(&properties, "orders", key, None);
        assert_set(&Properties::default().set(key, set).unwrap(), "orders", key, None);
    }
}

#[test]
fn scl_properties_are_read_for_one_service() {
    for (name, _, here) in TABLE {
        let (shown, set) = parts(here);
        for prefix in ["spring.cloud.loadbalancer.clients.orders", "evenkeel.clients.orders"] {
            let file = yaml(&line(prefix, name, set));
            if GLOBAL_ONLY.contains(name) {
                assert!(file.warnings()[0].reason.contains("whole process"), "{name}: {:?}", file.warnings());
                continue;
            }
            let environment = variables(prefix, name)
                .map(|variable| Properties::default().with_environment([(variable, set)]).unwrap());
            let code = Properties::default().set_for("orders", name, set).unwrap();
            for properties in environment.iter().chain([&file, &code]) {
                assert_set(properties, "ORDERS", name, shown.map(|(_, shown)| shown));
                if let Some((default, _)) = shown {
                    assert_eq!(
                        value(&properties.report("users"), name),
                        default,
                        "{name} of another service"
                    );
                }
            }
        }
    }
}

#[test]
fn scl_properties_of_lists_may_have_places_in_the_environment() {
    for (name, first, second, shown) in [
        ("RETRY_RETRYABLESTATUSCODES", "502", "503", "502, 503"),
        ("RETRY_RETRYABLE_EXCEPTIONS", "reset", "java.net.ConnectException", "reset, connect"),
        ("CONFIGURATIONS", "weighted", "hint", "weighted, hint"),
        ("CLIENTS_ORDERS_RETRY_RETRYABLESTATUSCODES", "502", "503", "502, 503"),
    ] {
        let variables = [first, second].map(|value| {
            (format!("SPRING_CLOUD_LOADBALANCER_{name}_{}", usize::from(value == second)), value)
        });
        let report = Properties::default().with_environment(variables).unwrap().report("orders");
        assert!(report.entries.iter().any(|entry| entry.value == shown), "{name}: {report}");
    }
}

#[test]
fn scl_properties_change_while_the_process_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("application.yml");
    for (name, _, here) in TABLE {
        let (Some((default, shown)), set) = parts(here) else { continue };
        std::fs::write(&path, "other: 1\n").unwrap();
        let live = LiveProperties::new(Properties::default().with_file(&path).unwrap());
        let receiver = live.subscribe();
        let prefix = if GLOBAL_ONLY.contains(name) { "evenkeel" } else { "evenkeel.clients.orders" };
        std::fs::write(&path, line(prefix, name, set)).unwrap();
        assert!(live.reload_file(&path).unwrap() && receiver.has_changed().unwrap(), "{name}");
        assert_set(&live.current(), "orders", name, Some(shown));
        std::fs::write(&path, "other: 2\n").unwrap();
        assert!(live.reload_file(&path).unwrap(), "{name}");
        assert_eq!(value(&live.current().report("orders"), name), default, "{name}");
    }
}

#[test]
fn scl_properties_of_a_service_reach_its_struct() {
    // The walks above look at reports. This one sees that a report is no fiction: with everything set at once, the struct
    // that balancers are made from differs from the default in every field.
    let text = TABLE.iter().fold(String::new(), |text, (name, _, here)| {
        text + &line("spring.cloud.loadbalancer", name, parts(here).1)
    });
    let set = serde_json::to_value(yaml(&text).effective("orders")).unwrap();
    let plain = serde_json::to_value(LoadBalancerProperties::default()).unwrap();
    let read = TABLE.iter().filter(|(_, _, here)| parts(here).0.is_some());
    for (name, _, _) in read.filter(|(name, _, _)| *name != "eager-load.clients") {
        let pointer = format!("/{}", reported(name).replace('/', "~1").replace('.', "/"));
        let field = set.pointer(&pointer).unwrap_or_else(|| panic!("{name}: no field"));
        assert_ne!(Some(field), plain.pointer(&pointer), "{name}");
    }
    assert_eq!(yaml(&text).global().eager_load, ["orders", "users"]);
}

#[test]
fn scl_properties_and_ours_are_all_there_are() {
    let report = Properties::default().report("orders");
    let names: BTreeSet<&str> = report.entries.iter().map(|entry| entry.name.as_str()).collect();
    let known: BTreeSet<&str> = TABLE
        .iter()
        .filter(|(_, _, here)| !matches!(here, NoMeaning { .. }))
        .map(|(name, _, _)| reported(name).split(".application/").next().unwrap_or_default())
        .chain(OURS.iter().copied())
        .collect();
    assert_eq!(names, known, "a property that is neither in the table of Spring's nor in that of ours");
    assert_eq!(names.len(), report.entries.len(), "each once");
}
