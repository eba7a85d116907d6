//! Spellings: relaxed names, dotted keys, ids, values as written.

use super::*;

#[test]
fn spellings_of_names_are_relaxed() {
    for spelling in ["hard-age", "hardAge", "hard_age", "HARD_AGE", "HardAge", "hardage"] {
        for cache in ["cache", "CACHE", "Cache"] {
            let properties =
                yaml(&format!("Spring: {{cloud.load-balancer: {{{cache}: {{{spelling}: 50s}}}}}}"));
            assert_eq!(
                properties.effective("orders").cache.hard_age,
                Some(seconds(50)),
                "{cache}.{spelling}"
            );
            assert_eq!(properties.warnings(), []);
        }
    }
    for (word, name) in [
        ("LEAST_REQUEST", PolicyName::LeastRequest),
        ("roundRobin", PolicyName::RoundRobin),
        // As Ribbon, Spring, Dubbo and gRPC have them.
        ("com.netflix.loadbalancer.ZoneAvoidanceRule", PolicyName::ZoneAvoidance),
        ("BestAvailableRule", PolicyName::BestAvailable),
        ("AvailabilityFilteringRule", PolicyName::AvailabilityFiltering),
        ("WeightedResponseTimeRule", PolicyName::WeightedResponseTime),
        ("ResponseTimeWeightedRule", PolicyName::WeightedResponseTime),
        ("RandomRule", PolicyName::Random),
        ("RoundRobinLoadBalancer", PolicyName::RoundRobin),
        ("leastactive", PolicyName::LeastActive),
        ("shortestresponse", PolicyName::ShortestResponse),
        ("adaptive", PolicyName::Adaptive),
        ("weighted_round_robin", PolicyName::ClientSideWeightedRoundRobin),
    ] {
        assert_eq!(yaml(&format!("evenkeel.policy: {word}")).effective("x").policy, name);
    }
}

#[test]
fn nested_and_dotted_keys_are_one() {
    for text in [
        "spring.cloud.loadbalancer.cache.ttl: 5s",
        "\"spring.cloud.loadbalancer\": {cache: {ttl: 5s}}",
        "spring: {cloud.loadbalancer.cache: {ttl: 5s}}",
        "spring:\n  cloud:\n    loadbalancer:\n      cache:\n        ttl: 5s",
        "evenkeel[cache][ttl]: 5s",
    ] {
        assert_eq!(yaml(text).effective("orders").cache.ttl, seconds(5), "{text}");
    }
    assert!(refused("evenkeel: {cache.ttl: 5s, cache: {ttl: 6s}}").to_string().contains("given twice"));
    assert!(refused("evenkeel: {cache: {hard-age: 5s, hardAge: 6s}}").to_string().contains("given twice"));
    assert!(refused("evenkeel: {zone: a, zone: a}").to_string().contains("twice"));
}

#[test]
fn service_ids_keep_dots_case_and_spelling() {
    for text in [
        "evenkeel.clients[Billing.Api-v2].cache.ttl: 5s",
        "evenkeel.clients.Billing.Api-v2.cache.ttl: 5s",
        "evenkeel: {clients: {\"[Billing.Api-v2]\": {cache.ttl: 5s}}}",
        "evenkeel: {clients: {Billing.Api-v2: {cache: {ttl: 5s}}}}",
        "evenkeel: {clients: {Billing.Api-v2.: {cache: {ttl: 5s}}}}",
    ] {
        let properties = yaml(text);
        assert_eq!(properties.warnings(), [], "{text}");
        for id in ["Billing.Api-v2", "billing.api-v2", "BILLING.API-V2."] {
            assert_eq!(properties.effective(id).cache.ttl, seconds(5), "{text}: {id}");
        }
        assert_eq!(properties.services()[0].trim_end_matches('.'), "Billing.Api-v2");
    }
    let toml = "[evenkeel.clients.\"Billing.Api-v2\"]\ncache.ttl = \"5s\"\n";
    let properties = Properties::parse(toml, Format::Toml, "a.toml").unwrap();
    assert_eq!(properties.services(), ["Billing.Api-v2"]);
    let properties = Properties::default().set_for("Billing.Api-v2", "cache.ttl", "5s").unwrap();
    assert_eq!(properties.effective("billing.api-v2").cache.ttl, seconds(5));
    // An id whose last name is also a property's first: the shortest id that leaves a known property.
    let properties = yaml("evenkeel.clients.orders.cache.enabled: false");
    assert_eq!(properties.services(), ["orders"]);
}

