//! Properties: names, defaults, layers, spellings, errors.

use evenkeel::config::{
    BackoffProperties, CacheProperties, ConfigError, Format, HostHeader, LoadBalancerProperties,
    MetadataRouteProperties, Place, PolicyName, Preset, Properties, Refresh, SimpleInstanceProperties,
    StageName, Staleness, UnknownGroup, ZeroWeight,
};
use std::time::Duration;

#[path = "config/application.rs"]
mod application;
#[path = "config/environment.rs"]
mod environment;
#[path = "config/everything.rs"]
mod everything;
#[path = "config/faults.rs"]
mod faults;
#[path = "config/health.rs"]
mod health;
#[path = "config/hostile.rs"]
mod hostile;
#[path = "config/instances.rs"]
mod instances;
#[path = "config/live.rs"]
mod live;
#[path = "config/media_types.rs"]
mod media_types;
#[path = "config/overrides.rs"]
mod overrides;
#[path = "config/placeholders.rs"]
mod placeholders;
#[path = "config/profile_files.rs"]
mod profile_files;
#[path = "config/report.rs"]
mod report;
#[path = "config/spelling.rs"]
mod spelling;
#[path = "config/springs_table.rs"]
mod springs_table;

fn yaml(text: &str) -> Properties {
    Properties::parse(text, Format::Yaml, "application.yml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn refused(text: &str) -> ConfigError {
    Properties::parse(text, Format::Yaml, "application.yml").expect_err(text)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const EVERYTHING: &str = r#"
evenkeel:
  enabled: false
  preset: modern
  policy: random
  configurations: zone-preference, weighted
  zone: " eu-1a "
  zone-preference: {min-local-instances: 2, max-share: 1.5}
  hint: {default: blue, orders: green}
  hint-header-name: X-Hint
  weight: {zero: one, metadata-key: w}
  routing:
    - metadata: version
      header: X-Version
      cookie: version
      query: v
      fallback: [stable, old]
      unknown: nothing
    - {metadata: tag, header: X-Tag, fallback: "a, b"}
  cache:
    enabled: false
    ttl: 5s
    hard-age: 7s
    refresh: wait
    capacity: 9
    warm-start: /var/cache/lists
  stale-if-error: 90s
  empty-guard: 10s
  empty-guard-for-watch: false
  empty-life: 2s
  service-discovery.timeout: 3s
  choose-timeout: 4s
  wait-for-instances: 6s
  connect-timeout: 250ms
  backoff: {min: 10ms, max: 1s}
  allow-downgrade: true
  host-header: service
  eager-load.clients: [orders, Users]
"#;

#[test]
fn defaults_are_springs() {
    let properties = Properties::default().effective("orders");
    assert_eq!(properties, LoadBalancerProperties::default());
    assert!(properties.enabled && properties.cache.enabled && properties.empty_guard_for_watch);
    assert!(!properties.allow_downgrade);
    assert_eq!(properties.preset, Preset::Spring);
    assert_eq!(properties.policy, PolicyName::RoundRobin);
    assert_eq!(properties.configurations, [StageName::Default]);
    assert_eq!((properties.zone, properties.hint), (None, None));
    assert_eq!(properties.hint_header_name, "X-SC-LB-Hint");
    assert_eq!(properties.cache.ttl, seconds(35));
    assert_eq!(properties.cache.hard_age(), seconds(70));
    assert_eq!(properties.cache.capacity, 256);
    assert_eq!(properties.cache.refresh, Refresh::Behind);
    assert_eq!(properties.stale_if_error, Staleness::Unbounded);
    assert_eq!(properties.empty_guard, seconds(30));
    assert_eq!(properties.empty_life, seconds(1));
    assert_eq!(properties.service_discovery.timeout, seconds(30));
    assert_eq!(properties.choose_timeout, seconds(5));
    assert_eq!(properties.wait_for_instances, Duration::ZERO);
    assert_eq!(properties.connect_timeout, seconds(1));
    assert_eq!(properties.backoff, BackoffProperties::default());
    assert_eq!(properties.weight.zero, ZeroWeight::Drain);
    assert_eq!(properties.zone_preference.min_local_instances, 1);
    assert_eq!(properties.zone_preference.max_share, None);
    assert_eq!(Properties::default().global().cache_capacity, 256);
    assert!(Properties::default().services().is_empty());
}

#[test]
fn presets_change_defaults_only() {
    let kubernetes = yaml("evenkeel.preset: kubernetes").effective("orders");
    assert_eq!(kubernetes, LoadBalancerProperties::for_preset(Preset::Kubernetes));
    assert_eq!(kubernetes.policy, PolicyName::LeastRequest);
    assert_eq!(kubernetes.stale_if_error, Staleness::For(seconds(300)));
    assert!(!kubernetes.empty_guard_for_watch);
    let modern = yaml("evenkeel.preset: modern").effective("orders");
    assert_eq!(modern.policy, PolicyName::PeakEwma);
    assert_eq!(modern.stale_if_error, Staleness::Unbounded);

    // The weakest layer that says something still beats the preset of the strongest.
    let properties = yaml("evenkeel: {policy: round-robin, stale-if-error: true}")
        .set_for("orders", "preset", "kubernetes")
        .unwrap();
    let orders = properties.effective("orders");
    assert_eq!(orders.policy, PolicyName::RoundRobin);
    assert_eq!(orders.stale_if_error, Staleness::Unbounded);
    assert!(!orders.empty_guard_for_watch);
    assert_eq!(properties.effective("users").preset, Preset::Spring);
}

#[test]
fn case_053_a_service_inherits_what_it_does_not_say() {
    let properties =
        yaml("evenkeel: {cache.ttl: 35s, choose-timeout: 2s, clients: {billing: {cache.ttl: 5s}}}");
    let billing = properties.effective("billing");
    assert_eq!((billing.cache.ttl, billing.choose_timeout), (seconds(5), seconds(2)));
    let orders = properties.effective("orders");
    assert_eq!((orders.cache.ttl, orders.choose_timeout), (seconds(35), seconds(2)));
}

/// The order: code for the service, environment and file for it, code global, environment and file global, default.
#[test]
fn case_053_order_of_precedence() {
    type Step = fn(Properties) -> Properties;
    let strongest_first: [(u64, Step); 6] = [
        (1, |p| p.set_for("billing", "cache.ttl", "1s").unwrap()),
        (2, |p| p),
        (3, |p| p),
        (4, |p| p.set("cache.ttl", "4s").unwrap()),
        (5, |p| p),
        (6, |p| p),
    ];
    // Every subset of the six layers: the strongest of it wins, whatever else is there.
    for subset in 0u32..64 {
        let on = |layer: usize| subset & (1 << layer) != 0;
        let mut text = String::from("evenkeel:\n  zone: z\n");
        if on(5) {
            text.push_str("  cache.ttl: 6s\n");
        }
        if on(2) {
            text.push_str("  clients.billing.cache.ttl: 3s\n");
        }
        let mut variables = Vec::new();
        if on(1) {
            variables.push(("EVENKEEL_CLIENTS_BILLING_CACHE_TTL", "2s"));
        }
        if on(4) {
            variables.push(("EVENKEEL_CACHE_TTL", "5s"));
        }
        let mut properties = yaml(&text).with_environment(variables).unwrap();
        for (layer, (_, step)) in strongest_first.iter().enumerate() {
            if on(layer) {
                properties = step(properties);
            }
        }
        let wanted = |layers: &[usize]| {
            layers
                .iter()
                .find(|layer| on(**layer))
                .map_or(seconds(35), |layer| seconds(strongest_first[*layer].0))
        };
        assert_eq!(properties.effective("billing").cache.ttl, wanted(&[0, 1, 2, 3, 4, 5]), "{subset:b}");
        assert_eq!(properties.effective("orders").cache.ttl, wanted(&[3, 4, 5]), "{subset:b}");
    }
}

#[test]
fn false_and_zero_are_values() {
    let text = "evenkeel: {enabled: true, cache: {ttl: 10s, enabled: true, capacity: 5}, empty-guard: 10s,\
                clients: {billing: {enabled: false, cache: {ttl: 0, enabled: false}, empty-guard: 0s,\
                stale-if-error: 0, zone-preference.min-local-instances: 0, choose-timeout: PT0S}}}";
    let billing = yaml(text).effective("billing");
    assert!(!billing.enabled && !billing.cache.enabled);
    assert_eq!(billing.cache.ttl, Duration::ZERO);
    assert_eq!(billing.cache.hard_age(), Duration::ZERO);
    assert_eq!(billing.empty_guard, Duration::ZERO);
    assert_eq!(billing.choose_timeout, Duration::ZERO);
    assert_eq!(billing.stale_if_error, Staleness::Off);
    assert_eq!(billing.zone_preference.min_local_instances, 0);
    assert_eq!(yaml("evenkeel.cache.capacity: 0").global().cache_capacity, 0);
}

#[test]
fn blank_unsets_and_null_says_nothing() {
    let properties = yaml(
        "evenkeel: {zone: eu, hint: blue, cache.ttl: 5s, clients: {a: {zone: '', hint: ' ', cache.ttl: }, b: , c: {}}}",
    );
    let a = properties.effective("a");
    assert_eq!((a.zone, a.hint), (None, None));
    assert_eq!(a.cache.ttl, seconds(5));
    assert_eq!(properties.effective("b").zone.as_deref(), Some("eu"));
    assert_eq!(properties.services(), ["a", "b", "c"]);
}

#[test]
fn documents_of_one_file_are_merged_in_order() {
    let properties = yaml(
        "evenkeel:\n  zone: a\n  configurations: [weighted, hint]\n  cache.ttl: 5s\n---\nother: 1\n---\n\
         evenkeel:\n  zone: b\n  configurations: [zone-preference]\n",
    );
    let effective = properties.effective("orders");
    assert_eq!(effective.zone.as_deref(), Some("b"));
    assert_eq!(effective.configurations, [StageName::ZonePreference]);
    assert_eq!(effective.cache.ttl, seconds(5));
}

#[test]
fn anchors_and_merge_keys() {
    let properties = yaml(
        "base: &base {ttl: 5s, refresh: wait}\nevenkeel:\n  cache:\n    <<: *base\n    ttl: 6s\n  \
         clients: {a: {cache: *base}}\n",
    );
    assert_eq!(properties.effective("x").cache.ttl, seconds(6));
    assert_eq!(properties.effective("x").cache.refresh, Refresh::Wait);
    assert_eq!(properties.effective("a").cache.ttl, seconds(5));
}

#[test]
fn lists_are_replaced_as_a_whole() {
    let file = "evenkeel: {configurations: [weighted, hint], routing: [{metadata: a, header: h},\
                {metadata: b, header: h}], clients: {billing: {routing: []}}}";
    let properties = yaml(file)
        .with_environment([("EVENKEEL_CONFIGURATIONS_0", "hint"), ("EVENKEEL_ROUTING_0_METADATA", "c")])
        .unwrap();
    let effective = properties.effective("orders");
    assert_eq!(effective.configurations, [StageName::Hint]);
    assert_eq!(effective.routing, [MetadataRouteProperties::new("c")]);
    assert_eq!(properties.warnings().len(), 1, "a route without a source: {:?}", properties.warnings());
    assert_eq!(properties.effective("billing").routing, []);
}

#[test]
fn code_sets_any_key_and_replaces_what_it_set() {
    let properties = Properties::default()
        .set("spring.cloud.loadbalancer.zone", "a")
        .unwrap()
        .set("evenkeel.zone", "b")
        .unwrap()
        .set("clients.billing.zone", "c")
        .unwrap()
        .set("configurations", "weighted, hint")
        .unwrap()
        .set("routing[0].metadata", "version")
        .unwrap()
        .set("routing[0].header", "X-V")
        .unwrap()
        .set_for("users", "enabled", false)
        .unwrap()
        .set_for("users", "hint", "blue")
        .unwrap()
        .set("spring.cloud.discovery.client.simple.instances.stock[0].uri", "http://s:1")
        .unwrap();
    let effective = properties.effective("orders");
    assert_eq!(effective.zone.as_deref(), Some("b"));
    assert_eq!(effective.configurations, [StageName::Weighted, StageName::Hint]);
    assert_eq!(effective.routing, [MetadataRouteProperties::new("version").with_header("X-V")]);
    assert_eq!(properties.effective("billing").zone.as_deref(), Some("c"));
    assert!(!properties.effective("users").enabled);
    assert_eq!(properties.effective("users").hint.as_deref(), Some("blue"));
    assert_eq!(properties.simple_instances()[0].1[0].port, Some(1));
    assert_eq!(properties.services(), ["billing", "users", "stock"]);
    let indexed = properties.set("configurations[0]", "hint").unwrap();
    assert_eq!(indexed.effective("orders").configurations, [StageName::Hint]);
    assert_eq!(indexed.effective("orders").routing.len(), 1);
}

#[test]
fn values_serialize_as_they_are_written() {
    let json = serde_json::to_value(yaml(EVERYTHING).effective("orders")).unwrap();
    assert_eq!(json["cache"]["ttl"], "5s");
    assert_eq!(json["stale-if-error"], "90s");
    assert_eq!(json["zone-preference"]["min-local-instances"], 2);
    let cache: CacheProperties = serde_json::from_value(json["cache"].clone()).unwrap();
    assert_eq!(cache.hard_age(), seconds(7));
    let backoff: BackoffProperties = serde_json::from_str(r#"{"min": 250}"#).unwrap();
    assert_eq!(backoff.min, Duration::from_millis(250));
    assert!(serde_json::from_str::<BackoffProperties>(r#"{"min": "35 s"}"#).is_err());
}

#[test]
fn the_values_of_one_service_can_stand_in_a_file_of_another() {
    for properties in [
        LoadBalancerProperties::default(),
        LoadBalancerProperties::for_preset(Preset::Kubernetes).with_configurations([]).with_zone("a"),
        yaml(EVERYTHING).effective("orders"),
    ] {
        let json = serde_json::to_string(&properties).unwrap();
        assert_eq!(serde_json::from_str::<LoadBalancerProperties>(&json).unwrap(), properties);
    }
    let pods: LoadBalancerProperties =
        serde_json::from_str(r#"{"preset": "kubernetes", "cache.ttl": 5000, "zone": true}"#).unwrap();
    let wanted = LoadBalancerProperties::for_preset(Preset::Kubernetes)
        .with_cache(CacheProperties::default().with_ttl(seconds(5)))
        .with_zone("true");
    assert_eq!(pods, wanted);
    for (text, why) in [
        (r#"{"cache": {"tll": "5s"}}"#, "did you mean cache.ttl?"),
        (r#"{"cache": {"ttl": "35 s"}, "policy": "fastest"}"#, "least-request"),
        (r#"{"clients": {"a": {"zone": "b"}}}"#, "one service"),
        (r#"{"eager-load": {"clients": ["a"]}}"#, "one service"),
        (r#"{"routing": [{"header": "h"}]}"#, "routing[i].metadata"),
        ("5", "load balancer"),
    ] {
        let error = serde_json::from_str::<LoadBalancerProperties>(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn a_file_is_loaded_by_its_extension() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let yml = Properties::load(write("a.YML", "\u{feff}evenkeel.zone: a".as_bytes())).unwrap();
    assert_eq!(yml.effective("x").zone.as_deref(), Some("a"));
    let toml = Properties::load(write("a.toml", b"evenkeel.zone = \"b\"")).unwrap();
    assert_eq!(toml.effective("x").zone.as_deref(), Some("b"));
    let json = Properties::load(write("a.json", br#"{"evenkeel.zone": "c"}"#)).unwrap();
    assert_eq!(json.effective("x").zone.as_deref(), Some("c"));
    let big = vec![b'a'; 2 << 20];
    for (name, text) in [("a.txt", &b"x"[..]), ("none", b""), ("bad.yml", b"a: 1\n\xff"), ("big.yml", &big)] {
        let error = Properties::load(write(name, text)).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
    let missing = Properties::load(folder.path().join("missing.yml")).unwrap_err();
    assert!(std::error::Error::source(&missing).is_some());
    assert!(Properties::load(folder.path()).is_err());
    for name in ["empty.yml", "empty.toml", "empty.json"] {
        let empty = Properties::load(write(name, b"")).unwrap();
        assert_eq!((empty.services().len(), empty.warnings(), empty.ignored()), (0, &[][..], &[][..]));
        // The environment of the process may say what the process is called, and nothing else.
        let plain = LoadBalancerProperties::default();
        assert_eq!(empty.effective("x").with_subset(plain.subset.clone()), plain);
    }
}
