//! Placeholders in values.

use super::*;

const FILE: &str = r#"
app: {zone: eu-1a, ttl: 5s, "own.key": dotted, ownKey: camel}
stages: weighted, hint
evenkeel:
  zone: ${app.zone}
  cache.ttl: ${CACHE_TTL:${app.ttl}}
  configurations: ${stages}
  hint: ${app.own-key}
  hint-header-name: X-${NAME:Hint}
  clients.orders:
    zone: ${ORDERS_ZONE:${evenkeel.zone}b}
    choose-timeout: ${app.choose:250}ms
spring.cloud.discovery.client.simple.instances.orders:
  - {host: "${HOST:localhost}", port: "${PORT:80}80", metadata: {"${app.zone}": "\\${kept}"}}
"#;

#[test]
fn they_are_replaced_in_every_value_of_ours() {
    let properties = yaml(FILE);
    let (orders, users) = (properties.effective("orders"), properties.effective("users"));
    assert_eq!((users.zone.as_deref(), orders.zone.as_deref()), (Some("eu-1a"), Some("eu-1ab")));
    assert_eq!((users.cache.ttl, orders.choose_timeout), (seconds(5), Duration::from_millis(250)));
    assert_eq!(users.configurations, [StageName::Weighted, StageName::Hint]);
    assert_eq!((users.hint.as_deref(), users.hint_header_name.as_str()), (Some("camel"), "X-Hint"));
    let instance = &properties.simple_instances()[0].1[0];
    assert_eq!((instance.host.as_str(), instance.port), ("localhost", Some(8080)));
    assert_eq!(instance.metadata["${app.zone}"], "${kept}", "a key is none");

    // The environment is asked before the files, the code before both; all of them whenever one changes.
    let variables =
        [("APP_ZONE", "us"), ("CACHE_TTL", "7s"), ("PORT", "90"), ("EVENKEEL_HINT", "h-${app.zone}")];
    let properties = properties.with_environment(variables).unwrap();
    let users = properties.effective("users");
    assert_eq!((users.zone.as_deref(), users.cache.ttl), (Some("us"), seconds(7)));
    assert_eq!(
        (users.hint.as_deref(), properties.simple_instances()[0].1[0].port),
        (Some("h-us"), Some(9080))
    );
    let properties = properties.with_value("app.zone", "code").unwrap();
    assert_eq!(properties.effective("orders").zone.as_deref(), Some("codeb"));
    let properties = properties.set_for("users", "zone", "${HOST:none}-${app.zone}").unwrap();
    assert_eq!(properties.effective("users").zone.as_deref(), Some("none-code"));
    let properties = properties.set("zone", "set").unwrap();
    assert_eq!(properties.effective("orders").zone.as_deref(), Some("setb"), "a value of ours, set in code");
    assert_eq!(properties.warnings(), []);
}

#[test]
fn one_that_means_nothing_is_an_error_that_says_where() {
    let error = refused(
        "x: ${y}\ny: ${x}\nz: ${gone}\nevenkeel:\n  zone: ${GONE}\n  hint: a${z}\n  cache.ttl: ${x:5s}\n",
    );
    let lines: Vec<String> = error.to_string().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 3, "{error}");
    assert!(
        lines[0].starts_with("application.yml:5: evenkeel.zone = \"${GONE}\": nothing is known"),
        "{error}"
    );
    assert!(lines[0].contains("${GONE:...} gives it a default"), "{error}");
    assert!(
        lines[1].starts_with("application.yml:6: evenkeel.hint") && lines[1].contains("${gone} (from z)")
    );
    assert!(lines[2].contains("in a circle: x -> y -> x"), "{error}");
    // What comes out is checked as any value is.
    let error = refused("a: soon\nevenkeel.cache.ttl: ${a}\n");
    assert_eq!((error.problems()[0].value.as_str(), error.problems().len()), ("soon", 1));
    let error = Properties::default().set("zone", "${gone}").unwrap_err();
    assert!(error.to_string().starts_with("code: evenkeel.zone = \"${gone}\""), "{error}");
    let error = Properties::default().with_environment([("EVENKEEL_ZONE", "${gone}")]).unwrap_err();
    assert!(error.to_string().starts_with("environment variable EVENKEEL_ZONE"), "{error}");
    // Nor is a secret shown.
    let error = refused("evenkeel.sticky-session.secret: abc${gone}\n").to_string();
    assert!(error.contains("******") && !error.contains("abc"), "{error}");
}

