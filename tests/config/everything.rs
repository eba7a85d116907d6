//! Every property in every format.

use super::*;

fn assert_everything(properties: &Properties) {
    let orders = properties.effective("orders");
    assert!(!orders.enabled);
    assert_eq!(orders.preset, Preset::Modern);
    assert_eq!(orders.policy, PolicyName::Random);
    assert_eq!(orders.configurations, [StageName::ZonePreference, StageName::Weighted]);
    assert_eq!(orders.zone.as_deref(), Some("eu-1a"));
    assert_eq!(orders.zone_preference.min_local_instances, 2);
    assert_eq!(orders.zone_preference.max_share, Some(1.5));
    assert_eq!(orders.hint.as_deref(), Some("green"));
    assert_eq!(properties.effective("users").hint.as_deref(), Some("blue"));
    assert_eq!(orders.hint_header_name, "X-Hint");
    assert_eq!((orders.weight.zero, orders.weight.metadata_key.as_str()), (ZeroWeight::One, "w"));
    let first = MetadataRouteProperties::new("version")
        .with_header("X-Version")
        .with_cookie("version")
        .with_query("v")
        .with_fallback(["stable", "old"])
        .with_unknown(UnknownGroup::Nothing);
    let second = MetadataRouteProperties::new("tag").with_header("X-Tag").with_fallback(["a", "b"]);
    assert_eq!(orders.routing, [first, second]);
    let cache = CacheProperties::default()
        .with_enabled(false)
        .with_ttl(seconds(5))
        .with_hard_age(seconds(7))
        .with_refresh(Refresh::Wait)
        .with_capacity(9)
        .with_warm_start("/var/cache/lists");
    assert_eq!(orders.cache, cache);
    assert_eq!(orders.stale_if_error, Staleness::For(seconds(90)));
    assert_eq!(orders.empty_guard, seconds(10));
    assert!(!orders.empty_guard_for_watch);
    assert_eq!(orders.empty_life, seconds(2));
    assert_eq!(orders.service_discovery.timeout, seconds(3));
    assert_eq!(orders.choose_timeout, seconds(4));
    assert_eq!(orders.wait_for_instances, seconds(6));
    assert_eq!(orders.connect_timeout, Duration::from_millis(250));
    assert_eq!(
        orders.backoff,
        BackoffProperties::default().with_min(Duration::from_millis(10)).with_max(seconds(1))
    );
    assert!(orders.allow_downgrade);
    assert_eq!(orders.host_header, HostHeader::Service);
    assert_eq!(properties.global().eager_load, ["orders", "Users"]);
    assert_eq!(properties.global().cache_capacity, 9);
    assert_eq!(properties.warnings(), []);
}

#[test]
fn every_property_in_yaml() {
    assert_everything(&yaml(EVERYTHING));
    assert_everything(&yaml(&EVERYTHING.replace("evenkeel:", "spring.cloud.loadbalancer:")));
    assert_everything(&yaml(&EVERYTHING.replace("evenkeel:", "spring.cloud:\n loadbalancer:")));
}

#[test]
fn every_property_in_toml() {
    let text = r#"
[evenkeel]
enabled = false
preset = "modern"
policy = "random"
configurations = ["zone-preference", "weighted"]
zone = "eu-1a"
zone-preference = { min-local-instances = 2, max-share = 1.5 }
hint.default = "blue"
hint.orders = "green"
hint-header-name = "X-Hint"
weight = { zero = "one", metadata-key = "w" }
stale-if-error = "90s"
empty-guard = "10s"
empty-guard-for-watch = false
empty-life = 2_000
service-discovery.timeout = "3s"
choose-timeout = "PT4S"
wait-for-instances = 6000
connect-timeout = 250
backoff = { min = "10ms", max = "1s" }
allow-downgrade = true
host-header = "service"
eager-load.clients = ["orders", "Users"]
[evenkeel.cache]
enabled = false
ttl = "5s"
hard-age = "7s"
refresh = "wait"
capacity = 9
warm-start = "/var/cache/lists"
[[evenkeel.routing]]
metadata = "version"
header = "X-Version"
cookie = "version"
query = "v"
fallback = ["stable", "old"]
unknown = "nothing"
[[evenkeel.routing]]
metadata = "tag"
header = "X-Tag"
fallback = "a, b"
"#;
    assert_everything(&Properties::parse(text, Format::Toml, "application.toml").unwrap());
}

