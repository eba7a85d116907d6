//! Texts nobody meant to write: random, cut, changed, deep, large.

use super::*;
use proptest::prelude::*;
use std::fmt::Write as _;

const FORMATS: [Format; 3] = [Format::Yaml, Format::Toml, Format::Json];

const TOML: &str = "[evenkeel]\nzone = 'a'\nclients.\"b.c\".cache = { ttl = \"5s\", hard-age = 1_0 }\n\
                    [[evenkeel.routing]]\nmetadata = \"v\"\nheader = \"h\"\n\
                    [[spring.cloud.discovery.client.simple.instances.o]]\nuri = \"http://[::1]:80/\"\n";
const JSON: &str = "{\"evenkeel\": {\"zone\": 1.10, \"clients\": {\"b.c\": {\"cache\": {\"ttl\": \"5s\"}}},\n\
                    \"routing[0]\": {\"metadata\": \"v\", \"header\": \"\\u0068\", \"fallback\": [\"a\", \"b\"]}},\n\
                    \"spring.cloud.discovery.client.simple.instances.o\": [{\"uri\": \"http://[::1]:80/\"}]}\n";

/// Reads a text and all that can be asked of it; whether it is right does not matter, that it returns does.
fn exercise(bytes: &[u8], format: Format) {
    if let Ok(properties) = Properties::parse(bytes, format, "fuzz") {
        for service in properties.services() {
            let _ = properties.effective(service);
        }
        let _ = (properties.global(), properties.simple_instances(), properties.report("c").to_string());
    }
}

fn valid(format: Format) -> String {
    match format {
        Format::Toml => TOML.into(),
        Format::Json => JSON.into(),
        _ => format!(
            "{EVERYTHING}\n---\nspring: {{cloud.discovery.client.simple.instances.o: [{{uri: 'http://[::1]:80/'}}]}}\n\
             base: &b {{ttl: 5s}}\nevenkeel: {{clients: {{c: {{cache: {{<<: *b}}}}}}}}\n"
        ),
    }
}

#[test]
fn every_truncation_of_a_valid_text_returns() {
    for format in FORMATS {
        let text = valid(format);
        assert!(Properties::parse(&text, format, "whole").is_ok());
        for end in 0..text.len() {
            exercise(&text.as_bytes()[..end], format);
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_return(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for format in FORMATS {
            exercise(&bytes, format);
        }
    }

    #[test]
    fn random_structure_returns(text in r#"[\[\]{}:,.\-?&*!|>#'"%@ \n\ta-c0-9<=~]{0,200}"#) {
        for format in FORMATS {
            exercise(text.as_bytes(), format);
            exercise(format!("evenkeel.{text}").as_bytes(), format);
        }
    }

    #[test]
    fn mutations_of_a_valid_text_return(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..3), 1..8),
    ) {
        for format in FORMATS {
            let mut bytes = valid(format).into_bytes();
            for (at, byte, kind) in &changes {
                let at = at.index(bytes.len());
                match kind {
                    0 => bytes[at] = *byte,
                    1 => bytes.insert(at, *byte),
                    _ => { bytes.remove(at); }
                }
            }
            exercise(&bytes, format);
        }
    }

    #[test]
    fn random_placeholders_return(text in r"[${}:\\a-c.\[\]0]{0,60}", other in r"[${}:a-c]{0,30}") {
        let _ = Properties::default()
            .with_value("a", &other)
            .and_then(|properties| properties.with_environment([("B", &text)]))
            .and_then(|properties| properties.set("zone", &text));
        let file = format!(
            "a: '{other}'\nb.c: ['{text}']\nspring.config.activate.on-profile: '{text}'\nevenkeel.zone: '{text}'\n"
        );
        exercise(file.as_bytes(), Format::Yaml);
    }

    #[test]
    fn random_keys_and_values_return(key in "[a-zA-Z.\\[\\]0-9_\\-]{0,60}", value in ".{0,30}") {
        let _ = Properties::default().set(&key, &value);
        let _ = Properties::default().set_for("a", &key, &value);
        let names = ["EVENKEEL_", "EVENKEEL_CLIENTS_", "SPRING_CLOUD_DISCOVERY_CLIENT_SIMPLE_INSTANCES_", ""];
        for name in names {
            let _ = Properties::default().with_environment([(format!("{name}{key}"), value.clone())]);
        }
    }

    /// JSON is read by the reader for YAML: they must agree on everything that is JSON.
    #[test]
    fn what_is_json_is_read_as_json(text in "\\PC{0,40}", key in "\\PC{1,20}", pretty in any::<bool>()) {
        // A placeholder would be looked up.
        let text = text.replace("${", "$ {");
        let value = serde_json::json!({
            "evenkeel": {"zone": text, "empty": [], "none": {}},
            "spring.cloud.discovery.client.simple.instances": {"o": [{"host": "h", "metadata": {"k": text}}]},
            "other": {key: [text, 1.5e300, -0.0, true, null, {"a": [[]]}]},
        });
        let written = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let written = written.unwrap().replace("\n  ", "\n\t");
        let properties = Properties::parse(&written, Format::Json, "j")
            .map_err(|error| TestCaseError::fail(format!("{error}\n{written}")))?;
        prop_assert_eq!(properties.effective("o").zone.unwrap_or_default(), text.trim());
        prop_assert_eq!(&properties.simple_instances()[0].1[0].metadata["k"], &text);
    }
}

