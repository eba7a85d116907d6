//! Unknown keys, bad values, and what is said of them.

use super::*;

#[test]
fn between_the_prefixes_ours_wins_with_a_warning() {
    let properties = yaml(
        "spring.cloud.loadbalancer: {zone: s, cache.ttl: 5s, configurations: [hint, weighted]}\n\
         evenkeel: {zone: e, configurations: hint}\n",
    );
    let effective = properties.effective("orders");
    assert_eq!(effective.zone.as_deref(), Some("e"));
    assert_eq!(effective.cache.ttl, seconds(5));
    assert_eq!(effective.configurations, [StageName::Hint]);
    assert_eq!(properties.warnings().len(), 3);
    assert!(properties.warnings().iter().all(|warning| warning.reason.contains("evenkeel")));
    let variables = [("SPRING_CLOUD_LOADBALANCER_ZONE", "s"), ("EVENKEEL_ZONE", "e")];
    let properties = Properties::default().with_environment(variables).unwrap();
    assert_eq!(properties.effective("orders").zone.as_deref(), Some("e"));
    assert_eq!(properties.warnings().len(), 1);
}

#[test]
fn unknown_keys_warn_with_the_nearest_name() {
    let table = [
        ("evenkeel.cache.tll: 5s", Some("evenkeel.cache.ttl")),
        ("evenkeel: {cache: {hardd-age: 5s}}", Some("evenkeel.cache.hard-age")),
        ("spring.cloud.loadbalancer.zonee: a", Some("spring.cloud.loadbalancer.zone")),
        ("evenkeel.clients.billing.cache.tll: 5s", Some("evenkeel.clients.billing.cache.ttl")),
        ("evenkeel: {clients: {billing.api: {polciy: random}}}", Some("evenkeel.clients.billing.api.policy")),
        ("evenkeel.routing[0].hedaer: a", Some("evenkeel.routing[0].header")),
        ("evenkeel.client.billing.cache.ttl: 5s", Some("evenkeel.clients.billing.cache.ttl")),
        ("evenkeel.something-else-entirely: 5s", None),
        ("spring.cloud.loadbalancer.retry.listeners: true", None),
        ("evenkeel.clients.billing.cache.capacity: 5", Some("evenkeel.cache.capacity")),
        ("evenkeel: text", None),
        (
            "spring.cloud.discovery.client.simple.instances.o: [{hots: a, host: b}]",
            Some("spring.cloud.discovery.client.simple.instances.o[0].host"),
        ),
        ("spring.cloud.discovery.client.simple.orders: 1", None),
    ];
    for (text, nearest) in table {
        let properties = yaml(text);
        let [warning] = properties.warnings() else { panic!("{text}: {:?}", properties.warnings()) };
        assert_eq!(warning.nearest.as_deref(), nearest, "{text}");
        assert_eq!(warning.place.to_string(), "application.yml:1");
    }
    let properties = Properties::default().with_environment([("EVENKEEL_CACHE_TLL", "5s")]).unwrap();
    assert_eq!(properties.warnings()[0].nearest.as_deref(), Some("evenkeel.cache.ttl"));
    assert_eq!(properties.warnings()[0].place.to_string(), "environment variable EVENKEEL_CACHE_TLL");
    assert!(matches!(properties.warnings()[0].place, Place::Environment { .. }));
    let error = Properties::default().set("cache.tll", "5s").unwrap_err();
    assert!(error.to_string().contains("did you mean evenkeel.cache.ttl?"), "{error}");
    assert!(Properties::default().set_for("a", "capacity", 1).is_err());
    assert!(Properties::default().set_for("", "zone", 1).is_err());
    assert!(Properties::default().set("clients[.].zone", 1).is_err());
    assert!(Properties::default().with_environment([("EVENKEEL_CLIENTS__ZONE", "a")]).is_err());
}

#[test]
fn a_warning_is_logged_once() {
    #[derive(Clone, Default)]
    struct Log(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);
    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .without_time()
        .finish();
    // For the whole process: with one for a thread, another thread decides whether a line is of interest.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let properties = Properties::parse("evenkeel.cache.tll: 5s", Format::Yaml, "logged.yml")
        .and_then(|properties| properties.with_environment([("EVENKEEL_LOGGEDD", "a")]))
        .and_then(|properties| properties.set("zone", "a"))
        .unwrap();
    assert_eq!(properties.warnings().len(), 2);
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let ours =
        ["logged.yml:1: evenkeel.cache.tll: unknown property; did you mean evenkeel.cache.ttl?", "LOGGEDD"];
    for line in ours {
        assert_eq!(text.lines().filter(|logged| logged.contains(line)).count(), 1, "{text}");
    }
}