#[test]
fn every_property_in_json_and_in_flat_keys() {
    let text = r#"{
	"evenkeel.enabled": false, "evenkeel": {"preset": "modern", "policy": "random",
	"configurations[0]": "zone-preference", "configurations[1]": "weighted"},
	"evenkeel.zone": "eu-1a", "evenkeel.zone-preference": {"min-local-instances": 2},
	"evenkeel.zonePreference.maxShare": 1.5,
	"evenkeel.hint": {"default": "blue", "orders": "green"}, "evenkeel.hintHeaderName": "X-Hint",
	"evenkeel.weight.zero": "one", "evenkeel.weight.metadata_key": "w",
	"evenkeel.routing[0].metadata": "version", "evenkeel.routing[0]": {"header": "X-Version", "cookie": "version"},
	"evenkeel.routing[0].query": "v", "evenkeel.routing[0].fallback[0]": "stable",
	"evenkeel.routing[0].fallback[1]": "old", "evenkeel.routing[0].unknown": "nothing",
	"evenkeel.routing[1]": {"metadata": "tag", "header": "X-Tag", "fallback": "a,b"},
	"evenkeel.cache": {"enabled": false, "ttl": 5000, "hard-age": "7s", "refresh": "wait", "capacity": 9,
		"warm-start": "\/var\/cache\/lists"},
	"evenkeel.stale-if-error": "90s", "evenkeel.empty-guard": "10s", "evenkeel.empty-guard-for-watch": false,
	"evenkeel.empty-life": "2s", "evenkeel.service-discovery.timeout": "3s", "evenkeel.choose-timeout": "4s",
	"evenkeel.wait-for-instances": "6s", "evenkeel.connect-timeout": 250, "evenkeel.backoff.min": 10,
	"evenkeel.backoff.max": "1s", "evenkeel.allow-downgrade": true,
	"evenkeel.host-header": "service",
	"evenkeel.eager-load.clients": ["orders", "Users"]
}"#;
    assert_everything(&Properties::parse(text, Format::Json, "application.json").unwrap());
}

#[test]
fn every_property_in_the_environment() {
    let variables = [
        ("EVENKEEL_ENABLED", "false"),
        ("EVENKEEL_PRESET", "MODERN"),
        ("EVENKEEL_POLICY", "Random"),
        ("EVENKEEL_CONFIGURATIONS", "zone-preference,weighted"),
        ("EVENKEEL_ZONE", "eu-1a"),
        ("EVENKEEL_ZONE_PREFERENCE_MIN_LOCAL_INSTANCES", "2"),
        ("SPRING_CLOUD_LOADBALANCER_ZONEPREFERENCE_MAXSHARE", "1.5"),
        ("EVENKEEL_HINT_DEFAULT", "blue"),
        ("EVENKEEL_HINT_ORDERS", "green"),
        ("EVENKEEL_HINTHEADERNAME", "X-Hint"),
        ("EVENKEEL_WEIGHT_ZERO", "one"),
        ("EVENKEEL_WEIGHT_METADATA_KEY", "w"),
        ("EVENKEEL_ROUTING_0_METADATA", "version"),
        ("EVENKEEL_ROUTING_0_HEADER", "X-Version"),
        ("EVENKEEL_ROUTING_0_COOKIE", "version"),
        ("EVENKEEL_ROUTING_0_QUERY", "v"),
        ("EVENKEEL_ROUTING_0_FALLBACK_0", "stable"),
        ("EVENKEEL_ROUTING_0_FALLBACK_1", "old"),
        ("EVENKEEL_ROUTING_0_UNKNOWN", "nothing"),
        ("EVENKEEL_ROUTING_1_METADATA", "tag"),
        ("EVENKEEL_ROUTING_1_HEADER", "X-Tag"),
        ("EVENKEEL_ROUTING_1_FALLBACK", "a, b"),
        ("EVENKEEL_CACHE_ENABLED", "false"),
        ("EVENKEEL_CACHE_TTL", "5s"),
        ("EVENKEEL_CACHE_HARD_AGE", "7s"),
        ("EVENKEEL_CACHE_REFRESH", "wait"),
        ("EVENKEEL_CACHE_CAPACITY", "9"),
        ("EVENKEEL_CACHE_WARMSTART", "/var/cache/lists"),
        ("EVENKEEL_STALE_IF_ERROR", "90s"),
        ("EVENKEEL_EMPTY_GUARD", "10s"),
        ("EVENKEEL_EMPTY_GUARD_FOR_WATCH", "false"),
        ("EVENKEEL_EMPTY_LIFE", "2s"),
        ("SPRING_CLOUD_LOADBALANCER_SERVICE_DISCOVERY_TIMEOUT", "3s"),
        ("EVENKEEL_CHOOSE_TIMEOUT", "4s"),
        ("EVENKEEL_WAIT_FOR_INSTANCES", "6s"),
        ("EVENKEEL_CONNECT_TIMEOUT", "250"),
        ("evenkeel.backoff.min", "10ms"),
        ("EVENKEEL_BACKOFF_MAX", "1s"),
        ("evenkeel_allow_downgrade", "true"),
        ("EVENKEEL_HOST_HEADER", "service"),
        ("EVENKEEL_EAGER_LOAD_CLIENTS_0", "orders"),
        ("EVENKEEL_EAGER_LOAD_CLIENTS_1", "Users"),
        ("PATH", "/bin"),
        ("SPRING_APPLICATION_NAME", "shop"),
    ];
    assert_everything(&Properties::default().with_environment(variables).unwrap());
}