#[test]
fn hints_of_clients() {
    for text in [
        "evenkeel.clients.orders.hint: blue",
        "evenkeel.clients.orders.hint.orders: blue",
        "evenkeel.clients.orders.hint: {default: blue}",
        "evenkeel: {hint: {orders: green}, clients: {orders: {hint: blue}}}",
        "evenkeel.hint.Orders: blue",
    ] {
        let properties = yaml(text);
        assert_eq!(properties.effective("orders").hint.as_deref(), Some("blue"), "{text}");
        assert_eq!(properties.effective("users").hint, None);
    }
    assert_eq!(yaml("evenkeel.clients.orders.hint.users: blue").warnings().len(), 1);
}

#[test]
fn text_keeps_the_spelling_it_was_written_in() {
    let documents = [
        (
            Format::Yaml,
            "evenkeel: {zone: 1.10, hint: 0123}\nspring.cloud.discovery.client.simple.instances.o:\n\
             - {host: h, metadata: {a: 1.10, b: 0123, c: true, d: on, e: 1e3, f: 0x1F, g: ~}}\n",
        ),
        (
            Format::Json,
            r#"{"evenkeel": {"zone": 1.10, "hint": "0123"}, "spring.cloud.discovery.client.simple.instances.o":
            [{"host": "h", "metadata": {"a": 1.10, "b": "0123", "c": true, "d": "on", "e": 1e3, "f": "0x1F",
            "g": null}}]}"#,
        ),
        (
            Format::Toml,
            "evenkeel.zone = 1.10\nevenkeel.hint = \"0123\"\n[[spring.cloud.discovery.client.simple.instances.o]]\n\
             host = \"h\"\nmetadata = { a = 1.10, b = \"0123\", c = true, d = \"on\", e = 1e3, f = 0x1F }\n",
        ),
    ];
    for (format, text) in documents {
        let properties = Properties::parse(text, format, "file").unwrap();
        let effective = properties.effective("o");
        assert_eq!(effective.zone.as_deref(), Some("1.10"));
        assert_eq!(effective.hint.as_deref(), Some("0123"));
        let metadata = &properties.simple_instances()[0].1[0].metadata;
        let values: Vec<_> = metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let wanted = [("a", "1.10"), ("b", "0123"), ("c", "true"), ("d", "on"), ("e", "1e3"), ("f", "0x1F")];
        assert_eq!(values, wanted, "{format:?}");
    }
}

#[test]
fn words_for_staleness_and_flags() {
    for (text, wanted) in [
        ("true", Staleness::Unbounded),
        ("unbounded", Staleness::Unbounded),
        ("false", Staleness::Off),
        ("off", Staleness::Off),
        ("0", Staleness::Off),
        ("0s", Staleness::Off),
        ("PT5M", Staleness::For(seconds(300))),
        ("1000", Staleness::For(seconds(1))),
    ] {
        assert_eq!(yaml(&format!("evenkeel.stale-if-error: {text}")).effective("x").stale_if_error, wanted);
    }
    for (text, wanted) in
        [("on", true), ("YES", true), ("1", true), ("off", false), ("no", false), ("0", false)]
    {
        assert_eq!(yaml(&format!("evenkeel.enabled: {text}")).effective("x").enabled, wanted, "{text}");
    }
}