#[test]
fn keys_of_others_are_left_alone() {
    let properties = yaml(
        "server.port: 8080\nspring: {application.name: shop, cloud: {consul: {host: c}, loadbalancers: x}}\n\
         evenkeels: 1\nlist: [[1, {a: b}], null]\n\"odd[key\": 1\n? 5\n: 6\n",
    );
    // But for what the own name tells: who the clients are.
    let plain = LoadBalancerProperties::default().with_own_service_id("shop");
    assert_eq!(properties.effective("x").with_subset(plain.subset.clone()), plain);
    assert_eq!((properties.services().len(), properties.simple_instances().len()), (0, 0));
    assert_eq!((properties.warnings(), properties.ignored()), (&[][..], &[][..]));
    // Whatever their shape: long lists, long and deep keys, placeholders without a meaning, bad expressions.
    let long = format!("a: [{}]\n{}: 1\n{}b: 1\n", "1,".repeat(20_000), "k".repeat(900), "d.".repeat(400));
    let odd = "---\nspring: {config: {activate: {on-profile: '(('}}, profiles: {active: {}}}\nserver.port: ${nope}\n";
    for text in [long.as_str(), odd, "spring: {profiles: }", "spring: 5", "spring.config.import: []"] {
        let properties = yaml(text);
        assert_eq!((properties.warnings(), properties.ignored()), (&[][..], &[][..]), "{text}");
    }
}

#[test]
fn one_error_names_every_bad_value() {
    let error = refused(
        "evenkeel:\n  cache:\n    ttl: 35 s\n    enabled: maybe\n  policy: fastest\n  clients:\n    billing:\n      \
         connect-timeout: 0\n      configurations: [weighted, subsett]\n  zone-preference.max-share: NaN\n  \
         cache.capacity: -1\n  hint-header-name: 'a b'\n  weight.metadata-key: ''\n  backoff.min: 0s\n",
    );
    let problems = error.problems();
    let has = |key: &str, value: &str, place: &str, allowed: &str| {
        problems.iter().any(|problem| {
            problem.key == key
                && problem.value == value
                && problem.place.to_string() == place
                && problem.allowed.contains(allowed)
        })
    };
    assert!(has("evenkeel.cache.ttl", "35 s", "application.yml:3", "PT35S"), "{error}");
    assert!(has("evenkeel.cache.enabled", "maybe", "application.yml:4", "true or false"), "{error}");
    assert!(has("evenkeel.policy", "fastest", "application.yml:5", "least-request"), "{error}");
    let key = "evenkeel.clients.billing.connect-timeout";
    assert!(has(key, "0", "application.yml:8", "above zero"), "{error}");
    let key = "evenkeel.clients.billing.configurations[1]";
    assert!(has(key, "subsett", "application.yml:9", "subset or api-version"), "{error}");
    assert!(has("evenkeel.zone-preference.max-share", "NaN", "application.yml:10", "at least 1"), "{error}");
    assert_eq!(problems.len(), 10, "{error}");
    assert_eq!(error.to_string().lines().count(), 10);

    let error = refused("evenkeel: {routing: [{header: h}], zone: a, policy: x}");
    assert_eq!(error.problems().len(), 2, "{error}");
    let error = yaml("evenkeel.zone: a")
        .with_environment([("EVENKEEL_CACHE_TTL", "soon"), ("EVENKEEL_ENABLED", "")])
        .unwrap_err();
    assert_eq!(error.problems().len(), 2);
    assert!(
        error.to_string().contains("environment variable EVENKEEL_CACHE_TTL: evenkeel.cache.ttl = \"soon\"")
    );
    let error = Properties::default().set("cache.ttl", "-1").unwrap_err();
    assert_eq!(error.problems()[0].place, Place::Code);
}

#[test]
fn lines_are_told_in_every_format() {
    let toml = "[evenkeel]\nzone = \"a\"\n\n[evenkeel.cache]\nttl = \"soon\"\n";
    let error = Properties::parse(toml, Format::Toml, "a.toml").unwrap_err();
    assert_eq!(error.problems()[0].place.to_string(), "a.toml:5");
    let json = "{\n  \"evenkeel\": {\n    \"cache\": {\n      \"ttl\": \"soon\"\n    }\n  }\n}\n";
    let error = Properties::parse(json, Format::Json, "a.json").unwrap_err();
    assert_eq!(error.problems()[0].place.to_string(), "a.json:4");
    for (format, text, line) in [
        (Format::Yaml, "a: 1\nb: [1\nc: 2\n", "x:"),
        (Format::Yaml, "a: 1\na: 2\n", "x:2"),
        (Format::Toml, "a = 1\na = 2\n", "x:2"),
        (Format::Json, "{\"a\": 1,\n\"b\" 2}", "x:2"),
        (Format::Json, "{\"a\": 1,\n\"a\": 2}", "x:2"),
        (Format::Json, "a: 1", "x:1"),
    ] {
        let error = Properties::parse(text, format, "x").unwrap_err();
        assert!(error.to_string().starts_with(line), "{text}: {error}");
    }
}