#[test]
fn one_that_does_not_count_does_no_harm() {
    let text = "evenkeel: {zone: '${ZONE}', clients: {orders: {zone: '${ZONE}'}}, configurations: ['${A}']}\n---\n\
                evenkeel: {configurations: hint}\n";
    assert_eq!(refused(text).problems().len(), 2);
    // The variable replaces what stands for all, and not what stands for orders.
    let variables = [("EVENKEEL_ZONE", "eu")];
    let late = Properties::default().with_environment([("ZONE", "a")]).unwrap();
    let late = late.with_text("evenkeel.zone: ${ZONE}", Format::Yaml, "application.yml").unwrap();
    assert_eq!(late.effective("x").zone.as_deref(), Some("a"));
    let parse = |text: &str| Properties::parse(text, Format::Yaml, "application.yml");
    assert!(parse(text).is_err());
    let properties =
        Properties::default().with_environment(variables).unwrap().set_for("orders", "zone", "us").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("application.yml");
    std::fs::write(&path, text).unwrap();
    let properties = properties.with_file(&path).unwrap();
    assert_eq!(properties.effective("orders").zone.as_deref(), Some("us"));
    assert_eq!(properties.effective("users").zone.as_deref(), Some("eu"));
}

#[test]
fn secrets_are_shown_nowhere() {
    let properties = yaml("other.password: hidden-1\nevenkeel.sticky-session.secret: hidden-2\n")
        .with_environment([
            ("DB_PASSWORD", "hidden-3"),
            ("EVENKEEL_CLIENTS_A_STICKY_SESSION_SECRET", "hidden-4"),
        ])
        .and_then(|properties| properties.set_for("b", "sticky-session.secret", "hidden-5"))
        .unwrap();
    let shown =
        [format!("{properties:?}"), properties.checked().to_string(), properties.report("b").to_string()];
    for text in shown {
        assert!(!text.contains("hidden"), "{text}");
    }
    assert_eq!(properties.effective("a").sticky_session.secret.as_deref(), Some("hidden-4"));
    let twice = "evenkeel: {sticky-session: {secret: hidden-6}, sticky-session.secret: hidden-7}\n";
    let bad = "spring.profiles: a & b | c\nevenkeel.sticky-session.secret: hidden-8\n";
    for text in [twice, bad] {
        assert!(!refused(text).to_string().contains("hidden"), "{}", refused(text));
    }
}

#[test]
fn secrets_are_shown_in_no_spelling_of_their_key() {
    // A variable that two services could mean is told by its own name.
    let two = "evenkeel.clients: {order-service: , order_service: }";
    for name in ["STICKY_SESSION_SECRET", "STICKYSESSION_SECRET"] {
        let variable = (format!("EVENKEEL_CLIENTS_ORDER_SERVICE_{name}"), "hidden-1");
        let error = yaml(two).with_environment([variable]).unwrap_err().to_string();
        assert!(error.contains("order-service, order_service") && !error.contains("hidden"), "{error}");
    }
    for key in [
        "sticky-session.secrte",
        "sticky-session.secret[0]",
        "stickySession.secret.x",
        "sticky-sesion.secret",
    ] {
        let error = Properties::default().set(key, "hidden-2").unwrap_err().to_string();
        assert!(error.contains(key) && !error.contains("hidden"), "{error}");
    }
    let properties = Properties::default().set("[sticky-session.secret]", "hidden-3").unwrap();
    assert_eq!(properties.effective("a").sticky_session.secret.as_deref(), Some("hidden-3"));
    let shown = format!("{properties:?} {}", properties.checked());
    assert!(!shown.contains("hidden"), "{shown}");
    // An address with a password is refused, and not repeated.
    for uri in ["http://u:hidden-4@h:80/a", "http://u:hid@den-5@h", "http://hidden-6@h"] {
        let error =
            refused(&format!("spring.cloud.discovery.client.simple.instances.o: [uri: '{uri}']")).to_string();
        assert!(error.contains("http://******@h") && !error.contains("hid"), "{error}");
    }
    let text = "spring.cloud.discovery.client.simple.instances.o: [uri: 'http://u:hid/den-7@h']";
    let warning = yaml(text).warnings()[0].to_string();
    assert!(warning.contains("http://******@h") && !warning.contains("hid"), "{warning}");
    // Others are told, since nobody finds a bad value that is not.
    let error = Properties::default().set_for("secret-orders", "cache.ttl", "soon").unwrap_err().to_string();
    assert!(error.contains("soon"), "{error}");
}