#[test]
fn depth_and_size_are_limited() {
    let deep = 100_000;
    for (format, text) in [
        (Format::Yaml, "[".repeat(deep)),
        (Format::Yaml, "{a: ".repeat(deep)),
        (Format::Yaml, (0..500).fold(String::new(), |text, at| text + &" ".repeat(at) + "a:\n")),
        (Format::Yaml, "- ".repeat(deep)),
        (Format::Yaml, "? ".repeat(deep)),
        (Format::Json, format!("{}{}", "[".repeat(deep), "]".repeat(deep))),
        (Format::Json, format!("{}1{}", "{\"a\":".repeat(100), "}".repeat(100))),
        (Format::Toml, format!("a = {}{}", "[".repeat(deep), "]".repeat(deep))),
        (Format::Yaml, " ".repeat(1 << 21)),
        (Format::Yaml, "---\na: 1\n".repeat(2_000)),
    ] {
        assert!(Properties::parse(&text, format, "deep").is_err());
    }
    let laughs = (0..30).fold(String::from("a0: &a0 [x, x]\n"), |mut text, at| {
        let _ = writeln!(text, "a{}: &a{} [*a{at}, *a{at}, *a{at}]", at + 1, at + 1);
        text
    });
    assert!(Properties::parse(laughs, Format::Yaml, "laughs").is_err());
    assert!(Properties::parse("a: &a [*a]", Format::Yaml, "self").is_err());
    // A long text is short to repeat, and a long key is repeated for each value below it.
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), "*a, ".repeat(10_000));
    assert!(Properties::parse(text, Format::Yaml, "texts").unwrap_err().to_string().contains("repeat more"));
    let entries = (0..20_000).fold(String::new(), |text, at| text + &format!("a{at} = 1\n"));
    let text = format!("[evenkeel.{}]\n{entries}", "k".repeat(300_000));
    let error = Properties::parse(text, Format::Toml, "keys").unwrap_err();
    assert!(error.problems().len() == 1 && error.to_string().len() < 1_000, "{error}");
    let text = format!("[{}]\n{entries}", "k".repeat(300_000));
    assert_eq!(Properties::parse(text, Format::Toml, "foreign").unwrap().warnings(), []);
}

