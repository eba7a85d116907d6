//! A real `application.yml`: documents for profiles, imports, the name of the application.

use super::*;

const DOCUMENTS: &str = "
spring:
  application.name: ${APP:shop}
  config.import: [\"optional:configserver:\", file:/etc/more.yml]
  datasource: {url: jdbc:x, list: [[1], {a: b}]}
evenkeel: {zone: plain, cache.ttl: 1s}
---
spring.config.activate.on-profile: prod
evenkeel.zone: prod
server.port: 8443
---
spring.config.activate.on-profile: [\"dev & !slow\", test]
evenkeel.zone: dev
---
spring.profiles: default
evenkeel.zone: default
---
spring.config.activate.on-cloud-platform: kubernetes
evenkeel.cache.ttl: 9s
---
spring: {config.activate.on-profile: prod, profiles.active: dev}
evenkeel.choose-timeout: 3s
";

fn zone(properties: &Properties) -> String {
    properties.effective("orders").zone.unwrap_or_default()
}

#[test]
fn a_document_counts_if_its_profile_is_active() {
    let of =
        |profiles: &str| yaml(DOCUMENTS).with_environment([("SPRING_PROFILES_ACTIVE", profiles)]).unwrap();
    for (profiles, wanted) in [
        ("", "default"),
        ("prod", "prod"),
        ("prod, dev", "dev"),
        ("dev,prod", "dev"),
        ("dev,slow", "plain"),
        ("slow, test", "dev"),
        ("other", "plain"),
        ("Prod", "plain"),
    ] {
        assert_eq!(zone(&of(profiles)), wanted, "{profiles}");
    }
    assert_eq!(zone(&yaml(DOCUMENTS)), "default");
    assert_eq!(yaml(DOCUMENTS).profiles(), ["default"]);
    // The code says it over the environment, in any order of the calls.
    let named = of("prod").with_profiles(["dev"]).unwrap();
    assert_eq!((zone(&named), named.profiles()), ("dev".into(), &["dev".to_owned()][..]));
    let named = yaml(DOCUMENTS).with_profiles(["dev"]).unwrap();
    let named = named.with_environment([("SPRING_PROFILES_ACTIVE", "prod")]).unwrap();
    assert_eq!(zone(&named), "dev");
    assert_eq!(zone(&named.with_profiles(Vec::<String>::new()).unwrap()), "default");
    assert_eq!(of("prod").effective("orders").choose_timeout, seconds(3));
}

#[test]
fn where_the_profiles_are_named() {
    let text = |head: &str| {
        format!(
            "{head}\nevenkeel.zone: plain\n---\nspring.config.activate.on-profile: a\nevenkeel.zone: a\n---\n\
             spring.config.activate.on-profile: b\nevenkeel.zone: b\n"
        )
    };
    for (head, profiles, wanted) in [
        ("spring.profiles.active: a", &["a"][..], "a"),
        ("spring.profiles.active: [a, b]", &["a", "b"], "b"),
        ("spring: {profiles: {active: '${P:b}'}}", &["b"], "b"),
        ("spring.profiles.default: b", &["b"], "b"),
        ("spring.profiles.include: b\nspring.profiles.active: a", &["b", "a"], "b"),
        ("spring.profiles.include: b", &["b"], "b"),
        ("spring.profiles: {active: p, group: {p: [a, q], q: [c, p]}}", &["p", "a", "q", "c"], "a"),
        ("spring.profiles.active: a\n---\nspring.profiles.active: b", &["b"], "b"),
        ("spring.profiles.active: ''", &["default"], "plain"),
        ("x: 1", &["default"], "plain"),
    ] {
        let properties = yaml(&text(head));
        assert_eq!(
            (properties.profiles(), zone(&properties).as_str()),
            (&profiles.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>()[..], wanted),
            "{head}"
        );
        assert_eq!(properties.warnings(), []);
    }
    for name in ["SPRING_PROFILES_ACTIVE", "spring.profiles.active", "SPRING_PROFILES_ACTIVE_0"] {
        let properties = yaml(&text("spring.profiles.active: a")).with_environment([(name, "b")]).unwrap();
        assert_eq!(properties.profiles(), ["b"], "{name}");
    }
    let properties = yaml(&text("")).set("spring.profiles.active", "b").unwrap();
    assert_eq!(zone(&properties), "b");
}

#[test]
fn what_is_asked_for_in_vain_is_named_and_not_fatal() {
    let properties = yaml(DOCUMENTS).with_profiles(["prod"]).unwrap();
    let told: Vec<_> = properties.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(
        told[0].contains("application.yml:4: spring.config.import")
            && told[0].contains("optional:configserver:")
    );
    assert!(told[1].contains("file:/etc/more.yml"), "{told:?}");
    assert!(told[2].contains("spring.profiles.active: not read in a document"), "{told:?}");
    // A document that does not count is not heard of.
    assert_eq!(yaml(DOCUMENTS).warnings().len(), 2);
    // One that cannot be told to count is an error if there is anything of ours in it.
    let bad = "spring.config.activate.on-profile: a & b | c\n";
    let error = refused(&format!("x: 1\n---\n{bad}evenkeel.zone: z\n")).to_string();
    assert!(
        error.starts_with("application.yml:4: evenkeel.zone = \"z\": the document cannot be used"),
        "{error}"
    );
    assert_eq!(yaml(bad).warnings(), []);
    // Nor is a bad value in one.
    let other = "evenkeel.zone: a\n---\nspring.config.activate.on-profile: p\nevenkeel: {cache.ttl: soon, zonee: x}\n";
    assert_eq!(yaml(other).warnings(), []);
    assert_eq!(yaml(other).with_profiles(["p"]).unwrap_err().problems().len(), 1);
    // A bad value that a later document replaces does not count either.
    assert!(Properties::parse("evenkeel.zone: ${X}\n---\nevenkeel.zone: a\n", Format::Yaml, "x").is_ok());
}

#[test]
fn the_platform_is_told_by_its_variables() {
    let ttl = |variables: &[(&str, &str)]| {
        let properties = yaml(DOCUMENTS).with_environment(variables.iter().copied()).unwrap();
        properties.effective("orders").cache.ttl
    };
    assert_eq!(ttl(&[]), seconds(1));
    assert_eq!(ttl(&[("KUBERNETES_SERVICE_HOST", "10.0.0.1")]), seconds(9));
    assert_eq!(ttl(&[("VCAP_APPLICATION", "{}")]), seconds(1));
    assert_eq!(ttl(&[("SPRING_MAIN_CLOUD_PLATFORM", "Kubernetes")]), seconds(9));
    let none = [("SPRING_MAIN_CLOUD_PLATFORM", "none"), ("KUBERNETES_SERVICE_HOST", "10.0.0.1")];
    assert_eq!(ttl(&none), seconds(1));
}

#[test]
fn the_application_has_a_name_and_a_subset_of_its_own() {
    let properties = yaml(DOCUMENTS);
    assert_eq!((properties.application_name(), properties.instance_id()), (Some("shop"), Some("shop")));
    let variables = [("APP", "stall"), ("SPRING_PROFILES_ACTIVE", "prod"), ("HOSTNAME", "pod-7")];
    let properties = properties.with_environment(variables).unwrap();
    assert_eq!(properties.application_name(), Some("stall"));
    assert_eq!(properties.effective("orders").subset.instance_id.as_deref(), Some("pod-7:stall:8443"));
    // What is set wins, a blank is no value (cases 91 and 92).
    let set = |text: &str| {
        let properties =
            yaml(&format!("foo: bar\nserver.port: 80\nevenkeel.clients.a.subset.instance-id: {text}\n"));
        properties.effective("a").subset.instance_id
    };
    assert_eq!((set("${foo}").as_deref(), set("''").as_deref()), (Some("bar"), Some("80")));
    // Nothing is known: nothing is made up (case 101).
    assert_eq!(yaml("evenkeel.zone: a").effective("a").subset.instance_id, None);
    let properties = Properties::default().set("spring.application.name", "code").unwrap();
    assert_eq!(properties.application_name(), Some("code"));
    // A change of the name alone is a change.
    let live = evenkeel::config::LiveProperties::new(properties.clone());
    assert!(live.replace(properties.set("spring.application.name", "other").unwrap()));
}

#[test]
fn every_source_may_include_profiles() {
    let text = "spring.profiles.include: common\n---\nspring.profiles.include: [more, common]\n";
    let variables = [("SPRING_PROFILES_INCLUDE_0", "extra"), ("SPRING_PROFILES_ACTIVE", "prod")];
    let properties = yaml(text).with_environment(variables).unwrap();
    assert_eq!(properties.profiles(), ["extra", "more", "common", "prod"]);
    let properties = properties.set("spring.profiles.include", "code").unwrap();
    assert_eq!(properties.profiles(), ["code", "extra", "more", "common", "prod"]);
}

#[test]
fn profiles_that_cannot_be_told_are_an_error() {
    // With no profile at all, the values for development would be in force.
    let dev = "evenkeel.zone: plain\n---\nspring.config.activate.on-profile: '!prod'\nevenkeel.zone: dev\n";
    for (key, text) in [
        ("spring.profiles.active", "${STAGE}"),
        ("spring.profiles.include", "a, ${STAGE}"),
        ("spring.profiles.group.default", "${STAGE}"),
    ] {
        let file = format!("x: 1\n{key}: '{text}'\n{dev}");
        let error = refused(&file).to_string();
        assert!(error.starts_with(&format!("application.yml:2: {key} = \"{text}\": ")), "{error}");
        assert!(error.contains("${STAGE}"), "{error}");
        let properties = Properties::default().with_environment([("STAGE", "prod")]).unwrap();
        let properties = properties.with_text(file, Format::Yaml, "application.yml").unwrap();
        assert_eq!(zone(&properties), "plain", "{key}");
    }
    let error = yaml(dev).with_environment([("SPRING_PROFILES_ACTIVE", "${STAGE}")]).unwrap_err();
    assert!(error.to_string().starts_with("environment variable SPRING_PROFILES_ACTIVE: "), "{error}");
    // What the code names does not ask.
    let properties = yaml(dev).with_profiles(["prod"]).unwrap();
    assert_eq!(
        zone(&properties.with_environment([("SPRING_PROFILES_ACTIVE", "${STAGE}")]).unwrap()),
        "plain"
    );
}

#[test]
fn the_profiles_of_a_document_may_be_placeholders() {
    let text = |on: &str| {
        format!(
            "app.stage: prod\nspring.profiles.active: prod\nevenkeel.zone: plain\n---\n\
             spring.config.activate.on-profile: '{on}'\nevenkeel.zone: of it\n"
        )
    };
    for (on, wanted) in [
        ("${app.stage}", "of it"),
        ("!${app.stage}", "plain"),
        ("${app.other:test, prod}", "of it"),
        ("${app.other:test} | dev", "plain"),
        ("${app.other:}", "of it"),
    ] {
        assert_eq!(zone(&yaml(&text(on))), wanted, "{on}");
    }
    let error = refused(&text("!${app.other}")).to_string();
    assert!(error.contains("the document cannot be used") && error.contains("${app.other}"), "{error}");
}

#[test]
fn a_subset_of_clients_that_nothing_tells_apart_is_warned_of() {
    let text = "spring.application.name: shop\nserver.port: 80\nevenkeel.clients.orders.configurations: weighted, subset\n";
    let properties = yaml(text);
    let [warning] = properties.warnings() else { panic!("{:?}", properties.warnings()) };
    let warning = warning.to_string();
    assert!(
        warning.starts_with("application.yml:3: evenkeel.clients.orders.configurations: ")
            && warning.contains("\"shop:80\"")
            && warning.contains("subset.ordinal"),
        "{warning}"
    );
    for more in [
        "spring.cloud.client.hostname: pod-7",
        "spring.application.instance_id: '7'",
        "evenkeel.subset.instance-id: pod-7",
        "evenkeel.clients.orders.subset.ordinal: 7",
    ] {
        assert_eq!(yaml(&format!("{text}{more}\n")).warnings(), [], "{more}");
    }
    assert_eq!(yaml(text).with_environment([("HOSTNAME", "pod-7")]).unwrap().warnings(), []);
    assert_eq!(yaml(&text.replace(", subset", "")).warnings(), []);
    // Where nothing at all is known, each process draws an id of its own.
    assert_eq!(yaml("evenkeel.configurations: subset").warnings(), []);
}