/// Values that refer to each other grow as fast as aliases do.
#[test]
fn placeholders_are_limited() {
    for leaf in ["x".repeat(1000), String::new()] {
        let mut text = format!("p40: '{leaf}'\nevenkeel.zone: ${{p0}}\n");
        for at in 0..40 {
            let _ = writeln!(text, "p{at}: ${{p{}}}${{p{}}}", at + 1, at + 1);
        }
        let error = Properties::parse(text, Format::Yaml, "laughs").unwrap_err().to_string();
        assert!(
            error.contains("laughs:2: evenkeel.zone")
                && (error.contains("more than") || error.contains("too many")),
            "{error}"
        );
    }
    // Many values that each are cheap do not add up to minutes.
    let mut text = String::from("big: ");
    text.push_str(&"y".repeat(100_000));
    text.push_str("\nevenkeel.hint:\n");
    for at in 0..10_000 {
        let _ = writeln!(text, "  h{at}: ${{big}}");
    }
    assert!(Properties::parse(text, Format::Yaml, "many").unwrap_err().to_string().contains("bytes"));
    let deep = format!("evenkeel.zone: {}{}\n", "${a:".repeat(50_000), "}".repeat(50_000));
    assert!(Properties::parse(deep, Format::Yaml, "deep").is_err());
    let groups = "spring.profiles: {active: a, group: {a: b, b: 'a, c'}}\nevenkeel.zone: z\n";
    assert_eq!(Properties::parse(groups, Format::Yaml, "groups").unwrap().profiles(), ["a", "b", "c"]);
    let many = (0..500).fold(String::new(), |text, at| text + &format!("p{at},"));
    let text = format!("spring.profiles.active: {many}\nevenkeel.zone: z\n");
    let properties = Properties::parse(text, Format::Yaml, "profiles").unwrap();
    assert!(properties.warnings()[0].reason.contains("more than 64 profiles"), "{:?}", properties.warnings());
}

/// Large texts that would run for minutes if anything here grew faster than its input.
#[test]
fn large_texts_are_read_in_time() {
    let room = 300_000;
    let many = |line: fn(usize) -> String| {
        let mut text = String::from("evenkeel:\n");
        for at in 0.. {
            let line = line(at);
            if text.len() + line.len() > room {
                break;
            }
            text.push_str(&line);
        }
        text
    };
    let texts = [
        many(|at| format!("  clients.c{at}.cache.ttl: 5s\n")),
        many(|at| format!("  clients.c{at}: {{}}\n")),
        many(|at| format!("  unknown-{at}: 5s\n")),
        many(|at| format!("  hint.h{at}: ${{k{at}:a${{b:c}}}}\n")),
        many(|at| format!("  clients.c{at}.api-version.media-type-parameters.a/b: v\n")),
        many(|at| format!("  zookeeper.c{at}: v\n")),
        many(|at| format!("  hint.h{at}: 5s\n")),
        many(|at| format!("  routing[{at}].metadata: m\n")),
        format!("evenkeel.{}: 1\n", "a.".repeat(room / 2)),
        format!("evenkeel.clients.{}cache.ttl: 1\n", "a.".repeat(room / 2 - 20)),
        format!("evenkeel: {{ {}: {{ {} }} }}\n", "a.".repeat(500), "b, ".repeat(300)),
        many(|at| format!("  hint.h{at}: ${{no{at}:x}}\n")) + &"---\na: 1\n".repeat(900),
        "---\nspring.config.activate.on-profile: '!(a | b)'\nevenkeel.zone: z\n".repeat(1_000),
        format!("evenkeel.zone: \"{}\"\n", "z".repeat(room)),
        format!("evenkeel.zone: {}\n", "z: ".repeat(room / 3)),
        format!("a: [{}]\n", "[],".repeat(60_000)),
        format!("evenkeel: {}\n", "{a: [".repeat(room / 5)),
        format!("evenkeel.configurations: {}hint\n", "hint,".repeat(room / 6)),
    ];
    for text in texts {
        exercise_once(text.as_bytes());
    }
}

fn exercise_once(bytes: &[u8]) {
    if let Ok(properties) = Properties::parse(bytes, Format::Yaml, "large") {
        let _ = (properties.services().len(), properties.effective("c1"), properties.global());
        let _ = properties.with_environment([("EVENKEEL_CLIENTS_C1_CACHE_TTL", "5s")]);
    }
}
